"""From a text's tokens to code: Jinja's parser, which here goes on after a fault, and Jinja's compiler with guards.

Each expression of a tag becomes a function that is called under a guard, so that one that fails loses its own value alone,
and each step of a loop is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from jinja2 import TemplateSyntaxError, nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.lexer import Token
from jinja2.parser import Parser

from etc_policy.codes.registry import Code
from etc_policy.declare.suggestions import did_you_mean
from etc_policy.declare.templating.problems import TemplateProblem, forbidden, too_big
from etc_policy.declare.templating.sandbox import SANDBOX
from etc_policy.declare.templating.shape import RawToken

MAX_NESTING = 16
_MAX_EXPRESSION = 50
#: So many problems of one file are reported.
MAX_PROBLEMS = 200
#: Where the code of templates seems to lie.
_CODE = f"{__file__} (template)"

STATEMENTS = ("for", "if", "elif", "else", "set", "macro", "call", "with", "raw")
_HINT = "a template may use `for`, `if`, `set`, `macro`, `call`, `with` and `raw`"
_READ_HINT = "write one expression between `{{` and `}}`, for example \"{{ var('name') }}\""
_MACROS = "macros of `templates/*.jinja` are known by name in every file"
#: What Jinja has and policies do not, with what to do instead.
FORBIDDEN = {
    "include": f"write a macro; {_MACROS}",
    "import": _MACROS,
    "from": _MACROS,
    "extends": "let the policy extend a template: `extends: name`",
    "block": "let the policy extend a template: `extends: name`",
    "filter": "apply the filter to a value: {{ value | filter }}",
    "autoescape": "nothing is escaped, because no value becomes YAML of its own",
}
_PAIRED = ("for", "if", "macro", "call", "with", "set", "block", "filter", "autoescape")

Problem = tuple[int, TemplateProblem]


@dataclass(slots=True)
class Program:
    """What a shape comes to: `root` gives its pieces, `problems` are those of its tags, by number of the tag.

    `macros` are the tags of macros by name; `others` is the first thing beside macros: a tag, or the data of a number.
    """

    root: Callable[[Any], Iterator[Any]] | None = None
    problems: list[Problem] = field(default_factory=list)
    macros: dict[str, int] = field(default_factory=dict)
    others: list[tuple[str, int]] = field(default_factory=list)
    names: frozenset[str] = frozenset()


@lru_cache(maxsize=128)
def compiled(key: tuple[RawToken, ...]) -> Program:
    """The program of a shape."""
    parser = _TolerantParser(SANDBOX, key)
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
        generator = GuardingGenerator(SANDBOX, None, None, optimized=False)
        generator.visit(tree)
        namespace: dict[str, Any] = {"environment": SANDBOX, "codes": Code}
        code = compile(generator.stream.getvalue(), _CODE, "exec")  # type: ignore[attr-defined]
        exec(code, namespace)  # noqa: S102 - what Jinja's compiler made of the tree
        program.root = namespace["root"]
    except TemplateSyntaxError as error:
        program.problems.append((error.lineno, _unreadable(error)))
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


class _TolerantParser(Parser):
    """Jinja's parser; a tag that it refuses is recorded, and the rest of the file is parsed."""

    def __init__(self, environment: Any, source: Any) -> None:  # noqa: ANN401 - tokens in place of a text
        self.problems: list[Problem] = []
        self._open: list[Token] = []
        self._broken: Counter[str] = Counter()
        self._stopped = False
        super().__init__(environment, source)

    def subparse(self, end_tokens: tuple[str, ...] | None = None) -> list[nodes.Node]:
        """The nodes up to one of the end tokens."""
        body: list[nodes.Node] = []
        while self.stream:
            token = next(self.stream)
            found: Any
            if token.type == "data":
                found = nodes.Output([nodes.TemplateData(token.value, lineno=token.lineno)], lineno=token.lineno)
            elif token.type == "variable_begin":
                found = self._expression(token.lineno)
            elif end_tokens is not None and self.stream.current.test_any(*end_tokens):
                return body
            else:
                found = self._statement(token.lineno)
            body += found if isinstance(found, list) else [found]
        return body

    def _expression(self, tag: int) -> nodes.Node | list[nodes.Node]:
        inner: nodes.Expr
        try:
            self._require_readable()
            inner = self.parse_tuple(with_condexpr=True)
            self.stream.expect("variable_end")
        except (TemplateSyntaxError, TemplateProblem, RecursionError) as error:
            problem = _unreadable(error)
            if not self._skip_to("variable_end"):
                self._record(tag, problem)
                return []
            inner = nodes.Const(problem, lineno=tag)
        inner.lineno = tag
        return nodes.Output([inner], lineno=tag)

    def _statement(self, tag: int) -> nodes.Node | list[nodes.Node]:
        word = self.stream.current.value
        try:
            self._require_readable()
            found: nodes.Node | list[nodes.Node] = self.parse_statement()
            self.stream.expect("block_end")
            return found
        except _Reported:
            pass
        except (TemplateSyntaxError, TemplateProblem, RecursionError) as error:
            word = word.partition(":")[0]
            self._broken[word] += word in _PAIRED
            self._record(tag, _unreadable(error, _HINT if word else _READ_HINT))
        self._skip_to("block_end")
        return []

    def _require_readable(self) -> None:
        if self.stream.current.type == "problem":
            raise TemplateSyntaxError(self.stream.current.value.partition(":")[2], 0)

    def _skip_to(self, kind: str) -> bool:
        while self.stream and self.stream.current.type != kind:
            next(self.stream)
        return bool(next(self.stream).type == kind)

    def _record(self, tag: int, problem: TemplateProblem) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append((tag, problem))

    def parse_statement(self) -> Any:  # noqa: ANN401 - as in Jinja
        """One statement, if policies may use it."""
        token = self.stream.current
        if token.value in FORBIDDEN:
            raise forbidden(f"`{{% {token.value} %}}` is not allowed here", FORBIDDEN[token.value])
        if len(self._open) >= MAX_NESTING:
            self._record(token.lineno, too_big("blocks are nested too deeply"))
            self._stopped = True
            self.stream.close()
            raise _Reported
        self._open.append(token)
        try:
            node = super().parse_statement()
        finally:
            self._open.pop()
        if isinstance(node, nodes.For) and (node.recursive or not _plain_target(node.target)):
            raise forbidden("`for` takes names and is not recursive", "write {% for name in list %}")
        if isinstance(node, nodes.Assign | nodes.AssignBlock) and not _plain_target(node.target):
            raise forbidden("`set` takes names", "write {% set name = value %}")
        return node

    def fail_eof(self, end_tokens: Any = None, lineno: Any = None) -> Any:  # noqa: ANN401 - as in Jinja
        """A block does not end."""
        token = self._open[-1]
        if not self._stopped:
            message = f"`{{% {token.value} %}}` has no `{{% end{token.value} %}}`"
            self._record(token.lineno, TemplateProblem(Code.TEMPLATE_SYNTAX, message))
        raise _Reported

    def fail_unknown_tag(self, name: str, lineno: Any = None) -> Any:  # noqa: ANN401 - as in Jinja
        """A tag that is none, or an end without a beginning."""
        ends = name.removeprefix("end") if name.startswith("end") else ""
        if self._broken[ends] or (name in ("else", "elif") and (self._broken["if"] or self._broken["for"])):
            self._broken[ends] -= bool(ends)
            raise _Reported
        if ends in _PAIRED:
            around = self._open[-2].value if len(self._open) > 1 else None
            expected = f"`{{% end{around} %}}` is expected" if around else "nothing is open"
            raise TemplateProblem(Code.TEMPLATE_SYNTAX, f"`{{% {name} %}}` is found where {expected}")
        if name in ("else", "elif"):
            raise TemplateProblem(Code.TEMPLATE_SYNTAX, f"`{{% {name} %}}` has no `{{% if %}}` before it")
        raise forbidden(f"`{{% {name[:40]} %}}` is not allowed here", did_you_mean(name, STATEMENTS) or _HINT)


