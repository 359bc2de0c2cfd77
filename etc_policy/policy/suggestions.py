"""The `did you mean` of hints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from difflib import get_close_matches
from itertools import islice, repeat

#: What is longer, or beyond so many, is no slip of the pen; comparing it would take long.
_LONGEST, _MOST = 50, 600
#: So many words are looked for in a project: one that is made for it has thousands, and each takes some tenths of a second.
_MOST_WORDS = 50
_LEFT: ContextVar[Iterator[None] | None] = ContextVar("words that are still looked for", default=None)


def begin_project() -> None:
    """From now on words are those of a project that is read; after so many nothing is near any more."""
    _LEFT.set(repeat(None, _MOST_WORDS))


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is most like it, None when none is near."""
    left = _LEFT.get()
    if len(word) > _LONGEST or (left is not None and next(left, "none") == "none"):
        return None
    candidates = list(islice((name for name in known if len(name) <= _LONGEST), _MOST))
    return next(iter(get_close_matches(word, candidates, n=1)), None)


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A hint with the nearest known word, None when none is near."""
    close = nearest(word, known)
    return f"did you mean `{close}`?" if close else None


def listed(words: Iterable[str]) -> str:
    """Words in backticks, separated by commas, the last by `or`."""
    quoted = [f"`{word}`" for word in words]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"
