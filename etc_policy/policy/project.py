"""What reading a project gives: the policies that could be read, with the place of each part, and all that is wrong so far."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import BaseModel

from etc_policy.errors import Issue, Where
from etc_policy.errors.codes import Code
from etc_policy.errors.plain_text import escaped, one_line, without_passwords
from etc_policy.policy.hudi_options import keys_of
from etc_policy.policy.manifest import Policy
from etc_policy.policy.project_schema import Folders, Notify, Target
from etc_policy.policy.schema import PolicyDeclaration, Tables
from etc_policy.policy.schema_values import FOLDER_MARK, TABLE_MARK
from etc_policy.policy.secrets import is_secret, without_secret
from etc_policy.policy.yaml_marks import Places, value_at


@dataclass(frozen=True, slots=True)
class DeclaredPolicy:
    """A policy that is right by itself, with the place of each of its keys; `values` are as merged, before defaults."""

    declaration: PolicyDeclaration
    places: Places
    values: Mapping[str, object] = field(repr=False)
    #: The namespace that found its table; None where the policy names the table itself.
    found_by: str | None = None
    #: The table's folder, where a glob of `for_each` has found it.
    folder: str | None = None

    def where(self, *keys: str, at_key: bool = False) -> Where:
        """The place of a value of the policy, found by its keys."""
        return self.places.where(keys, self.title, at_key=at_key)

    def issue(
        self, code: Code, message: str, hint: str | None, *keys: str, at_key: bool = False, level: str = "error"
    ) -> Issue:
        """What is wrong with a value of the policy, found by its keys."""
        return Issue(code, message, self.where(*keys, at_key=at_key), hint, level)

    @property
    def title(self) -> str:
        """Its name as messages show it: a reference where it came from the environment."""
        name = self.values.get("name")
        return str(without_secret(name)) if is_secret(name) else self.declaration.name

    def is_hidden(self, *keys: str) -> bool:
        """Whether a value of the policy, found by its keys, came from the environment."""
        return is_secret(value_at(self.values, keys))

    def shown(self, *keys: str) -> str:
        """The value at the keys as messages show it: not long, and a reference where it came from the environment."""
        return without_passwords(str(without_secret(value_at(self.values, keys)))).strip()[:60]

    @property
    def source(self) -> str:
        """`file:line:column` of the policy's name, the file relative to the project."""
        return self.places.source(("name",))


@dataclass(frozen=True, slots=True)
class RefusedFolder:
    """What a glob of `for_each` has found and makes no policy, by a fault that is not one of the files."""

    folder: str
    issue: Issue
    places: Places

    @property
    def warning(self) -> Issue:
        """What is said of it where no table is looked up."""
        message = f"`{one_line(self.folder)[:200]}` is left out: {self.issue.message}"
        return replace(self.issue, message=message, level="warning")


@dataclass(frozen=True, slots=True)
class DeclaredNamespace:
    """A policy that has `tables`; `policy` is that of each table but for its name and table, which are still patterns."""

    tables: Tables
    exclude: tuple[str, ...]
    policy: DeclaredPolicy

    def policy_of(self, table: str, folder: str, location: str) -> DeclaredPolicy:
        """The policy of the table with that name, in a folder or database with that one."""
        declared = self.policy.declaration

        def filled(pattern: str) -> str:
            return pattern.replace(TABLE_MARK, table).replace(FOLDER_MARK, folder)

        name, ro_table = filled(declared.name), declared.sync.ro_table
        changes: dict[str, object] = {"name": name, "table": location}
        if ro_table is not None:
            changes["sync"] = declared.sync.model_copy(update={"ro_table": filled(ro_table)})
        values = {**self.policy.values, "name": name, "table": location}
        declaration = declared.model_copy(update=changes)
        return DeclaredPolicy(declaration, self.policy.places, values, found_by=str(self.tables))


