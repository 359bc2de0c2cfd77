"""Jinja's sandbox, on values of YAML: what templates reach and call, and operators within bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jinja2 import Undefined
from jinja2.lexer import TokenStream
from jinja2.runtime import LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Cycler, Joiner, Namespace

from etc_policy.declare.secrets import is_secret
from etc_policy.declare.suggestions import did_you_mean
from etc_policy.declare.templating.filters import GREW, KNOWN, METHODS, formatted, worked_out
from etc_policy.declare.templating.problems import forbidden, problem_of, too_big
from etc_policy.declare.templating.values import (
    MAX_ITEMS,
    Missing,
    Value,
    fragment,
    join_texts,
    marked,
    require_present,
    shown,
    survey,
)

FUNCTIONS = ("var", "env_var", "range", "dict", "namespace", "cycler", "joiner")
_MAX_POWER = 64
_LOOP = """changed cycle depth depth0 first index index0 last length nextitem previtem revindex revindex0"""
#: What can be asked of other values than texts with a dot, by their kind; all of it can only be read.
_ATTRIBUTES: Mapping[type, tuple[str, ...]] = {
    dict: ("get", "items", "keys", "values"),
    list: ("count", "index"),
    tuple: ("grouper", "list"),
    LoopContext: tuple(_LOOP.split()),
    Cycler: ("current", "next", "reset"),
}


@dataclass(frozen=True, slots=True)
class Function:
    """Something that templates may call; `text` is the text whose method it is.

    `careful` says that a value of the environment marks what it gives, `given` that it gives what was measured before.
    """

    name: str
    call: Callable[..., Value]
    text: str | None = None
    careful: bool = False
    given: bool = False


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox without Python's objects."""

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%", "**"})
    intercepted_unops = frozenset({"+", "-"})
    concat = staticmethod(fragment)  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__(undefined=Missing, optimized=False, autoescape=False, keep_trailing_newline=True)
        functions: dict[str, Any] = {"dict": dict, "namespace": Namespace, "cycler": Cycler, "joiner": Joiner}
        self.globals = {name: Function(name, call) for name, call in functions.items()}
        self.globals["range"] = Function("range", range_of, careful=True)
        self.filters = _Known("filter", KNOWN)
        self.tests = _Known("test", self.tests)

    def _tokenize(self, source: Any, name: Any, filename: Any = None, state: Any = None) -> TokenStream:  # noqa: ANN401
        """The tokens that a shape holds, instead of a text's."""
        return TokenStream(self.lexer.wrap(source, name, filename), name, filename)

    def getattr(self, obj: Value, attribute: str) -> Value:
        """A key of a mapping, or what can be asked of other values."""
        require_present(obj)
        if isinstance(obj, dict) and attribute in obj:
            return obj[attribute]
        if isinstance(obj, Namespace) and not attribute.startswith("_"):
            return getattr(obj, attribute, self.undefined(name=attribute))
        if isinstance(obj, str) and attribute in METHODS:
            return Function(attribute, METHODS[attribute], text=obj)
        for kind, names in _ATTRIBUTES.items():
            if isinstance(obj, kind) and attribute in names:
                value: Value = getattr(obj, attribute, None)
                is_method = callable(value) and not isinstance(value, Undefined)
                return Function(attribute, value, careful=kind is list) if is_method else value
        if isinstance(obj, dict):
            return self.undefined(obj=obj, name=attribute)
        raise _not_there(attribute)

    def getitem(self, obj: Value, argument: Value) -> Value:
        """A value of a mapping, an item of a list, a part of a text."""
        require_present(obj)
        require_present(argument)
        if isinstance(obj, dict) and isinstance(argument, str):
            return obj[argument] if argument in obj else self.undefined(obj=obj, name=argument)
        whole = isinstance(argument, int) and not isinstance(argument, bool)
        if not isinstance(obj, list | tuple | str) or not (whole or isinstance(argument, slice)):
            raise _not_there(argument)
        try:
            part = obj[argument]
        except IndexError:
            return self.undefined(obj=obj, name=argument)
        ends = (argument.start, argument.stop, argument.step) if isinstance(argument, slice) else (argument,)
        return marked(part) if any(map(is_secret, (obj, *ends))) else part

    def call(self, context: Any, obj: Value, /, *args: Value, **named: Value) -> Value:  # noqa: ANN401
        """Call one of etc's functions, a macro, or a method that was asked for."""
        named.pop("_loop_vars", None)
        if isinstance(obj, Macro):
            return context.called(obj, args, named)
        if isinstance(obj, Joiner):
            return obj()
        if not isinstance(obj, Function):
            raise context.no_function(obj)
        if obj.text is not None:
            return obj.call(context, obj.text, *args, **named)

        def secret() -> bool:
            return survey(*args, *named.values()).secret

        marks = obj.careful and secret()
        result = worked_out(f"`{obj.name}`", lambda: obj.call(*args, **named), secret)
        return result if obj.given else context.measured(marked(result) if marks else result)

    def call_binop(self, context: Any, operator: str, left: Value, right: Value) -> Value:  # noqa: ANN401
        """An operation on numbers, texts or lists, if its result has a bound."""
        secret = survey(left, right).secret
        if operator == "+" and isinstance(left, str) and isinstance(right, str):
            return join_texts((left, right))
        try:
            if operator == "%" and isinstance(left, str):
                result = formatted(left, *(right if isinstance(right, list | tuple) else (right,)))
            else:
                _require_small(operator, left, right)
                result = self.binop_table[operator](left, right)
        except TypeError:
            kinds = f"{_kind(left)} and {_kind(right)}"
            raise forbidden(f"`{operator}` does not work with {kinds}", "join texts with `~`") from None
        except Exception as error:
            raise problem_of(error, secret=secret) from None
        counted = operator == "*" or not isinstance(result, list)
        return context.measured(marked(result) if secret and counted else result)

    def call_unop(self, context: Any, operator: str, arg: Value) -> Value:  # noqa: ANN401
        """A sign before a number."""
        secret = survey(arg).secret
        result = worked_out("the template", lambda: self.unop_table[operator](arg), lambda: secret)
        return marked(result) if secret else result


