"""`etc apply` over tables in memory: what is touched, in which order, and what is told of it."""

import json
from dataclasses import replace

import pytest
from jsonschema import Draft202012Validator

from etc_policy.cli import apply
from etc_policy.errors import EngineError, TableError
from etc_policy.plan.commit_metadata import extra_metadata
from etc_policy.plan.table_state import Instant
from etc_policy.publish.schemas import json_schema
from tests.fakes import MemoryCompactor, MemoryTable
from tests.unit.plan.plan_cases import instant
from tests.unit.plan.states import PLAN, STATE, C

NOON = "2026-01-01T12:00:00Z"
POLICIES = """version: 1
policies:
  - {name: orders_ro, table: /t, event_time_column: ts, data_latency: 1h, verify: {level: metadata}}
  - {name: payments_ro, table: /u, event_time_column: ts, data_latency: 1h, verify: {level: metadata, suite: mine}}
"""
SUITE = "name: mine\nexpectations: [{type: expect_no_key_twice}]\n"
TOUCHES = {"publish", "run", "commit", "withdraw"}


class Compactor(MemoryCompactor):
    """Compacts the log files below the job's instant, as Hudi would."""

    def run(self, job, fence):
        super().run(job, fence)
        chosen = {operation.file_id for operation in job.operations}
        self.table.state = replace(
            self.table.state,
            slices=tuple(
                replace(one, log_files=tuple(f for f in one.log_files if f.completed >= job.instant))
                if one.file_id in chosen
                else one
                for one in self.table.state.slices
            ),
        )


class Outside:
    """An Environment of tables in memory; `lost` are tables that the catalog does not know."""

    def __init__(self, project_dir, **tables):
        self.project_dir, self.tables, self.lost = project_dir, tables, set()

    def progress(self, step):
        pass

    def locate(self, policy):
        if policy.name in self.lost:
            raise TableError("ETC211", "no such table")
        return policy.table

    def table(self, policy):
        return self.tables[policy.name]

    def read_state(self, policy, *, read_stats=False):
        return self.table(policy).runner().reader.read(policy.table, policy.event_time)

    def runner(self):
        return self

    def finish_pending(self, policy, base_path):
        return self._runner(policy).finish_pending(policy, base_path)

    def apply(self, policy, table, plan_id, git_sha):
        return self._runner(policy).apply(policy, table, plan_id, git_sha)

    def _runner(self, policy):
        table = self.table(policy)
        return table.runner(compactor=Compactor(table))

    def git_sha(self):
        return "abc"

    def close(self):
        pass


