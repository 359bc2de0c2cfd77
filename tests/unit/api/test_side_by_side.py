"""Tables are read side by side: in the policies' order, one failure not stopping others, Spark asked by one thread alone."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
import tracemalloc
from contextvars import ContextVar
from types import SimpleNamespace

import pytest

from etc_policy import Project
from etc_policy.api.each_table import each_table, side_by_side
from etc_policy.cli.main import main
from etc_policy.errors import EtcError, TableError
from etc_policy.policy.manifest import EventTime, Policy
from tests.unit.hudi.table_folder import TableFolder, at, base, log

TABLES = 12


def policy(name, table=None):
    return Policy(name=name, table=table or f"/{name}", event_time=EventTime(column="ts"), data_latency_ms=1)


def with_jobs(count):
    """An environment that reads so many tables at once."""
    return SimpleNamespace(jobs=count, progress=lambda _: None)


SETTING: ContextVar[str] = ContextVar("setting", default="unknown")


def test_a_call_sees_what_its_caller_s_context_holds():
    """The settings of object stores lie there."""
    SETTING.set("known")
    assert list(side_by_side([(SETTING.get, True)] * 3, 2)) == ["known"] * 3


def test_nothing_more_begins_once_the_caller_stops():
    begun, may_go = [], threading.Event()

    def work(number):
        begun.append(number)
        may_go.wait(30)

    results = side_by_side([(lambda: None, True), *((lambda n=n: work(n), True) for n in range(50))], 2)
    next(results)
    results.close()
    may_go.set()
    deadline = time.monotonic() + 30
    while any(thread.name.startswith("table worker") for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert len(begun) <= 3


def test_a_table_s_error_is_its_own_and_the_others_go_on():
    def read(one):
        if one.name == "b":
            raise TableError("ETC201", "there is no table")
        if one.name == "c":
            raise ValueError("odd")
        return one.name

    entries, errors = each_table(
        with_jobs(3), map(policy, "abcd"), read, lambda one, _: (one.name, None), lambda one, name: (one.name, name)
    )
    assert entries == (("a", "a"), ("b", None), ("c", None), ("d", "d"))
    assert [error.code for error in errors] == ["ETC201", "ETC236"]
    assert all(isinstance(error, EtcError) for error in errors)


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (PermissionError(13, "no", "/locks/lock"), "see that this user may use `/locks/lock`"),
        (OSError("odd"), "the table may"),
    ],
)
def test_a_file_that_cannot_be_used_is_not_the_table_s_fault(error, hint):
    def read(_):
        raise error

    _, (found,) = each_table(with_jobs(1), [policy("a")], read, lambda *_: None)
    assert (found.code, found.hint.startswith(hint)) == ("ETC236", True), found.hint


def test_tables_of_the_catalog_are_read_where_spark_may_be_asked():
    readers = {}

    def read(one):
        readers[one.name] = threading.get_ident()

    policies = [policy("a"), policy("b", "sales.b"), policy("c"), policy("d", "sales.d")]
    users, _ = each_table(with_jobs(2), policies, read, lambda *_: None, lambda *_: threading.get_ident())
    here = threading.get_ident()
    assert (readers["b"], readers["d"], set(users)) == (here, here, {here})
    assert here not in (readers["a"], readers["c"])


def test_a_long_reading_says_how_far_it_is(monkeypatch):
    monkeypatch.setattr("etc_policy.api.each_table._SAID_EVERY_SECONDS", 0.0)
    said = []
    each_table(SimpleNamespace(jobs=2, progress=said.append), map(policy, "ab"), lambda _: None, lambda *_: None)
    assert said == ["a: read, 1 of 2 tables", "b: read, 2 of 2 tables"]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Twelve tables, of which every third cannot be read."""
    (tmp_path / "policies").mkdir()
    lines = "".join(
        f"  - {{name: t{n:02d}, table: t{n:02d}, event_time_column: ts, data_latency: 1h, verify: {{level: metadata}}}}\n"
        for n in range(TABLES)
    )
    (tmp_path / "policies" / "a.yml").write_text("version: 1\npolicies:\n" + lines)
    for number in range(TABLES):
        if number % 3:
            table = TableFolder(tmp_path / f"t{number:02d}")
            table.commit(at("09:00:00"), at("09:00:05"), base("f"))
            table.commit(at("10:00:00"), at("10:00:05"), log("f", min_event=1_767_258_000_000 + number))
    monkeypatch.chdir(tmp_path)
    return tmp_path


READING = {
    "plan": lambda project: project.plan(at=1_767_300_000_000).tables,
    "freshness": lambda project: project.freshness(at=1_767_300_000_000).tables,
    "debug": lambda project: [one for one in project.debug().findings if one.subject.startswith("t0")],
}


