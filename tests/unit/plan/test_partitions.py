from dataclasses import replace
from typing import ClassVar

import pytest

from etc_policy.plan.builder import build_table_plan
from etc_policy.policy.manifest import EventTime, Freshness, Policy, Strategy
from etc_policy.policy.schema import Done, PartitionTime
from etc_policy.table.apply_state import Proof
from etc_policy.table.partitions import partitions_freshness, rows_key
from etc_policy.table.state import Instant
from tests.unit.plan.plan_cases import epoch_ms, instant, state_of
from tests.unit.plan.states import with_instant

HOURS = PartitionTime(pattern="h=%Y-%m-%d %H")
POLICY = Policy(
    name="orders_ro",
    table="/t",
    event_time=EventTime(column="ts"),
    data_latency_ms=600_000,
    partition_time=HOURS,
)
UNTIL_END = POLICY.model_copy(update={"done": Done(rows="until_end")})
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
        ("log", "by_end"),
        [
            ("11:20:00 > 11:20:05, event 10:59:59.999", "closed"),
            ("11:20:00 > 11:20:05, event 11:00:00", "done"),
            ("11:20:00 > 11:20:05", "closed"),
            ("11:20:00 > 11:20:05, deletes", "closed"),
        ],
    )
    def test_a_log_file_that_is_left_is_lacking_whatever_its_events_unless_only_those_before_the_end_count(
        self, log, by_end
    ):
        assert statuses(judge(ten={"L1": log})) == {NINE: "done", TEN: "closed", ELEVEN: "open"}
        assert statuses(judge(UNTIL_END, ten={"L1": log})) == {NINE: "done", TEN: by_end, ELEVEN: "open"}

    def test_a_grace_moves_the_end(self):
        graced = PartitionTime(pattern=HOURS.pattern, grace_ms=1_800_000)
        policy = UNTIL_END.model_copy(update={"partition_time": graced})
        logs = {"L1": "11:20:00 > 11:20:05, event 11:29:59.999"}
        assert [statuses(judge(policy, now, ten=logs))[TEN] for now in ("11:39:59.999", "11:40:00")] == [
            "open",
            "closed",
        ]
        assert statuses(judge(policy, ten={"L1": "11:20:00 > 11:20:05, event 11:30:00"}))[TEN] == "done"
        (ten,) = judge(policy, globs=(TEN,)).partitions
        assert (ten.begins_ms, ten.ends_ms) == (epoch_ms("10:00:00"), epoch_ms("11:30:00"))

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

    def test_before_version_8_a_log_file_may_have_grown_until_the_last_commit(self):
        """It bears the instant of its slice, however late its last rows came."""
        idle = POLICY.model_copy(update={"partition_time": None, "partition_idle_ms": 1_800_000})
        old = replace(state(ten={"L1": "08:00:00 > 08:00:00, event 10:10:00"}), table_version=6)
        old = with_instant(old, "11:45:00", "deltacommit", completed="11:45:00")
        assert statuses(partitions_freshness(idle, old, epoch_ms("12:00:00"))) == {
            NINE: "done",
            TEN: "open",
            ELEVEN: "done",
        }
        assert statuses(partitions_freshness(idle, old, epoch_ms("12:15:00")))[TEN] == "closed"

    @pytest.mark.parametrize("kind", [{}, {"action": "commit", "is_bulk_insert": True}])
    def test_a_write_counts_from_its_completion(self, kind):
        idle = POLICY.model_copy(update={"partition_time": None, "partition_idle_ms": 1_800_000})
        table = state()
        slow = replace(table.instants[0], requested=instant("08:00:00"), completed=instant("11:31:00"), **kind)
        table = replace(table, instants=(slow,))
        assert statuses(partitions_freshness(idle, table, epoch_ms("12:00:00")))[TEN] == "open"
        assert statuses(partitions_freshness(idle, table, epoch_ms("12:01:00")))[TEN] == "done"

    def test_so_does_one_that_is_archived(self):
        """It is as soon as it has completed, where it took so long that all that is left began later."""
        idle = POLICY.model_copy(update={"partition_time": None, "partition_idle_ms": 1_800_000})
        slices = tuple(replace(one, base_completed=instant("11:31:00")) for one in state().slices)
        table = replace(state(), slices=slices)
        assert statuses(partitions_freshness(idle, table, epoch_ms("12:00:00")))[TEN] == "done"  # of a compaction
        table = replace(table, instants=())
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


