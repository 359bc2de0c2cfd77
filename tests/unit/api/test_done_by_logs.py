"""A proof speaks of the log files that it has read: what came since may hold anything, whatever its commit says."""

from datetime import UTC, datetime

import pytest

from etc_policy.api.partitions import send_partition_events
from etc_policy.api.project import Project
from etc_policy.api.verifying import verify_tables
from tests.unit.api.hourly import HOURLY, hour
from tests.unit.hudi import log_file
from tests.unit.hudi.table_folder import TableFolder, at, base, log
from tests.unit.plan.plan_cases import epoch_ms

TEN = hour(10)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
POLICY = f"""{HOURLY.replace("_column: ts", "_column: {column: ts, unit: ms}")}    verify: {{level: logs}}
    done: {{success_file: _SUCCESS, proof: logs, rows: until_end}}
"""


@pytest.fixture
def orders(tmp_path):
    """Hour ten is closed, and RO has all of it; a log file holds what is later."""
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "a.yml").write_text(POLICY)
    table = TableFolder(tmp_path / "lake" / "orders", properties={"hoodie.table.ordering.fields": "ts"})
    table.commit(at("10:30:00"), at("10:30:05"), base("f", partition=TEN))
    come(table, "11:05:00", "11:01:00")
    return table


def come(table, clock, event, file_id="f"):
    """A log file whose commit records no event before 11:01."""
    content = log_file.avro([epoch_ms(event)], "long")
    file = log(file_id, epoch_ms("11:01:00"), partition=TEN, size=len(content))
    table.commit(at(clock), at(f"{clock[:-1]}5"), file)
    (table.base / TEN / file.name(at(clock))).write_bytes(content)


def status(tmp_path):
    with Project(tmp_path) as project:
        (one,) = project.freshness(at=NOON, partitions=[TEN]).tables[0].partitions.partitions
    return one.status, one.proof


def send(tmp_path):
    with Project(tmp_path) as project:
        (policy,) = project.policies()
        sent = send_partition_events(project.environment, policy, epoch_ms("12:00:00"))
        return sent and (sent.done, sent.reopened)


def verify(tmp_path):
    with Project(tmp_path) as project:
        found = verify_tables(project.environment, project.policies(), epoch_ms("12:00:00"))
        return found.tables[0].verification.status


def test_a_log_file_that_came_since_is_not_proved(tmp_path, orders):
    assert status(tmp_path) == ("closed", "metadata")
    assert verify(tmp_path) == "pass"
    assert status(tmp_path) == ("done", "logs")
    come(orders, "11:30:00", "10:45:00")  # and its commit says otherwise
    for minute, file_id in ((31, "g"), (32, "h"), (33, "i")):  # that of the newest alone is looked at
        come(orders, f"11:{minute}:00", "11:20:00", file_id)
    assert status(tmp_path) == ("closed", "metadata")
    assert send(tmp_path) == (0, 0)
    assert verify(tmp_path) == "fail"
    assert send(tmp_path) is None


def test_it_is_once_it_was_read(tmp_path, orders):
    verify(tmp_path)
    assert send(tmp_path) == (1, 0)
    come(orders, "11:30:00", "11:20:00")
    assert send(tmp_path) == (0, 0)
    verify(tmp_path)
    assert status(tmp_path) == ("done", "logs")
    assert send(tmp_path) == (0, 0)


def test_a_partition_that_ends_later_by_the_policy_of_today_is_reopened(tmp_path, orders):
    verify(tmp_path)
    assert send(tmp_path) == (1, 0)
    (tmp_path / "policies" / "a.yml").write_text(POLICY.replace('%H"}', '%H", zone: America/New_York}'))
    assert status(tmp_path)[0] == "open"
    assert send(tmp_path) == (0, 1)
    assert send(tmp_path) == (0, 0)
