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
from etc_policy.table.state import CompactionRecord, Instant
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


KEPT, UNVERIFIED = {**FACTS, **VERIFIED}, {**FACTS, STATUS: "unverified"}
TEN, EARLIER = instant("10:00:00"), "2026-01-01T11:00:00.000Z"
PART = replace(PASSED, partial=True)
#: A verification of metadata, after a run that had nothing to do; it is about no compaction of its own.
IDLE = Verdict("pass", "metadata", epoch_ms("11:50:00"), None, "2026-01-01T12:00:00.000Z")


def passed(**changed):
    return replace(PASSED, **changed)


#: A verdict, the properties that are there before, and those, or the status, that are there then.
CASES = {
    "verified": (PASSED, {}, KEPT),
    "a warning is no failure": (passed(status="warn"), {}, "verified"),
    "what could not be checked is unverified": (passed(status="error"), {}, UNVERIFIED),
    "what was skipped is unverified": (passed(status="skipped"), {}, UNVERIFIED),
    "nothing known is unverified": (None, {}, UNVERIFIED),
    "a verdict over another compaction does not count": (passed(instant=TEN), {}, UNVERIFIED),
    "an earlier verdict over the same compaction is kept": (None, KEPT, KEPT),
    "of an earlier compaction nothing is kept": (None, {**KEPT, INSTANT: TEN}, UNVERIFIED),
    # One that was rolled back and planned anew may have it, and so may that of another table under the same name.
    "nor of one at the same instant with another threshold": (None, {**KEPT, THRESHOLD: str(T - 1)}, UNVERIFIED),
    # A boundary of `strategy.at` is published once more after a restore, at the same instant.
    "nor of one that was taken back before this one completed": (None, {**KEPT, VERIFIED_AT: EARLIER}, UNVERIFIED),
    "nor does its verdict count": (passed(verified_at=EARLIER), {}, UNVERIFIED),
    "a status without a time is not believed": (None, {**FACTS, STATUS: "verified"}, "unverified"),
    "an error now keeps what was verified": (
        passed(status="error", verified_at="2026-01-01T11:59:00.000Z"),
        KEPT,
        KEPT,
    ),
    "a part of the rows is not all of them": (PART, {}, "partly_verified"),
    "a part is kept as such": (None, {**KEPT, STATUS: "partly_verified"}, {**KEPT, STATUS: "partly_verified"}),
    "all rows outweigh a part": (PASSED, {**KEPT, STATUS: "partly_verified"}, "verified"),
    "a part does not outweigh all rows": (PART, KEPT, "verified"),
    "nor a failure of all rows": (PART, {**KEPT, STATUS: "failed"}, "failed"),
    "a part that fails is a failure": (replace(PART, status="fail"), KEPT, "failed"),
    "with nothing due metadata does not outweigh the data": (IDLE, KEPT, KEPT),
    "nor does it excuse data that failed": (IDLE, {**KEPT, STATUS: "failed"}, "failed"),
    "metadata that fails outweighs the data": (replace(IDLE, status="fail"), KEPT, "failed"),
    "below the threshold it proves nothing about it": (replace(IDLE, threshold_ms=T - 1), {}, "unverified"),
}


@pytest.mark.parametrize(("verdict", "before", "expected"), CASES.values(), ids=CASES)
def test_which_verdict_counts(verdict, before, expected):
    found = properties(verdict, before)
    assert (found[STATUS] if isinstance(expected, str) else found) == expected


@pytest.mark.parametrize(("restored", "status"), [("11:10:50", "verified"), ("11:30:00", "unverified")])
def test_what_was_verified_before_a_restore_is_not(restored, status):
    """Files of before are there again, in which rows may be missing."""
    restore = Instant(instant("11:10:45"), "restore", "completed", instant(restored))
    state = replace(STATE, instants=(*STATE.instants, restore))
    assert [properties(*one, state=state)[STATUS] for one in ((PASSED, {}), (None, KEPT))] == [status, status]


def test_failed_promises_no_completeness():
    found = properties(passed(status="fail"))
    assert (found[STATUS], COMPLETE_UNTIL in found, found[THRESHOLD]) == ("failed", False, str(T))


def test_metadata_with_nothing_due_counts_where_nothing_was_verified():
    found = properties(IDLE)
    assert (found[STATUS], found[VERIFIED_LEVEL], found[VERIFIED_AT]) == ("verified", "metadata", IDLE.verified_at)


class TestBesideTheTable:
    """What is kept there is of the latest verification: one by `etc verify`, or by a run of another machine."""

    FAILED = replace(PASSED, status="fail", verified_at="")
    LATER = replace(PASSED, level="logs", verified_at="2026-01-01T11:30:00.000Z")

    def said(self, beside, verdict=None, before=None):
        freshness = table_freshness(ORDERS, STATE, NOW, NOW)
        found = ro_properties(ORDERS, STATE, freshness, verdict, before or {}, beside)
        return {key: found[key] for key in (STATUS, VERIFIED_AT, VERIFIED_LEVEL, COMPLETE_UNTIL) if key in found}

    @pytest.mark.parametrize(("verdict", "before"), [(PASSED, {}), (None, KEPT), (None, {})])
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
            (None, {**KEPT, STATUS: "failed"}),
            (None, {**FACTS, STATUS: "failed"}),
            (None, {}),
        ):
            assert self.said(self.LATER, verdict, before) == expected

    def test_one_that_passed_before_does_not(self):
        failed = replace(PASSED, status="fail", verified_at="2026-01-01T11:40:00.000Z")
        assert self.said(self.LATER, failed)[STATUS] == "failed"

    def test_what_is_verified_stays_as_it_is(self):
        assert self.said(self.LATER, PASSED)[VERIFIED_LEVEL] == "data"
        assert self.said(self.LATER, None, KEPT)[VERIFIED_LEVEL] == "data"

    def test_of_another_compaction_it_says_nothing(self):
        assert self.said(replace(self.FAILED, instant=instant("10:00:00")), PASSED)[STATUS] == "verified"


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
        found = properties(state=replace(STATE, last_compaction=None), before=KEPT)
        kept = {key: FACTS[key] for key in (COMPLETE_UNTIL, COMPLETE_UNTIL_LEVEL, COMPLETE_UNTIL_PROVED_AT)}
        assert found == {POLICY: "orders_ro", STATUS: "unverified", **kept}

    def test_what_proves_completeness_is_said_beside_it(self):
        proof = Proof(level="data", until_ms=epoch_ms("11:30:00"), proved_at_ms=epoch_ms("11:11:00"))
        found = ro_properties(ORDERS, STATE, table_freshness(ORDERS, STATE, NOW, NOW, None, (proof,)), PASSED, {})
        said = {COMPLETE_UNTIL_LEVEL: "data", COMPLETE_UNTIL_PROVED_AT: "2026-01-01T11:11:00.000Z"}
        assert found == {**KEPT, **said}

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
