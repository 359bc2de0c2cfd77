from dataclasses import replace

from etc_policy.table.completeness import replay_completeness
from etc_policy.table.history import GroupWrite, with_times_of
from etc_policy.table.state import CompactionRecord
from etc_policy.verify.late_data import late_data
from etc_policy.verify.latency import judge_latency
from tests.past import history_of
from tests.unit.plan.plan_cases import epoch_ms, instant, state_of

T1, T2 = epoch_ms("09:00:00"), epoch_ms("10:00:00")


def run(number, threshold_ms, seen):
    return CompactionRecord(instant(f"1{number}:00:00"), instant(f"1{number}:00:05"), threshold_ms, "p", "x", seen)


def write(completed, event, file_id="f1", rows=10, certain=True):
    time_ms = None if event is None else epoch_ms(event)
    return GroupWrite(
        instant(completed), instant(completed), "p", file_id, time_ms, certain and event is not None, rows
    )


def history(*writes, runs=None):
    two = (run(0, T1, instant("09:55:00")), run(1, T2, instant("10:55:00")))
    return history_of(sorted(writes, key=lambda w: w.completed), two if runs is None else runs)


def test_each_run_has_what_came_after_its_plan_and_before_the_next():
    first, second = late_data(
        history(
            write("09:54:59", "08:00:00"),  # seen by the first plan, which compacted it
            write("09:55:00", "08:00:00"),  # the very last it saw
            write("09:55:00.001", "08:30:00", rows=7),
            write("10:20:00", "09:00:00", file_id="f2", rows=5),  # at T itself
            write("10:30:00", "09:00:00.001"),  # above T
            write("10:55:00", "08:45:00", rows=1),  # the second plan saw it: late to the first only
            write("11:30:00", "09:30:00", rows=3),
        )
    )
    assert (first.writes, first.file_groups, first.rows_at_most) == (3, 2, 13)
    assert first.complete_until_ms == epoch_ms("08:30:00") - 1
    assert first.regression_ms == 30 * 60_000 + 1
    assert (second.writes, second.file_groups, second.rows_at_most) == (1, 1, 3)
    assert (second.threshold_ms, second.complete_until_ms) == (T2, epoch_ms("09:30:00") - 1)


def test_nothing_late_leaves_the_threshold_standing():
    first, second = late_data(history(write("10:20:00", "09:30:00")))
    for late, threshold in ((first, T1), (second, T2)):
        assert (late.writes, late.rows_at_most, late.regression_ms) == (0, 0, 0)
        assert late.complete_until_ms == threshold


def test_writes_that_may_hold_anything_are_told_apart():
    """One recorded nothing, one records a time above T but has deletes, one is late already whatever else is in it."""
    first, _ = late_data(
        history(
            write("10:00:00", None),
            write("10:01:00", "09:30:00", certain=False),
            write("10:02:00", "08:00:00", certain=False),
        )
    )
    assert (first.unknown_writes, first.writes) == (2, 1)


def test_without_a_compaction_of_ours_nothing_can_be_late():
    assert late_data(history(write("10:00:00", "08:00:00"), runs=())) == ()


def test_a_record_without_what_it_saw_saw_what_came_before_its_instant():
    late = late_data(history(write("09:59:00", "08:00:00"), write("10:00:01", "08:00:00"), runs=(run(0, T1, ""),)))
    assert [entry.writes for entry in late] == [1]


def test_event_times_that_the_log_files_themselves_tell_are_taken():
    state = state_of(
        "/t", {"slices": {"p/f1": {"base": "08:00:00", "logs": {"L1": "10:00:00 > 10:00:00, event 08:15:00"}}}}
    )
    untold = history(write("10:00:00", None), write("10:10:00", None))
    (first, _) = late_data(with_times_of(untold, state))
    assert (first.writes, first.unknown_writes, first.complete_until_ms) == (1, 1, epoch_ms("08:15:00") - 1)


def test_what_a_commit_books_with_certainty_is_not_replaced():
    state = state_of(
        "/t", {"slices": {"p/f1": {"base": "08:00:00", "logs": {"L1": "10:00:00 > 10:00:00, event 08:15:00"}}}}
    )
    assert with_times_of(history(write("10:00:00", "07:00:00")), state).writes[0].known_min_ms == epoch_ms("07:00:00")


def test_a_log_compaction_brings_nothing():
    """It repeats what its slice holds, as a slice does that was due and left out."""
    written = history(write("09:50:00", "08:00:00"), write("10:20:00", "08:00:00"))
    first, second, *runs = written.commits
    repeated = replace(written, commits=(first, replace(second, operation="LOG_COMPACT"), *runs))
    assert [one.writes for one in late_data(written)] == [1, 0]
    assert [one.writes for one in late_data(repeated)] == [0, 0]
    assert replay_completeness(written, 0)[1].late_groups == 1
    assert replay_completeness(repeated, 0)[1].late_groups == 0
    one, both = (judge_latency(found, 3_600_000, epoch_ms("12:00:00")).observed for found in (repeated, written))
    assert (one.writes, one.max_ms) == (1, epoch_ms("09:50:00") - epoch_ms("08:00:00"))
    assert (both.writes, both.max_ms) == (2, epoch_ms("10:20:00") - epoch_ms("08:00:00"))
