"""Works out the expressions of one text of a YAML file, in Jinja's sandbox.

A text that is one expression alone has that expression's value, with its type; all else is text. Nothing becomes YAML.
"""

from __future__ import annotations

import re
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from functools import partial, wraps
from itertools import islice
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateAssertionError, TemplateSyntaxError, Undefined, nodes
from jinja2.exceptions import SecurityError, UndefinedError
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing

from etc_policy.errors.codes import Code
from etc_policy.policy.scope import ExpressionError, Scope, Value
from etc_policy.policy.secrets import HIDDEN, canonical_reference, env_marked, is_secret
from etc_policy.policy.suggestions import did_you_mean

MAX_TEXT = 10_000
MAX_ITEMS = 10_000
MAX_NUMBER = 10**15
MAX_DEPTH = 32
#: What a method or filter may make of its arguments, in characters.
_MAX_PRODUCT = 2_000_000

#: Filters of Jinja that are not there: the same files must compile to the same plan, and values stay small.
LEFT_OUT_FILTERS = frozenset(
    "batch center format indent pprint random slice tojson urlize wordwrap xmlattr".split()  # noqa: SIM905 - a list to read
)
#: Methods of texts that make much of little.
LEFT_OUT_METHODS = frozenset(
    "center encode expandtabs format format_map ljust rjust translate zfill".split()  # noqa: SIM905 - a list to read
)
_STATEMENTS = (nodes.Output, nodes.If, nodes.For)
_GROWING_FILTERS = ("join", "replace")
NAMES_HINT = "an expression may use `var`, `env_var`, `target`, `each` in a policy with `for_each`, and Jinja's filters and tests"
_EXPRESSION_HINT = "write one expression between `{{` and `}}`, for example \"{{ var('name') }}\""
_NOT_GIVEN = object()
_SURROGATE = re.compile("[\ud800-\udfff]")
#: A text whose expressions have no braces in them and no signs that take blanks away.
_PIECE = re.compile(r"(?P<text>[^{}]++)|\{\{(?![-+])(?P<source>[^{}]++)(?<![-+])\}\}")
_PLAIN = re.compile(rf"(?:{_PIECE.pattern.replace('?P<text>', '?:').replace('?P<source>', '?:')})++")
_NEWLINE = re.compile(r"\r\n|\r")


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


class _Function:
    """A function of expressions; its text would differ from run to run."""

    __slots__ = ("_call", "_name")

    def __init__(self, name: str, call: Callable[..., Value]) -> None:
        self._name, self._call = name, call

    def __call__(self, *args: Value, **named: Value) -> Value:
        """What it gives."""
        return self._call(*args, **named)

    def __repr__(self) -> str:
        hint = f"call it: {self._name}('...')"
        raise ExpressionError(Code.TEMPLATE_FORBIDDEN, f"`{self._name}` is a function", hint)


