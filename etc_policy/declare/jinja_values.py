"""Expressions of Jinja, as `jinja_reading` reads them, worked out here, step by step and within bounds.

Jinja's sandbox keeps templates from Python's objects, but by its own documentation bounds neither time nor memory. Here
nothing is compiled to Python: values are those of YAML, an attribute is a key of a mapping, and every step is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from jinja2 import nodes

from etc_policy.codes.registry import Code
from etc_policy.declare.jinja_chunks import TemplateProblem
from etc_policy.declare.jinja_functions import (
    ARITHMETIC,
    FILTERS,
    MAX_ITEMS,
    MAX_TEXT,
    OPERATORS,
    Unknown,
    Value,
    calculate,
    is_number,
    items_of,
    join_texts,
    key_of,
    range_of,
    shown,
)
from etc_policy.declare.secrets import EnvNumber, EnvText
from etc_policy.declare.suggestions import did_you_mean

MAX_STEPS = 300_000
MAX_DEPTH = 20
MAX_NUMBER = 10**15

Scope: TypeAlias = Mapping[str, Any]
MacroCall: TypeAlias = Callable[[str, list[Value], dict[str, Value]], Value]

FUNCTIONS = ("var", "env_var", "range")
FILTER_NAMES = ("default", *FILTERS)
ALLOWED_HINT = (
    "a template may use `var`, `env_var`, `target`, macros, `a if b else c`, comparisons, `~` and some filters"
)
_FILTER_HINT = "the filters are " + ", ".join(f"`{name}`" for name in FILTER_NAMES)
_MISSING = object()


@dataclass(slots=True)
class Budget:
    """The steps that are left, shared by all files of a project."""

    steps: int = field(default_factory=lambda: MAX_STEPS)

    def spend(self, steps: int) -> None:
        """Take steps away.

        Raises:
            TemplateProblem: none is left.

        """
        self.steps -= steps
        if self.steps < 0:
            message = f"the project's templates take more than {MAX_STEPS:,} steps"
            raise TemplateProblem(Code.TOO_BIG, message, "make loops shorter, or split the project")


@dataclass(frozen=True, slots=True)
class Context:
    """What expressions can reach: variables, the environment, the target, macros."""

    variables: Mapping[str, Value]
    environment: Mapping[str, str]
    target: Mapping[str, Value] | None = None
    macros: Mapping[str, Any] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)


class Evaluator:
    """Works out expressions in a context; `macros` are those known now, `call_macro` gives the text of one."""

    def __init__(self, context: Context, macros: Mapping[str, Any], call_macro: MacroCall) -> None:
        self.context, self.macros, self._call_macro = context, macros, call_macro

    def value(self, node: nodes.Node, scope: Scope, depth: int = 0) -> Value:
        """The value of an expression.

        Raises:
            TemplateProblem: something that is not allowed, has no value, or is too big.

        """
        if depth > MAX_DEPTH:
            raise TemplateProblem(Code.TOO_BIG, "the template is nested too deeply")
        self.context.budget.spend(1)
        method = _METHODS.get(type(node))
        if method is None:
            kind = _KINDS.get(type(node), "this")
            raise TemplateProblem(Code.TEMPLATE_FORBIDDEN, f"{kind} is not allowed in a template", ALLOWED_HINT)
        try:
            return self._bounded(method(self, node, scope, depth + 1))
        except (TypeError, ValueError, ZeroDivisionError, OverflowError) as error:
            message = f"the template fails: {str(error)[:200]}"
            raise TemplateProblem(Code.TEMPLATE_SYNTAX, message, ALLOWED_HINT) from error

    def _bounded(self, value: Value) -> Value:
        if isinstance(value, str):
            self.context.budget.spend(len(value) // 100)
            if len(value) > MAX_TEXT:
                message = f"the value has {len(value)} characters once rendered, {MAX_TEXT} are allowed"
                raise TemplateProblem(Code.TOO_BIG, message)
        elif isinstance(value, list | tuple | dict):
            self.context.budget.spend(len(value) // 100)
            if len(value) > MAX_ITEMS:
                raise TemplateProblem(Code.TOO_BIG, f"a list has more than {MAX_ITEMS} items")
        elif isinstance(value, int | float) and not -MAX_NUMBER < value < MAX_NUMBER:
            raise TemplateProblem(Code.TOO_BIG, "a number is too big")
        return value

    def _const(self, node: nodes.Const, scope: Scope, depth: int) -> Value:
        return node.value

    def _name(self, node: nodes.Name, scope: Scope, depth: int) -> Value:
        name = node.name
        if name in scope:
            return scope[name]
        if name == "target" and self.context.target is not None:
            return self.context.target
        if name in FUNCTIONS or name in self.macros:
            raise TemplateProblem(Code.TEMPLATE_FORBIDDEN, f"`{name}` is a function; call it: {name}('...')")
        near = did_you_mean(name, [*scope, "target"])
        hint = f"write var('{name}')" if name in self.context.variables else near or ALLOWED_HINT
        raise Unknown(Code.UNKNOWN_VARIABLE, f"`{name[:60]}` is not known here", hint)

    def _list(self, node: nodes.List | nodes.Tuple, scope: Scope, depth: int) -> Value:
        return [self.value(item, scope, depth) for item in node.items]

    def _dict(self, node: nodes.Dict, scope: Scope, depth: int) -> Value:
        pairs = ((self.value(pair.key, scope, depth), self.value(pair.value, scope, depth)) for pair in node.items)
        return {key_of(key): value for key, value in pairs}

    def _get(self, node: nodes.Getattr | nodes.Getitem, scope: Scope, depth: int) -> Value:
        inner = self.value(node.node, scope, depth)
        key = node.attr if isinstance(node, nodes.Getattr) else self.value(node.arg, scope, depth)
        if isinstance(inner, Mapping) and isinstance(key, str):
            if key in inner:
                return inner[key]
            hint = did_you_mean(key, inner) or f"the keys here are {', '.join(f'`{k}`' for k in list(inner)[:10])}"
            raise Unknown(Code.UNKNOWN_VARIABLE, f"there is no key {shown(key)} here", hint)
        if isinstance(inner, list) and isinstance(key, int) and not isinstance(key, bool):
            if -len(inner) <= key < len(inner):
                return inner[key]
            raise Unknown(Code.UNKNOWN_VARIABLE, f"the list has {len(inner)} items, there is no item {shown(key)}")
        message = f"{shown(key)} is not allowed: only mappings have keys, and only lists have items"
        raise TemplateProblem(Code.TEMPLATE_FORBIDDEN, message, ALLOWED_HINT)

    def _concat(self, node: nodes.Concat, scope: Scope, depth: int) -> Value:
        return join_texts([self.value(part, scope, depth) for part in node.nodes])

    def _choice(self, node: nodes.CondExpr, scope: Scope, depth: int) -> Value:
        if node.expr2 is None:
            raise TemplateProblem(Code.TEMPLATE_FORBIDDEN, "`... if ...` needs an `else`", ALLOWED_HINT)
        return self.value(node.expr1 if self.value(node.test, scope, depth) else node.expr2, scope, depth)

    def _and(self, node: nodes.And, scope: Scope, depth: int) -> Value:
        return self.value(node.left, scope, depth) and self.value(node.right, scope, depth)

    def _or(self, node: nodes.Or, scope: Scope, depth: int) -> Value:
        return self.value(node.left, scope, depth) or self.value(node.right, scope, depth)

    def _not(self, node: nodes.Not, scope: Scope, depth: int) -> Value:
        return not self.value(node.node, scope, depth)

    def _compare(self, node: nodes.Compare, scope: Scope, depth: int) -> Value:
        left = self.value(node.expr, scope, depth)
        for operand in node.ops:
            right = self.value(operand.expr, scope, depth)
            if not OPERATORS[operand.op](left, right):
                return False
            left = right
        return True

    def _arithmetic(self, node: nodes.BinExpr, scope: Scope, depth: int) -> Value:
        left, right = self.value(node.left, scope, depth), self.value(node.right, scope, depth)
        if not (is_number(left) and is_number(right)):
            hint = "join texts with `~`" if isinstance(node, nodes.Add) else ALLOWED_HINT
            raise TemplateProblem(Code.TEMPLATE_FORBIDDEN, "arithmetic is for numbers alone", hint)
        return calculate(type(node), left, right)

    def _negative(self, node: nodes.Neg, scope: Scope, depth: int) -> Value:
        value = self.value(node.node, scope, depth)
        if not is_number(value):
            raise TemplateProblem(Code.TEMPLATE_FORBIDDEN, "arithmetic is for numbers alone", ALLOWED_HINT)
        return EnvNumber(-value) if isinstance(value, EnvNumber) else -value

    def _test(self, node: nodes.Test, scope: Scope, depth: int) -> Value:
        if node.name not in ("defined", "undefined", "none", "string", "number", "mapping"):
            message = f"the test `is {node.name}` is not allowed in a template"
            raise TemplateProblem(Code.TEMPLATE_FORBIDDEN, message, ALLOWED_HINT)
        try:
            value = self.value(node.node, scope, depth)
        except Unknown:
            if node.name in ("defined", "undefined"):
                return node.name == "undefined"
            raise
        checks = {"defined": True, "undefined": False, "none": value is None, "string": isinstance(value, str)}
        return checks.get(node.name, isinstance(value, Mapping) if node.name == "mapping" else is_number(value))

    def _call(self, node: nodes.Call, scope: Scope, depth: int) -> Value:
        if isinstance(node.node, nodes.Getattr) and node.node.attr == "items" and not node.args and not node.kwargs:
            return items_of(self.value(node.node.node, scope, depth))
        name, arguments, named = self.called(node, scope, depth)
        if name in self.macros:
            return self._call_macro(name, arguments, named)
        return {"var": self._var, "env_var": self._env_var, "range": range_of}[name](*arguments, **named)

    def called(self, node: nodes.Call, scope: Scope, depth: int = 0) -> tuple[str, list[Value], dict[str, Value]]:
        """The name of the function that is called, and its arguments.

        Raises:
            TemplateProblem: it is none that can be called.

        """
        plain = isinstance(node.node, nodes.Name) and node.dyn_args is None and node.dyn_kwargs is None
        name = node.node.name if isinstance(node.node, nodes.Name) else ""
        known = [*FUNCTIONS, *self.macros]
        if not plain or name not in known or name in scope:
            hint = did_you_mean(name, known) or ALLOWED_HINT
            message = f"only {', '.join(f'`{f}`' for f in FUNCTIONS)} and macros can be called"
            raise TemplateProblem(Code.TEMPLATE_FORBIDDEN, message, hint)
        named = {keyword.key: self.value(keyword.value, scope, depth) for keyword in node.kwargs}
        return name, [self.value(argument, scope, depth) for argument in node.args], named

    def _filter(self, node: nodes.Filter, scope: Scope, depth: int) -> Value:
        if node.name not in FILTER_NAMES or node.node is None or node.kwargs or node.dyn_args or node.dyn_kwargs:
            hint = did_you_mean(node.name, FILTER_NAMES) or _FILTER_HINT
            raise TemplateProblem(Code.TEMPLATE_FORBIDDEN, f"the filter `{node.name}` is not allowed here", hint)
        arguments = [self.value(argument, scope, depth) for argument in node.args]
        if node.name == "default":
            try:
                return self.value(node.node, scope, depth)
            except Unknown:
                return arguments[0] if arguments else ""
        return FILTERS[node.name](self.value(node.node, scope, depth), *arguments)

    def _var(self, name: object, default: Value = _MISSING) -> Value:
        hint = "set it under `vars:` in this file or in etc_project.yml"
        return _look_up("variable", self.context.variables, name, default, hint)

    def _env_var(self, name: object, default: Value = _MISSING) -> Value:
        hint = "export it, or give a default: env_var('NAME', 'default')"
        known = self.context.environment
        if isinstance(name, str) and name in known:
            return EnvText.of(name, known[name])
        return _look_up("environment variable", {}, name, default, hint)


def _look_up(kind: str, values: Mapping[str, Value], name: object, default: Value, hint: str) -> Value:
    if isinstance(name, str) and name in values:
        return values[name]
    if default is not _MISSING:
        return default
    hint = did_you_mean(str(name), values) or hint
    raise Unknown(Code.UNKNOWN_VARIABLE, f"the {kind} {shown(name)} has no value", hint)


_METHODS: Mapping[type[nodes.Node], Callable[..., Value]] = {
    nodes.Const: Evaluator._const,
    nodes.Name: Evaluator._name,
    nodes.List: Evaluator._list,
    nodes.Tuple: Evaluator._list,
    nodes.Dict: Evaluator._dict,
    nodes.Getattr: Evaluator._get,
    nodes.Getitem: Evaluator._get,
    nodes.Concat: Evaluator._concat,
    nodes.CondExpr: Evaluator._choice,
    nodes.And: Evaluator._and,
    nodes.Or: Evaluator._or,
    nodes.Not: Evaluator._not,
    nodes.Compare: Evaluator._compare,
    nodes.Neg: Evaluator._negative,
    nodes.Test: Evaluator._test,
    nodes.Call: Evaluator._call,
    nodes.Filter: Evaluator._filter,
    **dict.fromkeys(ARITHMETIC, Evaluator._arithmetic),
}
_KINDS: Mapping[type[nodes.Node], str] = {
    nodes.Div: "a division (use `//`)",
    nodes.Pow: "a power",
    nodes.Pos: "a sign",
    nodes.Slice: "a slice",
}
