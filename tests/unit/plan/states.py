"""A small table and a plan for it, for tests of what happens to plans after they were made."""

from dataclasses import replace

from etc_policy.plan.builder import build_table_plan
from etc_policy.policy.manifest import EventTime, Policy, Strategy
from etc_policy.table.state import FileSlice, Instant
from tests.unit.plan.plan_cases import epoch_ms, instant, state_of

NOW = epoch_ms("12:00:00")
POLICY = Policy(
    name="orders_ro",
    table="/t",
    event_time=EventTime(column="ts"),
    data_latency_ms=3_600_000,
    strategy=Strategy(granularity="log_file"),
)
STATE = state_of(
    "/t",
    {
        "slices": {
            "p/f1": {
                "base": "08:00:00",
                "logs": {
                    "L1": "10:10:00 > 10:10:05, event 10:05:00",
                    "L2": "11:20:00 > 11:20:05, event 11:15:00",
                },
            },
            "p/f2": {"base": "08:00:00", "logs": {"L3": "11:20:00 > 11:20:05, event 11:15:00"}},
        }
    },
)
PLAN = build_table_plan(POLICY, STATE, now_ms=NOW, clock_ms=NOW)
C = PLAN.instant


def with_instant(state, requested, action, *, completed=None, touched=None, pending="inflight"):
    """The state with one more instant."""
    done = "completed" if completed else pending
    one = Instant(
        instant(requested),
        action,
        done,
        instant(completed) if completed else None,
        None if touched is None else frozenset(touched),
    )
    return replace(state, instants=(*state.instants, one))


def with_slice(state, file_id, **changes):
    """The state with one slice changed."""
    slices = tuple(replace(s, **changes) if s.file_id == file_id else s for s in state.slices)
    return replace(state, slices=slices)


def slice_of(state, file_id) -> FileSlice:
    return next(one for one in state.slices if one.file_id == file_id)
