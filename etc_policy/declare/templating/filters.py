"""Filters of Jinja and methods of texts: how far values grow, and what keeps the mark of a secret."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from jinja2 import Environment, pass_context, pass_environment
from jinja2.filters import FILTERS
from jinja2.sandbox import SandboxedEnvironment, SandboxedFormatter
from markupsafe import Markup

from etc_policy.declare.secrets import is_secret
from etc_policy.declare.templating.problems import forbidden, problem_of, too_big
from etc_policy.declare.templating.values import (
    MAX_CHARACTERS,
    MAX_ITEMS,
    Value,
    join_texts,
    marked,
    require_present,
    survey,
    text_of,
)

GREW = "the value would grow too big"
_MAX_WIDTH = 100
_TOO_WIDE = re.compile(r"%[^%a-zA-Z]*(?:\d{4}|\*)")
_CHOOSING_FILTERS = """attr batch d default dictsort first groupby items join last list map max min reject rejectattr reverse
select selectattr slice sort unique"""
#: Filters that hand out parts of what they are given, each with the mark that it has.
_CHOOSING = frozenset(_CHOOSING_FILTERS.split())
#: Filters whose numbers are values, and no sizes of what they make.
_OF_VALUES = frozenset({"d", "default", "float", "int", "map", "reject", "rejectattr", "select", "selectattr", "sum"})
#: How many of a filter's arguments are names of keys, filters or tests; messages show these.
_NAMES = {"attr": 1, "groupby": 1, "map": 1, "max": 2, "min": 2, "reject": 1, "rejectattr": 2, "select": 1}
_NAMES |= {"selectattr": 2, "sort": 3, "sum": 1, "unique": 2}
#: Left out of Jinja's filters: a plan must be the same twice.
LEFT_OUT = ("random",)
_METHODS = """capitalize casefold center count endswith expandtabs find format format_map index isalnum isalpha isascii isdecimal
isdigit isidentifier islower isnumeric isprintable isspace istitle isupper join ljust lower lstrip partition removeprefix
removesuffix replace rfind rindex rjust rpartition rsplit rstrip split splitlines startswith strip swapcase title upper
zfill"""


def filters() -> dict[str, Callable[..., Value]]:
    """The filters of templates by name."""
    own = {**FILTERS, "attr": _attribute, "join": _joined, "string": text_of, "format": formatted}
    return {name: _guarded(name, f"the filter `{name}`", own[name]) for name in own if name not in LEFT_OUT}


def methods() -> dict[str, Callable[..., Value]]:
    """The methods of texts by name; each is called as a filter of the text is."""
    own = {"format": _format, "format_map": format_map, "join": join}
    return {name: _guarded(name, f"`{name}`", own.get(name) or getattr(str, name)) for name in _METHODS.split()}


def _guarded(name: str, what: str, function: Callable[..., Value]) -> Callable[..., Value]:
    """A filter that refuses what is missing, keeps within bounds and marks what comes from the environment."""
    kind = getattr(getattr(function, "jinja_pass_arg", None), "name", "")

    @pass_context
    def guarded(context: Any, value: Value = None, /, *args: Value, **named: Value) -> Value:  # noqa: ANN401
        if name not in ("default", "d"):
            require_present(value)
        whole = is_secret(value)
        secret = survey(value, *args, *named.values()).secret
        _require_bounds(name, value, (*args, *named.values()))
        attribute = named.get("attribute") if name != "format" else None
        if any(map(is_secret, (*args[: _NAMES.get(name, 0)], attribute))):
            raise forbidden("a name cannot come from the environment")
        first = {"context": (context,), "eval_context": (context.eval_ctx,), "environment": (context.environment,)}.get(
            kind, ()
        )
        try:
            result = function(*first, value, *args, **named)
            result = list(islice(result, MAX_ITEMS + 1)) if isinstance(result, Iterator) else result
        except Exception as error:
            raise problem_of(error, what, secret=secret) from None
        if isinstance(result, Markup):
            result = str.__str__(result)
        whole = whole and result is not value and name not in ("default", "d")
        counted = name in ("batch", "slice") and any(map(is_secret, (*args, *named.values())))
        if secret and (name not in _CHOOSING or whole or counted):
            result = marked(result)
        return context.rendering.measured(result)

    return guarded


def _require_bounds(name: str, value: Value, others: Iterable[Value]) -> None:
    """Return if what a filter makes is of a bounded size."""
    parts = max(len(value), 1) if isinstance(value, str | list | tuple | dict) else 1
    narrow = name in ("indent", "tojson", "pprint", "expandtabs")
    for other in others:
        is_size = isinstance(other, int | float) and name not in _OF_VALUES
        if is_size and abs(other) > (_MAX_WIDTH if narrow else MAX_ITEMS):
            raise too_big(GREW)
        if isinstance(other, str | list | tuple | dict) and parts * len(other) > 10 * MAX_CHARACTERS:
            raise too_big(GREW)


def formatted(text: Value, /, *args: Value, **named: Value) -> str:
    """`text % args`, within bounds."""
    pattern = text_of(text)
    if _TOO_WIDE.search(pattern):
        raise too_big(GREW)
    return str.__mod__(pattern, named or args)


class _Format(SandboxedFormatter):
    """`str.format` that asks the sandbox, and has bounds."""

    def format_field(self, value: Value, format_spec: str) -> str:
        """One field."""
        if re.search(r"\d{4}", format_spec):
            raise too_big(GREW)
        return str(super().format_field(value, format_spec))


@pass_environment
def _format(sandbox: SandboxedEnvironment, text: str, /, *args: Value, **named: Value) -> str:
    return _Format(sandbox).vformat(text, args, named)


@pass_environment
def format_map(sandbox: SandboxedEnvironment, text: str, mapping: Value) -> str:
    """`text.format_map(mapping)`; messages show the name of the function."""
    return _Format(sandbox).vformat(text, (mapping,), mapping)


@pass_environment
def join(sandbox: Environment, separator: str, values: Value) -> str:
    """`separator.join(values)`; messages show the name of the function."""
    return _joined(sandbox, values, separator)


@pass_environment
def _joined(sandbox: Environment, values: Value, separator: Value = "", attribute: Value = None) -> str:
    """The items of a list as one text."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError("it is for lists")
    parts: list[Value] = []
    for value in values:
        item = value if attribute is None else sandbox.getitem(value, attribute)
        parts += [separator, item] if parts else [item]
    return join_texts(parts)


@pass_environment
def _attribute(sandbox: Environment, value: Value, name: str) -> Value:
    return sandbox.getattr(value, name)
