"""The codes of all refusals that planning can give, as its modules write them."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from etc_policy.errors.codes import Code
from etc_policy.plan import builder, idle_reasons, refusals, stock_choice, time_refusals


@cache
def refusal_codes() -> frozenset[str]:
    """Every code that is given to a `Refusal`: a word, or a Code of its own."""
    texts = (
        Path(str(module.__file__)).read_text("utf-8")
        for module in (refusals, idle_reasons, builder, stock_choice, time_refusals)
    )
    return frozenset(code for text in texts for node in ast.walk(ast.parse(text)) for code in _codes_of(node))


def _codes_of(node: ast.AST) -> Iterator[str]:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Refusal"):
        return
    given = node.args[0] if node.args else next(one.value for one in node.keywords if one.arg == "code")
    branches = [given.body, given.orelse] if isinstance(given, ast.IfExp) else [given]
    for one in branches:
        if isinstance(one, ast.Constant):
            yield str(one.value)
        elif isinstance(one, ast.Attribute):
            yield Code[one.attr]
        else:
            raise AssertionError(f"the code of a refusal is written where it is made, not `{ast.unparse(one)}`")
