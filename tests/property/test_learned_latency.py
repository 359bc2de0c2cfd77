"""A `data_latency` that is learned, over random histories: it is in its bounds, and T never goes back, whatever is learned."""

from dataclasses import replace
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.derivation import find_underived
from etc_policy.policy.schema import LearnedLatency
from etc_policy.table.history import GroupWrite
from etc_policy.table.instants import instant_from_ms
from etc_policy.table.state import CompactionRecord
from etc_policy.table.watermark import completeness_of
from etc_policy.verify.latency import FEWEST_WRITES, learn_latency
from tests.nightly import HISTORIES
from tests.past import history_of
from tests.unit.plan.states import NOW, POLICY, STATE

MINUTE, UTC = 60_000, ZoneInfo("UTC")


def days(late, least, most):
    """Writes, each with the minutes since the one before, how late it is (None: nobody knows), and whether a run follows."""
    return st.lists(
        st.tuples(st.integers(0, 30), st.one_of(st.none(), late, late), st.booleans()), min_size=least, max_size=most
    )


#: Days on which little is late, and then much.
WRITES = st.builds(lambda calm, late: calm + late, days(st.integers(0, 10), 15, 50), days(st.integers(0, 600), 5, 20))
LEARNED = st.builds(
    lambda quantile, least, more: LearnedLatency(
        quantile=quantile, at_least_ms=least * MINUTE, at_most_ms=(least + more) * MINUTE
    ),
    quantile=st.sampled_from((0.5, 0.9, 0.999, 1)),
    least=st.integers(0, 60),
    more=st.integers(0, 400),
)


@settings(max_examples=max(20, HISTORIES // 20), derandomize=True, database=None, deadline=None)
@given(WRITES, LEARNED)
def test_t_never_goes_back_and_what_is_learned_is_in_its_bounds(writes_and_runs, learned):
    now_ms, published_ms, until_ms, writes, state = NOW, None, None, [], replace(STATE, slices=())
    policy = POLICY.model_copy(update={"learned_latency": learned, "data_latency_ms": learned.at_most_ms})
    for gap, late, runs in writes_and_runs:
        now_ms += gap * MINUTE
        at = instant_from_ms(now_ms, UTC)
        event_ms = None if late is None else now_ms - late * MINUTE
        writes.append(GroupWrite(at, at, "p", "f", event_ms, event_ms is not None, 1))
        if not runs:
            continue
        latency_ms, evidence = learn_latency(history_of(tuple(writes)), learned, now_ms)
        assert learned.at_least_ms <= latency_ms <= learned.at_most_ms
        assert evidence.writes == 0 or evidence.writes >= FEWEST_WRITES
        assert evidence.writes or latency_ms == learned.at_most_ms
        evidence = evidence.model_copy(update={"promised_ms": published_ms})
        now = policy.model_copy(update={"data_latency_ms": latency_ms, "latency_evidence": evidence})
        table = build_table_plan(now, state, now_ms=now_ms, clock_ms=now_ms)
        complete = completeness_of(state, now, now_ms).until_ms
        assert table.policy_fingerprint == policy.fingerprint
        assert find_underived(policy, table, state, now_ms) == ()
        assert table.threshold_ms >= max(published_ms or 0, now_ms - latency_ms)
        assert table.threshold_ms in (published_ms, now_ms - latency_ms)
        assert complete >= max(until_ms or 0, published_ms or 0)
        published_ms, until_ms = table.threshold_ms, complete
        state = replace(state, last_compaction=CompactionRecord(at, at, published_ms, POLICY.name, "x"))
