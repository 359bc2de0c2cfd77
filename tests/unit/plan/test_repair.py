"""The steps of a repair, from the two timelines."""

from __future__ import annotations

from dataclasses import replace

from etc_policy.plan.repair import RebuildMetadata, Repair, RepairFacts, SetCompletion, TimelineFacts, plan_repair
from etc_policy.table.completion_times import CompletedFile, find_wrong_times
from etc_policy.table.instants import add_ms, instant_to_ms
from tests.unit.plan.plan_cases import instant
from tests.unit.plan.test_completion_times import GOOD, HOUR_MS, UTC, file

HURT = file("10:00:06", "10:30:00", "commit", shift_ms=-8 * HOUR_MS)
HURT_METADATA = HURT._replace(action="deltacommit")
FIRST = CompletedFile("00000000000000000", instant("08:00:00"), "deltacommit", instant_to_ms(instant("08:00:00"), UTC))
SERVICE = file("10:40:00", "10:40:05", "commit")


def timeline(name, *files, pending=(), services=()):
    wrong = find_wrong_times(name, files, [time for one in files for time in one[:2]], "UTC")
    return TimelineFacts(files, pending, wrong, frozenset(services))


TABLE = timeline("table", *GOOD, HURT)
METADATA = timeline("metadata table", FIRST, *GOOD, HURT_METADATA)
FACTS = RepairFacts("/t", 9, "UTC", TABLE, METADATA, ("files", "column_stats"))


def steps(**changes):
    found = plan_repair(replace(FACTS, **changes))
    assert found.refusal is None
    return found.steps


def refusal(**changes):
    found = plan_repair(replace(FACTS, **changes))
    assert found.steps == () and found.refusal is not None
    return found.refusal


def test_the_metadata_table_comes_first():
    names = [(step.timeline, step.requested, step.right) for step in steps()]
    assert names == [(name, HURT.requested, instant("10:30:00")) for name in ("metadata table", "table")]


def test_nothing_wrong_is_nothing_to_do():
    facts = replace(FACTS, table=timeline("table", *GOOD), metadata=timeline("metadata table", FIRST, *GOOD))
    assert plan_repair(facts) == Repair()


def test_without_a_metadata_table_there_is_one_step():
    assert [type(step) for step in steps(metadata=None, metadata_partitions=())] == [SetCompletion]


def test_after_the_first_step_the_second_is_left():
    right = HURT_METADATA._replace(completed=instant("10:30:00"))
    assert [s.timeline for s in steps(metadata=timeline("metadata table", FIRST, *GOOD, right))] == ["table"]


def test_a_metadata_table_that_was_compacted_since_is_built_again():
    compacted = timeline("metadata table", FIRST, *GOOD, HURT_METADATA, SERVICE, services=[SERVICE.requested])
    rebuild, rename = steps(metadata=compacted)
    assert isinstance(rebuild, RebuildMetadata) and rebuild.partitions == ("files", "column_stats")
    assert "compacted at" in rebuild.why and isinstance(rename, SetCompletion) and rename.timeline == "table"
    assert "drop the metadata table and build it again (files, column_stats)" in str(rebuild)
    before = file("10:10:00", "10:10:05", "commit")
    early = timeline("metadata table", FIRST, *GOOD, before, HURT_METADATA, services=[before.requested])
    assert [type(step) for step in steps(metadata=early)] == [SetCompletion, SetCompletion]


def test_a_metadata_table_that_has_lost_the_instant_is_built_again_unless_it_is_newer():
    assert isinstance(steps(metadata=timeline("metadata table", FIRST, *GOOD))[0], RebuildMetadata)
    newer = FIRST._replace(completed=instant("10:50:00"), written_ms=instant_to_ms(instant("10:50:00"), UTC))
    assert [type(step) for step in steps(metadata=timeline("metadata table", newer))] == [SetCompletion]


def test_a_service_of_the_metadata_table_in_another_zone():
    moved = file("02:20:00", "10:20:00", "commit", shift_ms=-8 * HOUR_MS)._replace(requested=instant("02:19:00"))
    assert (
        "bears the times of another zone"
        in steps(metadata=timeline("metadata table", FIRST, *GOOD, HURT_METADATA, moved))[0].why
    )
    ahead = file("10:20:00", "10:20:05", "commit", shift_ms=9 * HOUR_MS)
    ahead = ahead._replace(requested=add_ms(ahead.requested, 9 * HOUR_MS))
    found = steps(metadata=timeline("metadata table", FIRST, *GOOD, HURT_METADATA, ahead))
    assert "true time of its instant" in found[0].why


def test_what_an_earlier_run_dropped_is_built():
    found = steps(metadata=None, metadata_partitions=(), owed=("files", "record_index"))
    assert found[0] == RebuildMetadata(("files", "record_index"), "an earlier run dropped it")
    owed_alone = replace(FACTS, table=timeline("table", *GOOD), metadata=None, metadata_partitions=(), owed=("files",))
    assert [type(step) for step in plan_repair(owed_alone).steps] == [RebuildMetadata]


def test_nothing_is_done_where_it_is_not_safe():
    pending = refusal(table=timeline("table", *GOOD, HURT, pending=["1"]))
    assert pending.code == "pending" and "may be alive" in pending.reason
    ours = refusal(table=timeline("table", *GOOD, HURT, pending=["1"]), own_pending="1")
    assert ours.code == "pending" and "`etc undo`" in (ours.hint or "")  # `etc apply` refuses such a table
    assert "of the metadata table" in refusal(metadata=replace(METADATA, pending=("1",))).reason
    assert refusal(table=timeline("table", HURT)).code == "unknown_time"
    compacted = timeline("metadata table", FIRST, *GOOD, HURT_METADATA, SERVICE, services=[SERVICE.requested])
    odd = refusal(metadata=compacted, metadata_partitions=("files", "secondary_index_x"))
    assert odd.code == "index" and "secondary_index_x" in odd.reason
    good = {"table": timeline("table", *GOOD), "metadata": None}
    assert refusal(**good, archived=("1",)).code == "archived"
