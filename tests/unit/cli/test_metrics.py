"""`etc metrics` over tables of files: the textfile, what stands in it when something cannot be read, and the templates."""

import json
import os
import socket
import threading
import time
import urllib.request
from contextlib import ExitStack

import pytest
from prometheus_client.parser import text_string_to_metric_families

from etc_policy import Project
from etc_policy.api import run_records
from etc_policy.report import bounded_clients, prometheus
from etc_policy.report.metrics import TableObservation
from etc_policy.report.results import RunResults
from etc_policy.report.run_files import RunFile, run_file_name
from tests.unit.hudi.table_folder import TableFolder, at, base, log
from tests.unit.plan.plan_cases import epoch_ms
from tests.unit.report.test_metrics import FRESH, POLICY, RUN

POLICIES = """version: 1
policies:
  - {name: orders_ro, table: lake/orders, event_time_column: ts, data_latency: 1h, freshness: {target: 2h}}
  - {name: payments_ro, table: "lake/pay\\"ments\\\\", event_time_column: ts, data_latency: 1h}
"""
RESULTS = RunResults(tables=(RUN,)).model_dump_json()


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "a.yml").write_text(POLICIES)
    monkeypatch.chdir(tmp_path)
    orders = TableFolder(tmp_path / "lake" / "orders")
    orders.commit(at("08:00:00"), at("08:00:05"), base("f1"))
    orders.commit(at("11:00:00"), at("11:00:05"), log("f1", min_event=epoch_ms("10:30:00")))
    return tmp_path


def values(path, name):
    families = text_string_to_metric_families(path.read_text())
    return {
        (sample.labels["policy"], sample.labels.get("status")): sample.value
        for family in families
        for sample in family.samples
        if sample.name == name
    }


def run_in(project):
    return RUN.model_copy(update={"base_path": str(project / "lake" / "orders")})


def put_results(project, text):
    (project / "target").mkdir(exist_ok=True)
    (project / "target" / "run_results.json").write_text(text)


def test_textfile_of_one_table_that_is_there_and_one_that_is_not(etc, project):
    put_results(project, RunResults(plan_id="x", tables=(run_in(project),)).model_dump_json())
    code, out, err = etc("metrics", "write", "out/etc.prom")
    assert (code, out) == (0, "")
    assert "warning[ETC20" in err
    path = project / "out" / "etc.prom"
    assert [p.name for p in path.parent.iterdir()] == ["etc.prom"]
    assert values(path, "etc_table_readable") == {("orders_ro", None): 1, ("payments_ro", None): 0}
    assert values(path, "etc_log_files") == {("orders_ro", None): 1}
    assert values(path, "etc_log_files_min_event_timestamp_seconds") == {
        ("orders_ro", None): epoch_ms("10:30:00") / 1000
    }
    assert values(path, "etc_last_run_read_bytes") == {("orders_ro", None): 500}
    labels = {s.labels["table"] for f in text_string_to_metric_families(path.read_text()) for s in f.samples}
    assert labels == {str(project / "lake" / "orders"), str(project / 'lake/pay"ments\\')}


def test_a_run_of_another_policy_does_not_hide_the_last_of_this_one(etc, project):
    runs = project / "target" / "runs"
    runs.mkdir(parents=True)
    for minute, read in ((1, 111), (3, 333), (2, 222)):
        results = RunResults(tables=(run_in(project).model_copy(update={"bytes_read": read}),))
        run = RunFile(kind="apply", recorded_at=f"2026-01-01T12:0{minute}:00.000Z", results=results)
        (runs / run_file_name(run, 1)).write_text(run.model_dump_json())
    (runs / "99-apply-1.json").write_text("{")
    other = RUN.model_copy(
        update={"policy": "payments_ro", "base_path": str(project / 'lake/pay"ments\\'), "bytes_read": 7}
    )
    put_results(project, RunResults(tables=(other,)).model_dump_json())
    etc("metrics", "write", "etc.prom")
    found = values(project / "etc.prom", "etc_last_run_read_bytes")
    assert found == {("orders_ro", None): 333, ("payments_ro", None): 7}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"schema_version": 99, "tables": [], "new": 1}', "of version 99"),
        ("{", "cannot read the results"),
        ("[]", "not the results of a run"),
        ("[" * 100_000, "cannot read the results"),
        *(
            (RESULTS.replace(RUN.completed_at, time), "not the results of a run")
            for time in ("yesterday", "2026-01-01T12:00:09", "2026-13-01", "")
        ),
    ],
)
def test_results_that_cannot_be_read_are_told_and_the_rest_stands(etc, project, text, told):
    put_results(project, text)
    code, _, err = etc("metrics", "write", "etc.prom", "--select", "orders_ro")
    assert code == 0
    assert "warning[ETC343]" in err
    assert told in err
    assert values(project / "etc.prom", "etc_table_readable") == {("orders_ro", None): 1}
    assert values(project / "etc.prom", "etc_last_run_read_bytes") == {}


