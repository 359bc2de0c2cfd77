from dataclasses import replace

import pytest

from etc_policy.policy.manifest import EventTime, Freshness, Policy, Strategy
from etc_policy.report.freshness import table_freshness, unreadable
from etc_policy.report.report import list_freshness, render_freshness
from etc_policy.report.results import FreshnessReport
from etc_policy.table.apply_state import ApplyState, Proof, Runs
from etc_policy.table.history import GroupWrite
from etc_policy.table.state import CompactionRecord
from etc_policy.verify.freshness import judge_lag
from tests.past import history_of
from tests.unit.plan.plan_cases import epoch_ms, instant, state_of

NOW = epoch_ms("12:00:00")
POLICY = Policy(
    name="orders_ro",
    table="/t",
    event_time=EventTime(column="ts"),
    data_latency_ms=600_000,
    freshness=Freshness(target_ms=1_800_000, error_after_ms=3_600_000),
)
TABLE = {
    "slices": {
        "p/f1": {
            "base": "08:00:00",
            "logs": {"L1": "11:40:00 > 11:40:05, event 11:25:00", "L2": "11:45:00 > 11:45:05"},
        },
        "p/f2": {"base": "08:00:00", "logs": {"L3": "11:50:00 > 11:50:05, event 11:49:00"}},
        "p/f3": {"base": "08:00:00"},
    }
}


def test_the_numbers():
    found = table_freshness(POLICY, state_of("/t", TABLE), NOW, NOW)
    # The watermark lies a millisecond below L1's smallest event; L2 is unknown and bounded at 11:35:05.
    assert found.watermark_ms == found.complete_until_ms == epoch_ms("11:25:00") - 1
    assert (found.lag_seconds, found.status, found.held_back_by) == (2100.001, "warn", "L1")
    assert (found.remaining_log_files, found.remaining_log_bytes, found.remaining_file_slices) == (3, 30_000, 2)
    assert found.unknown_log_files == 1
    assert found.last_commit_age_seconds == 595.0
    assert (found.threshold_ms, found.reason, found.watermark_assumed) == (None, None, False)


def test_slices_that_the_last_compaction_left_out_are_named_with_since_when():
    """L1 was there for its plan; L3 came after it, and a slice without what is due holds nothing back."""
    last = CompactionRecord(
        instant("11:46:00"), instant("11:46:05"), epoch_ms("11:24:00"), "orders_ro", "x", left_out=1
    )
    state = replace(state_of("/t", TABLE), last_compaction=last)
    found = table_freshness(POLICY, state, NOW, NOW)
    assert [(one.partition, one.file_id) for one in found.held_back] == [("p", "f1")]
    (one,) = found.held_back
    assert (one.earliest_event_ms, one.waits_since_ms) == (epoch_ms("11:25:00"), epoch_ms("11:40:05"))
    text = render_freshness(FreshnessReport(observed_at="", tables=(found,)))
    words = "held back by p/f1 from 2026-01-01 11:25:00 UTC on, committed 2026-01-01 11:40:05 UTC"
    assert words in " ".join(text.split())
    assert "left out 1 file slice by the last compaction by etc, though they were due" in " ".join(text.split())
    before = table_freshness(POLICY, state, epoch_ms("11:34:00"), NOW)
    assert before.held_back_file_slices == 0
    daily = POLICY.model_copy(update={"strategy": Strategy(at="11:20 12:20 UTC")})
    assert table_freshness(daily, state, NOW, NOW).held_back == ()
    assert len(table_freshness(daily, state, NOW + 1_800_000, NOW).held_back) == 1
    whole = replace(state, last_compaction=replace(last, left_out=0))
    assert table_freshness(POLICY, whole, NOW, NOW).held_back == ()


@pytest.mark.parametrize(("last", "held"), [("11:40:00", ["f1"]), ("11:41:00", [])])
def test_before_version_8_the_name_of_a_log_file_does_not_say_since_when_it_waits(last, held):
    """It bears the instant of its slice; where one of its writes came later nobody knows which of them is due."""
    record = CompactionRecord(
        instant("11:30:00"),
        instant("11:30:05"),
        epoch_ms("11:24:00"),
        "orders_ro",
        "x",
        instant("11:40:00"),
        left_out=1,
    )
    told = {
        "version": 6,
        "slices": {"p/f1": {"base": "08:00:00", "logs": {"L1": "08:00:00 > 08:00:00, event 11:25:00"}}},
    }
    state = replace(state_of("/t", told), last_compaction=record)
    state = state.with_log_files(lambda _, one: one._replace(written=(instant("11:00:00"), instant(last))))
    found = table_freshness(POLICY, state, NOW, NOW).held_back
    assert [(one.file_id, one.waits_since_ms) for one in found] == [(name, epoch_ms(last)) for name in held]


