"""Plan and freshness know the event times of log files that only the files themselves tell, unless told not to look."""

import json

import pytest

from tests.unit.hudi.log_file import avro
from tests.unit.hudi.table_folder import TableFolder, at, base, log

MS = 1_711_846_800_123


@pytest.fixture
def table(project):
    """The table of `orders_ro`, whose commits tell no event times."""
    data = avro([MS, MS + 5], "long")
    folder = TableFolder(project / "lake" / "orders")
    folder.commit(at("00:00:00"), at("00:00:01"), base("f"))
    folder.commit(at("00:02:00"), at("00:02:01"), log("f", size=len(data)))
    (folder.base / "p" / log("f").name(at("00:02:00"))).write_bytes(data)
    return folder


def test_plan(etc, project, table):
    arguments = ("plan", "--select", "orders_ro", "--output", "json")
    (known,) = json.loads(etc(*arguments)[1])["tables"]
    assert (known["unknown_log_files"], known["watermark_before_ms"], known["warnings"]) == (0, MS - 1, [])
    assert not (project / "target" / "cache").exists()  # a pull request could add such a file
    (unknown,) = json.loads(etc(*arguments, "--metadata-only")[1])["tables"]
    assert unknown["unknown_log_files"] == 1
    assert unknown["warnings"]


def test_freshness(etc, table):
    arguments = ("freshness", "--select", "orders_ro", "--output", "json")
    (known,) = json.loads(etc(*arguments)[1])["tables"]
    (assumed,) = json.loads(etc(*arguments, "--metadata-only")[1])["tables"]
    assert (known["complete_until_ms"], known["unknown_log_files"]) == (MS - 1, 0)
    assert assumed["unknown_log_files"] == 1
    assert assumed["complete_until_ms"] > MS


def test_wait(etc, table):
    code, out, err = etc("wait", "orders_ro", "--until", str(MS - 1), "--timeout", "0s")
    assert (code, out) == (0, "orders_ro  RO is complete until 2024-03-31 01:00:00.122 UTC\n")
    code, out, err = etc("wait", "orders_ro", "--until", str(MS), "--timeout", "1s", "--poll", "200ms")
    assert (code, out) == (4, "")
    assert "error[ETC410]: waited 1s" in err
    code, out, err = etc("wait", "orders_ro", "--until", "2999-01-01")
    assert code == 4
    assert "which is after the timeout" in err
    assert etc("wait", "orders_ro", "--until", str(MS), "--timeout", "1 fortnight")[0] == 64
    found = json.loads(etc("wait", "orders_ro", "--until", str(MS - 9), "--output", "json")[1])
    assert found["tables"][0]["complete_until_ms"] == MS - 1
