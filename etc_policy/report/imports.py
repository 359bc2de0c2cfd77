"""The report of `etc import`, as data and in words."""

from __future__ import annotations

from typing import Literal, get_args

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
    """A table that was looked at. `written`: it has a policy now, in `file`, with open `questions` by their keys. `new`: it would
    get one (`--diff`). `known`: the project had it before, and it was left alone. `drifted`: it is no longer as its policy says.
    `left_out`: no policy fits it, and nobody named it. `failed`: it could not be read, or no policy fits it.
    """

    table: str
    policy: str
    status: ImportStatus
    file: str | None = None
    questions: tuple[str, ...] = ()
    drift: tuple[DriftedKey, ...] = ()
    reason: str | None = None
    reason_code: str | None = None


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
    asked = sum(bool(table.questions) for table in shown)
    said = [f"{count} {_WORDS.get(status, status)}" for status, count in counts.items() if count]
    asks = f" {count_of(asked, 'file')} with open questions: `etc parse` lists them." if asked else ""
    if asked > 1:
        key = max(keys := [key for table in shown for key in table.questions], key=keys.count)
        answer, tables = (
            (f"--set 'GLOB:{key}=VALUE'", "the tables that fit")
            if key in OF_A_TABLE
            else (f"--set {key}=VALUE", "all tables")
        )
        asks += f" Without these files `etc import` with `{answer}` answers one for {tables}."
    summary = f"{': '.join(filter(None, (count_of(len(report.tables), 'table'), ', '.join(said))))}.{asks}"
    return "\n".join(filter(None, (rows_of(rows, width), summary)))


def _text(table: ImportedTable) -> str:
    if table.status == "drifted":
        return "; ".join(one_line(f"{one.key} ({one.declared}): {one.reason}") for one in table.drift)
    asks = f", open: {', '.join(table.questions)}" if table.questions else ""
    return one_line(with_place(f"{table.file or table.table}{asks}", table.reason))
