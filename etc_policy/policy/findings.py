"""Turns what pydantic finds into issues: in the reader's words, at the key or value, with a hint."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from etc_policy.errors import Issue
from etc_policy.errors.codes import Code
from etc_policy.policy.quantities import QuantityError
from etc_policy.policy.schema_values import LEARNED, NoVariableError
from etc_policy.policy.scope import without_blank
from etc_policy.policy.secrets import has_env_value, is_secret, without_secret
from etc_policy.policy.suggestions import did_you_mean, listed, nearest
from etc_policy.policy.yaml_marks import Places, YamlPath

_KINDS = {
    "string_type": "text",
    "bool_type": "`true` or `false`",
    "bool_parsing": "`true` or `false`",
    "int_type": "a whole number",
    "float_type": "a number",
    "greater_than": "above {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le}",
    "dict_type": "a mapping",
    "tuple_type": "a list",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "union": "text, a number or `true`/`false`",
    "number": "a number",
}
_NUMBERS = {"int_type", "float_type", "number", "greater_than", "greater_than_equal", "less_than_equal"}
#: So many faults of one value are reported; whoever has more has another problem.
MAX_FINDINGS = 200
#: The kinds of fault of a union's branches, whose names pydantic adds to the location.
_BRANCH_KINDS = {"string_type", "bool_type", "int_type", "float_type"}
_BRANCHES = {"str", "bool", "int", "float"}
#: What needs no quotes in a YAML list.
_PLAIN = re.compile(r"[\w./][\w./*=-]*")
_VARIABLE = "write the name of the variable here, and the secret into the variable"
_NUMBER = re.compile(r"-?[0-9]+([.][0-9]+)?")
_NAME_HINT = "begin with a lower-case letter, then lower-case letters, digits, `_` and `-`, 100 at most"
#: What to write where a key is missing.
_EXAMPLES: Mapping[str | int, str] = {
    "version": "write `version: 1` at the top",
    "policies": "write `policies:` with a list of policies",
    "name": "give it a name, for example `name: orders_ro`",
    "type": "name the expectation, for example `type: expect_no_key_twice`",
    "expectations": "write `expectations:` with a list of expectations",
    "table": "write the table's base path or URI, or `db.table`",
    "event_time_column": "name the column that carries event time",
    "data_latency": "say how late events may arrive, for example `data_latency: 30m`",
}


def schema_issues(
    error: ValidationError,
    model: type[BaseModel],
    places: Places,
    *,
    name: str | None = None,
    whole: str = "the file",
) -> Iterator[tuple[YamlPath, Issue]]:
    """A path and issue for each fault of a value; several faults of one place (a union's branches) are one issue.

    A key that is missing because its name is misspelt is one fault too, that of the unknown key. `name` is that of the
    policy, `whole` what the value itself is called.
    """
    seen: set[YamlPath] = set()
    faults = error.errors(include_url=False)[:MAX_FINDINGS]
    texts = {fault["loc"][:-1] for fault in faults if fault["type"] == "string_type" and fault["loc"][-1:] == ("str",)}
    misspelt = {_meant(fault["loc"], model) for fault in faults if fault["type"] == "extra_forbidden"}
    for fault in faults:
        kind, path = fault["type"], fault["loc"]
        if kind == "missing" and path in misspelt:
            continue
        if kind in _BRANCH_KINDS and len(path) > 1 and path[-1] in _BRANCHES:
            path = path[:-1]
            kind = "union" if path in texts else "number"
        at_key = path[-1:] == ("[key]",)
        path = path[:-1] if at_key else path
        if path not in seen:
            seen.add(path)
            key = "" if at_key and kind == "string_pattern_mismatch" else _key_name(path) or whole
            code, message, hint = _said(kind, {**fault, "loc": path}, key, model)
            around = path[:-1] if kind == "missing" else path
            where = places.where(around, name, at_key=at_key or kind == "extra_forbidden")
            is_variable = isinstance(fault.get("ctx", {}).get("error"), NoVariableError)
            yield path, Issue(code, message, replace(where, excerpt="") if is_variable else where, hint)


def _meant(path: YamlPath, model: type[BaseModel]) -> YamlPath | None:
    """The path of the key whose name an unknown one is most like; None where it is like none."""
    close = nearest(str(path[-1]), _fields(_model_at(model, path[:-1])))
    return (*path[:-1], close) if close else None


def _said(kind: str, fault: Mapping[str, Any], key: str, model: type[BaseModel]) -> tuple[Code, str, str | None]:
    """Code, message and hint of a fault; `key` is what is at fault, as messages name it."""
    value, path, context = fault["input"], fault["loc"], fault.get("ctx", {})
    error = context.get("error")
    if kind == "extra_forbidden":
        return Code.UNKNOWN_KEY, f"unknown key `{_shown(str(path[-1]))}`", _known_keys(str(path[-1]), path, model)
    if kind == "missing":
        inside = f" in `{_key_name(path[:-1])}`" if len(path) > 1 else ""
        return Code.MISSING_KEY, f"`{path[-1]}` is missing{inside}", _EXAMPLES.get(path[-1], "add the key")
    if kind == "literal_error":
        return _wrong_choice(key, value, str(context["expected"]))
    if isinstance(error, QuantityError):
        said = f"{_seen(value)} is not a {error.kind}" if has_env_value(value) else error.message
        return Code.BAD_SIZE if error.kind == "size" else Code.BAD_DURATION, f"`{key}`: {said}", error.hint
    if isinstance(error, NoVariableError):
        return Code.WRONG_TYPE, f"`{key}` is not the name of an environment variable", _VARIABLE
    if kind == "value_error":
        said = f"` cannot be {_seen(value)}" if is_secret(value) else f"`: {error}"
        return Code.WRONG_TYPE, f"`{key}{said}", None
    if kind == "string_pattern_mismatch":
        marks = "; where a policy has `tables`, also `{table}` and `{folder}`" if "{" in str(value) else ""
        return Code.BAD_NAME, f"{_seen(value)} is not a usable {f'`{key}`' if key else 'name'}", _NAME_HINT + marks
    if kind in ("string_too_short", "too_short"):
        return Code.EMPTY, f"`{key}` is empty", None if kind == "string_too_short" else "write at least one below it"
    wanted = _KINDS.get(kind, str(fault["msg"]).removeprefix("Input should be ")).format(**context)
    hint = _type_hint(value, wanted, path, model if kind in _NUMBERS else None)
    return Code.WRONG_TYPE, f"`{key}` must be {wanted}, got {_seen(value)}", hint


def _known_keys(name: str, path: YamlPath, model: type[BaseModel]) -> str:
    if name == "<<":
        return "merge keys are not supported; write the keys out, or share values through `vars:`"
    known = [key for key in _fields(_model_at(model, path[:-1])) if key != LEARNED]
    others = f"the keys here are {', '.join(f'`{key}`' for key in known)}"
    return without_blank(name) or did_you_mean(name, known) or others


def _wrong_choice(key: str, value: object, expected: str) -> tuple[Code, str, str | None]:
    choices = [part.strip("'") for part in expected.replace(" or ", ", ").split(", ")]
    text = "" if is_secret(value) else str(value)
    quoted = isinstance(value, str) and text in choices
    hint = "remove the quotes" if quoted else did_you_mean(text, choices)
    seen = f'`"{text}"`' if quoted else _seen(value)
    return Code.WRONG_CHOICE, f"`{key}` must be {listed(choices)}, got {seen}", hint


def _type_hint(value: object, wanted: str, path: YamlPath, model: type[BaseModel] | None) -> str | None:
    """What to write in place of a value of another type; with the model where it is to be a number."""
    if value is None:
        return "give it a value, or remove the key"
    if is_secret(value):
        return None
    if wanted == "text" and isinstance(value, bool | int | float):
        return f'put it in quotes: "{value}"'
    if wanted == "a list" and isinstance(value, str):
        shown = _shown(value)
        return f"write `[{shown if _PLAIN.fullmatch(shown) else json.dumps(shown, ensure_ascii=False)}]`"
    if model is None:
        return None
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return "remove the quotes"
    parent = _model_at(model, path[:-1])
    examples = _fields(parent)[str(path[-1])].examples if parent else None
    return f"for example `{path[-1]}: {examples[0]}`" if examples else None


def _seen(value: object) -> str:
    if value is None:
        return "nothing"
    if is_secret(value):
        return f"`{_shown(str(without_secret(value)))}`"
    if isinstance(value, dict | list | tuple):
        return "a mapping" if isinstance(value, dict) else "a list"
    return f"`{_shown(str(value).lower() if isinstance(value, bool) else str(value))}`"


def _key_name(path: YamlPath) -> str:
    """The keys as text, with numbers for items of a list."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text.replace(LEARNED, "data_latency")


def _fields(model: type[BaseModel] | None) -> dict[str, FieldInfo]:
    """The fields of a model by the keys that people write."""
    return {field.alias or name: field for name, field in model.model_fields.items()} if model else {}


def _model_at(model: type[BaseModel], path: YamlPath) -> type[BaseModel] | None:
    """The model at `path` below `model`; None where keys are free."""
    inner: Any = model
    for part in path:
        if isinstance(inner, type) and issubclass(inner, BaseModel) and isinstance(part, str):
            inner = field.annotation if (field := _fields(inner).get(part)) else None
        else:
            inner = get_args(_collection(inner))[-1:] if isinstance(part, str) else get_args(_collection(inner))[:1]
            inner = inner[0] if inner else None
        inner = _model_in(inner) or inner
    return inner if isinstance(inner, type) and issubclass(inner, BaseModel) else None


def _model_in(annotation: Any) -> type[BaseModel] | None:  # noqa: ANN401 - a type annotation
    """The model that an annotation means; None for a collection or a plain value."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (dict, tuple, list):
        return None
    return next((model for part in get_args(annotation) if (model := _model_in(part)) is not None), None)


def _collection(annotation: Any) -> Any:  # noqa: ANN401 - a type annotation
    """The list or mapping in an annotation, without what is wrapped round it."""
    if get_origin(annotation) in (dict, tuple, list):
        return annotation
    return next((found for part in get_args(annotation) if (found := _collection(part)) is not None), None)


def _shown(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
