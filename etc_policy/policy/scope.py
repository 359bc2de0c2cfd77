"""What the expressions of a project's files can reach, and what may go wrong with one. Jinja itself is imported by `render`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from etc_policy.errors import UsageError
from etc_policy.errors.codes import Code
from etc_policy.policy.secrets import has_env_value
from etc_policy.policy.suggestions import did_you_mean

#: Steps that all loops of a project have together.
MAX_STEPS = 1_000_000

Value: TypeAlias = Any


class ExpressionError(Exception):
    """An expression that gives no value. `offset` is its place in its text. One that `is_quiet` follows from another fault.

    One that `is_safe` shows no value, whatever the expression works with.
    """

    def __init__(
        self, code: Code, message: str, hint: str | None = None, *, is_quiet: bool = False, is_safe: bool = False
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.is_quiet, self.is_safe = code, message, hint, is_quiet, is_safe
        self.offset = 0


def _steps() -> Iterator[None]:
    for _ in range(MAX_STEPS):
        yield
    message = f"the loops and values of the project's files take more than {MAX_STEPS:,} steps"
    raise ExpressionError(Code.TOO_BIG, message, "make loops smaller, or split the project")


@dataclass(frozen=True, slots=True)
class Scope:
    """What expressions can reach: variables, the environment, the target, and the item of `for_each`.

    `given` are variables from the command line, which win over `variables`; `hidden` are the names of those that hold values
    of the environment. A `target` of None is not known yet: what asks for it has no value. `each` is the item, as a tuple of
    one. `known_variables` gathers the names that files declare and expressions ask for; `steps` are left for loops.
    """

    environment: Mapping[str, str]
    given: Mapping[str, Value] = field(default_factory=dict)
    variables: Mapping[str, Value] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()
    target: Mapping[str, Value] | None = None
    each: tuple[Value, ...] = ()
    known_variables: set[str] = field(default_factory=set)
    steps: Iterator[None] = field(default_factory=_steps)

    def with_variables(self, variables: Mapping[str, Value]) -> Scope:
        """The same with further variables, which win over those that are there."""
        hidden = {name for name, value in variables.items() if has_env_value(value)}
        rest = self.hidden - variables.keys()
        return replace(self, variables={**self.variables, **variables}, hidden=rest | hidden)

    def with_each(self, item: Value) -> Scope:
        """The same for one item of `for_each`."""
        hidden = {"each"} if has_env_value(item) else set()
        return replace(self, each=(item,), hidden=self.hidden - {"each"} | hidden)


_TAG = re.compile(r"\{[{%].*?[%}]\}", re.DOTALL)
#: A use of `var`, with its name where that is written out.
_USE = re.compile(r"\bvar\b(?:\s*\(\s*(?P<quote>['\"])(?P<name>[^'\"]*)(?P=quote)\s*[,)])?")


def require_known(given: Iterable[str], known: Collection[str], texts: Iterable[str]) -> None:
    """Return if each given variable is `known` (declared, or asked for) or named in the files' `texts`.

    Templates that a condition leaves out count too; where one works a name out, nobody can say what it is.

    Raises:
        UsageError: some variables have no effect; names all of them.

    """
    unknown = [name for name in given if name not in known]
    if not unknown:
        return
    named = set(_names(texts))
    if None in named:
        return
    candidates = sorted({*known, *(name for name in named if name)})
    lost = [name for name in unknown if name not in candidates]
    if lost:
        shown = ", ".join(f"`{name[:60]}`" for name in lost)
        others = f"the variables are {', '.join(candidates)[:500]}" if candidates else "the files have no variables"
        near = [hint for name in lost if (hint := did_you_mean(name, candidates))]
        message = f"no file declares or uses the variable {shown}"
        raise UsageError(Code.USAGE, message, hint=" ".join(near) or others)


def _names(texts: Iterable[str]) -> Iterator[str | None]:
    """The names that templates give to `var`; None where one is not written out."""
    for text in texts:
        for tag in _TAG.findall(text):
            for use in _USE.finditer(tag):
                yield use["name"]


def without_blank(name: str) -> str | None:
    """A hint for a key such as `lake:/prod`, which YAML reads as a name without a value; None for other keys."""
    key, colon, value = name.partition(":")
    return f"put a blank after the colon: `{key[:60]}: {value[:60]}`" if key and colon and value else None
