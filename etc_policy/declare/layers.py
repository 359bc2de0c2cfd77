"""Lays a policy over its template and its folder's defaults: mappings are merged in depth, all else is replaced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from etc_policy.declare.project import FileMarks, Places
from etc_policy.declare.yaml_marks import YamlPath

_COLUMN = "event_time_column"


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
