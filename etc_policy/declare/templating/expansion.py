"""A text whose templates were carried out, with a placeholder for each value and the place of each character."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable

from etc_policy.declare.templating.problems import Exhausted, TemplateProblem
from etc_policy.declare.templating.values import MAX_CHARACTERS, Piece, Value, pieces_of

#: So many problems of the statements of one file are reported.
MAX_PROBLEMS = 200
#: Private-use characters: a placeholder is four that are drawn at random for each rendering, so that no file holds them, and two
#: that count.
_PLANE, _SIZE = 0xF0000, 0xFFFE
DRAWN = 12


def positions(text: str) -> Callable[[int], tuple[int, int]]:
    """A function that gives the line and column of an offset in the text, both from 1."""
    begins = [0, *(found.end() for found in re.finditer("\n", text))]

    def position(offset: int) -> tuple[int, int]:
        line = bisect_right(begins, offset)
        return line, offset - begins[line - 1] + 1

    return position


class Expansion:
    """A text with its templates carried out.

    `values` belong to the placeholders in order: a value, or the problem that there is instead. `problems` are those of
    statements, each with its place in the source. `asks_target` says that a template names the target.
    """

    def __init__(self, source: str, drawn: bytes) -> None:
        """`drawn` are DRAWN random bytes."""
        self.values: list[Value] = []
        self.problems: list[TemplateProblem] = []
        self.asks_target = False
        self._position = positions(source)
        self._parts: list[str] = []
        self._starts: list[int] = []
        self._origins: list[tuple[int, bool]] = []
        self._length = 0
        numbers = (int.from_bytes(drawn[place : place + 3]) for place in range(0, DRAWN, 3))
        self._mark = "".join(chr(_PLANE + number % _SIZE) for number in numbers)

    @property
    def text(self) -> str:
        """The text, with placeholders."""
        return "".join(self._parts)

    def located(self, place: int) -> tuple[int, int]:
        """Line and column in the source of a place in the text; what an expression or macro gave is at its `{{`."""
        number = bisect_right(self._starts, place) - 1
        if number < 0:
            return 1, 1
        origin, literal = self._origins[number]
        return self._position(origin + place - self._starts[number] if literal else origin)

    def pieces(self, text: str) -> list[Value] | None:
        """A text cut at its placeholders, which are replaced by their values; None where it has none."""
        if self._mark not in text:
            return None
        first, *others = text.split(self._mark)
        found: list[Value] = [first] if first else []
        for part in others:
            found.append(self.values[(ord(part[0]) - _PLANE) * _SIZE + ord(part[1]) - _PLANE])
            found += [part[2:]] if len(part) > 2 else []
        return found

    def failures(self) -> list[TemplateProblem]:
        """The problems of values, each with its place."""
        return [value for value in self.values if isinstance(value, TemplateProblem) and not value.reported]

    def add(self, piece: Piece, at: int | None = None) -> None:
        """Add text, or a placeholder for a value; `at` is where a macro is called that gave it."""
        offset = piece.offset if at is None else at
        inner = pieces_of(piece.value)
        if inner is not None:
            for part in inner:
                self.add(part, offset)
            return
        text = piece.value
        if not piece.literal:
            high, low = divmod(len(self.values), _SIZE)
            self.values.append(text.again(self._position(offset)) if isinstance(text, TemplateProblem) else text)
            text = self._mark + chr(_PLANE + high) + chr(_PLANE + low)
        self._starts.append(self._length)
        self._origins.append((offset, piece.literal and at is None))
        self._length += len(text)
        if self._length > MAX_CHARACTERS:
            raise Exhausted(f"the file has more than {MAX_CHARACTERS:,} characters once its loops ran")
        self._parts.append(text)

    def record(self, offset: int, problem: TemplateProblem) -> None:
        """Add a problem of a statement."""
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem.again(self._position(offset)))
