from dataclasses import replace

import pytest

from etc_policy.policy.manifest import EventTime
from etc_policy.policy.schema import LearnedLatency
from etc_policy.table.formats import lateness, part_of
from etc_policy.table.history import GroupWrite
from etc_policy.table.impossible_times import LateCommits, by_commit, doubt_text, mostly_late
from etc_policy.verify.latency import judge_latency, learn_latency, quantile, round_up_ms
from tests.past import history_of
from tests.unit.plan.plan_cases import epoch_ms, instant

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
DONE = instant("11:00:00")
NOW = epoch_ms("12:00:00")


def history(*latencies_ms, completed=DONE, **changes):
    """Writes that all completed at 11:00, each with its oldest event so long before."""
    done = epoch_ms("11:00:00")
    times = [None if latency is None else done - latency for latency in latencies_ms]
    writes = tuple(GroupWrite(completed, completed, "p", "f", time, time is not None, 1) for time in times)
    return history_of(writes, **changes)


def test_the_quantiles_are_of_the_latest_row_of_each_write():
    verdict = judge_latency(history(*(n * MINUTE for n in range(100, 0, -1)), None), 2 * HOUR, NOW)
    observed = verdict.observed
    assert (observed.writes, observed.unknown_writes) == (100, 1)
    assert (observed.p50_ms, observed.p99_ms, observed.max_ms) == (50 * MINUTE, 99 * MINUTE, 100 * MINUTE)
    assert observed.since_ms == epoch_ms("11:00:00")
    assert (verdict.status, verdict.late_share) == ("fits", 0)
    assert verdict.suggested_ms == 2 * HOUR  # 99 minutes, rounded up to half hours


@pytest.mark.parametrize(
    ("declared_ms", "status", "late_share"),
    [
        (99 * MINUTE, "fits", 0.01),
        (99 * MINUTE - 1, "too_short", 0.02),
        (200 * MINUTE, "fits", 0.0),
        (200 * MINUTE + 1, "generous", 0.0),
        (0, "too_short", 1.0),
    ],
)
def test_the_verdict_turns_at_one_write_in_a_hundred_and_at_twice_the_largest(declared_ms, status, late_share):
    verdict = judge_latency(history(*(n * MINUTE for n in range(1, 101))), declared_ms, NOW)
    assert (verdict.status, verdict.late_share) == (status, late_share)


def test_a_handful_of_writes_is_no_judgement_but_what_they_show_is_known():
    assert judge_latency(history(*[MINUTE] * 20), HOUR, NOW).status == "generous"
    few = judge_latency(history(*[MINUTE] * 17, 2 * HOUR, 3 * HOUR, None, None), HOUR, NOW)
    assert (few.status, few.suggested_ms, few.late_share) == ("unknown", None, 2 / 19)
    assert (few.observed.writes, few.observed.unknown_writes) == (19, 2)
    assert (few.observed.p50_ms, few.observed.max_ms) == (MINUTE, 3 * HOUR)
    assert few.reason == "19 of 21 writes to log files have known event times; it takes 20"


def test_what_is_no_longer_than_what_would_be_suggested_is_not_generous():
    """Events that lie ahead of their commits, or came in within a second: no suggestion is below ten seconds."""
    for latency_ms in (0, 1_000):
        assert judge_latency(history(*[latency_ms] * 20), 10_000, NOW).status == "fits"
        assert judge_latency(history(*[latency_ms] * 20), 10_001, NOW).status == "generous"


def test_without_an_event_time_nothing_is_known():
    for writes, said in (
        ((), "no write to a log file yet"),
        ((None,), "0 of 1 write to log files has known event times"),
    ):
        found = judge_latency(history(*writes), HOUR, NOW)
        assert (found.status, found.observed, found.late_share) == ("unknown", None, None)
        assert found.reason.startswith(said)


def read_history(*latencies_ms, unread=()):
    """Writes of which no event time is recorded, a minute apart; their log files were read, but for those at `unread`."""
    times = [instant(f"10:{minute:02}:00") for minute in range(len(latencies_ms))]
    writes = tuple(GroupWrite(time, time, "p", "f", None, False, 1) for time in times)
    events = [epoch_ms(f"10:{minute:02}:00") - latency for minute, latency in enumerate(latencies_ms)]
    read = {write.key: event for n, (write, event) in enumerate(zip(writes, events, strict=True)) if n not in unread}
    return replace(history_of(writes), read_times=read)


