"""The report of `etc cuts`: the published cuts of each table, and the SQL that reads each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from etc_policy.policy.manifest import Frozen, Policy
from etc_policy.report.as_of_sql import up_to
from etc_policy.report.results import Report
from etc_policy.table.cuts import PublishedCut
from etc_policy.table.formats import Line, block, count_of, format_bytes, format_time, keep_together
from etc_policy.table.state import CompactionRecord, TableState
from etc_policy.verify.compared_rows import first_incomplete, no_time_travel

#: Where no policy names the RO table.
_TABLE = "db.table_ro"


class ListedCut(Frozen):
    """The table as of the event time `threshold_ms`, published by the compaction at `instant`.

    `readable` says that all `base_files` are there that RO reads as of it, of which `gone` are not, and that Hudi reads them: it
    refuses what is before `retained_from` (facts: cleaned-cut), and all while the write at `waits_for` has not ended.
    `in_flight` of the base files are of writes that were in flight when it was published, and have ended since. `kept_bytes` are
    those of files that only readers of the past need, each counted with every cut that reads it.
    """

    threshold_ms: int
    instant: str
    readable: bool
    base_files: int
    gone: int
    in_flight: int
    kept_bytes: int
    waits_for: str | None = None
    sql: str


class TableCuts(Frozen):
    """The cuts of one table, the newest first.

    `retained_from` is the instant from which on the writers' last clean has kept what readers need; None where none is known.
    A table that could not be read has the `reason`.
    """

    policy: str
    base_path: str
    cuts: tuple[ListedCut, ...] = ()
    retained_from: str | None = None
    warnings: tuple[str, ...] = ()
    reason: str | None = None


class CutsReport(Report):
    """The cuts of each selected table."""

    tables: tuple[TableCuts, ...]


def table_cuts(policy: Policy, state: TableState, cuts: Iterable[PublishedCut], warnings: Iterable[str]) -> TableCuts:
    """The cuts with what reads them."""
    return TableCuts(
        policy=policy.name,
        base_path=state.base_path,
        cuts=tuple(_listed(policy, state, one) for one in cuts),
        retained_from=state.earliest_commit_to_retain,
        warnings=tuple(warnings),
    )


def _listed(policy: Policy, state: TableState, cut: PublishedCut) -> ListedCut:
    completed, writer = cut.record.completed, first_incomplete(state)
    waits_for = writer if writer is not None and writer <= completed else None
    is_retained = completed >= (state.earliest_commit_to_retain or "")
    return ListedCut(
        threshold_ms=cut.record.threshold_ms,
        instant=cut.record.instant,
        readable=not cut.gone and is_retained and waits_for is None,
        base_files=cut.base_files,
        gone=cut.gone,
        in_flight=cut.in_flight,
        kept_bytes=cut.kept_bytes,
        waits_for=waits_for,
        sql=cut_sql(policy, state.event_time_type, cut.record),
    )


def cut_sql(policy: Policy, column_type: str | None, record: CompactionRecord) -> str:
    """Spark SQL that reads a cut: RO when it was published, without later rows that writers put straight into base files."""
    table, condition = policy.sync.ro_table or _TABLE, up_to(policy, column_type, record.threshold_ms)
    return f"SELECT * FROM {table} TIMESTAMP AS OF '{record.completed}' WHERE {condition}"  # noqa: S608 - to show


def render_cuts(report: CutsReport, width: int) -> str:
    """A block for each table that could be read."""
    return "\n\n".join(block(_lines(one), width) for one in report.tables if one.reason is None)


def _lines(table: TableCuts) -> Iterator[Line]:
    yield f"{table.policy}  {table.base_path}"
    if not table.cuts:
        yield "cuts", "none: no compaction has split this table by record"
    for cut in table.cuts:
        state = f"readable: {_files_of(cut)}" if cut.readable else f"not readable: {_why_not(cut)}"
        yield "as of", f"{format_time(cut.threshold_ms)}  {state}"
        if cut.readable:
            yield "", keep_together(cut.sql)
    if table.retained_from is not None:
        yield "cleaner", f"has kept what readers need as of {table.retained_from} and later"
    for warning in table.warnings:
        yield "warning", warning


def _files_of(cut: ListedCut) -> str:
    later = f", {cut.in_flight:,} of them of writes that were in flight" if cut.in_flight else ""
    kept = f", {format_bytes(cut.kept_bytes)} of them kept for the past alone" if cut.kept_bytes else ""
    return f"{count_of(cut.base_files, 'base file')}{later}{kept}"


def _why_not(cut: ListedCut) -> str:
    if cut.gone:
        return f"{cut.gone:,} of {count_of(cut.base_files, 'base file')} gone"
    return no_time_travel(cut.waits_for) if cut.waits_for else "the cleaner may have removed its files"
