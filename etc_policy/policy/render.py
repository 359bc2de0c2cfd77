"""Works out the expressions of one text of a YAML file, in Jinja's sandbox.

A text that is one expression alone has that expression's value, with its type; all else is text. Nothing becomes YAML.
"""

from __future__ import annotations

import re
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from functools import cached_property, lru_cache, wraps
from itertools import islice
from math import prod
from typing import Any

from jinja2 import StrictUndefined, TemplateAssertionError, TemplateSyntaxError, Undefined, filters, nodes, pass_context
from jinja2.compiler import CodeGenerator, Frame
from jinja2.environment import TemplateExpression
from jinja2.exceptions import SecurityError, UndefinedError
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing

from etc_policy.errors.codes import Code
from etc_policy.policy.scope import ExpressionError, Scope, Value
from etc_policy.policy.secrets import (
    HIDDEN,
    REFERENCE_HINT,
    canonical_reference,
    count_of_references,
    env_marked,
    is_secret,
    with_raw_references,
)
from etc_policy.policy.suggestions import did_you_mean

MAX_TEXT = MAX_ITEMS = 10_000
MAX_NUMBER = 10**15
MAX_DEPTH = 32
#: What a filter or method may make of its arguments, in characters; what it may be given, and what may be made on the way,
#: in characters and items, those of a list that is there twice counted twice.
_MAX_PRODUCT, _MAX_SIZE = 2_000_000, 100_000
#: So much that is made counts as a step of a loop.
_SIZE_OF_STEP = 50
#: Digits to which numbers are rounded.
_MAX_DIGITS = 15

#: Filters of Jinja that are not there: the same files must compile to the same plan, and values stay small.
LEFT_OUT_FILTERS = frozenset(
    "batch center format indent pprint random slice tojson urlize wordwrap xmlattr".split()  # noqa: SIM905 - a list to read
)
#: Filters that may make the product of what they are given.
_MULTIPLIERS = ("join", "replace")
#: Methods of texts that make much of little.
LEFT_OUT_METHODS = frozenset(
    "center encode expandtabs format format_map ljust rjust translate zfill".split()  # noqa: SIM905 - a list to read
)
NAMES_HINT = "an expression may use `var`, `env_var`, `target`, `each` in a policy with `for_each`, and Jinja's filters and tests"
_EXPRESSION_HINT = "write one expression between `{{` and `}}`, for example \"{{ var('name') }}\""
_MADE_REFERENCE = "what an expression gives would be taken for a reference to a variable of the environment"
_NOT_GIVEN = object()
#: Names that no expression can have: of the filter through which loops take their items, and of the steps that are left.
_LOOP, _LEFT = "items of a loop", "steps of loops"
#: What may be a key that is written out: a text, or the name of an argument of `dict`.
_WRITTEN_KEY = re.compile(r"'([^'\\]*)'|\"([^\"\\]*)\"|\b(\w+)\s*=")
_SURROGATE = re.compile("[\ud800-\udfff]")
#: A letter of a text outside of expressions, and an expression without braces and without signs that take blanks away.
_LETTER, _SOURCE = r"(?:[^{}]|\{(?![{%#])|\}(?!\}))", r"(?![-+])(?P<source>[^{}]+)(?<![-+])"
_PIECE = re.compile(rf"(?P<text>{_LETTER}+)|\{{\{{{_SOURCE}\}}\}}")
#: A text of these alone.
_PLAIN = re.compile(rf"(?:{_LETTER}|\{{\{{{_SOURCE}\}}\}})+")
#: What may be one expression alone, with braces in it.
_ALONE = re.compile(r"\{\{[-+]?(?P<source>.*?)-?\}\}(?P<text>)", re.DOTALL)


