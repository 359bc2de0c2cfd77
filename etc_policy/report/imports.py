"""The report of `etc import`, as data and in words."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Literal, get_args

from pydantic import Field

from etc_policy.errors.plain_text import one_line
from etc_policy.policy.manifest import Frozen
from etc_policy.report.results import Report
from etc_policy.table.formats import count_of, rows_of, with_place
from etc_policy.verify.proposal import DriftedKey

IMPORT_SCHEMA_VERSION = 1

ImportStatus = Literal["written", "new", "known", "drifted", "left_out", "failed"]
_STATUSES: tuple[ImportStatus, ...] = get_args(ImportStatus)
#: What is seldom the same for all tables of a lake: it stands in the file of each policy.
OF_A_TABLE = ("event_time_column", "enabled")
_WORDS: dict[ImportStatus, str] = {"known": "in project", "left_out": "left out"}


class ImportedTable(Frozen):
    """A table that was looked at. `written`: it has a policy now, in `file`, with open `questions` by their keys, for each of
    which a value is `proposed` as YAML. `new`: it would get one (`--diff`). `known`: the project had it before, and it was left
    alone. `drifted`: it is no longer as its policy says. `left_out`: no policy fits it, and nobody named it. `failed`: it could
    not be read, or no policy fits it. An answer for all tables leaves what is `settled` as it is.
    """

    table: str
    policy: str
    status: ImportStatus
    file: str | None = None
    questions: tuple[str, ...] = ()
    proposed: dict[str, str] = Field(default_factory=dict)
    drift: tuple[DriftedKey, ...] = ()
    reason: str | None = None
    reason_code: str | None = None
    settled: tuple[str, ...] = Field(default=(), exclude=True)


class ImportReport(Report):
    """All tables that were found, in the order of finding."""

    schema_version: int = IMPORT_SCHEMA_VERSION
    etc_version: str
    tables: tuple[ImportedTable, ...]

    @property
    def has_drift(self) -> bool:
        """Whether a table is not as the project says, or not in it."""
        return any(table.status in ("new", "drifted") for table in self.tables)


def render_import(report: ImportReport, width: int) -> str:
    """A line for each table but those that failed, which are errors; then how many there are of each kind."""
    shown = [table for table in report.tables if table.status != "failed"]
    rows = [(one_line(table.policy), _WORDS.get(table.status, table.status), _text(table)) for table in shown]
    counts = {status: sum(table.status == status for table in report.tables) for status in _STATUSES}
    said = [f"{count} {_WORDS.get(status, status)}" for status, count in counts.items() if count]
    summary = f"{': '.join(filter(None, (count_of(len(report.tables), 'table'), ', '.join(said))))}.{_asks(shown)}"
    return "\n".join(filter(None, (rows_of(rows, width), summary, *_answers(shown))))


def _asks(tables: Sequence[ImportedTable]) -> str:
    """How many have questions, and how all of them are answered."""
    asked = [table for table in tables if table.questions]
    if not asked:
        return ""
    if any(table.file for table in asked):
        found, way = (
            f"{count_of(len(asked), 'file')} with open questions: `etc parse` lists them",
            "Without these files ",
        )
    else:
        found, way = f"{count_of(len(asked), 'table')} with open questions", ""
    count = sum(1 for _ in _answers(tables))
    with_these = "this answer" if count == 1 else f"these {count} answers"
    return f" {found}." + (
        f" {way}`etc import` with {with_these} leaves none open; change what is not so:" if count else ""
    )


def _answers(tables: Sequence[ImportedTable]) -> Iterator[str]:
    """As few `--set` as answer all questions by what is proposed: for all tables, where all are asked, else by their names."""
    asked = [table for table in tables if table.questions]
    taken = [table for table in tables if table.status in ("written", "new") and "enabled" not in table.settled]
    for key in dict.fromkeys(key for table in asked for key in table.proposed) if len(asked) > 1 else ():
        others = [table for table in taken if key not in table.settled]
        is_of_all = bool(others) and key not in OF_A_TABLE and all(key in table.proposed for table in others)
        by_value: dict[str, list[str]] = {}
        for table in asked:
            if key in table.proposed and not (is_of_all and key in table.settled):
                by_value.setdefault(table.proposed[key], []).append(table.policy)
        values = sorted(by_value, key=lambda value: -len(by_value[value]))
        for place, value in enumerate(values):
            names = "" if is_of_all and place == 0 else f"{','.join(by_value[value])}:"
            yield f"  --set {shlex.quote(f'{names}{key}={value}')}"


def _text(table: ImportedTable) -> str:
    if table.status == "drifted":
        return "; ".join(one_line(f"{one.key} ({one.declared}): {one.reason}") for one in table.drift)
    asks = f", open: {', '.join(table.questions)}" if table.questions else ""
    return one_line(with_place(f"{table.file or table.table}{asks}", table.reason))
