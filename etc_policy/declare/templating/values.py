"""Values of templates: those of YAML, their bounds, and which of them came from the environment."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from jinja2 import StrictUndefined, Undefined
from jinja2.utils import missing

from etc_policy.declare.secrets import HIDDEN, EnvNumber, EnvText, is_secret
from etc_policy.declare.suggestions import did_you_mean
from etc_policy.declare.templating.problems import ALLOWED_HINT, TemplateProblem, forbidden, too_big, unknown, wrong

MAX_TEXT = 10_000
MAX_ITEMS = 10_000
MAX_NUMBER = 10**15
MAX_DEPTH = 32
MAX_NODES = 200_000
MAX_CHARACTERS = 2_000_000

Value: TypeAlias = Any
_Raised: TypeAlias = Callable[[], TemplateProblem] | None

_SURROGATE = re.compile("[\ud800-\udfff]")


class Missing(StrictUndefined):
    """A name, key or variable without a value: every use but `default` and `is defined` raises its problem."""

    __slots__ = ()

    def __init__(self, hint: str | None = None, obj: Value = missing, name: Value = None, exc: _Raised = None) -> None:
        """Jinja's own arguments, but that `exc` makes the problem."""
        super().__init__(hint, obj, name, lambda _message: (exc or self.problem)())  # type: ignore[arg-type]

    def problem(self) -> TemplateProblem:
        """What a use of the value raises."""
        name, inner = self._undefined_name, self._undefined_obj
        if self._undefined_hint:
            return unknown(re.sub(r" on line \d+", "", self._undefined_hint.rstrip(".")))
        if inner is missing:
            problem = unknown(f"`{str(name)[:60]}` is not known here", ALLOWED_HINT)
            problem.name = str(name)
            return problem
        if isinstance(inner, Mapping):
            near = did_you_mean(name, inner) if isinstance(name, str) and not is_secret(name) else None
            hint = near or f"the keys here are {', '.join(f'`{key}`' for key in list(inner)[:10])}"
            return unknown(f"there is no key {shown(name)} here", hint)
        kind = "text" if isinstance(inner, str) else "list"
        items = "1 item" if len(inner) == 1 else f"{len(inner)} items"
        return unknown(f"the {kind} has {items}, there is no item {shown(name)}")


def require_present(value: Value) -> None:
    """Return if there is a value; one that is missing raises its problem."""
    if isinstance(value, Undefined):
        value._fail_with_undefined_error()


class Piece(NamedTuple):
    """A part of what a template gives: text of a file (`literal`), or a value; `offset` is its place in the source."""

    value: Value
    offset: int
    literal: bool = False


class Fragment:
    """What a macro gives: a value that is still known by its pieces."""

    pieces: tuple[Piece, ...] = ()


class Text(Fragment, str):
    """A text of files, and of values that may be shown."""


class _Secret(Fragment, EnvText):
    """A text with a value of the environment in it."""


class _Unusable(Fragment, Missing):
    """What is not text: it can be put into the file, but not be worked with."""


def fragment(pieces: Iterable[Piece]) -> Fragment:
    """The pieces as one value."""
    found = tuple(part for piece in pieces for part in (pieces_of(piece.value) or (piece,)))
    made: Fragment
    try:
        lost = next((piece.value for piece in found if isinstance(piece.value, TemplateProblem)), None)
        if lost is not None:
            raise lost.again()
        text = join_texts(piece.value for piece in found)
        made = _Secret.made(text, text.reference) if isinstance(text, EnvText) else Text(text)
    except TemplateProblem as problem:
        made = _Unusable(exc=problem.again().again)
    made.pieces = found
    return made


def pieces_of(value: Value) -> tuple[Piece, ...] | None:
    """The pieces of what a macro gave, None for any other value."""
    return value.pieces if isinstance(value, Fragment) else None