class _Missing(StrictUndefined):
    """A name, key or item without a value: every use but `default` and `is defined` raises its problem."""

    __slots__ = ()

    def __init__(self, hint: str | None = None, obj: Value = missing, name: Value = None, exc: Any = None) -> None:  # noqa: ANN401
        """As Jinja calls it; `exc` is SecurityError where something is there that is not to be reached."""
        made = exc if isinstance(exc, ExpressionError) else None
        unsafe = exc is SecurityError
        super().__init__(hint, obj, name, lambda _message: made or self._problem(unsafe=unsafe))  # type: ignore[arg-type]

    def _problem(self, *, unsafe: bool) -> ExpressionError:
        name, inner = str(self._undefined_name)[:60], self._undefined_obj
        if unsafe:
            return ExpressionError(Code.TEMPLATE_FORBIDDEN, f"`{name}` is not allowed here", NAMES_HINT)
        if self._undefined_hint:
            message = re.sub(r" on line \d+", "", self._undefined_hint.rstrip("."))
            return ExpressionError(Code.UNKNOWN_VARIABLE, message)
        if inner is missing:
            near = None if name == "each" else did_you_mean(name, ("var", "env_var", "target", "each"))
            return ExpressionError(Code.UNKNOWN_VARIABLE, f"`{name}` is not known here", near or NAMES_HINT)
        if isinstance(inner, Mapping):
            hint = did_you_mean(name, inner) or f"the keys here are {', '.join(f'`{key}`' for key in list(inner)[:10])}"
            return ExpressionError(Code.UNKNOWN_VARIABLE, f"there is no key `{name}` here", hint)
        kind = "text" if isinstance(inner, str) else "list" if isinstance(inner, list | tuple) else "value"
        return ExpressionError(Code.UNKNOWN_VARIABLE, f"the {kind} has no `{name}`")


class _Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox without what makes much of little."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(undefined=_Missing, finalize=_text, optimized=False, keep_trailing_newline=True)
        self.globals = {}
        self.code_generator_class = _Code
        kept = {name: function for name, function in self.filters.items() if name not in LEFT_OUT_FILTERS}
        bounded = {name: _bounded(function, multiplies=name in _MULTIPLIERS) for name, function in kept.items()}
        self.filters = {**bounded, "round": _rounded, _LOOP: _steps}

    def wrap_str_format(self, value: Value) -> None:
        """`format` of texts is left out, as all that makes much of little."""

    def is_safe_attribute(self, obj: Value, attr: str, value: Value) -> bool:
        """Whether expressions may reach an attribute."""
        return not (isinstance(obj, str) and attr in LEFT_OUT_METHODS) and super().is_safe_attribute(obj, attr, value)

    def call(self, context: Any, obj: Value, /, *args: Value, **named: Value) -> Value:  # noqa: ANN401
        """Call a function or method whose result has a bound."""
        owner = getattr(obj, "__self__", None)
        bounded = _bounded(obj, owner, multiplies=True) if isinstance(owner, str) else obj
        return super().call(context, bounded, *args, **named)

    def joined(self, context: Context, values: tuple[Value, ...]) -> str:
        """What `~` makes of values, if that has a bound."""
        _spend(context[_LEFT], _require_small(values))
        return "".join(map(str, values))

    def call_binop(self, context: Any, operator: str, left: Value, right: Value) -> Value:  # noqa: ANN401
        """An operation on numbers, or a sum of texts or lists, if its result has a bound."""
        if operator == "+" and not isinstance(left, int | float | Undefined):
            _spend(context[_LEFT], _require_small((left, right)))
            return super().call_binop(context, operator, left, right)
        for value in (left, right):
            if not isinstance(value, int | float | Undefined):
                raise ExpressionError(Code.TEMPLATE_FORBIDDEN, f"`{operator}` is for numbers", "join texts with `~`")
        if abs(left) > MAX_NUMBER or abs(right) > (64 if operator == "**" else MAX_NUMBER):
            raise ExpressionError(Code.TOO_BIG, "a number is too big")
        return super().call_binop(context, operator, left, right)


