"""From a text to a program: its tags are cut, parsed and compiled, and what is wrong with them is gathered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from jinja2 import TemplateSyntaxError, nodes

from etc_policy.declare.templating.expansion import MAX_PROBLEMS, positions
from etc_policy.declare.templating.generator import GuardingGenerator
from etc_policy.declare.templating.parser import Problem, TolerantParser, unreadable
from etc_policy.declare.templating.problems import TemplateProblem, forbidden, too_big
from etc_policy.declare.templating.sandbox import SANDBOX
from etc_policy.declare.templating.shape import RawToken, Shape, shape_of, unified
from etc_policy.declare.templating.values import Piece

_MAX_EXPRESSION = 50
#: Where the code of templates seems to lie.
_CODE = f"{__file__} (template)"


@dataclass(slots=True)
class Program:
    """What a shape comes to: `root` gives its pieces, `problems` are those of its tags, by number of the tag.

    `macros` are the tags of macros by name; `others` is what there is beside macros: tags, and data, by their numbers.
    """

    root: Callable[[Any], Iterator[Any]] | None = None
    problems: list[Problem] = field(default_factory=list)
    macros: dict[str, int] = field(default_factory=dict)
    others: list[tuple[str, int]] = field(default_factory=list)
    names: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class File:
    """A file's tags and data, and the program that they come to."""

    shape: Shape
    program: Program


@dataclass(frozen=True, slots=True)
class MacroSource:
    """A macro of a file of macros; `place` is the line and column where it begins."""

    place: tuple[int, int]
    file: File


def read_file(source: str) -> tuple[File, list[Problem]]:
    """A file, and what is wrong with its tags, by offset."""
    shape = shape_of(source, SANDBOX.lexer)
    if shape.fatal is not None:
        return File(shape, Program()), [shape.fatal]
    program = _compiled(tuple(shape.tokens))
    return File(shape, program), [
        (shape.offsets[tag] if shape.offsets else 0, found) for tag, found in program.problems
    ]


def read_macros(source: str) -> tuple[dict[str, MacroSource], list[TemplateProblem]]:
    """The macros of a file of macros, and what is wrong with it, each with its place."""
    source = unified(source)
    position = positions(source)
    file, problems = read_file(source)
    shape, program = file.shape, file.program
    for kind, number in program.others:
        other = shape.texts[number] if kind == "data" else Piece("{%", shape.offsets[number])
        text = other.value.lstrip()
        if text:
            begin = other.offset + len(other.value) - len(text)
            hint = "write `{% macro name(argument) %}...{% endmacro %}`"
            problems.append((begin, forbidden("a file of macros holds macros alone", hint)))
            break
    macros = {name: MacroSource(position(shape.offsets[tag]), file) for name, tag in program.macros.items()}
    return macros, [problem.again(position(offset)) for offset, problem in problems[:MAX_PROBLEMS]]


@lru_cache(maxsize=128)
def _compiled(key: tuple[RawToken, ...]) -> Program:
    """The program of a shape."""
    parser = TolerantParser(SANDBOX, key)
    tree = nodes.Template(parser.subparse(), lineno=0)
    program = Program(problems=parser.problems)
    for node in tree.body:
        if isinstance(node, nodes.Macro):
            program.macros.setdefault(node.name, node.lineno)
            continue
        inner = node.nodes[0] if isinstance(node, nodes.Output) else None
        data = inner.data if isinstance(inner, nodes.TemplateData) else None
        program.others.append(("data", int(data)) if data is not None else ("tag", node.lineno))
    deepest, program.names = _looked_through(tree)
    if deepest is not None:
        program.problems.append((deepest, too_big("the template is nested too deeply")))
        return program
    try:
        generator = GuardingGenerator(SANDBOX)
        generator.visit(tree)
        namespace: dict[str, Any] = {"environment": SANDBOX, "problems": generator.problems}
        code = compile(generator.stream.getvalue(), _CODE, "exec")  # type: ignore[attr-defined]
        exec(code, namespace)  # noqa: S102 - what Jinja's compiler made of the tree
        program.root = namespace["root"]
    except TemplateSyntaxError as error:
        program.problems.append((error.lineno, unreadable(error)))
    except (RecursionError, MemoryError, SyntaxError):
        program.problems.append((0, too_big("the template is nested too deeply")))
    return program


def _looked_through(tree: nodes.Node) -> tuple[int | None, frozenset[str]]:
    """The tag of an expression that is nested too deeply, and the names that are set."""
    names: set[str] = set()
    rest: list[tuple[nodes.Node, int]] = [(tree, 0)]
    while rest:
        node, depth = rest.pop()
        if depth > _MAX_EXPRESSION:
            return node.lineno, frozenset()
        if isinstance(node, nodes.Name) and node.ctx != "load":
            names.add(node.name)
        inner = ((child, isinstance(child, nodes.Expr | nodes.Helper)) for child in node.iter_child_nodes())
        rest += [(child, depth + 1 if deeper else 0) for child, deeper in inner]
    return None, frozenset(names)
