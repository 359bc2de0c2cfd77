"""Suites: the expectations that prove a policy, as plain YAML. Text in, models out; files are found by `declare`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator

from etc_policy.compile.manifest import Frozen
from etc_policy.declare.suggestions import did_you_mean
from etc_policy.declare.yaml_marks import MarkedYaml, load_marked
from etc_policy.errors import Issue, PolicyError, Where
from etc_policy.verify.ports import DataCheck

PARAMETER = "$PARAMETER"

Severity = Literal["critical", "warning", "info"]
View = Literal["ro", "rt"]


class SuiteExpectation(Frozen):
    """One expectation of a suite: Great Expectations' type and arguments, the view it runs on, what a failure means."""

    type: str = Field(min_length=1)
    kwargs: dict[str, Any] = Field(default_factory=dict)
    severity: Severity = "critical"
    on: View = "ro"

    @field_validator("type")
    @classmethod
    def _snake_case(cls, name: str) -> str:
        """The registered name of an expectation whose class name is given (`ExpectNoKeyTwice`)."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


class Suite(Frozen):
    """A named list of expectations."""

    name: str = Field(min_length=1)
    description: str = ""
    expectations: tuple[SuiteExpectation, ...]

    @field_validator("expectations", mode="before")
    @classmethod
    def _not_empty(cls, items: object) -> object:
        if items == []:
            raise ValueError("a suite needs at least one expectation")
        return items

    @property
    def items(self) -> tuple[dict[str, Any], ...]:
        """The expectations as `DataCheck.suite` takes them, parameters not yet filled in."""
        return tuple(expectation.model_dump() for expectation in self.expectations)


def parse_suite(text: str, path: str) -> Suite:
    """The suite in a YAML text; `path` is named in errors.

    Raises:
        PolicyError: the text is no YAML or no suite; carries every fault with its line.

    """
    document = load_marked(text, path)
    if not isinstance(document.value, dict):
        message = "a suite is a mapping with `name` and `expectations`"
        raise PolicyError([Issue("ETC222", message, Where(path, 1, 1))])
    try:
        return Suite.model_validate(document.value)
    except ValidationError as error:
        raise PolicyError([_schema_issue(dict(fault), document, path) for fault in error.errors()]) from error


def suite_parameters(check: DataCheck) -> dict[str, Any]:
    """The values that `{$PARAMETER: name}` may stand for in a suite."""
    freshness = check.policy.freshness
    return {
        "threshold_ms": check.threshold_ms,
        "now_ms": check.now_ms,
        "complete_until_ms": check.complete_until_ms,
        "freshness_target_ms": freshness.target_ms,
        "freshness_warn_after_ms": freshness.warn_after_ms,
        "freshness_error_after_ms": freshness.error_after_ms,
        "event_time_column": check.policy.event_time.column,
        "policy": check.policy.name,
    }


def suite_place(check: DataCheck) -> Where:
    """The place that errors name for a check's suite."""
    return Where(f"suites/{check.policy.verify.suite}.yml", object_name=check.policy.name)


def bind_suite(
    items: Sequence[Mapping[str, Any]], parameters: Mapping[str, Any], where: Where | None = None
) -> tuple[SuiteExpectation, ...]:
    """The expectations with every parameter replaced by its value.

    Raises:
        PolicyError: a parameter is not known; carries all of them, with the suite's place `where`.

    """
    expectations = [SuiteExpectation.model_validate(dict(item)) for item in items]
    used = {(e.type, name) for e in expectations for name in _parameters_in(e.kwargs)}
    unknown = sorted((type_name, name) for type_name, name in used if name not in parameters)
    if unknown:
        raise PolicyError([_unknown_parameter(type_name, name, parameters, where) for type_name, name in unknown])
    return tuple(e.model_copy(update={"kwargs": _fill(e.kwargs, parameters)}) for e in expectations)


def _parameter_name(value: Any) -> str | None:  # noqa: ANN401 - any YAML value
    return str(value[PARAMETER]) if isinstance(value, dict) and set(value) == {PARAMETER} else None


def _parameters_in(value: Any) -> Iterator[str]:  # noqa: ANN401 - any YAML value
    name = _parameter_name(value)
    if name is not None:
        yield name
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _parameters_in(part)


def _fill(value: Any, parameters: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any YAML value
    name = _parameter_name(value)
    if name is not None:
        return parameters[name]
    if isinstance(value, dict):
        return {key: _fill(part, parameters) for key, part in value.items()}
    return [_fill(part, parameters) for part in value] if isinstance(value, list) else value


def _unknown_parameter(type_name: str, name: str, parameters: Mapping[str, Any], where: Where | None) -> Issue:
    hint = did_you_mean(name, parameters) or f"known parameters: {', '.join(sorted(parameters))}"
    return Issue("ETC223", f"unknown parameter `{name}` in expectation `{type_name}`", where, hint)


def _schema_issue(fault: Mapping[str, Any], document: MarkedYaml, path: str) -> Issue:
    keys = tuple(fault["loc"])
    where, place = _place(keys, document, path), ".".join(str(key) for key in keys)
    if fault["type"] == "extra_forbidden":
        known = Suite.model_fields if len(keys) == 1 else SuiteExpectation.model_fields
        hint = did_you_mean(str(keys[-1]), known) or f"known keys: {', '.join(known)}"
        return Issue("ETC222", f"unknown key `{place}`", where, hint)
    reason = str(fault["msg"]).removeprefix("Value error, ")
    return Issue("ETC222", f"`{place}`: {reason[0].lower()}{reason[1:]}", where)


def _place(keys: tuple[Any, ...], document: MarkedYaml, path: str) -> Where:
    """The place of the deepest value on the way that the text really has."""
    while keys not in document.marks:
        keys = keys[:-1]
    mark = document.marks[keys]
    return Where(path, mark.key_line, mark.key_column)