def test_where_commits_record_no_event_time_log_files_show_how_late_they_came():
    """A timestamp column: Hudi never records it."""
    found = judge_latency(read_history(*[MINUTE] * 20, 2 * HOUR), HOUR, NOW)
    assert (found.status, found.observed.writes, found.observed.read_writes) == ("too_short", 21, 21)
    assert found.observed.origin == " (read from log files)"


def test_writes_before_one_that_was_not_read_do_not_count():
    """Of what was compacted unread, those left are the ones that came early: they would make any value fit."""
    found = judge_latency(read_history(*[2 * HOUR] * 10, *[MINUTE] * 21, unread=[9]), HOUR, NOW)
    assert (found.status, found.observed.writes) == ("generous", 21)
    few = judge_latency(read_history(*[2 * HOUR] * 10, *[MINUTE] * 21, unread=[15]), HOUR, NOW)
    assert (few.status, few.observed.writes) == ("unknown", 15)
    assert few.reason == "it takes 20 writes to log files"


def test_what_is_recorded_goes_before_what_was_read():
    read = read_history(*[MINUTE] * 25)
    recorded = history(*[2 * HOUR] * 20).writes
    both = replace(history_of(read.writes + recorded), read_times=read.read_times)
    found = judge_latency(both, HOUR, NOW)
    assert (found.observed.writes, found.observed.read_writes, found.observed.max_ms) == (20, 0, 2 * HOUR)


def test_where_hudi_can_record_none_the_reason_is_named():
    found = judge_latency(history(None, None), HOUR, NOW, "Hudi cannot record those of a date column")
    assert found.reason == (
        "0 of 2 writes to log files have known event times (Hudi cannot record those of a date column); it takes 20"
    )


def test_what_has_not_completed_at_the_moment_asked_for_does_not_count():
    """A replay: `--at` lies years before the commits, and what they say of lateness is not true of it."""
    assert judge_latency(history(*[MINUTE] * 50), HOUR, epoch_ms("11:00:00")).status == "generous"
    before = judge_latency(history(*[MINUTE] * 50), HOUR, epoch_ms("11:00:00") - 1)
    assert (before.status, before.observed) == ("unknown", None)
    assert before.reason == "no write had completed at the time that counts as now, as where old data are replayed"


class TestOldData:
    """Data of years ago were written today: what lies between says when they were loaded, not how late events come."""

    def test_a_replay_is_recognized(self):
        found = judge_latency(history(*(5073 * DAY - n * HOUR for n in range(50))), 5 * HOUR, NOW)
        assert (found.status, found.suggested_ms, found.observed, found.late_share) == ("unknown", None, None, None)
        assert (
            found.reason
            == "all events are 5070d23h old and older (50 writes to log files): how late new ones come does not show"
        )

    def test_what_was_loaded_before_live_writes_began_does_not_count(self):
        loaded = history(*[900 * DAY] * 30, completed=instant("10:00:00")).writes
        live = history(*[MINUTE] * 25).writes
        found = judge_latency(history_of(live + loaded), 2 * MINUTE, NOW)
        assert (found.status, found.observed.writes, found.observed.loaded_writes) == ("fits", 25, 30)
        assert (found.observed.max_ms, found.observed.since_ms) == (MINUTE, epoch_ms("11:00:00"))

    def test_what_comes_as_late_beside_live_writes_is_late(self):
        live = history(*[MINUTE] * 25, completed=instant("10:00:00")).writes
        late = history(*[900 * DAY] * 5).writes
        found = judge_latency(history_of(live + late), 2 * MINUTE, NOW)
        assert (found.status, found.observed.writes, found.late_share) == ("too_short", 30, 5 / 30)

    @pytest.mark.parametrize(("latency_ms", "declared_ms"), [(30 * DAY, HOUR), (300 * DAY, 30 * DAY)])
    def test_a_table_whose_events_may_be_as_late_is_judged(self, latency_ms, declared_ms):
        assert judge_latency(history(*[latency_ms] * 50), declared_ms, NOW).status == "too_short"
        assert judge_latency(history(*[latency_ms + 1] * 50), declared_ms, NOW).status == "unknown"


def test_instants_are_read_in_the_tables_zone():
    """11:00 in Tokyo is 02:00 UTC."""
    tokyo = history(*[0] * 50, timezone="Asia/Tokyo")
    assert judge_latency(tokyo, HOUR, epoch_ms("02:00:00")).observed.since_ms == epoch_ms("02:00:00")


