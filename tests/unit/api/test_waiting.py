import pytest

from etc_policy.api.waiting import Waiter
from etc_policy.errors import RetryableError, TableError
from etc_policy.policy.manifest import EventTime, Policy
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

    def read_state(self, policy):
        self.reads.append((policy.name, self.now_ms))
        steps = self.tables[policy.name]
        found = [step for since, step in steps if epoch_ms(since) <= self.now_ms][-1]
        if isinstance(found, Exception):
            raise found
        return state_of(f"/{policy.name}", found)

    def progress(self, step):
        self.said.append(step)

    def sleep(self, milliseconds):
        self.slept.append(milliseconds)
        self.now_ms += milliseconds

    def wait(self, *policies, until, timeout=60 * MINUTE, poll=MINUTE):
        waiter = Waiter(self, epoch_ms(until), timeout, poll, lambda: self.now_ms, self.sleep)
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


def test_the_time_runs_out():
    world = World("12:00:00", orders_ro=[("00:00:00", OPEN)])
    with pytest.raises(
        RetryableError, match=r"waited 5m for 2026-01-01 11:30:00 UTC: `orders_ro` is complete until"
    ) as e:
        world.wait(policy(), until="11:30:00", timeout=5 * MINUTE)
    assert (e.value.exit_code, e.value.code) == (4, "ETC410")
    assert world.now_ms == epoch_ms("12:05:00")
    assert len(world.reads) == 6


def test_no_timeout_only_asks():
    world = World("12:00:00", orders_ro=[("00:00:00", OPEN)])
    with pytest.raises(RetryableError, match="waited 0ms"):
        world.wait(policy(), until="11:30:00", timeout=0)
    assert (len(world.reads), world.slept) == (1, [])


def test_what_no_waiting_can_reach_is_said_at_once():
    world = World("12:00:00", orders_ro=[("00:00:00", DONE)])
    with pytest.raises(RetryableError, match="before 2026-01-01 13:10:00 UTC, which is after the timeout"):
        world.wait(policy(), until="13:00:00")
    assert world.reads == []


def test_several_tables_and_one_that_is_done_is_not_read_again():
    world = World("12:00:00", orders_ro=[("00:00:00", DONE)], payments_ro=[("00:00:00", OPEN), ("12:02:00", DONE)])
    tables = world.wait(policy(), policy("payments_ro"), until="11:30:00")
    assert [table.policy for table in tables] == ["orders_ro", "payments_ro"]
    assert [name for name, _ in world.reads] == ["orders_ro", "payments_ro", "payments_ro", "payments_ro"]


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
        (OPEN | {"missing_files": ["p/.f1.log.1"]}, "data file\\(s\\) that commits wrote are not there"),
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
    waiter = Waiter(world, epoch_ms("11:30:00"), 60 * MINUTE, MINUTE, lambda: world.now_ms, world.sleep)
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
