"""Every error this package raises on purpose.

EtcError
├── PolicyError      the project's files are wrong          exit 1, carries Issues
├── TableError       the table is not what we can work on   exit 3, or 1 where the policy does not fit it
├── EngineError      Spark, Hudi or IO failed               exit 3
├── RetryableError   another run may succeed                exit 4
├── StalePlanError   the plan does not fit any more         exit 4, with a new plan
│   └── OvertakenError   it did while its plan was executed
├── UsageError       the command line is wrong              exit 64
├── VerdictError     a verification did not pass            exit 1 or 3
└── SeveralErrors    one per table                          the exit code that says most
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from traceback import clear_frames
from typing import Any, TypeVar

from etc_policy.errors.codes import WRONG_POLICY, Code
from etc_policy.errors.plain_text import one_line, unseen_as_blanks, without_passwords

#: Characters of a line that are shown.
_EXCERPT = 100
_WORD = re.compile(r"[\w.+-]+")
_T = TypeVar("_T")


class ExitCode(IntEnum):
    """Process exit codes; CI and schedulers read them."""

    DONE = 0
    FAILED = 1
    CHANGES = 2
    ENGINE = 3
    RETRY = 4
    USAGE = 64


@dataclass(frozen=True, slots=True)
class Where:
    """A place in a file: line and column count from 1.

    `excerpt` is the line's text, where it is known; empty where it may hold a secret.
    """

    path: str
    line: int | None = None
    column: int | None = None
    object_name: str | None = None
    excerpt: str | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.path, self.line, self.column) if part is not None)
        return f"{place} (policy `{self.object_name}`)" if self.object_name else place

    def shown(self) -> list[str]:
        """The line with a mark below the place; nothing where the line is not known, or holds a password."""
        if not self.excerpt or self.line is None or self.column is None:
            return []
        if without_passwords(self.excerpt) != self.excerpt:
            return []
        begin = max(0, self.column - 1 - _EXCERPT // 2) if len(self.excerpt) > _EXCERPT else 0
        text = self.excerpt[begin : begin + _EXCERPT].replace("\t", " ")
        number, marked = str(self.line), self.column - 1 - begin
        word = _WORD.match(text, marked)
        carets = "^" * max(1, len(word[0]) if word else 1)
        edge = " " * len(number)
        shown = unseen_as_blanks(text.rstrip())
        return [f"{edge} |", f"{number} | {shown}", f"{edge} | {' ' * marked}{carets}"]


@dataclass(frozen=True, slots=True)
class Issue:
    """One finding: an error or a warning, or what a check says, of which `code` is the name then.

    `level` is `error` or `warning`, of a check also `pass`, `no_target`, `skipped`, or `fail` where it is known that what was
    checked is not so. `details` are more lines about it, `error_code` is that of the error which a check reports.
    """

    code: str
    message: str
    where: Where | None = None
    hint: str | None = None
    level: str = "error"
    policy: str | None = None
    seconds: float | None = None
    details: tuple[str, ...] = ()
    error_code: str | None = None

    def __post_init__(self) -> None:
        """No issue shows a password, whatever it quotes."""
        object.__setattr__(self, "message", without_passwords(self.message))
        object.__setattr__(self, "hint", self.hint and without_passwords(self.hint))

    @property
    def subject(self) -> str:
        """The policy that it is about; else it is about the project."""
        return self.policy or (self.where.object_name if self.where else None) or "project"

    def __str__(self) -> str:
        lines = [f"{self.level}[{self.code}]: {one_line(self.message)}"]
        if self.where is not None:
            lines.append(f"  --> {one_line(str(self.where))}")
            lines += self.where.shown()
        if self.hint is not None:
            lines += ["", f"hint: {one_line(self.hint)}"]
        return "\n".join(lines)


class EtcError(Exception):
    """Base of all errors: a message, a code, and where there is one a place, a hint and the engine's own words.

    `report` is what the verb found and did all the same, in the form that it returns; None for most errors.
    """

    exit_code = ExitCode.ENGINE
    report: object = None

    def __init__(
        self, code: str, message: str, *, where: Where | None = None, hint: str | None = None, cause: str | None = None
    ) -> None:
        self.message, self.hint, self.cause = _writable(message), hint and _writable(hint), cause and _writable(cause)
        super().__init__(self.message)
        self.code, self.where = code, where
        if code in WRONG_POLICY and self.exit_code != ExitCode.USAGE:  # a wrong command line stays one
            self.exit_code = ExitCode.FAILED

    def __str__(self) -> str:
        return f"{self.message}\n{self.cause}" if self.cause else self.message

    @property
    def with_cause(self) -> str:
        """The message with what the system, a store or an engine said first, on one line: for reports, which have no cause."""
        said = (self.cause or "").strip().partition("\n")[0]
        return f"{self.message}: {said}" if said and said not in self.message else self.message

    @property
    def issues(self) -> tuple[Issue, ...]:
        """The error as a list of issues, the form in which errors are printed."""
        return (Issue(self.code, self.message, self.where, self.hint),)

    @property
    def hints(self) -> tuple[str, ...]:
        """What to do, of each issue that says it."""
        return tuple(issue.hint for issue in self.issues if issue.hint)

    @property
    def in_full(self) -> str:
        """Each issue with its place and hint, then what a store or an engine said."""
        return "\n".join(map(str, filter(None, (*self.issues, self.cause))))


def _writable(text: str) -> str:
    """The text without passwords, and with lone surrogates (of names of files) escaped, which no report can be written with."""
    text = without_passwords(text)
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def is_panic(error: BaseException) -> bool:
    """Whether a library in Rust has failed, which raises no `Exception`."""
    return type(error).__name__ == "PanicException"


#: Where Python's own errors keep the whole content that they are about, beside what they are made of.
_CONTENT = {"doc": "", "object": b"", "obj": None}
_MOST_KEPT = 4_000


def let_go(error: BaseException) -> None:
    """Let an error that is kept hold no more of what was read, perhaps all of memory; its stack and words stay."""
    waiting, seen = [error], set[int]()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        clear_frames(one.__traceback__)
        waiting += filter(None, (one.__cause__, one.__context__))
        if isinstance(one, EtcError):
            continue
        one.args = tuple(arg[:_MOST_KEPT] if isinstance(arg, str | bytes | bytearray) else arg for arg in one.args)
        for name in _CONTENT.keys() & dir(one):
            with suppress(AttributeError, TypeError):
                setattr(one, name, "" if isinstance(getattr(one, name), str) else _CONTENT[name])


def first_line(error: Exception) -> str | None:
    """What an engine's exception says first, 500 characters at most; None where it says nothing."""
    lines = str(error).strip().splitlines()
    return lines[0][:500] if lines else None