def test_events_ahead_of_their_commit_count_as_no_latency():
    assert judge_latency(history(*[-HOUR] * 50), HOUR, NOW).observed.max_ms == 0


def test_nearest_rank():
    assert [quantile([1, 2, 3, 4], share) for share in (0.0, 0.25, 0.26, 0.5, 0.99, 1.0)] == [1, 1, 2, 2, 4, 4]
    assert quantile([7], 0.5) == 7


@pytest.mark.parametrize(
    ("duration_ms", "rounded_ms"),
    [
        (0, 10 * SECOND), (1, 10 * SECOND), (10 * SECOND, 10 * SECOND), (61 * SECOND, 2 * MINUTE),
        (11 * MINUTE, 15 * MINUTE), (61 * MINUTE, 90 * MINUTE), (7 * HOUR + 1, 8 * HOUR), (2 * DAY + 1, 3 * DAY),
    ],
)  # fmt: skip
def test_suggestions_read_well(duration_ms, rounded_ms):
    assert round_up_ms(duration_ms) == rounded_ms


LEARNED = LearnedLatency(quantile=0.9, at_least_ms=10 * MINUTE, at_most_ms=6 * HOUR)


@pytest.mark.parametrize(
    ("latencies", "learned_ms", "writes", "observed_ms"),
    [
        ([n * MINUTE for n in range(1, 101)], 90 * MINUTE, 100, 90 * MINUTE),
        ([*[MINUTE] * 30, 40 * MINUTE], 10 * MINUTE, 31, MINUTE),
        ([8 * HOUR] * 20, 6 * HOUR, 20, 8 * HOUR),
        ([100 * DAY, *[31 * MINUTE] * 20], 35 * MINUTE, 20, 31 * MINUTE),  # what was loaded first teaches nothing
        ([MINUTE] * 19, 6 * HOUR, 0, None),
        ([*[None] * 50, *[MINUTE] * 19], 6 * HOUR, 0, None),
        ([], 6 * HOUR, 0, None),
    ],
)
def test_what_is_learned(latencies, learned_ms, writes, observed_ms):
    found, evidence = learn_latency(history(*latencies), LEARNED, NOW)
    assert (found, evidence.writes, evidence.observed_ms) == (learned_ms, writes, observed_ms)
    assert learn_latency(history(*latencies), LEARNED, epoch_ms("10:00:00"))[1].writes == 0  # nothing had completed


def test_where_commits_record_nothing_log_files_teach():
    found, evidence = learn_latency(read_history(*[MINUTE] * 20, 2 * HOUR), LEARNED, NOW)
    assert (found, evidence.writes, evidence.read_writes) == (10 * MINUTE, 21, 21)


def test_nothing_is_learned_of_rows_that_compactions_split_off():
    """They are about as old as `data_latency`, whatever that is: it would never fall."""
    found = read_history(*[MINUTE] * 20, *[5 * HOUR] * 20)
    compactions = (replace(one, action="commit", operation="COMPACT") for one in found.commits[20:])
    assert learn_latency(replace(found, commits=(*found.commits[:20], *compactions)), LEARNED, NOW)[1].writes == 20


def spread(*latencies_ms):
    """A load, then a commit a minute, each with its oldest event so long before."""
    writes = [GroupWrite(at := instant("09:00:00"), at, "p", "f", epoch_ms("09:00:00"), True, 1)]
    for minute, latency in enumerate(latencies_ms):
        at, done = instant(f"10:{minute:02}:00"), epoch_ms(f"10:{minute:02}:00")
        writes.append(GroupWrite(at, at, "p", "f", done - latency, True, 1))
    return history_of(writes)


