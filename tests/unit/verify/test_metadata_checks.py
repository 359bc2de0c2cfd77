from dataclasses import replace
from datetime import UTC, datetime
from typing import ClassVar

import pytest

from etc_policy.policy.manifest import EventTime, Policy, Writer
from etc_policy.table.history import GroupWrite
from etc_policy.table.state import CompactionRecord
from etc_policy.verify.evidence import Claim, Evidence
from etc_policy.verify.metadata_checks import (
    DOUBLE_KEYS,
    always_checked,
    check_files,
    check_metadata,
    check_promise,
    is_wanted,
    prove_compacted,
)
from etc_policy.verify.suites import SuiteExpectation
from tests.past import history_of
from tests.unit.plan.plan_cases import epoch_ms, instant, state_of
from tests.unit.plan.states import with_instant

T, NOW = epoch_ms("11:00:00"), epoch_ms("12:00:00")
POLICY = Policy(name="orders_ro", table="/t", event_time=EventTime(column="ts"), data_latency_ms=3_600_000)


def state(**told):
    """A base file of 08:00 and a log file of 11:20, both recorded by commits on the active timeline."""
    logs = {"L1": "11:20:00 > 11:20:05, event 11:15:00"}
    commits = ["08:00:00 > 08:00:05, deltacommit", "11:20:00 > 11:20:05, deltacommit"]
    return state_of("/t", {"slices": {"p/f1": {"base": "08:00:00", "logs": logs}}, "instants": commits, **told})


def with_recorded(table, base=None, log=None):
    """The table with what commits record of its base file and its log file changed, by a function of the size."""
    (one,) = table.slices
    logs = tuple(f._replace(recorded_bytes=log(f.recorded_bytes)) if log else f for f in one.log_files)
    told = base(one.base_file_recorded_bytes) if base else one.base_file_recorded_bytes
    return replace(table, slices=(replace(one, log_files=logs, base_file_recorded_bytes=told),))


def evidence(table=None, history=None, policy=POLICY, claim=None):
    claim = claim or Claim(T, instant("11:30:00"))
    return Evidence(policy, table or state(), history or history_of(), claim, NOW)


def nothing(size):
    return None


def check(name, kwargs, severity="critical", **told):
    found = check_metadata(SuiteExpectation(type=name, kwargs=kwargs, severity=severity), evidence(**told))
    assert found.expectation == name
    return found


class TestFiles:
    def test_what_is_as_it_was_recorded_passes(self):
        found = check_files(evidence())
        assert (found.status, found.observed["data_files"], found.observed["files_that_differ"]) == ("pass", 2, 0)

    @pytest.mark.parametrize(("more", "status"), [(-1, "fail"), (1, "fail"), (0, "pass")])
    def test_a_base_file_of_another_size_is_another_file(self, more, status):
        table = with_recorded(state(), base=lambda size: size + more)
        assert check_files(evidence(table)).status == status

    @pytest.mark.parametrize(("more", "status"), [(1, "fail"), (-1, "pass")])
    def test_a_log_file_may_be_longer_than_it_was_recorded_and_never_shorter(self, more, status):
        table = with_recorded(state(), log=lambda size: size + more)
        assert check_files(evidence(table)).status == status

    @pytest.mark.parametrize("kind", ["log", "base"])
    def test_a_file_that_no_write_stat_speaks_of(self, kind):
        found = check_files(evidence(with_recorded(state(), **{kind: nothing})))
        assert (found.status, found.observed["files_that_differ"]) == ("fail", 1)
        assert "no write stat" in found.message

    def test_a_file_that_is_gone(self):
        found = check_files(evidence(replace(state(), missing_files=("p/L9",))))
        assert (found.status, found.observed["examples"]) == ("fail", ["p/L9: not there"])

    def test_base_files_beside_others(self):
        found = check_files(evidence(replace(state(), unclear_files=("p/L1", "p/L2"), stray_files=("p/L3",))))
        assert (found.status, found.observed["files_that_differ"]) == ("fail", 3)
        assert found.observed["examples"][-1] == "p/L3: beside the one that its commit recorded"

    def test_files_of_archived_commits_are_counted_only(self):
        table = with_recorded(state(archived_before="09:00:00", instants=[]), base=nothing)
        found = check_files(evidence(table))
        assert (found.status, found.observed["files_of_archived_commits"]) == ("pass", 1)

    def test_one_that_its_archived_commit_did_not_record_fails(self):
        table = with_recorded(state(archived_before="09:00:00", instants=[]), base=nothing)
        left = f"{table.slices[0].partition}/{table.slices[0].base_file}"
        found = check_files(evidence(replace(table, unrecorded_files=(left,))))
        assert (found.status, found.observed["files_that_differ"]) == ("fail", 1)

    def test_before_version_8_log_files_grow_and_only_base_files_are_looked_at(self):
        found = check_files(evidence(with_recorded(state(version=6), log=nothing)))
        assert (found.status, found.observed["data_files"]) == ("pass", 1)

    def test_a_size_that_was_not_recorded_is_not_held_against_a_file(self):
        table = with_recorded(state(), base=lambda _: 0, log=lambda _: 0)
        assert check_files(evidence(table)).status == "pass"


