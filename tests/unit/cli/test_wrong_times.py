"""What plan, debug and freshness say of a table whose completion times cannot be true."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime

import pytest

from etc_policy.table.instants import add_ms, instant_to_ms
from tests.unit.hudi.table_folder import TableFolder, at, base, log, operation

WEST_MS, EAST_MS = -8 * 3_600_000, 24 * 366 * 3_600_000 * 20
REQUESTED, DONE = at("10:30:00"), at("10:40:00")


def written(path, instant):
    moment = (instant_to_ms(instant, UTC) + 200) / 1000
    os.utime(path, (moment, moment))
    return path


def three_commits(folder):
    """A table of three delta commits, their files as old as their names say."""
    table = TableFolder(folder)
    first = at("09:00:00")
    logs = log("f", min_event=1_700_000_000_000, previous=first), log("f", previous=first)
    for hour, file in zip((9, 10, 11), (base("f"), *logs), strict=True):
        instant, completed = at(f"{hour:02}:00:00"), at(f"{hour:02}:00:05")
        written(table.commit(instant, completed, file), completed)
    return table


@pytest.fixture
def table(project):
    return three_commits(project / "lake" / "orders")


def hurt(table, shift_ms=WEST_MS):
    return written(table.compaction(REQUESTED, add_ms(DONE, shift_ms), base("f")), DONE)


def statuses(etc):
    """What plan, debug and freshness say of the table."""
    _, plan, _ = etc("plan", "--select", "orders_ro", "--output", "json")
    _, debug, _ = etc("debug", "--select", "orders_ro", "--output", "json")
    _, fresh, _ = etc("freshness", "--select", "orders_ro", "--output", "json")
    found = next(f for f in json.loads(debug)["findings"] if f["check"] == "completed at")
    return json.loads(plan)["tables"][0], found, json.loads(fresh)["tables"][0]


def test_a_table_that_is_right(etc, project, table):
    written(table.compaction(REQUESTED, DONE, base("f")), DONE)
    plan, debug, fresh = statuses(etc)
    assert (plan["action"], debug["status"], fresh["status"]) == ("compact", "ok", "no_target")


def test_it_is_recognised_until_its_file_is_renamed(etc, project, table):
    file = hurt(table)
    plan, debug, fresh = statuses(etc)
    assert (plan["action"], plan["reason_code"], debug["status"], fresh["status"]) == (
        "refused",
        "wrong_time",
        "error",
        "unknown",
    )
    for said in (plan["reason"] + plan["hints"][0], debug["message"] + debug["hint"], fresh["reason"]):
        assert "completed before it was requested" in said
        assert f"its true time is {DONE} (8h off); its file may be renamed to that" in said
        assert "`etc explain repair`" in said
    file.rename(file.with_name(f"{REQUESTED}_{DONE}.commit"))
    plan, debug, fresh = statuses(etc)
    assert (plan["action"], debug["status"], fresh["status"]) == ("compact", "ok", "no_target")


@pytest.mark.parametrize("shift_ms", [WEST_MS, EAST_MS])
@pytest.mark.parametrize(("begun", "is_between"), [("10:45:00", True), ("10:35:00", False)])
def test_a_delta_commit_behind_which_a_slice_was_begun_is_not_to_be_renamed(
    etc, project, table, shift_ms, begun, is_between
):
    """A compaction went by the wrong time: by the true one its rows would be in no view."""
    late_ms = shift_ms if shift_ms < 0 else 14 * 3_600_000
    written(table.commit(REQUESTED, add_ms(DONE, late_ms), log("f", previous=at("09:00:00"))), DONE)
    merged = at(begun), add_ms(at(begun), 60_000)
    written(table.compaction(*merged, base("f", previous=at("09:00:00"))), merged[1])
    said = statuses(etc)[1]["message"]
    assert f"its true time is {DONE}" in said
    not_so = f"its file may not be renamed to that: the write at {at(begun)} began a file slice"
    assert (not_so in said, "its file may be renamed to that" in said) == (is_between, not is_between)


def test_in_the_future(etc, project, table):
    hurt(table, EAST_MS)
    plan, debug, fresh = statuses(etc)
    for said in (plan["reason"], debug["message"], fresh["reason"]):
        assert "completed in the future" in said
        assert "its true time cannot be known: its file was written at" in said
        assert "which the offset of no zone explains" in said


def test_a_future_that_has_come_is_shown_but_refuses_nothing(etc, project, table):
    hurt(table, 9 * 3_600_000)
    plan, debug, fresh = statuses(etc)
    assert (plan["action"], debug["status"], fresh["status"]) == ("compact", "error", "no_target")


def test_the_metadata_table_is_looked_at_too(etc, project, table):
    written(table.compaction(REQUESTED, DONE, base("f")), DONE)
    metadata = TableFolder(project / "lake" / "orders" / ".hoodie" / "metadata")
    written(metadata.commit(at("09:00:00"), at("09:00:04")), at("09:00:04"))
    written(metadata.commit(REQUESTED, add_ms(DONE, WEST_MS)), DONE)
    assert "in the metadata table" in statuses(etc)[0]["reason"]


def test_a_name_that_was_copied_and_not_removed(etc, project, table):
    """Where a renaming in two steps was cut off."""
    file = hurt(table)
    file.with_name(f"{REQUESTED}_{DONE}.commit").write_bytes(file.read_bytes())
    code, _, err = etc("plan", "--select", "orders_ro")
    assert (code, "has two completed files" in err, "that has the wrong time" in err) == (3, True, True)


class TestClocksSetBack:
    """A delta commit that was requested at 11:30 and completed at 10:40, when its file was written."""

    BEGUN, ENDED = at("11:30:00"), at("10:40:00")

    @pytest.fixture
    def early(self, table):
        return written(table.commit(self.BEGUN, self.ENDED, log("f", previous=at("09:00:00"))), self.ENDED)

    def test_it_is_no_reason_to_refuse(self, etc, table, early):
        plan, debug, fresh = statuses(etc)
        assert (plan["action"], debug["status"], fresh["status"]) == ("compact", "ok", "no_target")
        assert plan["instant"] > self.BEGUN
        assert (
            "clocks were set back meanwhile" in debug["message"] and "readers see all that it wrote" in debug["message"]
        )

    def test_nor_once_it_is_compacted(self, etc, table, early):
        names = (log("f").name(instant) for instant in (at("10:00:00"), self.BEGUN))
        table.plan(at("11:40:00"), {}, operation("f", None, *names))
        written(table.compaction(at("11:40:00"), at("11:41:00"), base("f", previous=at("09:00:00"))), at("11:41:00"))
        assert statuses(etc)[2]["status"] == "no_target"

    @pytest.mark.parametrize("instant", ["11:00:30", "11:45:00"])
    def test_a_slice_that_may_hide_it(self, etc, table, early, instant):
        done = add_ms(at(instant), 60_000)
        written(table.compaction(at(instant), done, base("f", previous=at("09:00:00"))), done)
        plan, debug, fresh = statuses(etc)
        assert (plan["reason_code"], debug["status"], fresh["status"]) == ("wrong_time", "error", "unknown")
        for said in (plan["reason"], debug["message"], fresh["reason"]):
            assert "clocks were set back" in said and f"the write at {at(instant)} began" in said
            assert "zone" not in said

    def test_a_slice_that_it_began_may_hide_others(self, etc, table):
        written(table.commit(self.BEGUN, self.ENDED, base("f", previous=at("09:00:00"))), self.ENDED)
        assert "it began may hide what the write at" in statuses(etc)[0]["reason"]


@pytest.mark.parametrize("moment", ["-1000", "-86400000", "1969-12-31T00:00:00Z"])
def test_now_may_be_before_1970(etc, project, table, moment):
    code, out, _ = etc("plan", "--select", "orders_ro", "--at", moment, "--output", "json")
    expected = int(moment) if moment.startswith("-") else -86_400_000
    assert (code, json.loads(out)["tables"][0]["now_ms"]) == (0, expected)
    assert datetime.fromtimestamp(expected / 1000, UTC).year == 1969
