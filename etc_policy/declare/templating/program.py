"""From a text's tokens to code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from jinja2 import TemplateSyntaxError, nodes

from etc_policy.codes.registry import Code
from etc_policy.declare.templating.generator import GuardingGenerator
from etc_policy.declare.templating.parser import Problem, TolerantParser, unreadable
from etc_policy.declare.templating.problems import too_big
from etc_policy.declare.templating.sandbox import SANDBOX
from etc_policy.declare.templating.shape import RawToken

_MAX_EXPRESSION = 50
#: Where the code of templates seems to lie.
_CODE = f"{__file__} (template)"


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
        generator = GuardingGenerator(SANDBOX, None, None, optimized=False)
        generator.visit(tree)
        namespace: dict[str, Any] = {"environment": SANDBOX, "codes": Code}
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
