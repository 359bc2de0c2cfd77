"""Carries out the templates of a YAML text before it is parsed, and remembers where each character came from.

Statements (`for`, `if`, `set`, `macro`) make text. What an expression gives never becomes YAML by itself: a placeholder of
one character stands for it until the YAML is parsed, so a value can neither break nor add to the file's structure, keeps
its type, and an expression that fails matters only where its value is used (not in a comment).
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

from jinja2 import nodes

from etc_policy.codes.registry import Code
from etc_policy.declare.jinja_chunks import TemplateProblem, cut
from etc_policy.declare.jinja_functions import Value, join_texts
from etc_policy.declare.jinja_reading import parse_expression
from etc_policy.declare.jinja_tree import (
    MAX_PROBLEMS,
    Data,
    Expression,
    ForBlock,
    IfBlock,
    MacroBlock,
    Part,
    SetPart,
    read_tree,
)
from etc_policy.declare.jinja_values import MAX_DEPTH, Context, Evaluator

MAX_OUTPUT = 2_000_000
#: Private-use characters of Unicode's last planes, one for each expression of a file.
_FIRST, _LAST = 0xF0000, 0x10FFFD

Scope = dict[str, Any]


class Plain(str):
    """A piece of a file's own text, beside the values of its expressions."""

    __slots__ = ()


