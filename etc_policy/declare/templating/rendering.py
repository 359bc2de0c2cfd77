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

from etc_policy.codes.registry import Code
from etc_policy.declare.secrets import EnvText
from etc_policy.declare.suggestions import did_you_mean
from etc_policy.declare.templating.context import Context
from etc_policy.declare.templating.expansion import DRAWN, Expansion
from etc_policy.declare.templating.problems import (
    ALLOWED_HINT,
    Exhausted,
    TemplateProblem,
    UnknownName,
    forbidden,
    problem_of,
)
from etc_policy.declare.templating.program import File, read_file
from etc_policy.declare.templating.sandbox import FUNCTIONS, SANDBOX, Function
from etc_policy.declare.templating.shape import unified
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
            file, problems = read_file(source)
            for offset, problem in problems:
                expansion.record(offset, problem)
            context.budget.require_time()
            rendering = Rendering(context, file, expansion)
            for piece in rendering.run()[0]:
                expansion.add(piece)
        except Exception as error:
            offset = file.shape.offsets[rendering.tag] if rendering is not None and file.shape.offsets else 0
            expansion.record(offset, problem_of(error))
    return expansion


class _Scope(JinjaContext):
    """Jinja's context; names are looked up by the rendering."""

    rendering: Rendering

    def resolve_or_missing(self, key: str) -> Value:
        """The value of a name that the template does not set."""
        return self.vars[key] if key in self.vars else self.rendering.named(key)


class Rendering:
    """Where a program runs: what its code calls, and what it reaches. `tag` is the one that it is at."""

    def __init__(self, context: Context, file: File, expansion: Expansion, caller: Rendering | None = None) -> None:
        self.texts, self.tag = file.shape.texts, 0
        self._context, self._file, self._expansion = context, file, expansion
        self._budget = context.budget
        self._is_macro_file, self._depth = caller is not None, 0
        self._macro_files: dict[int, Mapping[str, Value]] = caller._macro_files if caller else {}
        self._functions = {
            "var": Function("var", self._var, given=True),
            "env_var": Function("env_var", self._env_var, given=True),
        }

    def run(self) -> tuple[Iterator[Piece], Mapping[str, Value]]:
        """The program's pieces, and the names that it sets while they are taken."""
        scope = _Scope(SANDBOX, {}, None, {})
        scope.rendering = self
        return self._file.program.root(scope) if self._file.program.root else iter(()), scope.vars

    def named(self, key: str) -> Value:
        """What a name means that the template does not set."""
        context = self._context
        if key in self._functions:
            return self._functions[key]
        if key == "target":
            self._expansion.asks_target = True
            if context.target is not None:
                return context.target
        if key in context.macros:
            return self._macro(key, context.macros[key].file)
        return SANDBOX.globals.get(key, missing)

    def _macro(self, name: str, file: File) -> Value:
        if id(file) not in self._macro_files:
            pieces, names = Rendering(self._context, file, self._expansion, self).run()
            self._macro_files[id(file)] = names
            for _ in pieces:
                pass
        return self._macro_files[id(file)].get(name, missing)

    def piece(self, make: Callable[[], Value], tag: int) -> Piece:
        """What an expression gives, or the problem that there is instead."""
        value = self._attempt(lambda: self._final(make()), tag)
        return Piece(value, self._file.shape.offsets[tag])

    def unreadable(self, tag: int, problem: TemplateProblem) -> Piece:
        """An expression that cannot be read."""
        return Piece(problem, self._file.shape.offsets[tag])

    def rounds(self, make: Callable[[], Value], tag: int, names: int) -> list[Value]:
        """What a loop goes through; each step is counted."""
        found = self._attempt(lambda: self._listed(make(), names), tag)
        return [] if self._failed(found, tag) else found

    def holds(self, make: Callable[[], Value], tag: int) -> bool:
        """Whether a condition holds; one that fails does not."""
        found = self._attempt(lambda: bool(make()), tag)
        return not self._failed(found, tag) and found

    def assigned(self, make: Callable[[], Value], tag: int, names: int) -> Value:
        """The value of a `set`; where it fails, each use of the name fails."""
        found = self._attempt(lambda: self._unpacked(make(), names) if names else make(), tag)
        if self._failed(found, tag):
            lost = Missing(exc=found.again)
            return [lost] * names if names else lost
        return found

    def joined(self, *values: Value) -> str:
        """Texts in a row."""
        return self.measured(join_texts(values))

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
            raise Exhausted(Code.TOO_BIG, f"the macro `{macro.name}` calls itself too deeply", "end it by a condition")
        self._budget.calls += 1
        try:
            return macro(*args, **named)
        except TypeError as error:
            hint = f"it takes {', '.join(macro.arguments) or 'nothing'}"
            raise TemplateProblem(Code.TEMPLATE_SYNTAX, str(error).replace("'", "`"), hint) from None
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
            if isinstance(problem, UnknownName):
                problem.hint = self._hint(problem.name)
            return problem.again()  # without the frames that an exception keeps
        finally:
            self._depth -= 1
        return value

    def _failed(self, found: Value, tag: int) -> bool:
        """Whether a statement failed, which is then recorded; in a macro its call fails."""
        if not isinstance(found, TemplateProblem):
            return False
        if self._depth or self._is_macro_file:
            raise found
        if not found.reported:
            found.reported = True
            self._expansion.record(self._file.shape.offsets[tag], found)
        return True

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
            raise TemplateProblem(Code.TEMPLATE_SYNTAX, message, "write {% for name in var('list') %}")
        self._budget.spend(len(value))
        return [self._unpacked(item, names) for item in value] if names else list(value)

    def _unpacked(self, value: Value, names: int) -> Value:
        require_present(value)
        if not isinstance(value, list | tuple) or len(value) != names:
            message = f"there are {names} names, which the value does not fill"
            raise TemplateProblem(Code.TEMPLATE_SYNTAX, message, "give a list with an item for each name")
        return value

    def _hint(self, name: str) -> str:
        """What to write in place of a name that has no value."""
        if name in self._context.variables:
            return f"write var('{name}')"
        known = {*self._file.program.names, *FUNCTIONS, *self._context.macros, "target"}
        return did_you_mean(name, sorted(known - {name})) or ALLOWED_HINT

    def _var(self, name: Value, default: Value = _NOT_GIVEN) -> Value:
        hint = "set it under `vars:` in this file or in etc_project.yml"
        if isinstance(name, str):
            self._context.known_variables.add(name)
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
        return TemplateProblem(Code.UNKNOWN_VARIABLE, f"the {kind} {shown(name)} has no value", near or hint)

    return Missing(exc=problem)