@pytest.mark.parametrize(("version", "is_said"), [(9, True), (6, False)])
def test_before_version_8_nothing_is_said_of_writes_beside_a_compaction(version, is_said):
    """Its completion time is not known there: such a write looks like one after it."""
    table = with_instant(state(version=version), "11:30:00", "commit", completed="11:30:05", touched=["f1"])
    assert (DOUBLE_KEYS in {one.expectation for one in always_checked(evidence(table))}) == is_said


class TestPromise:
    RECORD = CompactionRecord(instant("11:00:00"), instant("11:01:00"), T, "p", "x", instant("10:59:59.999"))

    def promise(self, record, writes=()):
        return check_promise(evidence(history=history_of(writes)), record)

    def test_a_compaction_that_says_what_it_planned(self):
        assert self.promise(self.RECORD).status == "pass"

    def test_a_commit_that_says_something_else_than_its_plan(self):
        found = self.promise(replace(self.RECORD, is_disputed=True))
        assert (found.status, "different from its plan" in found.message) == ("fail", True)

    def test_a_threshold_after_its_own_completion(self):
        at_end = replace(self.RECORD, threshold_ms=epoch_ms("11:01:00"))
        assert self.promise(at_end).status == "pass"
        assert self.promise(replace(at_end, threshold_ms=at_end.threshold_ms + 1)).status == "fail"

    def test_in_the_hour_that_comes_twice_its_completion_may_be_the_second(self):
        """On 2026-10-25 in Berlin 02:30 comes at 00:30 and at 01:30 UTC; this one ran at the second, T is 10 minutes before."""
        times = {"instant": "20261025011500000", "completed": "20261025023000000", "seen_until": "20261025011400000"}
        threshold_ms = int(datetime(2026, 10, 25, 1, 20, tzinfo=UTC).timestamp()) * 1000
        berlin = evidence(state(timezone="Europe/Berlin"))
        assert check_promise(berlin, replace(self.RECORD, threshold_ms=threshold_ms, **times)).status == "pass"
        later = threshold_ms + 600_001
        assert check_promise(berlin, replace(self.RECORD, threshold_ms=later, **times)).status == "fail"

    @pytest.mark.parametrize(
        ("altered", "status"), [("11:00:10", "fail"), ("10:59:00", "pass"), ("11:20:00", "pass"), ("12:00:00", "pass")]
    )
    def test_one_that_merged_by_the_schema_of_before(self, altered, status):
        """ALTER TABLE after C, and before the compaction had completed: values of renamed columns are lost in RT and RO alike."""
        commits = ["08:00:00 > 08:00:05", "10:59:00 > 10:59:01", "11:00:10 > 11:00:20", "11:20:00 > 11:20:05"]
        instants = [*(f"{one}, deltacommit" for one in commits), "11:00:00 > 11:01:00, commit, f1"]
        found = check_promise(evidence(state(instants=instants, altered=[altered])), self.RECORD)
        assert (found.status, "did not merge by the table's schema" in (found.message or "")) == (
            status,
            status == "fail",
        )

    @pytest.mark.parametrize(
        ("hiding", "status"), [(["10:59:00", "11:00:00", "11:00:10"], "fail"), (["11:00:10"], "pass")]
    )
    def test_one_that_merged_by_no_schema_behind_a_write_that_carries_none(self, hiding, status):
        """ALTER TABLE at 10:58:00: before C such a write makes Hudi merge without the schema, after C it does nothing."""
        commits = [f"{one} > {one}, deltacommit" for one in ("08:00:00", "10:58:00", "10:59:00", "11:00:10")]
        told = state(instants=[*commits, "11:00:00 > 11:01:00, commit, f1"], altered=["10:58:00"], hiding=hiding)
        found = check_promise(evidence(told), self.RECORD)
        assert (found.status, "does not carry on the schema" in (found.message or "")) == (status, status == "fail")

    def test_a_writer_that_was_at_work_during_the_alter_table_says_nothing(self):
        """It carries the schema of when it began, and completes after the one that altered it; Hudi goes by requests."""
        commits = ["08:00:00 > 08:00:05", "10:58:00 > 10:59:30", "10:59:00 > 10:59:01"]
        instants = [*(f"{one}, deltacommit" for one in commits), "11:00:00 > 11:01:00, commit, f1"]
        assert check_promise(evidence(state(instants=instants, altered=["10:59:00"])), self.RECORD).status == "pass"

    def test_one_that_says_it_had_not_seen_what_it_merged(self):
        merged = GroupWrite(instant("10:58:00"), instant("10:59:59.999"), "p", "f1", T, True, 1)
        assert self.promise(self.RECORD, [merged]).status == "pass"
        assert self.promise(replace(self.RECORD, seen_until=instant("10:59:00")), [merged]).status == "fail"


