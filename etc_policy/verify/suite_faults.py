"""All that is wrong with a suite as far as its text shows: no table is read, no engine imported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import PurePath

from pydantic import ValidationError

from etc_policy.errors import Issue, PolicyError, Where
from etc_policy.errors.codes import Code
from etc_policy.policy.yaml_marks import MarkedYaml
from etc_policy.verify.catalog import OWN, argument_faults, name_fault
from etc_policy.verify.suites import (
    PARAMETERS,
    DeclaredExpectation,
    Suite,
    parameter_name,
    parameters_in,
    place_of,
    read_document,
    schema_faults,
    template_faults,
    unknown_parameter,
)

#: What an expectation is checked by, whatever is wrong with the rest of it.
_CHECKED = {"type": str, "kwargs": dict}


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
        if name == "ro_complete":
            message += " or names none"
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
