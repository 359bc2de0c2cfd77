"""A text cut by Jinja's own lexer: its tags apart from its data, each with its place.

The tags alone are what is compiled, so that files of one shape are compiled once. A tag that cannot be cut is a token of
kind `problem`, and the rest of the file goes on after it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

from jinja2 import TemplateSyntaxError
from jinja2.lexer import Lexer

from etc_policy.declare.templating.problems import TemplateProblem, too_big
from etc_policy.declare.templating.values import Piece

MAX_TOKENS = 200_000
#: So many tags that cannot be cut are reported; each costs another look at the rest of the file.
_MAX_PROBLEMS = 20
_MAX_DIGITS = 100

#: Stands for a brace in a line that is a comment of YAML; YAML allows it in no file.
_BRACE = "\x01"
_NEWLINE = re.compile(r"\r\n|\r")
_COMMENT = re.compile(r"(?m)^[ \t]*#(?!\})[^\n]*\{[{%#][^\n]*$")
_EXPRESSION = re.compile(
    r"(\{\{(?:[^-+{}'\"][^{}'\"]*)?(?:'[^'\\{}]*'[^{}'\"]*|\"[^\"\\{}]*\"[^{}'\"]*){0,20}(?<![-+])\}\})"
)
_BEGINS = {"variable_begin": "}}", "block_begin": "%}", "raw_begin": "", "raw_end": "", "comment_begin": ""}

#: Number of the tag, kind and value, as `Lexer.wrap` takes it; the value of data is the number of its text.
RawToken: TypeAlias = tuple[int, str, str]


@dataclass(slots=True)
class Shape:
    """A text's tokens, the offset of each tag by its number, and its data by their number.

    `fatal` is why nothing of it can be carried out, at an offset.
    """

    tokens: list[RawToken] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    texts: list[Piece] = field(default_factory=list)
    fatal: tuple[int, TemplateProblem] | None = None


def unified(source: str) -> str:
    """The text with newlines as Jinja sees them."""
    return _NEWLINE.sub("\n", source) if "\r" in source else source


def shape_of(source: str, lexer: Lexer) -> Shape:
    """The shape of a text with unified newlines; lines that are comments of YAML are plain data."""
    return _Cutter(_COMMENT.sub(lambda found: found[0].replace("{", _BRACE), source), lexer).shape


@lru_cache(maxsize=4096)
def _expression(tag: str, lexer: Lexer) -> tuple[tuple[str, str], ...]:
    """Kind and value of each token of `{{ ... }}`; most files repeat a few of them."""
    return tuple((kind, value) for _, kind, value in lexer.tokeniter(tag, None))


class _Cutter:
    def __init__(self, text: str, lexer: Lexer) -> None:
        self.shape, self._text, self._lexer = Shape(), text, lexer
        self._offset, self._end, self._begin = 0, "", 0
        if not self._cut_expressions():
            self._cut()

    def _cut_expressions(self) -> bool:
        """Cut a text that holds short expressions alone; whether it is one."""
        parts = _EXPRESSION.split(self._text)
        if "{%" in self._text or "{#" in self._text or any("{{" in data for data in parts[::2]):
            return False
        try:
            tags = [_expression(tag, self._lexer) for tag in parts[1::2]]
            for data, tokens in zip(parts[::2], [*tags, ()], strict=True):
                for kind, value in (("data", data), *tokens) if data else tokens:
                    self._add(kind, value)
        except (TemplateSyntaxError, TemplateProblem):
            self.shape, self._offset = Shape(), 0
            return False
        return True

    def _cut(self) -> None:
        text, lexer = self._text, self._lexer
        for _ in range(_MAX_PROBLEMS):
            begin = self._offset
            try:
                for _, kind, value in lexer.tokeniter(text[begin:] if begin else text, None):
                    self._add(kind, value)
                return
            except TemplateSyntaxError as error:
                if not self._recover(str(error.message)):
                    return
            except TemplateProblem as problem:
                self.shape.fatal = (self._offset, problem)
                return

    def _add(self, kind: str, value: str) -> None:
        shape = self.shape
        if kind == "data":
            shape.texts.append(Piece(value.replace(_BRACE, "{"), self._offset, literal=True))
            shape.tokens.append((len(shape.offsets), kind, str(len(shape.texts) - 1)))
        elif kind in _BEGINS:
            self._offset = self._text.index(value, self._offset)
            self._begin, self._end = len(shape.tokens), _BEGINS[kind]
            shape.offsets.append(self._offset)
            shape.tokens.append((len(shape.offsets) - 1, kind, value[:2]))
        elif kind not in ("whitespace", "comment", "comment_end"):
            self._require_readable(kind, value)
            ends = kind in ("variable_end", "block_end")
            shape.tokens.append((len(shape.offsets) - 1, kind, "" if ends else value))
        self._offset += len(value)
        if len(shape.tokens) > MAX_TOKENS:
            raise too_big(f"the file's templates have more than {MAX_TOKENS:,} words and signs", "split the file")

    def _require_readable(self, kind: str, value: str) -> None:
        """Jinja reads numbers, names and texts one by one later; what it then refuses is found here."""
        if kind in ("integer", "float") and len(value) > _MAX_DIGITS:
            raise TemplateSyntaxError(f"a number has more than {_MAX_DIGITS} digits", 1)
        if (kind == "string" and "\\" in value) or (kind == "name" and not value.isascii()):
            list(self._lexer.wrap([(1, kind, value)]))

    def _recover(self, message: str) -> bool:
        """Put a problem in place of the tag that cannot be cut; whether the text goes on after it."""
        tokens = self.shape.tokens
        number, kind, _ = tokens[self._begin]
        word = tokens[self._begin + 1][2] if kind == "block_begin" and len(tokens) > self._begin + 1 else ""
        close = self._text.find(self._end, self.shape.offsets[-1] + 2) if self._end else -1
        message = re.sub(r" at [0-9]+$", "", message)
        if close < 0:
            message = f"the tag is not closed, {message}"
        if close < 0 or kind != "variable_begin":
            kind = "block_begin"
        del tokens[self._begin :]
        problem = f"{word}:{message}"
        tokens += [(number, kind, ""), (number, "problem", problem), (number, kind.replace("begin", "end"), "")]
        self._offset = close + 2
        return close >= 0