@dataclass(slots=True)
class Expansion:
    """A text with its templates carried out.

    `values` belong to the placeholders in order: a value, or the problem that there is instead. `problems` are those of
    statements, each with its offset in the source.
    """

    source: str
    text: str = ""
    values: list[Value] = field(default_factory=list)
    problems: list[tuple[int, TemplateProblem]] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    origins: list[tuple[int, bool]] = field(default_factory=list)
    _lines: list[int] = field(default_factory=list)

    def located(self, place: int) -> tuple[int, int]:
        """Line and column in the source of a place in the text; what an expression or macro gave is at its `{{`."""
        number = bisect_right(self.starts, place) - 1
        if number < 0:
            return 1, 1
        origin, literal = self.origins[number]
        return self.position(origin + place - self.starts[number] if literal else origin)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset in the source, both from 1."""
        if not self._lines:
            self._lines.append(0)
            found = self.source.find("\n")
            while found >= 0:
                self._lines.append(found + 1)
                found = self.source.find("\n", found + 1)
        line = bisect_right(self._lines, offset)
        return line, offset - self._lines[line - 1] + 1

    def pieces(self, text: str) -> list[Value] | None:
        """A text cut at its placeholders, which are replaced by their values; None where it has none."""
        if text.isascii():
            return None
        found: list[Value] = []
        begin = 0
        for place, character in enumerate(text):
            number = ord(character) - _FIRST
            if 0 <= number < len(self.values):
                found += [Plain(text[begin:place])] if begin < place else []
                found.append(self.values[number])
                begin = place + 1
        if not begin:
            return None
        return [*found, Plain(text[begin:])] if begin < len(text) else found


def expand(source: str, context: Context) -> Expansion:
    """The text with its templates carried out; every fault is in the result, none is raised."""
    expansion = Expansion(source)
    tree, problems = read_tree(cut(source))
    expansion.problems += problems
    walker = _Walker(context, expansion)
    output = _Output(expansion)
    try:
        walker.parts(tree, {}, output)
    except TemplateProblem as problem:
        expansion.problems.append((walker.offset, problem))
    expansion.text = "".join(output.pieces)
    return expansion


def read_macros(source: str) -> tuple[dict[str, MacroBlock], list[tuple[int, TemplateProblem]]]:
    """The macros of a file of macros, and what is wrong with it, by offset."""
    tree, problems = read_tree(cut(source))
    macros = {part.name: part for part in tree if isinstance(part, MacroBlock)}
    for part in tree:
        if not isinstance(part, MacroBlock) and not (isinstance(part, Data) and part.text.isspace()):
            hint = "write `{% macro name(argument) %}...{% endmacro %}`"
            offset = part.offset + (len(part.text) - len(part.text.lstrip()) if isinstance(part, Data) else 0)
            fault = TemplateProblem(Code.TEMPLATE_FORBIDDEN, "a file of macros holds macros alone", hint)
            problems.append((offset, fault))
            break
    return macros, problems


@dataclass(slots=True)
class _Output:
    """Text on its way out; with `at` everything counts as coming from there (the place where a macro is called)."""

    expansion: Expansion
    at: int | None = None
    pieces: list[str] = field(default_factory=list)
    length: int = 0

    def data(self, text: str, offset: int) -> None:
        """Add text of the file."""
        self._add(text, offset, literal=self.at is None)

    def value(self, value: Value, offset: int) -> None:
        """Add a placeholder."""
        number = _FIRST + len(self.expansion.values)
        if number > _LAST:
            raise TemplateProblem(Code.TOO_BIG, "the file's templates give too many values", "split the file")
        self.expansion.values.append(value)
        self._add(chr(number), offset, literal=False)

    def _add(self, text: str, offset: int, *, literal: bool) -> None:
        self.expansion.starts.append(self.length)
        self.expansion.origins.append((offset if self.at is None else self.at, literal))
        self.length += len(text)
        if self.length > MAX_OUTPUT:
            raise TemplateProblem(Code.TOO_BIG, f"the file has more than {MAX_OUTPUT:,} characters once its loops ran")
        self.pieces.append(text)


class _Walker:
    """Walks a tree; `offset` is that of the statement it is at."""

    def __init__(self, context: Context, expansion: Expansion) -> None:
        self.offset = 0
        self._expansion, self._budget = expansion, context.budget
        self._macros: dict[str, MacroBlock] = dict(context.macros)
        self._evaluator = Evaluator(context, self._macros, self._macro_text)
        self._calls = 0

    def parts(self, parts: list[Part], scope: Scope, output: _Output) -> None:
        """Carry out the parts in order.

        Raises:
            TemplateProblem: a bound is exceeded; other problems are recorded.

        """
        for part in parts:
            self._budget.spend(1)
            if isinstance(part, Data):
                output.data(part.text, part.offset)
            elif isinstance(part, Expression):
                self._expression(part, scope, output)
            elif isinstance(part, MacroBlock):
                self._macros[part.name] = part
            else:
                self.offset = part.offset if output.at is None else output.at
                self._statement(part, scope, output)

    def _statement(self, part: Part, scope: Scope, output: _Output) -> None:
        offset = self.offset
        try:
            if isinstance(part, SetPart):
                scope[part.name] = self._evaluator.value(part.value, scope)
                return
            chosen = self._branch(part, scope) if isinstance(part, IfBlock) else None
            rounds = self._rounds(part, scope) if isinstance(part, ForBlock) else []
        except TemplateProblem as problem:
            if self._budget.steps < 0:
                raise
            if len(self._expansion.problems) < MAX_PROBLEMS:
                self._expansion.problems.append((offset, problem))
            return
        if chosen is not None:
            self.parts(chosen, scope, output)
        for inner in rounds:
            self.parts(part.parts if isinstance(part, ForBlock) else [], inner, output)
        if isinstance(part, ForBlock) and not rounds:
            self.parts(part.otherwise, scope, output)

    def _branch(self, block: IfBlock, scope: Scope) -> list[Part] | None:
        for test, parts in block.branches:
            if test is None or self._evaluator.value(test, scope):
                return parts
        return None

    def _rounds(self, block: ForBlock, scope: Scope) -> list[Scope]:
        """The names that the body sees in each round."""
        if block.iterable is None:
            return []
        values = self._evaluator.value(block.iterable, scope)
        if isinstance(values, dict):
            values = list(values)
        if not isinstance(values, list | tuple):
            message = "`for` goes through a list, this is " + ("text" if isinstance(values, str) else "none")
            raise TemplateProblem(Code.TEMPLATE_SYNTAX, message, "write {% for name in var('list') %}")
        self._budget.spend(len(values) * (1 + len(scope) // 10))
        rounds = [{**scope, **_named(block.names, value)} for value in values]
        if block.test is not None:
            rounds = [inner for inner in rounds if self._evaluator.value(block.test, inner)]
        for index, inner in enumerate(rounds):
            ends = {"first": index == 0, "last": index == len(rounds) - 1, "length": len(rounds)}
            inner["loop"] = {"index": index + 1, "index0": index, **ends}
        return rounds

    def _expression(self, part: Expression, scope: Scope, output: _Output) -> None:
        try:
            node = parse_expression(part.text)
            if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Name) and node.node.name in self._macros:
                name, arguments, named = self._evaluator.called(node, scope)
                at = part.offset if output.at is None else output.at
                inner = _Output(self._expansion, at, output.pieces, output.length)
                try:
                    self._run_macro(name, arguments, named, inner)
                finally:
                    output.length = inner.length
                return
            value = self._evaluator.value(node, scope)
        except TemplateProblem as problem:
            if self._budget.steps < 0 or (problem.code == Code.TOO_BIG and output.length > MAX_OUTPUT):
                raise
            place = self._expansion.position(part.offset if output.at is None else output.at)
            value = TemplateProblem(problem.code, problem.message, problem.hint, place)
        output.value(value, part.offset)

    def _run_macro(self, name: str, arguments: list[Value], named: dict[str, Value], output: _Output) -> None:
        if self._calls >= MAX_DEPTH:
            raise TemplateProblem(Code.TOO_BIG, f"the macro `{name}` calls itself too deeply")
        block = self._macros[name]
        unknown = [word for word in named if word not in block.arguments]
        if len(arguments) > len(block.arguments) or unknown:
            message = f"the macro `{name}` takes {', '.join(block.arguments) or 'nothing'}"
            raise TemplateProblem(Code.TEMPLATE_SYNTAX, message, "leave away what it does not take")
        scope = {**dict(zip(block.arguments, arguments, strict=False)), **named}
        for argument in block.arguments:
            if argument not in scope and argument not in block.defaults:
                message = f"the macro `{name}` needs `{argument}`"
                raise TemplateProblem(Code.TEMPLATE_SYNTAX, message, f"it takes {', '.join(block.arguments)}")
            if argument not in scope:
                scope[argument] = self._evaluator.value(block.defaults[argument], {})
        self._calls += 1
        try:
            self.parts(block.parts, scope, output)
        finally:
            self._calls -= 1

    def _macro_text(self, name: str, arguments: list[Value], named: dict[str, Value]) -> Value:
        """What a macro gives as a text, for an expression that goes on with it."""
        expansion = Expansion("")
        outer, self._expansion = self._expansion, expansion
        try:
            output = _Output(expansion, 0)
            self._run_macro(name, arguments, named, output)
        finally:
            self._expansion = outer
        if expansion.problems:
            raise expansion.problems[0][1]
        text = "".join(output.pieces)
        pieces = expansion.pieces(text) or [text]
        for piece in pieces:
            if isinstance(piece, TemplateProblem):
                raise piece
        return join_texts(pieces)


def _named(names: tuple[str, ...], value: Value) -> Scope:
    if len(names) == 1:
        return {names[0]: value}
    if not isinstance(value, list | tuple) or len(value) != len(names):
        raise TemplateProblem(Code.TEMPLATE_SYNTAX, f"`for` has {len(names)} names, which the items do not fill")
    return dict(zip(names, value, strict=True))