@pytest.mark.parametrize(("since", "held"), [("11:46:00", ["f1"]), ("11:40:00", []), (None, [])])
def test_slices_that_refused_runs_have_left_are_named_too(since, held):
    """Such a run commits nothing that would tell of them; what came after the first of them may not have been due then."""
    runs = Runs() if since is None else Runs().with_run(moved=False, now_ms=epoch_ms(since))
    state = replace(state_of("/t", TABLE), apply_state=ApplyState(runs=runs))
    assert [one.file_id for one in table_freshness(POLICY, state, NOW, NOW).held_back] == held
    last = CompactionRecord(instant("11:30:00"), instant("11:30:05"), epoch_ms("11:20:00"), "orders_ro", "x")
    after = replace(state, last_compaction=last)
    assert [one.file_id for one in table_freshness(POLICY, after, NOW, NOW).held_back] == held


def test_runs_that_brought_ro_no_further_are_counted():
    runs = Runs().with_run(moved=True, now_ms=NOW - 7_200_000)
    for minute in (3, 2, 1):
        runs = runs.with_run(moved=False, now_ms=NOW - minute * 60_000)
    state = replace(state_of("/t", TABLE), apply_state=ApplyState(runs=runs))
    text = render_freshness(FreshnessReport(observed_at="", tables=(table_freshness(POLICY, state, NOW, NOW),)))
    words = "none in the last 3 runs, since 2026-01-01 11:57:00 UTC; 3 of 4 runs of the last day brought RO no further"
    assert words in " ".join(text.split())
    found = table_freshness(POLICY, state_of("/t", TABLE), NOW, NOW)
    assert "progress" not in render_freshness(FreshnessReport(observed_at="", tables=(found,)))


class TestATimeBeforeTheFirstCommit:
    """`--at` may be that of events which are written again today, but not one of which the table knows nothing."""

    WRITE = GroupWrite(instant("11:40:00"), instant("11:40:05"), "p", "f1", epoch_ms("11:25:00"), True, 1)
    STATE = state_of("/t", TABLE)

    def judge(self, now, state=STATE, writes=(WRITE,)):
        return table_freshness(POLICY, state, epoch_ms(now), NOW, history_of(writes))

    def test_before_all_events_is_unknown(self):
        found = self.judge("07:00:00")
        assert (found.status, found.complete_until_ms) == ("unknown", None)
        assert found.reason == (
            "2026-01-01 07:00:00 UTC, which counts as now, is before every commit and every event of the table that is "
            "known: what it held then cannot be judged"
        )

    def test_of_a_replay_is_judged(self):
        for early in (
            {"writes": (self.WRITE._replace(known_min_ms=epoch_ms("06:30:00")),)},
            {"state": replace(self.STATE, last_compaction=CompactionRecord("1", "1", epoch_ms("06:50:00"), "t", "x"))},
        ):
            assert self.judge("07:00:00", **early).status == "pass"

    def test_where_no_event_time_is_known_is_judged(self):
        state = state_of("/t", {"slices": {"p/f1": {"base": "08:00:00"}}})
        assert self.judge("07:00:00", state, writes=()).status == "pass"

    def test_after_the_first_commit_is_judged(self):
        assert self.judge("08:00:00").status == "pass"


def test_a_watermark_that_is_bounded_by_when_a_file_was_written_says_so():
    logs = {"L1": "11:40:00 > 11:40:05"}
    found = table_freshness(POLICY, state_of("/t", {"slices": {"p/f1": {"base": "08:00:00", "logs": logs}}}), NOW, NOW)
    assert (found.watermark_ms, found.watermark_assumed) == (epoch_ms("11:30:05") - 1, True)


