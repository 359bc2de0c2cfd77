"""The report of `etc simulate`, as data and in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from etc_policy.errors import EtcError
from etc_policy.plan.simulation import Figures, Price
from etc_policy.policy.manifest import Frozen, Policy
from etc_policy.report.results import Report
from etc_policy.table.formats import (
    Line,
    block,
    count_of,
    format_bytes,
    format_duration,
    format_time,
    part_of,
    table_lines,
)
from etc_policy.table.instants import DAY_MS

SIMULATION_SCHEMA_VERSION = 1

_COLUMNS = ("", "RO lag p50", "p99", "worst", "above target", "late rows", "runs", "read", "written")


class SimulatedSetting(Frozen):
    """What one way to compact makes of the past.

    `past`: the compactions as they were. `policy`: the policy as it is. `changed`: with the settings that were given, of
    which `changes` says what they change. `stock`: Hudi's own, of every file slice with log files. Runs come every
    `every_ms`, or after so many `commits`; with `own_pace` as often as commits came, as an hour is too long; `just_in_time`
    says that a slice waits while the target allows it. `figures` are missing where the past cannot be replayed so: `reason`
    says why. `cost` is theirs by the report's price, of a day of history or more.
    """

    kind: Literal["past", "policy", "changed", "stock"]
    name: str
    every_ms: int | None = None
    commits: int | None = None
    own_pace: bool = False
    just_in_time: bool = False
    changes: tuple[str, ...] = ()
    figures: Figures | None = None
    cost: float | None = None
    reason: str | None = None


class TableSimulation(Frozen):
    """The replays of one table from `begin_ms` to `end_ms`, in which there were so many `commits` with log files.

    `whole` says that the table's first write is among them. A write is what a commit wrote to one file group; of
    `unknown_writes` no event time is known, they are taken to come as late as `data_latency` allows. A run takes `run_ms`.
    A table that cannot be replayed has a `reason`, and one that could not be read its code and hints too.

    `lag_ms` is how far RO lags now, None where that is not known, `target_ms` the policy's target, and `log_files` with
    `log_bytes` in all are not compacted now.
    """

    policy: str
    base_path: str
    lag_ms: int | None = None
    target_ms: int | None = None
    log_files: int | None = None
    log_bytes: int | None = None
    begin_ms: int | None = None
    end_ms: int | None = None
    whole: bool = False
    commits: int = 0
    writes: int = 0
    unknown_writes: int = 0
    run_ms: int | None = None
    run_assumed: bool = False
    settings: tuple[SimulatedSetting, ...] = ()
    reason: str | None = None
    reason_code: str | None = None
    hints: tuple[str, ...] = ()


class SimulationReport(Report):
    """The replays of each selected table; with a price each setting has its cost."""

    schema_version: int = SIMULATION_SCHEMA_VERSION
    price: Price | None = None
    tables: tuple[TableSimulation, ...]


def shows_a_day(begin_ms: int | None, end_ms: int | None) -> bool:
    """Whether so much was replayed that it says something of a day, and of what one costs."""
    return begin_ms is not None and end_ms is not None and end_ms - begin_ms >= DAY_MS


def unread_simulation(policy: Policy, error: EtcError) -> TableSimulation:
    """The entry of a table that could not be read."""
    found = TableSimulation(policy=policy.name, base_path=policy.table, reason=error.with_cause)
    return found.model_copy(update={"reason_code": error.code, "hints": error.hints})


def render_simulation(report: SimulationReport, width: int) -> str:
    """A block for each table; why one could not be read is said by its error."""
    shown = [table for table in report.tables if table.reason_code is None]
    return "\n\n".join(block(_lines(table, width, has_price=report.price is not None), width) for table in shown)


def _lines(table: TableSimulation, width: int, *, has_price: bool) -> Iterator[Line]:
    yield f"{table.policy}  {table.base_path}"
    if table.begin_ms is None or table.end_ms is None or table.run_ms is None:
        yield "replayed", table.reason or "nothing"
        return
    span = format_duration(table.end_ms - table.begin_ms)
    text = f"{span} up to {format_time(table.end_ms)}: {count_of(table.commits, 'commit')} with log files"
    yield "replayed", text
    back = "the table's first write" if table.whole else "what was before is not known, or left out"
    yield "sees back to", f"{format_time(table.begin_ms)}, {back}"
    if table.unknown_writes:
        part = part_of(table.unknown_writes, table.writes, "write")
        text = f"{part} to log files: taken to come as late as `data_latency` allows"
        yield "unknown times", text
    known = "assumed, as none is known" if table.run_assumed else "as the last one"
    yield "a run takes", f"{format_duration(table.run_ms)} ({known})"
    for one in table.settings:
        if one.changes:
            yield "changed", "; ".join(one.changes)
    yield ""
    has_costs = any(one.cost is not None for one in table.settings)
    rows = [(*_COLUMNS, *(["cost"] if has_costs else [])), *map(_row, table.settings)]
    yield from table_lines(rows, width)
    for one in table.settings:
        if one.figures is not None and one.figures.refused:
            refused = count_of(one.figures.refused, "run")
            yield "refused", f"{one.name}: {refused}; the first because {one.figures.refused_because}"
    yield from _empty(table, span, has_price=has_price)


def _empty(table: TableSimulation, span: str, *, has_price: bool) -> Iterator[Line]:
    """Why cells are empty."""
    figures = [(one, one.figures) for one in table.settings if one.figures is not None]
    if any(one.kind == "past" and not found.compactions for one, found in figures):
        yield "as it was", f"nobody compacted in {span}"
    own = next((one for one in table.settings if one.own_pace), None)
    if own is not None:
        often = format_duration(own.every_ms or 0)
        yield "own pace", f"every {often}, as commits came: {span} are too short for runs of every hour (`--every`)"
    if any(found.above_target_ms is None for _, found in figures):
        yield "above target", "- as the policy has no `freshness.target`"
    if any(found.late_rows_at_most is None for _, found in figures):
        yield "late rows", "- where no threshold is published"
    without = [one.name for one, found in figures if one.kind != "past" and not found.runs]
    if without:
        yield "no runs", f"{', '.join(without)}: none falls into {span}; `--every` takes another interval"
    if has_price and not shows_a_day(table.begin_ms, table.end_ms):
        yield "no cost", f"{span} of history are no day, and say nothing of what one costs"


def _row(one: SimulatedSetting) -> tuple[str, ...]:
    found = one.figures
    if found is None:
        return (f"{one.name}: {one.reason}",)
    lags = (found.lag_p50_ms, found.lag_p99_ms, found.lag_max_ms)
    return (
        one.name,
        *map(rounded, lags),
        "-" if found.above_target_ms is None else rounded(found.above_target_ms),
        "-" if found.late_rows_at_most is None else f"{found.late_rows_at_most:,}",
        f"{found.compactions:,}" if one.kind == "past" else f"{found.compactions:,} of {found.runs:,}",
        format_bytes(found.bytes_read),
        format_bytes(found.bytes_written),
        *([] if one.cost is None else [cost_text(one.cost)]),
    )


def cost_text(cost: float) -> str:
    """A cost with two decimals, or two digits where it is smaller."""
    return f"{cost:,.2f}" if cost >= 0.01 or not cost else f"{cost:.2g}"


def rounded(span_ms: int) -> str:
    """A span in whole seconds."""
    return format_duration(round(span_ms, -3)) if span_ms >= 1_000 else f"{'<1s' if span_ms else '0s'}"
