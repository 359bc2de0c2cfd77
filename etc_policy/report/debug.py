"""The report of `etc debug`, as data and in words."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from etc_policy.errors.plain_text import one_line
from etc_policy.policy.manifest import Frozen
from etc_policy.table.formats import TEXT_WIDTH, count_of, fold, rows_of
from etc_policy.verify.diagnosis import Finding, FindingStatus

DEBUG_SCHEMA_VERSION = 1

#: Columns before the message: label and mark.
_MARGIN = 22
_MARKS: dict[FindingStatus, str] = {"ok": "ok", "warn": "WARN", "error": "ERROR", "skipped": "-"}
_GRAVEST: tuple[FindingStatus, ...] = ("error", "warn", "ok", "skipped")
#: The machine, the project and one table are shown whole.
_LISTED_FROM = 3


class DebugReport(Frozen):
    """Everything that was looked at, in the order of looking."""

    schema_version: int = DEBUG_SCHEMA_VERSION
    etc_version: str
    findings: tuple[Finding, ...]


def render_debug(report: DebugReport, width: int = TEXT_WIDTH) -> str:
    """One block per subject, each finding on a line with its mark, and what to do below it."""
    blocks = ["\n".join([one_line(subject), *_lines(found, width)]) for subject, found in _by_subject(report).items()]
    return "\n\n".join([*blocks, _counts(report)])


def list_debug(report: DebugReport, width: int = TEXT_WIDTH) -> str:
    """A line for each subject, those with errors first; the machine, the project and one table are shown whole."""
    by_subject = _by_subject(report)
    if len(by_subject) <= _LISTED_FROM:
        return render_debug(report, width)
    heads = [(_worst(found), one_line(subject), _in_short(found)) for subject, found in by_subject.items()]
    margin = max(len(name) for _, name, _ in heads) + max(map(len, _MARKS.values())) + 4
    rows = [
        (name, _MARKS[worst], textwrap.shorten(text, max(width - margin, _MARGIN), placeholder=" ..."))
        for worst, name, text in sorted(heads, key=lambda head: _GRAVEST.index(head[0]))
    ]
    more = "`etc debug --verbose` shows each check and what to do, `--select NAME` those of a table."
    return f"{rows_of(rows, width)}\n\n{fold(f'{_counts(report)} {more}', width)}"


def _by_subject(report: DebugReport) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}
    for one in report.findings:
        found.setdefault(one.subject, []).append(one)
    return found


def _worst(found: list[Finding]) -> FindingStatus:
    return min((one.status for one in found), key=_GRAVEST.index)


def _in_short(found: list[Finding]) -> str:
    """What is wrong, the gravest in words; else how much waits for a compaction, or how many rows there are."""
    wrong = sorted(
        (one for one in found if one.status in ("error", "warn")), key=lambda one: _GRAVEST.index(one.status)
    )
    if wrong:
        return f"{', '.join(one.check for one in wrong)}: {wrong[0].message}"
    return next((one.message for one in found if one.check == "backlog"), count_of(len(found), "check"))


def _counts(report: DebugReport) -> str:
    errors, warnings = (sum(f.status == status for f in report.findings) for status in ("error", "warn"))
    return f"etc {report.etc_version}: {count_of(errors, 'error')}, {count_of(warnings, 'warning')}."


def _lines(found: list[Finding], width: int) -> Iterator[str]:
    for finding in found:
        texts = [finding.message, *([f"hint: {finding.hint}"] if finding.hint else [])]
        first, *rest = (line for text in texts for line in fold(text, width - _MARGIN).splitlines())
        yield f"  {finding.check:<13} {_MARKS[finding.status]:<5} {first}"
        yield from (" " * _MARGIN + line for line in rest)