class _Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox without what makes much of little."""

    intercepted_binops = frozenset({"*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(undefined=_Missing, finalize=_text, optimized=False, cache_size=0, keep_trailing_newline=True)
        self.globals = {"range": _Function("range", _range), "dict": _Function("dict", dict)}
        self.filters = {name: function for name, function in self.filters.items() if name not in LEFT_OUT_FILTERS}
        for name in _GROWING_FILTERS:
            self.filters[name] = _small(self.filters[name])

    def wrap_str_format(self, value: Value) -> None:
        """`format` of texts is left out, as all that makes much of little."""

    def is_safe_attribute(self, obj: Value, attr: str, value: Value) -> bool:
        """Whether expressions may reach an attribute."""
        return not (isinstance(obj, str) and attr in LEFT_OUT_METHODS) and super().is_safe_attribute(obj, attr, value)

    def call(self, context: Any, obj: Value, /, *args: Value, **named: Value) -> Value:  # noqa: ANN401
        """Call a function or method whose result has a bound."""
        owner = getattr(obj, "__self__", None)
        if isinstance(owner, str):
            _require_small(owner, *args)
        return super().call(context, obj, *args, **named)

    def call_binop(self, context: Any, operator: str, left: Value, right: Value) -> Value:  # noqa: ANN401
        """An operation on numbers, if its result has a bound."""
        for value in (left, right):
            if not isinstance(value, int | float) and not isinstance(value, Undefined):
                raise ExpressionError(Code.TEMPLATE_FORBIDDEN, f"`{operator}` is for numbers", "join texts with `~`")
        if abs(left) > MAX_NUMBER or abs(right) > (64 if operator == "**" else MAX_NUMBER):
            raise ExpressionError(Code.TOO_BIG, "a number is too big")
        return super().call_binop(context, operator, left, right)


def render(text: str, scope: Scope, *, is_option: bool = False) -> tuple[Value, list[ExpressionError]]:
    """What a text gives, and the problems because of which it gives nothing, each with its offset in the text.

    In an option of the engine (`is_option`) `{{ env_var('NAME') }}` stays as it is: a reference. What may hold a value of the
    environment is marked, with the text in its place.
    """
    running = _Running(text, scope, is_option)
    value = running.attempt(running.value, 0)
    return (env_marked(value, text) if running.asked_environment else value), running.problems


class _Running:
    """One text that is worked out; `asked_environment` says whether it may hold a value of the environment, `_asks` whether
    the expression does that is worked out now.
    """

    def __init__(self, text: str, scope: Scope, is_option: bool) -> None:
        self.problems: list[ExpressionError] = []
        self._text, self._scope, self._is_option = _NEWLINE.sub("\n", text), scope, is_option
        self._is_item_hidden = "each" in scope.hidden and "each" in text
        self.asked_environment = self._asks = self._is_item_hidden
        self._names: dict[str, Value] = {
            **SANDBOX.globals,
            "var": _Function("var", self._var),
            "env_var": _Function("env_var", self._env_var),
            "target": scope.target,
        }
        if scope.target is None:
            unknown = ExpressionError(Code.UNKNOWN_VARIABLE, "the target is not known", is_quiet=True)
            self._names["target"] = _Missing(name="target", exc=unknown)
        if scope.each:
            self._names["each"] = scope.each[0]

    def value(self) -> Value:
        """The text's value; where a part of it has none, the problem is there instead."""
        parts = self._parts()
        if parts is None:
            return self._whole()
        values = [part if isinstance(part, str) else self._expression(*part) for part in parts]
        if len(parts) == 1 and not isinstance(parts[0], str):
            return values[0]
        if self.problems:
            return None
        places = [0 if isinstance(part, str) else part[1] for part in parts]
        texts = [self.attempt(partial(_text, value), place) for value, place in zip(values, places, strict=True)]
        return None if self.problems else _short("".join(texts))

    def attempt(self, make: Callable[[], Value], offset: int) -> Value:
        """What `make` gives; what it raises is a problem at `offset`."""
        around, self._asks = self._asks, self._is_item_hidden
        try:
            return make()
        except Exception as error:
            problem = self._problem_of(error)
            problem.offset = problem.offset or offset
            self.problems.append(problem)
            return None
        finally:
            self.asked_environment |= self._asks
            self._asks = around

    def _parts(self) -> list[str | tuple[str, int]] | None:
        """The text cut at its expressions, each with its offset; None where it has statements."""
        parts: list[str | tuple[str, int]] = []
        if _PLAIN.fullmatch(self._text):  # as Jinja's lexer would cut it, in a tenth of the time
            for found in _PIECE.finditer(self._text):
                source = (found["source"] or "").strip()
                parts.append(found["text"] or self._reference(source) or (source, found.start()))
            return parts
        text, place, begin, inside = self._text, 0, -1, list[str]()
        for _, kind, token in SANDBOX.lexer.tokeniter(text, None):
            at = max(text.find(token, place), place)
            place = at + len(token)
            if kind == "block_begin":
                return None
            if kind == "variable_begin":
                begin, inside = at, []
            elif kind == "variable_end":
                source = "".join(inside).strip()
                parts.append(self._reference(source) or (source, begin))
                begin = -1
            elif begin >= 0:
                inside.append(token)
            elif kind == "data":
                parts.append(token)
        if begin >= 0:
            problem = ExpressionError(Code.TEMPLATE_SYNTAX, "the expression is not closed", _EXPRESSION_HINT)
            problem.offset = begin
            raise problem
        return parts

    def _reference(self, source: str) -> str | None:
        return canonical_reference(source) if self._is_option else None

    def _expression(self, source: str, offset: int) -> Value:
        def make() -> Value:
            with self._scope.alarm.running():
                return run()

        def run() -> Value:
            if source not in self._scope.programs:
                self._scope.programs[source] = _compiled(source)
            context = self._scope.programs[source].new_context(self._names, shared=True)
            for _ in self._scope.programs[source].root_render_func(context):
                pass
            return _plain(context.vars["result"])

        return self.attempt(make, offset)

    def _whole(self) -> str:
        """A text with statements, which is always text."""
        with self._scope.alarm.running():
            return self._filled()

    def _filled(self) -> str:
        tree = SANDBOX.parse(self._text)
        for node in tree.find_all(nodes.Stmt):
            if not isinstance(node, _STATEMENTS) or (isinstance(node, nodes.For) and node.recursive):
                name = "for ... recursive" if isinstance(node, nodes.For) else _statement(node)
                message = f"`{{% {name} %}}` is not allowed here"
                raise ExpressionError(Code.TEMPLATE_FORBIDDEN, message, "a value may use `{% if %}` and `{% for %}`")
        template = SANDBOX.from_string(tree)
        made, length = [], 0
        for piece in template.root_render_func(template.new_context(self._names, shared=True)):
            made.append(piece)
            length += len(piece) + 1
            if length > 10 * MAX_TEXT:
                raise ExpressionError(Code.TOO_BIG, f"a text has at most {MAX_TEXT:,} characters once it is worked out")
        return _short("".join(made))

    def _var(self, name: Value, default: Value = _NOT_GIVEN) -> Value:
        scope = self._scope
        if not isinstance(name, str):
            raise ExpressionError(Code.UNKNOWN_VARIABLE, "the name of a variable is text", "write var('name')")
        if not self._asks:
            scope.known_variables.add(str(name))
        if name in scope.given:
            return scope.given[name]
        if name in scope.variables:
            self._asks |= name in scope.hidden
            return scope.variables[name]
        if default is not _NOT_GIVEN:
            return default
        shown = f"({HIDDEN})" if self._asks else f"`{name[:60]}`"
        hint = None if self._asks else did_you_mean(name, {**scope.variables, **scope.given})
        hint = hint or "set it under `vars:` in this file or in etc_project.yml"
        raise ExpressionError(Code.UNKNOWN_VARIABLE, f"the variable {shown} has no value", hint, is_safe=True)

    def _env_var(self, name: Value, default: Value = _NOT_GIVEN) -> Value:
        if not isinstance(name, str):
            raise ExpressionError(Code.UNKNOWN_VARIABLE, "the name of a variable is text", "write env_var('NAME')")
        hidden = self._asks
        if name in self._scope.environment:
            self._asks = True
            return self._scope.environment[name]
        if default is not _NOT_GIVEN:
            return default
        shown = f"({HIDDEN})" if hidden else f"`{name[:60]}`"
        hint = "export it, or give a default: env_var('NAME', 'default')"
        raise ExpressionError(
            Code.UNKNOWN_VARIABLE, f"the environment variable {shown} has no value", hint, is_safe=True
        )

    def _problem_of(self, error: Exception) -> ExpressionError:
        """What went wrong, in words that hold no value of the environment."""
        if isinstance(error, ExpressionError):
            if not self._asks or error.is_safe or error.is_quiet:
                return error
            return ExpressionError(error.code, f"the expression fails on {HIDDEN}")
        if isinstance(error, TemplateAssertionError):
            return _unknown_filter(error)
        if isinstance(error, TemplateSyntaxError):
            message = f"the expression cannot be read: {error.message}"
            return ExpressionError(Code.TEMPLATE_SYNTAX, message, _EXPRESSION_HINT)
        if isinstance(error, SecurityError):
            return ExpressionError(Code.TEMPLATE_FORBIDDEN, "this is not allowed here", NAMES_HINT)
        if isinstance(error, RecursionError | MemoryError | OverflowError):
            return ExpressionError(Code.TOO_BIG, "the expression is too deep, or its value too big")
        code = Code.UNKNOWN_VARIABLE if isinstance(error, UndefinedError) else Code.TEMPLATE_SYNTAX
        said = HIDDEN if self._asks else re.sub(r" on line \d+", "", str(error))[:200]
        return ExpressionError(code, f"the expression fails: {said}", NAMES_HINT)


