"""Suites: the expectations that prove a policy, as plain YAML. Text in, models out; files are found by `policy`."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import PurePath
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator

from etc_policy.errors import Issue, PolicyError, Where
from etc_policy.errors.codes import Code
from etc_policy.policy.findings import schema_issues
from etc_policy.policy.manifest import EventTime, Frozen
from etc_policy.policy.suggestions import did_you_mean
from etc_policy.policy.yaml_marks import MarkedYaml, Places, YamlPath, load_marked
from etc_policy.verify.catalog import OWN, argument_faults, name_fault
from etc_policy.verify.ports import DataCheck

PARAMETER = "$PARAMETER"

#: What `{$PARAMETER: name}` may name. The first four are in the form of the event-time column.
PARAMETERS = (
    "T",
    "now",
    "watermark",
    "complete_until",
    "threshold_ms",
    "now_ms",
    "watermark_ms",
    "complete_until_ms",
    "last_commit_ms",
    "freshness_target_ms",
    "freshness_warn_after_ms",
    "freshness_error_after_ms",
    "log_file_max_bytes",
    "event_time_column",
    "policy",
)
_ALWAYS_KNOWN = {"T": "threshold_ms", "now": "now_ms"}

#: What an expectation is checked by, whatever is wrong with the rest of it.
_CHECKED = {"type": str, "kwargs": dict}

#: Suites of policies that name none.
_NAMED_BY_NONE = {"ro_complete": " or names none", "ro_as_of": " or names none with `granularity: record`"}

Severity = Literal["critical", "warning", "info"]
View = Literal["ro", "rt"]
_VIEWS: tuple[View, ...] = ("ro", "rt")
#: What etc's templates call; other braces may be what the data is searched for.
_TEMPLATE = re.compile(r"\{\{[-+]?\s*(var|env_var)\s*\(|\{%[-+]?\s*(if|for|set|macro)\b")


class DeclaredExpectation(Frozen):
    """One expectation of a suite: its type and arguments, the view it runs on, what a failure means."""

    type: str = Field(min_length=1)
    kwargs: dict[str, Any] = Field(default_factory=dict)
    severity: Severity = "critical"
    on: Literal["ro", "rt", "both"] = "ro"

    @field_validator("type")
    @classmethod
    def _snake_case(cls, name: str) -> str:
        """The registered name of an expectation whose class name is given (`ExpectNoKeyTwice`)."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


class SuiteExpectation(DeclaredExpectation):
    """An expectation with its place in the suite's file, for what is said about it later."""

    place: Where | None = None

    @property
    def view(self) -> View:
        """The view it runs on; a suite's `both` has become two expectations by now."""
        return "rt" if self.on == "rt" else "ro"


class Suite(Frozen):
    """A named list of expectations."""

    name: str = Field(min_length=1)
    description: str = ""
    expectations: tuple[DeclaredExpectation, ...]

    @field_validator("expectations", mode="before")
    @classmethod
    def _not_empty(cls, items: object) -> object:
        if items == []:
            raise ValueError("a suite needs at least one expectation")
        return items


def parse_suite(text: str, path: str) -> tuple[dict[str, Any], ...]:
    """The expectations of the suite in a YAML text, as `DataCheck.suite` takes them; `path` is named in errors.

    Each has its place; one with `on: both` is there twice, once for each view. Parameters are not yet filled in.

    Raises:
        PolicyError: the text is no YAML or no suite; carries every fault with its line.

    """
    document = read_document(text, path)
    try:
        suite = Suite.model_validate(document.value)
    except ValidationError as error:
        raise PolicyError(schema_faults(error, document, path)) from error
    if issues := list(template_faults(document, path)):
        raise PolicyError(issues)
    return tuple(
        SuiteExpectation(
            type=item.type,
            kwargs=item.kwargs,
            severity=item.severity,
            on=view,
            place=place_of(("expectations", number, "type"), document, path),
        ).model_dump()
        for number, item in enumerate(suite.expectations)
        for view in (_VIEWS if item.on == "both" else (item.on,))
    )


def read_document(text: str, path: str) -> MarkedYaml:
    """The YAML of a suite: a mapping.

    Raises:
        PolicyError: it is not.

    """
    document = load_marked(text, path)
    if not isinstance(document.value, dict):
        message = "a suite is a mapping with `name` and `expectations`"
        raise PolicyError([Issue(Code.BAD_SUITE, message, Where(path, 1, 1))])
    return document


