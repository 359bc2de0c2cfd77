"""Lays a policy over its template and its folder's defaults: mappings are merged in depth, all else is replaced.

Defaults of folders are in etc_project.yml, written as in dbt: `+key: value`, and folders with the same inside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from etc_policy.errors import Issue
from etc_policy.errors.codes import Code
from etc_policy.policy.project import FileMarks, Places
from etc_policy.policy.schema import PolicyDeclaration
from etc_policy.policy.schema_values import LEARNED
from etc_policy.policy.suggestions import did_you_mean
from etc_policy.policy.yaml_marks import YamlPath

_COLUMN = "event_time_column"
DEFAULT_KEYS = [key for key in PolicyDeclaration.names_by_key() if key not in ("name", "table", LEARNED)]


@dataclass(frozen=True, slots=True)
class Layer:
    """Keys of a policy that are in one place: each with its value and its path in `file`."""

    file: FileMarks
    entries: Mapping[str, tuple[Any, YamlPath]] = field(default_factory=dict)


def layer_of(value: Mapping[str, Any], file: FileMarks, path: YamlPath) -> Layer:
    """A mapping of a file as a layer."""
    return Layer(file, {key: (item, (*path, key)) for key, item in value.items()})


def merge(layers: Iterable[Layer], file: FileMarks, path: YamlPath) -> tuple[dict[str, Any], Places]:
    """The layers laid over each other, the last on top, with the place of each part; `path` is the policy's own."""
    merged: dict[str, Any] = {}
    origins: dict[YamlPath, tuple[FileMarks, YamlPath]] = {}
    for layer in layers:
        for key, (value, place) in layer.entries.items():
            if key == _COLUMN:
                _spell_out(merged, value, origins)
            _put(merged, key, value, (key,), (layer.file, place), origins)
    return merged, Places(file, path, origins)


def _put(
    into: dict[str, Any],
    key: str,
    value: Any,  # noqa: ANN401 - any YAML value
    path: YamlPath,
    origin: tuple[FileMarks, YamlPath],
    origins: dict[YamlPath, tuple[FileMarks, YamlPath]],
) -> None:
    old = into.get(key)
    if isinstance(old, dict) and isinstance(value, dict):
        below = origins.get(path)
        for inner in old:
            if below is not None:
                origins.setdefault((*path, inner), (below[0], (*below[1], inner)))
        origins[path] = origin
        into[key] = old = dict(old)
        for inner, item in value.items():
            _put(old, inner, item, (*path, inner), (origin[0], (*origin[1], inner)), origins)
        return
    if isinstance(old, dict | list):
        for stale in [known for known in origins if known[: len(path)] == path]:
            del origins[stale]
    into[key] = value
    origins[path] = origin


def _spell_out(merged: dict[str, Any], value: object, origins: dict[YamlPath, tuple[FileMarks, YamlPath]]) -> None:
    """A bare column name below a mapping without `column` is the mapping's column."""
    old = merged.get(_COLUMN)
    if isinstance(old, str) and isinstance(value, dict) and "column" not in value:
        merged[_COLUMN] = {"column": old}
        origins[(_COLUMN, "column")] = origins[(_COLUMN,)]


@dataclass(frozen=True, slots=True)
class FolderDefaults:
    """`policies:` of the project file: `values` with their places in `file`."""

    values: Mapping[str, Any]
    file: FileMarks

    def layers(self, parts: Iterable[str]) -> Iterator[Layer]:
        """The layers for a policy file, outermost first; `parts` are its folders and its own name without suffix."""
        node: Any = self.values
        path: YamlPath = ("policies",)
        yield self._layer(node, path)
        for part in parts:
            node, path = node.get(part), (*path, part)
            if not isinstance(node, dict):
                return
            yield self._layer(node, path)

    def _layer(self, node: Mapping[str, Any], path: YamlPath) -> Layer:
        entries = {key[1:]: (value, (*path, key)) for key, value in node.items() if key.startswith("+")}
        return Layer(self.file, entries)

    def all_layers(self) -> Iterator[Layer]:
        """Every layer, used or not."""
        return (self._layer(node, path) for node, path in self._nodes(self.values, ("policies",)))

    def issues(self, files: Iterable[tuple[str, ...]]) -> Iterator[Issue]:
        """Unknown keys, and folders that no policy file (given by its parts) lies in."""
        known = {parts[:length] for parts in files for length in range(len(parts) + 1)}
        for node, path in self._nodes(self.values, ("policies",)):
            for key, value in node.items():
                yield from self._key_issues(key, value, path)
            if path[1:] not in known:
                message = f"there is no folder or file `{'/'.join(str(part) for part in path[1:])}` among the policies"
                names = {"/".join(parts) for parts in known if parts}
                hint = did_you_mean("/".join(str(part) for part in path[1:]), names)
                where = self.file.where(path, at_key=True)
                yield Issue(Code.UNUSED_DEFAULTS, message, where, hint, level="warning")

    def _key_issues(self, key: str, value: object, path: YamlPath) -> Iterator[Issue]:
        where = self.file.where((*path, key), at_key=True)
        if not key.startswith("+"):
            if not isinstance(value, dict):
                hint = (
                    f"write `+{key}`"
                    if key in DEFAULT_KEYS
                    else did_you_mean(key, DEFAULT_KEYS) or "a folder holds a mapping"
                )
                yield Issue(Code.WRONG_TYPE, f"`{key[:60]}` must be a folder's defaults", where, hint)
        elif key[1:] not in DEFAULT_KEYS:
            no_default = key in ("+name", "+table")
            message = f"`{key}` is different for each policy" if no_default else f"unknown key `{key[:60]}`"
            near = "remove it" if no_default else did_you_mean(key, [f"+{known}" for known in DEFAULT_KEYS])
            yield Issue(Code.UNKNOWN_KEY, message, where, near or "the keys are those of a policy, with `+`")

    def _nodes(self, node: Mapping[str, Any], path: YamlPath) -> Iterator[tuple[Mapping[str, Any], YamlPath]]:
        yield node, path
        for key, value in node.items():
            if not key.startswith("+") and isinstance(value, dict):
                yield from self._nodes(value, (*path, key))