def _compiled(source: str) -> Template:
    """A program that leaves the expression's value, with its type, in `result`."""
    parser = Parser(SANDBOX, source, state="variable")
    expression = parser.parse_expression()
    if not parser.stream.eos:
        found = parser.stream.current
        raise TemplateSyntaxError(f"unexpected `{str(found.value)[:30]}`", found.lineno)
    expression.set_environment(SANDBOX)
    body: list[nodes.Node] = [nodes.Assign(nodes.Name("result", "store"), expression, lineno=1)]
    return SANDBOX.from_string(nodes.Template(body, lineno=1))


def _statement(node: nodes.Node) -> str:
    """The statement as it is written."""
    names = {"Assign": "set", "AssignBlock": "set", "CallBlock": "call", "FilterBlock": "filter", "FromImport": "from"}
    return names.get(type(node).__name__, type(node).__name__.lower())


def _unknown_filter(error: TemplateAssertionError) -> ExpressionError:
    found = re.fullmatch(r"No (filter|test) named '(.*)'\.", error.message or "")
    if found is None:
        return ExpressionError(
            Code.TEMPLATE_SYNTAX, f"the expression cannot be read: {error.message}", _EXPRESSION_HINT
        )
    known = SANDBOX.filters if found[1] == "filter" else SANDBOX.tests
    message = f"there is no {found[1]} `{found[2][:60]}` here"
    return ExpressionError(Code.TEMPLATE_FORBIDDEN, message, did_you_mean(found[2], known))


