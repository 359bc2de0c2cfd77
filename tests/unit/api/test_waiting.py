import pytest

from etc_policy.api.waiting import CompleteUntil, PartitionDone, Waiter
from etc_policy.errors import PolicyError, RetryableError, TableError
from etc_policy.policy.manifest import EventTime, LatencyEvidence, Policy
from etc_policy.policy.schema import Done, PartitionTime
from tests.unit.plan.plan_cases import epoch_ms, state_of

OPEN = {"slices": {"p/f1": {"base": "08:00:00", "logs": {"L1": "11:40:00 > 11:40:05, event 11:25:00"}}}}
DONE = {"slices": {"p/f1": {"base": "11:41:00"}}}
MINUTE = 60_000


def policy(name="orders_ro", latency=10 * MINUTE):
    return Policy(name=name, table=f"/{name}", event_time=EventTime(column="ts"), data_latency_ms=latency)


class World:
    """Tables whose states change at given times, and a clock that only sleeping moves."""

    def __init__(self, now, **tables):
        self.now_ms, self.tables = epoch_ms(now), tables
        self.reads, self.said, self.slept = [], [], []
        self.read_takes_ms = 0

    def read_state(self, policy):
        self.reads.append((policy.name, self.now_ms))
        steps = self.tables[policy.name]
        found = [step for since, step in steps if epoch_ms(since) <= self.now_ms][-1]
        self.now_ms += self.read_takes_ms
        if isinstance(found, Exception):
            raise found
        return state_of(f"/{policy.name}", found)

    def progress(self, step):
        self.said.append(step)

    def sleep(self, milliseconds):
        self.slept.append(milliseconds)
        self.now_ms += milliseconds

    def wait(self, *policies, until=None, partition=None, timeout=60 * MINUTE, poll=MINUTE):
        goal = PartitionDone(partition) if until is None else CompleteUntil(epoch_ms(until))
        waiter = Waiter(self, goal, timeout, poll, lambda: self.now_ms, self.sleep)
        return waiter.wait(policies)


def test_a_table_that_is_complete_is_read_once():
    world = World("12:00:00", orders_ro=[("00:00:00", DONE)])
    (table,) = world.wait(policy(), until="11:50:00")
    assert table.complete_until_ms == epoch_ms("11:50:00")
    assert (len(world.reads), world.slept) == (1, [])


def test_it_waits_until_the_log_file_is_compacted():
    world = World("12:00:00", orders_ro=[("00:00:00", OPEN), ("12:03:00", DONE)])
    (table,) = world.wait(policy(), until="11:30:00")
    assert (table.policy, table.remaining_log_files) == ("orders_ro", 0)
    assert world.now_ms == epoch_ms("12:03:00")
    assert [step.split(" until ")[1] for step in world.said] == [
        "2026-01-01 11:24:59.999 UTC",
        "2026-01-01 11:53:00 UTC",
    ]


def test_before_the_latency_has_passed_it_looks_once_and_then_sleeps():
    world = World("12:00:00", orders_ro=[("00:00:00", DONE)])
    world.wait(policy(), until="12:20:00")
    assert [moment for _, moment in world.reads] == [epoch_ms("12:00:00"), epoch_ms("12:30:00")]


@pytest.mark.parametrize("goal", [{"until": "10:30:00"}, {"partition": "h=2026-01-01-09"}])
def test_what_was_promised_is_complete_whatever_latency_is_learned_since(goal):
    evidence = LatencyEvidence(promised_ms=epoch_ms("10:30:00"))
    timed = PartitionTime.model_validate({"from": "h=%Y-%m-%d-%H"})
    learned = policy(latency=240 * MINUTE).model_copy(update={"latency_evidence": evidence, "partition_time": timed})
    table = {"slices": {"h=2026-01-01-09/f1": {"base": "11:41:00"}}}
    world = World("12:00:00", orders_ro=[("00:00:00", table)])
    (found,) = world.wait(learned, **goal, timeout=0)
    assert found.complete_until_ms == epoch_ms("10:30:00")


def test_the_time_runs_out():
    world = World("12:00:00", orders_ro=[("00:00:00", OPEN)])
    with pytest.raises(
        RetryableError, match=r"waited 5m for 2026-01-01 11:30:00 UTC: `orders_ro` is complete until"
    ) as e:
        world.wait(policy(), until="11:30:00", timeout=5 * MINUTE)
    assert (e.value.exit_code, e.value.code) == (4, "ETC410")
    assert world.now_ms == epoch_ms("12:05:00")
    assert len(world.reads) == 6


def test_what_comes_in_while_a_table_is_read_may_be_as_old_as_the_latency_then():
    """It is in no log file that was seen."""
    world = World("12:00:00", orders_ro=[("00:00:00", DONE)])
    world.read_takes_ms = 2 * MINUTE
    (table,) = world.wait(policy(), until="11:51:00")
    assert table.complete_until_ms == world.reads[-1][1] - 10 * MINUTE >= epoch_ms("11:51:00")
    assert len(world.reads) == 2


