"""`etc apply --jobs`: several tables at once, each on its own, and a report in the order of the policies."""

import json
import threading
import time
from dataclasses import replace

import pytest

from etc_policy.api.project import Project
from etc_policy.errors import EngineError, StalePlanError
from tests.fakes import MemoryTable
from tests.unit.cli.test_apply import NOON, Outside
from tests.unit.plan.states import NOW, STATE

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


#: How tables merge that these releases alone, or first, are right for.
MERGINGS = {
    "0.15.0": "table version 6 of Hudi 0.x, DefaultHoodieRecordPayload, one ordering field",
    "1.2.0": "table version 9, EVENT_TIME_ORDERING, one ordering field",
}


class TestReleases:
    """Tables that different releases of Hudi take: those of one release after those of another."""

    @pytest.fixture(autouse=True)
    def _releases(self, outside):
        outside.releases = {"a_ro": "0.15.0", "b_ro": "1.2.0", "c_ro": "0.15.0", "d_ro": "1.2.0"}

    @pytest.mark.parametrize("jobs", [1, 3])
    def test_no_table_is_worked_on_beside_one_of_another_release(self, etc, outside, applying, jobs):
        outside.compaction_jobs, done = jobs, []
        applying(lambda name: done.append((outside.engine, name)))
        assert applied(etc)[:2] == (0, ALL)
        assert [release for release, _ in done] == ["0.15.0", "0.15.0", "1.2.0", "1.2.0"]
        assert set(done) == {(outside.releases[name], name) for name in NAMES}

    @pytest.mark.parametrize("verb", ["finish_pending", "read_table", "with_statistics"])
    def test_each_step_on_a_table_is_done_by_its_release(self, etc, outside, monkeypatch, verb):
        asked, work = set(), getattr(outside, verb)

        def noted(policy, *arguments, **named):
            asked.add((outside.engine, policy.name))
            return work(policy, *arguments, **named)

        monkeypatch.setattr(outside, verb, noted)
        assert applied(etc)[0] == 0
        assert asked == {(release, name) for name, release in outside.releases.items()}

    def test_so_it_is_verified_by_itself_and_reported_in_the_order_of_the_policies(self, etc, outside, monkeypatch):
        asked, read = [], outside.read_table

        def noted(policy, **named):
            asked.append((outside.engine, policy.name))
            return read(policy, **named)

        assert applied(etc)[0] == 0
        monkeypatch.setattr(outside, "read_table", noted)
        code, out, err = etc("verify", "--at", NOON, "--output", "json")
        assert (code, [one["policy"] for one in json.loads(out)["tables"]]) == (0, sorted(NAMES)), err
        assert asked == [("0.15.0", "a_ro"), ("0.15.0", "c_ro"), ("1.2.0", "b_ro"), ("1.2.0", "d_ro")]

    def test_the_plan_is_one_in_the_order_of_the_policies(self, etc, outside):
        assert applied(etc)[0] == 0
        (run,) = (outside.project_dir / "target" / "runs").glob("*.json")
        assert [one["policy"] for one in json.loads(run.read_text())["plan"]["tables"]] == sorted(NAMES)

    def test_a_plan_that_a_writer_overtakes_is_made_anew_by_the_release_of_its_table(self, etc, outside, applying):
        overtaken, done = ["d_ro", "a_ro"], []

        def work(name):
            done.append((outside.engine, name))
            if name in overtaken:
                overtaken.remove(name)
                raise StalePlanError("ETC401", "a writer was faster", hint="plan again")

        applying(work)
        outside.compaction_jobs = 1
        assert applied(etc)[:2] == (0, ALL)
        again = [("0.15.0", "a_ro"), ("0.15.0", "c_ro"), ("0.15.0", "a_ro")]
        assert done == [*again, ("1.2.0", "b_ro"), ("1.2.0", "d_ro"), ("1.2.0", "d_ro")]

    def test_what_fails_in_one_release_leaves_out_no_other(self, etc, outside, applying):
        def work(name):
            if outside.engine == "0.15.0":
                raise EngineError("ETC303", "Spark did not start")

        applying(work)
        code, done, _ = applied(etc)
        assert (code, [name for name, status in done if status == "compacted"]) == (3, ["b_ro", "d_ro"])

    def test_a_job_of_spark_submit_says_which_tables_to_submit_with_another_release(self, etc, outside, applying):
        """It has one release, whatever takes the tables elsewhere."""
        for name, table in outside.tables.items():
            release = outside.releases[name]
            table.state = replace(table.state, release=release, merging=MERGINGS[release])
        outside.is_submitted, outside.releases = True, {}

        def work(name):
            if name in ("a_ro", "c_ro"):
                raise EngineError("ETC322", f"`{name}` is not compacted", hint="name none")
            if name == "d_ro":
                raise EngineError("ETC303", "Spark did not start", hint="look at its log")

        applying(work)
        code, done, err = applied(etc)
        assert (code, [name for name, status in done if status == "compacted"]) == (3, ["b_ro"])
        said = " ".join(err.split())
        assert (
            said.count(
                "`etc apply --select a_ro,c_ro`, with `--packages org.apache.hudi:hudi-spark3.5-bundle_2.12:0.15.0`"
            )
            == 2
        )
        assert "hint: look at its log" in said

    def test_no_further_release_is_begun_once_the_run_is_to_end(self, outside, applying):
        done = []
        applying(done.append)
        outside.compaction_jobs = 1
        with Project(outside.project_dir) as project:
            project.apply(at=NOW, goes_on=lambda: len(done) < 2)
        assert done == ["a_ro", "c_ro"]
        with Project(outside.project_dir) as project:
            again = project.apply(at=NOW)
        assert [one.status for one in again.tables] == ["nothing_due", "compacted", "nothing_due", "compacted"]
