"""From a text to a program: Jinja's compiler with guards, and what is wrong with the tags is gathered.

Each expression of a tag is a function that the rendering of a file calls: one that fails loses its own value alone, each step
of a loop is counted, and each list, mapping and text is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from jinja2 import TemplateSyntaxError, nodes
from jinja2.compiler import CodeGenerator, Frame

from etc_policy.declare.templating.expansion import MAX_PROBLEMS, positions
from etc_policy.declare.templating.parser import Problem, RawToken, Shape, TolerantParser, unified, unreadable
from etc_policy.declare.templating.problems import TemplateProblem, forbidden, too_big
from etc_policy.declare.templating.sandbox import SANDBOX
from etc_policy.declare.templating.values import Piece

_MAX_EXPRESSION = 50
#: Where the code of templates seems to lie.
_CODE = f"{__file__} (template)"
#: The method of the rendering that calls an expression, by the statement and its field.
_GUARDS: dict[type[nodes.Node], dict[str, str]] = {
    nodes.For: {"iter": "rounds", "test": "holds"},
    nodes.If: {"test": "holds"},
    nodes.Assign: {"node": "assigned"},
    nodes.With: {"values": "assigned"},
}
#: Values that are made by calls, so that they are measured: what is called, and with which parts.
_CALLS: dict[type[nodes.Node], Callable[[Any], tuple[str, Iterable[nodes.Node]]]] = {
    nodes.Concat: lambda node: ("context.joined", node.nodes),
    nodes.List: lambda node: ("context.listed", node.items),
    nodes.Dict: lambda node: ("context.mapped", [part for pair in node.items for part in (pair.key, pair.value)]),
    nodes.Getitem: lambda node: ("environment.getitem", (node.node, node.arg)),
    nodes.Slice: lambda node: ("slice", [part or nodes.Const(None) for part in (node.start, node.stop, node.step)]),
}


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


class File(Shape):
    """A file's tags and data, and the program that they come to; `problems` are those of its tags, by offset."""

    def __init__(self, source: str) -> None:
        super().__init__(source, SANDBOX.lexer)
        self.program = _compiled(tuple(self.tokens))
        self.problems += [((self.offsets or [0])[tag], problem) for tag, problem in self.program.problems]


class MacroSource(NamedTuple):
    """A macro of a file of macros; `place` is the line and column where it begins."""

    place: tuple[int, int]
    file: File


def read_macros(source: str) -> tuple[dict[str, MacroSource], list[TemplateProblem]]:
    """The macros of a file of macros, and what is wrong with it, each with its place."""
    source = unified(source)
    position = positions(source)
    file = File(source)
    for kind, number in file.program.others:
        other = file.texts[number] if kind == "data" else Piece("{%", file.offsets[number])
        text = other.value.lstrip()
        if text:
            begin = other.offset + len(other.value) - len(text)
            hint = "write `{% macro name(argument) %}...{% endmacro %}`"
            file.problems.append((begin, forbidden("a file of macros holds macros alone", hint)))
            break
    macros = {name: MacroSource(position(file.offsets[tag]), file) for name, tag in file.program.macros.items()}
    return macros, [problem.again(position(offset)) for offset, problem in file.problems[:MAX_PROBLEMS]]


@lru_cache(maxsize=128)
def _compiled(key: tuple[RawToken, ...]) -> Program:
    """The program of a shape."""
    parser = TolerantParser(SANDBOX, key)
    tree = nodes.Template(parser.subparse(), lineno=0)
    program = Program(problems=parser.problems)
    for node in tree.body:
        inner = node.nodes[0] if isinstance(node, nodes.Output) else None
        if isinstance(node, nodes.Macro):
            program.macros.setdefault(node.name, node.lineno)
        elif isinstance(inner, nodes.TemplateData):
            program.others.append(("data", int(inner.data)))
        else:
            program.others.append(("tag", node.lineno))
    deepest, program.names = _guarded(tree)
    if deepest is not None:
        program.problems.append((deepest, too_big("the template is nested too deeply")))
        return program
    try:
        generator = _GuardingGenerator()
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


def _guarded(tree: nodes.Node) -> tuple[int | None, frozenset[str]]:
    """The tag of an expression that is nested too deeply, and the names that are set; each expression gets its guard."""
    names: set[str] = set()
    rest: list[tuple[nodes.Node, int]] = [(tree, 0)]
    while rest:
        node, depth = rest.pop()
        if depth > _MAX_EXPRESSION:
            return node.lineno, frozenset()
        if isinstance(node, nodes.Name) and node.ctx != "load":
            names.add(node.name)
        for name, method in _GUARDS.get(type(node), {}).items():
            found, target = getattr(node, name), getattr(node, "target", None)
            wanted = len(target.items) if isinstance(target, nodes.Tuple) else 0
            for expression in found if isinstance(found, list) else [found] if found else []:
                expression.guard = (method, node.lineno, wanted)
        inner = ((child, isinstance(child, nodes.Expr | nodes.Helper)) for child in node.iter_child_nodes())
        rest += [(child, depth + 1 if deeper else 0) for child, deeper in inner]
    return None, frozenset(names)


class _GuardingGenerator(CodeGenerator):
    """Jinja's compiler; expressions of tags are called by the rendering (`Rendering`).

    The `problems` are those of expressions that cannot be read; the code knows them by this name.
    """

    def __init__(self) -> None:
        super().__init__(SANDBOX, None, None, optimized=False)
        self.problems: list[TemplateProblem] = []

    def visit(self, node: nodes.Node, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - as in Jinja
        """Visit a node, under the guard that it was given; a tuple is a list, but where names are set."""
        guard = node.__dict__.pop("guard", None)
        self.write("" if guard is None else f"context.{guard[0]}(lambda: ")
        call = _CALLS.get(nodes.List if isinstance(node, nodes.Tuple) and node.ctx == "load" else type(node))
        if call is None:
            super().visit(node, *arguments, **named)
        else:
            name, parts = call(node)
            self.write(f"{name}(")
            for part in parts:
                self.visit(part, *arguments)
                self.write(", ")
            self.write(")")
        self.write("" if guard is None else f", {guard[1]}, {guard[2]})")

    def visit_Output(self, node: nodes.Output, frame: Frame) -> None:  # noqa: N802
        """Give pieces: texts of the file by number, values under guard."""
        for child in node.nodes:
            self.writeline("yield " if frame.buffer is None else f"{frame.buffer}.append(", child)
            if isinstance(child, nodes.TemplateData):
                self.write(f"context.texts[{child.data}]")
            elif isinstance(child, nodes.Const) and isinstance(child.value, TemplateProblem):
                self.write(f"context.unreadable({child.lineno}, problems[{len(self.problems)}])")
                self.problems.append(child.value)
            else:
                child.guard = ("piece", child.lineno, 0)  # type: ignore[attr-defined]
                self.visit(child, frame)
            self.write("" if frame.buffer is None else ")")

    def visit_Call(self, node: nodes.Call, frame: Frame, forward_caller: bool = False) -> None:  # noqa: N802, FBT
        """A `call` statement gives a piece."""
        self.write("context.piece(lambda: " if forward_caller else "")
        super().visit_Call(node, frame, forward_caller=forward_caller)
        self.write(f", {node.lineno}, 0)" if forward_caller else "")
