"""Filters of Jinja and methods of texts: how far values grow, and what keeps the mark of a secret."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from jinja2 import Environment, Undefined, pass_context, pass_environment
from jinja2.filters import FILTERS

from etc_policy.declare.secrets import is_secret
from etc_policy.declare.templating.problems import forbidden, problem_of, too_big
from etc_policy.declare.templating.values import MAX_CHARACTERS, MAX_ITEMS, Value, join_texts, marked, survey, text_of

GREW = "the value would grow too big"
_MAX_WIDTH = 100
_TOO_WIDE = re.compile(r"%[^%a-zA-Z]*(?:\d{4}|\*)")
_CHOOSING_FILTERS = """attr batch d default dictsort first groupby items join last list map max min reject rejectattr reverse
select selectattr slice sort unique"""
#: Filters that hand out parts of what they are given, each with the mark that it has.
_CHOOSING = frozenset(_CHOOSING_FILTERS.split())
#: How many of a filter's arguments are names of keys, filters or tests; messages show these.
_NAMES = {"attr": 1, "groupby": 1, "map": 1, "max": 2, "min": 2, "reject": 1, "rejectattr": 2, "select": 1}
_NAMES |= {"selectattr": 2, "sort": 3, "sum": 1, "unique": 2}
#: Left out of Jinja's filters: a plan must be the same twice.
LEFT_OUT = ("random",)


def filters() -> dict[str, Callable[..., Value]]:
    """The filters of templates by name."""
    own = {**FILTERS, "attr": _attribute, "join": joined, "string": text_of, "format": formatted}
    return {name: _guarded(name, function) for name, function in own.items() if name not in LEFT_OUT}


def _guarded(name: str, function: Callable[..., Value]) -> Callable[..., Value]:
    """A filter of Jinja that refuses what is missing, keeps within bounds and marks what comes from the environment."""
    kind = getattr(getattr(function, "jinja_pass_arg", None), "name", "")

    @pass_context
    def guarded(context: Any, value: Value = None, *args: Value, **named: Value) -> Value:  # noqa: ANN401
        if isinstance(value, Undefined) and name not in ("default", "d"):
            value._fail_with_undefined_error()
        whole = is_secret(value)
        secret = survey(value, *args, *named.values()).secret
        _require_bounds(name, value, (*args, *named.values()))
        if any(map(is_secret, (*args[: _NAMES.get(name, 0)], named.get("attribute")))):
            raise forbidden("a name cannot come from the environment")
        first = {"context": (context,), "eval_context": (context.eval_ctx,), "environment": (context.environment,)}.get(
            kind, ()
        )
        try:
            result = function(*first, value, *args, **named)
            result = list(islice(result, MAX_ITEMS + 1)) if isinstance(result, Iterator) else result
        except Exception as error:
            raise problem_of(error, f"the filter `{name}`", secret=secret) from None
        if (
            type(result) is not str
            and isinstance(result, str)
            and not is_secret(result)
            and hasattr(result, "__html__")
        ):
            result = str.__str__(result)
        whole = whole and result is not value and name not in ("default", "d")
        counted = name in ("batch", "slice") and any(map(is_secret, (*args, *named.values())))
        if secret and (name not in _CHOOSING or whole or counted):
            result = marked(result)
        return context.room.measured(result)

    return guarded


def _require_bounds(name: str, value: Value, others: Iterable[Value]) -> None:
    """Return if what a filter or method makes is of a bounded size."""
    parts = max(len(value), 1) if isinstance(value, str | list | tuple | dict) else 1
    narrow = name in ("indent", "tojson", "pprint", "expandtabs")
    for other in others:
        if isinstance(other, int | float) and abs(other) > (_MAX_WIDTH if narrow else MAX_ITEMS):
            raise too_big(GREW)
        if isinstance(other, str | list | tuple | dict) and parts * len(other) > 10 * MAX_CHARACTERS:
            raise too_big(GREW)


def of_text(sandbox: Environment, text: str, name: str, function: Callable[..., Value]) -> Callable[..., Value]:
    """A method of a text, under the same rules as a filter."""

    def method(*args: Value, **named: Value) -> Value:
        secret = survey(text, *args, *named.values()).secret
        _require_bounds(name, text, (*args, *named.values()))
        try:
            if name == "join":
                return joined(sandbox, args[0], text)
            result = function(*args, **named)
        except Exception as error:
            raise problem_of(error, f"`{name}`", secret=secret) from None
        return marked(result) if secret else result

    return method


def formatted(text: Value, *args: Value, **named: Value) -> str:
    """`text % args`, within bounds."""
    pattern = text_of(text)
    secret = survey(pattern, *args, *named.values()).secret
    if _TOO_WIDE.search(pattern):
        raise too_big(GREW)
    result = str.__mod__(pattern, named or args)
    return marked(result) if secret else result


@pass_environment
def joined(sandbox: Environment, values: Value, separator: Value = "", attribute: Value = None) -> str:
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