class _Known(dict[str, Any]):
    """Filters or tests; one that does not exist is an error where it is used."""

    def __init__(self, kind: str, known: Mapping[str, Any]) -> None:
        super().__init__(known)
        self._kind = kind

    def get(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - a filter or test
        return self[name]

    def __missing__(self, name: str) -> Any:  # noqa: ANN401 - a filter or test
        def unknown(*_args: Value, **_named: Value) -> Value:
            near = None if is_secret(name) else did_you_mean(name, self)
            message = f"the {self._kind} {shown(name)} is not allowed here"
            raise forbidden(message, near or f"the {self._kind}s are those of Jinja")

        return unknown


def _not_there(name: Value) -> Exception:
    return forbidden(f"{shown(name)} is not allowed: only mappings have keys, and only lists have items")


def _kind(value: Value) -> str:
    require_present(value)
    if isinstance(value, dict | list | tuple):
        return "a mapping" if isinstance(value, dict) else "a list"
    return "text" if isinstance(value, str) else "nothing" if value is None else "a number"


def _require_small(operator: str, left: Value, right: Value) -> None:
    """Return if the result of an operation is of a bounded size."""
    if operator == "**" and abs(right) > _MAX_POWER:
        raise too_big("a number is too big")
    if operator == "*":
        for many, times in ((left, right), (right, left)):
            if isinstance(many, str | list | tuple) and isinstance(times, int) and len(many) * times > MAX_ITEMS:
                raise too_big(GREW)


def range_of(*numbers: int) -> list[int]:
    """Python's range as a list, at most MAX_ITEMS long."""
    found = range(*numbers)
    if len(found) > MAX_ITEMS:
        raise too_big(f"a range has more than {MAX_ITEMS:,} numbers")
    return list(found)


SANDBOX = Sandbox()