def render(text: str, scope: Scope, *, is_option: bool = False) -> tuple[Value, list[ExpressionError]]:
    """What a text gives, and the problems because of which it gives nothing, each with its offset in the text.

    In an option of the engine (`is_option`) `{{ env_var('NAME') }}` stays as it is: a reference. That is one which the text
    itself holds: what an expression gives, perhaps the name of a folder, becomes none. A text of another key is never filled
    in: it may have the form of one. What may hold a value of the
    environment is marked, with the text in its place.
    """
    problems, values, may_hold_secret = list[ExpressionError](), list[Value](), False
    parts = list(_parts(text, is_option=is_option))
    is_text = len(parts) > 1
    for make, source, offset in parts:
        names = _Names(scope, source)
        try:
            values.append(_text(make(source, names)) if is_text else make(source, names))
            _spend(scope.steps, _require_small(values[-1:], _MAX_PRODUCT))
        except Exception as error:
            problems.append(_problem_of(error, is_hidden=names.are_hidden))
            problems[-1].offset = offset
        may_hold_secret |= names.are_hidden
    if not problems and is_text and len("".join(values)) > MAX_TEXT:
        problems.append(_too_long())
    if problems:
        return None, problems
    value = "".join(values) if is_text else values[0]
    may_be_filled = is_option or not isinstance(value, str)  # what is no text may hold options
    made = count_of_references(value) if may_be_filled else 0
    if made and made > _own_references(parts, keeps=is_option and "{%" not in text):
        return None, [ExpressionError(Code.TEMPLATE_FORBIDDEN, _MADE_REFERENCE, REFERENCE_HINT)]
    return env_marked(value, text) if may_hold_secret else value, []


def _parts(text: str, *, is_option: bool) -> Iterator[tuple[Callable[[str, _Names], Value], str, int]]:
    """The text cut at its expressions: how each part is worked out, what it is, and its offset."""
    if _PLAIN.fullmatch(text):  # as Jinja's lexer would cut it
        pieces = list(_PIECE.finditer(text))
    elif (alone := _ALONE.fullmatch(text)) and _is_expression(alone["source"]):
        pieces = [alone]
    else:
        yield _filled, with_raw_references(text) if is_option and "{%" not in text else text, 0
        return
    for found in pieces:
        literal, source = found["text"], found["source"] or ""
        literal = literal or (canonical_reference(source.strip()) if is_option else None)
        yield (_literal, literal, 0) if literal else (_value, source, found.start())


def _own_references(parts: Iterable[tuple[Callable[[str, _Names], Value], str, int]], *, keeps: bool) -> int:
    """How many references stand in the text itself; those in an expression, or in what it gives, are not counted."""
    count = 0
    for make, source, _ in parts:
        if make is _literal:
            count += count_of_references(source)
        elif make is _filled and keeps:
            texts = SANDBOX.parse(source).find_all(nodes.TemplateData)
            count += sum(count_of_references(one.data) for one in texts)
    return count