class TestAfterTheEnd:
    """Events after the end of their partition, such as updates of the rows of a day: they are due when T reaches them."""

    LOGS: ClassVar = {"ten": {"L1": "11:50:00 > 11:50:05, event 11:49:00"}}

    def plan(self, policy=POLICY, **logs):
        now_ms = epoch_ms("11:55:00")
        return build_table_plan(policy, state(**(logs or self.LOGS)), now_ms=now_ms, clock_ms=now_ms)

    def test_a_plan_says_so_and_names_both_keys(self):
        (warning,) = self.plan().warnings
        assert "1 log file of 1 closed partition with events after the end of theirs" in warning
        assert f"{TEN}/L1: 2026-01-01 11:49:00 UTC, and the end is 2026-01-01 11:00:00 UTC" in warning
        assert "`partition_time.grace`" in warning
        assert "`done.rows: until_end`" in warning

    @pytest.mark.parametrize("rows", ["all", "until_end"])
    def test_not_where_the_policy_says_what_counts(self, rows):
        assert self.plan(POLICY.model_copy(update={"done": Done(rows=rows)})).warnings == ()

    def test_not_of_open_partitions_nor_of_events_before_the_end(self):
        logs = {
            "ten": {"L1": "11:20:00 > 11:20:05, event 10:59:59"},
            "eleven": {"L2": "11:54:00 > 11:54:05, event 12:00:00"},
        }
        assert self.plan(**logs).warnings == ()

    def test_they_wait_for_t_unless_closed_partitions_are_compacted_whole(self):
        assert self.plan().action == "nothing_due"
        closing = POLICY.model_copy(update={"strategy": Strategy(on_close=True)})
        (operation,) = self.plan(closing).operations
        assert (operation.partition, operation.log_files_compacted) == (TEN, ("L1",))
        assert self.plan(closing).threshold_ms == epoch_ms("11:45:00")
        assert self.plan(closing.model_copy(update={"done": Done(rows="until_end")})).action == "nothing_due"


