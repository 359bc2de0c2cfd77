"""Many tables on one page: how far RO lags, what is not compacted, and what the policies save, the worst table first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from etc_policy.errors.plain_text import some_of
from etc_policy.plan.simulation import Figures
from etc_policy.report.simulation import (
    SimulatedSetting,
    SimulationReport,
    TableSimulation,
    cost_text,
    rounded,
    shows_a_day,
)
from etc_policy.table.formats import Line, block, count_of, format_bytes, format_duration, table_lines
from etc_policy.table.instants import DAY_MS

#: So many tables are named with one reason.
_NAMED = 5
_HEADS = ("RO lag", "target", "history", "log bytes", "worst", "policy")


class FleetRow(NamedTuple):
    """A table with what its policy makes of an average day, and the other way to compact that it is held against.

    That is the cheapest of those that are as fresh: whose worst lag is no longer than the policy's, or than its target. Where
    none is, it is the freshest. Both amounts are costs where the report has a price, else bytes read and written.
    """

    table: TableSimulation
    policy: Figures | None = None
    other: SimulatedSetting | None = None
    policy_a_day: float = 0.0
    other_a_day: float = 0.0

    @property
    def span_ms(self) -> int | None:
        """How much was replayed; None where nothing was."""
        begin_ms, end_ms = self.table.begin_ms, self.table.end_ms
        return None if begin_ms is None or end_ms is None else end_ms - begin_ms

    @property
    def why(self) -> str | None:
        """Why there is nothing to say of a day; None where there is."""
        if self.other is not None:
            return None
        if self.table.reason or self.span_ms is None:
            return self.table.reason or "nothing to replay"
        if not shows_a_day(self.table.begin_ms, self.table.end_ms):
            return "less than a day of history"
        if self.policy is None:
            return next((one.reason for one in self.table.settings if one.kind == "policy"), None) or "not replayed"
        return "no run of the policy compacted anything" if not self.policy.compactions else "nobody else compacted"

    @property
    def past(self) -> Figures | None:
        """What was, whoever compacted."""
        return next((one.figures for one in self.table.settings if one.kind == "past" and one.figures), None)


def fleet_rows(report: SimulationReport) -> list[FleetRow]:
    """A row for each table that could be read, the longest lag first; one that nobody knows goes before all."""
    rows = [_row_of(one) for one in report.tables if one.reason_code is None]
    return sorted(rows, key=lambda row: (row.table.lag_ms is not None, -(row.table.lag_ms or 0)))


def _row_of(table: TableSimulation) -> FleetRow:
    policy = next((one for one in table.settings if one.kind == "policy" and one.figures), None)
    if policy is None or policy.figures is None or table.begin_ms is None or table.end_ms is None:
        return FleetRow(table)
    compacted = [one for one in table.settings if one.figures and one.figures.compactions]
    others = [one for one in compacted if one.kind in ("past", "stock")]
    worst_ms = max(policy.figures.lag_max_ms, table.target_ms or 0)
    fresh = [one for one in others if _worst_lag_ms(one) <= worst_ms]
    other = min(fresh, key=_amount, default=None) or min(others, key=_worst_lag_ms, default=None)
    if not policy.figures.compactions or not shows_a_day(table.begin_ms, table.end_ms):
        return FleetRow(table, policy.figures)
    days = (table.end_ms - table.begin_ms) / DAY_MS
    return FleetRow(table, policy.figures, other, _amount(policy) / days, _amount(other) / days if other else 0.0)


def _worst_lag_ms(setting: SimulatedSetting) -> int:
    return setting.figures.lag_max_ms if setting.figures else 0


def _amount(setting: SimulatedSetting) -> float:
    """Its cost, else its bytes."""
    if setting.cost is not None:
        return setting.cost
    return setting.figures.bytes_read + setting.figures.bytes_written if setting.figures else 0.0


def render_fleet(report: SimulationReport, width: int) -> str:
    """The tables as lines, their sums, and why what is missing is; nothing for a single table."""
    rows = fleet_rows(report)
    if len(rows) < 2:
        return ""
    has_costs = report.price is not None
    what = "cost" if has_costs else "bytes"
    heads = ("", *_HEADS, f"{what} a day", "policy", "saved", "instead of")
    cells = [heads, *(_cells(row, has_costs=has_costs) for row in rows), _sums(rows, has_costs=has_costs)]
    title = f"{count_of(len(rows), 'table')}, the longest lag first"
    return "\n".join((title, *table_lines(cells, width), *block(_missing(rows), width).splitlines()))


def _missing(rows: Sequence[FleetRow]) -> Iterator[Line]:
    """The tables of which there is nothing to say of a day, by the reason."""
    names: dict[str, list[str]] = {}
    for row in rows:
        if row.why is not None:
            names.setdefault(row.why, []).append(row.table.policy)
    for why, tables in names.items():
        yield "a day", f"- for {some_of(tables, _NAMED)}: {why}"


def render_fleet_page(report: SimulationReport, now_ms: int, read_template: Callable[[str], str]) -> str:
    """The same as a page of one file, with bars for lags and for what a day moves or costs."""
    from etc_policy.report.site import page_environment

    rows, has_costs = fleet_rows(report), report.price is not None
    pages = page_environment(read_template)
    pages.filters |= {"rounded": rounded, "other_name": lambda row: _name(row.other)}
    pages.filters["saving"] = lambda row: list(_saving([row], has_costs=has_costs))
    return pages.get_template("fleet.html").render(
        rows=rows,
        unread=[one for one in report.tables if one.reason_code is not None],
        now_ms=now_ms // 1000 * 1000,
        has_both=any(row.other for row in rows),
        together=list(_saving(rows, has_costs=has_costs)),
        what="Cost" if has_costs else "Bytes",
        longest_ms=max((max(row.table.lag_ms or 0, row.table.target_ms or 0) for row in rows), default=0),
        most_a_day=max((max(row.policy_a_day, row.other_a_day) for row in rows), default=0.0),
        css=read_template("site/assets/site.css"),
    )


def _cells(row: FleetRow, *, has_costs: bool) -> tuple[str, ...]:
    table = row.table
    return (
        table.policy,
        "unknown" if table.lag_ms is None else rounded(table.lag_ms),
        "-" if table.target_ms is None else rounded(table.target_ms),
        "-" if row.span_ms is None else rounded(row.span_ms),
        format_bytes(table.log_bytes or 0),
        rounded(row.past.lag_max_ms) if row.past else "-",
        rounded(row.policy.lag_max_ms) if row.policy else "-",
        *_saving([row], has_costs=has_costs),
        _name(row.other),
    )


def _name(other: SimulatedSetting | None) -> str:
    if other is None:
        return "-"
    if other.kind == "past":
        return "past runs"
    if other.kind != "stock" or (every_ms := other.every_ms) is None:
        return other.name.removeprefix("stock, every ")
    return f"stock, {format_duration(every_ms)}"


def _sums(rows: Sequence[FleetRow], *, has_costs: bool) -> tuple[str, ...]:
    size = sum(row.table.log_bytes or 0 for row in rows)
    return ("all", "", "", "", format_bytes(size), "", "", *_saving(rows, has_costs=has_costs), "")


def _saving(rows: Sequence[FleetRow], *, has_costs: bool) -> Iterator[str]:
    """A day of the other ways and of the policies, and what is saved, over the tables where both are known."""
    known = [row for row in rows if row.policy is not None and row.other is not None]
    if not known:
        return iter(("-", "-", "-"))
    other, own = sum(row.other_a_day for row in known), sum(row.policy_a_day for row in known)
    texts = [cost_text(one) if has_costs else format_bytes(round(one)) for one in (other, own)]
    return iter((*texts, f"{round(100 * (1 - own / other))}%" if other else "-"))
