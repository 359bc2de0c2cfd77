"""A day of a real table is done, late data reopen it, and it is done again: `etc apply` with each action, proved by rows.

The policy verifies by metadata alone: the rows of the day are compared, and no others.
"""

import json
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from etc_policy.api.project import Project
from etc_policy.run.done_store import RECORD
from tests.integration.hudi_tables import StockTable
from tests.lies.lie import rewrite_record
from tests.unit.api.test_partition_events import KILLED, Endpoint

pytestmark = [pytest.mark.spark, pytest.mark.extended]
POLICY = """version: 1
policies:
  - name: days
    table: {table}
    event_time_column: {{column: ts, unit: ms}}
    data_latency: 1m
    partition_time: {{from: "%Y-%m-%d"}}
    writer: {{index: simple, compaction: none}}
    verify: {{level: metadata}}
    done:
      proof: data
      success_file: _SUCCESS
      command: [sh, -c, 'echo $ETC_EVENT_KIND $ETC_EVENT_PARTITION $ETC_EVENT_PROOF >> sent']
      http: {{url: "{url}"}}
"""
TRACKED = {"hoodie.write.track.event.time.watermark": "true", "hoodie.payload.event.time.field": "ts"}


def as_of(day):
    """A change of a commit: each log file holds no event before that time."""

    def change(record):
        for stats in record["partitionToWriteStats"].values():
            for stat in stats:
                stat["minEventTime"] = int(day.timestamp() * 1000)

    return change


def test_a_day_is_done_reopened_and_done_again(spark, tmp_path):
    now = datetime.now(UTC)
    days = [now - timedelta(days=2), now + timedelta(minutes=30)]  # the other is due in no run, however long they take
    before, today = (day.strftime("%Y-%m-%d") for day in days)
    table = StockTable(spark, str(tmp_path / "days"), "id int, p string, ts long, v string", options=TRACKED)

    def write(value):
        table.write(
            [(key, day.strftime("%Y-%m-%d"), int(day.timestamp() * 1000), value) for key, day in enumerate(days)]
        )

    def read(view):
        reader = spark.read.format("hudi").option("hoodie.query.as.ro.table", str(view == "ro").lower())
        return sorted(map(tuple, reader.load(table.base).select("id", "v").collect()))

    with Endpoint() as endpoint:
        (tmp_path / "policies").mkdir()
        policy = tmp_path / "policies" / "a.yml"
        policy.write_text(POLICY.format(table=table.base, url=endpoint.url))
        project = Project(tmp_path)
        project.environment.session = spark
        write("a")
        write("b")
        assert dict(read("ro"))[0] == "a"
        (result,) = project.apply().tables
        assert (result.status, result.events_sent.done, result.events_sent.reopened) == (
            "compacted",
            3,
            0,
        )  # once for each action
        assert dict(read("ro"))[0] == "b"
        (result,) = project.apply().tables
        assert (result.events_sent.done, result.events_sent.reopened) == (0, 0)
        write("late")
        (result,) = project.apply().tables
        assert (result.status, result.events_sent.done, result.events_sent.reopened) == ("compacted", 3, 3)
        assert dict(read("ro"))[0] == dict(read("rt"))[0] == "late"
        (only,) = project.freshness(partitions=[before]).tables[0].partitions.partitions
        assert (only.status, only.proof, only.reopened) == ("done", "data", 1)
        text = policy.read_text().replace("proof: data", "proof: data\n      rows: until_end")
        policy.write_text(text)
        write("unseen")  # and its commit says that all of it is later than any threshold
        later = datetime.now(UTC) + timedelta(hours=1)
        rewrite_record(max(Path(table.base, ".hoodie", "timeline").glob("*.deltacommit")), as_of(later))
        (result,) = project.apply(check=False).tables
        assert (result.status, result.events_sent) == ("nothing_due", None)
        assert (result.verification.level, result.verification.status) == ("data", "fail")
        assert "expect_ro_to_contain_rt_up_to: 1 " in result.verification.failures
        project.environment.session = None  # it is the test's
        project.close()
        endpoint.shutdown()
    kinds = ["done", "reopened", "done"]
    assert [event["data"]["kind"] for _, event in endpoint.posted] == kinds
    assert {event["subject"] for _, event in endpoint.posted} == {before}
    sent = [line.split() for line in (tmp_path / "sent").read_text().splitlines()]
    assert sent == [["done", before, "data"], ["reopened", before], ["done", before, "data"]]
    marker = json.loads(Path(table.base, before, "_SUCCESS").read_text())
    assert marker["etc"]["id"] == endpoint.posted[-1][1]["id"]
    assert not Path(table.base, today, "_SUCCESS").exists()