def test_a_watermark_above_the_promise_does_not_count():
    logs = {"L1": "11:59:00 > 11:59:05, event 11:58:00"}
    found = table_freshness(POLICY, state_of("/t", {"slices": {"p/f1": {"base": "08:00:00", "logs": logs}}}), NOW, NOW)
    assert (found.watermark_ms, found.complete_until_ms) == (epoch_ms("11:58:00") - 1, NOW - 600_000)


@pytest.mark.parametrize(("clock", "status"), [("11:54:59.999", "pass"), ("11:55:00", "warn"), ("12:25:00", "error")])
def test_the_verdict_grows_with_the_lag(clock, status):
    assert table_freshness(POLICY, state_of("/t", TABLE), epoch_ms(clock), NOW).status == status


def test_a_table_before_its_first_commit():
    found = table_freshness(POLICY, state_of("/t", {}), NOW, NOW)
    assert (found.status, found.reason, found.complete_until_ms, found.lag_seconds) == (
        "unknown",
        "no commit yet",
        None,
        None,
    )


def test_commits_ahead_of_the_clock_are_of_another_zone():
    """11:50:05 on the clock of writers an hour ahead: nothing is known of the lag."""
    clock = epoch_ms("11:50:05") - 60_000
    assert table_freshness(POLICY, state_of("/t", TABLE), NOW, clock).status == "warn"
    found = table_freshness(POLICY, state_of("/t", TABLE), NOW, clock - 1)
    assert (found.status, found.complete_until_ms, found.remaining_log_files) == ("unknown", None, None)
    assert "ahead of this machine's clock" in found.reason


def test_a_table_that_cannot_be_read_is_never_fresh():
    found = unreadable(POLICY, "there is no table")
    assert (found.status, found.reason, found.base_path, found.lag_seconds) == (
        "unknown",
        "there is no table",
        "/t",
        None,
    )
    left = (found.remaining_log_files, found.remaining_log_bytes, found.remaining_file_slices, found.unknown_log_files)
    assert left == (None, None, None, None)


def test_a_moment_before_the_data_lags_by_nothing():
    found = table_freshness(POLICY, state_of("/t", TABLE), epoch_ms("08:00:00"), NOW)
    assert found.complete_until_ms == epoch_ms("07:50:00")
    assert found.last_commit_age_seconds < 0


def test_late_data_and_the_fit_of_the_latency_are_told_where_the_past_was_read():
    done, told = instant("11:40:05"), {"seen_until": instant("11:10:00")}
    record = CompactionRecord(instant("11:09:00"), done, epoch_ms("11:30:00"), "orders_ro", "x", **told)
    commits = [GroupWrite(done, done, "p", "f1", epoch_ms("11:25:00"), True, 3)] * 20
    history = history_of(commits, [record])
    found = table_freshness(POLICY, state_of("/t", TABLE), NOW, NOW, history)
    assert (found.late_data.writes, found.late_data.rows_at_most) == (20, 60)
    assert (found.data_latency.status, found.data_latency.suggested_ms) == ("too_short", 20 * 60_000)
    text = " ".join(render_freshness(FreshnessReport(observed_at="-", tables=(found,))).split())
    assert (
        "late data 20 writes to 1 file group after the last compaction hold events at or below T, at most 60 rows; "
        "RO was complete until T and fell back 5m, to 2026-01-01 11:24:59.999 UTC" in text
    )
    assert (
        "data latency 10m is too short: all 20 writes to log files came within 15m5s of their earliest event; "
        "suggested `20m`" in text
    )


def latency_text(commits):
    found = table_freshness(POLICY, state_of("/t", TABLE), NOW, NOW, history_of(commits))
    return " ".join(render_freshness(FreshnessReport(observed_at="-", tables=(found,))).split())


@pytest.mark.parametrize(
    ("log_file", "said"),
    [
        (
            "11:10:00 > 11:10:05, 2 nulls",
            "2 rows in 1 log file with NULL in `ts`, for example in L1; only the writer can fill it",
        ),
        (
            "11:10:00 > 11:10:05, deletes",
            "1 log file with deletes by key, or that may hold some: these carry no event time",
        ),
    ],
)
def test_of_unknown_event_times_the_cause_is_named(log_file, said):
    state = state_of("/t", {"slices": {"p/f1": {"base": "08:00:00", "logs": {"L1": log_file}}}})
    found = table_freshness(POLICY, state, NOW, NOW)
    assert found.unknown_because == said
    text = render_freshness(FreshnessReport(observed_at="now", tables=(found,)), width=300)
    assert f"unknown       1 log file without a known event time: {said}" in text