def test_no_timeout_only_asks():
    world = World("12:00:00", orders_ro=[("00:00:00", OPEN)])
    with pytest.raises(RetryableError, match="not there yet: "):
        world.wait(policy(), until="11:30:00", timeout=0)
    assert (len(world.reads), world.slept) == (1, [])


def test_what_no_waiting_can_reach_is_said_at_once():
    world = World("12:00:00", orders_ro=[("00:00:00", DONE)])
    with pytest.raises(RetryableError, match="before 2026-01-01 13:10:00 UTC, which is after the timeout"):
        world.wait(policy(), until="13:00:00")
    assert world.reads == []


def test_of_several_tables_one_that_is_done_is_read_again_when_all_are():
    world = World("12:00:00", orders_ro=[("00:00:00", DONE)], payments_ro=[("00:00:00", OPEN), ("12:02:00", DONE)])
    tables = world.wait(policy(), policy("payments_ro"), until="11:30:00")
    assert [table.policy for table in tables] == ["orders_ro", "payments_ro"]
    assert [name for name, _ in world.reads] == [
        "orders_ro",
        "payments_ro",
        "payments_ro",
        "payments_ro",
        "orders_ro",
    ]


def test_a_timeline_that_keeps_changing_is_read_again():
    busy = RetryableError("ETC401", "the timeline kept changing")
    world = World("12:00:00", orders_ro=[("00:00:00", busy), ("12:01:00", DONE)])
    assert world.wait(policy(), until="11:30:00")
    assert world.said[0] == "orders_ro: the timeline kept changing"


def test_a_table_without_a_commit_is_waited_for():
    world = World("12:00:00", orders_ro=[("00:00:00", {}), ("12:01:00", DONE)])
    assert world.wait(policy(), until="11:30:00")
    assert world.said[0] == "orders_ro: of unknown completeness (no commit yet)"


def test_no_table_is_no_reason_to_wait():
    world = World("12:00:00", orders_ro=[("00:00:00", TableError("ETC201", "there is no table"))])
    with pytest.raises(TableError):
        world.wait(policy(), until="11:30:00")


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (OPEN | {"version": 7}, "table version 7 is not supported"),
        (OPEN | {"missing_files": ["p/.f1.log.1"]}, "1 missing data file"),
    ],
)
def test_what_no_waiting_changes_is_said_at_once(state, said):
    world = World("12:00:00", orders_ro=[("00:00:00", state)])
    with pytest.raises(TableError, match=f"how far `orders_ro` is complete cannot be known, as .*{said}") as error:
        world.wait(policy(), until="11:30:00")
    once = [60_000] if "missing_files" in state else []  # a cleaner at work may have made one reading
    assert (error.value.exit_code, error.value.code, world.slept) == (3, "ETC413", once)


def test_a_table_that_is_damaged_meanwhile_is_unknown_in_the_report():
    lost = OPEN | {"missing_files": ["p/.f1.log.1"]}
    world = World("12:00:00", orders_ro=[("00:00:00", OPEN), ("12:01:00", lost)], payments_ro=[("00:00:00", OPEN)])
    policies = policy(), policy("payments_ro")
    waiter = Waiter(world, CompleteUntil(epoch_ms("11:30:00")), 60 * MINUTE, MINUTE, lambda: world.now_ms, world.sleep)
    with pytest.raises(TableError):
        waiter.wait(policies)
    found = [(table.policy, table.status == "unknown") for table in waiter.last_seen(policies)]
    assert found == [("orders_ro", True), ("payments_ro", False)]


def test_commits_of_another_zone_are_said_at_once():
    world = World("09:00:00", orders_ro=[("00:00:00", OPEN)])
    with pytest.raises(TableError, match=r"ahead of this machine's clock"):
        world.wait(replace_latency(policy()), until="08:00:00", timeout=MINUTE)
    assert world.slept == []


def test_a_clock_that_is_ahead_by_less_than_the_wait_is_waited_for():
    world = World("11:30:00", orders_ro=[("00:00:00", DONE)])
    assert world.wait(replace_latency(policy()), until="11:00:00")
    assert world.said[0].startswith("orders_ro: of unknown completeness (the table's last instant completed at")
    assert world.slept != []


def replace_latency(one):
    return one.model_copy(update={"data_latency_ms": 0})


