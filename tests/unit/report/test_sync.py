"""What an RO table's properties say: never more than was verified, and always of the last completed compaction."""

from dataclasses import replace

import pytest

from etc_policy.policy.manifest import EventTime, Policy
from etc_policy.report.freshness import table_freshness, unreadable
from etc_policy.report.sync import (
    COMPLETE_UNTIL,
    COMPLETE_UNTIL_LEVEL,
    COMPLETE_UNTIL_PROVED_AT,
    INSTANT,
    POLICY,
    STATUS,
    THRESHOLD,
    VERIFIED_AT,
    VERIFIED_LEVEL,
    Verdict,
    changes_between,
    complete_until,
    ro_properties,
    verdict_of,
)
from etc_policy.run.results import TableResult
from etc_policy.table.apply_state import Proof
from etc_policy.table.state import CompactionRecord
from etc_policy.verify.ports import Verification
from tests.unit.plan.plan_cases import epoch_ms, instant, state_of

NOW = epoch_ms("12:00:00")
T = epoch_ms("11:00:00")
ORDERS = Policy(name="orders_ro", table="/t", event_time=EventTime(column="ts"), data_latency_ms=600_000)
TABLE = {"slices": {"p/f1": {"base": "08:00:00", "logs": {"L1": "11:40:00 > 11:40:05, event 11:25:00"}}}}
RECORD = CompactionRecord(instant("11:10:00"), instant("11:10:30"), T, "orders_ro", "x")
STATE = replace(state_of("/t", TABLE), last_compaction=RECORD)
FACTS = {
    THRESHOLD: str(T),
    INSTANT: RECORD.instant,
    POLICY: "orders_ro",
    COMPLETE_UNTIL: str(epoch_ms("11:25:00") - 1),
    COMPLETE_UNTIL_LEVEL: "metadata",
    COMPLETE_UNTIL_PROVED_AT: "2026-01-01T12:00:00.000Z",
}
PASSED = Verdict("pass", "data", T, RECORD.instant, "2026-01-01T11:11:00.000Z")
VERIFIED = {STATUS: "verified", VERIFIED_AT: PASSED.verified_at, VERIFIED_LEVEL: "data"}


def properties(verdict=None, before=None, state=STATE, now=NOW):
    return ro_properties(ORDERS, state, table_freshness(ORDERS, state, now, NOW), verdict, before or {})


class TestStatus:
    def test_verified(self):
        assert properties(PASSED) == {**FACTS, **VERIFIED}

    def test_a_warning_is_no_failure(self):
        assert properties(replace(PASSED, status="warn"))[STATUS] == "verified"

    def test_failed_promises_no_completeness(self):
        found = properties(replace(PASSED, status="fail"))
        assert found[STATUS] == "failed"
        assert COMPLETE_UNTIL not in found
        assert found[THRESHOLD] == str(T)

    @pytest.mark.parametrize("status", ["error", "skipped"])
    def test_what_could_not_be_checked_is_unverified(self, status):
        assert properties(replace(PASSED, status=status)) == {**FACTS, STATUS: "unverified"}

    def test_nothing_known_is_unverified(self):
        assert properties() == {**FACTS, STATUS: "unverified"}

    def test_a_verdict_over_another_compaction_does_not_count(self):
        other = replace(PASSED, instant=instant("10:00:00"))
        assert properties(other) == {**FACTS, STATUS: "unverified"}

    def test_an_earlier_verdict_over_the_same_compaction_is_kept(self):
        assert properties(before={**FACTS, **VERIFIED}) == {**FACTS, **VERIFIED}

    def test_of_an_earlier_compaction_nothing_is_kept(self):
        before = {**FACTS, **VERIFIED, INSTANT: instant("10:00:00")}
        assert properties(before=before) == {**FACTS, STATUS: "unverified"}

    def test_nor_of_one_at_the_same_instant_with_another_threshold(self):
        """One that was rolled back and planned anew may have it, and so may that of another table under the same name."""
        before = {**FACTS, **VERIFIED, THRESHOLD: str(T - 1)}
        assert properties(before=before) == {**FACTS, STATUS: "unverified"}

    def test_nor_of_one_with_both_that_was_taken_back_before_this_one_completed(self):
        """A boundary of `strategy.at` is published once more after a restore, at the same instant."""
        earlier = "2026-01-01T11:00:00.000Z"
        assert properties(before={**FACTS, **VERIFIED, VERIFIED_AT: earlier}) == {**FACTS, STATUS: "unverified"}
        assert properties(replace(PASSED, verified_at=earlier)) == {**FACTS, STATUS: "unverified"}

    def test_a_status_that_somebody_set_without_a_time_is_not_believed(self):
        assert properties(before={**FACTS, STATUS: "verified"})[STATUS] == "unverified"

    def test_an_error_now_keeps_what_was_verified(self):
        broken = replace(PASSED, status="error", verified_at="2026-01-01T11:59:00.000Z")
        assert properties(broken, {**FACTS, **VERIFIED}) == {**FACTS, **VERIFIED}


