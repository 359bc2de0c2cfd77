"""`etc apply --jobs`: several tables at once, each on its own, and a report in the order of the policies."""

import json
import threading
import time
from dataclasses import replace

import pytest

from etc_policy.api.project import Project
from etc_policy.errors import EngineError
from tests.fakes import MemoryTable
from tests.unit.cli.test_apply import NOON, Outside, busy, idle
from tests.unit.plan.states import STATE

NAMES = ("c_ro", "a_ro", "d_ro", "b_ro")


@pytest.fixture
def outside(tmp_path, monkeypatch):
    """Four tables that are due, in an order that is not the alphabet's, and three jobs."""
    (tmp_path / "policies").mkdir()
    lines = "".join(
        f"  - {{name: {name}, table: /{name}, event_time_column: ts, data_latency: 1h, verify: {{level: metadata}}}}\n"
        for name in NAMES
    )
    (tmp_path / "policies" / "a.yml").write_text("version: 1\npolicies:\n" + lines)
    monkeypatch.chdir(tmp_path)
    tables = {name: MemoryTable(replace(STATE, base_path=f"/{name}")) for name in NAMES}
    found = Outside(tmp_path, **tables)
    found.compaction_jobs = 3
    monkeypatch.setattr(Project, "environment", found)
    return found


@pytest.fixture
def applying(outside, monkeypatch):
    """Puts work before each table's compaction: it is given the policy's name."""

    def put(work):
        apply = outside.apply

        def worked(policy, *arguments):
            work(policy.name)
            return apply(policy, *arguments)

        monkeypatch.setattr(outside, "apply", worked)

    return put


def applied(etc, *arguments):
    code, out, err = etc("apply", "--yes", "--at", NOON, "--output", "json", *arguments)
    return code, [(table["policy"], table["status"]) for table in json.loads(out)["tables"]], err


ALL = [(name, "compacted") for name in sorted(NAMES)]


def test_as_many_tables_as_there_are_jobs_are_worked_on_at_once(etc, outside, applying):
    outside.compaction_jobs = 4
    meeting = threading.Barrier(4)
    applying(lambda _: meeting.wait(timeout=30))
    assert applied(etc)[:2] == (0, ALL)
    assert outside.pools == set(NAMES)


def test_one_job_works_in_the_caller_s_thread(etc, outside, applying):
    outside.compaction_jobs, threads = 1, set()
    applying(lambda _: threads.add(threading.get_ident()))
    assert applied(etc)[:2] == (0, ALL)
    assert (threads, outside.pools) == ({threading.get_ident()}, set())


def test_results_are_in_the_policies_order_whoever_ends_first(etc, applying):
    applying(lambda name: time.sleep(0.2 if name == "a_ro" else 0))
    assert applied(etc)[:2] == (0, ALL)


def test_what_threads_need_is_prepared_by_the_main_one(etc, outside):
    applied(etc)
    assert "threads" in outside.steps


def test_each_table_that_is_done_is_said(etc, outside):
    applied(etc)
    said = [step for step in outside.steps if step.endswith(" done")]
    assert [step.split("; ")[1] for step in said] == [f"{n} of 4 tables done" for n in (1, 2, 3, 4)]
    assert {step.split("; ")[0] for step in said} == {f"{name}: compacted, verified PASS" for name in NAMES}


@pytest.mark.parametrize("error", [EngineError("ETC304", "Hudi could not"), ValueError("odd")])
def test_one_failure_does_not_stop_the_others(etc, outside, applying, error):
    def work(name):
        if name == "a_ro":
            raise error

    applying(work)
    code, results, err = applied(etc)
    assert (code, results) == (3, [("a_ro", "failed"), *ALL[1:]])
    assert err.count("error[") == 1
    assert str(error) in err


def test_errors_are_in_the_policies_order(etc, applying):
    def work(name):
        time.sleep(0.2 if name == "a_ro" else 0)
        raise EngineError("ETC304", f"Hudi could not compact {name}")

    applying(work)
    code, results, err = applied(etc)
    assert (code, [status for _, status in results]) == (3, ["failed"] * 4)
    places = [err.index(f"compact {name}") for name in sorted(NAMES)]
    assert places == sorted(places)


def test_a_table_that_a_writer_overtakes_is_planned_again_alone(etc, outside):
    outside.tables["b_ro"].changes = [idle, idle, busy, idle]
    assert applied(etc)[:2] == (0, ALL)
    assert [name for name in NAMES if outside.tables[name].calls.count("publish") == 1] == list(NAMES)


def test_an_interrupt_keeps_what_was_done(etc, outside, applying):
    outside.compaction_jobs = 2

    def work(name):
        if name == "b_ro":
            raise KeyboardInterrupt

    applying(work)
    code, out, _ = etc("apply", "--yes", "--at", NOON, "--output", "json")
    assert (code, out) == (130, "")
    (kept,) = (outside.project_dir / "target" / "runs").glob("*-apply-*.json")
    names = [table["policy"] for table in json.loads(kept.read_text())["results"]["tables"]]
    assert "a_ro" in names
    assert "b_ro" not in names
