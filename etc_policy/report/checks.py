"""Every verdict of a command as a list of checks, and these in the forms that CI systems show (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from etc_policy.errors import Issue, Where
from etc_policy.errors.plain_text import escaped
from etc_policy.plan.explainer import table_rows
from etc_policy.plan.model import Plan, TablePlan
from etc_policy.report.check_titles import subject_of
from etc_policy.table.formats import count_of, format_bytes, format_duration, format_time
from etc_policy.verify.ports import CheckStatus

if TYPE_CHECKING:
    from etc_policy.report.results import FreshnessReport, RunResults, SyncReport, TableFreshness, VerificationReport
    from etc_policy.run.results import SyncResult, TableResult
    from etc_policy.verify.ports import Verification

Places = Mapping[str, Where | None]

#: Group of the checks that belong to no policy.
PROJECT = "project"

_FRESHNESS: dict[str, CheckStatus] = {"pass": "pass", "warn": "warn", "error": "fail", "unknown": "error"}
#: Rows of a plan's text that are the message or the hint of its check.
_SAID_BY_CHECK = ("nothing due", "refused", "hint")
_NOT_DONE = ("refused", "stale", "failed")
_LEVELS = {"fail": "error", "error": "error", "warn": "warning"}
_MARKS = {"pass": "✅ pass", "warn": "⚠️ warn", "fail": "❌ fail", "error": "❌ error"}
#: Letters that Markdown or HTML would take for marks.
_ENTITIES = {ord(letter): f"&#{ord(letter)};" for letter in "\\`*_[]<>|#~&!"}
_SHOWN_FIRST: tuple[CheckStatus, ...] = ("error", "fail", "warn", "pass")


@dataclass(frozen=True, slots=True)
class Check:
    """One verdict; `group` is the policy, `fail` means that what was checked is not so, `error` that it is not known.

    `details` are more lines about it.
    """

    group: str
    name: str
    status: CheckStatus
    message: str | None = None
    where: Where | None = None
    seconds: float | None = None
    hint: str | None = None
    details: tuple[str, ...] = ()
    #: That of the table's error which the check reports.
    code: str | None = None

    @property
    def lines(self) -> tuple[str, ...]:
        """All that it says, line by line."""
        hint = (f"hint: {self.hint}",) if self.hint else ()
        return (self.message or "", *self.details, *hint)


def checks_of_issues(issues: Iterable[Issue]) -> tuple[Check, ...]:
    """One check per error or warning about the project or a table."""
    return tuple(
        Check(
            group=(issue.where.object_name if issue.where else None) or PROJECT,
            name=issue.code,
            status="warn" if issue.level == "warning" else "error",
            message=issue.message,
            where=issue.where,
            hint=issue.hint,
        )
        for issue in issues
    )


def checks_of_plan(plan: Plan, places: Places) -> tuple[Check, ...]:
    """One check per table: an error where it cannot be compacted now."""
    return tuple(_of_plan(table, places.get(table.policy)) for table in plan.tables)


def _of_plan(table: TablePlan, where: Where | None) -> Check:
    hint, details = table.hints[0] if table.hints else None, tuple(_plan_details(table))
    if table.action == "refused":
        return Check(table.policy, "plan", "error", table.reason, where, None, hint, details, table.error_code)
    message = table.reason or "nothing due"
    if table.action == "compact":
        files = sum(len(operation.log_files_compacted) for operation in table.operations)
        read = format_bytes(sum(operation.bytes_read for operation in table.operations))
        slices = count_of(len(table.operations), "file slice")
        message = f"compact {count_of(files, 'log file')} of {slices}, reads {read}"
    return Check(table.policy, "plan", "pass", message, where, hint=hint, details=details)


def _plan_details(table: TablePlan) -> Iterator[str]:
    """What the plan's text says of the table besides the check's message and hint."""
    label = ""
    for name, text in table_rows(table):
        label = name or label
        if label not in _SAID_BY_CHECK:
            yield f"{label}: {' '.join(text.split())}"


def checks_of_results(results: RunResults, places: Places) -> tuple[Check, ...]:
    """For each table what was done, then one check per expectation."""
    return tuple(check for table in results.tables for check in _of_result(table, places.get(table.policy)))


def _of_result(table: TableResult, where: Where | None) -> Iterator[Check]:
    done = table.status not in _NOT_DONE
    message = table.reason or table.status.replace("_", " ")
    if table.status in ("compacted", "resumed"):
        message = f"{table.status}, threshold {format_time(table.threshold_ms)}"
    hint = table.hints[0] if table.hints else None
    status: CheckStatus = "pass" if done else "error"
    yield Check(table.policy, "apply", status, message, where, table.seconds, hint, code=table.error_code)
    if table.verification is not None:
        yield from _of_verification(table.policy, table.verification, where)
    if table.sync is not None:
        yield _of_sync(table.sync, where)


def checks_of_syncs(report: SyncReport, places: Places) -> tuple[Check, ...]:
    """One check per table."""
    return tuple(_of_sync(table, places.get(table.policy)) for table in report.tables)


def _of_sync(table: SyncResult, where: Where | None) -> Check:
    failed = table.status == "failed"
    message = table.message or f"{table.status}: {table.ro_table}"
    return Check(table.policy, "sync", "error" if failed else "pass", message, where, code=table.error_code)


def checks_of_verifications(report: VerificationReport, places: Places) -> tuple[Check, ...]:
    """One check per expectation of each table."""
    return tuple(
        check
        for table in report.tables
        for check in _of_verification(table.policy, table.verification, places.get(table.policy))
    )


def _of_verification(policy: str, verification: Verification, where: Where | None) -> Iterator[Check]:
    """One check per expectation; of equal ones each has a number, as CI systems merge what has one name."""
    seen: Counter[str] = Counter()
    for result in verification.expectations:
        about = subject_of(result)
        name = f"{result.expectation} ({about})" if about else result.expectation
        seen[name] += 1
        number = f" #{seen[name]}" if seen[name] > 1 else ""
        yield Check(policy, f"{name}{number}", result.status, result.message, where, code=result.error_code)


def checks_of_freshness(report: FreshnessReport, places: Places, *, fail_on_warn: bool) -> tuple[Check, ...]:
    """One check per table; with `fail_on_warn` a table beyond its target fails too."""
    return tuple(_of_freshness(table, places.get(table.policy), fail_on_warn=fail_on_warn) for table in report.tables)


def _of_freshness(table: TableFreshness, where: Where | None, *, fail_on_warn: bool) -> Check:
    status = _FRESHNESS[table.status]
    message = table.reason
    if table.complete_until_ms is not None and table.lag_seconds is not None:
        lag = format_duration(int(table.lag_seconds * 1000))
        proof = f" ({table.complete_until_proof})" if table.complete_until_proof else ""
        message = f"RO is complete until {format_time(table.complete_until_ms)}, {lag} ago{proof}"
    status = "fail" if status == "warn" and fail_on_warn else status
    return Check(table.policy, "freshness", status, message, where, code=table.error_code)


def github_annotations(checks: Iterable[Check], path_of: Callable[[str], str] = str) -> str:
    """One workflow command per check that did not pass, as lines; `path_of` makes paths relative to the repository."""
    return "".join(f"{_annotation(check, path_of)}\n" for check in checks if check.status in _LEVELS)


def _annotation(check: Check, path_of: Callable[[str], str]) -> str:
    properties = {"title": f"{check.group}: {check.name}"}
    if check.where is not None:
        place = {"file": path_of(check.where.path), "line": check.where.line, "col": check.where.column}
        properties = {key: str(value) for key, value in place.items() if value is not None} | properties
    text = "\n".join(check.lines).lstrip("\n") or f"{check.name}: {check.status}"
    pairs = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{_LEVELS[check.status]} {pairs}::{_data(text)}"


def _data(text: str) -> str:
    return escaped(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def markdown_summary(title: str, checks: Sequence[Check]) -> str:
    """A section of a job summary: the counts, then a table of all checks, what did not pass first."""
    counts = Counter(check.status for check in checks)
    totals = ", ".join(f"{counts[status]} {status}" for status in _SHOWN_FIRST if counts[status])
    lines = [f"### `{title}`: {totals or 'nothing to check'}", ""]
    if checks:
        lines += ["| | policy | check | |", "|---|---|---|---|"]
        ordered = sorted(checks, key=lambda check: _SHOWN_FIRST.index(check.status))
        lines += [_row(check) for check in ordered]
        lines.append("")
    return "\n".join([*lines, ""])


def _row(check: Check) -> str:
    text = "<br>".join(map(_cell, check.lines))
    return f"| {_MARKS[check.status]} | {_cell(check.group)} | {_cell(check.name)} | {text} |"


def _cell(text: str) -> str:
    """Text that Markdown shows as it is, on one line of a table."""
    return " ".join(escaped(text).translate(_ENTITIES).split())