class TestBesideTheTable:
    """What is kept there is of the latest verification: one by `etc verify`, or by a run of another machine."""

    FAILED = replace(PASSED, status="fail", verified_at="")
    LATER = replace(PASSED, level="logs", verified_at="2026-01-01T11:30:00.000Z")

    def said(self, beside, verdict=None, before=None):
        freshness = table_freshness(ORDERS, STATE, NOW, NOW)
        found = ro_properties(ORDERS, STATE, freshness, verdict, before or {}, beside)
        return {key: found[key] for key in (STATUS, VERIFIED_AT, VERIFIED_LEVEL, COMPLETE_UNTIL) if key in found}

    @pytest.mark.parametrize(("verdict", "before"), [(PASSED, {}), (None, {**FACTS, **VERIFIED}), (None, {})])
    def test_a_failure_outweighs_what_passed_before(self, verdict, before):
        assert self.said(self.FAILED, verdict, before) == {STATUS: "failed"}

    def test_when_it_failed_is_said_where_it_is_known(self):
        failed = replace(PASSED, status="fail")
        assert self.said(self.FAILED, failed) == {**VERIFIED, STATUS: "failed"}

    def test_one_that_passed_later_outweighs_a_failure(self):
        expected = {STATUS: "verified", VERIFIED_AT: self.LATER.verified_at, VERIFIED_LEVEL: "logs"}
        expected[COMPLETE_UNTIL] = FACTS[COMPLETE_UNTIL]
        for verdict, before in (
            (replace(PASSED, status="fail"), {}),
            (None, {**FACTS, **VERIFIED, STATUS: "failed"}),
            (None, {**FACTS, STATUS: "failed"}),
            (None, {}),
        ):
            assert self.said(self.LATER, verdict, before) == expected

    def test_one_that_passed_before_does_not(self):
        failed = replace(PASSED, status="fail", verified_at="2026-01-01T11:40:00.000Z")
        assert self.said(self.LATER, failed)[STATUS] == "failed"

    def test_what_is_verified_stays_as_it_is(self):
        assert self.said(self.LATER, PASSED)[VERIFIED_LEVEL] == "data"
        assert self.said(self.LATER, None, {**FACTS, **VERIFIED})[VERIFIED_LEVEL] == "data"

    def test_of_another_compaction_it_says_nothing(self):
        assert self.said(replace(self.FAILED, instant=instant("10:00:00")), PASSED)[STATUS] == "verified"


class TestPartOfTheRows:
    PART = replace(PASSED, partial=True)

    def test_is_not_all_of_them(self):
        assert properties(self.PART)[STATUS] == "partly_verified"

    def test_is_kept_as_such(self):
        before = {**FACTS, **VERIFIED, STATUS: "partly_verified"}
        assert properties(before=before) == before
        assert properties(PASSED, before)[STATUS] == "verified"

    def test_does_not_outweigh_all_rows(self):
        assert properties(self.PART, {**FACTS, **VERIFIED})[STATUS] == "verified"
        assert properties(self.PART, {**FACTS, **VERIFIED, STATUS: "failed"})[STATUS] == "failed"

    def test_that_fails_is_a_failure(self):
        assert properties(replace(self.PART, status="fail"), {**FACTS, **VERIFIED})[STATUS] == "failed"


class TestNothingDue:
    """A verification of metadata, after a run that had nothing to do; it is about no compaction of its own."""

    IDLE = Verdict("pass", "metadata", epoch_ms("11:50:00"), None, "2026-01-01T12:00:00.000Z")

    def test_counts_where_nothing_was_verified(self):
        found = properties(self.IDLE)
        assert (found[STATUS], found[VERIFIED_LEVEL], found[VERIFIED_AT]) == (
            "verified",
            "metadata",
            self.IDLE.verified_at,
        )

    def test_does_not_outweigh_the_data(self):
        assert properties(self.IDLE, {**FACTS, **VERIFIED}) == {**FACTS, **VERIFIED}

    def test_does_not_excuse_data_that_failed(self):
        before = {**FACTS, **VERIFIED, STATUS: "failed"}
        assert properties(self.IDLE, before)[STATUS] == "failed"

    def test_that_fails_outweighs_the_data(self):
        assert properties(replace(self.IDLE, status="fail"), {**FACTS, **VERIFIED})[STATUS] == "failed"

    def test_below_the_threshold_proves_nothing_about_it(self):
        assert properties(replace(self.IDLE, threshold_ms=T - 1))[STATUS] == "unverified"


