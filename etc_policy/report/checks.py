"""What a command found as a list of issues, one for each check, and these in the forms that CI systems show (pure)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import singledispatch
from io import BytesIO
from itertools import groupby
from typing import TYPE_CHECKING, Any

from etc_policy.errors import Issue, Where
from etc_policy.errors.plain_text import escaped
from etc_policy.plan.explainer import table_rows
from etc_policy.plan.model import TablePlan
from etc_policy.report.check_titles import subject_of
from etc_policy.report.report import in_part, rests_on_text, verdict_text
from etc_policy.report.results import TableFreshness, TableVerification
from etc_policy.run.results import SyncResult, TableResult
from etc_policy.table.formats import count_of, format_bytes, format_duration, format_time
from etc_policy.verify.catalog import FRESHNESS
from etc_policy.verify.freshness import lag_text
from etc_policy.verify.ports import Verification

if TYPE_CHECKING:
    from junitparser import TestCase

Places = Mapping[str, Where | None]

_FRESHNESS = {"error": "fail", "unknown": "error"}
#: Rows of a plan's text that are the message or the hint of its check.
_SAID_BY_CHECK = ("nothing due", "refused", "hint")
_NOT_DONE = ("refused", "stale", "failed")
_LEVELS = {"fail": "error", "error": "error", "warn": "warning"}
_MARKS = {
    "pass": "✅ pass",
    "warn": "⚠️ warn",
    "fail": "❌ fail",
    "error": "❌ error",
    "no_target": "no target",
    "skipped": "not checked",
}
#: Letters that Markdown or HTML would take for marks.
_ENTITIES = {ord(letter): f"&#{ord(letter)};" for letter in "\\`*_[]<>|#~&!"}
_SHOWN_FIRST = ("error", "fail", "warn", "no_target", "skipped", "pass")
#: Of a check that needs rows where none were read.
_NOT_CHECKED = "needs rows, and none were read"
#: What XML 1.0 cannot hold even when it is escaped.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def checks_of(report: Any, places: Places, *, strict: bool = False) -> tuple[Issue, ...]:
    """An issue for each check of a report, of its table and at the place of its policy; `strict`: a warning fails."""
    return tuple(
        replace(
            check,
            policy=table.policy,
            where=places.get(table.policy),
            level="fail" if strict and check.level == "warn" else check.level,
        )
        for table in report.tables
        for check in _checks(table)
    )


@singledispatch
def _checks(table: object) -> Iterator[Issue]:
    """The checks of a report's entry: of any that can be shown to a CI system."""
    raise TypeError(table)


@_checks.register
def _of_plan(table: TablePlan) -> Iterator[Issue]:
    """An error where it cannot be compacted now."""
    message, level = table.reason or "nothing due", "error" if table.action == "refused" else "pass"
    if table.action == "compact":
        files = sum(len(operation.log_files_compacted) for operation in table.operations)
        read = format_bytes(sum(operation.bytes_read for operation in table.operations))
        slices = count_of(len(table.operations), "file slice")
        message = f"compact {count_of(files, 'log file')} of {slices}, reads {read}"
    hint, details = next(iter(table.hints), None), tuple(_plan_details(table))
    yield Issue("plan", message, hint=hint, level=level, details=details, error_code=table.error_code)


def _plan_details(table: TablePlan) -> Iterator[str]:
    """What the plan's text says of the table besides the check's message and hint."""
    label = ""
    for name, text in table_rows(table):
        label = name or label
        if label not in _SAID_BY_CHECK:
            yield f"{label}: {' '.join(text.split())}"


@_checks.register
def _of_result(table: TableResult) -> Iterator[Issue]:
    """What was done, then each expectation."""
    message = table.reason or table.status.replace("_", " ")
    if table.status in ("compacted", "resumed"):
        message = f"{table.status}, threshold {format_time(table.threshold_ms)}"
    hint, level = next(iter(table.hints), None), "error" if table.status in _NOT_DONE else "pass"
    yield Issue("apply", message, hint=hint, level=level, seconds=table.seconds, error_code=table.error_code)
    if table.verification is not None:
        yield from _of_verification(table.verification)
    if table.sync is not None:
        yield from _of_sync(table.sync)


@_checks.register
def _of_sync(table: SyncResult) -> Iterator[Issue]:
    message = table.message or f"{table.status}: {table.ro_table}"
    level = "error" if table.status == "failed" else "pass"
    yield Issue("sync", message, level=level, error_code=table.error_code)


@_checks.register
def _of_table_verification(table: TableVerification) -> Iterator[Issue]:
    yield from _of_verification(table.verification)


def _of_verification(verification: Verification) -> Iterator[Issue]:
    """What was proved, where that is something, then each expectation; those that were not checked too.

    Of equal ones each has a number, as CI systems merge what has one name.
    """
    if verification.status in ("pass", "warn"):
        details = () if verification.rests_on is None else (rests_on_text(verification.rests_on),)
        yield Issue(
            "verification", f"{verdict_text(verification)}{in_part(verification)}", level="pass", details=details
        )
    seen: Counter[str] = Counter()
    for result in verification.expectations:
        about = subject_of(result)
        name = _numbered(f"{result.expectation} ({about})" if about else result.expectation, seen)
        yield Issue(name, result.message or "", level=result.status, error_code=result.error_code)
    for one in verification.unchecked:
        yield Issue(_numbered(one.expectation, seen), _NOT_CHECKED, level="skipped")
    if verification.unjudged_lag_ms is not None:
        yield Issue(FRESHNESS, lag_text(verification.unjudged_lag_ms), level="no_target")


