"""What can be wrong in a template, as exceptions that become issues; said without Jinja, which few projects need."""

from __future__ import annotations

import re

from etc_policy.codes.registry import Code
from etc_policy.errors import Issue, Where

ALLOWED_HINT = "a template may use `var`, `env_var`, `target`, macros, and Jinja's own filters and tests"


class TemplateProblem(Exception):  # noqa: N818 - carried into an Issue, never shown as an exception
    """Something in a template that cannot be carried out: code, message and hint of the issue it becomes.

    `place` is line and column in the file, where they are known; `reported` says that an issue was made of it already;
    `beside` are those of other expressions in the same value; `name` is one that is not known, to which whoever knows the
    names adds a hint.
    """

    def __init__(self, code: Code, message: str, hint: str | None = None, place: tuple[int, int] | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.place = code, message, hint, place
        self.reported = False
        self.beside: tuple[TemplateProblem, ...] = ()
        self.name: str | None = None

    def issue(self, where: str | Where) -> Issue:
        """The issue that it becomes at a place, or in a file by its path."""
        place = Where(where, *(self.place or ())) if isinstance(where, str) else where
        return Issue(self.code, self.message, place, self.hint)

    def again(self, place: tuple[int, int] | None = None) -> TemplateProblem:
        """The same problem at another place, without the frames that an exception keeps."""
        found = TemplateProblem(self.code, self.message, self.hint, place or self.place)
        found.reported = self.reported
        return found


class Exhausted(TemplateProblem):
    """The project's steps or seconds are used up; no further expression is worked out."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(Code.TOO_BIG, message, hint)


def too_big(message: str, hint: str | None = None) -> TemplateProblem:
    """A bound is exceeded."""
    return TemplateProblem(Code.TOO_BIG, message, hint)


def wrong(message: str, hint: str | None = None) -> TemplateProblem:
    """Something that cannot be read or worked out."""
    return TemplateProblem(Code.TEMPLATE_SYNTAX, message, hint)


def unknown(message: str, hint: str | None = None) -> TemplateProblem:
    """Something that has no value."""
    return TemplateProblem(Code.UNKNOWN_VARIABLE, message, hint)


def forbidden(message: str, hint: str | None = ALLOWED_HINT) -> TemplateProblem:
    """Something that templates may not do."""
    return TemplateProblem(Code.TEMPLATE_FORBIDDEN, message, hint)


def problem_of(error: Exception, what: str = "the template", *, secret: bool = False) -> TemplateProblem:
    """The problem that an exception stands for; with `secret` its message might hold a value of the environment."""
    from jinja2 import UndefinedError

    if isinstance(error, TemplateProblem):
        return error
    if isinstance(error, UndefinedError):
        return unknown(re.sub(r" on line \d+", "", str(error)).rstrip("."))
    if isinstance(error, RecursionError):
        return too_big("the template is nested too deeply, or calls itself too deeply")
    if isinstance(error, MemoryError):
        return too_big("the template takes too much memory")
    said = "it does not work with this value of the environment" if secret else str(error)[:200]
    return wrong(f"{what} fails: {said}", ALLOWED_HINT)
