"""Regular expressions that Java and Python read alike, so that a plan made here chooses what Hudi would choose."""

from __future__ import annotations

import re

_MAX_LENGTH = 500
_ESCAPE = r"\\[dDwWsS]|\\[^A-Za-z0-9\s]"
_IN_CLASS = rf"(?:{_ESCAPE}|[^\[\]\\&~|\-^]|(?<=[0-9A-Za-z])-(?=[0-9A-Za-z]))"
#: One character or class, and what may repeat it. Groups are not repeated: a search could take for ever.
_ONE = rf"(?:{_ESCAPE}|\[\^?{_IN_CLASS}+\]|[^\\\[\](){{}}*+?|^$])(?:[*+?]|\{{[0-9]{{1,3}}(?:,[0-9]{{0,3}})?\}})?"
_PLAIN = re.compile(rf"(?:{_ONE}|\((?:\?:)?|\)(?![*+?{{])|[|^$])+")


def require_plain(text: str) -> str:
    """The expression, if both languages take it and mean the same by it.

    Raises:
        ValueError: they may not.

    """
    if (
        not text
        or len(text) > _MAX_LENGTH
        or not text.isascii()
        or not _PLAIN.fullmatch(text)
        or _compiled(text) is None
    ):
        raise ValueError(
            "the regular expression must be one that Java and Python read alike: ASCII letters, classes, `.`, `*`, `+`, `?`, "
            "`{m,n}`, `^`, `$`, `|`, and groups that are not repeated"
        )
    return text


def is_found(text: str, searched: str) -> bool:
    """Whether a plain expression is found anywhere in a text, as Java's `asPredicate` does."""
    return re.search(text, searched, re.ASCII) is not None


def _compiled(text: str) -> re.Pattern[str] | None:
    try:
        return re.compile(text, re.ASCII)
    except (re.error, OverflowError):
        return None