class TestProofs:
    """A proof is of the files that were there: it was made at 11:30, as nothing that began before was pending."""

    PROOF = Proof(
        level="data",
        until_ms=epoch_ms("11:20:00"),
        proved_at_ms=epoch_ms("11:31:00"),
        seen_until=instant("11:30:00"),
        open_since=instant("11:30:00"),
    )

    def judge(self, *changes, policy=POLICY, proof=PROOF, day=0, **logs):
        table = state_of("/t", {"slices": {f"{TEN}/f": {"base": "11:05:00", "logs": logs}}})
        for change in changes:
            table = change(table)
        now_ms = epoch_ms("12:00:00") + day * 86_400_000
        (found,) = partitions_freshness(policy, table, now_ms, proofs=(proof,)).partitions
        return found.status, found.proof

    @staticmethod
    def with_base(requested, completed, *, active=True):
        """A base file that somebody else's compaction has made, which archiving may have taken since."""
        made = Instant(instant(requested), "commit", "completed", instant(completed))

        def change(table):
            slices = tuple(replace(one, base_instant=made.requested) for one in table.slices)
            return replace(table, slices=slices, instants=(*table.instants, *([made] if active else [])))

        return change

    @pytest.mark.parametrize(
        ("requested", "completed", "active", "proof"),
        [
            ("11:10:00", "11:10:05", True, "data"),
            ("11:40:00", "11:40:05", True, "metadata"),
            ("11:29:50", "11:40:05", True, "metadata"),  # its writer's clock was behind
            ("11:10:00", "11:40:05", False, "data"),  # it had completed, as it was not pending
            ("11:40:00", "11:40:05", False, "metadata"),
        ],
    )
    def test_a_base_file_that_came_since_is_not_proved(self, requested, completed, active, proof):
        assert self.judge(self.with_base(requested, completed, active=active)) == ("done", proof)

    @pytest.mark.parametrize(("completed", "proof"), [("10:29:00", "data"), ("10:31:00", "metadata")])
    def test_what_was_requested_after_a_pending_write_is_once_all_must_have_shown_themselves(self, completed, proof):
        pending = self.PROOF.model_copy(update={"open_since": instant("10:00:00")})
        assert self.judge(self.with_base("10:28:00", completed), proof=pending) == ("done", proof)

    @pytest.mark.parametrize(("version", "active"), [(9, False), (6, True)])
    def test_what_was_requested_after_it_is_not_where_nobody_knows_when_it_completed(self, version, active):
        """It may be the pending one, that took hours; before table version 8 no commit says when it ended."""
        pending = self.PROOF.model_copy(update={"open_since": instant("10:00:00")})
        made = self.with_base("10:00:00", "10:00:00", active=active)
        changes = made, lambda table: replace(table, table_version=version)
        assert self.judge(*changes, proof=pending) == ("done", "metadata")

    @pytest.mark.parametrize(("file_ids", "proof"), [(None, "metadata"), ({"f"}, "metadata"), ({"g"}, "data")])
    def test_a_later_rollback_ends_it(self, file_ids, proof):
        ids = None if file_ids is None else frozenset(file_ids)
        rollback = Instant(instant("11:40:00"), "rollback", "completed", instant("11:40:05"), ids)
        assert self.judge(lambda table: replace(table, instants=(*table.instants, rollback))) == ("done", proof)

    @pytest.mark.parametrize("action", ["commit", "rollback"])
    @pytest.mark.parametrize(("zone", "proof"), [("UTC", "data"), ("Europe/Berlin", "metadata")])
    def test_what_came_in_the_hour_that_comes_twice_may_have_come_since(self, zone, proof, action):
        """Its text is before that of the proof, also where it came 20 minutes later."""
        seen = self.PROOF.model_copy(update={"seen_until": "20261025025000000", "open_since": "20261025025000000"})
        made = Instant("20261025021000000", action, "completed", "20261025021100000")

        def change(table):
            base = made.requested if action == "commit" else "20261025010000000"
            slices = tuple(replace(one, base_instant=base) for one in table.slices)
            return replace(table, slices=slices, instants=(*table.instants, made), timezone=zone)

        assert self.judge(change, proof=seen, day=300) == ("done", proof)

    def test_before_table_version_8_no_log_file_is_proved(self):
        """All log files of a slice bear its instant, whenever they came."""
        logs = {"L1": "11:06:00 > 11:06:05, event 11:01:00"}
        assert self.judge(policy=UNTIL_END, **logs) == ("done", "data")
        assert self.judge(lambda table: replace(table, table_version=6), policy=UNTIL_END, **logs) == (
            "done",
            "metadata",
        )

    @pytest.mark.parametrize("wanted", ["logs", "data"])
    def test_what_freshness_asks_for_is_asked_of_partitions(self, wanted):
        policy = POLICY.model_copy(update={"freshness": Freshness(proof=wanted)})
        assert self.judge(policy=policy) == ("done", "data")
        assert self.judge(self.with_base("11:40:00", "11:40:05"), policy=policy) == ("closed", "metadata")

    def test_of_earlier_ones_than_since_too(self):
        done = Done(proof="data", since=ELEVEN)
        new = self.with_base("11:40:00", "11:40:05")
        assert self.judge(new, policy=POLICY.model_copy(update={"done": done})) == ("done", "metadata")
        proven = POLICY.model_copy(update={"done": done, "freshness": Freshness(proof="logs")})
        assert self.judge(new, policy=proven) == ("closed", "metadata")

    def test_of_quiet_ones_too(self):
        idle = POLICY.model_copy(
            update={"partition_time": None, "partition_idle_ms": 60_000, "done": Done(proof="logs")}
        )
        assert self.judge(policy=idle) == ("done", "data")
        assert self.judge(self.with_base("11:40:00", "11:40:05"), policy=idle) == ("closed", "metadata")

    @pytest.mark.parametrize(
        ("until", "status", "proof"), [("11:10:00", "done", "data"), ("11:09:59", "closed", "logs")]
    )
    def test_of_quiet_ones_up_to_their_last_write(self, until, status, proof):
        """Later rows were in neither view that was compared."""
        idle = POLICY.model_copy(
            update={"partition_time": None, "partition_idle_ms": 60_000, "freshness": Freshness(proof="data")}
        )
        reaching = self.PROOF.model_copy(update={"until_ms": epoch_ms(until)})
        assert self.judge(self.with_base("11:10:00", "11:10:05"), policy=idle, proof=reaching) == (status, proof)

    def test_of_a_sample_nobody_knows_which_partitions_it_was_of(self):
        assert self.judge(proof=self.PROOF.model_copy(update={"level": "sample"})) == ("done", "logs")


def test_a_comparison_is_not_of_a_log_file_that_has_grown_since():
    def key(table):
        return rows_key(POLICY, table, 0, table.slices)

    table = replace(state(ten={"L1": "08:00:00 > 08:00:00"}), table_version=6, logs_grow=True)
    (one, *others) = sorted(table.slices, key=lambda found: not found.log_files)
    grown = replace(one, log_files=tuple(file._replace(size_bytes=file.size_bytes + 1) for file in one.log_files))
    later = replace(table, slices=tuple(sorted((grown, *others), key=lambda found: found.partition)))
    assert key(later) != key(table) == key(replace(table))
    assert key(replace(later, logs_grow=False)) == key(replace(table, logs_grow=False))