def schema_faults(error: ValidationError, document: MarkedYaml, path: str) -> list[Issue]:
    """What is wrong with the keys and values of a suite."""
    places = Places(document.file)
    found = schema_issues(error, Suite, places, whole="the suite")
    return [replace(issue, code=Code.BAD_SUITE) for _, issue in found]


def template_faults(document: MarkedYaml, path: str) -> Iterator[Issue]:
    """Templates, which suites do not take: they would be compared with the data as they are written."""
    for keys, text in texts_in(document.value):
        if _TEMPLATE.search(text):
            message, hint = f"a suite takes no templates, got `{text[:60]}`", "write the value, or `{$PARAMETER: name}`"
            yield Issue(Code.BAD_SUITE, message, place_of(keys, document, path), hint)


def texts_in(value: Any, keys: YamlPath = ()) -> Iterator[tuple[YamlPath, str]]:  # noqa: ANN401 - any YAML value
    """Each text in a value, with the keys that lead to it."""
    if isinstance(value, str):
        yield keys, value
    elif isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from texts_in(part, (*keys, key))


def suite_parameters(check: DataCheck) -> dict[str, Any]:
    """The values that `{$PARAMETER: name}` may be replaced by in a suite, as PARAMETERS names them.

    `T`, `now`, `watermark` and `complete_until` are in the form that the event-time column has. Text has no such form
    that would be certain: there they are None, which `bind_suite` refuses.
    """
    freshness = check.policy.freshness
    moments = {
        "T": check.threshold_ms,
        "now": check.now_ms,
        "watermark": check.watermark_ms,
        "complete_until": check.complete_until_ms,
    }
    return {
        **{name: in_column(value, check.event_time_type, check.policy.event_time) for name, value in moments.items()},
        "threshold_ms": check.threshold_ms,
        "now_ms": check.now_ms,
        "watermark_ms": check.watermark_ms,
        "complete_until_ms": check.complete_until_ms,
        "last_commit_ms": check.last_commit_ms,
        "freshness_target_ms": freshness.target_ms,
        "freshness_warn_after_ms": freshness.warn_after_ms,
        "freshness_error_after_ms": freshness.error_after_ms,
        "log_file_max_bytes": check.policy.log_file_max_bytes,
        "event_time_column": check.policy.event_time.column,
        "policy": check.policy.name,
    }


def in_column(
    moment_ms: int | None, column_type: str | None, event_time: EventTime
) -> int | dt.datetime | dt.date | None:
    """A moment as a value of the event-time column: a number in its unit, a date, or a naive local time.

    Naive local times are what Spark hands out and takes in for timestamps, whatever its session's zone is.
    """
    if moment_ms is None or column_type == "string":
        return None
    if column_type in ("int", "long"):
        factor, divisor = {"s": (1, 1000), "us": (1000, 1)}.get(event_time.unit or "ms", (1, 1))
        return moment_ms * factor // divisor
    moment = dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(milliseconds=moment_ms)
    if column_type == "date":
        return moment.date()
    if (column_type or "").startswith("local-"):
        return moment.replace(tzinfo=None)
    return moment.astimezone().replace(tzinfo=None)


def bind_suite(items: Sequence[Mapping[str, Any]], parameters: Mapping[str, Any]) -> tuple[SuiteExpectation, ...]:
    """The expectations with every parameter replaced by its value.

    Raises:
        PolicyError: a parameter is not known, or cannot be a value of this table's column; carries all of them.

    """
    expectations = [SuiteExpectation.model_validate(dict(item)) for item in items]
    used = {(e.type, name): e.place for e in expectations for name in parameters_in(e.kwargs)}
    issues = []
    for (type_name, name), place in sorted(used.items(), key=lambda entry: entry[0]):
        if name not in parameters:
            issues.append(unknown_parameter(type_name, name, parameters, place))
        elif parameters[name] is None and name in _ALWAYS_KNOWN:
            message = f"`{name}` in expectation `{type_name}` cannot be given as a value of a text column"
            issues.append(
                Issue(
                    Code.PARAMETER_WITHOUT_VALUE, message, place, f"use `{_ALWAYS_KNOWN[name]}`, in epoch milliseconds"
                )
            )
    if issues:
        raise PolicyError(issues)
    return tuple(e.model_copy(update={"kwargs": _fill(e.kwargs, parameters)}) for e in expectations)


def parameter_name(value: Any) -> str | None:  # noqa: ANN401 - any YAML value
    """The parameter that a value stands for; None for a plain value."""
    return str(value[PARAMETER]) if isinstance(value, dict) and set(value) == {PARAMETER} else None


