"""The rounds of `etc run`: when a table is due again, and what the budget of all tables leaves out."""

from dataclasses import replace

import pytest

from etc_policy.api.running import LONGEST_WAIT_MS, Rounds
from etc_policy.plan.fleet import Allowance
from etc_policy.plan.model import make_plan
from etc_policy.policy.manifest import Strategy
from etc_policy.policy.schema import Done, Freshness, LearnedLatency, Sync
from etc_policy.run.results import SyncResult, TableResult
from etc_policy.table.apply_state import ApplyState, Misrecorded, Proof, Proofs, Unproven
from tests.unit.plan.states import PLAN, POLICY

EVERY_MS, HOUR_MS = 300_000, 3_600_000
AT = "2026-01-01T12:00:00Z"
IDLE = {"policy": "a", "action": "nothing_due", "watermark_before_ms": 2 * HOUR_MS, "unknown_log_files": 0}
SAME, CHANGED = ("one", ApplyState()), ("another", ApplyState())


def policy(name="a", **values):
    return POLICY.model_copy(update={"name": name, **values})


def planned(*tables):
    return make_plan(AT, [PLAN.model_copy(update=one) for one in tables], None)


def result(name="a", status="compacted", **values):
    times = {"started_at": AT, "completed_at": AT, "seconds": 1.0}
    return TableResult(policy=name, base_path="/t", status=status, **times, **values)


def names(policies):
    return [one.name for one in policies]


def test_a_table_sleeps_until_its_plan_says_that_it_is_due():
    rounds, one = Rounds(EVERY_MS), policy()
    assert names(rounds.due([one], 0)) == ["a"]
    assert rounds.chosen(planned({"policy": "a"}), [one], 0, {}) == ("a",)
    rounds.note([one], [result(next_due_ms=HOUR_MS)], 0, 60_000)
    assert rounds.due([one], HOUR_MS - 1) == ()
    assert rounds.next_ms(60_000) == 60_000 + EVERY_MS  # the files are read anew
    assert rounds.next_ms(HOUR_MS - 1) == HOUR_MS
    assert names(rounds.due([one], HOUR_MS)) == ["a"]
    idle = planned({"policy": "a", "action": "nothing_due", "next_due_ms": 2 * HOUR_MS})
    assert rounds.chosen(idle, [one], HOUR_MS, {}) == ()
    assert rounds.due([one], 2 * HOUR_MS - 1) == ()


def test_a_clock_that_was_set_back_makes_no_table_wait():
    """It was a day ahead when the table was planned."""
    rounds, one, state = Rounds(EVERY_MS), policy(), {"a": ("mark", ApplyState())}
    idle = {"policy": "a", "action": "nothing_due", "watermark_before_ms": 30 * HOUR_MS}
    assert names(rounds.due([one], 24 * HOUR_MS)) == ["a"]
    rounds.note([one], [result(status="nothing_due")], 24 * HOUR_MS, 24 * HOUR_MS)
    assert rounds.chosen(planned(idle), [one], 24 * HOUR_MS, state) == ()
    assert names(rounds.due([one], HOUR_MS)) == ["a"]
    assert names(rounds.to_plan([one], state, HOUR_MS)) == ["a"]
    assert rounds.chosen(planned(idle), [one], HOUR_MS, state) == ()
    assert rounds.due([one], HOUR_MS + EVERY_MS - 1) == ()


def test_a_policy_that_is_new_or_changed_is_due():
    rounds, one = Rounds(EVERY_MS), policy()
    rounds.note([one], [result(next_due_ms=HOUR_MS)], 0, 0)
    changed = policy(data_latency_ms=1)
    assert names(rounds.due([one, policy("b")], 1)) == ["b"]
    assert names(rounds.due([changed], 1)) == ["a"]
    for what in ({"done": Done(success_file="_SUCCESS")}, {"sync": Sync(ro_table="lake.a_ro")}):
        rounds.note([one], [result(next_due_ms=HOUR_MS)], 1, 1)
        assert rounds.due([policy(description="better said", source="a.yml:7:1")], 1) == ()
        assert names(rounds.due([policy(**what)], 1)) == ["a"]
    rounds.note([changed], [result(next_due_ms=HOUR_MS)], 1, 1)
    assert rounds.due([changed], 1) == ()


def test_a_table_is_seen_once_whatever_its_plan_says_and_events_are_sent_each_time():
    """A killed run may have left a compaction to finish or to verify."""
    idle = {"policy": "a", "action": "nothing_due", "next_due_ms": HOUR_MS}
    rounds, one = Rounds(EVERY_MS), policy()
    assert rounds.chosen(planned(idle), [one], 0, {}) == ("a",)
    rounds.note([one], [result(status="nothing_due", next_due_ms=HOUR_MS)], 0, 0)
    assert rounds.chosen(planned(idle), [one], 0, {}) == ()
    done = policy(done=Done(success_file="_SUCCESS"))
    rounds.note([done], [result(status="nothing_due", next_due_ms=HOUR_MS)], 0, 0)
    assert names(rounds.due([done], EVERY_MS)) == ["a"]
    assert rounds.chosen(planned(idle), [done], EVERY_MS, {}) == ("a",)


