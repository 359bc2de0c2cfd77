"""Just in time over days of random writes: the target is never missed, nothing is compacted that could wait, no claim is false.

The oracle knows the true event times and counts; it knows nothing of how the planner chooses.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from etc_policy.plan import pace, planning_context
from etc_policy.plan.pace import Pace
from tests.nightly import HISTORIES
from tests.property.day import DAY, MINUTE, START, Day, Promise, Run, live, write

DAYS = settings(
    max_examples=max(10, HISTORIES // 100), derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
#: (seed, promise): a target that has room, and now and then none to spare.
PROMISES = st.builds(
    lambda latency, every, run, spare, whole: Promise(
        latency=latency * MINUTE,
        target=(latency + every + spare) * MINUTE + run * 1_000,
        every=every * MINUTE,
        longest_run=run * 1_000,
        granularity="file_slice" if whole else "log_file",
    ),
    latency=st.sampled_from((1, 5, 30, 120)),
    every=st.sampled_from((15, 20, 60)),
    run=st.sampled_from((2, 60, 600)),
    spare=st.sampled_from((0, 1, 15, 60, 240)),
    whole=st.booleans(),
)


def check_target(day: Day) -> None:
    """At no moment is RO further behind than the target; at the very moment at which a run ends it counts as before it."""
    for one in day.writes:
        if one.completed < day.ended:
            behind = day.reached.get(one, day.ended) - (one.event - 1)
            assert behind <= day.promise.target, f"RO was {behind} ms behind for want of {one}"


def check_claims(day: Day) -> None:
    """What a plan says that RO will hold it holds, and no plan takes back what one before it said."""
    published = 0
    for run in day.runs:
        assert run.plan.action != "refused", run.plan.reason
        left = [one for one in day.outstanding(run) if day.reached.get(one, day.ended + 1) > run.ended]
        assert all(one.event > run.plan.threshold_ms for one in left if one.known), "T is later than what stays"
        assert run.plan.threshold_ms <= run.began - day.promise.latency, "T is later than what has arrived"
        if run.plan.action == "compact":
            assert run.plan.threshold_ms >= published, "T went back"
            published = run.plan.threshold_ms


def check_nothing_could_wait(day: Day) -> None:
    """Each slice that is compacted would have broken the target before the next run had ended, or nobody could know."""
    for run in day.runs:
        for operation in run.plan.operations:
            held = [one for one in day.outstanding(run) if one.group == operation.file_id]
            oldest = min(one.event for one in held if one.known or all(not other.known for other in held))
            next_ended = run.began + day.promise.every + day.promise.longest_run
            behind = next_ended - (oldest - 1)
            assert behind > day.promise.target or any(not one.known for one in held), f"{operation.file_id} could wait"


def check_all_that_arrived_comes_along(day: Day) -> None:
    """Of a slice that is compacted nothing stays that is known to have happened before now less the latency."""
    for run in day.runs:
        chosen = {operation.file_id for operation in run.plan.operations}
        for one in day.outstanding(run):
            if one.group in chosen and one.event <= run.began - day.promise.latency:
                assert day.reached.get(one) == run.ended, f"{one} was left behind"


def check_sleep(run: Run, day: Day) -> None:
    """Until the next slice falls due an interval passes at least, and nothing known breaks the target before a run has ended."""
    due = run.plan.next_due_ms
    assert due is not None
    assert due >= run.began + day.promise.every
    left = [one for one in day.outstanding(run) if day.reached.get(one, day.ended + 1) > run.ended and one.known]
    assert all(due + day.promise.longest_run - one.event <= day.promise.target for one in left), "it sleeps too long"


def lived(seed: int, promise: Promise) -> Day:
    source = random.Random(seed)
    writes = write(source, groups=source.randint(1, 12), latency=promise.latency, unknown=source.choice((0, 0.1)))
    return live(promise, writes, random.Random(seed))


@DAYS
@given(seed=st.integers(0, 2**32), promise=PROMISES)
def test_a_day_just_in_time(seed: int, promise: Promise) -> None:
    day = lived(seed, promise)
    check_target(day)
    check_claims(day)
    check_nothing_could_wait(day)
    check_all_that_arrived_comes_along(day)
    for run in day.runs:
        check_sleep(run, day)


@pytest.mark.extended
@DAYS
@given(seed=st.integers(0, 2**32), promise=PROMISES)
def test_it_rewrites_no_more_than_always_due(seed: int, promise: Promise) -> None:
    # For `file_slice` this can be proved. A cut at `log_file` may merge by chance what another would have merged with it.
    day, always = lived(seed, promise), lived(seed, replace(promise, just_in_time=False))
    check_claims(always)
    assert day.bytes_rewritten <= always.bytes_rewritten


@DAYS
@given(seed=st.integers(0, 2**32), promise=PROMISES)
def test_a_scheduler_that_sleeps_until_the_next_is_due_misses_nothing(seed: int, promise: Promise) -> None:
    day = lived(seed, replace(promise, sleeps=True))
    check_target(day)
    check_claims(day)
    assert len(day.runs) <= DAY // promise.every


@pytest.mark.parametrize("seed", range(6))
def test_under_a_clock_that_jumps_back_no_claim_is_false_and_none_is_taken_back(seed: int) -> None:
    """Runs every 20 seconds, by a clock that is up to 59 seconds behind at some of them."""
    assert _claims_under_jumps(seed) > 10


def test_a_claim_that_goes_back_with_the_clock_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "_JUMP_MS", 0)
    with pytest.raises(AssertionError, match="T went back"):
        for seed in range(6):
            _claims_under_jumps(seed)


def _claims_under_jumps(seed: int) -> int:
    """How many compactions there were, none of which claims too much or less than the one before."""
    promise = Promise(5 * MINUTE, 6 * MINUTE, MINUTE // 3, 2_000, "file_slice" if seed % 2 else "log_file")
    writes = write(random.Random(seed), 6, promise.latency, gap=MINUTE, unknown=0.02)
    jumps = random.Random(seed)
    day = live(
        promise, writes, random.Random(seed), clock=lambda now: now - jumps.choice((0, 1, 59_000)), length=90 * MINUTE
    )
    check_claims(day)
    return sum(run.plan.action == "compact" for run in day.runs)


def test_every_five_minutes() -> None:
    """A day of 287 runs; with an hour to spare most of them start nothing, and much less is rewritten."""
    promise = Promise(30 * MINUTE, 96 * MINUTE, 5 * MINUTE, MINUTE, "file_slice")
    writes = write(random.Random(1), groups=40, latency=promise.latency, unknown=0)
    day = live(promise, writes, random.Random(1))
    always = live(replace(promise, just_in_time=False), writes, random.Random(1))
    check_target(day)
    check_nothing_could_wait(day)
    assert day.runs[0].began == START + 5 * MINUTE
    assert len(day.runs) == 288
    assert day.bytes_rewritten < 0.8 * always.bytes_rewritten
    assert sum(run.plan.action == "compact" for run in day.runs) < sum(r.plan.action == "compact" for r in always.runs)


RIGHT = Pace.due_up_to_ms
MUTATIONS = {
    "one interval too late": lambda self, now, latency: RIGHT(self, now, latency) - self.every_ms,
    "without the run's length": lambda self, now, latency: RIGHT(self, now, latency) - self.run_ms,
    "a millisecond too late": lambda self, now, latency: RIGHT(self, now, latency) - 1,
    "one interval too early": lambda self, now, latency: min(RIGHT(self, now, latency) + self.every_ms, now - latency),
    "a millisecond too early": lambda self, now, latency: min(RIGHT(self, now, latency) + 1, now - latency),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_wrong_bound_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pace, "due_up_to_ms", MUTATIONS[name])
    assert _broken()


def test_right_bounds_break_nothing() -> None:
    assert not _broken()


def test_a_claim_as_if_nothing_waited_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning_context, "threshold_in_time", lambda _pace, _state, now, latency, _: now - latency)
    assert _broken()


class Longest(random.Random):
    """Every run takes as long as it may."""

    def randint(self, a: int, b: int) -> int:
        return b


def _broken() -> bool:
    """Whether some day breaks a promise; the writes have events at the very bounds."""
    promise = Promise(30 * MINUTE, 96 * MINUTE, 15 * MINUTE, MINUTE, "log_file")
    for seed in range(8):
        writes = write(random.Random(seed), 4, promise.latency, unknown=0)
        whole = tuple(replace(one, event=-(-one.event // MINUTE) * MINUTE + n % 2) for n, one in enumerate(writes))
        day = live(promise, whole, Longest())
        try:
            check_target(day)
            check_claims(day)
            check_nothing_could_wait(day)
        except AssertionError:
            return True
    return False
