"""`etc freshness --by partition`, its JSON, and the gauges."""

import json
import re

import pytest
from jsonschema import Draft202012Validator

from etc_policy.api.project import Project
from etc_policy.report.metrics import WORST_PARTITIONS
from etc_policy.report.schemas import json_schema
from tests.unit.api.hourly import HOURLY, hour
from tests.unit.hudi.table_folder import TableFolder, at, base, log
from tests.unit.plan.plan_cases import epoch_ms


@pytest.fixture
def orders(tmp_path, monkeypatch):
    """A table of hours, of which nine and ten have a log file with an event; it is noon."""
    monkeypatch.setattr("etc_policy.wiring.time.time_ns", lambda: epoch_ms("12:00:00") * 1_000_000)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "a.yml").write_text(HOURLY)
    table = TableFolder(tmp_path / "lake" / "orders")
    table.commit(at("08:00:00"), at("08:00:05"), *(base(f"f{n}", partition=hour(n)) for n in range(8, 12)))
    table.commit(at("09:20:00"), at("09:20:05"), log("f9", partition=hour(9), min_event=epoch_ms("09:10:00")))
    table.commit(at("10:20:00"), at("10:20:05"), log("f10", partition=hour(10), min_event=epoch_ms("10:10:00")))
    return table


def test_the_worst_come_first(etc, orders):
    _, out, _ = etc("freshness", "--by", "partition")
    lines = out[out.index("partitions") :].splitlines()
    assert lines[0] == "partitions    4: 1 open, 2 closed, 1 done"
    assert " ".join(lines[1].split()).startswith(
        f"closed {hour(9)}: RO complete until 2026-01-01 09:09:59.999 UTC; 1 log file (10 B), held back"
    )
    assert [word for line in lines for word in line.split() if word.startswith("h=")] == [
        f"{hour(n)}:" for n in (9, 10, 11, 8)
    ]


def test_json_has_them_all_by_its_schema(etc, orders):
    _, out, _ = etc("freshness", "--partition", "h=*-09", "--partition", "h=*-08", "--output", "json")
    assert not list(Draft202012Validator(json_schema("freshness")).iter_errors(json.loads(out)))
    nine, eight = json.loads(out)["tables"][0]["partitions"]["partitions"]
    assert (nine["partition"], nine["status"], nine["log_files"], nine["file_id"]) == (hour(9), "closed", 1, "f9")
    assert (nine["begins_ms"], nine["last_write_ms"]) == (epoch_ms("09:00:00"), epoch_ms("09:20:05"))
    assert (eight["status"], eight["complete_until_ms"]) == ("done", epoch_ms("11:50:00"))


def test_a_range_of_partitions_is_reported(etc, orders):
    _, out, _ = etc("freshness", "--partition", f"{hour(8)}..{hour(9)}", "--output", "json")
    assert [one["partition"] for one in json.loads(out)["tables"][0]["partitions"]["partitions"]] == [hour(9), hour(8)]


def test_without_the_flag_none_are_reported(etc, orders):
    _, out, _ = etc("freshness", "--output", "json")
    assert json.loads(out)["tables"][0]["partitions"] is None


def test_beyond_twenty_they_are_counted(etc, orders):
    orders.commit(at("08:30:00"), at("08:30:05"), *(base(f"x{n}", partition=f"h=2025-12-01-{n:02}") for n in range(24)))
    _, out, _ = etc("freshness", "--by", "partition")
    assert "28: 1 open, 2 closed, 25 done" in out
    assert "and 8 more; `--output json` has them all" in out
    assert out.count("h=20") == 20


def test_a_partition_without_a_time_is_said_once(etc, orders):
    orders.commit(at("08:30:00"), at("08:30:05"), *(base(f"x{n}", partition=f"h=x{n}") for n in range(3)))
    _, out, _ = etc("freshness", "--by", "partition")
    assert "3 partitions without a time by `partition_time.from`, such as `h=x0`" in out


def test_gauges_are_bounded(etc, orders, tmp_path):
    late = [log(f"y{n}", partition=f"h=2025-12-01-{n:02}", min_event=epoch_ms("08:00:00")) for n in range(20)]
    orders.commit(at("10:30:00"), at("10:30:05"), *late)
    assert etc("metrics", "write", "etc.prom")[0] == 0
    text = (tmp_path / "etc.prom").read_text()
    assert 'etc_partitions{policy="orders_ro",status="closed"' in text
    assert text.count("\netc_partition_complete_until_timestamp_seconds{") == WORST_PARTITIONS
    assert "etc_partitions_unparsed{" in text


