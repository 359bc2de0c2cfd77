"""What a plan says of its strategy: how often runs come, or the options of Hudi's own, and what they choose."""

from __future__ import annotations

from collections.abc import Iterator

from etc_policy.plan.model import TablePlan
from etc_policy.table.formats import count_of, format_duration, format_time

MERGED = "all of the slices below, as Hudi's strategies choose whole slices"
ON_CLOSE = "strategy.on_close"
CHOSEN = "compacted whole, whatever the event times"


def pace_rows(table: TablePlan) -> Iterator[tuple[str, str]]:
    """By what pace the plan was made."""
    pace = table.pace
    if pace is None:
        return
    every, target = format_duration(pace.every_ms), format_duration(pace.target_ms)
    run = "is assumed to take as long" if pace.run_assumed else f"took {format_duration(pace.run_ms)}"
    yield (
        "just in time",
        f"runs every {every}, the last one {run}; due is what would break the target of {target} before the next has ended",
    )


def next_due_rows(next_due_ms: int | None) -> Iterator[tuple[str, str]]:
    """Until when a scheduler may sleep."""
    if next_due_ms is not None:
        yield "next due", f"{format_time(next_due_ms)}  no run is needed before"


def latency_rows(table: TablePlan) -> Iterator[tuple[str, str]]:
    """A `data_latency` that was learned, and what it rests on."""
    found, latency_ms = table.latency_evidence, table.data_latency_ms
    if found is None or latency_ms is None:
        return
    within = "{} to {}".format(*(table.policy_values.get(f"learned_latency.at_{end}") for end in ("least", "most")))
    if found.observed_ms is None or found.since_ms is None:
        why = "`at_most`, as too few writes have known event times to learn from"
    else:
        read = f", {found.read_writes:,} of them read from log files" if found.read_writes else ""
        share = float(table.policy_values.get("learned_latency.quantile", 1))
        why = (
            f"learned: {'all' if share == 1 else f'{share * 100:g} %'} of {count_of(found.writes, 'write')} since "
            f"{format_time(found.since_ms)}{read} came in within {format_duration(found.observed_ms)}; {within} are allowed"
        )
    if found.promised_ms is not None and table.now_ms == found.promised_ms + latency_ms:
        why = f"T stays where the last compaction had it, as no shorter one was learned; {why}"
    yield "data latency", f"{format_duration(latency_ms)}  {why}"


def why_now(table: TablePlan) -> Iterator[tuple[str, str]]:
    """Up to which event time nothing can wait, and why."""
    pace = table.pace
    if pace is None or table.now_ms is None:
        return
    latency_ms = table.data_latency_ms or 0
    due = format_time(pace.due_up_to_ms(table.now_ms, latency_ms))
    along = (
        f" A slice that is compacted is merged up to {format_duration(latency_ms)} before now all the same, so that it is not "
        "soon due again."
    )
    closed = ", and so is what RO lacks of a closed partition" if table.policy_values.get(ON_CLOSE) else ""
    yield (
        "why now",
        f"A slice is due when it holds an event up to {due}: the next run begins {format_duration(pace.every_ms)} from now and "
        f"ends {format_duration(pace.run_ms)} later, and by then such an event would be older than "
        f"{format_duration(pace.target_ms)} (`freshness.target`), or it has come late for the last threshold. What is unknown is "
        f"always due{closed}.{along if table.action == 'compact' else ''}",
    )


def stock_rows(table: TablePlan) -> Iterator[tuple[str, str]]:
    """The options by which Hudi's planner chooses the same slices."""
    label = "strategy"
    for key, value in table.stock_options.items():
        yield label, f"{key}={value}"
        label = ""