@dataclass(slots=True)
class Survey:
    """What there is in a value: how much, a value of the environment, something that is missing."""

    nodes: int = 0
    characters: int = 0
    secret: bool = False
    missing: list[Undefined] = field(default_factory=list)


def survey(*values: Value) -> Survey:
    """Look through values in depth; what is too big, too deep, or not of YAML raises a problem."""
    found = Survey()
    rest: list[tuple[Value, int]] = [(value, 0) for value in values]
    while rest:
        value, depth = rest.pop()
        found.nodes += 1
        if isinstance(value, str):
            _require_text(value)
            found.characters += len(value)
            found.secret |= isinstance(value, EnvText)
        elif isinstance(value, Undefined):
            found.missing.append(value)
        elif isinstance(value, int | float):
            if not -MAX_NUMBER < value < MAX_NUMBER:
                raise too_big("a number is too big")
            found.secret |= isinstance(value, EnvNumber)
        elif value is not None:
            rest += [(item, depth + 1) for item in _items(value)]
            if depth >= MAX_DEPTH:
                raise too_big(f"a value has more than {MAX_DEPTH} levels")
        if found.nodes + len(rest) > MAX_NODES or found.characters > MAX_CHARACTERS:
            raise too_big(f"a value has more than {MAX_NODES:,} parts or {MAX_CHARACTERS:,} characters")
    return found


def _require_text(value: str) -> None:
    if len(value) > MAX_TEXT:
        raise too_big(f"the value has {len(value)} characters once rendered, {MAX_TEXT} are allowed")
    if not value.isascii() and _SURROGATE.search(value):
        raise wrong("the template gives half a character (a surrogate)")


def _items(value: Value) -> Iterable[Value]:
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str) or isinstance(key, EnvText):
                raise forbidden("a key must be text, and cannot come from the environment", None)
        items: Sequence[Value] = list(value.values())
    elif isinstance(value, list | tuple):
        items = value
    else:
        name = str(getattr(value, "name", ""))[:60]
        raise forbidden(
            f"`{name}` is a function; call it: {name}('...')" if name else "this is not a value that a file can hold"
        )
    if len(items) > MAX_ITEMS:
        raise too_big(f"a list has more than {MAX_ITEMS} items")
    return items


def marked(value: Value) -> Value:
    """The value, known to come from the environment; `true`, `false` and nothing bear no mark."""
    if isinstance(value, EnvText | EnvNumber | bool | None):
        return value
    if isinstance(value, str):
        return EnvText.made(value, None)
    if isinstance(value, int):
        return EnvNumber(value)
    if isinstance(value, float):
        raise forbidden("arithmetic with a value of the environment is for whole numbers", None)
    if isinstance(value, dict):
        return {key: marked(item) for key, item in value.items()}
    return [marked(item) for item in value] if isinstance(value, list | tuple) else value


def join_texts(values: Iterable[Value]) -> str:
    """The values as one text, which still says what of it came from the environment."""
    texts = [text_of(value) for value in values]
    total = sum(map(len, texts))
    if total > MAX_TEXT:
        raise too_big(f"the value has {total} characters once rendered, {MAX_TEXT} are allowed")
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
    require_present(value)
    if value is None:
        raise wrong("the template gives no value (none)")
    survey(value)
    kind = "a mapping" if isinstance(value, Mapping) else "a list"
    raise wrong(f"{kind} cannot be a part of a text", "use one of its items")


def key_of(value: Value) -> str:
    """A key of a mapping; keys are shown in messages and files, so none comes from the environment."""
    key = text_of(value)
    if isinstance(key, EnvText):
        raise forbidden("a key cannot come from the environment", None)
    return key


def shown(value: Value) -> str:
    """The value in a message."""
    try:
        found = survey(value)
    except TemplateProblem:
        return "(something else)"
    return f"({HIDDEN})" if found.secret else "(a missing value)" if found.missing else f"`{str(value)[:60]}`"