class TestPartition:
    HOUR = "h=2026-01-01-11"

    def hours(self, **keys):
        return policy().model_copy(update={"partition_time": PartitionTime(pattern="h=%Y-%m-%d-%H"), **keys})

    def table(self, *logs):
        files = {f"L{number}": log for number, log in enumerate(logs)}
        return {"slices": {f"{self.HOUR}/f1": {"base": "11:02:00", "logs": files}}}

    def test_it_sleeps_until_the_partition_closes_and_waits_until_it_is_done(self):
        lacking = self.table("11:40:00 > 11:40:05, event 11:25:00")
        world = World("12:00:00", orders_ro=[("00:00:00", lacking), ("12:13:00", self.table())])
        (found,) = world.wait(self.hours(), partition=self.HOUR)
        assert [one.status for one in found.partitions.partitions] == ["done"]
        assert [moment for _, moment in world.reads] == [
            epoch_ms(time) for time in ("12:00:00", "12:10:00", "12:11:00", "12:12:00", "12:13:00")
        ]

    def test_the_time_runs_out_and_the_message_says_what_lacks(self):
        world = World("12:20:00", orders_ro=[("00:00:00", self.table("11:40:00 > 11:40:05, event 11:25:00"))])
        said = "for `h=2026-01-01-11`: `orders_ro` is closed there, complete until .* held back by `L0`"
        with pytest.raises(RetryableError, match=said) as error:
            world.wait(self.hours(), partition=self.HOUR, timeout=MINUTE)
        assert (error.value.exit_code, error.value.code) == (4, "ETC410")

    @pytest.mark.parametrize(("rows", "reached"), [("all", False), ("until_end", True)])
    def test_an_event_of_the_next_hour_is_waited_for_where_all_rows_count(self, rows, reached):
        world = World("12:20:00", orders_ro=[("00:00:00", self.table("12:15:00 > 12:15:05, event 12:00:00"))])
        hours = self.hours(done=Done(rows=rows))
        if reached:
            assert world.wait(hours, partition=self.HOUR, timeout=0)
        else:
            with pytest.raises(RetryableError, match=r"closed there, complete until 2026-01-01 11:59:59\.999"):
                world.wait(hours, partition=self.HOUR, timeout=0)

    def test_a_partition_that_is_not_there_is_waited_for(self):
        other = {"slices": {"h=2026-01-01-10/f1": {"base": "11:02:00"}}}
        world = World("12:20:00", orders_ro=[("00:00:00", other), ("12:21:00", self.table())])
        assert world.wait(self.hours(), partition=self.HOUR)
        assert world.said[0] == f"orders_ro: without a partition `{self.HOUR}`"

    def test_a_path_is_neither_a_glob_nor_a_range(self):
        hours = self.hours(partition_time=PartitionTime(pattern="*/h=%Y-%m-%d-%H"))
        other = {"slices": {"b/h=2026-01-01-10/f1": {"base": "11:02:00"}}}
        world = World("12:20:00", orders_ro=[("00:00:00", other)])
        with pytest.raises(RetryableError, match="without a partition"):
            world.wait(hours, partition="a..*/h=2026-01-01-10", timeout=0)

    def test_a_quiet_one_is_done(self):
        idle = policy().model_copy(update={"partition_idle_ms": 60 * MINUTE})
        world = World("12:00:00", orders_ro=[("00:00:00", self.table())])
        world.wait(idle, partition=self.HOUR)
        assert world.now_ms == epoch_ms("12:02:00")

    @pytest.mark.parametrize(
        ("partition", "one", "says"),
        [
            ("dt=x", {}, "does not fit `h=%Y-%m-%d-%H`"),
            (HOUR, {"partition_time": None}, "the policy does not say when"),
        ],
    )
    def test_what_is_never_done_is_said_at_once(self, partition, one, says):
        world = World("12:00:00", orders_ro=[("00:00:00", self.table())])
        with pytest.raises(PolicyError, match=says) as error:
            world.wait(self.hours(**one), partition=partition)
        assert (error.value.code, world.reads) == ("ETC152", [])

    def test_a_partition_that_cannot_close_in_time_is_said_at_once(self):
        world = World("11:00:00", orders_ro=[("00:00:00", self.table())])
        with pytest.raises(
            RetryableError, match="cannot be complete up to `h=2026-01-01-11` before 2026-01-01 12:10:00"
        ):
            world.wait(self.hours(), partition=self.HOUR, timeout=MINUTE)


def test_a_table_that_falls_back_while_others_are_waited_for_is_waited_for_again():
    """Late data came between: the job would begin over a table that lacks rows."""
    late = {"slices": {"p/f1": {"base": "11:41:00", "logs": {"L2": "12:00:10 > 12:00:11, event 11:29:00"}}}}
    first = [("00:00:00", DONE), ("12:01:00", late), ("12:04:00", DONE)]
    world = World("12:00:00", a=first, b=[("00:00:00", OPEN), ("12:02:00", DONE)])
    found = world.wait(policy("a"), policy("b"), until="11:30:00")
    assert [one.complete_until_ms >= epoch_ms("11:30:00") for one in found] == [True, True]
    assert world.now_ms == epoch_ms("12:04:00")


def test_a_table_that_falls_back_for_good_is_named_when_the_time_is_over():
    late = {"slices": {"p/f1": {"base": "11:41:00", "logs": {"L2": "12:00:10 > 12:00:11, event 11:29:00"}}}}
    world = World("12:00:00", a=[("00:00:00", DONE), ("12:01:00", late)], b=[("00:00:00", OPEN), ("12:02:00", DONE)])
    with pytest.raises(RetryableError, match="`a` is complete until 2026-01-01 11:28:59"):
        world.wait(policy("a"), policy("b"), until="11:30:00", timeout=10 * MINUTE)
