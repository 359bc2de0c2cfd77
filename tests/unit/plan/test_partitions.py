from dataclasses import replace
from typing import ClassVar

import pytest

from etc_policy.policy.manifest import EventTime, Policy
from etc_policy.policy.schema import PartitionTime
from etc_policy.table.partitions import partitions_freshness
from tests.unit.plan.plan_cases import epoch_ms, instant, state_of

HOURS = PartitionTime(pattern="h=%Y-%m-%d %H")
POLICY = Policy(
    name="orders_ro",
    table="/t",
    event_time=EventTime(column="ts"),
    data_latency_ms=600_000,
    partition_time=HOURS,
)
NINE, TEN, ELEVEN = (f"h=2026-01-01 {hour:02}" for hour in (9, 10, 11))


def state(**logs):
    """A table with a slice in each of three hours, and these log files in them."""
    slices = {f"{name}/f": {"base": "08:00:00", "logs": logs.get(key, {})} for key, name in NAMES.items()}
    return state_of("/t", {"slices": slices})


NAMES = {"nine": NINE, "ten": TEN, "eleven": ELEVEN}


def judge(policy=POLICY, now="12:00:00", globs=(), **logs):
    return partitions_freshness(policy, state(**logs), epoch_ms(now), globs)


def statuses(found):
    return {one.partition: one.status for one in found.partitions}


class TestStatus:
    def test_a_partition_closes_when_its_end_and_the_latency_are_past(self):
        assert statuses(judge(now="11:09:59.999"))[TEN] == "open"
        assert statuses(judge(now="11:10:00"))[TEN] == "done"

    @pytest.mark.parametrize(
        ("log", "status"),
        [
            ("11:20:00 > 11:20:05, event 10:59:59.999", "closed"),
            (
                "11:20:00 > 11:20:05, event 11:00:00",
                "done",
            ),  # about the hour that follows: RO holds every row of this one
            ("11:20:00 > 11:20:05", "closed"),
            ("11:20:00 > 11:20:05, deletes", "closed"),
        ],
    )
    def test_one_event_before_the_end_or_one_that_is_unknown_is_lacking(self, log, status):
        assert statuses(judge(ten={"L1": log})) == {NINE: "done", TEN: status, ELEVEN: "open"}

    def test_what_lacks_elsewhere_does_not_count(self):
        found = statuses(judge(now="13:00:00", nine={"L1": "09:20:00 > 09:20:05, event 09:10:00"}))
        assert found == {NINE: "closed", TEN: "done", ELEVEN: "done"}

    def test_without_a_time_there_is_no_status(self):
        assert set(statuses(judge(POLICY.model_copy(update={"partition_time": None}))).values()) == {None}

    def test_quiet_partitions_of_no_time_are_done(self):
        idle = POLICY.model_copy(update={"partition_time": None, "partition_idle_ms": 1_800_000})
        logs = {
            "nine": {"L1": "11:29:50 > 11:30:00, event 09:10:00"},
            "ten": {"L2": "11:30:00 > 11:30:01, event 10:10:00"},
        }
        assert statuses(judge(idle, **logs)) == {NINE: "closed", TEN: "open", ELEVEN: "done"}

    @pytest.mark.parametrize("kind", [{}, {"action": "commit", "is_bulk_insert": True}])
    def test_a_write_counts_from_its_completion(self, kind):
        idle = POLICY.model_copy(update={"partition_time": None, "partition_idle_ms": 1_800_000})
        table = state()
        slow = replace(table.instants[0], requested=instant("08:00:00"), completed=instant("11:31:00"), **kind)
        table = replace(table, instants=(slow,))
        assert statuses(partitions_freshness(idle, table, epoch_ms("12:00:00")))[TEN] == "open"
        assert statuses(partitions_freshness(idle, table, epoch_ms("12:01:00")))[TEN] == "done"

    def test_in_the_hour_that_comes_twice_a_write_may_be_of_the_second(self):
        idle = POLICY.model_copy(update={"partition_time": None, "partition_idle_ms": 1_800_000})
        (one, *_), written = state().slices, "20251102013000000"  # in New York at 05:30 or at 06:30 UTC
        table = replace(state(), timezone="America/New_York", slices=(replace(one, base_instant=written),), instants=())
        at_six_thirty_ms = 1_762_065_000_000
        judged = [partitions_freshness(idle, table, at_six_thirty_ms + ms) for ms in (300_000, 1_800_000)]
        assert [one.partitions[0].status for one in judged] == ["open", "done"]


class TestFigures:
    LOGS: ClassVar = {
        "nine": {"L1": "09:20:00 > 09:20:05, event 09:10:00", "L2": "11:45:00 > 11:45:05"},
        "ten": {"L3": "10:20:00 > 10:20:05, event 10:15:00"},
    }

    def files_of(self, partition):
        return [log_file for one, log_file in state(**self.LOGS).log_files if one.partition == partition]

    def test_of_each_partition_the_worst_first(self):
        found = judge(**self.LOGS)
        nine, ten, eleven = found.partitions
        assert [one.partition for one in found.partitions] == [NINE, TEN, ELEVEN]
        assert (nine.complete_until_ms, nine.held_back_by, nine.file_id) == (epoch_ms("09:10:00") - 1, "L1", "f")
        assert (nine.log_files, nine.unknown_log_files, nine.held_back_assumed) == (2, 1, False)
        assert nine.log_bytes == sum(log_file.size_bytes for log_file in self.files_of(NINE))
        assert (ten.complete_until_ms, ten.last_write_ms) == (epoch_ms("10:15:00") - 1, epoch_ms("10:20:05"))
        assert (eleven.complete_until_ms, eleven.held_back_by, eleven.file_id) == (epoch_ms("11:50:00"), None, None)
        assert (ten.begins_ms, ten.ends_ms) == (epoch_ms("10:00:00"), epoch_ms("11:00:00"))
        assert found.counts() == {"open": 1, "closed": 2, "done": 0}

    def test_none_is_complete_beyond_what_is_proved(self):
        found = partitions_freshness(POLICY, state(), epoch_ms("12:00:00"), (), epoch_ms("10:30:00"))
        assert {one.complete_until_ms for one in found.partitions} == {epoch_ms("10:30:00")}

    def test_globs_choose(self):
        assert [one.partition for one in judge(globs=("*09", "*11")).partitions] == [ELEVEN, NINE]

    def test_paths_that_are_no_times_are_named_once_and_two_of_one_time_too(self):
        names = ("h=2026-01-01 09", "h=2026-1-1 9", "h=", "h=__HIVE_DEFAULT_PARTITION__")
        table = state_of("/t", {"slices": {f"{name}/f": {"base": "08:00:00"} for name in names}})
        found = partitions_freshness(POLICY, table, epoch_ms("12:00:00"))
        assert (found.unparsed, found.unparsed_example) == (2, "h=")
        assert found.same_time == ("h=2026-01-01 09", "h=2026-1-1 9")
        assert found.counts()["done"] == 2
