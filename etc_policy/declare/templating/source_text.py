"""What can be said of a file's text without Jinja, which is imported where a file has templates."""

from __future__ import annotations

import re
from bisect import bisect_right


def has_template(text: str) -> bool:
    """Whether anything in the text is Jinja's."""
    return "{{" in text or "{%" in text or ("{#" in text and "#}" in text)


class Lines:
    """Lines and columns of a text, both from 1."""

    def __init__(self, text: str) -> None:
        self._begins = [0, *(found.end() for found in re.finditer(r"\r\n|\n|\r", text))]

    def position(self, offset: int) -> tuple[int, int]:
        """The place of an offset."""
        line = bisect_right(self._begins, offset)
        return line, offset - self._begins[line - 1] + 1