@dataclass(frozen=True, slots=True)
class ProjectFiles:
    """A project as read: `project_dir` is absolute, `issues` are those of files and single values.

    `name` and `folders` are those of etc_project.yml; `target` is where this run takes place, at `target_places`; `texts` are
    the files by the path that errors name; `variables` are those that were given beside the files;
    `notify` says where messages about problems are sent. `refused` are folders that stop no other table.
    """

    project_dir: str
    policies: tuple[DeclaredPolicy, ...]
    issues: tuple[Issue, ...]
    name: str | None = None
    target: Target = field(default_factory=Target)
    texts: Mapping[str, str] = field(default_factory=dict, repr=False)
    target_places: Places | None = None
    variables: Mapping[str, object] = field(default_factory=dict)
    folders: Folders = field(default_factory=Folders)
    notify: Notify | None = None
    namespaces: tuple[DeclaredNamespace, ...] = ()
    refused: tuple[RefusedFolder, ...] = ()

    @property
    def declared(self) -> tuple[DeclaredPolicy, ...]:
        """What its files say, each once: policies that name their table, and those of namespaces."""
        own = (policy for policy in self.policies if policy.found_by is None)
        return (*own, *(namespace.policy for namespace in self.namespaces))


_PLAIN = re.compile(r"[A-Za-z/][\w ./+-]*(?::(?=\S)[\w./+-]*)*|(?:\d+ ?[A-Za-z]+)+")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off"})
_DEFAULT = "default"


def render_provenance(declared: DeclaredPolicy, policy: Policy, target: Target) -> str:
    """The policy with all its keys; each value is followed by `# file:line:column`, or by `# default`."""
    lines = list(_lines(declared, policy, target))
    width = min(max(len(text) for text, _ in lines), 40)
    return "".join(f"{text:<{width}}  # {one_line(source)}".rstrip(" #") + "\n" for text, source in lines)


def _lines(declared: DeclaredPolicy, policy: Policy, target: Target) -> Iterator[tuple[str, str]]:
    given, strategy = _spelled_out(declared.values), declared.declaration.strategy
    others = {name for key, name in strategy.names_by_key().items() if key not in ("type", *keys_of(strategy.type))}
    values = declared.declaration.model_dump(exclude={"strategy": others}, by_alias=True)

    def below(path: tuple[str, ...], defaults: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        indent = "  " * len(path)
        for key, default in defaults.items():
            whole = (*path, key)
            source = declared.places.source(whole) if _is_given(given, whole) else _DEFAULT
            if whole == ("table",):
                yield f"table: {_text(policy.table)}", source
            elif whole == ("writer", "lock") and not default and policy.writer.lock:
                yield f"{indent}lock:", ""
                for name, value in policy.writer.lock.items():
                    yield f"{indent}  {_text(name)}: {_text(value)}", f"target {target.name}"
            elif isinstance(default, dict) and default:
                yield f"{indent}{_text(key)}:", ""
                yield from below(whole, default)
            elif whole != ("extends",) or default is not None:
                value = value_at(given, whole) if source != _DEFAULT else default
                yield f"{indent}{_text(key)}: {_text(value)}", source

    return below((), _with_defaults_as_written(declared.declaration, values))


def _is_given(values: Mapping[str, Any], path: tuple[str, ...]) -> bool:
    around = value_at(values, path[:-1])
    return isinstance(around, Mapping) and path[-1] in around


def _with_defaults_as_written(model: BaseModel, values: dict[str, Any]) -> dict[str, Any]:
    """The values of a model; a default that stands for another value, such as `60s`, is there as it is written."""
    for name, info in type(model).model_fields.items():
        part, key = getattr(model, name), info.alias or name
        if isinstance(part, BaseModel) and key in values:
            values[key] = _with_defaults_as_written(part, values[key])
        elif info.validate_default and name not in model.model_fields_set:
            values[key] = info.default
    return values


def _spelled_out(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with a bare column name as the mapping that it means."""
    column = values.get("event_time_column")
    return {**values, "event_time_column": {"column": column}} if isinstance(column, str) else dict(values)


def _text(value: Any) -> str:  # noqa: ANN401 - any YAML value
    if is_secret(value):
        return escaped(json.dumps(without_secret(value), ensure_ascii=False))
    if value is None:
        return ""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS and value == value.strip():
        return value
    return escaped(json.dumps(_shown(value), ensure_ascii=False, default=str))


def _shown(value: Any) -> Any:  # noqa: ANN401 - any YAML value
    """The value as JSON knows it, with what replaces texts of the environment at any depth."""
    if isinstance(value, list | tuple):
        return [_shown(item) for item in value]
    if isinstance(value, dict):
        return {key: _shown(item) for key, item in value.items()}
    return without_secret(value)
