"""The `did you mean` of hints."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

#: What is longer, or beyond so many, is no slip of the pen; comparing it would take long.
_LONGEST, _MOST = 100, 1_000


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is most like it, None when none is near."""
    if len(word) > _LONGEST:
        return None
    candidates = [name for name in islice(known, _MOST) if len(name) <= _LONGEST]
    return next(iter(get_close_matches(word, candidates, n=1)), None)


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A hint with the nearest known word, None when none is near."""
    close = nearest(word, known)
    return f"did you mean `{close}`?" if close else None


def listed(words: Iterable[str]) -> str:
    """Words in backticks, separated by commas, the last by `or`."""
    quoted = [f"`{word}`" for word in words]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"