class _Names:
    """What one part of a text can name; `are_hidden` says whether a value of the environment may be in what it gives."""

    def __init__(self, scope: Scope, source: str) -> None:
        self._scope, self._source = scope, source
        self.are_hidden = "each" in scope.hidden and "each" in source

    def __repr__(self) -> str:  # is in that of its functions too, which would differ from run to run
        raise ExpressionError(Code.TEMPLATE_FORBIDDEN, "a function is no value", "call it, as in var('name')")

    def by_name(self) -> dict[str, Value]:
        """All of them."""
        unknown = ExpressionError(Code.UNKNOWN_VARIABLE, "the target is not known", is_quiet=True)
        target = _Missing(name="target", exc=unknown) if self._scope.target is None else self._scope.target
        each = {"each": self._scope.each[0]} if self._scope.each else {}
        functions = {"var": self._var, "env_var": self._env_var, "range": self._range, "dict": self._dict}
        return {**functions, "target": target, _LEFT: self._scope.steps, **each}

    def may_be_key(self, key: str) -> bool:
        """Whether a key does not come from the environment: a key bears no mark that it must not be shown."""
        return not is_secret(key) and (not self.are_hidden or key in self._keys_of_files)

    @cached_property
    def _keys_of_files(self) -> set[Value]:
        """The keys that are written out in the expression, or are those of a variable."""
        scope, keys = self._scope, {key for found in _WRITTEN_KEY.findall(self._source) for key in found}
        waiting: list[Value] = [scope.variables, scope.given, scope.target, *scope.each]
        while waiting:
            value = waiting.pop()
            keys |= value.keys() if isinstance(value, Mapping) else set()
            waiting += value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
        return keys

    def _range(self, *numbers: int) -> list[int]:
        return _few(range(*numbers))

    def _dict(self, *args: Value, **named: Value) -> dict[str, Value]:
        return dict(*args, **named)

    def _var(self, name: Value, default: Value = _NOT_GIVEN) -> Value:
        scope = self._scope
        if not isinstance(name, str):
            raise ExpressionError(Code.UNKNOWN_VARIABLE, "the name of a variable is text", "write var('name')")
        if not self.are_hidden:
            scope.known_variables.add(str(name))
        if name in scope.given:
            return scope.given[name]
        if name in scope.variables:
            self.are_hidden |= name in scope.hidden
            return scope.variables[name]
        if default is not _NOT_GIVEN:
            return default
        near = None if self.are_hidden else did_you_mean(name, {**scope.variables, **scope.given})
        raise self._no_value("variable", name, near or "set it under `vars:` in this file or in etc_project.yml")

    def _env_var(self, name: Value, default: Value = _NOT_GIVEN) -> Value:
        if not isinstance(name, str):
            raise ExpressionError(Code.UNKNOWN_VARIABLE, "the name of a variable is text", "write env_var('NAME')")
        if name in self._scope.environment:
            self.are_hidden = True
            return self._scope.environment[name]
        if default is not _NOT_GIVEN:
            return default
        hint = "export it, or give a default: env_var('NAME', 'default')"
        raise self._no_value("environment variable", name, hint)

    def _no_value(self, kind: str, name: str, hint: str) -> ExpressionError:
        shown = f"({HIDDEN})" if self.are_hidden else f"`{name[:60]}`"
        return ExpressionError(Code.UNKNOWN_VARIABLE, f"the {kind} {shown} has no value", hint, is_safe=True)


def _literal(source: str, _names: _Names) -> str:
    return source


def _value(source: str, names: _Names) -> Value:
    return _plain(_compiled(source)(names.by_name()), names)


@lru_cache(1_000)
def _compiled(source: str) -> TemplateExpression:
    return SANDBOX.compile_expression(source, undefined_to_none=False)


def _is_expression(source: str) -> bool:
    try:
        return _compiled(source) is not None
    except Exception:  # what is wrong is said where the text is worked out
        return False


def _filled(source: str, names: _Names) -> str:
    """A text with statements, which is always text. What could keep a value from one step to the next is no statement here:
    a text that doubles forty times fills the memory.
    """
    tree = SANDBOX.parse(source)
    for node in list(tree.find_all(nodes.Stmt)):
        if not isinstance(node, nodes.Output | nodes.If | nodes.For) or getattr(node, "recursive", False):
            hint = "a value may use `{% if %}` and `{% for %}`"
            raise ExpressionError(Code.TEMPLATE_FORBIDDEN, f"`{{% {_statement(node)} %}}` is not allowed here", hint)
        if isinstance(node, nodes.For):
            node.iter = nodes.Filter(node.iter, _LOOP, [], [], None, None, lineno=node.lineno)
    made, length = list[str](), 0
    for piece in SANDBOX.from_string(tree).generate(names.by_name()):
        made.append(piece)
        length += len(piece) + 1
        if length > 10 * MAX_TEXT:
            raise _too_long()
    return _short("".join(made))


