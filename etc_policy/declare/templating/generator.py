"""Jinja's compiler with guards: each expression of a tag is a function that the rendering of a file calls.

One that fails loses its own value alone, each step of a loop is counted, and each list, mapping and text is measured.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jinja2 import Environment, nodes
from jinja2.compiler import CodeGenerator, Frame

from etc_policy.declare.templating.problems import TemplateProblem


class GuardingGenerator(CodeGenerator):
    """Jinja's compiler; expressions of tags are called by the rendering (`Rendering`)."""

    def __init__(self, environment: Environment) -> None:
        """The problems are those of expressions that cannot be read; the code knows them as `problems`."""
        super().__init__(environment, None, None, optimized=False)
        self.problems: list[TemplateProblem] = []

    def write_commons(self) -> None:
        """Begin a function."""
        super().write_commons()
        self.writeline("rendering = context.rendering")

    def visit(self, node: nodes.Node, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - as in Jinja
        """Visit a node, under the guard that it was given."""
        guard = node.__dict__.pop("guard", None)
        if guard is None:
            return super().visit(node, *arguments, **named)
        self.write(f"rendering.{guard[0]}(lambda: ")
        super().visit(node, *arguments, **named)
        self.write("".join(f", {argument}" for argument in guard[1:]) + ")")
        return None

    def visit_Output(self, node: nodes.Output, frame: Frame) -> None:  # noqa: N802
        """Give pieces: texts of the file by number, values under guard."""
        for child in node.nodes:
            self.writeline("yield " if frame.buffer is None else f"{frame.buffer}.append(", child)
            if isinstance(child, nodes.TemplateData):
                self.write(f"rendering.texts[{child.data}]")
            elif isinstance(child, nodes.Const) and isinstance(child.value, TemplateProblem):
                self.write(f"rendering.unreadable({child.lineno}, problems[{len(self.problems)}])")
                self.problems.append(child.value)
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
        self.write("rendering.piece(lambda: ")
        self.visit_Call(node.call, frame, forward_caller=True)
        self.write(f", {node.lineno})")
        self.end_write(frame)

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802
        """Texts are joined by the rendering."""
        self._call("rendering.joined", node.nodes, frame)

    def visit_List(self, node: nodes.List, frame: Frame) -> None:  # noqa: N802
        """Lists are measured when they are made."""
        self.write("rendering.measured(")
        super().visit_List(node, frame)
        self.write(")")

    def visit_Tuple(self, node: nodes.Tuple, frame: Frame) -> None:  # noqa: N802
        """A tuple is a list, but where names are set."""
        if node.ctx == "load":
            self.visit_List(nodes.List(node.items), frame)
        else:
            super().visit_Tuple(node, frame)

    def visit_Dict(self, node: nodes.Dict, frame: Frame) -> None:  # noqa: N802
        """Mappings are measured when they are made."""
        self._call("rendering.mapped", [part for pair in node.items for part in (pair.key, pair.value)], frame)

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:  # noqa: N802
        """Slices go the way of items."""
        self._call("environment.getitem", (node.node, node.arg), frame)

    def visit_Slice(self, node: nodes.Slice, frame: Frame) -> None:  # noqa: N802
        """A slice is a value."""
        self._call("slice", [part or nodes.Const(None) for part in (node.start, node.stop, node.step)], frame)

    def _call(self, name: str, arguments: Iterable[nodes.Node], frame: Frame) -> None:
        self.write(f"{name}(")
        for argument in arguments:
            self.visit(argument, frame)
            self.write(", ")
        self.write(")")
