"""Jinja in values: `{{ var('name') }}` and `{{ env_var('NAME', 'default') }}`; nothing that can loop or reach out.

Two fences: only a short list of syntax is let through (no blocks, attributes, arithmetic or other calls), and what is
let through runs in Jinja's immutable sandbox.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from jinja2 import StrictUndefined, TemplateError, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from etc_policy.declare.codes import Code
from etc_policy.declare.suggestions import did_you_mean

MAX_TEMPLATE_CHARACTERS = 1_000
MAX_RENDERED_CHARACTERS = 10_000
MAX_TEMPLATE_DEPTH = 20

FUNCTIONS = ("var", "env_var")
FILTERS = ("lower", "trim", "upper")

_ALLOWED = (
    nodes.Template, nodes.Output, nodes.TemplateData, nodes.Const, nodes.Name, nodes.Call, nodes.Keyword, nodes.Filter,
    nodes.Concat, nodes.CondExpr, nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not,
)  # fmt: skip
_ALLOWED_HINT = "a value may use `var`, `env_var`, `~`, `a if b else c`, comparisons and the filters " + ", ".join(
    f"`{name}`" for name in FILTERS
)
_MISSING = object()

Scalar = str | int | float | bool


class TemplateProblem(Exception):  # noqa: N818 - carried into an Issue, never shown as an exception
    """A template that is not rendered: code, message and hint of the issue it becomes."""

    def __init__(self, code: Code, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.hint = code, message, hint


class Renderer:
    """Renders values with the given variables and environment."""

    def __init__(self, variables: Mapping[str, Scalar], environment: Mapping[str, str]) -> None:
        self._variables, self._environment = variables, environment
        self._jinja = ImmutableSandboxedEnvironment(
            undefined=StrictUndefined, autoescape=False, finalize=_as_text, keep_trailing_newline=True, optimized=False
        )
        self._jinja.globals = {"var": self._var, "env_var": self._env_var}

    def render(self, text: str) -> str:
        """The text with its expressions replaced; a text without any is returned as it is.

        Raises:
            TemplateProblem: bad syntax, something that is not allowed, or a variable without a value.

        """
        if "{{" not in text and "{%" not in text:
            return text
        self._check(text)
        try:
            rendered = self._jinja.from_string(text).render()
        except (TemplateError, TypeError) as error:
            raise TemplateProblem(Code.TEMPLATE_SYNTAX, f"the template fails: {error}", _ALLOWED_HINT) from error
        if len(rendered) > MAX_RENDERED_CHARACTERS:
            message = f"the value has {len(rendered)} characters once rendered, {MAX_RENDERED_CHARACTERS} are allowed"
            raise TemplateProblem(Code.TOO_BIG, message)
        return rendered

    def _check(self, text: str) -> None:
        if len(text) > MAX_TEMPLATE_CHARACTERS:
            message = f"a template has {len(text)} characters, {MAX_TEMPLATE_CHARACTERS} are allowed"
            raise TemplateProblem(Code.TOO_BIG, message)
        if "{%" in text:
            message = "`{% ... %}` is not allowed in a value"
            raise TemplateProblem(Code.TEMPLATE_FORBIDDEN, message, _ALLOWED_HINT)
        try:
            tree = self._jinja.parse(text)
        except TemplateError as error:
            hint = "write one expression between `{{` and `}}`, for example \"{{ var('name') }}\""
            raise TemplateProblem(Code.TEMPLATE_SYNTAX, f"the template cannot be read: {error}", hint) from error
        except RecursionError as error:
            raise TemplateProblem(Code.TOO_BIG, "the template is nested too deeply") from error
        _check_node(tree, 0)

    def _var(self, name: object, default: object = _MISSING) -> Any:  # noqa: ANN401 - whatever YAML gave
        hint = "set it under `vars:` in this file or in etc_project.yml"
        return _look_up("variable", self._variables, name, default, hint)

    def _env_var(self, name: object, default: object = _MISSING) -> Any:  # noqa: ANN401 - text, or the default
        hint = "export it, or give a default: env_var('NAME', 'default')"
        return _look_up("environment variable", self._environment, name, default, hint, names_secret=True)


def _look_up(
    kind: str, values: Mapping[str, Any], name: object, default: object, hint: str, *, names_secret: bool = False
) -> object:
    if isinstance(name, str) and name in values:
        return values[name]
    if default is not _MISSING:
        return default
    close = None if names_secret else did_you_mean(str(name), values)
    raise TemplateProblem(Code.UNKNOWN_VARIABLE, f"the {kind} `{str(name)[:60]}` has no value", close or hint)


def _as_text(value: object) -> object:
    """Booleans as YAML writes them; nothing (`none`) is refused."""
    if value is None:
        raise TemplateProblem(Code.TEMPLATE_SYNTAX, "the template gives no value (none)")
    return str(value).lower() if isinstance(value, bool) else value


def _check_node(node: nodes.Node, depth: int) -> None:
    if depth > MAX_TEMPLATE_DEPTH:
        raise TemplateProblem(Code.TOO_BIG, "the template is nested too deeply")
    refusal = _refusal(node)
    if refusal is not None:
        raise TemplateProblem(Code.TEMPLATE_FORBIDDEN, refusal, _ALLOWED_HINT)
    for child in node.iter_child_nodes(exclude=("node",) if isinstance(node, nodes.Call) else None):
        _check_node(child, depth + 1)


def _refusal(node: nodes.Node) -> str | None:
    """Why the node itself may not stand in a value, None where it may."""
    if isinstance(node, nodes.Call):
        plain = isinstance(node.node, nodes.Name) and node.dyn_args is None and node.dyn_kwargs is None
        if plain and cast(nodes.Name, node.node).name in FUNCTIONS:
            return None
        return "only `var` and `env_var` can be called"
    if isinstance(node, nodes.Name):
        if node.name in FUNCTIONS:
            return f"`{node.name}` needs a name: {node.name}('...')"
        return f"`{node.name}` is not known in a value; write var('{node.name}')"
    if isinstance(node, nodes.Filter) and node.name not in FILTERS:
        return f"the filter `{node.name}` is not allowed in a value"
    if isinstance(node, nodes.CondExpr) and node.expr2 is None:
        return "`... if ...` needs an `else`"
    return None if isinstance(node, _ALLOWED) else f"{_KINDS.get(type(node), 'this')} is not allowed in a value"


_KINDS: dict[type[nodes.Node], str] = {
    nodes.Getattr: "an attribute",
    nodes.Getitem: "an index",
    nodes.Add: "arithmetic",
    nodes.Sub: "arithmetic",
    nodes.Mul: "arithmetic",
    nodes.Div: "arithmetic",
    nodes.FloorDiv: "arithmetic",
    nodes.Mod: "arithmetic",
    nodes.Pow: "arithmetic",
    nodes.Neg: "arithmetic",
    nodes.Pos: "arithmetic",
    nodes.List: "a list",
    nodes.Tuple: "a tuple",
    nodes.Dict: "a mapping",
    nodes.Test: "a test (`is ...`)",
}