@pass_context
def _steps(context: Context, items: Iterable[Value]) -> Iterator[Value]:
    """The items of a loop. Each takes a step; once the project has no steps left, the first loop says so."""
    for item in items:
        _spend(context[_LEFT], _SIZE_OF_STEP + _require_small((item,)))
        yield item


def _spend(steps: Iterator[None], size: int) -> None:
    """Take the steps that something of this size counts for, if they are left."""
    for _ in range(size // _SIZE_OF_STEP):
        if next(steps, "none") == "none":
            raise ExpressionError(Code.TOO_BIG, "no steps are left", is_quiet=True)


def _require_small(values: Iterable[Value], most: int = _MAX_SIZE) -> int:
    """How many characters and items the values have, if that has a bound."""
    size, waiting = 0, list(values)
    while waiting:
        value = waiting.pop()
        if not isinstance(value, str | list | tuple | set | dict):
            continue
        size += len(value)
        if size > most:
            raise _too_big()
        if not isinstance(value, str):
            waiting += [*value, *value.values()] if isinstance(value, dict) else value
    return size


def _rounded(value: Value, precision: int = 0, method: str = "common") -> Value:
    if abs(precision) > _MAX_DIGITS:
        raise ExpressionError(Code.TOO_BIG, f"numbers are rounded to {_MAX_DIGITS} digits at most")
    return filters.do_round(value, precision, method)  # type: ignore[arg-type]


class _Code(CodeGenerator):
    """As Jinja's, but what `~` makes has a bound."""

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802 - Jinja's name
        """Write the call that joins the values."""
        self.write("environment.joined(context, (")
        for one in node.nodes:
            self.visit(one, frame)
            self.write(", ")
        self.write("))")


def _statement(node: nodes.Node) -> str:
    """The statement as it is written."""
    names = {"Assign": "set", "AssignBlock": "set", "CallBlock": "call", "FilterBlock": "filter", "FromImport": "from"}
    return names.get(type(node).__name__, type(node).__name__.lower().replace("for", "for ... recursive"))


def _problem_of(error: Exception, *, is_hidden: bool) -> ExpressionError:
    """What went wrong, in words that hold no value of the environment."""
    if isinstance(error, ExpressionError):
        if not is_hidden or error.is_safe or error.is_quiet:
            return error
        return ExpressionError(error.code, f"the expression fails on {HIDDEN}")
    if isinstance(error, TemplateAssertionError) and (found := _NO_FILTER.fullmatch(error.message or "")):
        hint = did_you_mean(found[2], SANDBOX.filters if found[1] == "filter" else SANDBOX.tests)
        return ExpressionError(Code.TEMPLATE_FORBIDDEN, f"there is no {found[1]} `{found[2][:60]}` here", hint)
    if isinstance(error, TemplateSyntaxError):
        message = _IN_OTHER_WORDS.get(error.message or "", f"the expression cannot be read: {error.message}")
        return ExpressionError(Code.TEMPLATE_SYNTAX, message, _EXPRESSION_HINT)
    if isinstance(error, SecurityError):
        return ExpressionError(Code.TEMPLATE_FORBIDDEN, "this is not allowed here", NAMES_HINT)
    if isinstance(error, RecursionError | MemoryError | OverflowError):
        return ExpressionError(Code.TOO_BIG, "the expression is too deep, or its value too big")
    code = Code.UNKNOWN_VARIABLE if isinstance(error, UndefinedError) else Code.TEMPLATE_SYNTAX
    said = HIDDEN if is_hidden else re.sub(r" on line \d+", "", str(error))[:200]
    return ExpressionError(code, f"the expression fails: {said}", NAMES_HINT)


#: What Jinja says.
_NO_FILTER = re.compile(r"No (filter|test) named '(.*)'\.")
_IN_OTHER_WORDS = {
    "unexpected end of template, expected 'end of print statement'.": "the expression is not closed",
    "chunk after expression": "the expression cannot be read: something follows it",
}


def _plain(value: Value, names: _Names, depth: int = 0) -> Value:
    """The value as YAML knows it: texts, numbers, `true`, `false`, nothing, lists and mappings of these."""
    if isinstance(value, Undefined):
        value._fail_with_undefined_error()
    if isinstance(value, str):
        return _short(value)
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int) and abs(value) <= MAX_NUMBER:
        return value
    if isinstance(value, int) or depth >= MAX_DEPTH:
        what = "a number is too big" if isinstance(value, int) else f"a value has more than {MAX_DEPTH} levels"
        raise ExpressionError(Code.TOO_BIG, what)
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise ExpressionError(Code.TEMPLATE_FORBIDDEN, "a key must be text")
        if not all(map(names.may_be_key, value)):
            message = "a key cannot come from the environment"
            raise ExpressionError(Code.TEMPLATE_FORBIDDEN, message, "write the key itself", is_safe=True)
        return {str(key): _plain(item, names, depth + 1) for key, item in _few(value.items())}
    if isinstance(value, list | tuple | set | Iterator | KeysView | ValuesView | ItemsView):
        return [_plain(item, names, depth + 1) for item in _few(value)]
    raise ExpressionError(Code.TEMPLATE_FORBIDDEN, "this is not a value that a file can hold", NAMES_HINT)