def parameters_in(value: Any) -> Iterator[str]:  # noqa: ANN401 - any YAML value
    """The parameters in a value, in any depth."""
    name = parameter_name(value)
    if name is not None:
        yield name
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from parameters_in(part)


def _fill(value: Any, parameters: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any YAML value
    name = parameter_name(value)
    if name is not None:
        return parameters[name]
    if isinstance(value, dict):
        return {key: _fill(part, parameters) for key, part in value.items()}
    return [_fill(part, parameters) for part in value] if isinstance(value, list) else value


def unknown_parameter(type_name: str, name: str, parameters: Collection[str], where: Where | None) -> Issue:
    """The issue of a parameter that is not among those that are known."""
    hint = did_you_mean(name, parameters) or f"known parameters: {', '.join(sorted(parameters))}"
    return Issue(Code.UNKNOWN_PARAMETER, f"unknown parameter `{name}` in expectation `{type_name}`", where, hint)


def place_of(keys: YamlPath, document: MarkedYaml, path: str) -> Where:
    """The place of the deepest value on the way that the text really has."""
    while keys not in document.file.marks:
        keys = keys[:-1]
    mark = document.file.marks[keys]
    return Where(path, mark.key_line, mark.key_column)


def suite_issues(text: str, path: str, shipped: Sequence[str] = ()) -> tuple[Issue, ...]:
    """Everything that is wrong with a suite, of which `path` names the file; `shipped` are those that it may replace."""
    try:
        document = read_document(text, path)
    except PolicyError as error:
        return error.issues
    issues = [*_schema_faults(document, path), *template_faults(document, path), *_name_faults(document, path)]
    listed = document.value.get("expectations")
    for number, item in enumerate(listed if isinstance(listed, list) else ()):
        whole = item if isinstance(item, dict) else {}
        known = {key: whole[key] for key, kind in _CHECKED.items() if isinstance(whole.get(key), kind)}
        with suppress(ValidationError):
            expectation = DeclaredExpectation.model_validate(known)
            issues += _expectation_faults(document, path, number, expectation, has_view="on" in whole)
    name = PurePath(path).stem
    if name in shipped:
        message = f"this replaces the suite `{name}` that etc ships, wherever a policy names it"
        hint = "unless this is meant, give it a name of its own, and write that in `verify: {suite: NAME}`"
        message += _NAMED_BY_NONE.get(name, "")
        issues.append(Issue(Code.SUITE_REPLACED, message, Where(path), hint, level="warning"))
    return tuple(issues)


def _schema_faults(document: MarkedYaml, path: str) -> list[Issue]:
    try:
        Suite.model_validate(document.value)
    except ValidationError as error:
        return schema_faults(error, document, path)
    return []


def _name_faults(document: MarkedYaml, path: str) -> Iterator[Issue]:
    """Policies name a suite by its file, so another name in it would mislead."""
    name, of_file = document.value.get("name"), PurePath(path).stem
    if isinstance(name, str) and name != of_file:
        message = f"`name` is `{name[:60]}`, but policies name a suite by its file: `{of_file}`"
        where = place_of(("name",), document, path)
        hint = f"write `name: {of_file}`, or rename the file"
        yield Issue(Code.BAD_SUITE, message, where, hint, level="warning")


def _expectation_faults(
    document: MarkedYaml, path: str, number: int, item: DeclaredExpectation, *, has_view: bool
) -> Iterator[Issue]:
    def place(*keys: str) -> Where:
        return place_of(("expectations", number, *keys), document, path)

    fault = name_fault(item.type)
    if fault is not None:
        yield Issue(Code.UNKNOWN_EXPECTATION, fault[0], place("type"), fault[1])
        return
    if item.type in OWN and has_view:
        hint = "remove `on`: it reads the views that it needs"
        yield Issue(Code.BAD_ARGUMENTS, f"`{item.type}` takes no `on`", place("on"), hint)
    is_parameter = {name: parameter_name(value) is not None for name, value in item.kwargs.items()}
    for name, message, advice in argument_faults(item.type, item.kwargs, is_parameter):
        yield Issue(Code.BAD_ARGUMENTS, message, place(*(("kwargs", name) if name is not None else ("type",))), advice)
    for argument, value in item.kwargs.items():
        for parameter in parameters_in(value):
            if parameter not in PARAMETERS:
                yield unknown_parameter(item.type, parameter, PARAMETERS, place("kwargs", argument))
