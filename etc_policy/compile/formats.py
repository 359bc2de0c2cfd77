"""Patterns of `event_time_column.format`, as far as they can be judged without Spark."""

from __future__ import annotations

import re

_QUOTED = re.compile(r"'[^']*'")
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
            return f"`{letter}` in `{pattern[:60]}` is no letter of Spark's patterns" + (
                f"; `{better}` may be meant" if better else ""
            )
    if "y" not in letters:
        return f"`{pattern[:60]}` has no year (`yyyy`), so it is no point in time"
    return None
