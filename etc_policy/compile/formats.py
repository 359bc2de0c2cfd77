"""Patterns of `event_time_column.format`, as far as they can be judged without Spark."""

from __future__ import annotations

import re

_QUOTED = re.compile(r"'[^']*'")
#: A year that may be of any length, and a fraction in the same run of digits: Spark takes too many digits for the year.
_RUN_INTO_FRACTION = re.compile(r"yyy[a-zA-Z]*S")
_LETTERS = frozenset("GyMLdDEQqahkKHmsSVzOXxZ")
_WRONG = {"Y": "y", "u": "y", "e": "E", "w": None, "W": None, "n": "S", "N": "S", "A": "S"}


def format_fault(pattern: str) -> str | None:
    """Why Spark cannot read times with the pattern, None where it looks right."""
    if "%" in pattern:
        return f"`{pattern[:60]}` is a pattern of strftime, not of Spark"
    letters = [letter for letter in _QUOTED.sub("", pattern) if letter.isalpha()]
    for letter in letters:
        if letter not in _LETTERS:
            better = _WRONG.get(letter)
            return f"`{letter}` in `{pattern[:60]}` is not a letter of Spark's patterns" + (
                f"; `{better}` may be meant" if better else ""
            )
    if "y" not in letters:
        return f"`{pattern[:60]}` has no year (`yyyy`), so it is not a point in time"
    if _RUN_INTO_FRACTION.search(pattern):
        return (
            f"Spark reads nothing with `{pattern[:60]}`: the fraction of a second (`S`) must be separated from the date, "
            "as in `yyyyMMddHHmmss.SSS`"
        )
    return None