@pytest.mark.parametrize(
    ("keys", "code", "at_key"),
    [
        ("partition_time: {from: dt=%m-%d}", "ETC112", "no year"),
        ("partition_time: {from: 'dt=%Y', zone: Mars/Base}", "ETC112", "is not a zone"),
        ("partition_time: {from: 'dt=%Y-%m-%d', length: 1h}", "ETC151", "the length is less"),
        ("partition_time: {from: 'dt=%Y-%m', length: 30d}", "ETC151", "no fixed length"),
        ("partition_time: {from: 'dt=%Y'}\n    partition_idle: 2h", "ETC152", "exclude each other"),
        ("strategy: {on_close: true}", "ETC152", "needs `partition_time`"),
        ("done: {success_file: _SUCCESS}", "ETC152", "`done` needs"),
        ("partition_idle: 2h\n    done: {proof: data, success_file: _S}", "ETC152", "needs `partition_time`"),
        ("partition_time: {from: 'dt=%Y'}\n    done: {success_file: ../x}", "ETC112", "such as `_SUCCESS`"),
        ("partition_time: {from: 'dt=%Y'}\n    done: {http: {url: 'ftp://x'}}", "ETC112", "`https://host/path`"),
    ],
)
def test_what_cannot_be_is_an_error_at_its_place(etc, orders, tmp_path, keys, code, at_key):
    (tmp_path / "policies" / "a.yml").write_text(HOURLY[: HOURLY.index("partition_time")] + keys + "\n")
    exit_code, _, err = etc("parse")
    assert exit_code == 1
    assert f"error[{code}]" in err
    assert at_key in " ".join(err.split())
    assert "policies/a.yml:7:" in err or "policies/a.yml:8:" in err


class TestApply:
    """A run with nothing due sends events; it starts no Spark."""

    @pytest.fixture
    def done(self, orders, tmp_path, monkeypatch):
        def no_spark(_):
            raise AssertionError("Spark was asked for")

        monkeypatch.setattr("etc_policy.wiring.Environment.spark", property(no_spark))
        for log_file in (
            *orders.base.glob("h=*/.f*.log.*"),
            *orders.timeline.glob("*092000*"),
            *orders.timeline.glob("*102000*"),
        ):
            log_file.unlink()

        def write(done):
            keys = f"    verify: {{level: metadata}}\n    done: {done}\n"
            (tmp_path / "policies" / "a.yml").write_text(HOURLY + keys)

        return write

    def test_events_are_sent(self, etc, done, orders):
        done("{success_file: _SUCCESS}")
        code, out, err = etc("apply", "--yes")
        assert (code, "partitions    sent: 3 done, 0 reopened" in out) == (0, True), err
        assert sorted(path.parent.name for path in orders.base.glob("h=*/_SUCCESS")) == [hour(8), hour(9), hour(10)]
        _, out, _ = etc("apply", "--yes", "--output", "json")
        assert json.loads(out)["tables"][0]["events_sent"] == {"done": 0, "reopened": 0}
        assert not list(Draft202012Validator(json_schema("run_results")).iter_errors(json.loads(out)))

    def test_how_often_a_partition_was_reopened_is_shown(self, etc, done, orders, tmp_path):
        done("{success_file: _SUCCESS}")
        etc("apply", "--yes")
        for minute in ("11:01", "11:21"):
            orders.commit(
                at(f"{minute}:00"), at(f"{minute}:05"), log("f8", partition=hour(8), min_event=epoch_ms("08:10:00"))
            )
            orders.compaction(at(f"{minute}:10"), at(f"{minute}:15"), base("f8", partition=hour(8), merged=1))
            assert etc("apply", "--yes")[0] == 0
        _, out, _ = etc("freshness", "--by", "partition")
        assert f"{hour(8)}: no log file is left to compact; late data reopened it 2 times" in out
        _, out, _ = etc("freshness", "--by", "partition", "--output", "json")
        counts = {one["partition"]: one["reopened"] for one in json.loads(out)["tables"][0]["partitions"]["partitions"]}
        assert counts == {hour(8): 2, hour(9): 0, hour(10): 0, hour(11): 0}
        _, out, _ = etc("history", "orders_ro")
        assert f"1 partition reopened 2 times by late data, `{hour(8)}` 2 times" in out
        assert json.loads(etc("history", "orders_ro", "--output", "json")[1])["reopened"] == {hour(8): 2}
        etc("metrics", "write", "etc.prom")
        assert "etc_partition_reopenings{" in (tmp_path / "etc.prom").read_text()
        with Project(tmp_path) as project:
            project.site()
        (page,) = (tmp_path / "target" / "site" / "tables").glob("*.html")
        text = page.read_text()
        assert "4 partitions, 1 open, 3 done" in text
        assert f'<td data-label="partition">{hour(8)}</td><td data-label="status">done</td>' in text

    def test_what_was_not_sent_is_a_retry_and_not_a_failed_compaction(self, etc, done, tmp_path):
        done("{command: ['false']}")
        code, out, err = etc("apply", "--yes")
        assert (code, "error[ETC424]" in err, "nothing due" in out) == (4, True, True)
        assert "not sent yet: 3 events by `command`; `etc apply` sends them" in etc("freshness", "--by", "partition")[1]
        etc("metrics", "write", "etc.prom")
        assert re.search(
            r'^etc_partition_events_unsent\{action="command".*\} 3.0$', (tmp_path / "etc.prom").read_text(), re.M
        )
        done("{command: ['true']}")
        assert etc("apply", "--yes")[0] == 0
        assert "not sent" not in etc("freshness", "--by", "partition")[1]
