"""Jinja's compiler with guards: each expression of a tag is a function that the room calls.

One that fails loses its own value alone, each step of a loop is counted, and each list, mapping and text is measured.
"""

from __future__ import annotations

from typing import Any

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame

from etc_policy.declare.templating.problems import TemplateProblem


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