def test_rows_that_a_restore_takes_back_reopen_their_day(spark, tmp_path):
    """It stayed done, with its success file, though rows that it was done with were gone."""
    day = datetime.now(UTC) - timedelta(days=2)
    table = StockTable(spark, str(tmp_path / "days"), "id int, p string, ts long, v string", options=TRACKED)

    def write(key, value):
        table.write([(key, day.strftime("%Y-%m-%d"), int(day.timestamp() * 1000), value)])

    (tmp_path / "policies").mkdir()
    done = "    done: {command: [sh, -c, 'echo $ETC_EVENT_KIND $ETC_EVENT_WHY >> sent']}\n"
    policy = f"{POLICY.partition('    done:')[0].format(table=table.base)}{done}"
    (tmp_path / "policies" / "a.yml").write_text(policy)
    project = Project(tmp_path)
    project.environment.session = spark
    write(1, "a")
    saved = max(path.name[:17] for path in Path(table.base, ".hoodie", "timeline").glob("*.deltacommit"))
    spark.sql(f"CALL create_savepoint(path => '{table.base}', commit_time => '{saved}')").collect()
    write(2, "b")
    (result,) = project.apply().tables
    assert (result.events_sent.done, result.events_sent.reopened) == (1, 0)
    spark.sql(f"CALL rollback_to_savepoint(path => '{table.base}', instant_time => '{saved}')").collect()
    for _ in range(2):
        project.apply()
    project.environment.session = None  # it is the test's
    project.close()
    sent = [line.split() for line in (tmp_path / "sent").read_text().splitlines()]
    assert sent == [["done"], ["reopened", "rolled_back"], ["done"]]


HOURS = """version: 1
policies:
  - name: hours
    table: {table}
    event_time_column: {{column: ts, unit: ms}}
    data_latency: 1m
    partition_time: {{from: "%Y-%m-%d/%H"}}
    writer: {{index: simple, compaction: none}}
    verify: {{level: metadata}}
"""
DONE = """    done:
      success_file: _SUCCESS
      command: [sh, -c, 'echo $ETC_EVENT_ID >> sent']
      http: {{url: "{url}"}}
      timeout: 500ms
"""
APPLY = """
with Project(".") as project:
    sys.exit(project.apply(check=False).exit_code)
"""
#: Before the event is recorded, and before and after each of three actions.
STEPS = 7


def test_a_run_that_is_killed_at_any_step_is_made_up_for(spark, tmp_path):
    """An event is sent once, or again with its id; so it is where the server fails, hangs, is away and comes back."""
    hour = (datetime.now(UTC) - timedelta(hours=3)).replace(minute=5)
    table = StockTable(spark, str(tmp_path / "hours"), "id int, p string, ts long, v string", options=TRACKED)
    for value in ("a", "b"):
        table.write([(1, hour.strftime("%Y-%m-%d/%H"), int(hour.timestamp() * 1000), value)])
    marker = Path(table.base, hour.strftime("%Y-%m-%d/%H"), "_SUCCESS")
    policy = tmp_path / "policies" / "a.yml"
    policy.parent.mkdir()
    policy.write_text(HOURS.format(table=table.base))
    project = Project(tmp_path)
    project.environment.session = spark
    assert project.apply().tables[0].status == "compacted"
    project.environment.session = None  # it is the test's
    project.close()

    def run(kills=STEPS):
        command = [sys.executable, "-c", KILLED + APPLY, str(kills)]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120).returncode

    def begin_anew():
        for left in (Path(table.base, RECORD), marker, tmp_path / "sent"):
            left.unlink(missing_ok=True)
        endpoint.posted.clear()

    def check(at_most):
        ids = [event["id"] for _, event in endpoint.posted]
        programs = (tmp_path / "sent").read_text().split()
        assert {*ids, *programs, json.loads(marker.read_text())["etc"]["id"]} == {ids[0]}
        assert len(programs) + len(ids) <= at_most

    with Endpoint() as endpoint:
        policy.write_text(HOURS.format(table=table.base) + DONE.format(url=endpoint.url))
        for kills in range(STEPS):
            begin_anew()
            assert run(kills) == -signal.SIGKILL
            assert run() == 0
            check(at_most=3)
            assert run() == 0
            check(at_most=3)
        begin_anew()
        endpoint.answers = [503, None, 500]
        assert run() == 4
        assert run() == 0
        check(at_most=1 + 4)
        port = endpoint.server_address[1]
        endpoint.shutdown()
    begin_anew()
    assert run() == 4
    with Endpoint(port) as endpoint:
        assert run() == 0
        check(at_most=2)
        endpoint.shutdown()
