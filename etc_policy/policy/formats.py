"""Patterns of `event_time_column.format`, as far as they can be judged without Spark."""

from __future__ import annotations

import re

_QUOTED = re.compile(r"'[^']*'")
#: A year that may be of any length, and a fraction in the same run of digits: Spark takes too many digits for the year.
_RUN_INTO_FRACTION = re.compile(r"yyy[a-zA-Z]*S")
_LETTERS = frozenset("GyMLdDEQqahkKHmsSVzOXxZ")
#: Fields of a point in time and the letters of each. Spark puts the first month, day, hour or minute where one is missing.
_FIELDS = {
    "year (`yyyy`)": "y",
    "month (`MM`; `mm` is the minute)": "MLD",
    "day (`dd`)": "dD",
    "hour (`HH`)": "HkhK",
    "minute (`mm`; `MM` is the month)": "m",
    "second (`ss`)": "sS",
}
_OPTIONAL = re.compile(r"\[[^\[\]]*\]")
_MONTHS = re.compile(r"M+|L+")
_WRONG = {"Y": "y", "u": "y", "e": "E", "w": None, "W": None, "n": "S", "N": "S", "A": "S"}


def format_fault(pattern: str, shown: str) -> str | None:
    """Why Spark cannot read times with the pattern, which messages show so; None where it looks right."""
    if "%" in pattern:
        return f"`{shown}` is a pattern of strftime, not of Spark"
    letters = [letter for letter in _QUOTED.sub("", pattern) if letter.isalpha()]
    for letter in letters:
        if letter not in _LETTERS:
            better = _WRONG.get(letter)
            return f"`{letter}` in `{shown}` is not a letter of Spark's patterns" + (
                f"; `{better}` may be meant" if better else ""
            )
    fault = _missing_field(frozenset(letters)) or _misread_letter(_QUOTED.sub("", pattern))
    if fault is not None:
        return f"`{shown}` {fault}"
    if _RUN_INTO_FRACTION.search(pattern):
        return (
            f"Spark reads nothing with `{shown}`: the fraction of a second (`S`) must be separated from the date, "
            "as in `yyyyMMddHHmmss.SSS`"
        )
    return None


def _missing_field(letters: frozenset[str]) -> str | None:
    """Which field is missing before one that is there."""
    found = [not letters.isdisjoint(of_field) for of_field in _FIELDS.values()]
    for place, name in enumerate(_FIELDS):
        if not found[place] and (place == 0 or any(found[place:])):
            return f"has no {name}, so it is not a point in time"
    return None


def _misread_letter(pattern: str) -> str | None:
    """Which letter means something else than it may seem to, in a pattern without quoted text."""
    if "a" not in pattern:
        for letter in "hK":
            if letter in pattern:
                return f"has an hour of twelve (`{letter}`) and no half of the day (`a`); `HH` is one of twenty-four"
    if "D" in pattern and _MONTHS.search(pattern):
        return "has a month and a day of the year (`D`); `dd` is the day of the month"
    if len(_MONTHS.findall(_OPTIONAL.sub("", pattern))) > 1:
        return "has the month twice; `mm` is the minute"
    return None
