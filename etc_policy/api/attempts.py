"""Which attempt follows which in the apply of one table: by what came of the last one, and by what was tried before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from etc_policy.errors import OvertakenError, StalePlanError
from etc_policy.plan.model import TablePlan
from etc_policy.plan.rules import is_by_writers
from etc_policy.plan.skipped_slices import ContendedSlices
from etc_policy.run.results import TableResult
from etc_policy.table.state import GroupKey

#: How often file slices may be overtaken before they are left out.
OVERTAKEN_AT_MOST = 2
#: Why writers leave a plan too little.
_BY_WRITERS = ("due_but_behind_a_writer", "due_but_written_to", "due_but_beyond_hold")


class Outcome(Enum):
    """What came of a plan."""

    HELD_UP = auto()  # not carried out yet: writers leave it no moment
    NO_MOMENT = auto()  # nor is there one between two writes
    STALE = auto()  # the table moved on: other files, another schema, a rollback
    OVERTAKEN_BY_WRITERS = auto()  # they added to file slices whose deletes were compacted
    REFUSED = auto()  # because of writers
    WRITTEN_BESIDE = auto()  # compacted, and writes began beside the commit
    WITHOUT_BUSY = auto()  # compacted, but for the busy file groups
    DONE = auto()  # any other result


class Step(Enum):
    """What follows."""

    CARRY_OUT = auto()
    HOLD = auto()  # another plan is made and carried out between two writes
    AWAIT_WRITERS = auto()  # and plan again
    AWAIT_BESIDE = auto()  # and plan again
    PLAN_WITH_BUSY = auto()
    PLAN_AGAIN = auto()
    END = auto()


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of a plan, and what follows: a result with the plan that it is of, or the error of a stale one."""

    outcome: Outcome
    then: Step
    error: StalePlanError | None = None
    done: TableResult | None = None
    table: TablePlan | None = None

    @property
    def ends_try(self) -> bool:
        """Whether the plan is not used any more."""
        return self.then not in (Step.CARRY_OUT, Step.HOLD)

    @property
    def overtaken(self) -> frozenset[GroupKey]:
        """The file groups that writers were faster with."""
        return _overtaken_by(self.error)

    @property
    def leaves_busy(self) -> bool | None:
        """Whether it left out what writers keep adding to; None where nothing tells."""
        if self.is_overtaken_try:
            return True
        if self.done is None or self.table is None or self.then is Step.AWAIT_WRITERS:
            return None
        return leaves_busy(self.done, self.table)

    @property
    def is_overtaken_try(self) -> bool:
        """Whether writers that were faster ended a try; a plan after which one is made between two writes is none."""
        return self.ends_try and bool(self.overtaken)

    @property
    def gives_way(self) -> bool:
        """Whether a try ended with its plan taken back, or for a write that would have overtaken it."""
        error = self.error
        return self.ends_try and (isinstance(error, OvertakenError) or (error is not None and error.was_withdrawn))


@dataclass(slots=True)
class Tried:
    """What was tried on the table in this run; attempts with another plan are added.

    `can_hold`: a plan can be made and carried out between two writes. No other plan follows after the `last` one of a run.
    """

    attempts: list[Attempt] = field(default_factory=list)
    can_hold: bool = False
    is_last: bool = False

    def steps(self, table: TablePlan) -> Iterator[Step]:
        """What is done with a plan, until it is not used any more: what came of a step is added before the next one."""
        if not is_held_up(table):
            yield Step.CARRY_OUT
        else:
            self.attempts.append(Attempt(Outcome.HELD_UP, next_step(Outcome.HELD_UP, self)))
        while not self.attempts[-1].ends_try:
            yield self.attempts[-1].then

    def add(self, found: tuple[TableResult, TablePlan] | None, *, without_busy: bool) -> None:
        """Add a result with the plan that it is of, which may be made `without_busy` file groups; None: there was no moment."""
        if found is None:
            then = next_step(Outcome.NO_MOMENT, self)
            self.attempts.append(replace(self.attempts[-1], outcome=Outcome.NO_MOMENT, then=then))
            return
        outcome = outcome_of(*found, without_busy=without_busy)
        self.attempts.append(Attempt(outcome, next_step(outcome, self), None, *found))

    @contextmanager
    def ended_by_stale_plan(self) -> Iterator[None]:
        """Around a step: that the plan does not fit its table any more is what came of it."""
        try:
            yield
        except StalePlanError as error:
            outcome = Outcome.OVERTAKEN_BY_WRITERS if _overtaken_by(error) else Outcome.STALE
            self.attempts.append(Attempt(outcome, next_step(outcome, self), error))

    @property
    def leaves_out(self) -> ContendedSlices:
        """What the next plan leaves out: nothing at first, then what was overtaken, then all that could be."""
        tries = [attempt.overtaken for attempt in self.attempts if attempt.is_overtaken_try]
        if len(tries) < OVERTAKEN_AT_MOST:
            return ContendedSlices()
        return ContendedSlices(frozenset().union(*tries), all_deletes=len(tries) > OVERTAKEN_AT_MOST)

    @property
    def is_held_up(self) -> bool:
        """Whether writers hold up the last plan of which there is a result."""
        ended = (attempt for attempt in reversed(self.attempts) if attempt.then is not Step.AWAIT_WRITERS)
        table = next((attempt.table for attempt in ended if attempt.table is not None), None)
        return table is not None and is_held_up(table)

    @property
    def left_busy(self) -> frozenset[GroupKey] | None:
        """The file groups that writers were faster with, where these are left out; None where nothing is."""
        tells = [leaves for attempt in self.attempts if (leaves := attempt.leaves_busy) is not None]
        if not (tells and tells[-1]):
            return None
        return frozenset().union(*(attempt.overtaken for attempt in self.attempts))

    def may_hold(self) -> bool:
        """Whether that is left to try: once in a run."""
        return self.can_hold and all(attempt.then is not Step.HOLD for attempt in self.attempts)

    def is_stale_again_and_may_hold(self) -> bool:
        """Whether a plan has been stale before, as the next one would be."""
        was_stale = any(attempt.outcome in (Outcome.STALE, Outcome.OVERTAKEN_BY_WRITERS) for attempt in self.attempts)
        return was_stale and self.may_hold()

    def was_held_up(self) -> bool:
        """Whether the plan at hand was not carried out yet."""
        return self.attempts[-1].outcome is Outcome.HELD_UP

    def gave_way_and_may_wait(self) -> bool:
        """Whether a plan of this run gave way: C of the next one lies behind the writes in flight, which are waited for once."""
        has_waited = any(attempt.then is Step.AWAIT_WRITERS for attempt in self.attempts)
        return not has_waited and any(attempt.gives_way for attempt in self.attempts)