def test_a_place_that_cannot_be_written(etc, project):
    (project / "file").write_text("")
    code, _, err = etc("metrics", "write", "file/etc.prom", "--select", "orders_ro")
    assert code == 3
    assert "error[ETC342]" in err


def test_a_port_that_is_taken(etc, project, unused_socket):
    code, _, err = etc("metrics", "serve", "--port", str(unused_socket))
    assert code == 3
    assert "error[ETC341]: cannot listen on 127.0.0.1" in err
    assert "--port" not in err  # other commands listen by other flags


@pytest.fixture
def unused_socket():
    """A port that another holds."""
    import socket

    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def test_templates_are_printed(etc):
    assert json.loads(etc("metrics", "dashboard")[1])["title"] == "Event-time compaction"
    assert etc("metrics", "rules")[1].startswith("# Alert rules")


def test_a_run_of_the_same_policy_on_another_table_is_not_this_ones(etc, project):
    put_results(project, RunResults(plan_id="x", tables=(RUN,)).model_dump_json())
    etc("metrics", "write", "etc.prom")
    assert values(project / "etc.prom", "etc_last_run_read_bytes") == {}


def test_each_look_is_by_the_policies_as_they_are(project):
    """A table whose policy is gone is not fresh; an error in the files is reported, and the former files are used."""
    path, warned = project / "policies" / "a.yml", []
    observe = Project(project, warn=warned.append).metrics("orders_ro")
    assert [one.policy.data_latency_ms for one in observe()] == [3_600_000]
    path.write_text(POLICIES.replace("data_latency: 1h", "data_latency: 2h"))
    assert [one.policy.data_latency_ms for one in observe()] == [7_200_000]
    path.write_text("version: 1\npolicies: [")
    assert [[one.policy.data_latency_ms for one in observe()] for _ in range(2)] == [[7_200_000]] * 2
    assert [one.code for one in warned].count("ETC106") == 1
    path.write_text(POLICIES.replace("orders_ro", "orders").replace("lake/orders", "lake/gone"))
    assert [one.policy.name for one in Project(project).metrics()()] == ["orders", "payments_ro"]


def test_half_requests_keep_no_more_than_so_many_threads(monkeypatch):
    """A client that opens connections and asks nothing took a thread for each, for ever."""
    monkeypatch.setattr(bounded_clients, "_MOST_CLIENTS", 3)
    monkeypatch.setattr(bounded_clients, "_SILENT_SECONDS", 3)
    server, _ = prometheus.serve(lambda: (), "127.0.0.1", 0, 60, lambda: None)
    before, address = threading.active_count(), ("127.0.0.1", server.server_port)
    with ExitStack() as stack:
        stack.callback(server.server_close)
        stack.callback(server.shutdown)
        halves = [stack.enter_context(socket.create_connection(address)) for _ in range(20)]
        assert [half.recv(1) for half in halves[:17]] == [b""] * 17  # for those after them
        assert threading.active_count() - before <= 3
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/healthz") as answer:
            assert answer.read() == b"ok\n"
        assert [half.recv(1) for half in halves[17:]] == [b""] * 3  # let go, as they are silent
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/healthz") as answer:
            assert answer.read() == b"ok\n"


def test_run_files_are_kept_to_a_number_and_a_size(tmp_path, monkeypatch):
    folder = tmp_path / run_records.RUNS_FOLDER
    folder.mkdir()
    for day in range(10, 20):
        (folder / f"202601{day}T000000000Z-apply-1.json").write_text("x" * 1000)
    (folder / "notes.json").write_text("not a run")
    monkeypatch.setattr(run_records, "MAX_KEPT_RUNS", 5)
    assert run_records.record_apply(tmp_path, RunResults(tables=(RUN,)), None, None) == ()
    assert len(list(folder.glob("*-apply-*.json"))) == 5
    newest = max(folder.glob("*-apply-*.json"))
    monkeypatch.setattr(run_records, "MAX_KEPT_BYTES", newest.stat().st_size + 2500)
    time.sleep(0.002)  # its name is another one
    assert run_records.record_apply(tmp_path, RunResults(tables=(RUN,)), None, None) == ()
    assert max(folder.glob("*-apply-*.json")).name > newest.name
    assert len(list(folder.glob("*-apply-*.json"))) < 4
    assert (folder / "notes.json").exists()


def test_one_run_file_that_is_too_large_hides_and_removes_no_other(tmp_path, monkeypatch):
    """A sparse one took the place of all records, and each of the next runs removed them."""
    folder = tmp_path / run_records.RUNS_FOLDER
    assert run_records.record_apply(tmp_path, RunResults(tables=(RUN,)), None, None) == ()
    own, large = next(folder.iterdir()), folder / "20260901T000000000Z-apply-1.json"
    own = own.rename(folder / "20260101T000000000Z-apply-1.json")
    large.touch()
    os.truncate(large, run_records.MAX_KEPT_BYTES + 1)
    warned = []
    assert [run.results.tables for run in run_records.load_runs(tmp_path, warned.append).files] == [(RUN,)]
    assert [issue.message for issue in warned] == ["1 of 2 run files are left out: of the newest 64 MiB are read"]
    assert run_records.last_tables(tmp_path).keys() <= {RUN.policy}
    assert run_records.record_apply(tmp_path, RunResults(tables=(RUN,)), None, None) == ()
    assert (own.exists(), large.exists()) == (True, False)