def test_a_table_that_fails_waits_longer_each_time():
    rounds, one = Rounds(EVERY_MS), policy()
    for waits_ms in (600_000, 1_200_000, 2_400_000, LONGEST_WAIT_MS, LONGEST_WAIT_MS):
        rounds.note([one], [result(status="failed")], 0, 1_000)
        assert rounds.due([one], 1_000 + waits_ms - 1) == ()
        assert names(rounds.due([one], 1_000 + waits_ms)) == ["a"]
    rounds.note([one], [result()], 0, 1_000)
    assert names(rounds.due([one], EVERY_MS)) == ["a"]
    rounds.note([one], [], 0, 1_000)  # it was begun and nothing is known of it
    assert rounds.due([one], 600_999) == ()


def test_what_the_catalog_did_not_take_is_recorded_though_nothing_is_due():
    """A catalog that does not answer makes no table wait longer for its next compaction."""
    rounds, one = Rounds(EVERY_MS), policy(sync=Sync(ro_table="db.t"))
    idle = planned({"policy": "a", "action": "nothing_due"})
    for status, names_chosen in (("failed", ("a",)), ("failed", ("a",)), ("synced", ())):
        rounds.note([one], [result(sync=SyncResult(policy="a", ro_table="db.t", status=status))], 0, 1_000)
        assert names(rounds.due([one], EVERY_MS)) == ["a"]
        assert rounds.chosen(idle, [one], EVERY_MS, {}) == names_chosen
        assert not rounds.is_failing


DOUBT = Unproven("", "its verification failed", "fail")


@pytest.mark.parametrize(
    ("notes", "takes_back"),
    [
        ({"unproven": (DOUBT,)}, True),
        ({"unproven": (replace(DOUBT, verification="running"),)}, False),
        ({"misrecorded": (Misrecorded("p/.f.log.1", 9, 2, 1),)}, True),
        ({"proofs": Proofs("", ())}, True),
        ({"proofs": Proofs("", (Proof(level="logs", until_ms=1, proved_at_ms=1),))}, False),
        ({"run_ms": 1}, False),
    ],
)
def test_a_table_is_due_once_what_is_kept_beside_it_takes_back_what_the_catalog_says(notes, takes_back):
    rounds, one, idle = Rounds(EVERY_MS), policy(sync=Sync(ro_table="db.t")), planned({**IDLE})
    asleep = result(status="nothing_due", next_due_ms=9 * HOUR_MS)
    rounds.take_back([one], {"a": SAME}, 0)
    rounds.note([one], [asleep], 0, 0)
    noted = {"a": ("one", replace(SAME[1], **notes))}
    rounds.take_back([one], noted, EVERY_MS)
    assert names(rounds.due([one], EVERY_MS)) == ["a"] * takes_back
    assert rounds.chosen(idle, [one], EVERY_MS, noted) == ("a",) * takes_back
    unanswered = SyncResult(policy="a", ro_table="db.t", status="failed")
    rounds.note([one], [asleep.model_copy(update={"sync": unanswered})], EVERY_MS, EVERY_MS)
    assert names(rounds.due([one], 2 * EVERY_MS)) == ["a"]
    assert names(rounds.to_plan([one], noted, 2 * EVERY_MS)) == ["a"]
    rounds.note([one], [asleep], 2 * EVERY_MS, 2 * EVERY_MS)
    rounds.take_back([one], noted, 3 * EVERY_MS)
    assert rounds.due([one], 3 * EVERY_MS) == ()


def test_a_table_that_fails_is_tried_no_sooner_for_what_is_found():
    rounds, one = Rounds(EVERY_MS), policy(sync=Sync(ro_table="db.t"))
    rounds.take_back([one], {"a": SAME}, 0)
    rounds.note([one], [result(status="failed")], 0, 0)
    rounds.take_back([one], {"a": ("one", ApplyState(unproven=(DOUBT,)))}, EVERY_MS)
    assert rounds.due([one], EVERY_MS) == ()


