"""Turns what pydantic finds into issues: in the reader's words, at the key or value, with a hint."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from etc_policy.errors import Issue
from etc_policy.errors.codes import Code
from etc_policy.policy.quantities import QuantityError
from etc_policy.policy.schema_values import LEARNED, NoVariableError
from etc_policy.policy.scope import without_blank
from etc_policy.policy.secrets import is_secret, without_secret
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
        path, found = fault["loc"], dict(fault)
        if fault["type"] == "missing" and path in misspelt:
            continue
        if fault["type"] in _BRANCH_KINDS and len(path) > 1 and path[-1] in _BRANCHES:
            path = path[:-1]
            found["type"] = "union" if path in texts else "number"
        found["at_key"] = path[-1:] == ("[key]",)
        path = path[:-1] if found["at_key"] else path
        if path not in seen:
            seen.add(path)
            yield path, _Finding(found, path, model, places, name, whole).issue()


def _meant(path: YamlPath, model: type[BaseModel]) -> YamlPath | None:
    """The path of the key whose name an unknown one is most like; None where it is like none."""
    close = nearest(str(path[-1]), _fields(_model_at(model, path[:-1])))
    return (*path[:-1], close) if close else None


@dataclass(frozen=True, slots=True)
class _Finding:
    """One fault on its way to an issue."""

    fault: Mapping[str, Any]
    path: YamlPath
    model: type[BaseModel]
    places: Places
    name: str | None
    whole: str

    @property
    def key(self) -> str:
        """What is at fault, as messages name it."""
        return _key_name(self.path) or self.whole

    def issue(self) -> Issue:
        """The issue, by the kind of fault."""
        kind: str = self.fault["type"]
        context: Mapping[str, Any] = self.fault.get("ctx", {})
        if kind == "extra_forbidden":
            return self._unknown_key()
        if kind == "missing":
            return self._missing_key()
        if kind == "literal_error":
            return self._wrong_choice(str(context["expected"]))
        if isinstance(quantity := context.get("error"), QuantityError):
            code = Code.BAD_SIZE if quantity.kind == "size" else Code.BAD_DURATION
            if is_secret(self._input()):
                return self._issue(code, f"`{self.key}`: {self._seen()} is not a {quantity.kind}", quantity.hint)
            return self._issue(code, f"`{self.key}`: {quantity.message}", quantity.hint)
        if isinstance(context.get("error"), NoVariableError):
            found = self._issue(Code.WRONG_TYPE, f"`{self.key}` is not the name of an environment variable", _VARIABLE)
            return replace(found, where=found.where and replace(found.where, excerpt=""))
        if kind == "value_error" and not is_secret(self._input()):
            return self._issue(Code.WRONG_TYPE, f"`{self.key}`: {context['error']}")
        if kind == "string_pattern_mismatch":
            hint = "begin with a lower-case letter, then lower-case letters, digits, `_` and `-`, 100 at most"
            if "{" in str(self.fault["input"]):
                hint += "; where a policy has `tables`, also `{table}` and `{folder}`"
            wanted = "name" if self.fault["at_key"] else f"`{self.key}`"
            return self._issue(Code.BAD_NAME, f"{self._seen()} is not a usable {wanted}", hint)
        if kind == "string_too_short":
            return self._issue(Code.EMPTY, f"`{self.key}` is empty")
        if kind == "too_short":
            return self._issue(Code.EMPTY, f"`{self.key}` is empty", "write at least one below it")
        said = str(self.fault["msg"]).removeprefix("Input should be ")
        return self._wrong_type(_KINDS.get(kind, said).format(**context), is_number=kind in _NUMBERS)

    def _unknown_key(self) -> Issue:
        parent = _model_at(self.model, self.path[:-1])
        known = [key for key in _fields(parent) if key != LEARNED]
        name = str(self.path[-1])
        hint = did_you_mean(name, known) or f"the keys here are {', '.join(f'`{key}`' for key in known)}"
        hint = without_blank(name) or hint
        if name == "<<":
            hint = "merge keys are not supported; write the keys out, or share values through `vars:`"
        return self._issue(Code.UNKNOWN_KEY, f"unknown key `{_shown(name)}`", hint, at_key=True)

    def _missing_key(self) -> Issue:
        inside = f" in `{_key_name(self.path[:-1])}`" if len(self.path) > 1 else ""
        where = self.places.where(self.path[:-1], self.name)
        return Issue(Code.MISSING_KEY, f"`{self.path[-1]}` is missing{inside}", where, self._missing_hint())

    def _missing_hint(self) -> str:
        examples = {
            "version": "write `version: 1` at the top",
            "policies": "write `policies:` with a list of policies",
            "name": "give it a name, for example `name: orders_ro`",
            "type": "name the expectation, for example `type: expect_no_key_twice`",
            "expectations": "write `expectations:` with a list of expectations",
            "table": "write the table's base path or URI, or `db.table`",
            "event_time_column": "name the column that carries event time",
            "data_latency": "say how late events may arrive, for example `data_latency: 30m`",
        }
        return examples.get(str(self.path[-1]), "add the key")

    def _wrong_choice(self, expected: str) -> Issue:
        choices = [part.strip("'") for part in expected.replace(" or ", ", ").split(", ")]
        text = "" if is_secret(self._input()) else str(self._input())
        quoted = isinstance(self._input(), str) and text in choices
        hint = "remove the quotes" if quoted else did_you_mean(text, choices)
        seen = f'`"{text}"`' if quoted else self._seen()
        return self._issue(Code.WRONG_CHOICE, f"`{self.key}` must be {listed(choices)}, got {seen}", hint)

    def _wrong_type(self, wanted: str, *, is_number: bool) -> Issue:
        value = self._input()
        hint = None
        if value is None:
            hint = "give it a value, or remove the key"
        elif is_secret(value):
            hint = None
        elif wanted == "text" and isinstance(value, bool | int | float):
            hint = f'put it in quotes: "{value}"'
        elif wanted == "a list" and isinstance(value, str):
            hint = f"write `[{shown if _PLAIN.fullmatch(shown := _shown(value)) else json.dumps(shown, ensure_ascii=False)}]`"
        elif is_number:
            hint = self._number_hint(value)
        return self._issue(Code.WRONG_TYPE, f"`{self.key}` must be {wanted}, got {self._seen()}", hint)

    def _number_hint(self, value: object) -> str | None:
        if isinstance(value, str) and _NUMBER.fullmatch(value):
            return "remove the quotes"
        parent = _model_at(self.model, self.path[:-1])
        examples = _fields(parent)[str(self.path[-1])].examples if parent else None
        return f"for example `{self.path[-1]}: {examples[0]}`" if examples else None

    def _issue(self, code: Code, message: str, hint: str | None = None, *, at_key: bool = False) -> Issue:
        where = self.places.where(self.path, self.name, at_key=at_key or self.fault["at_key"])
        return Issue(code, message, where, hint)

    def _input(self) -> object:
        return self.fault["input"]

    def _seen(self) -> str:
        value = self._input()
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
