"""Cuts a text into plain data, `{{ expressions }}` and `{% statements %}`, each with its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from etc_policy.declare.codes import Code

MAX_TAG_CHARACTERS = 1_000

ChunkKind = Literal["data", "expression", "statement", "unclosed", "too_long"]

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

    A tag that is never closed, or is too long, is a chunk of that kind whose text says so.
    """
    comments = [(match.start(), match.end()) for match in _COMMENT_LINE.finditer(text)]
    begin = place = 0
    strip = False
    while (match := _OPEN.search(text, place)) is not None:
        comment_end = _end_of_comment(match.start(), comments)
        if comment_end is not None:
            place = comment_end
            continue
        end, kind = _close(text, match.start())
        if end is None:
            if kind == "comment":
                place = match.end()
                continue
            yield from _data(text, begin, match.start(), strip, False)
            yield Chunk("unclosed", f"`{match[0]}` is never closed", match.start())
            return
        inner = text[match.start() + 2 : end - 2]
        yield from _data(text, begin, match.start(), strip, inner.startswith("-"))
        strip, begin, place = inner.endswith("-"), end, end
        if kind == "comment":
            continue
        yield _tag(kind, inner, match.start())
    yield from _data(text, begin, len(text), strip, False)


def _tag(kind: str, inner: str, offset: int) -> Chunk:
    if len(inner) > MAX_TAG_CHARACTERS:
        message = f"a template has {len(inner)} characters, {MAX_TAG_CHARACTERS} are allowed"
        return Chunk("too_long", message, offset)
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


def _end_of_comment(offset: int, comments: list[tuple[int, int]]) -> int | None:
    while comments and comments[0][1] <= offset:
        comments.pop(0)
    return comments[0][1] if comments and comments[0][0] <= offset else None


def _close(text: str, start: int) -> tuple[int | None, str]:
    """Where the tag that opens at `start` ends, None where it does not; and its kind."""
    if text[start + 1] == "#":
        found = text.find("#}", start + 2)
        return (found + 2 if found >= 0 else None), "comment"
    kind, depth, place = "expression" if text[start + 1] == "{" else "statement", 0, start + 2
    while (match := _INSIDE.search(text, place)) is not None:
        place = match.end()
        mark = match[0]
        if mark == "{":
            depth += 1
        elif mark == "%}":
            if kind == "statement" and depth == 0:
                return place, kind
            depth = max(0, depth - 1)
        elif mark == "}":
            if depth == 0 and kind == "expression" and text[place : place + 1] == "}":
                return place + 1, kind
            depth = max(0, depth - 1)
    return None, kind
