"""What a policy came to, as YAML, with the line that each value came from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from etc_policy.errors.plain_text import escaped, one_line
from etc_policy.policy.hudi_options import keys_of
from etc_policy.policy.manifest import Policy
from etc_policy.policy.project import DeclaredPolicy
from etc_policy.policy.secrets import is_secret, without_secret
from etc_policy.policy.targets import Target
from etc_policy.policy.yaml_marks import value_at

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
    for name, field in type(model).model_fields.items():
        part, key = getattr(model, name), field.alias or name
        if isinstance(part, BaseModel) and key in values:
            values[key] = _with_defaults_as_written(part, values[key])
        elif field.validate_default and name not in model.model_fields_set:
            values[key] = field.default
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
