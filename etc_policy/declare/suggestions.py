"""The `did you mean` of hints."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A hint with the nearest known word, None when none is near."""
    close = get_close_matches(word, list(known), n=1)
    return f"did you mean `{close[0]}`?" if close else None


def listed(words: Iterable[str]) -> str:
    """Words in backticks, separated by commas, the last by `or`."""
    quoted = [f"`{word}`" for word in words]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"
