"""What a compaction is expected to write, learned from earlier ones, and what a budget makes of it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.derivation import find_underived
from etc_policy.plan.explainer import explain_plan
from etc_policy.plan.model import make_plan
from etc_policy.table.write_growth import MergedSlice, WriteGrowth, bytes_to_write, learned_from
from tests.unit.plan.states import NOW, POLICY, STATE

SIZES = st.integers(0, 10**12)
MERGED = st.builds(MergedSlice, SIZES, SIZES, SIZES)


@pytest.mark.parametrize(
    ("compactions", "learned"),
    [
        ([], None),
        ([[]], None),
        ([[MergedSlice(100, 0, 100)], [MergedSlice(100, 10, 0)]], None),
        ([[MergedSlice(100, 10, 105)]], WriteGrowth(compactions=1, onto_base=0.5)),
        ([[MergedSlice(100, 10, 95)], []], WriteGrowth(compactions=1, onto_base=-0.5)),
        ([[MergedSlice(100, 10, 1)]], WriteGrowth(compactions=1, onto_base=-1.0)),
        ([[MergedSlice(0, 40, 10)]], WriteGrowth(compactions=1, without_base=0.25)),
        (
            [[MergedSlice(100, 10, 130), MergedSlice(0, 8, 2)], [MergedSlice(100, 90, 100)]],
            WriteGrowth(compactions=2, onto_base=0.3, without_base=0.25),
        ),
    ],
)
def test_learned(compactions, learned):
    assert learned_from(compactions) == learned


@pytest.mark.parametrize(
    ("growth", "base_bytes", "log_bytes", "expected"),
    [
        (None, 100, 10, 100),
        (None, 0, 10, 10),
        (WriteGrowth(compactions=1, onto_base=0.5), 100, 10, 105),
        (WriteGrowth(compactions=1, onto_base=0.5), 0, 10, 10),
        (WriteGrowth(compactions=1, without_base=0.25), 0, 40, 10),
        (WriteGrowth(compactions=1, without_base=0.25), 100, 40, 100),
        (WriteGrowth(compactions=1, onto_base=-1.0), 10, 40, 0),
    ],
)
def test_expected(growth, base_bytes, log_bytes, expected):
    assert bytes_to_write(growth, base_bytes, log_bytes) == expected


@given(st.lists(MERGED), SIZES, SIZES, SIZES)
def test_who_reads_more_never_reads_and_writes_less(merged, base_bytes, log_bytes, more):
    growth = learned_from([merged])
    less = log_bytes + bytes_to_write(growth, base_bytes, log_bytes)
    assert 0 <= less <= log_bytes + more + bytes_to_write(growth, base_bytes, log_bytes + more)


@given(st.integers(1, 10**9), st.integers(1, 10**9), st.integers(1, 10**9))
def test_the_same_compaction_again_is_expected_to_write_what_it_wrote(base_bytes, log_bytes, written):
    """But for the digits that are kept of a ratio."""
    growth = learned_from([[MergedSlice(base_bytes, log_bytes, max(written, base_bytes - log_bytes))]])
    expected = bytes_to_write(growth, base_bytes, log_bytes)
    assert abs(expected - max(written, base_bytes - log_bytes)) <= log_bytes * 0.0001 + 1


class TestInAPlan:
    LEARNED = replace(STATE, write_growth=WriteGrowth(compactions=3, onto_base=2.0))

    def plan(self, state, **limits):
        policy = POLICY.model_copy(update={"strategy": POLICY.strategy.model_copy(update=limits)})
        return build_table_plan(policy, state, now_ms=NOW, clock_ms=NOW)

    def test_it_says_what_it_expects_and_from_how_many(self):
        plain, learned = self.plan(STATE), self.plan(self.LEARNED)
        grown = 2 * plain.operations[0].log_bytes_compacted
        assert learned.operations[0].bytes_written_estimate == plain.operations[0].bytes_written_estimate + grown
        assert "(learned from 3 compactions)" in explain_plan(make_plan("", (learned,)))
        assert "learned" not in explain_plan(make_plan("", (plain,)))

    def test_a_saved_plan_still_follows_where_others_have_taught_more_since(self):
        """A compaction beside it, or the archiving of an old one, changes what is learned."""
        table = self.plan(self.LEARNED)
        for growth in (None, WriteGrowth(compactions=4, onto_base=-0.5)):
            assert not list(find_underived(POLICY, table, replace(STATE, write_growth=growth), NOW))

    def test_a_budget_counts_what_was_learned(self):
        table = self.plan(STATE)
        taken = sum(one.bytes_read + one.bytes_written_estimate for one in table.operations)
        assert not self.plan(STATE, max_io_bytes=taken).warnings
        assert "alone" in " ".join(self.plan(self.LEARNED, max_io_bytes=taken).warnings)