class _Reported(Exception):  # noqa: N818 - no error: it is on the list already
    """The tag is given up; what is wrong with it is recorded."""


def _plain_target(target: nodes.Node) -> bool:
    names = target.items if isinstance(target, nodes.Tuple) else [target]
    return all(isinstance(name, nodes.Name | nodes.NSRef) for name in names)


def _unreadable(error: Exception, hint: str = _READ_HINT) -> TemplateProblem:
    if isinstance(error, TemplateProblem):
        return error.with_traceback(None)
    if isinstance(error, RecursionError):
        return too_big("the template is nested too deeply")
    message = f"the template cannot be read: {getattr(error, 'message', None) or error}"
    return TemplateProblem(Code.TEMPLATE_SYNTAX, message[:200], hint)


class GuardingGenerator(CodeGenerator):
    """Jinja's compiler; expressions of tags are called by the room that the template is rendered in."""

    def write_commons(self) -> None:
        """Begin a function."""
        super().write_commons()
        self.writeline("room = context.room")

    def visit(self, node: nodes.Node, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - as in Jinja
        """Visit a node, under the guard that it was given."""
        guard = node.__dict__.pop("guard", None)
        if guard is None:
            return super().visit(node, *arguments, **named)
        self.write(f"room.{guard[0]}(lambda: ")
        super().visit(node, *arguments, **named)
        self.write("".join(f", {argument}" for argument in guard[1:]) + ")")
        return None

    def visit_Output(self, node: nodes.Output, frame: Frame) -> None:  # noqa: N802
        """Give pieces: texts of the file by number, values under guard."""
        for child in node.nodes:
            self.writeline("yield " if frame.buffer is None else f"{frame.buffer}.append(", child)
            if isinstance(child, nodes.TemplateData):
                self.write(f"room.texts[{child.data}]")
            elif isinstance(child, nodes.Const) and isinstance(child.value, TemplateProblem):
                problem = child.value
                values = f"codes.{problem.code.name}, {problem.message!r}, {problem.hint!r}"
                self.write(f"room.unreadable({child.lineno}, {values})")
            else:
                child.guard = ("piece", child.lineno)  # type: ignore[attr-defined]
                self.visit(child, frame)
            self.write("" if frame.buffer is None else ")")

    def visit_For(self, node: nodes.For, frame: Frame) -> None:  # noqa: N802
        """Count the steps of a loop."""
        names = len(node.target.items) if isinstance(node.target, nodes.Tuple) else 0
        node.iter.guard = ("rounds", node.lineno, names)  # type: ignore[attr-defined]
        if node.test is not None:
            node.test.guard = ("holds", node.lineno)  # type: ignore[attr-defined]
        super().visit_For(node, frame)

    def visit_If(self, node: nodes.If, frame: Frame) -> None:  # noqa: N802
        """Guard the conditions."""
        for branch in (node, *node.elif_):
            branch.test.guard = ("holds", branch.lineno)  # type: ignore[attr-defined]
        super().visit_If(node, frame)

    def visit_Assign(self, node: nodes.Assign, frame: Frame) -> None:  # noqa: N802
        """Guard the value."""
        names = len(node.target.items) if isinstance(node.target, nodes.Tuple) else 0
        node.node.guard = ("assigned", node.lineno, names)  # type: ignore[attr-defined]
        super().visit_Assign(node, frame)

    def visit_With(self, node: nodes.With, frame: Frame) -> None:  # noqa: N802
        """Guard the values."""
        for value in node.values:
            value.guard = ("assigned", node.lineno, 0)  # type: ignore[attr-defined]
        super().visit_With(node, frame)

    def visit_CallBlock(self, node: nodes.CallBlock, frame: Frame) -> None:  # noqa: N802
        """As in Jinja, with the call under guard."""
        call_frame, macro = self.macro_body(node, frame)
        self.writeline("caller = ")
        self.macro_def(macro, call_frame)
        self.start_write(frame, node)
        self.write("room.piece(lambda: ")
        self.visit_Call(node.call, frame, forward_caller=True)
        self.write(f", {node.lineno})")
        self.end_write(frame)

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802
        """Texts are joined by the room."""
        self._made("joined", node.nodes, frame)

    def visit_List(self, node: nodes.List, frame: Frame) -> None:  # noqa: N802
        """Lists are measured when they are made."""
        self._made("listed", node.items, frame)

    def visit_Tuple(self, node: nodes.Tuple, frame: Frame) -> None:  # noqa: N802
        """A tuple is a list, but where names are set."""
        if node.ctx == "load":
            self._made("listed", node.items, frame)
        else:
            super().visit_Tuple(node, frame)

    def visit_Dict(self, node: nodes.Dict, frame: Frame) -> None:  # noqa: N802
        """Mappings are measured when they are made."""
        self._made("mapped", [part for pair in node.items for part in (pair.key, pair.value)], frame)

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:  # noqa: N802
        """Slices go the way of items."""
        self.write("environment.getitem(")
        self.visit(node.node, frame)
        self.write(", ")
        self.visit(node.arg, frame)
        self.write(")")

    def visit_Slice(self, node: nodes.Slice, frame: Frame) -> None:  # noqa: N802
        """A slice is a value."""
        self.write("slice(")
        for part in (node.start, node.stop, node.step):
            if part is None:
                self.write("None, ")
            else:
                self.visit(part, frame)
                self.write(", ")
        self.write(")")

    def _made(self, name: str, parts: list[Any], frame: Frame) -> None:
        self.write(f"room.{name}((")
        for part in parts:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")
