"""Reads a tag of a template with Jinja's own parser; nothing is carried out."""

from __future__ import annotations

from functools import lru_cache

from jinja2 import Environment, TemplateError, nodes
from jinja2.parser import Parser

from etc_policy.codes.registry import Code
from etc_policy.declare.jinja_chunks import TemplateProblem

_READ_HINT = "write one expression between `{{` and `}}`, for example \"{{ var('name') }}\""
_JINJA = Environment(autoescape=False, optimized=False)  # noqa: S701 - only its parser is used


@lru_cache(maxsize=4096)
def parse_tag(source: str) -> nodes.Node | TemplateProblem:
    """The first node of a tag that is complete by itself, or what is wrong with it."""
    try:
        body = Parser(_JINJA, source).parse().body
    except TemplateError as error:
        return TemplateProblem(Code.TEMPLATE_SYNTAX, f"the template cannot be read: {error.message}", _READ_HINT)
    except RecursionError:
        return TemplateProblem(Code.TOO_BIG, "the template is nested too deeply")
    except (ValueError, OverflowError, MemoryError) as error:
        return TemplateProblem(Code.TEMPLATE_SYNTAX, f"the template cannot be read: {error}", _READ_HINT)
    return body[0] if body else TemplateProblem(Code.TEMPLATE_SYNTAX, "the template is empty", _READ_HINT)


def parse_expression(text: str) -> nodes.Expr:
    """The expression in `text`.

    Raises:
        TemplateProblem: it cannot be read.

    """
    node = parse_tag("{{" + text + "}}")
    if isinstance(node, TemplateProblem):
        raise node
    inner = node.nodes if isinstance(node, nodes.Output) else []
    if len(inner) != 1 or isinstance(inner[0], nodes.TemplateData):
        raise TemplateProblem(
            Code.TEMPLATE_SYNTAX, "the template cannot be read: one expression is expected", _READ_HINT
        )
    return inner[0]
