"""What the verbs of `Project` take, and the check that they are given nothing else: types hold nobody at run time.

It comes before anything is touched; the command line's own values are checked by click.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache, wraps
from inspect import isfunction, signature
from types import FunctionType
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, ConfigDict, Field, ValidationError, validate_call

from etc_policy.errors import UsageError
from etc_policy.errors.codes import Code
from etc_policy.policy.quantities import MAX_JOBS, MAX_MS
from etc_policy.policy.selection import split_terms
from etc_policy.table.formats import iso_time as iso_time
from etc_policy.table.instants import CLOCK_TOLERANCE_MS
from etc_policy.wiring import clock_ms


def _not_future(moment: datetime | int | None) -> datetime | int | None:
    if moment is not None and (fault := moment_fault(moment)):
        raise ValueError(fault)
    return moment


def _usable(moment: datetime | int) -> datetime | int:
    if fault := moment_fault(moment, may_be_future=True):
        raise ValueError(fault)
    return moment


def _all_given(values: Mapping[str, Any]) -> Mapping[str, Any]:
    if empty := [name for name, value in values.items() if value is None]:
        raise ValueError(f"has no value for `{empty[0][:60]}`")
    return values


Terms = str | Sequence[str] | set[str] | frozenset[str]
Moment = Annotated[datetime | int | None, AfterValidator(_not_future)]
AnyMoment = Annotated[datetime | int, AfterValidator(_usable)]
Span = Annotated[timedelta, Field(ge=timedelta(0), le=timedelta(milliseconds=MAX_MS))]
Interval = Annotated[timedelta, Field(ge=timedelta(milliseconds=1), le=timedelta(milliseconds=MAX_MS))]
Name = Annotated[str, Field(min_length=1)]
File = Name | os.PathLike[str]
Jobs = Annotated[int, Field(ge=1, le=MAX_JOBS)]
Count = Annotated[int, Field(ge=1)]
Variables = Annotated[Mapping[str, Any], AfterValidator(_all_given)]
SparkConfs = Mapping[Annotated[str, Field(pattern=r"^spark\.")], str]

#: Time between two looks of `wait` at the tables.
DEFAULT_POLL: timedelta = timedelta(seconds=10)

Verbs = TypeVar("Verbs")
_STRICT = ConfigDict(strict=True, arbitrary_types_allowed=True)


#: What may be asked of a stranger's files; each other verb acts, or runs what they name.
SAFE_VERBS = frozenset(
    {"__init__", "read_anew", "close", "manifest", "policies", "left_out"}
    | {"parse", "compile", "explain", "plan", "freshness", "simulate", "site"}
)


def checks_arguments(verbs: type[Verbs]) -> type[Verbs]:
    """The class, of which each public function that it defines, and `__init__`, refuses arguments that it cannot use."""
    for name, member in list(vars(verbs).items()):
        if isfunction(member) and (name == "__init__" or not name.startswith("_")):
            setattr(verbs, name, _checked(member))
    return verbs


def _checked(verb: FunctionType) -> Callable[..., Any]:
    names = list(signature(verb).parameters)

    @wraps(verb)
    def given(*args: Any, **named: Any) -> Any:  # noqa: ANN401 - whatever the verb takes
        return args, named

    given.__annotations__ = {name: kind for name, kind in verb.__annotations__.items() if name != "return"}
    checks = cache(lambda: validate_call(config=_STRICT)(given))  # made when the verb is first called

    @wraps(verb)
    def checked(*args: Any, **named: Any) -> Any:  # noqa: ANN401 - whatever the verb takes
        try:
            args, named = checks()(*args, **named)
        except ValidationError as error:
            faults: dict[str, list[str]] = {}  # a union has one for each of its types
            for fault in error.errors():
                at = fault["loc"][0]
                name = names[at] if isinstance(at, int) else at
                faults.setdefault(name, []).append(fault["msg"].removeprefix("Value error, "))
            message = "; ".join(f"`{name}`: {' or '.join(found)}" for name, found in faults.items())
            raise UsageError(Code.USAGE, message) from error
        if verb.__name__ not in SAFE_VERBS:
            args[0]._require_trust(verb.__name__)
        return verb(*args, **named)

    return checked


def terms_of(given: Terms) -> tuple[str, ...]:
    """The terms of a selection, each once."""
    return split_terms([given] if isinstance(given, str) else list(given))


def selected_terms(given: Terms) -> tuple[str, ...]:
    """The terms of what is selected; none only where nothing was given (an empty tuple), which means every policy.

    Raises:
        UsageError: what was given is empty, mostly a variable that is not set, or a list of what is due.

    """
    terms = terms_of(given)
    if not terms and given != ():
        hint = "name policies; to mean all of them leave the selection out"
        raise UsageError(Code.BAD_SELECTION, "the selection is empty: it has no term", hint=hint)
    return terms


def moment_ms(moment: Moment) -> int:
    """Epoch milliseconds; None is now, and a time without a zone is UTC as on the command line."""
    if moment is None:
        return clock_ms()
    return moment if isinstance(moment, int) else epoch_ms(moment)


def span_ms(span: timedelta) -> int:
    """The span in whole milliseconds."""
    return span // timedelta(milliseconds=1)


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Years 1000 to 8999: a time that a `data_latency` or an hour of some zone can be added to or taken from.
_FIRST_MS, _END_MS = -30_610_224_000_000, 221_845_392_000_000
#: Dates without punctuation, by their number of digits.
_DATES = {4: "%Y", 6: "%Y%m", 8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
_NEAR_YEARS = range(1900, 2200)
#: From 2001 to 2286.
_DIGITS_OF_SECONDS = 10


def epoch_ms(moment: datetime) -> int:
    """Epoch milliseconds; a time without a zone is UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - EPOCH) // timedelta(milliseconds=1)


def moment_fault(moment: datetime | int, *, may_be_future: bool = False) -> str | None:
    """Why a moment cannot be used, in words that follow its name; None where it can. A number is epoch milliseconds."""
    if isinstance(moment, int) and (other := _other_reading(str(moment))):
        return f"is ambiguous: {iso_time(moment)} in epoch milliseconds, or {other}; write one of them"
    moment_ms = moment if isinstance(moment, int) else epoch_ms(moment)
    if not _FIRST_MS <= moment_ms < _END_MS:
        return "does not lie between the years 1000 and 8999"
    if not may_be_future and moment_ms > clock_ms() + CLOCK_TOLERANCE_MS:
        return "lies in the future: nobody knows what will have arrived by then"
    return None


def _other_reading(digits: str) -> str | None:
    """What a number that is read as milliseconds may have been meant for: a date of a near century, or seconds."""
    form = _DATES.get(len(digits))
    if form is not None:
        with suppress(ValueError):
            moment = datetime.strptime(digits, form).replace(tzinfo=UTC)
            if moment.year in _NEAR_YEARS:
                return f"{moment.isoformat().replace('+00:00', 'Z')} as a date"
    if len(digits) == _DIGITS_OF_SECONDS and not digits.startswith("-"):
        return f"{iso_time(int(digits) * 1000)} in epoch seconds"
    return None
