"""The order and the budget of many tables."""

from hypothesis import given
from hypothesis import strategies as st

from etc_policy.plan.fleet import Allowance, by_debt
from tests.unit.plan.states import PLAN

HOUR_MS = 3_600_000


def table(name, complete_until_ms):
    return PLAN.model_copy(update={"policy": name, "watermark_before_ms": complete_until_ms})


def test_who_breaks_its_target_first_goes_first():
    tables = [
        (table("late", 1_000), None),
        (table("soon", 5_000), 1_000),
        (table("broken", 100), 2_000),
        (table("later", 1_000), 9_000),
        (table("earlier", 500), None),
        (table("held by nothing", None), 0),
    ]
    names = ["broken", "soon", "later", "held by nothing", "earlier", "late"]
    assert [one.policy for one in by_debt(tables)] == names
    assert by_debt(tables) == by_debt(reversed(tables))


def test_an_allowance_comes_in_again():
    allowance = Allowance(100)
    assert allowance.ready_in_ms(0) == 0
    allowance.use(150, 0)
    waits_ms = allowance.ready_in_ms(0)
    assert HOUR_MS / 2 < waits_ms < HOUR_MS * 0.52
    assert allowance.ready_in_ms(waits_ms - 40_000) > 0
    assert allowance.ready_in_ms(waits_ms) == 0
    allowance.use(-10, waits_ms)  # what was taken too much
    assert allowance.ready_in_ms(waits_ms) == 0


def test_no_limit():
    allowance = Allowance(None)
    allowance.use(1e18, 0)
    assert allowance.ready_in_ms(0) == 0


@given(
    st.floats(1, 1e12),
    st.lists(st.tuples(st.integers(0, 4 * HOUR_MS), st.floats(0, 1e12)), max_size=50),
)
def test_over_time_no_more_is_used_than_comes_in(an_hour, uses):
    """But for what was there at the beginning, and one use that took more than was left; a clock may jump back."""
    allowance, used, now_ms, largest = Allowance(an_hour), 0.0, 0, 0.0
    for passed_ms, amount in uses:
        now_ms += passed_ms + allowance.ready_in_ms(now_ms + passed_ms)
        assert allowance.ready_in_ms(now_ms) == 0
        allowance.use(amount, now_ms)
        used, largest = used + amount, max(largest, amount)
    assert used <= (an_hour * (1 + now_ms / HOUR_MS) + largest) * (1 + 1e-9)