class TestFreshness:
    LIMITS: ClassVar = {"now_ms": NOW, "target_ms": 3_600_000, "error_after_ms": 7_200_000}

    @pytest.mark.parametrize(
        ("lag_ms", "severity", "status"),
        [
            (3_600_000, "critical", "pass"), (3_600_001, "critical", "warn"),
            (7_200_001, "critical", "fail"), (7_200_001, "warning", "warn"),
        ],
    )  # fmt: skip
    def test_the_verdict(self, lag_ms, severity, status):
        kwargs = {**self.LIMITS, "complete_until_ms": NOW - lag_ms}
        found = check("expect_freshness_within", kwargs, severity)
        assert (found.status, found.observed["lag_ms"]) == (status, lag_ms)
        assert (found.message is None) == (status == "pass")

    def test_what_is_not_known_is_no_failure_and_no_success(self):
        kwargs = {**self.LIMITS, "complete_until_ms": None}
        assert check("expect_freshness_within", kwargs, "warning").status == "error"

    def test_without_it_the_tables_own_completeness_counts(self):
        assert check("expect_freshness_within", self.LIMITS).observed["lag_ms"] == 3_600_000

    def test_without_limits_there_is_nothing_to_check(self):
        item = SuiteExpectation(type="expect_freshness_within", kwargs={"now_ms": NOW, "target_ms": None})
        assert not is_wanted(item, Writer())
        assert is_wanted(item.model_copy(update={"kwargs": {"now_ms": NOW, "error_after_ms": 0}}), Writer())
        assert is_wanted(SuiteExpectation(type="expect_no_key_twice"), Writer())

    def test_unique_keys_are_not_asked_for_where_keys_are_repeated_on_purpose(self):
        repeated = Writer(keys="repeated")
        assert not is_wanted(SuiteExpectation(type="expect_no_key_twice"), repeated)
        assert is_wanted(SuiteExpectation(type="expect_ro_to_contain_rt_up_to"), repeated)


def test_completeness_that_fell_below_what_was_published():
    """The log file holds an event of 11:15."""
    mark = epoch_ms("11:15:00") - 1
    assert check("expect_completeness_up_to", {"threshold_ms": mark}).status == "pass"
    found = check("expect_completeness_up_to", {"threshold_ms": mark + 60_000}, "warning")
    assert (found.status, found.observed["regression_ms"]) == ("warn", 60_000)
    assert "60 s less far" in found.message
    table = state(slices={"p/f1": {"base": "08:00:00"}})
    assert check("expect_completeness_up_to", {"threshold_ms": NOW}, table=table).status == "pass"


