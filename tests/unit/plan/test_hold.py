"""How much is compacted while writers are kept out: as much as fits, and what was too long once is less the next time."""

from hypothesis import given
from hypothesis import strategies as st

from etc_policy.plan.hold import MAX_HOLD_BYTES, hold_bytes, next_hold_bytes, plan_bytes, slice_bytes, within_hold
from tests.unit.plan.states import PLAN

HOLD_MS = 30_000
MIB = 2**20


def test_what_is_not_known_begins_with_the_time_that_there_is():
    assert hold_bytes(None, HOLD_MS) == 240 * MIB
    assert hold_bytes(5, HOLD_MS) == 5


def test_a_small_slice_counts_as_much_as_its_task():
    assert slice_bytes(1, 1) == 8 * MIB
    assert slice_bytes(6 * MIB, 7 * MIB) == 13 * MIB
    assert plan_bytes(PLAN.operations) == len(PLAN.operations) * 8 * MIB


class TestNext:
    def test_too_long_is_less_next_time(self):
        assert next_hold_bytes(100, 100, 2 * HOLD_MS, HOLD_MS) == 37

    def test_short_is_more_next_time(self):
        assert next_hold_bytes(100, 100, HOLD_MS // 4, HOLD_MS) == 300

    def test_in_time_is_never_less(self):
        """Little was due."""
        assert next_hold_bytes(100, 1, HOLD_MS, HOLD_MS) == 100

    def test_a_clock_that_stood_still_gives_a_number(self):
        assert next_hold_bytes(1, MAX_HOLD_BYTES, 0, HOLD_MS) == MAX_HOLD_BYTES


@given(
    st.floats(min_value=0, max_value=HOLD_MS * 0.7),
    st.integers(min_value=1, max_value=200),
    st.floats(min_value=0.01, max_value=100),
    st.integers(min_value=8, max_value=1000),
)
def test_holds_come_to_fit_and_stay_long(overhead_ms, slices, ms_per_mib, slice_mib):
    """Each hold takes the same slices again, after a time that all have in common."""
    known, took_ms = None, 0.0
    for _ in range(60):
        limit = hold_bytes(known, HOLD_MS)
        count = len(within_hold(tuple(range(slices)), limit, lambda _: slice_mib * MIB))
        took_ms = overhead_ms + count * slice_mib * ms_per_mib
        known = next_hold_bytes(limit, count * slice_mib * MIB, int(took_ms), HOLD_MS)
    assert took_ms <= HOLD_MS or count == 1
    assert count == slices or took_ms * (count + 1) / count > HOLD_MS * 0.7


@given(st.lists(st.integers(1, 50), min_size=1, max_size=9), st.integers(0, 200), st.integers(0, 9))
def test_as_many_as_fit_in_their_order(sizes, limit, must):
    slices = tuple(enumerate(sizes))
    first = slices[:must]
    kept = within_hold(slices, limit, lambda one: one[1], first)
    assert kept == slices[: len(kept)]
    assert len(kept) >= max(len(first), 1)
    if len(kept) > max(len(first), 1):
        assert sum(size for _, size in kept) <= limit
    if len(kept) < len(slices):
        assert sum(size for _, size in slices[: len(kept) + 1]) > limit
