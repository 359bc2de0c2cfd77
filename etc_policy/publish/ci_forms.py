"""Checks as GitHub shows them: annotations at a file's line, and a job summary in Markdown (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from etc_policy.plain_text import escaped
from etc_policy.publish.checks import Check
from etc_policy.verify.ports import CheckStatus

_LEVELS = {"fail": "error", "error": "error", "warn": "warning"}
_MARKS = {"pass": "✅ pass", "warn": "⚠️ warn", "fail": "❌ fail", "error": "❌ error"}
#: Letters that Markdown or HTML would take for marks.
_ENTITIES = {ord(letter): f"&#{ord(letter)};" for letter in "\\`*_[]<>|#~&!"}
_SHOWN_FIRST: tuple[CheckStatus, ...] = ("error", "fail", "warn", "pass")


def github_annotations(checks: Iterable[Check], path_of: Callable[[str], str] = str) -> str:
    """One workflow command per check that did not pass, as lines; `path_of` makes paths relative to the repository."""
    return "".join(f"{_annotation(check, path_of)}\n" for check in checks if check.status in _LEVELS)


def _annotation(check: Check, path_of: Callable[[str], str]) -> str:
    properties = {"title": f"{check.group}: {check.name}"}
    if check.where is not None:
        place = {"file": path_of(check.where.path), "line": check.where.line, "col": check.where.column}
        properties = {key: str(value) for key, value in place.items() if value is not None} | properties
    text = check.message or f"{check.name}: {check.status}"
    if check.hint:
        text += f"\nhint: {check.hint}"
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
    text = _cell(check.message or "") + (f"<br>hint: {_cell(check.hint)}" if check.hint else "")
    return f"| {_MARKS[check.status]} | {_cell(check.group)} | {_cell(check.name)} | {text} |"


def _cell(text: str) -> str:
    """Text that Markdown shows as it is, on one line of a table."""
    return " ".join(escaped(text).translate(_ENTITIES).split())
