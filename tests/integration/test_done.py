"""A day of a real table is done, late data reopen it, and it is done again: `etc apply` with each action, proved by rows.

The policy verifies by metadata alone: the rows of the day are compared, and no others.
"""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from etc_policy.api.project import Project
from tests.integration.hudi_tables import StockTable
from tests.lies.lie import rewrite_record
from tests.unit.api.test_partition_events import Endpoint

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
    days = [now - timedelta(days=2), now]
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
        (tmp_path / "policies" / "a.yml").write_text(POLICY.format(table=table.base, url=endpoint.url))
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
        write("unseen")  # and its commit says that all of it is of today
        rewrite_record(max(Path(table.base, ".hoodie", "timeline").glob("*.deltacommit")), as_of(days[1]))
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