def _few(items: Iterable[Value]) -> list[Value]:
    found = list(islice(items, MAX_ITEMS + 1))
    if len(found) > MAX_ITEMS:
        raise ExpressionError(Code.TOO_BIG, f"a list has more than {MAX_ITEMS:,} items")
    return found


def _short(text: str) -> str:
    if len(text) > MAX_TEXT:
        raise _too_long()
    if not text.isascii() and _SURROGATE.search(text):
        raise ExpressionError(Code.TEMPLATE_SYNTAX, "the expression gives half a character (a surrogate)")
    return text


def _too_big() -> ExpressionError:
    return ExpressionError(Code.TOO_BIG, "the value would grow too big")


def _too_long() -> ExpressionError:
    return ExpressionError(Code.TOO_BIG, f"a text has at most {MAX_TEXT:,} characters once it is worked out")


def _text(value: Value) -> str:
    """A plain value as YAML writes it; lists, mappings and nothing are refused."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, Undefined):
        value._fail_with_undefined_error()
    if value is None:
        raise ExpressionError(Code.TEMPLATE_SYNTAX, "the expression gives no value (none)")
    kind = "a mapping" if isinstance(value, Mapping) else "a list"
    raise ExpressionError(Code.TEMPLATE_SYNTAX, f"{kind} cannot be a part of a text", "use one of its items")


def _bounded(function: Callable[..., Value], *first: Value, multiplies: bool) -> Callable[..., Value]:
    """A function that refuses too much; with `multiplies` also what would become too much."""

    @wraps(function)
    def guarded(*args: Value, **named: Value) -> Value:
        given = (*first, *args, *named.values())
        _require_small(given, _MAX_PRODUCT)
        lengths = (max(len(value), 1) for value in given if isinstance(value, str | list | tuple | dict))
        if multiplies and prod(lengths) > _MAX_PRODUCT:
            raise _too_big()
        made = function(*args, **named)
        return _listed(made) if isinstance(made, Iterator) else made

    return guarded


def _listed(items: Iterator[Value]) -> list[Value]:
    """What a filter gives item by item (`map`, `select`), if that has a bound together."""
    found, left = list[Value](), _MAX_PRODUCT
    for item in items:
        left -= 1 + _require_small((item,), _MAX_PRODUCT)
        if left < 0:
            raise _too_big()
        found.append(item)
    return found


SANDBOX = _Sandbox()