def _plain(value: Value, depth: int = 0) -> Value:
    """The value as YAML knows it: texts, numbers, `true`, `false`, nothing, lists and mappings of these."""
    if isinstance(value, Undefined):
        value._fail_with_undefined_error()
    if isinstance(value, str):
        return _short(value)
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        if abs(value) > MAX_NUMBER:
            raise ExpressionError(Code.TOO_BIG, "a number is too big")
        return value
    if depth >= MAX_DEPTH:
        raise ExpressionError(Code.TOO_BIG, f"a value has more than {MAX_DEPTH} levels")
    if isinstance(value, dict):
        if not all(isinstance(key, str) and not is_secret(key) for key in value):
            raise ExpressionError(Code.TEMPLATE_FORBIDDEN, "a key must be text")
        return {str(key): _plain(item, depth + 1) for key, item in _few(value.items())}
    if isinstance(value, list | tuple | set | Iterator | KeysView | ValuesView | ItemsView):
        return [_plain(item, depth + 1) for item in _few(value)]
    if isinstance(value, _Function):
        repr(value)
    raise ExpressionError(Code.TEMPLATE_FORBIDDEN, "this is not a value that a file can hold", NAMES_HINT)


def _few(items: Iterable[Value]) -> list[Value]:
    found = list(islice(items, MAX_ITEMS + 1))
    if len(found) > MAX_ITEMS:
        raise ExpressionError(Code.TOO_BIG, f"a list has more than {MAX_ITEMS:,} items")
    return found


def _short(text: str) -> str:
    if len(text) > MAX_TEXT:
        raise ExpressionError(Code.TOO_BIG, f"a text has at most {MAX_TEXT:,} characters once it is worked out")
    if not text.isascii() and _SURROGATE.search(text):
        raise ExpressionError(Code.TEMPLATE_SYNTAX, "the expression gives half a character (a surrogate)")
    return text


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


def _range(*numbers: int) -> list[int]:
    """Python's range as a list, at most MAX_ITEMS long."""
    return _few(range(*numbers))


def _small(function: Callable[..., Value]) -> Callable[..., Value]:
    """A filter that refuses to make much of little."""

    @wraps(function)
    def guarded(*args: Value, **named: Value) -> Value:
        _require_small(*args, *named.values())
        return function(*args, **named)

    return guarded


def _require_small(*values: Value) -> None:
    product = 1
    for value in values:
        if isinstance(value, str | list | tuple | dict):
            product *= max(len(value), 1)
    if product > _MAX_PRODUCT:
        raise ExpressionError(Code.TOO_BIG, "the value would grow too big")


SANDBOX = _Sandbox()