@pytest.fixture
def outside(tmp_path, monkeypatch):
    """Two tables that are due, the policies for them, and the current folder in their project."""
    for folder, name, text in (("policies", "a.yml", POLICIES), ("suites", "mine.yml", SUITE)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    tables = {"orders_ro": MemoryTable(STATE), "payments_ro": MemoryTable(replace(STATE, base_path="/u"))}
    found = Outside(tmp_path, **tables)
    monkeypatch.setattr(apply, "open_environment", lambda *_, **__: found)
    return found


def run(etc, *arguments):
    """The exit code, each table's (status, status of its verification), and stderr."""
    code, out, err = etc("apply", "--at", NOON, "--output", "json", *arguments)
    results = json.loads(out)["tables"] if out else []
    verdicts = {
        table["policy"]: (table["status"], table["verification"] and table["verification"]["status"])
        for table in results
    }
    return code, verdicts, err


def touched(outside):
    return {name for name, table in outside.tables.items() if not TOUCHES.isdisjoint(table.calls)}


def test_results_fit_their_schema(etc, outside):
    _, out, _ = etc("apply", "--at", NOON, "--yes", "--output", "json")
    assert not list(Draft202012Validator(json_schema("run_results")).iter_errors(json.loads(out)))
    assert (outside.project_dir / "target" / "run_results.json").read_text() == out


def test_both_tables(etc, outside):
    code, verdicts, _ = run(etc, "--yes")
    assert (code, verdicts) == (0, {"orders_ro": ("compacted", "pass"), "payments_ro": ("compacted", "pass")})
    assert [table.mark for table in outside.tables.values()] == [C, C]


class TestSuites:
    @pytest.mark.parametrize("text", ["expectations: [", "expectations: 3\n", None])
    def test_one_that_cannot_be_read_stops_all_before_anything_is_touched(self, etc, outside, text):
        suite = outside.project_dir / "suites" / "mine.yml"
        outside.tables["orders_ro"].put_plan(C, PLAN.operations, extra_metadata(PLAN, "plan-0", None))
        suite.unlink() if text is None else suite.write_text(text)
        code, verdicts, err = run(etc, "--yes")
        assert (code, verdicts) == (1, {})
        assert "mine" in err
        assert [table.calls for table in outside.tables.values()] == [[], []]

    def test_that_of_a_policy_which_is_not_selected_is_not_read(self, etc, outside):
        (outside.project_dir / "suites" / "mine.yml").write_text("expectations: 3\n")
        assert run(etc, "--yes", "--select", "orders_ro")[:2] == (0, {"orders_ro": ("compacted", "pass")})


class TestVerificationThatFails:
    """The compaction is done and stays done; only its verdict is an error."""

    def test_the_table_cannot_be_read_any_more(self, etc, outside):
        table = outside.tables["orders_ro"]

        def gone(state):
            if C in table.commits:
                raise TableError("ETC201", "there is no table")
            return state

        table.changes = [gone] * 9
        code, verdicts, err = run(etc, "--yes")
        assert verdicts == {"orders_ro": ("compacted", "error"), "payments_ro": ("compacted", "pass")}
        assert code == 3
        assert "error[ETC201]: there is no table" in err

    def test_its_engine_fails(self, etc, outside, monkeypatch):
        def no_spark(*_):
            raise EngineError("ETC303", "Spark did not start", cause="no memory")

        monkeypatch.setattr("etc_policy.api.applying.verify_table", no_spark)
        code, verdicts, _ = run(etc, "--yes")
        assert verdicts == {"orders_ro": ("compacted", "error"), "payments_ro": ("compacted", "error")}
        assert code == 3


def test_a_table_that_the_catalog_does_not_know_does_not_hide_the_other(etc, outside):
    outside.lost = {"orders_ro"}
    code, verdicts, err = run(etc, "--yes")
    assert (code, verdicts) == (3, {"orders_ro": ("failed", None), "payments_ro": ("compacted", "pass")})
    assert "error[ETC211]: no such table" in err
    assert touched(outside) == {"payments_ro"}


class TestSavedPlan:
    @pytest.fixture
    def plan_of(self, etc, outside, monkeypatch):
        """Saves a plan of all tables as they are now."""

        def save():
            monkeypatch.setattr("etc_policy.cli.plan.open_environment", lambda *_, **__: outside)
            etc("plan", "--at", NOON, "--out", "plan.json", "--output", "json")
            return "plan.json"

        return save

    def test_all_of_it(self, etc, outside, plan_of):
        code, verdicts, _ = run(etc, plan_of())
        assert (code, verdicts) == (0, {"orders_ro": ("compacted", "pass"), "payments_ro": ("compacted", "pass")})

    def test_what_is_selected(self, etc, outside, plan_of):
        code, verdicts, _ = run(etc, plan_of(), "--select", "payments_ro")
        assert (code, verdicts) == (0, {"payments_ro": ("compacted", "pass")})
        assert touched(outside) == {"payments_ro"}
        assert "lease" not in outside.tables["orders_ro"].calls

    def test_a_refusal_that_is_not_selected_is_not_told(self, etc, outside, plan_of):
        table = outside.tables["orders_ro"]
        pending = Instant(instant("11:59:00"), "clustering", "requested")
        table.state = replace(STATE, instants=(*STATE.instants, pending))
        path = plan_of()
        code, verdicts, err = run(etc, path)
        assert (code, verdicts["orders_ro"]) == (4, ("refused", None))
        assert "error[ETC405]" in err
        outside.tables["payments_ro"].state = replace(STATE, base_path="/u")
        outside.tables["payments_ro"].commits.clear()
        code, verdicts, err = run(etc, path, "--select", "payments_ro")
        assert (code, verdicts) == (0, {"payments_ro": ("compacted", "pass")})
        assert "ETC405" not in err