@pytest.mark.parametrize("table", [state(), state(slices={"p/f1": {"base": "08:00:00"}})])
@pytest.mark.parametrize(
    ("name", "argument"), [("expect_completeness_up_to", "threshold_ms"), ("expect_freshness_within", "now_ms")]
)
def test_a_parameter_without_a_value_proves_nothing(name, argument, table):
    """Such as `freshness_target_ms` of a policy without a target."""
    found = check(name, {argument: None, "error_after_ms": 1}, table=table)
    assert (found.status, found.message) == ("error", f"its argument `{argument}` has no value")


def test_what_may_be_left_out_may_be_null():
    assert check("expect_event_times_tracked", {"least_share": None}).status == "pass"
    assert check("expect_log_files_no_larger_than", {"max_bytes": 9_999, "tolerance": None}).status == "pass"
    assert check("expect_log_files_no_larger_than", {"max_bytes": None}).status == "pass"


@pytest.mark.parametrize(("least_share", "status"), [(1, "fail"), (0.76, "fail"), (0.75, "pass"), (None, "fail")])
def test_the_share_of_writes_with_event_times(least_share, status):
    writes = [GroupWrite("1", "1", "p", "f", time, time is not None, 1) for time in (1, 2, 3, None)]
    kwargs = {} if least_share is None else {"least_share": least_share}
    found = check("expect_event_times_tracked", kwargs, history=history_of(writes))
    assert (found.status, found.observed["log_writes"], found.observed["tracked"]) == (status, 4, 3)


@pytest.mark.parametrize(
    ("max_bytes", "tolerance", "status"),
    [(10_000, 0, "pass"), (9_999, 0, "fail"), (8_000, None, "pass"), (7_999, None, "fail"), (None, 0, "pass")],
)
def test_the_size_of_log_files(max_bytes, tolerance, status):
    """The one log file has 10,000 bytes."""
    kwargs = {"max_bytes": max_bytes, **({} if tolerance is None else {"tolerance": tolerance})}
    found = check("expect_log_files_no_larger_than", kwargs)
    assert (found.status, found.observed["largest_bytes"]) == (status, 10_000)


def test_the_size_of_a_log_file_that_etc_has_split_off_is_not_that_of_a_writer():
    split_off = state().with_log_files(lambda _, one: one._replace(name=".f1_20260101101000000.log.0_100000-0-0"))
    found = check("expect_log_files_no_larger_than", {"max_bytes": 9_999, "tolerance": 0}, table=split_off)
    assert (found.status, found.observed["log_files"]) == ("pass", 0)


class TestLateDataBeforeVersion8:
    """A log file's name tells its base file alone: between which times its rows were committed the reading knows."""

    OLD: ClassVar = {"p/f1": {"base": "08:00:00", "logs": {"L1": "08:00:00 > 08:00:00"}}}

    def found(self, first, last, name="L1"):
        table = state_of("/t", {"version": 6, "slices": self.OLD})
        span = instant(first), instant(last)
        return prove_compacted(evidence(table.with_log_files(lambda _, one: one._replace(name=name, written=span))))

    def test_what_was_written_after_the_plan_is_late_and_no_failure(self):
        found = self.found("11:40:00", "11:40:00")
        assert (found.status, found.observed["late_log_files"]) == ("pass", 1)

    @pytest.mark.parametrize("last", ["08:10:00", "11:30:00"])
    def test_what_the_plan_had_seen_is_a_failure(self, last):
        found = self.found("08:00:00", last)
        assert (found.status, found.observed["log_files_at_or_below_threshold"]) == ("fail", 1)

    def test_where_nobody_knows_it_is_a_warning(self):
        """An event of a log file to which writers append is that of one of its writes."""
        found = self.found("11:30:00", "11:40:00")
        counts = [found.observed[name] for name in ("log_files_at_or_below_threshold", "late_log_files")]
        assert (found.status, counts, found.observed["examples"]) == ("warn", [0, 0], ["L1"])
        assert (
            "1 log file with events at or below the threshold, and nobody knows whether these are late" in found.message
        )

    def test_what_a_plan_has_carried_it_had_seen(self):
        assert self.found("11:40:00", "11:40:00", ".f1_20260101114000000.log.0_100000-0-0").status == "fail"