def _overtaken_by(error: StalePlanError | None) -> frozenset[GroupKey]:
    """The file groups that writers added to meanwhile; nothing where a rollback or another schema ended the plan."""
    return error.groups if isinstance(error, OvertakenError) else frozenset()


def _always(_: Tried) -> bool:
    return True


#: The first row that fits says what follows.
_STEPS: tuple[tuple[Outcome, Callable[[Tried], bool], Step], ...] = (
    (Outcome.HELD_UP, Tried.may_hold, Step.HOLD),
    (Outcome.HELD_UP, _always, Step.CARRY_OUT),
    (Outcome.NO_MOMENT, Tried.was_held_up, Step.CARRY_OUT),
    (Outcome.NO_MOMENT, _always, Step.PLAN_AGAIN),
    (Outcome.STALE, Tried.is_stale_again_and_may_hold, Step.HOLD),
    (Outcome.STALE, _always, Step.PLAN_AGAIN),
    (Outcome.OVERTAKEN_BY_WRITERS, Tried.may_hold, Step.HOLD),
    (Outcome.OVERTAKEN_BY_WRITERS, _always, Step.PLAN_AGAIN),
    (Outcome.REFUSED, Tried.gave_way_and_may_wait, Step.AWAIT_WRITERS),
    (Outcome.REFUSED, _always, Step.END),
    (Outcome.WRITTEN_BESIDE, _always, Step.AWAIT_BESIDE),
    (Outcome.WITHOUT_BUSY, _always, Step.PLAN_WITH_BUSY),
    (Outcome.DONE, _always, Step.END),
)


def next_step(outcome: Outcome, tried: Tried) -> Step:
    """What follows on an outcome."""
    step = next(step for of, fits, step in _STEPS if of is outcome and fits(tried))
    return step if not tried.is_last or step in (Step.CARRY_OUT, Step.HOLD) else Step.END


def outcome_of(done: TableResult, table: TablePlan, *, without_busy: bool) -> Outcome:
    """What a result is; `without_busy`: the plan was made without the busy file groups."""
    if done.status == "refused" and is_held_up(table):
        return Outcome.REFUSED
    if done.writes_beside:
        return Outcome.WRITTEN_BESIDE
    is_part = without_busy and done.status == "compacted" and leaves_busy(done, table)
    return Outcome.WITHOUT_BUSY if is_part else Outcome.DONE


def is_held_up(table: TablePlan) -> bool:
    """Whether writers, or their rollbacks, refuse a plan, or leave it too little for RO to come further."""
    if table.action != "compact":
        rolls_back = table.pending is not None and table.pending.action == "rollback"
        return table.action == "refused" and (is_by_writers(table.reason_code) or rolls_back)
    without = any(skipped.reason in _BY_WRITERS for skipped in table.left_out)
    before_ms, after_ms = table.watermark_before_ms, table.watermark_after_ms
    return without and before_ms is not None and after_ms is not None and after_ms <= before_ms


def leaves_busy(done: TableResult, table: TablePlan) -> bool:
    """Whether a plan was refused, or left out what writers keep adding to."""
    reasons = {skipped.reason for skipped in table.left_out}
    return done.status == "refused" or not reasons.isdisjoint(("due_but_written_to", "due_but_beyond_hold"))
