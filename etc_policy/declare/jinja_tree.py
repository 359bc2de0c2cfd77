"""From chunks of a text to a tree of loops, conditions and macros; the heads of statements are read by Jinja's parser."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from jinja2 import nodes

from etc_policy.codes.registry import Code
from etc_policy.declare.jinja_chunks import Chunk, TemplateProblem
from etc_policy.declare.jinja_reading import parse_tag
from etc_policy.declare.suggestions import did_you_mean

MAX_NESTING = 20
MAX_CHUNKS = 100_000
#: So many problems of one file are told.
MAX_PROBLEMS = 200

_STATEMENTS = ("for", "if", "elif", "else", "endfor", "endif", "set", "macro", "endmacro")
_ENDS = {"endfor": "for", "endif": "if", "endmacro": "macro"}
_HINT = "a template may use `for`, `if`, `set` and `macro`"

Problem: TypeAlias = tuple[int, TemplateProblem]


@dataclass(slots=True)
class Part:
    """A piece of a template; `offset` is where it begins in the source."""

    offset: int


@dataclass(slots=True)
class Data(Part):
    """Plain text."""

    text: str


@dataclass(slots=True)
class Expression(Part):
    """`{{ ... }}`, not yet read."""

    text: str


@dataclass(slots=True)
class SetPart(Part):
    """`{% set name = expression %}`."""

    name: str
    value: nodes.Node


@dataclass(slots=True)
class ForBlock(Part):
    """`{% for names in iterable if test %}`, and what comes where it is empty; `iterable` is None in a faulty one."""

    names: tuple[str, ...] = ()
    iterable: nodes.Node | None = None
    test: nodes.Node | None = None
    parts: list[Part] = field(default_factory=list)
    otherwise: list[Part] = field(default_factory=list)


@dataclass(slots=True)
class IfBlock(Part):
    """Branches with their conditions in order; a condition of None always holds, a faulty one never."""

    branches: list[tuple[nodes.Node | None, list[Part]]] = field(default_factory=list)


@dataclass(slots=True)
class MacroBlock(Part):
    """`{% macro name(arguments) %}`."""

    name: str = ""
    arguments: tuple[str, ...] = ()
    defaults: dict[str, nodes.Node] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)


@dataclass(slots=True)
class _Open:
    """A block that has not ended: where its parts go now."""

    word: str
    block: Part
    parts: list[Part]


def read_tree(chunks: Iterable[Chunk]) -> tuple[list[Part], list[Problem]]:
    """The parts of a text and every problem of its statements, by offset."""
    reader = _TreeReader()
    for number, chunk in enumerate(chunks):
        if number > MAX_CHUNKS:
            reader.problem(
                chunk.offset, Code.TOO_BIG, f"the file has more than {MAX_CHUNKS:,} templates", "split the file"
            )
            break
        if chunk.kind == "unclosed":
            reader.problem(chunk.offset, Code.TEMPLATE_SYNTAX, chunk.text, "write `{{ ... }}` or `{% ... %}`")
        elif chunk.kind == "statement":
            reader.statement(chunk)
        else:
            kind = Data if chunk.kind == "data" else Expression
            reader.parts.append(kind(chunk.offset, chunk.text))
    for block in reader.open[:MAX_NESTING]:
        message = f"`{{% {block.word} %}}` has no `{{% end{block.word} %}}`"
        reader.problem(block.block.offset, Code.TEMPLATE_SYNTAX, message)
    return reader.root, reader.problems


class _TreeReader:
    def __init__(self) -> None:
        self.root: list[Part] = []
        self.open: list[_Open] = []
        self.problems: list[Problem] = []

    @property
    def parts(self) -> list[Part]:
        """Where the next part goes."""
        return self.open[-1].parts if self.open else self.root

    def problem(self, offset: int, code: Code, message: str, hint: str | None = None) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append((offset, TemplateProblem(code, message, hint)))

    def statement(self, chunk: Chunk) -> None:
        word = (chunk.text.split(None, 1) or [""])[0]
        if word not in _STATEMENTS:
            hint = did_you_mean(word, _STATEMENTS) or _HINT
            self.problem(chunk.offset, Code.TEMPLATE_FORBIDDEN, f"`{{% {word[:40]} %}}` is not allowed here", hint)
        elif word in _ENDS:
            self._end(chunk, _ENDS[word])
        elif word in ("elif", "else"):
            self._branch(chunk, word)
        elif word == "set":
            node = self._read(chunk, "{%" + chunk.text + "%}")
            if isinstance(node, nodes.Assign) and isinstance(node.target, nodes.Name):
                self.parts.append(SetPart(chunk.offset, node.target.name, node.node))
            elif node is not None:
                self.problem(chunk.offset, Code.TEMPLATE_FORBIDDEN, "`set` takes one name: {% set name = value %}")
        else:
            self._begin(chunk, word)

    def _begin(self, chunk: Chunk, word: str) -> None:
        if len(self.open) >= MAX_NESTING:
            self.problem(chunk.offset, Code.TOO_BIG, "blocks are nested too deeply")
            self.open.append(_Open(word, Part(chunk.offset), []))
            return
        node = self._read(chunk, "{%" + chunk.text + "%}{% end" + word + " %}")
        block: Part
        if word == "for":
            block = _for_block(chunk.offset, node)
            if isinstance(node, nodes.For) and (node.recursive or not block.names):
                self.problem(chunk.offset, Code.TEMPLATE_FORBIDDEN, "`for` takes names: {% for name in list %}")
                block.iterable = None
            target = block.parts
        elif word == "if":
            test = node.test if isinstance(node, nodes.If) else nodes.Const(False)
            block = IfBlock(chunk.offset, [(test, [])])
            target = block.branches[0][1]
        else:
            block = _macro_block(chunk.offset, node)
            target = block.parts
        if not isinstance(block, MacroBlock) or block.name:
            self.parts.append(block)
        self.open.append(_Open(word, block, target))

    def _branch(self, chunk: Chunk, word: str) -> None:
        block = self.open[-1].block if self.open else None
        if isinstance(block, IfBlock) and block.branches[-1][0] is not None:
            test: nodes.Node | None = None
            if word == "elif":
                node = self._read(chunk, "{%" + chunk.text.replace("elif", "if", 1) + "%}{% endif %}")
                test = node.test if isinstance(node, nodes.If) else nodes.Const(False)
            block.branches.append((test, []))
            self.open[-1].parts = block.branches[-1][1]
        elif isinstance(block, ForBlock) and word == "else" and self.open[-1].parts is block.parts:
            self.open[-1].parts = block.otherwise
        else:
            self.problem(chunk.offset, Code.TEMPLATE_SYNTAX, f"`{{% {word} %}}` has no `{{% if %}}` before it")

    def _end(self, chunk: Chunk, word: str) -> None:
        if self.open and self.open[-1].word == word:
            self.open.pop()
            return
        expected = f"`{{% end{self.open[-1].word} %}}` is expected" if self.open else "nothing is open"
        message = f"`{{% end{word} %}}` stands where {expected}"
        self.problem(chunk.offset, Code.TEMPLATE_SYNTAX, message)

    def _read(self, chunk: Chunk, source: str) -> nodes.Node | None:
        node = parse_tag(source)
        if isinstance(node, TemplateProblem):
            self.problem(chunk.offset, node.code, node.message, _HINT)
            return None
        return node


def _for_block(offset: int, node: nodes.Node | None) -> ForBlock:
    block = ForBlock(offset)
    if isinstance(node, nodes.For):
        targets = node.target.items if isinstance(node.target, nodes.Tuple) else [node.target]
        if all(isinstance(target, nodes.Name) for target in targets):
            block.names = tuple(target.name for target in targets if isinstance(target, nodes.Name))
        block.iterable, block.test = node.iter, node.test
    return block


def _macro_block(offset: int, node: nodes.Node | None) -> MacroBlock:
    if not isinstance(node, nodes.Macro):
        return MacroBlock(offset)
    names = tuple(argument.name for argument in node.args)
    defaults: dict[str, nodes.Node] = dict(zip(names[len(names) - len(node.defaults) :], node.defaults, strict=True))
    return MacroBlock(offset, node.name, names, defaults)