def test_the_newest_run_files_are_read_and_how_many_are_not_is_said(tmp_path, monkeypatch):
    """A folder of 256 MiB was read as a whole: 1.6 GB, and two minutes."""
    folder = tmp_path / run_records.RUNS_FOLDER
    assert run_records.record_apply(tmp_path, RunResults(tables=(RUN,)), None, None) == ()
    written = next(folder.iterdir())
    for day in (1, 2, 3):
        text = written.read_text().replace('"recorded_at":"', f'"recorded_at":"{day}')
        (folder / f"2026010{day}T000000000Z-apply-1.json").write_text(text)
    written.rename(folder / "99990101T000000000Z-apply-1.json")
    monkeypatch.setattr(run_records, "MAX_READ_BYTES", 2 * len(text))
    warned = []
    found = run_records.load_runs(tmp_path, warned.append).files
    assert [run.recorded_at[0] for run in found] == ["2", "3"]
    assert warned[0].message.startswith("2 of 4 run files are left out")


def test_a_record_of_a_clock_that_was_ahead_is_not_the_last_run(tmp_path):
    """It was, for whoever asked for results, until that time had come."""
    folder = tmp_path / run_records.RUNS_FOLDER
    for ahead, name in ((0, "/lake/now"), (3_600_000, "/lake/then")):
        now_ms = run_records.clock_ms() + ahead
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(run_records, "clock_ms", lambda now_ms=now_ms: now_ms)
            table = RUN.model_copy(update={"base_path": name, "status": "compacted"})
            assert run_records.record_apply(tmp_path, RunResults(tables=(table,)), None, None) == ()
    assert len(list(folder.iterdir())) == 2
    assert run_records.last_tables(tmp_path) == {RUN.policy: "/lake/now"}


def test_a_look_that_hangs_holds_no_other_scrape(monkeypatch):
    monkeypatch.setattr(prometheus, "_LOOK_SECONDS", 0.1)
    begun, end, looks = threading.Event(), threading.Event(), iter([(), None])

    def observe():
        if next(looks) is None:
            begun.set()
            end.wait(10)
        return ()

    collector = prometheus.TableCollector(observe)
    assert list(collector.collect()) == []
    hanging = threading.Thread(target=lambda: list(collector.collect()))
    hanging.start()
    begun.wait(10)
    assert list(collector.collect()) == []
    end.set()
    hanging.join()


@pytest.mark.parametrize(
    "number", ["9" * 4_300, "9" * 400, "9" * 19, f'"{"9" * 400}"'], ids=["4300", "400", "19", "text"]
)
def test_a_number_of_one_table_hides_no_other(project, etc, number):
    """Whoever writes a table writes what etc keeps beside it too."""
    TableFolder(project / "lake" / 'pay"ments\\').commit(at("08:00:00"), at("08:00:05"), base("f1"))
    memory = project / "lake" / "orders" / ".hoodie" / ".etc" / "memory.json"
    memory.parent.mkdir()
    memory.write_text(
        f'{{"runs": {{"in_a_row": {number}, "since_ms": {number}, "hours": [[1, {number}, 0]]}},'
        f'"refusals": {{"count": {number}, "since": "then"}}, "run_ms": {number}}}'
    )
    for command in (["metrics", "write", "m.prom"], ["freshness"], ["plan"], ["debug"]):
        code, out, err = etc(*command)
        assert (code in (0, 1), "ETC009" in err, "payments_ro" in (out or (project / "m.prom").read_text())) == (
            True,
            False,
            True,
        )


def test_a_table_whose_samples_are_no_numbers_hides_no_other():
    observed = [
        TableObservation(POLICY, "dev", 0, FRESH.model_copy(update={"runs_of_day": many})) for many in (10**400, 1)
    ]
    families = {
        one.name: [sample.value for sample in one.samples]
        for one in prometheus.TableCollector(lambda: observed).collect()
    }
    assert families["etc_table_readable"] == [0.0, 1.0]
    assert families["etc_runs_of_day"] == [1.0]


def test_no_names_behind_a_link_in_place_of_the_run_files_are_shown(tmp_path):
    """It may have come with the project's files; etc neither names nor removes what lies there."""
    secret, warned = tmp_path / "secret", []
    secret.mkdir()
    for name in ("a-apply-1.json", "ada.json"):
        (secret / name).write_text("{}")
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "runs").symlink_to(secret)
    found = run_records.load_runs(tmp_path / "target", warned.append)
    assert (found.files, found.issues, warned) == ((), (), [])
    assert run_records.last_tables(tmp_path / "target") == {}
    assert list(run_records._run_files(tmp_path / "target", "*")) == []
