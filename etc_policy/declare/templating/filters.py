"""Filters of Jinja and methods of texts: how far values grow, and what keeps the mark of a secret."""

from __future__ import annotations

import re
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, ValuesView
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

#: Left out of Jinja's filters: a plan must be the same twice.
LEFT_OUT = ("random",)
GREW = "the value would grow too big"
_MAX_WIDTH = 100
_TOO_WIDE = re.compile(r"%[^%a-zA-Z]*(?:\d{4}|\*)")
_PARTED = (Iterator, KeysView, ValuesView, ItemsView)
_LENIENT = ("default", "d")
_NARROW = ("indent", "tojson", "pprint", "expandtabs")
#: Filters whose numbers are values, and no sizes of what they make.
_OF_VALUES = (*_LENIENT, "float", "int", "map", "reject", "rejectattr", "select", "selectattr", "sum")
_CHOOSING_FILTERS = """attr batch d default dictsort first groupby items join last list map max min reject rejectattr reverse
select selectattr slice sort unique"""
#: Filters that hand out parts of what they are given, each with the mark that it has.
_CHOOSING = frozenset(_CHOOSING_FILTERS.split())
#: How many of a filter's arguments are names of keys, filters or tests; messages show these.
_NAMES = {"attr": 1, "groupby": 1, "map": 1, "max": 2, "min": 2, "reject": 1, "rejectattr": 2, "select": 1}
_NAMES |= {"selectattr": 2, "sort": 3, "sum": 1, "unique": 2}
_METHODS = """capitalize casefold center count endswith expandtabs find format format_map index isalnum isalpha isascii isdecimal
isdigit isidentifier islower isnumeric isprintable isspace istitle isupper join ljust lower lstrip partition removeprefix
removesuffix replace rfind rindex rjust rpartition rsplit rstrip split splitlines startswith strip swapcase title upper
zfill"""


def _filtered(name: str, what: str, function: Callable[..., Value]) -> Callable[..., Value]:
    """A filter that refuses what is missing, keeps within bounds and marks what comes from the environment."""
    kind = getattr(getattr(function, "jinja_pass_arg", None), "name", "")

    @pass_context
    def guarded(context: Any, value: Value = None, /, *args: Value, **named: Value) -> Value:  # noqa: ANN401
        if name not in _LENIENT:
            require_present(value)
        others = (*args, *named.values())
        secret = survey(value, *others).secret
        _require_bounds(name, value, others)
        attribute = named.get("attribute") if name != "format" else None
        if any(map(is_secret, (*args[: _NAMES.get(name, 0)], attribute))):
            raise forbidden("a name cannot come from the environment")
        passed = {"context": context, "eval_context": context.eval_ctx, "environment": context.environment}
        first = (passed[kind],) if kind else ()
        result = worked_out(what, lambda: function(*first, value, *args, **named), lambda: secret)
        whole = is_secret(value) and result is not value and name not in _LENIENT
        counted = name in ("batch", "slice") and any(map(is_secret, others))
        marks = secret and (name not in _CHOOSING or whole or counted)
        return context.measured(marked(result) if marks else result)

    return guarded


def worked_out(what: str, make: Callable[[], Value], secret: Callable[[], bool]) -> Value:
    """What `make` gives, as a value of YAML; what it raises is a problem of `what`, and says nothing that is `secret`."""
    try:
        result = make()
        result = list(islice(result, MAX_ITEMS + 1)) if isinstance(result, _PARTED) else result
    except Exception as error:
        raise problem_of(error, what, secret=secret()) from None
    return str.__str__(result) if isinstance(result, Markup) else result


def _require_bounds(name: str, value: Value, others: Iterable[Value]) -> None:
    """Return if what a filter makes is of a bounded size."""
    parts = max(len(value), 1) if isinstance(value, str | list | tuple | dict) else 1
    for other in others:
        if isinstance(other, int | float) and name not in _OF_VALUES:
            too_much = abs(other) > (_MAX_WIDTH if name in _NARROW else MAX_ITEMS)
        else:
            too_much = isinstance(other, str | list | tuple | dict) and parts * len(other) > 10 * MAX_CHARACTERS
        if too_much:
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


# Messages show the names of these functions.
@pass_environment
def _format(sandbox: SandboxedEnvironment, text: str, /, *args: Value, **named: Value) -> str:
    return _Format(sandbox).vformat(text, args, named)


@pass_environment
def format_map(sandbox: SandboxedEnvironment, text: str, mapping: Value) -> str:
    """`text.format_map(mapping)`."""
    return _Format(sandbox).vformat(text, (mapping,), mapping)


@pass_environment
def join(sandbox: Environment, separator: str, values: Value) -> str:
    """`separator.join(values)`."""
    return _joined(sandbox, values, separator)


@pass_environment
def _joined(sandbox: Environment, values: Value, separator: Value = "", attribute: Value = None) -> str:
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


_OWN_FILTERS = {"attr": _attribute, "join": _joined, "string": text_of, "format": formatted}
_OWN_METHODS: dict[str, Callable[..., Value]] = {"format": _format, "format_map": format_map, "join": join}
#: The filters of templates by name.
KNOWN = {
    name: _filtered(name, f"the filter `{name}`", function)
    for name, function in {**FILTERS, **_OWN_FILTERS}.items()
    if name not in LEFT_OUT
}
#: The methods of texts by name; each is called as a filter of the text is.
METHODS = {name: _filtered(name, f"`{name}`", _OWN_METHODS.get(name, getattr(str, name))) for name in _METHODS.split()}