def install_hint(extra: str) -> str:
    """How an extra gets into this environment: from where etc came, which may be a wheel's file, a clone, a URL or an index."""
    from urllib.parse import unquote, urlsplit

    came, where = _direct_url(), requirement_of(extra)
    if str(came.get("url")).startswith("file:") and "vcs_info" not in came:
        where = f"{unquote(urlsplit(came['url']).path)}[{extra}]"
    editable = "--editable " if came.get("dir_info", {}).get("editable") else ""
    return f'run `{sys.executable} -m pip install {editable}"{where}"`'


def requirement_of(extra: str, version: str = "") -> str:
    """The requirement by which pip finds etc where it was installed from: a file, a URL, a commit, or `version` in an index."""
    came = _direct_url()
    url, vcs = came.get("url"), came.get("vcs_info")
    if url is None:
        return f"etc-policy[{extra}]{version}"
    return (
        f"etc-policy[{extra}] @ {url}"
        if vcs is None
        else f"etc-policy[{extra}] @ {vcs['vcs']}+{url}@{vcs['commit_id']}"
    )


def _direct_url() -> dict[str, Any]:
    """What pip has noted of where etc came from; empty for an index."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        return dict(json.loads(distribution("etc-policy").read_text("direct_url.json") or "{}"))
    except PackageNotFoundError:
        return {}


class PolicyError(EtcError):
    """The project's files are wrong; carries every issue found, not only the first."""

    exit_code = ExitCode.FAILED

    def __init__(self, issues: Iterable[Issue]) -> None:
        found = tuple(issues)
        super().__init__(found[0].code, "\n\n".join(str(issue) for issue in found))
        self._issues = found

    @property
    def issues(self) -> tuple[Issue, ...]:
        """All issues in the order of their places."""
        return self._issues