class TestFacts:
    def test_completeness_advances_without_a_compaction(self):
        empty = replace(STATE, slices=())
        until = [properties(state=empty, now=NOW + later)[COMPLETE_UNTIL] for later in (0, 60_000)]
        assert until == [str(NOW - 600_000), str(NOW - 540_000)]

    def test_and_falls_with_late_data(self):
        late = {"slices": {"p/f1": {"base": "08:00:00", "logs": {"L1": "11:40:00 > 11:40:05, event 10:00:00"}}}}
        state = replace(state_of("/t", late), last_compaction=RECORD)
        assert properties(state=state)[COMPLETE_UNTIL] == str(epoch_ms("10:00:00") - 1)
        assert properties(state=state)[THRESHOLD] == str(T)

    def test_a_table_that_was_never_compacted_has_no_threshold(self):
        found = properties(state=replace(STATE, last_compaction=None), before={**FACTS, **VERIFIED})
        kept = {key: FACTS[key] for key in (COMPLETE_UNTIL, COMPLETE_UNTIL_LEVEL, COMPLETE_UNTIL_PROVED_AT)}
        assert found == {POLICY: "orders_ro", STATUS: "unverified", **kept}

    def test_what_proves_completeness_is_said_beside_it(self):
        proof = Proof(level="data", until_ms=epoch_ms("11:30:00"), proved_at_ms=epoch_ms("11:11:00"))
        found = ro_properties(ORDERS, STATE, table_freshness(ORDERS, STATE, NOW, NOW, None, (proof,)), PASSED, {})
        said = {COMPLETE_UNTIL_LEVEL: "data", COMPLETE_UNTIL_PROVED_AT: "2026-01-01T11:11:00.000Z"}
        assert found == {**FACTS, **VERIFIED, **said}

    def test_what_nobody_should_rely_on_is_not_published(self):
        found = ro_properties(ORDERS, STATE, unreadable(ORDERS, "what commits recorded is wrong"), None, {})
        assert not [key for key in found if key.startswith(COMPLETE_UNTIL)]

    def test_a_table_of_another_zone_has_no_completeness(self):
        found = ro_properties(ORDERS, STATE, table_freshness(ORDERS, STATE, NOW, epoch_ms("10:00:00")), None, {})
        assert COMPLETE_UNTIL not in found


def test_changes():
    changes = changes_between({"a": "1", "b": "2", "c": "3"}, {"b": "2", "c": "4", "d": "5"})
    assert (changes.remove, changes.put) == (("a",), {"c": "4", "d": "5"})
    assert not changes_between({"a": "1"}, {"a": "1"})


class TestVerdictOfARun:
    RUN = TableResult(
        policy="orders_ro",
        base_path="/t",
        status="compacted",
        instant="C",
        started_at="2026-01-01T12:00:00Z",
        completed_at="2026-01-01T12:00:09Z",
        seconds=1,
        verification=Verification(level="data", status="pass", threshold_ms=T),
    )

    def test_is_about_its_compaction(self):
        assert verdict_of(self.RUN) == Verdict("pass", "data", T, "C", "2026-01-01T12:00:09Z")

    def test_with_nothing_due_is_about_what_stands(self):
        assert verdict_of(self.RUN.model_copy(update={"status": "nothing_due"})).instant is None

    def test_after_a_failure_is_about_what_was_finished_before(self):
        failed = self.RUN.model_copy(update={"status": "failed", "resumed_instant": "B"})
        assert verdict_of(failed).instant == "B"

    def test_without_a_verification_is_none(self):
        assert verdict_of(self.RUN.model_copy(update={"verification": None})) is None


def test_no_run_claims_more_than_was_verified():
    """A plan that was refused, or failed, has a threshold too, beside the verdict over what was finished before it."""
    verified = TestVerdictOfARun.RUN.model_copy(update={"threshold_ms": T, "resumed_instant": "B"})
    assert complete_until(verified) == (T, "metadata")
    refused = verified.model_copy(update={"status": "refused", "threshold_ms": T + 3_600_000})
    assert complete_until(refused) == (T, "metadata")
    assert complete_until(refused.model_copy(update={"watermark_measured_ms": T - 1})) == (T - 1, "metadata")
