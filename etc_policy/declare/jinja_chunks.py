"""Cuts a text into plain data, `{{ expressions }}` and `{% statements %}`, each with its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from etc_policy.codes.registry import Code

MAX_TAG_CHARACTERS = 1_000

ChunkKind = Literal["data", "expression", "statement", "unclosed"]

_OPEN = re.compile(r"\{[{%#]")
_INSIDE = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|[{}]|%\}", re.DOTALL)
_COMMENT_LINE = re.compile(r"(?m)^[ \t]*#.*$")


class TemplateProblem(Exception):  # noqa: N818 - carried into an Issue, never shown as an exception
    """Something in a template that cannot be carried out: code, message and hint of the issue it becomes.

    `place` is line and column in the file, where they are known.
    """

    def __init__(self, code: Code, message: str, hint: str | None = None, place: tuple[int, int] | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.place = code, message, hint, place


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a text: `offset` is where it begins, `text` what it holds, without the braces."""

    kind: ChunkKind
    text: str
    offset: int


def has_template(text: str) -> bool:
    """Whether anything in the text is Jinja's."""
    return "{{" in text or "{%" in text or ("{#" in text and "#}" in text)


def cut(text: str) -> Iterator[Chunk]:
    """The chunks of the text in order; Jinja in a line that is a comment of YAML is plain data.

    A tag that is never closed, or is too long, is a chunk of kind `unclosed` whose text says so; it is the last.
    """
    comments = _COMMENT_LINE.finditer(text)
    comment = next(comments, None)
    last_comment_end = text.rfind("#}")
    begin = place = 0
    strip = False
    while (match := _OPEN.search(text, place)) is not None:
        start = match.start()
        while comment is not None and comment.end() <= start:
            comment = next(comments, None)
        if comment is not None and comment.start() <= start:
            place = comment.end()
            continue
        if text[start + 1] == "#":
            if last_comment_end < start + 2:
                place = match.end()
                continue
            end, kind = text.find("#}", start + 2) + 2, "comment"
        else:
            kind = "expression" if text[start + 1] == "{" else "statement"
            found = _close(text, start, kind)
            if found is None:
                yield from _data(text, begin, start, strip, False)
                message = f"`{match[0]}` is not closed within {MAX_TAG_CHARACTERS} characters"
                yield Chunk("unclosed", message, start)
                return
            end = found
        inner = text[start + 2 : end - 2]
        yield from _data(text, begin, start, strip, inner.startswith("-"))
        strip, begin, place = inner.endswith("-"), end, end
        if kind != "comment":
            yield _tag(kind, inner, start)
    yield from _data(text, begin, len(text), strip, False)


def _tag(kind: str, inner: str, offset: int) -> Chunk:
    inner = inner.removeprefix("-").removeprefix("+").removesuffix("-").removesuffix("+")
    return Chunk("statement" if kind == "statement" else "expression", inner, offset)


def _data(text: str, begin: int, end: int, strip_left: bool, strip_right: bool) -> Iterator[Chunk]:
    piece = text[begin:end]
    if strip_left:
        kept = piece.lstrip()
        begin, piece = begin + len(piece) - len(kept), kept
    if strip_right:
        piece = piece.rstrip()
    if piece:
        yield Chunk("data", piece, begin)


def _close(text: str, start: int, kind: str) -> int | None:
    """Where the tag that opens at `start` ends, None where it does not."""
    depth, place, limit = 0, start + 2, start + MAX_TAG_CHARACTERS + 4
    while (match := _INSIDE.search(text, place, limit)) is not None:
        place = match.end()
        mark = match[0]
        if mark == "{":
            depth += 1
        elif mark == "%}":
            if kind == "statement" and depth == 0:
                return place
            depth = max(0, depth - 1)
        elif mark == "}":
            if depth == 0 and kind == "expression" and text[place : place + 1] == "}":
                return place + 1
            depth = max(0, depth - 1)
    return None
