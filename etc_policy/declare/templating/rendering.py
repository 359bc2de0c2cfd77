"""Carries out the templates of a YAML text before it is parsed.

Statements (`for`, `if`, `set`, `macro`) make text. What an expression gives never becomes YAML by itself: a placeholder
stands for it until the YAML is parsed, so a value can neither break nor add to the file's structure, keeps its type, and an
expression that fails matters only where its value is used (not in a comment).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from jinja2 import Undefined
from jinja2.runtime import Context as JinjaContext
from jinja2.runtime import Macro
from jinja2.utils import Cycler, Joiner, Namespace, missing

from etc_policy.declare.secrets import EnvText
from etc_policy.declare.suggestions import did_you_mean
from etc_policy.declare.templating.context import Context
from etc_policy.declare.templating.expansion import DRAWN, Expansion
from etc_policy.declare.templating.parser import unified
from etc_policy.declare.templating.problems import (
    ALLOWED_HINT,
    Exhausted,
    TemplateProblem,
    forbidden,
    problem_of,
    unknown,
    wrong,
)
from etc_policy.declare.templating.program import File
from etc_policy.declare.templating.sandbox import FUNCTIONS, SANDBOX, Function
from etc_policy.declare.templating.values import (
    Missing,
    Piece,
    Value,
    join_texts,
    key_of,
    pieces_of,
    require_present,
    shown,
    survey,
)

MAX_CALLS = 20
_NOT_GIVEN = object()

_Any = TypeVar("_Any")


def expand(source: str, context: Context) -> Expansion:
    """The text with its templates carried out; every fault is in the result, none is raised."""
    source = unified(source)
    expansion = Expansion(source, os.urandom(DRAWN))
    with context.budget:
        rendering: Rendering | None = None
        try:
            context.budget.require_time()
            file = File(source)
            for offset, problem in file.problems:
                expansion.record(offset, problem)
            context.budget.require_time()
            rendering = Rendering(context, file, expansion)
            for piece in rendering.run():
                expansion.add(piece)
        except Exception as error:
            offset = file.offsets[rendering.tag] if rendering is not None and file.offsets else 0
            expansion.record(offset, problem_of(error))
    return expansion


class Rendering(JinjaContext):
    """Where a program runs, as Jinja's context: what its code calls, and what it reaches. `tag` is the one that it is at."""

    def __init__(self, context: Context, file: File, expansion: Expansion, caller: Rendering | None = None) -> None:
        super().__init__(SANDBOX, {}, None, {})
        self.texts, self.tag = file.texts, 0
        self._context, self._file, self._expansion = context, file, expansion
        self._budget = context.budget
        self._is_macro_file, self._depth = caller is not None, 0
        self._macro_files: dict[int, Mapping[str, Value]] = caller._macro_files if caller else {}

    def run(self) -> Iterator[Piece]:
        """The program's pieces; the names that it sets are there once they are taken."""
        return self._file.program.root(self) if self._file.program.root else iter(())

    def resolve_or_missing(self, key: str) -> Value:
        """What a name means."""
        context = self._context
        if key in self.vars:
            return self.vars[key]
        if key in ("var", "env_var"):
            return Function(key, self._var if key == "var" else self._env_var, given=True)
        if key == "target":
            self._expansion.asks_target = True
            if context.target is not None:
                return context.target
        if key in context.macros:
            return self._macro(key, context.macros[key].file)
        return SANDBOX.globals.get(key, missing)

    def _macro(self, name: str, file: File) -> Value:
        if id(file) not in self._macro_files:
            rendering = Rendering(self._context, file, self._expansion, self)
            self._macro_files[id(file)] = rendering.vars
            for _ in rendering.run():
                pass
        return self._macro_files[id(file)].get(name, missing)

    def piece(self, make: Callable[[], Value], tag: int, _names: int) -> Piece:
        """What an expression gives, or the problem that there is instead."""
        return Piece(self._attempt(lambda: self._final(make()), tag), self._file.offsets[tag])

    def unreadable(self, tag: int, problem: TemplateProblem) -> Piece:
        """An expression that cannot be read."""
        return Piece(problem, self._file.offsets[tag])

    def rounds(self, make: Callable[[], Value], tag: int, names: int) -> Value:
        """The list that a loop goes through; each step is counted."""
        return self._recorded(lambda: self._listed(make(), names), tag, lambda _: [])

    def holds(self, make: Callable[[], Value], tag: int, _names: int) -> Value:
        """Whether a condition holds; one that fails does not."""
        return self._recorded(lambda: bool(make()), tag, lambda _: False)

    def assigned(self, make: Callable[[], Value], tag: int, names: int) -> Value:
        """The value of a `set`; where it fails, each use of the name fails."""

        def lost(problem: TemplateProblem) -> Value:
            found = Missing(exc=problem.again)
            return [found] * names if names else found

        return self._recorded(lambda: self._unpacked(make(), names) if names else make(), tag, lost)

    def joined(self, *values: Value) -> str:
        """Texts in a row."""
        return self.measured(join_texts(values))

    def listed(self, *items: Value) -> list[Value]:
        """A list of items."""
        return self.measured(list(items))

    def mapped(self, *parts: Value) -> dict[str, Value]:
        """A mapping of keys and values in turn."""
        return self.measured({key_of(key): value for key, value in zip(parts[::2], parts[1::2], strict=True)})

    def measured(self, value: _Any) -> _Any:
        """A value that was made, if it is within bounds."""
        if not isinstance(value, bool | Namespace | Cycler | Joiner | None):
            found = survey(value)
            self._budget.spend(found.nodes // 10 + found.characters // 100)
        return value

    def called(self, macro: Macro, args: tuple[Value, ...], named: Mapping[str, Value]) -> Value:
        """What a macro gives."""
        self._budget.spend(3)
        if self._budget.calls >= MAX_CALLS:
            raise Exhausted(f"the macro `{macro.name}` calls itself too deeply", "end it by a condition")
        self._budget.calls += 1
        try:
            return macro(*args, **named)
        except TypeError as error:
            hint = f"it takes {', '.join(macro.arguments) or 'nothing'}"
            raise wrong(str(error).replace("'", "`"), hint) from None
        finally:
            self._budget.calls -= 1

    def no_function(self, value: Value) -> TemplateProblem:
        """Something is called that cannot be."""
        problem = forbidden("only `var`, `env_var`, `range` and macros can be called")
        if isinstance(value, Undefined) and value._undefined_obj is missing:
            problem.hint = self._hint(str(value._undefined_name))
        return problem

    def _attempt(self, make: Callable[[], Value], tag: int) -> Value:
        """What `make` gives, or the problem that it raised."""
        if not self._depth:
            self.tag = tag
        self._depth += 1
        try:
            self._budget.spend(1)
            value = make()
            if pieces_of(value) is None:
                require_present(value)
        except Exhausted:
            raise
        except Exception as error:
            problem = problem_of(error)
            if problem.name is not None:
                problem.hint = self._hint(problem.name)
            return problem.again()  # without the frames that an exception keeps
        finally:
            self._depth -= 1
        return value

    def _recorded(self, make: Callable[[], Value], tag: int, lost: Callable[[TemplateProblem], Value]) -> Value:
        """What `make` gives to a statement; a problem is recorded, and something else is there. In a macro its call fails."""
        found = self._attempt(make, tag)
        if not isinstance(found, TemplateProblem):
            return found
        if self._depth or self._is_macro_file:
            raise found
        if not found.reported:
            found.reported = True
            self._expansion.record(self._file.offsets[tag], found)
        return lost(found)

    def _final(self, value: Value) -> Value:
        """A value that is put into the file."""
        pieces = pieces_of(value)
        if pieces is not None:
            self._budget.spend(len(pieces))
        else:
            for lost in survey(value).missing:
                lost._fail_with_undefined_error()
        return value

    def _listed(self, value: Value, names: int) -> list[Value]:
        require_present(value)
        value = list(value) if isinstance(value, dict) else value
        if not isinstance(value, list | tuple):
            kind = "text" if isinstance(value, str) else "no list"
            message = f"`for` goes through a list, this is {kind}"
            raise wrong(message, "write {% for name in var('list') %}")
        self._budget.spend(len(value))
        return [self._unpacked(item, names) for item in value] if names else list(value)

    def _unpacked(self, value: Value, names: int) -> Value:
        require_present(value)
        if not isinstance(value, list | tuple) or len(value) != names:
            message = f"there are {names} names, which the value does not fill"
            raise wrong(message, "give a list with an item for each name")
        return value

    def _hint(self, name: str) -> str:
        """What to write in place of a name that has no value."""
        if name in self._context.variables:
            return f"write var('{name}')"
        known = {*self._file.program.names, *FUNCTIONS, *self._context.macros, "target"}
        return did_you_mean(name, sorted(known - {name})) or ALLOWED_HINT

    def _var(self, name: Value, default: Value = _NOT_GIVEN) -> Value:
        if isinstance(name, str):
            self._context.known_variables.add(name)
        hint = "set it under `vars:` in this file or in etc_project.yml"
        return _looked_up("variable", self._context.variables, name, default, hint)

    def _env_var(self, name: Value, default: Value = _NOT_GIVEN) -> Value:
        known = self._context.environment
        if isinstance(name, str) and name in known:
            return EnvText.of(name, known[name])
        hint = "export it, or give a default: env_var('NAME', 'default')"
        return _looked_up("environment variable", {}, name, default, hint)


def _looked_up(kind: str, values: Mapping[str, Value], name: Value, default: Value, hint: str) -> Value:
    if isinstance(name, str) and name in values:
        return values[name]
    if default is not _NOT_GIVEN:
        return default

    def problem() -> TemplateProblem:
        near = did_you_mean(name, values) if isinstance(name, str) else None
        return unknown(f"the {kind} {shown(name)} has no value", near or hint)

    return Missing(exc=problem)