class TableError(EtcError):
    """The table is missing, of a kind we do not handle, or unreadable."""


class EngineError(EtcError):
    """Spark, Hudi or the file system failed while doing what was asked."""


class RetryableError(EtcError):
    """Something else holds the table now; the same command may succeed later."""

    exit_code = ExitCode.RETRY


#: What helps where a plan is stale: a retry that makes no new one does not.
PLAN_AGAIN = (
    "nothing was compacted. A retry with the same plan does not help: `etc plan` makes a new one, and so does `etc apply` "
    "without a plan"
)


class StalePlanError(RetryableError):
    """The plan does not fit any more, so it was not carried out: another run may succeed, with a new plan.

    `was_withdrawn`: it was on the timeline, and has been taken back.
    """

    was_withdrawn = False


class OvertakenError(StalePlanError):
    """What happened since the plan was made forbids to publish or to commit it: whoever has published it takes it back.

    `groups` are the (partition, file id) of which deletes were being compacted while writers added to them; empty where
    something else forbids it: a rollback, another schema, changed files.
    """

    def __init__(self, code: str, message: str, groups: frozenset[tuple[str, str]], *, hint: str | None = None) -> None:
        super().__init__(code, message, hint=hint)
        self.groups = groups


class UsageError(EtcError):
    """The command line cannot be carried out as given."""

    exit_code = ExitCode.USAGE


class VerdictError(EtcError):
    """A verification that did not pass, or could not be carried out; the report of the run says the same."""


class SeveralErrors(EtcError):  # noqa: N818 - a group, like ExceptionGroup
    """The errors of several tables, gathered while the other tables went on.

    What all have in common (code, place, hint) is the group's own; of different codes it is `SEVERAL`, and the text has each.
    """

    def __init__(self, errors: Iterable[EtcError], exit_code: ExitCode, report: object = None) -> None:
        self.errors = tuple(errors)
        codes = {error.code for error in self.errors}
        texts = [error.message if len(codes) == 1 else f"{error.code}: {error.message}" for error in self.errors]
        causes = [error.cause for error in self.errors if error.cause]
        super().__init__(
            codes.pop() if len(codes) == 1 else Code.SEVERAL,
            "; ".join(texts),
            where=_common(error.where for error in self.errors),
            hint=_common(error.hint for error in self.errors),
            cause="\n".join(causes) or None,
        )
        self.exit_code, self.report = exit_code, report

    @property
    def issues(self) -> tuple[Issue, ...]:
        """The issues of all errors in the order of the tables."""
        return tuple(issue for error in self.errors for issue in error.issues)

    @property
    def in_full(self) -> str:
        """Each error in full, in that order."""
        return "\n".join(error.in_full for error in self.errors)


def worst(codes: Iterable[ExitCode], errors: Iterable[EtcError] = (), unwritten: Iterable[EtcError] = ()) -> ExitCode:
    """The exit code that says most of codes and errors: an engine's failure, then a failed verdict, then a retry.

    `unwritten` are the errors of files that could not be written: a failed verdict says more than these.
    """
    found = {*codes, *(error.exit_code for error in errors)}
    if ExitCode.FAILED not in found:
        found |= {error.exit_code for error in unwritten}
    order = (ExitCode.ENGINE, ExitCode.FAILED, ExitCode.RETRY, ExitCode.CHANGES, ExitCode.USAGE)
    return next((code for code in order if code in found), ExitCode.DONE)


def _common(values: Iterable[_T]) -> _T | None:
    """The value that all are, None where they differ."""
    found = set(values)
    return found.pop() if len(found) == 1 else None