def _numbered(name: str, seen: Counter[str]) -> str:
    seen[name] += 1
    return f"{name} #{seen[name]}" if seen[name] > 1 else name


@_checks.register
def _of_freshness(table: TableFreshness) -> Iterator[Issue]:
    message = table.reason or ""
    if table.complete_until_ms is not None and table.lag_seconds is not None:
        lag = format_duration(int(table.lag_seconds * 1000))
        proof = f" ({table.complete_until_proof})" if table.complete_until_proof else ""
        message = f"RO is complete until {format_time(table.complete_until_ms)}, {lag} ago{proof}"
    level = _FRESHNESS.get(table.status, table.status)
    yield Issue("freshness", message, level=level, error_code=table.error_code)


def with_errors(checks: Iterable[Issue], errors: Iterable[Issue]) -> list[Issue]:
    """The checks, then the errors; one that a check has reported already is not there twice: the check has its place and hint."""
    found = list(checks)
    for error in errors:
        reported = (
            n for n, check in enumerate(found) if (check.subject, check.error_code) == (error.subject, error.code)
        )
        index = next(reported, None)
        if index is None:
            found.append(error)
        else:
            check = found[index]
            hint = None if error.hint and error.hint in check.message else error.hint
            found[index] = replace(check, where=check.where or error.where, hint=check.hint or hint, error_code=None)
    return found


def _status(check: Issue) -> str:
    return "warn" if check.level == "warning" else check.level


def _lines(check: Issue) -> list[str]:
    """All that it says, line by line."""
    return [check.message, *check.details, *([f"hint: {check.hint}"] if check.hint else [])]


def github_annotations(checks: Iterable[Issue], path_of: Callable[[str], str] = str) -> str:
    """One workflow command per check that did not pass, as lines; `path_of` makes paths relative to the repository."""
    return "".join(f"{_annotation(check, path_of)}\n" for check in checks if _status(check) in _LEVELS)


def _annotation(check: Issue, path_of: Callable[[str], str]) -> str:
    properties = {"title": f"{check.subject}: {check.code}"}
    if check.where is not None:
        place = {"file": path_of(check.where.path), "line": check.where.line, "col": check.where.column}
        properties = {key: str(value) for key, value in place.items() if value is not None} | properties
    text = "\n".join(_lines(check)).lstrip("\n") or f"{check.code}: {_status(check)}"
    pairs = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{_LEVELS[_status(check)]} {pairs}::{_data(text)}"


def _data(text: str) -> str:
    return escaped(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def markdown_summary(title: str, checks: Sequence[Issue]) -> str:
    """A section of a job summary: the counts, then a table of all checks, what did not pass first."""
    counts = Counter(map(_status, checks))
    totals = ", ".join(f"{counts[status]} {status.replace('_', ' ')}" for status in _SHOWN_FIRST if counts[status])
    lines = [f"### `{title}`: {totals or 'nothing to check'}", ""]
    if checks:
        lines += ["| | policy | check | |", "|---|---|---|---|"]
        lines += [_row(check) for check in sorted(checks, key=lambda check: _SHOWN_FIRST.index(_status(check)))]
        lines.append("")
    return "\n".join([*lines, ""])


def _row(check: Issue) -> str:
    text = "<br>".join(map(_cell, _lines(check)))
    return f"| {_MARKS[_status(check)]} | {_cell(check.subject)} | {_cell(check.code)} | {text} |"


def _cell(text: str) -> str:
    """Text that Markdown shows as it is, on one line of a table."""
    return " ".join(escaped(text).translate(_ENTITIES).split())


def junit_xml(title: str, checks: Iterable[Issue]) -> bytes:
    """JUnit's XML: a suite per policy, a case per check; a warning passes and says so, what nothing judges is skipped."""
    from junitparser import JUnitXml, TestSuite

    report = JUnitXml(title)
    for subject, members in groupby(sorted(checks, key=lambda check: check.subject), key=lambda check: check.subject):
        suite = TestSuite(_xml_text(subject))
        suite.add_testcases([_case(check) for check in members])
        report.add_testsuite(suite)
    written = BytesIO()
    report.write(written, pretty=True)
    return written.getvalue()


def _case(check: Issue) -> TestCase:
    from junitparser import Error, Failure, Skipped, TestCase

    case = TestCase(_xml_text(check.code), classname=_xml_text(check.subject), time=check.seconds)
    if check.where is not None:
        case._elem.set("file", _xml_text(check.where.path))
        if check.where.line is not None:
            case._elem.set("line", str(check.where.line))
    status, text = _status(check), check.message or _status(check)
    details = _xml_text("\n".join((text, *_lines(check)[1:])))
    if status in ("fail", "error"):
        outcome = (Failure if status == "fail" else Error)(_xml_text(text))
        outcome.text = details
        case.result = [outcome]
    elif status in ("no_target", "skipped"):
        case.result = [Skipped(f"{_MARKS[status]}: {_xml_text(text)}")]
    elif check.message or status == "warn":
        case.system_out = details if status == "pass" else f"{status}: {details}"
    return case


def _xml_text(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)
