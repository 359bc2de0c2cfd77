"""Many tables on one page: how far RO lags, what is not compacted, and what the policies save, the worst table first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from etc_policy.plan.simulation import Figures
from etc_policy.report.simulation import (
    SimulatedSetting,
    SimulationReport,
    TableSimulation,
    cost_text,
    rounded,
)
from etc_policy.table.formats import aligned, count_of, format_bytes, format_duration

_DAY_MS = 86_400_000
_BAR_WIDTH = 10
_HEADS = ("RO lag", "target", "log files", "not compacted", "worst lag", "policy's")


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
    if not policy.figures.compactions:  # what nobody compacted saves nothing
        return FleetRow(table, policy.figures)
    days = (table.end_ms - table.begin_ms) / _DAY_MS
    return FleetRow(table, policy.figures, other, _amount(policy) / days, _amount(other) / days if other else 0.0)


def _worst_lag_ms(setting: SimulatedSetting) -> int:
    return setting.figures.lag_max_ms if setting.figures else 0


def _amount(setting: SimulatedSetting) -> float:
    """Its cost, else its bytes."""
    if setting.cost is not None:
        return setting.cost
    return setting.figures.bytes_read + setting.figures.bytes_written if setting.figures else 0.0


def render_fleet(report: SimulationReport) -> str:
    """The tables as lines with a bar for each lag, and their sums; nothing for a single table."""
    rows = fleet_rows(report)
    if len(rows) < 2:
        return ""
    has_costs = report.price is not None
    what = "cost" if has_costs else "bytes"
    heads = ("", *_HEADS, f"{what} a day", "policy's", "saved", "instead of")
    cells = [heads, *(_cells(row, has_costs=has_costs) for row in rows), _sums(rows, has_costs=has_costs)]
    lines = [f"  {line}" for line in aligned(cells, left=1)]
    width, longest_ms = max(map(len, lines)), max(row.table.lag_ms or 0 for row in rows)
    bars = ["RO lag", *(_bar(row.table.lag_ms, longest_ms) for row in rows), ""]
    drawn = (f"{line:<{width}}  {bar}".rstrip() for line, bar in zip(lines, bars, strict=True))
    return "\n".join((f"{count_of(len(rows), 'table')}, the longest lag first", *drawn))


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
        f"{table.log_files or 0:,}",
        format_bytes(table.log_bytes or 0),
        rounded(row.past.lag_max_ms) if row.past else "-",
        rounded(row.policy.lag_max_ms) if row.policy else "-",
        *_saving([row], has_costs=has_costs),
        _name(row.other),
    )


def _name(other: SimulatedSetting | None) -> str:
    if other is None:
        return "-"
    if other.kind != "stock" or (every_ms := other.every_ms) is None:
        return other.name.replace("every ", "")
    return f"stock, {format_duration(every_ms)}"


def _sums(rows: Sequence[FleetRow], *, has_costs: bool) -> tuple[str, ...]:
    files, size = (sum(getattr(row.table, name) or 0 for row in rows) for name in ("log_files", "log_bytes"))
    return ("all", "", "", f"{files:,}", format_bytes(size), "", "", *_saving(rows, has_costs=has_costs), "")


def _saving(rows: Sequence[FleetRow], *, has_costs: bool) -> Iterator[str]:
    """A day of the other ways and of the policies, and what is saved, over the tables where both are known."""
    known = [row for row in rows if row.policy is not None and row.other is not None]
    if not known:
        return iter(("-", "-", "-"))
    other, own = sum(row.other_a_day for row in known), sum(row.policy_a_day for row in known)
    texts = [cost_text(one) if has_costs else format_bytes(round(one)) for one in (other, own)]
    return iter((*texts, f"{1 - own / other:.0%}" if other else "-"))


def _bar(lag_ms: int | None, longest_ms: int) -> str:
    if lag_ms is None:
        return "?"
    return "#" * max(1, round(lag_ms / longest_ms * _BAR_WIDTH)) if lag_ms else ""