@pytest.mark.parametrize("verb", READING)
def test_the_report_is_the_same_for_any_number_of_jobs(project, verb):
    one, many = (READING[verb](Project(project, jobs=jobs)) for jobs in (1, 8))
    assert list(one) == list(many)
    assert len(one) >= TABLES


@pytest.mark.parametrize("verb", ["plan", "freshness", "debug", "verify --level metadata", "history --select t*"])
def test_each_command_reports_every_table_in_the_policies_order(project, verb, capsys):
    ended = []
    for jobs in ("1", "8"):
        code = main([*verb.split(), "--jobs", jobs])
        said = capsys.readouterr()
        names = list(
            dict.fromkeys(word.rstrip(":") for word in said.out.split() if word[:1] == "t" and word[1:3].isdigit())
        )
        errors = [line for line in said.err.splitlines() if line.startswith("error")]
        ended.append((code, names, errors))
    assert ended[0] == ended[1]
    assert ended[0][0] in (1, 3)
    assert sorted({name[:3] for name in ended[0][1]}) == [f"t{n:02d}" for n in range(TABLES) if n % 3 or verb in SHOWN]


#: Commands whose report has a place for a table that cannot be read.
SHOWN = ("plan", "freshness", "debug", "verify --level metadata")


def test_the_target_says_how_many(project):
    (project / "etc_project.yml").write_text("profiles: {p: {target: t, targets: {t: {jobs: 7}}}}\n")
    assert (Project(project).environment.jobs, Project(project).environment.compaction_jobs) == (7, 7)
    assert Project(project, jobs=2).environment.jobs == 2
    (project / "etc_project.yml").unlink()
    assert (Project(project).environment.jobs, Project(project).environment.compaction_jobs) == (4, 1)


@pytest.mark.parametrize("jobs", ["0", "65", "true", "4.5"])
def test_what_no_number_of_jobs_is(project, jobs, capsys):
    (project / "etc_project.yml").write_text(f"profiles: {{p: {{target: t, targets: {{t: {{jobs: {jobs}}}}}}}}}\n")
    assert main(["plan"]) == 1
    assert "jobs" in capsys.readouterr().err


SLOW = """
import sys, time
from etc_policy.storage.local import LocalStorage
read = LocalStorage.read
def slowly(self, path, *more):
    print("reading", file=sys.stderr, flush=True)
    time.sleep(30)
    return read(self, path, *more)
LocalStorage.read = slowly
from etc_policy.cli.main import main
sys.exit(main())
"""


def test_an_interrupt_ends_the_command_at_once(project, tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    with subprocess.Popen(
        [sys.executable, str(tmp_path / "slow.py"), "plan", "--jobs", "4"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=project,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        while "reading" not in process.stderr.readline():
            pass
        began = time.monotonic()
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert time.monotonic() - began < 15
    assert "Traceback" not in err


def test_a_signal_that_another_thread_takes_ends_the_wait():
    ended = threading.Event()

    def interrupt(*_):
        raise KeyboardInterrupt

    def work():
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        return ended.wait(20)

    before, began = signal.signal(signal.SIGUSR1, interrupt), time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            list(side_by_side([(work, True)], 2))
        assert time.monotonic() - began < 10
    finally:
        signal.signal(signal.SIGUSR1, before)
        ended.set()


def _undecodable():
    bytes([0xFF] * (8 << 20)).decode()


def _no_json():
    json.loads(" " * (8 << 20))


def _panicking():
    read = bytes(8 << 20)
    raise MemoryError(len(read))


def _from_another():
    read = bytearray(8 << 20)
    try:
        _no_json()
    except ValueError as error:
        read += b"1"
        raise TableError("ETC216", "it is damaged") from error


def _within_another():
    read = bytearray(8 << 20)
    try:
        _undecodable()
    except ValueError:
        read += b"1"
        raise TableError("ETC216", "it is damaged") from None


@pytest.mark.parametrize("work", [_undecodable, _no_json, _panicking, _from_another, _within_another])
@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("in_use", [False, True])
def test_an_error_that_is_kept_holds_nothing_that_was_read_of_its_table(work, jobs, in_use):
    """Else a hundred tables that fail take all of memory before the first is reported. `--debug` still prints the stack."""
    policies = [policy(f"t{number}") for number in range(6)]
    read, use = (lambda _: None, lambda *_: work()) if in_use else (lambda _: work(), lambda _, found: found)
    tracemalloc.start()
    try:
        _, errors = each_table(with_jobs(jobs), policies, read, lambda _, error: error, use)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(errors) == 6
    assert kept < 1 << 20
    assert work.__name__ in "".join(traceback.format_exception(errors[0]))
