"""The report of `etc debug`, as data and in words."""

from __future__ import annotations

from collections.abc import Iterator

from etc_policy.errors.plain_text import one_line
from etc_policy.policy.manifest import Frozen
from etc_policy.table.formats import TEXT_WIDTH, count_of, fold
from etc_policy.verify.diagnosis import Finding, FindingStatus

DEBUG_SCHEMA_VERSION = 1

#: Columns before the message: label and mark.
_MARGIN = 22
_MARKS: dict[FindingStatus, str] = {"ok": "ok", "warn": "WARN", "error": "ERROR", "skipped": "-"}


class DebugReport(Frozen):
    """Everything that was looked at, in the order of looking."""

    schema_version: int = DEBUG_SCHEMA_VERSION
    etc_version: str
    findings: tuple[Finding, ...]


def render_debug(report: DebugReport, width: int = TEXT_WIDTH) -> str:
    """One block per subject, each finding on a line with its mark, and what to do below it."""
    subjects = dict.fromkeys(finding.subject for finding in report.findings)
    blocks = ["\n".join([one_line(subject), *_lines(report, subject, width)]) for subject in subjects]
    errors, warnings = (sum(f.status == status for f in report.findings) for status in ("error", "warn"))
    found = f"{count_of(errors, 'error')}, {count_of(warnings, 'warning')}"
    return "\n\n".join([*blocks, f"etc {report.etc_version}: {found}."])


def _lines(report: DebugReport, subject: str, width: int) -> Iterator[str]:
    for finding in report.findings:
        if finding.subject == subject:
            texts = [finding.message, *([f"hint: {finding.hint}"] if finding.hint else [])]
            first, *rest = (line for text in texts for line in fold(text, width - _MARGIN).splitlines())
            yield f"  {finding.check:<13} {_MARKS[finding.status]:<5} {first}"
            yield from (" " * _MARGIN + line for line in rest)