def test_who_breaks_its_target_first_goes_first_and_the_others_wait_for_the_budget():
    policies = [policy("a"), policy("b", freshness=Freshness(target_ms=HOUR_MS)), policy("c"), policy("d")]
    moved = sum(one.bytes_read + one.bytes_written_estimate for one in PLAN.operations)
    assert moved > 0
    rounds = Rounds(EVERY_MS, bytes_left=Allowance(moved))
    refused = {"policy": "d", "action": "refused", "reason_code": "x"}
    plan = planned({"policy": "a"}, {"policy": "b"}, {"policy": "c"}, refused)
    assert rounds.chosen(plan, policies, 0, {}) == ("b", "d")
    assert rounds.waiting == ("a", "c")
    rounds.note([policies[1], policies[3]], [result("b", bytes_read=3 * moved), result("d", status="refused")], 0, 0)
    assert names(rounds.due(policies, 1)) == ["a", "c"]
    assert rounds.next_ms(1) == 1 + EVERY_MS
    assert rounds.chosen(plan, policies, HOUR_MS, {}) == ("d",)
    assert rounds.chosen(plan, policies, 2 * HOUR_MS + 1_000, {})[0] == "b"


@pytest.mark.parametrize("written", [2**200, -(2**200)])
def test_what_a_commit_says_that_it_wrote_takes_no_budget_of_other_tables(written):
    """Any writer of the table may change its commits, and what is expected is learned from them."""
    policies, read = [policy("a"), policy("b")], 2**30
    rounds = Rounds(EVERY_MS, bytes_left=Allowance(20 * read))
    changed = {"bytes_written_estimate": written}
    grown = {"policy": "a", "operations": tuple(one.model_copy(update=changed) for one in PLAN.operations)}
    assert rounds.chosen(planned(grown, {"policy": "b"}), policies, 0, {}) == ("a", "b")
    rounds.note(policies, [result("a", bytes_read=read, bytes_written=written), result("b")], 0, 0)
    assert 11 * read <= rounds.bytes_left._left <= 19 * read


def test_minutes_count_as_bytes_do():
    one, two = policy("a"), policy("b")
    rounds = Rounds(EVERY_MS, ms_left=Allowance(60_000))
    assert rounds.chosen(planned({"policy": "a"}, {"policy": "b"}), [one, two], 0, {}) == ("a",)
    rounds.note([one], [result("a", run_seconds=30.0)], 0, 0)
    assert rounds.chosen(planned({"policy": "b"}), [two], 0, {}) == ("b",)


@pytest.mark.parametrize("jump_ms", [-HOUR_MS, -1])
def test_a_clock_that_jumps_back_stops_nothing(jump_ms):
    rounds, one = Rounds(EVERY_MS), policy()
    rounds.note([one], [result()], 0, 0)
    assert rounds.next_ms(jump_ms) <= jump_ms + EVERY_MS


def after_idling(one, **values):
    """Rounds that have found nothing due at 0, and have seen the table before."""
    rounds = Rounds(EVERY_MS)
    rounds.note([one], [result(status="nothing_due")], 0, 0)
    assert rounds.chosen(planned({**IDLE, **values}), [one], 0, {"a": SAME}) == ()
    return rounds


def test_a_table_that_has_not_changed_is_planned_again_once_something_left_is_due_or_after_an_hour():
    one = policy(data_latency_ms=HOUR_MS)
    rounds = after_idling(one)
    assert rounds.to_plan([one], {"a": SAME}, EVERY_MS) == ()
    assert rounds.due([one], 2 * EVERY_MS - 1) == ()
    assert names(rounds.to_plan([one], {"a": CHANGED}, EVERY_MS)) == ["a"]
    assert names(rounds.to_plan([one], {}, EVERY_MS)) == ["a"]
    for changed in ({"data_latency_ms": 1}, {"done": Done(success_file="_SUCCESS")}):
        assert names(rounds.to_plan([one.model_copy(update=changed)], {"a": SAME}, EVERY_MS)) == ["a"]
    assert names(rounds.to_plan([one], {"a": SAME}, LONGEST_WAIT_MS)) == ["a"]
    soon = after_idling(one, watermark_before_ms=-HOUR_MS + EVERY_MS)
    assert soon.to_plan([one], {"a": SAME}, EVERY_MS) == ()
    assert names(soon.to_plan([one], {"a": SAME}, EVERY_MS + 1)) == ["a"]
    assert after_idling(one, watermark_before_ms=None).to_plan([one], {"a": SAME}, EVERY_MS) == ()


@pytest.mark.parametrize(
    ("values", "plan"),
    [
        ({}, {"unknown_log_files": 1}),
        ({"strategy": Strategy(type="event_time", on_close=True)}, {}),
        ({"strategy": Strategy(type="log_file_size", min_log_bytes=1)}, {}),
        ({"learned_latency": LearnedLatency(quantile=0.9, at_least_ms=1, at_most_ms=2)}, {}),
    ],
)
def test_where_more_decides_than_known_times_each_round_plans(values, plan):
    one = policy(**values)
    assert names(after_idling(one, **plan).to_plan([one], {"a": SAME}, EVERY_MS)) == ["a"]
