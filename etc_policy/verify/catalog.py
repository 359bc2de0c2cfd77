"""Every expectation that a suite may name, with its arguments: those of Great Expectations, from a shipped list, and etc's own.

The list is read instead of Great Expectations itself, whose import takes seconds and which need not be installed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from math import inf
from pathlib import Path
from typing import Any, Literal

from etc_policy.policy.suggestions import did_you_mean, listed, nearest

CATALOG_FILE = str(Path(__file__).with_name("expectations.json"))

Source = Literal["metadata", "rows", "great_expectations"]

_WORDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "`true` or `false`",
    "array": "a list",
    "object": "a mapping",
}


@dataclass(frozen=True, slots=True)
class Offered:
    """An expectation: its arguments with the JSON types that each takes (none: any), and which of them it needs.

    `source` says what it is checked from: the table's metadata, the rows of both views by ourselves, or the rows of one
    view by Great Expectations. `bounds` are the least and the largest number that an argument can sensibly have.
    """

    arguments: Mapping[str, tuple[str, ...]]
    required: frozenset[str] = frozenset()
    source: Source = "great_expectations"
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)


_WHOLE = ("integer",)
_LIMITS = dict.fromkeys(("now_ms", "complete_until_ms", "target_ms", "warn_after_ms", "error_after_ms"), _WHOLE)

#: How old RO is; whether it holds what RT has, and whether a key is in a view twice.
FRESHNESS = "expect_freshness_within"
VIEWS_AGREE, NO_KEY_TWICE = "expect_ro_to_contain_rt_up_to", "expect_no_key_twice"
#: Whether RO is the table as of T, and its count of keys whose row up to T a later one hides that RO had before.
AS_OF, HIDDEN_BY_LATER = "expect_ro_as_of", "hidden_by_later_rows"
#: Whether a row without an event time is held back, and its count of those that come into RO with the rest of their log file.
BOUNDS, WAITING = "expect_event_times_within_bounds", "null_event_times_waiting"

#: Etc's own. What an argument means is written beside the check: `verify/metadata_checks.py`, `gx/expectations.py`.
OWN: Mapping[str, Offered] = {
    VIEWS_AGREE: Offered({"threshold_ms": _WHOLE}, source="rows"),
    NO_KEY_TWICE: Offered({}, source="rows"),
    AS_OF: Offered({"threshold_ms": _WHOLE}, source="rows"),
    "expect_no_deleted_rows": Offered({}, source="rows"),
    "expect_rows_of_their_base_file": Offered({}, source="rows"),
    BOUNDS: Offered({"earliest_ms": _WHOLE, "latest_ms": _WHOLE}, source="rows"),
    FRESHNESS: Offered(_LIMITS, frozenset({"now_ms"}), "metadata"),
    "expect_completeness_up_to": Offered({"threshold_ms": _WHOLE}, frozenset({"threshold_ms"}), "metadata"),
    "expect_event_times_tracked": Offered(
        {"least_share": ("number",)}, source="metadata", bounds={"least_share": (0, 1)}
    ),
    "expect_log_files_no_larger_than": Offered(
        {"max_bytes": _WHOLE, "tolerance": ("number",)},
        source="metadata",
        bounds={"max_bytes": (1, inf), "tolerance": (0, inf)},
    ),
}


@cache
def offered() -> Mapping[str, Offered]:
    """Every expectation by its registered name."""
    listing = json.loads(Path(CATALOG_FILE).read_text("utf-8"))["expectations"]
    theirs = {
        name: Offered(
            {key: tuple(types) for key, types in arguments["arguments"].items()}, frozenset(arguments["required"])
        )
        for name, arguments in listing.items()
    }
    return {**theirs, **OWN}


def source_of(name: str) -> Source:
    """What the expectation is checked from; one that is not known is left to Great Expectations."""
    return offered()[name].source if name in offered() else "great_expectations"


def name_fault(name: str) -> tuple[str, str | None] | None:
    """What is wrong with an expectation's name, and a hint; None where nothing is."""
    if name in offered():
        return None
    hint = did_you_mean(name, offered()) or "`etc` has its own and those of Great Expectations 1.x"
    return f"unknown expectation `{name[:80]}`", hint


def argument_faults(
    name: str, kwargs: Mapping[str, Any], is_parameter: Mapping[str, bool]
) -> Iterator[tuple[str | None, str, str | None]]:
    """(argument, or None where it is missing, message, hint) of each fault in the arguments of a known expectation."""
    known = offered()[name]
    for argument, value in kwargs.items():
        if argument not in known.arguments:
            hint = did_you_mean(argument, known.arguments) or _arguments_of(known)
            yield argument, f"expectation `{name}` has no argument `{argument[:80]}`", hint
        elif value is None and argument in known.required:
            hint = "write a value, or `{$PARAMETER: NAME}` for one that etc knows"
            yield argument, f"expectation `{name}` needs a value for its argument `{argument}`, got `null`", hint
        elif not is_parameter.get(argument) and (wanted := _unmet(known, argument, value)) is not None:
            yield argument, f"argument `{argument}` of `{name}` must be {wanted}, got `{str(value)[:60]}`", None
    misspelt = {nearest(argument, known.arguments) for argument in kwargs.keys() - known.arguments.keys()}
    for argument in sorted(known.required - kwargs.keys() - misspelt):
        yield None, f"expectation `{name}` needs the argument `{argument}`", _arguments_of(known)


def listed_words(types: tuple[str, ...]) -> str:
    """JSON types in words."""
    words = [_WORDS.get(kind, kind) for kind in types]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _arguments_of(known: Offered) -> str:
    if not known.arguments:
        return "it takes no arguments"
    return f"its arguments are {listed(known.arguments)}".replace(" or ", " and ")


def _unmet(known: Offered, argument: str, value: object) -> str | None:
    """What the value of an argument should be, None where it is."""
    if not _fits(value, known.arguments[argument]):
        return listed_words(known.arguments[argument])
    least, most = known.bounds.get(argument, (-inf, inf))
    if not isinstance(value, int | float) or least <= value <= most:
        return None
    return f"{least:g} or more" if most == inf else f"a number from {least:g} to {most:g}"


def _fits(value: object, types: tuple[str, ...]) -> bool:
    if not types or value is None:
        return True
    kinds = {
        "string": isinstance(value, str),
        "integer": isinstance(value, int) and not isinstance(value, bool),
        "number": isinstance(value, int | float) and not isinstance(value, bool),
        "boolean": isinstance(value, bool),
        "array": isinstance(value, list | tuple),
        "object": isinstance(value, dict),
    }
    return any(kinds.get(kind, True) for kind in types)