def test_of_a_column_that_hudi_never_records_no_option_for_writers_is_advised():
    table = {"slices": {"p/f1": {"base": "08:00:00", "logs": {"L1": "11:10:00 > 11:10:05"}}}}
    state = replace(state_of("/t", table), event_time_type="timestamp-micros")
    said = table_freshness(POLICY, state, NOW, NOW).unknown_because
    assert said.startswith("Hudi cannot record those of a timestamp-micros column")
    assert "etc compile" not in said


def test_of_few_writes_what_is_known_is_shown():
    done = instant("11:40:05")
    commits = [
        GroupWrite(done, done, "p", "f1", epoch_ms(event), True, 3) for event in ["11:35:00"] * 18 + ["11:25:00"]
    ]
    assert (
        "data latency 10m cannot be judged yet: it takes 20 writes to log files; so far of 19 writes to log files "
        "half came within 5m5s, all within 15m5s of their earliest event, 1 of them later than 10m last commit"
        in latency_text(commits)
    )


def test_of_one_write_no_share_is_shown():
    done = instant("11:40:05")
    text = latency_text([GroupWrite(done, done, "p", "f1", epoch_ms("11:25:00"), True, 3)])
    assert (
        "it takes 20 writes to log files; so far 1 write to log files came 15m5s after "
        "its earliest event, later than 10m last commit" in text
    )


def test_of_no_writes_the_reason_is_shown():
    done = instant("11:40:05")
    unknown = [GroupWrite(done, done, "p", "f1", None, False, 3)] * 40
    assert "10m cannot be judged yet: 0 of 40 writes to log files have" in latency_text(unknown)


def test_what_was_loaded_is_said_to_be_left_out():
    loaded, live = instant("11:30:00"), instant("11:40:05")
    commits = [GroupWrite(loaded, loaded, "p", "f1", 0, True, 3)] * 30
    commits += [GroupWrite(live, live, "p", "f1", epoch_ms("11:35:00"), True, 3)] * 25
    assert (
        "writes to log files came within 5m5s of their earliest event; 30 writes of old data before them do not count"
        in latency_text(commits)
    )


def test_without_the_past_neither_is_told():
    found = table_freshness(POLICY, state_of("/t", TABLE), NOW, NOW)
    assert (found.late_data, found.data_latency) == (None, None)


def test_a_data_file_that_is_gone_may_have_held_anything():
    found = table_freshness(POLICY, replace(state_of("/t", TABLE), missing_files=("p/L1",)), NOW, NOW)
    assert (found.status, found.complete_until_ms) == ("unknown", None)
    assert found.reason == "1 missing data file, which a commit wrote, for example p/L1"


def test_of_many_tables_the_worst_come_first_in_a_line_each():
    fresh, late = (
        table_freshness(POLICY, state_of("/t", TABLE), epoch_ms(clock), NOW) for clock in ("11:54:59", "12:25:00")
    )
    free = fresh.model_copy(update={"status": judge_lag(0, Freshness())})
    named = ((fresh, "a"), (late, "b"), (late, "c"), (free, "e"))
    tables = tuple(one.model_copy(update={"policy": name}) for one, name in named)
    unknown = tables[0].model_copy(update={"policy": "d", "status": "unknown", "reason": "no commit yet"})
    found = list_freshness(FreshnessReport(observed_at="now", tables=(*tables, unknown)), 200).splitlines()
    assert [line.split()[:2] for line in found[:3]] == [["ERROR", "b"], ["ERROR", "c"], ["UNKNOWN", "d"]]
    assert found[3].startswith("no target  e  RO complete until ")
    assert found[4].startswith("PASS       a ")
    assert found[2].endswith("no commit yet")
    assert found[-1] == "5 tables: 2 error, 1 unknown, 1 no target, 1 pass."
    proven = tables[0].model_copy(update={"complete_until_proof": Proof(level="data", until_ms=NOW, proved_at_ms=NOW)})
    (line, *rest) = list_freshness(FreshnessReport(observed_at="now", tables=(proven,))).splitlines()[:-2]
    assert (rest, line.endswith("ago (proof: data)")) == ([], True)
