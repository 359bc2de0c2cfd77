"""Which attempt follows which: each row of the table, and a run of `TableApply` against flags that are kept by hand."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etc_policy.api import table_apply
from etc_policy.api.attempts import OVERTAKEN_AT_MOST, Attempt, Outcome, Step, Tried, is_held_up, next_step
from etc_policy.api.table_apply import TableApply
from etc_policy.errors import OvertakenError, StalePlanError
from etc_policy.errors.codes import Code
from etc_policy.plan.model import SkippedSlices
from etc_policy.run.results import TableResult, timed
from tests.fakes import MemoryApplyStates
from tests.unit.plan.plan_cases import plan_of_case
from tests.unit.plan.states import POLICY

GOLDEN = Path(__file__).parents[2] / "golden" / "plans"
NAMED = {"policy": POLICY.name, "base_path": POLICY.table}
DUE = plan_of_case(GOLDEN / "slices_below_and_above").tables[0].model_copy(update=NAMED)
HELD_UP = plan_of_case(GOLDEN / "writer_in_flight_before_the_cut").tables[0].model_copy(update=NAMED)
GROUPS = [("p", "a"), ("p", "b"), ("q", "a")]


def stale(*, was_withdrawn=False):
    error = StalePlanError(Code.STALE_PLAN, "the table moved on")
    error.was_withdrawn = was_withdrawn
    return error


def overtaken(groups=(("p", "a"),), *, was_withdrawn=True):
    error = OvertakenError(Code.STALE_PLAN, "a writer was faster", frozenset(groups))
    error.was_withdrawn = was_withdrawn
    return error


WAS_STALE = Attempt(Outcome.STALE, Step.PLAN_AGAIN, stale())
WAS_STALE_ONCE_PUBLISHED = Attempt(Outcome.STALE, Step.PLAN_AGAIN, stale(was_withdrawn=True))
WAS_OVERTAKEN = Attempt(Outcome.OVERTAKEN_BY_WRITERS, Step.PLAN_AGAIN, overtaken())
WAS_OVERTAKEN_BEFORE = Attempt(Outcome.OVERTAKEN_BY_WRITERS, Step.PLAN_AGAIN, overtaken(was_withdrawn=False))
WAS_SPOILED = Attempt(Outcome.STALE, Step.PLAN_AGAIN, overtaken(()))
WAS_HELD_UP = Attempt(Outcome.HELD_UP, Step.HOLD)
HAS_WAITED = Attempt(Outcome.REFUSED, Step.AWAIT_WRITERS)


@pytest.mark.parametrize(
    ("outcome", "before", "can_hold", "then", "then_at_last"),
    [
        (Outcome.HELD_UP, [], True, Step.HOLD, Step.HOLD),
        (Outcome.HELD_UP, [], False, Step.CARRY_OUT, Step.CARRY_OUT),
        (Outcome.HELD_UP, [WAS_HELD_UP], True, Step.CARRY_OUT, Step.CARRY_OUT),
        (Outcome.NO_MOMENT, [WAS_HELD_UP], True, Step.CARRY_OUT, Step.CARRY_OUT),
        (
            Outcome.NO_MOMENT,
            [Attempt(Outcome.OVERTAKEN_BY_WRITERS, Step.HOLD, overtaken())],
            True,
            Step.PLAN_AGAIN,
            Step.END,
        ),
        (Outcome.STALE, [], True, Step.PLAN_AGAIN, Step.END),
        (Outcome.STALE, [WAS_STALE], True, Step.HOLD, Step.HOLD),
        (Outcome.STALE, [WAS_OVERTAKEN], True, Step.HOLD, Step.HOLD),
        (Outcome.STALE, [WAS_STALE], False, Step.PLAN_AGAIN, Step.END),
        (Outcome.OVERTAKEN_BY_WRITERS, [], True, Step.HOLD, Step.HOLD),
        (Outcome.OVERTAKEN_BY_WRITERS, [WAS_HELD_UP], True, Step.PLAN_AGAIN, Step.END),
        (Outcome.REFUSED, [], True, Step.END, Step.END),
        (Outcome.REFUSED, [WAS_OVERTAKEN], True, Step.AWAIT_WRITERS, Step.END),
        (Outcome.REFUSED, [WAS_STALE], True, Step.END, Step.END),
        (Outcome.REFUSED, [WAS_STALE_ONCE_PUBLISHED], True, Step.AWAIT_WRITERS, Step.END),
        (Outcome.REFUSED, [WAS_OVERTAKEN_BEFORE], True, Step.AWAIT_WRITERS, Step.END),
        (Outcome.REFUSED, [WAS_SPOILED], True, Step.AWAIT_WRITERS, Step.END),
        (Outcome.REFUSED, [WAS_OVERTAKEN, HAS_WAITED], True, Step.END, Step.END),
        (Outcome.WRITTEN_BESIDE, [], True, Step.AWAIT_BESIDE, Step.END),
        (Outcome.WITHOUT_BUSY, [], True, Step.PLAN_WITH_BUSY, Step.END),
        (Outcome.DONE, [], True, Step.END, Step.END),
    ],
)
def test_a_row(outcome, before, can_hold, then, then_at_last):
    assert next_step(outcome, Tried(before, can_hold)) is then
    assert next_step(outcome, Tried(before, can_hold, is_last=True)) is then_at_last


def table_of(*, is_held, is_part):
    """A plan that writers hold up, or that leaves out what they keep adding to."""
    left_out = (SkippedSlices(reason="due_but_written_to", file_slices=1, log_files=1, log_bytes=1),)
    return (HELD_UP if is_held else DUE).model_copy(update={"left_out": left_out if is_part else ()})


def result_of(kind, groups):
    """What came of carrying a plan out; or its error."""
    if kind.startswith("stale"):
        raise stale(was_withdrawn="published" in kind)
    if kind.startswith("overtaken"):
        raise overtaken(groups, was_withdrawn="published" in kind)
    made = TableResult(
        policy=POLICY.name,
        base_path=POLICY.table,
        status="refused" if kind == "refused" else "compacted",
        **timed(0, 0),
    )
    return made.model_copy(update={"writes_beside": ("1",) if kind == "beside" else ()})


def groups_of(error):
    """What writers were faster with: nothing where a rollback or another schema forbade the commit."""
    return error.groups if isinstance(error, OvertakenError) else frozenset()


RESULTS = st.tuples(
    st.sampled_from(
        ["stale", "stale once published", "overtaken", "overtaken once published", "refused", "compacted", "beside"]
    ),
    st.frozensets(st.sampled_from(GROUPS)),
)
TABLES = st.builds(table_of, is_held=st.booleans(), is_part=st.booleans())
#: A plan, what comes of it as it is, and of one that is made between two writes, where there is a moment.
PLANS = st.tuples(TABLES, RESULTS, st.none() | st.tuples(TABLES, RESULTS))


@dataclass
class ByHand:
    """A run with a flag for each thing that happened."""

    busy: frozenset
    stale: bool = False
    held: bool = False
    waited: bool = False
    gave_way: bool = False
    leaves_busy: bool = False
    quiet: bool = False
    overtaken: list = field(default_factory=list)
    learned: frozenset = frozenset()
    calls: list = field(default_factory=list)

    def __post_init__(self):
        self.learned = self.busy

    def run(self, plan, *, last):
        try:
            done, table = self.carried_out(*plan)
        except StalePlanError as error:
            self.gave_way |= error.was_withdrawn or isinstance(error, OvertakenError)
            if groups := groups_of(error):
                self.overtaken.append(groups)
                self.leaves_busy = True
            self.busy = frozenset()
            return not last
        if not last and not self.waited and self.gave_way and done.status == "refused" and is_held_up(table):
            self.waited = True
            self.calls.append("await writers")
            return True
        self.leaves_busy = done.status == "refused" or bool(table.left_out)
        if not last and done.writes_beside:
            self.calls.append("await beside")
            return True
        if not last and self.busy and self.leaves_busy and done.status == "compacted":
            self.busy, self.quiet = frozenset(), True
            return True
        return False

    def carried_out(self, table, result, between):
        if is_held_up(table) and (found := self.between(between)):
            return found
        self.calls.append("apply")
        try:
            return result_of(*result), table
        except StalePlanError as error:
            again, self.stale = self.stale or bool(groups_of(error)), True
            self.learned |= groups_of(error)
            found = self.between(between) if again else None
            if found is None:
                raise
            return found

    def between(self, between):
        if self.held or self.busy:
            return None
        self.held = True
        self.calls.append("hold")
        return between and (result_of(*between[1]), between[0])

    def leaves_out(self):
        named = frozenset() if len(self.overtaken) < OVERTAKEN_AT_MOST else frozenset().union(*self.overtaken)
        return named | self.busy, len(self.overtaken) > OVERTAKEN_AT_MOST

    def left_busy(self):
        return self.learned.union(*self.overtaken) if self.leaves_busy else frozenset()


class Played:
    """An environment and its runner, for whom the results are given."""

    def __init__(self):
        self.result, self.between, self.calls, self.apply_states = None, None, [], MemoryApplyStates()

    def runner(self, _):
        return self

    def progress(self, _):
        pass

    def read_state(self, _):
        return SimpleNamespace(writes_in_flight=())

    def apply(self, *_):
        self.calls.append("apply")
        return result_of(*self.result)

    def apply_between_writes(self, *_):
        self.calls.append("hold")
        return self.between and (result_of(*self.between[1]), self.between[0])


@pytest.fixture(scope="module")
def played():
    environment = Played()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(table_apply, "require_same_table", lambda *_: None)
        patched.setattr(table_apply, "await_writes", lambda *_: environment.calls.append("await beside"))
        patched.setattr(table_apply, "await_ends", lambda *_: environment.calls.append("await writers"))
        patched.setattr(TableApply, "_add", lambda run, done, table=None: setattr(run, "result", done))
        patched.setattr(TableApply, "fail", lambda *_: None)
        yield environment


def left_busy(run):
    """The file groups that the next run begins without."""
    run.result = run.result or result_of("compacted", ())
    run.conclude()
    return frozenset(run.environment.apply_states.read(POLICY.table).busy)


@settings(max_examples=300, deadline=None)
@given(plans=st.lists(PLANS, min_size=1, max_size=4), busy=st.frozensets(st.sampled_from(GROUPS), max_size=2))
def test_a_run_does_what_flags_say(played, plans, busy):
    by_hand, run = ByHand(busy), TableApply(played, POLICY, 0, busy=busy, _busy_before=busy)
    played.calls = []
    for number, plan in enumerate(plans, 1):
        table, played.result, played.between = plan
        last = number == len(plans)
        goes_on = by_hand.run(plan, last=last)
        of_all = SimpleNamespace(tables=[table], plan_id="plan")
        assert run.run(of_all, plan_anew=lambda _: None, is_last=last) == goes_on
        assert played.calls == by_hand.calls
        assert (run.leaves_out.groups, run.leaves_out.all_deletes) == by_hand.leaves_out()
        assert (run.busy, left_busy(run)) == (by_hand.busy, by_hand.left_busy())
        assert (run.first_result is not None) == by_hand.quiet
        if not goes_on:
            return