@pytest.mark.parametrize(
    ("latencies", "status", "late"),
    [
        ((DAY, DAY), "too_short", (2, 2, DAY)),
        ((DAY, 2 * DAY, MINUTE), "too_short", (2, 3, DAY)),
        ((DAY, DAY, MINUTE, MINUTE), "unknown", None),
        ((DAY,), "unknown", None),
        ((*[DAY] * 11, *[MINUTE] * 9), "too_short", (11, 20, DAY)),
        ((*[DAY] * 2, *[MINUTE] * 18), "too_short", None),
        ((40 * DAY, 40 * DAY, MINUTE), "unknown", None),
        ((40 * DAY, DAY, DAY), "too_short", (2, 2, DAY)),
        ((60 * DAY, 50 * DAY, 40 * DAY, 20 * DAY, 10 * DAY, 5 * DAY, DAY, MINUTE), "unknown", None),
        ((60 * DAY, 50 * DAY, 40 * DAY, 20 * DAY, 10 * DAY, DAY, DAY, DAY), "too_short", (2, 2, DAY)),
        ((60 * DAY, 40 * DAY, 50 * DAY, 20 * DAY, 10 * DAY, MINUTE), "too_short", (2, 3, 10 * DAY)),
    ],
)
def test_most_commits_that_come_late_are_enough_however_few_they_are(latencies, status, late):
    """Their column may not move with updates; a load, old data, a replay that catches up and one late commit say nothing."""
    verdict = judge_latency(spread(*latencies), HOUR, NOW)
    assert (verdict.status, mostly_late(by_commit(verdict.arrivals), HOUR)) == (status, late and LateCommits(*late))
    if verdict.observed.writes < 20:
        assert verdict.suggested_ms is None and "it takes 20" in verdict.reason


@pytest.mark.parametrize(("live", "status", "writes"), [(25, "generous", 25), (0, "unknown", 0)])
def test_a_replay_that_catches_up_says_nothing_of_how_late_events_come(live, status, writes):
    """It is not warned of as it reaches the days in which events may be late, and no longer `data_latency` is suggested."""
    found = history_of(spread(*range(60 * DAY, HOUR, -2 * DAY), *[MINUTE] * live).writes[1:])
    verdict = judge_latency(found, HOUR, NOW)
    assert (verdict.status, verdict.observed.writes if verdict.observed else 0) == (status, writes)
    assert mostly_late(by_commit(verdict.arrivals), HOUR) is None


def test_a_column_that_moves_with_updates_is_asked_for():
    message, hint = doubt_text(LateCommits(2, 3, DAY), EventTime(column="placed_at"), HOUR, ("updated_at",))
    assert message == (
        "2 of 3 commits after the table's first brought events later than `data_latency` (1h), half of all commits some 1d or "
        "more after they happened: if updates leave `placed_at` as it was, each update of an old row takes RO back"
    )
    such = "such as the ordering field `updated_at` if it is a time"
    assert hint == f"take a column that moves with updates, {such}; else a longer `data_latency`"
    assert "ordering" not in doubt_text(LateCommits(2, 3, DAY), EventTime(column="ts"), HOUR, ("ts",))[1]


def test_a_few_writes_have_no_percentiles():
    of_one, of_two, of_many = (str(judge_latency(spread(*[MINUTE] * n), HOUR, NOW).observed) for n in (0, 1, 20))
    assert of_one == "1 write to log files came at once"
    assert of_two == "of 2 writes to log files one came at once, the other 1m after its earliest event"
    assert of_many == "all 21 writes to log files came within 1m of their earliest event"


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ((1, 5_000, 5_000), "1 write came 5s after its earliest event"),
        ((1, 0, 0), "1 write came at once"),
        ((2, 3_000, 3_000), "both writes came within 3s of their earliest event"),
        ((2, 3_000, 60_000), "of 2 writes one came 3s after its earliest event, the other 1m"),
        ((5, 0, 9_000), "of 5 writes half came at once, all within 9s of their earliest event"),
        ((30, 0, 0, 0), "all 30 writes came at once"),
        ((30, 3_000, 63_000, 63_000), "of 30 writes half came within 3s, all within 1m3s of their earliest event"),
        ((30, 3_000, 9_000, 3_000), "of 30 writes 99 % came within 3s, all within 9s of their earliest event"),
        (
            (30, 1_000, 9_000, 3_000),
            "of 30 writes half came within 1s, 99 % within 3s, all within 9s of their earliest event",
        ),
    ],
)
def test_no_figure_is_said_twice(figures, said):
    number, *times = figures
    assert lateness(number, "write", *times) == said


@pytest.mark.parametrize(
    ("part", "total", "said"),
    [(1, 1, "the only commit"), (1, 2, "1 of 2 commits"), (2, 2, "both commits"), (9, 9, "all 9 commits")],
)
def test_a_part_that_is_all_is_said_to_be_all(part, total, said):
    assert part_of(part, total, "commit") == said
