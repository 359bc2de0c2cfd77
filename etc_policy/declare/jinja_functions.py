"""Functions, filters and operators of templates, on values of YAML and within bounds."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from jinja2 import nodes

from etc_policy.codes.registry import Code
from etc_policy.declare.jinja_chunks import TemplateProblem
from etc_policy.declare.secrets import HIDDEN, EnvNumber, EnvText, is_secret

MAX_TEXT = 10_000
MAX_ITEMS = 10_000

Value: TypeAlias = Any


class Unknown(TemplateProblem):
    """A name or key that has no value; `default` and `is defined` take it as such."""


def join_texts(values: Sequence[Value]) -> str:
    """The values as one text, which still tells what of it came from the environment."""
    texts = [text_of(value) for value in values]
    joined = "".join(texts)
    if any(isinstance(text, EnvText) for text in texts):
        parts = [text.reference if isinstance(text, EnvText) else text for text in texts]
        return EnvText.made(joined, None if None in parts else "".join(part for part in parts if part is not None))
    return joined


def text_of(value: Value) -> str:
    """A plain value as YAML writes it; lists, mappings and nothing are refused."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, EnvNumber):
        return EnvText.made(str(int(value)), None)
    if isinstance(value, int | float):
        return str(value)
    if value is None:
        raise TemplateProblem(Code.TEMPLATE_SYNTAX, "the template gives no value (none)")
    kind = "a mapping" if isinstance(value, Mapping) else "a list"
    raise TemplateProblem(Code.TEMPLATE_SYNTAX, f"{kind} cannot be a part of a text", "use one of its items")


def key_of(value: Value) -> str:
    """A key of a mapping; keys are shown in messages and files, so none comes from the environment."""
    key = text_of(value)
    if isinstance(key, EnvText):
        raise TemplateProblem(Code.TEMPLATE_FORBIDDEN, "a key cannot come from the environment")
    return key


def shown(value: Value) -> str:
    """The value in a message."""
    return f"({HIDDEN})" if is_secret(value) else f"`{str(value)[:60]}`"


def is_number(value: Value) -> bool:
    """Whether the value is a number; `true` is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def range_of(*arguments: Value) -> list[int]:
    """Python's range as a list, at most MAX_ITEMS long."""
    if not 1 <= len(arguments) <= 3 or not all(isinstance(number, int) for number in arguments):
        raise TypeError("`range` takes one to three whole numbers")
    numbers = range(*arguments)
    if len(numbers) > MAX_ITEMS:
        raise TemplateProblem(Code.TOO_BIG, f"a range has more than {MAX_ITEMS:,} numbers")
    return list(numbers)


def items_of(value: Value) -> list[list[Value]]:
    """Keys and values of a mapping, in pairs."""
    if not isinstance(value, Mapping):
        raise TypeError("only mappings have `items`")
    return [[key, item] for key, item in value.items()]


def _derived(change: Callable[[str], str]) -> Callable[[Value], str]:
    def changed(value: Value) -> str:
        text = text_of(value)
        return EnvText.made(change(text), None) if isinstance(text, EnvText) else change(text)

    return changed


def _replace(value: Value, old: Value, new: Value) -> str:
    text, old, new = text_of(value), text_of(old), text_of(new)
    if not old:
        raise ValueError("`replace` needs something to replace")
    if len(text) + text.count(old) * len(new) > 2 * MAX_TEXT:
        raise TemplateProblem(Code.TOO_BIG, f"the value has more than {MAX_TEXT} characters once rendered")
    secret = any(isinstance(part, EnvText) for part in (text, old, new))
    replaced = text.replace(old, new)
    return EnvText.made(replaced, None) if secret else replaced


def _joined(values: Value, separator: Value = "") -> str:
    if not isinstance(values, list):
        raise TypeError("`join` is for lists")
    parts: list[Value] = []
    total = 0
    for value in values:
        parts += [separator, value] if parts else [value]
        total += len(text_of(value)) + len(text_of(separator))
        if total > 2 * MAX_TEXT:
            raise TemplateProblem(Code.TOO_BIG, f"the value has more than {MAX_TEXT} characters once rendered")
    return join_texts(parts)


def _end(place: int) -> Callable[[Value], Value]:
    def item(values: Value) -> Value:
        if not isinstance(values, list) or not values:
            raise Unknown(Code.UNKNOWN_VARIABLE, "there is no item: the list is empty or no list")
        return values[place]

    return item


def _integer(value: Value) -> int:
    if isinstance(value, int):
        return value if isinstance(value, EnvNumber) else int(value)
    if isinstance(value, float) or not re.fullmatch(r"[-+]?\d{1,15}", str(value)):
        raise ValueError("this is no whole number")
    return EnvNumber(value) if isinstance(value, EnvText) else int(value)


FILTERS: Mapping[str, Callable[..., Value]] = {
    "first": _end(0),
    "int": _integer,
    "items": items_of,
    "join": _joined,
    "last": _end(-1),
    "length": lambda value: len(value),
    "lower": _derived(str.lower),
    "replace": _replace,
    "trim": _derived(str.strip),
    "upper": _derived(str.upper),
}
OPERATORS: Mapping[str, Callable[[Value, Value], bool]] = {
    "eq": lambda left, right: bool(left == right),
    "ne": lambda left, right: bool(left != right),
    "lt": lambda left, right: bool(left < right),
    "lteq": lambda left, right: bool(left <= right),
    "gt": lambda left, right: bool(left > right),
    "gteq": lambda left, right: bool(left >= right),
    "in": lambda left, right: left in right,
    "notin": lambda left, right: left not in right,
}
ARITHMETIC: Mapping[type[nodes.Node], Callable[[Any, Any], Any]] = {
    nodes.Add: lambda left, right: left + right,
    nodes.Sub: lambda left, right: left - right,
    nodes.Mul: lambda left, right: left * right,
    nodes.FloorDiv: lambda left, right: left // right,
    nodes.Mod: lambda left, right: left % right,
}


def calculate(operation: type[nodes.Node], left: Value, right: Value) -> Value:
    """The result of an operation on two numbers; what comes from the environment is still known to come from there."""
    result = ARITHMETIC[operation](left, right)
    if not is_secret(left) and not is_secret(right):
        return result
    if isinstance(result, float):
        message = "arithmetic with a value of the environment is for whole numbers"
        raise TemplateProblem(Code.TEMPLATE_FORBIDDEN, message)
    return EnvNumber(result)
