"""`etc repair` on a table's files, and what plan, debug and freshness say before and after it."""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime

import pytest

from etc_policy.table.instants import add_ms, instant_to_ms
from tests.unit.hudi.table_folder import TableFolder, at, base, log

WEST_MS, EAST_MS = -8 * 3_600_000, 24 * 366 * 3_600_000 * 20
REQUESTED, DONE = at("10:30:00"), at("10:40:00")


def written(path, instant):
    moment = (instant_to_ms(instant, UTC) + 200) / 1000
    os.utime(path, (moment, moment))
    return path


def three_commits(folder):
    """A table of three delta commits, their files as old as their names say."""
    table = TableFolder(folder)
    for hour, file in ((9, base("f")), (10, log("f", min_event=1_700_000_000_000)), (11, log("f"))):
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
    assert (plan["action"], debug["status"], fresh["status"]) == ("compact", "ok", "pass")
    code, out, _ = etc("repair", "orders_ro")
    assert (code, "there is nothing to repair" in out) == (0, True)


def test_it_is_recognised_shown_and_repaired(etc, project, table):
    file = hurt(table)
    crc = file.with_name(f".{file.name}.crc")
    crc.touch()
    plan, debug, fresh = statuses(etc)
    assert (plan["action"], plan["reason_code"], debug["status"], fresh["status"]) == (
        "refused",
        "wrong_time",
        "error",
        "unknown",
    )
    for said in (plan["reason"] + plan["hints"][0], debug["message"] + debug["hint"], fresh["reason"]):
        assert "completed before it was requested" in said
        assert "`etc repair orders_ro`" in said

    (command,) = re.findall(r"`etc (repair [^`]*)`", plan["hints"][0])
    code, out, err = etc(*command.split())
    step = f"1. rename {file.name} to {REQUESTED}_{DONE}.commit (8h off)"
    assert (code, out, step in err, "`--yes` carries these steps out" in err) == (2, "", True, True)
    code, out, _ = etc("repair", "orders_ro", "--output", "json")
    assert (code, json.loads(out)["done"], file.exists()) == (2, False, True)
    assert json.loads(out)["steps"] == [step.removeprefix("1. ")]

    code, out, _ = etc("repair", "orders_ro", "--yes")
    assert (code, "repaired" in out, file.exists(), crc.exists()) == (0, True, False, False)
    assert (table.timeline / f"{REQUESTED}_{DONE}.commit").exists()
    plan, debug, fresh = statuses(etc)
    assert (plan["action"], debug["status"], fresh["status"]) == ("compact", "ok", "pass")


def test_steps_are_an_object_on_stderr_and_nothing_with_quiet(etc, project, table):
    hurt(table)
    _, _, err = etc("repair", "orders_ro", "--log-format", "json")
    messages = [json.loads(line)["message"] for line in err.splitlines()]
    assert "1. rename " in messages[0]
    code, out, err = etc("repair", "orders_ro", "--quiet", "--yes")
    assert (code, "repaired" in out, err) == (0, True, "")


def test_in_the_future(etc, project, table):
    hurt(table, EAST_MS)
    plan, debug, fresh = statuses(etc)
    for said in (plan["reason"], debug["message"], fresh["reason"]):
        assert "completed in the future" in said
    code, _, err = etc("repair", "orders_ro", "--yes")
    assert (code, "error[ETC421]" in err, "which the offset of no zone explains" in err) == (3, True, True)


def test_a_future_that_has_come_is_shown_but_refuses_nothing(etc, project, table):
    hurt(table, 9 * 3_600_000)
    plan, debug, fresh = statuses(etc)
    assert (plan["action"], debug["status"], fresh["status"]) == ("compact", "error", "pass")
    assert etc("repair", "orders_ro", "--yes")[0] == 0
    assert statuses(etc)[1]["status"] == "ok"


def test_the_metadata_table_is_looked_at_too(etc, project, table):
    written(table.compaction(REQUESTED, DONE, base("f")), DONE)
    metadata = TableFolder(project / "lake" / "orders" / ".hoodie" / "metadata")
    written(metadata.commit(at("09:00:00"), at("09:00:04")), at("09:00:04"))
    file = written(metadata.commit(REQUESTED, add_ms(DONE, WEST_MS)), DONE)
    assert "in the metadata table" in statuses(etc)[0]["reason"]
    code, _, err = etc("repair", "orders_ro", "--yes")
    assert (code, "metadata table: rename" in err, file.exists()) == (0, True, False)


def test_a_writer_that_may_be_alive(etc, project, table):
    file = hurt(table)
    table.start(at("12:00:00"), log("f"))
    code, _, err = etc("repair", "orders_ro", "--yes")
    assert (code, "its writer may be alive" in err, file.exists()) == (4, True, True)


def test_the_table_changes_between_showing_and_doing(etc, project, table, monkeypatch):
    """Somebody else has repaired it, or a writer has come: exactly what was shown is done, or nothing."""
    from etc_policy.api import repairing

    hurt(table)
    found = repairing.Repairer.plan

    def plan(self, base_path):
        shown = found(self, base_path)
        table.start(at("12:00:00"), log("f"))
        return shown

    monkeypatch.setattr(repairing.Repairer, "plan", plan)
    code, _, err = etc("repair", "orders_ro", "--yes")
    assert (code, "error[ETC420]" in err) == (4, True)


def test_a_name_that_means_no_single_policy(etc, project):
    assert etc("repair", "*_ro")[0] == 64


@pytest.mark.parametrize("moment", ["-1000", "-86400000", "1969-12-31T00:00:00Z"])
def test_now_may_be_before_1970(etc, project, table, moment):
    code, out, _ = etc("plan", "--select", "orders_ro", "--at", moment, "--output", "json")
    expected = int(moment) if moment.startswith("-") else -86_400_000
    assert (code, json.loads(out)["tables"][0]["now_ms"]) == (0, expected)
    assert datetime.fromtimestamp(expected / 1000, UTC).year == 1969
