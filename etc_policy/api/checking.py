"""Checks the arguments of Python's verbs before anything is touched: types hold nobody at run time.

An argument is found by its name, which means the same in every verb; the command line's own are checked by click.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from functools import wraps
from inspect import isfunction, signature
from types import FunctionType
from typing import Any, TypeVar, get_args

from etc_policy.api.moments import moment_fault
from etc_policy.codes.registry import Code
from etc_policy.errors import UsageError
from etc_policy.policy.manifest import VerifyLevel
from etc_policy.policy.quantities import MAX_JOBS, MAX_MS
from etc_policy.policy.suggestions import did_you_mean, listed
from etc_policy.policy.writers import FormName

Verbs = TypeVar("Verbs")
#: What is wrong with a value, in words that follow the argument's name; None where nothing is.
Check = Callable[[Any], str | None]


def checks_arguments(verbs: type[Verbs]) -> type[Verbs]:
    """The class, of which each public function that it defines, and `__init__`, refuses arguments that it cannot use."""
    for name, member in list(vars(verbs).items()):
        if isfunction(member) and (name == "__init__" or not name.startswith("_")):
            setattr(verbs, name, _checked(member))
    return verbs


def _checked(verb: FunctionType) -> Callable[..., Any]:
    expected = signature(verb)

    @wraps(verb)
    def checked(*args: Any, **named: Any) -> Any:  # noqa: ANN401 - whatever the verb takes
        given = expected.bind(*args, **named).arguments
        faults = [
            f"`{name}` {fault}"
            for name, value in given.items()
            if name in CHECKS
            and not (value is None and expected.parameters[name].default is None)
            and (fault := CHECKS[name](value)) is not None
        ]
        if faults:
            raise UsageError(Code.USAGE, "; ".join(faults))
        return verb(*args, **named)

    return checked


def _seen(value: object) -> str:
    kind = type(value).__name__
    return (
        f"got `{value!s:.60}` ({kind})"
        if isinstance(value, str | int | float | datetime | timedelta)
        else f"got a {kind}"
    )


def _flag(value: object) -> str | None:
    return None if isinstance(value, bool) else f"must be True or False, {_seen(value)}"


def _function(value: object) -> str | None:
    return None if callable(value) else f"must be a function, {_seen(value)}"


def _text(value: object) -> str | None:
    return None if isinstance(value, str) else f"must be a text, {_seen(value)}"


def _not_empty(value: object) -> str | None:
    return "is empty" if value == "" else _text(value)


def _terms(value: Any) -> str | None:  # noqa: ANN401 - whatever was given
    if isinstance(value, str):
        return None
    is_list = isinstance(value, Collection) and not isinstance(value, bytes | bytearray | Mapping)
    if is_list and all(isinstance(term, str) for term in value):
        return None
    return f"must be a text or a list of texts, {_seen(value)}"


def _path(value: object) -> str | None:
    if not isinstance(value, str | os.PathLike):
        return f"must be a path, {_seen(value)}"
    return None if value != "" else "is empty"


def _plan(value: object) -> str | None:
    from etc_policy.plan.stages import Plan

    if isinstance(value, Plan):
        return None
    return (
        _path(value) if isinstance(value, str | os.PathLike) else f"must be a plan or the path of one, {_seen(value)}"
    )


def _moment(value: object, *, may_be_future: bool = False) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | datetime):
        return f"must be a datetime or epoch milliseconds, {_seen(value)}"
    fault = moment_fault(value, may_be_future=may_be_future)
    return None if fault is None else f"is `{value}`, which {fault}"


def _span(value: object, least_ms: int = 0) -> str | None:
    if not isinstance(value, timedelta):
        return f"must be a timedelta, {_seen(value)}"
    if not least_ms <= value // timedelta(milliseconds=1) <= MAX_MS:
        return f"must be from {least_ms} ms to ten years, {_seen(value)}"
    return None


def _count(most: int) -> Check:
    def check(value: object) -> str | None:
        if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most:
            return None
        return f"must be a whole number from 1 to {most:,}, {_seen(value)}"

    return check


def _choice(choices: tuple[str, ...]) -> Check:
    def check(value: object) -> str | None:
        if isinstance(value, str) and value in choices:
            return None
        near = did_you_mean(value, choices) if isinstance(value, str) else None
        return f"must be {listed(choices)}, {_seen(value)}" + (f": {near}" if near else "")

    return check


def _variables(value: object) -> str | None:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        return f"must be a mapping of names to values, {_seen(value)}"
    empty = next((name for name, one in value.items() if one is None), None)
    return f"has no value for `{empty[:60]}`" if empty is not None else None


def _confs(value: object) -> str | None:
    if isinstance(value, Mapping) and all(isinstance(text, str) for pair in value.items() for text in pair):
        wrong = [key for key in value if not key.startswith("spark.")]
        return f"has `{wrong[0][:60]}`, which does not begin with `spark.`" if wrong else None
    return f"must be a mapping of texts to texts, {_seen(value)}"


#: The check of each argument by its name.
CHECKS: Mapping[str, Check] = {
    **dict.fromkeys(("select", "exclude"), _terms),
    "name": _text,
    "target": _not_empty,
    **dict.fromkeys(("project_dir", "target_dir", "state", "spark_log", "out"), _path),
    **dict.fromkeys(("read_stats", "check", "archived", "remove", "spark"), _flag),
    **dict.fromkeys(("metadata_only", "read_once", "ends_java_on_interrupt"), _flag),
    **dict.fromkeys(("confirm", "progress", "warn", "note"), _function),
    **dict.fromkeys(("timeout", "poll"), _span),
    "every": lambda value: _span(value, 1),
    "at": _moment,
    "until": lambda value: _moment(value, may_be_future=True),
    "plan": _plan,
    "level": _choice(get_args(VerifyLevel)),
    "form": _choice(get_args(FormName)),
    "runs": _count(1_000_000_000),
    "jobs": _count(MAX_JOBS),
    "variables": _variables,
    "spark_confs": _confs,
}
