"""`etc apply` over tables in memory: what is touched, in which order, and what is told of it."""

import io
import itertools
import json
import shutil
import time
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace

import pytest
from jsonschema import Draft202012Validator

from etc_policy.api import planning, table_apply
from etc_policy.api.applying import REPLANS
from etc_policy.api.observing import freshness_of
from etc_policy.api.project import Project
from etc_policy.cli import apply as apply_command
from etc_policy.errors import EngineError, SeveralErrors, StalePlanError, TableError
from etc_policy.plan.commit_metadata import extra_metadata
from etc_policy.plan.explainer import explain_plan, list_plan
from etc_policy.plan.model import Plan, make_plan
from etc_policy.report.schemas import json_schema
from etc_policy.table.apply_state import ApplyState
from etc_policy.table.log_witness import path_of
from etc_policy.table.state import Instant, LogFile, LogWitness, WriteInFlight
from etc_policy.verify.ports import ExpectationResult, Verification
from tests.fakes import MemoryApplyStates, MemoryCompactor, MemoryTable
from tests.past import history_of
from tests.unit.plan.plan_cases import epoch_ms, instant
from tests.unit.plan.states import PLAN, POLICY, STATE, C, slice_of, with_slice

NOON = "2026-01-01T12:00:00Z"
POLICIES = """version: 1
policies:
  - {name: orders_ro, table: /t, event_time_column: ts, data_latency: 1h,
    strategy: {granularity: log_file}, verify: {level: metadata}}
  - {name: payments_ro, table: /u, event_time_column: ts, data_latency: 1h,
    strategy: {granularity: log_file}, verify: {level: metadata, suite: mine}}
"""
SUITE = "name: mine\nexpectations: [{type: expect_no_key_twice}]\n"
TOUCHES = {"publish", "run", "commit", "withdraw"}


class Compactor(MemoryCompactor):
    """Compacts the log files below the job's instant, as Hudi would."""

    def run(self, job, begun, gate):
        super().run(job, begun, gate)
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
        self.apply_states, self.checks, self.leased = MemoryApplyStates(), [], []
        self.steps, self.pools, self.spark = [], set(), None
        self.releases, self.engine, self.is_submitted = {}, None, False

    def progress(self, step):
        self.steps.append(step)

    def prepare_for_threads(self):
        self.steps.append("threads")

    def own_pool(self, name):
        self.pools.add(name)
        return nullcontext()

    def locate(self, policy):
        if policy.name in self.lost:
            raise TableError("ETC211", "no such table")
        return policy.table

    def release_of(self, policy):
        return self.releases.get(policy.name)

    @contextmanager
    def with_release(self, release):
        """The engine is of that release meanwhile."""
        before, self.engine = self.engine, release
        yield
        self.engine = before

    def table(self, policy):
        return self.tables[policy.name]

    def read_state(self, policy, *, read_stats=False, read_logs=True):
        state = self.table(policy).runner().state_of(policy, policy.table)
        return replace(state, apply_state=self.apply_states.read(policy.table))

    def read_mark(self, policy):
        return self.read_state(policy)

    def data_verifier(self):
        return self

    def running_verifier(self):
        return self

    def file_versions(self, *_):
        return {}

    def require_data_verifier(self, locations=()):
        pass

    def wrongly_indexed(self, _):
        return ()

    def missed_by_indexes(self, *_):
        return ()

    release = "1.2.0"

    def wrongly_listed(self, _):
        return ()

    def check(self, request):
        """A verifier of rows that finds nothing wrong unless `broken`."""
        self.checks.append(request.policy.name)
        if self.vanished:
            self.vanished.pop()(self.table(request.policy))
            raise EngineError("ETC332", "no expectation could be checked", cause="a file is not there")
        if self.meanwhile:
            self.meanwhile.pop()(self.table(request.policy))
        status = "fail" if self.broken else "pass"
        return 0, tuple(ExpectationResult(expectation=item["type"], status=status) for item in request.suite)

    broken = False
    vanished = meanwhile = ()
    jobs = compaction_jobs = 1

    def with_statistics(self, policy, state):
        return state

    def read_table(self, policy, *, read_stats=False, all_logs=False, notes_before=False):
        """Every file is recorded as it is, and every compaction that carries a threshold is on the timeline."""
        state = self.read_state(policy)
        if all_logs:
            times = (
                (path_of(s, f), f.size_bytes, f.min_event_time_ms, f.min_event_time_ms) for s, f in state.log_files
            )
            state = replace(state, witnesses=tuple(LogWitness(*one) for one in times))
        runs = (state.last_compaction,) if state.last_compaction else ()
        return state, history_of(runs=runs, timezone=state.timezone)

    def runner(self, *_):
        return self

    def finish_pending(self, policy, base_path):
        return self._runner(policy).finish_pending(policy, base_path)

    def apply(self, policy, table, plan_id, git_sha, require_derived=lambda: None):
        self.leased.append(table.base_path)
        return self._runner(policy).apply(policy, table, plan_id, git_sha, require_derived)

    def apply_between_writes(self, policy, base_path, plan_anew, git_sha):
        return self._runner(policy).apply_between_writes(policy, base_path, plan_anew, git_sha)

    def _runner(self, policy):
        table = self.table(policy)
        return table.runner(compactor=Compactor(table))

    def git_sha(self):
        return "abc-dirty"

    def git_state(self):
        return None

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
    monkeypatch.setattr(Project, "environment", found)
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
    results, plan = json.loads(out), outside.tables["orders_ro"].plans[C][1]
    assert results["git"] == {"sha": "abc", "dirty": True}
    assert (plan["etc.git_sha"], plan["etc.git_dirty"]) == ("abc", "true")
    fingerprints = {table["policy"]: table["policy_fingerprint"] for table in results["tables"]}
    assert fingerprints["orders_ro"] == plan["etc.policy_fingerprint"] != fingerprints["payments_ro"]


def test_stderr_is_an_object_a_line_and_with_quiet_errors_only(etc, outside):
    code, _, err = etc("apply", "--at", NOON, "--yes", "--log-format", "json")
    messages = [json.loads(line)["message"] for line in err.splitlines()]
    assert (code, messages[0].startswith("orders_ro  /t\n")) == (0, True)
    code, out, err = etc("apply", "--at", NOON, "--yes", "--quiet")
    assert (code, err, "nothing due" in out) == (0, "", True)


def test_a_plan_knows_a_table_by_its_name_in_the_catalog(etc, outside):
    path = outside.project_dir / "policies" / "a.yml"
    path.write_text(path.read_text().replace("table: /t", "table: db.t"))
    outside.locate = lambda policy: "/t" if policy.table == "db.t" else policy.table
    code, _, _ = run(etc, "--yes", "--select", "orders_ro")
    values = json.loads(outside.tables["orders_ro"].plans[C][1]["etc.policy_values"])
    assert (code, values["table"]) == (0, "db.t")


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
        assert code == 1
        assert "error[ETC201]: there is no table" in err

    @pytest.mark.parametrize(("times", "ended", "verdict", "errors"), [(1, 0, "pass", 0), (30, 1, "error", 2)])
    def test_nor_is_it_known_what_was_written_beside_the_commit(self, etc, outside, times, ended, verdict, errors):
        """With deletes the table is read once more right after it: whether or not that can be done, it is compacted."""
        left, table = [()] * times, outside.tables["orders_ro"]
        deleting = tuple(f._replace(has_deletes=True) for f in slice_of(STATE, "f1").log_files)
        table.state = with_slice(STATE, "f1", log_files=deleting)

        def gone(state):
            if table.commits and left:
                left.pop()
                raise TableError("ETC201", "there is no table")
            return state

        table.changes = [gone] * 50
        code, out, err = etc("apply", "--at", NOON, "--yes", "--output", "json", "--select", "orders_ro")
        (result,) = json.loads(out)["tables"]
        assert (code, result["status"], result["verification"]["status"]) == (ended, "compacted", verdict)
        assert (result["bytes_written"], result["instant"] in table.commits) == (5, True)
        assert err.count("error[ETC201]: there is no table") == errors

    def test_its_engine_fails(self, etc, outside, monkeypatch):
        def no_spark(*_):
            raise EngineError("ETC303", "Spark did not start", cause="no memory")

        monkeypatch.setattr("etc_policy.api.verifying.verify_table", no_spark)
        code, verdicts, _ = run(etc, "--yes")
        assert verdicts == {"orders_ro": ("compacted", "error"), "payments_ro": ("compacted", "error")}
        assert code == 3


class TestATargetFolderThatCannotBeWritten:
    """A full disk, or somebody else's folder: here a file in the place of the folder."""

    @pytest.fixture
    def target(self, outside):
        return outside.project_dir / "target"

    @staticmethod
    def lose(target):
        """The folder is lost while the first table is at work."""

        def change(state):
            shutil.rmtree(target, ignore_errors=True)
            target.write_text("a file")
            return state

        return change

    def test_nothing_is_touched(self, etc, outside, target):
        target.write_text("a file")
        code, out, err = etc("apply", "--at", NOON, "--yes")
        assert (code, out, touched(outside)) == (3, "", set())
        assert "error[ETC003]: cannot write `target/runs`" in err

    def test_a_failed_verification_is_said_all_the_same(self, etc, outside, target, monkeypatch):
        outside.tables["orders_ro"].changes = [self.lose(target)]
        bad = (ExpectationResult(expectation="no_deleted_rows", status="fail", message="3 rows"),)
        failed = Verification(level="metadata", status="fail", threshold_ms=1, expectations=bad)
        monkeypatch.setattr("etc_policy.api.verifying.verify_table", lambda *_: failed)
        code, out, err = etc("apply", "--at", NOON, "--yes")
        assert (code, out.count("FAIL"), touched(outside)) == (1, 2, {"orders_ro", "payments_ro"}), out
        assert err.count("error[ETC003]: cannot write `target/") == 2
        assert list(target.parent.glob("target")) == [target]

    def test_what_was_compacted_is_said_all_the_same(self, etc, outside, target):
        outside.tables["orders_ro"].changes = [self.lose(target)]
        code, verdicts, err = run(etc, "--yes")
        assert (code, verdicts) == (3, {"orders_ro": ("compacted", "pass"), "payments_ro": ("compacted", "pass")})
        assert "error[ETC003]: cannot write `target/run_results.json`" in err

    def test_from_python_it_is_an_error_whatever_is_checked(self, outside, target):
        outside.tables["orders_ro"].changes = [self.lose(target)]
        with Project(outside.project_dir, target_dir=target) as project, pytest.raises(SeveralErrors) as raised:
            project.apply(at=datetime.fromisoformat(NOON), check=False)
        assert {one.code for one in raised.value.errors} == {"ETC003"}
        assert [table.status for table in raised.value.report.tables] == ["compacted", "compacted"]

    def test_an_interrupt_stays_one(self, etc, outside, target):
        def end(_):
            raise KeyboardInterrupt

        outside.tables["payments_ro"].changes = [lambda s: s, self.lose(target), end]
        code, out, _ = etc("apply", "--at", NOON, "--yes", "--output", "json")
        assert (code, out) == (130, "")
        assert any("cannot write `target/run_results.json`: " in step for step in outside.steps)

    def test_a_verdict_is_said_before_it_is_kept(self, etc, outside, target, monkeypatch):
        bad = (ExpectationResult(expectation="no_deleted_rows", status="fail", message="3 rows"),)
        failed = Verification(level="metadata", status="fail", threshold_ms=1, expectations=bad)
        etc("apply", "--at", NOON, "--yes")
        monkeypatch.setattr("etc_policy.api.verifying.verify_table", lambda *_: failed)
        self.lose(target)(None)
        code, out, err = etc("verify", "--at", NOON)
        assert (code, out.count("FAIL")) == (1, 2), out
        assert "error[ETC003]: cannot write `target/runs/" in err

    def test_a_failed_verdict_says_more_than_a_report_that_is_not_written(self, etc, outside, target):
        """Nothing is known before the first commit; that was exit code 3."""
        target.write_text("a file")
        code, out, err = etc("freshness", "--at", "2000-01-01T00:00:00Z", "--output", "json")
        assert {table["status"] for table in json.loads(out)["tables"]} == {"unknown"}
        assert (code, "error[ETC003]" in err) == (1, True)

    @pytest.mark.parametrize(("command", "code"), [("plan", 3), ("freshness", 1)])
    def test_so_is_what_was_found(self, etc, outside, target, command, code):
        target.write_text("a file")
        ended, out, err = etc(command, "--at", NOON, "--output", "json")
        assert (ended, len(json.loads(out)["tables"])) == (code, 2)
        assert f"error[ETC003]: cannot write `target/{command}.json`" in err


@pytest.mark.parametrize("command", ["plan", "freshness"])
def test_what_is_printed_of_a_project_that_nobody_may_write_is_not_lost(etc, outside, command):
    """Not even root may write to this folder, as where a project is mounted read-only."""
    ended, out, err = etc(command, "--at", NOON, "--target-dir", "/sys/target", "--output", "json")
    assert (ended, len(json.loads(out)["tables"])) == (0 if command == "plan" else ended, 2)
    assert f"warning[ETC003]: cannot write `/sys/target/{command}.json`: what is printed here is not kept" in err


def test_an_end_between_two_tables_keeps_the_results_of_those_that_are_done(etc, outside):
    def end(_):
        raise KeyboardInterrupt

    outside.tables["payments_ro"].changes = [lambda s: s, lambda s: s, end]
    code, out, _ = etc("apply", "--at", NOON, "--yes", "--output", "json")
    assert (code, out) == (130, "")
    results = json.loads((outside.project_dir / "target" / "run_results.json").read_text())
    assert [(one["policy"], one["status"]) for one in results["tables"]] == [("orders_ro", "compacted")]
    assert list((outside.project_dir / "target" / "runs").glob("*-apply-*.json"))


@pytest.mark.parametrize("error", [ZeroDivisionError, RecursionError, MemoryError, OverflowError])
def test_whatever_goes_wrong_in_a_table_is_its_own_error(etc, outside, error):
    def end(_):
        raise error

    outside.tables["orders_ro"].changes = [lambda s: s, lambda s: s, end]
    code, verdicts, err = run(etc, "--yes")
    assert (code, verdicts) == (3, {"orders_ro": ("failed", None), "payments_ro": ("compacted", "pass")})
    assert f"error[ETC236]: `orders_ro` cannot be worked on: {error.__name__}" in err
    assert "Traceback" not in err


class TestSavedPlan:
    @pytest.fixture
    def plan_of(self, etc, outside):
        """Saves a plan of all tables as they are now."""

        def save():
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

    @pytest.mark.parametrize("others", [1, 0])
    def test_one_of_a_policy_that_is_disabled_since_is_stale(self, etc, outside, plan_of, others):
        path, policies = plan_of(), outside.project_dir / "policies" / "a.yml"
        text = policies.read_text()
        policies.write_text(text.replace("data_latency: 1h,", "data_latency: 1h, enabled: false,", 2 - others))
        code, verdicts, err = run(etc, path)
        assert (code, verdicts, touched(outside)) == (4, {}, set())
        assert (
            "error[ETC407]: policy `orders_ro` of the plan is disabled (`enabled: false` at policies/a.yml:3:12)" in err
        )
        code, verdicts, _ = run(etc, path, "--exclude", "orders_ro payments_ro" if not others else "orders_ro")
        assert (code, set(verdicts)) == (0, {"payments_ro"} if others else set())

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


class TestAPlanThatSomebodyChanged:
    """Its id is computed anew, so that it is right; what it says is not done."""

    @pytest.fixture
    def apply_changed(self, etc, outside):
        def run_it(change, *, whole=False):
            etc("plan", "--at", NOON, "--out", "p.json", "--output", "json", "--select", "orders_ro")
            content = json.loads((outside.project_dir / "p.json").read_text())
            change(content if whole else content["tables"][0])
            plan = Plan.model_validate(content)
            signed = plan.model_copy(update={"checksum": plan.computed_checksum})
            (outside.project_dir / "p.json").write_text(signed.model_dump_json())
            return run(etc, "p.json")

        return run_it

    def test_unchanged_it_is_carried_out(self, apply_changed):
        assert apply_changed(lambda table: None)[:2] == (0, {"orders_ro": ("compacted", "pass")})

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (lambda table: table.update(threshold_ms=253_370_764_800_000), "its `threshold_ms` is 253370764800000"),
            (lambda table: table.update(operations=table["operations"] * 2), "a file group twice"),
            (lambda table: table["operations"][0].update(partition="../.."), "in `../..`"),
            (
                lambda table: table.update(action="nothing_due", operations=[], instant=None),
                "its `action` is nothing_due",
            ),
        ],
        ids=["threshold", "operations", "partition", "nothing due"],
    )
    def test_it_does_not_follow_from_the_table(self, apply_changed, outside, change, words):
        code, verdicts, err = apply_changed(change)
        assert (code, verdicts) == (4, {"orders_ro": ("stale", None)})
        assert words in err
        assert touched(outside) == set()

    def test_another_way_of_writing_the_table_s_path_is_not_followed(self, apply_changed, outside):
        """`/link/..` is another folder to the system than to who reads the text."""
        code, _, _ = apply_changed(lambda table: table.update(base_path="/link/../t"))
        results = json.loads((outside.project_dir / "target" / "run_results.json").read_text())
        assert (code, [one["base_path"] for one in results["tables"]]) == (0, ["/t"])
        assert outside.leased == ["/t"]

    @pytest.mark.parametrize("value", [".../../pwn", "../../../x", "", "2026", C + ".commit"])
    def test_an_instant_that_is_none_names_no_file(self, apply_changed, outside, value):
        outside.tables["orders_ro"].calls.clear()
        code, verdicts, err = apply_changed(lambda table: table.update(instant=value))
        assert (code, verdicts) == (64, {})
        assert "error[ETC440]: a value of the plan cannot be one that etc wrote: orders_ro: instant" in err
        assert outside.tables["orders_ro"].calls == ["read"]  # by `etc plan`

    def test_a_policy_twice(self, apply_changed, outside):
        """200 tables of one policy would be 200 errors."""
        code, verdicts, err = apply_changed(lambda plan: plan["tables"].append(plan["tables"][0]), whole=True)
        assert (code, verdicts) == (64, {})
        assert (
            "error[ETC440]: a value of the plan cannot be one that etc wrote: tables (a policy is in it twice)" in err
        )

    @pytest.mark.parametrize("text", ["", "yesterday", "2026-01-01T12:00:00+99:00", "9999-12-31T23:59:59-23:59"])
    def test_nor_is_a_time_that_is_none(self, etc, outside, text):
        plan = make_plan(text, planning.plan_tables(outside, [], epoch_ms("12:00:00"), read_stats=False).tables)
        (outside.project_dir / "p.json").write_text(plan.model_dump_json())
        code, _, err = run(etc, "p.json")
        assert (code, "error[ETC440]: a value of the plan cannot be one that etc wrote: created_at" in err) == (
            64,
            True,
        )

    def test_the_catalog_is_asked_once(self, apply_changed, outside):
        """It may not answer any more while the table is compacted."""
        path = outside.project_dir / "policies" / "a.yml"
        path.write_text(path.read_text().replace("table: /t", "table: db.t"))
        read, asked = outside.read_state, []

        def read_state(policy, **options):
            asked.append(policy.table)
            return read(policy, **options)

        outside.read_state, outside.locate = read_state, lambda policy: policy.table.replace("db.t", "/t")
        assert apply_changed(lambda table: None)[:2] == (0, {"orders_ro": ("compacted", "pass")})
        assert asked[:2] == ["db.t", "/t"]  # by `etc plan`, then as it was located

    def test_one_that_was_carried_out_is_still_known(self, apply_changed, etc):
        apply_changed(lambda table: None)
        assert run(etc, "p.json")[:2] == (0, {"orders_ro": ("already_applied", "pass")})


def plan_of_orders(outside):
    return planning.plan_tables(outside, [POLICY], epoch_ms("12:00:00"), read_stats=False)


def freshness_of_orders(outside):
    noon = epoch_ms("12:00:00")
    return freshness_of(POLICY, outside.read_state(POLICY), noon, clock_at_ms=noon)


def results_of(etc, *arguments):
    """The exit code, and each policy's result."""
    code, out, _ = etc("apply", "--yes", "--at", NOON, "--output", "json", *arguments)
    tables = json.loads(out)["tables"]
    assert len({table["policy"] for table in tables}) == len(tables)
    return code, {table["policy"]: table for table in tables}


class TestKilledRuns:
    @pytest.fixture
    def data(self, outside):
        """The first policy is proved by its rows."""
        path = outside.project_dir / "policies" / "a.yml"
        path.write_text(path.read_text().replace("level: metadata}}", "level: data}}", 1))
        return outside

    def test_a_resumed_policy_has_one_result(self, etc, data):
        table = data.tables["orders_ro"]
        table.put_plan(C, PLAN.operations, extra_metadata(PLAN, "plan-0", None))
        code, found = results_of(etc, "--select", "orders_ro")
        result = found["orders_ro"]
        assert (code, result["status"], result["instant"], result["resumed_instant"]) == (0, "resumed", C, C)
        assert (result["verification"]["level"], data.checks) == ("data", ["orders_ro"])

    def test_also_when_there_is_more_to_do(self, etc, data):
        table = data.tables["orders_ro"]
        earlier = instant("10:30:00.001")
        older = PLAN.model_copy(update={"instant": earlier, "operations": ()})
        table.put_plan(earlier, (), extra_metadata(older, "plan-0", None))
        table.changes = [lambda s: s] * 3 + [lambda s: replace(s, instants=STATE.instants)]
        code, found = results_of(etc, "--select", "orders_ro")
        result = found["orders_ro"]
        assert (code, result["status"], result["instant"], result["resumed_instant"]) == (0, "compacted", C, earlier)

    def test_what_nobody_has_verified_is_verified_by_its_rows(self, etc, data):
        """The run died between its commit and its verification."""
        results_of(etc, "--select", "orders_ro")
        assert data.apply_states["/t"].verified.startswith(f"{C} ")
        data.apply_states.clear()
        data.checks.clear()
        for level, checks in (("data", 1), ("logs", 1)):
            code, found = results_of(etc, "--select", "orders_ro")
            result = found["orders_ro"]
            assert (code, result["status"], result["verification"]["level"]) == (0, "nothing_due", level)
            assert len(data.checks) == checks

    def test_an_earlier_now_proves_less_than_the_compaction_promises(self, etc, data):
        results_of(etc, "--select", "orders_ro")
        data.apply_states.clear()
        code, out, _ = etc(
            "apply", "--yes", "--output", "json", "--at", "2026-01-01T09:00:00Z", "--select", "orders_ro"
        )
        assert (code, json.loads(out)["tables"][0]["verification"]["level"]) == (0, "data")
        assert data.apply_states["/t"].verified is None

    def test_rows_that_are_wrong_are_looked_at_until_they_are_right(self, etc, data):
        data.broken = True
        for status in ("compacted", "nothing_due"):
            code, found = results_of(etc, "--select", "orders_ro")
            result = found["orders_ro"]
            assert (code, result["status"], result["verification"]["status"]) == (1, status, "fail")
            assert data.apply_states["/t"].verified is None
        data.broken = False
        assert results_of(etc, "--select", "orders_ro")[0] == 0
        assert data.apply_states["/t"].verified.startswith(f"{C} ")

    def test_the_next_plan_says_that_the_compaction_is_not_proven_and_what_that_means(self, etc, data):
        data.broken = True
        assert results_of(etc, "--select", "orders_ro")[0] == 1
        (planned,) = plan_of_orders(data).tables
        words = " ".join(explain_plan(plan_of_orders(data)).split())
        assert planned.action == "nothing_due"
        assert f"the last compaction ({C}) is not proven: its verification failed (" in planned.warnings[0]
        assert "Do not rely on RO being complete up to 2026-01-01 11:00:00 UTC before a verification passes" in words
        assert "hint `etc verify --select orders_ro` verifies it again" in words
        assert "RO complete not known" in words
        assert "until 2026" not in words
        assert "RO will hold every row" not in words
        assert "how far RO is complete is not known" in list_plan(plan_of_orders(data))
        assert "RO complete until" not in list_plan(plan_of_orders(data))
        fresh = freshness_of_orders(data)
        assert (fresh.status, fresh.complete_until_ms) == ("unknown", None)
        assert f"the last compaction ({C}) is not proven: its verification failed (" in fresh.reason
        data.broken = False
        assert results_of(etc, "--select", "orders_ro")[0] == 0
        assert plan_of_orders(data).tables[0].warnings == ()
        assert freshness_of_orders(data).complete_until_ms is not None

    def test_a_run_that_is_killed_while_it_verifies_leaves_a_compaction_that_is_not_proven(
        self, etc, data, monkeypatch
    ):
        def killed(*_):
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr("etc_policy.api.verifying.verify", killed)
            etc("apply", "--yes", "--at", NOON, "--select", "orders_ro")
        assert data.apply_states["/t"].unproven[0].compaction.startswith(C)
        assert "its verification was begun and has not ended" in plan_of_orders(data).tables[0].warnings[0]
        assert freshness_of_orders(data).status != "unknown"

    def test_files_that_vanish_while_the_table_moves_on_are_read_anew(self, etc, data):
        data.vanished = [cleaned, cleaned]
        code, found = results_of(etc, "--select", "orders_ro")
        assert (code, found["orders_ro"]["verification"]["status"], len(data.checks)) == (0, "pass", 3)

    @pytest.mark.parametrize(
        ("happens", "checks"), [([lambda table: None], 1), ([lambda table: cleaned(table)] * 3, 3)]
    )
    def test_what_cannot_be_read_is_no_success(self, etc, data, happens, checks):
        data.vanished = [*happens]
        code, found = results_of(etc, "--select", "orders_ro")
        assert (code, found["orders_ro"]["verification"]["status"], len(data.checks)) == (3, "error", checks)
        assert "a file is not there" in found["orders_ro"]["verification"]["expectations"][-1]["message"]


def cleaned(table):
    """A cleaner completes."""
    number = len(table.state.instants)
    done = Instant(instant(f"12:10:{number:02}"), "clean", "completed", instant(f"12:11:{number:02}"))
    table.state = replace(table.state, instants=(*table.state.instants, done))


def busy(state):
    """A writer is in flight that began before C."""
    return replace(state, living_writers=frozenset({instant("10:09:00")}))


def idle(state):
    """It has gone again."""
    return replace(state, living_writers=frozenset())


class TestOvertaken:
    """A plan that does not fit any more when it is to be published."""

    def test_one_that_was_made_just_now_is_made_again(self, etc, outside):
        outside.tables["orders_ro"].changes = [idle, *[idle, busy] * REPLANS, idle]
        both = dict.fromkeys(("orders_ro", "payments_ro"), ("compacted", "pass"))
        assert run(etc, "--yes")[:2] == (0, both)
        assert outside.tables["payments_ro"].calls.count("publish") == 1

    def test_its_commit_names_the_plan_that_the_results_name(self, etc, outside, monkeypatch):
        table, clock, ticks = outside.tables["orders_ro"], planning.clock_ms, itertools.count()
        monkeypatch.setattr(planning, "clock_ms", lambda: clock() + 10 * next(ticks))
        table.changes = [idle, idle, busy, idle]
        _, out, _ = etc("apply", "--at", NOON, "--yes", "--output", "json", "--select", "orders_ro")
        assert json.loads(out)["plan_id"] == table.commits[C].plan_id

    def test_a_saved_one_is_not(self, etc, outside):
        etc("plan", "--at", NOON, "--out", "p.json", "--select", "orders_ro")
        outside.tables["orders_ro"].changes = [idle, busy]
        assert run(etc, "p.json")[:2] == (4, {"orders_ro": ("stale", None)})


class TestWritersThatNeverPause:
    """A run waits for a moment between two writes; here there is one as soon as it is asked for, or never."""

    @pytest.fixture
    def moments(self, outside, monkeypatch):
        """What `Runner.apply_between_writes` finds, and how often it was asked."""
        asked = []

        def between(policy, base_path, plan_anew, git_sha):
            asked.append(policy.name)
            table = outside.tables[policy.name]
            table.state = idle(table.state)
            planned = plan_anew()
            if planned is None:
                return None
            return outside.apply(policy, planned[0], planned[1], git_sha), planned[0]

        monkeypatch.setattr(outside, "apply_between_writes", between)
        return asked

    @pytest.fixture
    def table(self, outside):
        table = outside.tables["orders_ro"]
        table.state = busy(table.state)
        return table

    def test_a_refused_table_is_compacted_between_two_writes(self, etc, table, moments):
        code, out, err = etc("apply", "--at", NOON, "--yes", "--output", "json", "--select", "orders_ro")
        report = json.loads(out)
        assert (code, [one["status"] for one in report["tables"]], moments) == (0, ["compacted"], ["orders_ro"]), err
        assert report["plan_id"] == table.commits[C].plan_id

    def test_so_is_one_in_which_a_write_that_failed_is_being_rolled_back(self, etc, outside, moments, monkeypatch):
        table = outside.tables["orders_ro"]
        before, pending = table.state, Instant(instant("11:59:00"), "rollback", "inflight")
        table.state = replace(before, instants=(*before.instants, pending))
        monkeypatch.setitem(globals(), "idle", lambda _: before)
        code, found, err = run(etc, "--yes", "--select", "orders_ro")
        assert (code, found, moments) == (0, {"orders_ro": ("compacted", "pass")}, ["orders_ro"]), err

    def test_a_plan_that_is_overtaken_by_deletes_is_too(self, etc, outside, moments, monkeypatch):
        """The first that is merely stale is made again without holding anybody up."""
        outside.tables["orders_ro"].changes = [idle, idle, busy, idle, idle, busy]
        code, found, err = run(etc, "--yes", "--select", "orders_ro")
        assert (code, found, moments) == (0, {"orders_ro": ("compacted", "pass")}, ["orders_ro"]), err

    def test_what_took_too_long_is_less_the_next_time(self, etc, outside, table, moments):
        """One slice of the two fits then: that which holds RO back."""
        outside.apply_states["/t"] = ApplyState(hold_bytes=1)
        later = tuple(f._replace(min_event_time_ms=epoch_ms("10:30:00")) for f in slice_of(STATE, "f2").log_files)
        table.state = with_slice(table.state, "f2", log_files=later)
        code, found = results_of(etc, "--select", "orders_ro")
        result = found["orders_ro"]
        assert (code, result["status"], result["file_slices"]) == (0, "compacted", 1)
        assert result["threshold_ms"] == epoch_ms("10:30:00") - 1
        assert outside.apply_states["/t"].hold_bytes > 1

    def test_without_such_a_moment_the_table_is_refused_as_before(self, etc, outside, table, monkeypatch):
        monkeypatch.setattr(outside, "apply_between_writes", lambda *_: None)
        code, found = results_of(etc, "--select", "orders_ro")
        assert (code, found["orders_ro"]["status"]) == (4, "refused")
        assert "declare the lock file of its writers as `writer.lock`" in found["orders_ro"]["hints"][-1]

    def test_who_says_no_to_the_new_plan_has_nothing_changed(self, etc, outside, table, moments, monkeypatch):
        monkeypatch.setattr(apply_command, "_confirmed", lambda plan, **_: not plan.has_changes)
        run(etc, "--yes", "--select", "orders_ro")
        assert (moments, table.commits) == (["orders_ro"], {})

    def test_a_saved_plan_is_never_another_one(self, etc, outside, moments):
        etc("plan", "--at", NOON, "--out", "p.json", "--select", "orders_ro")
        outside.tables["orders_ro"].changes = [idle, busy]
        assert run(etc, "p.json")[0] == 4
        assert moments == []


class TestDeletesThatWritersKeepAddingTo:
    """Each time that deletes in file group f1 are compacted, a writer has added a log file to it meanwhile."""

    @pytest.fixture
    def table(self, outside, monkeypatch):
        table = outside.tables["orders_ro"]
        deleting = tuple(f._replace(has_deletes=True) for f in slice_of(STATE, "f1").log_files)
        due = tuple(
            f._replace(min_event_time_ms=deleting[0].min_event_time_ms) for f in slice_of(STATE, "f2").log_files
        )
        table.state = with_slice(with_slice(STATE, "f1", log_files=deleting), "f2", log_files=due)
        numbers, runner = itertools.count(), outside._runner
        table.busy_again = True

        def add():
            number = next(numbers)
            if not table.busy_again:
                return
            at, done = instant(f"11:59:{number:02}"), instant(f"11:59:{number:02}.500")
            log_file = LogFile(f"L{number + 10}", 1, at, done, None, True, 1, unknown_is_deletes=True)
            grown = (*slice_of(table.state, "f1").log_files, log_file)
            changed = with_slice(table.state, "f1", log_files=grown)
            table.state = replace(changed, instants=(*changed.instants, Instant(at, "deltacommit", "completed", done)))

        def beside(policy):
            return (
                table.runner(compactor=Compactor(table, meanwhile=add))
                if policy.name == "orders_ro"
                else runner(policy)
            )

        monkeypatch.setattr(outside, "_runner", beside)
        return table

    def steps(self, table):
        return [call for call in table.calls if call in ("publish", "withdraw", "commit")]

    def test_what_a_withdrawn_plan_moves_behind_a_write_in_flight_waits_for_its_end(self, etc, table, monkeypatch):
        """Hudi rolls back what was compacted, and C comes after that."""
        began, waited, withdraw = WriteInFlight(instant("10:09:00"), None), [], MemoryCompactor.withdraw

        def withdraw_beside_a_write(compactor, job):
            withdraw(compactor, job)
            table.busy_again = False
            table.state = replace(busy(table.state), writes_in_flight=(began,))

        def sleep(_):
            waited.append(table.state.writes_in_flight)
            table.state = replace(idle(table.state), writes_in_flight=())

        monkeypatch.setattr(MemoryCompactor, "withdraw", withdraw_beside_a_write)
        monkeypatch.setattr(table_apply, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))
        code, found, err = run(etc, "--yes", "--select", "orders_ro")
        assert (code, found) == (0, {"orders_ro": ("compacted", "pass")}), err
        assert waited == [(began,)]
        assert self.steps(table) == ["publish", "withdraw", "publish", "commit"]

    @pytest.fixture
    def learned(self, etc, outside, table):
        """The next run, once one has left them out: something is due in both file groups again."""
        run(etc, "--yes", "--select", "orders_ro")
        assert outside.apply_states["/t"].busy == (("p", "f1"),)
        at, done = instant("11:59:40"), instant("11:59:40.500")
        new = LogFile("L30", 1, at, done, slice_of(table.state, "f1").log_files[0].min_event_time_ms, recorded_bytes=1)
        changed = with_slice(table.state, "f2", log_files=(*slice_of(table.state, "f2").log_files, new))
        table.state = replace(changed, instants=(*changed.instants, Instant(at, "deltacommit", "completed", done)))
        table.calls.clear()
        table.commits.clear()
        return table

    def test_the_next_run_begins_with_the_others(self, etc, outside, learned):
        """Nothing of theirs is thrown away with what a writer overtakes, and to leave that for later is no failure."""
        code, found, err = run(etc, "--yes", "--select", "orders_ro")
        assert (code, found) == (0, {"orders_ro": ("compacted", "pass")}), err
        assert self.steps(learned) == ["publish", "commit", *("publish", "withdraw") * 2]
        kept = outside.apply_states["/t"]
        assert (kept.busy, kept.runs.in_a_row) == ((("p", "f1"),), 2)

    def test_where_nobody_writes_then_they_are_compacted_too(self, etc, outside, learned, monkeypatch):
        learned.busy_again = False
        code, out, err = etc("apply", "--at", NOON, "--yes", "--output", "json", "--select", "orders_ro")
        (result,) = json.loads(out)["tables"]
        assert (code, result["status"], result["file_slices"]) == (0, "compacted", 2), err
        assert self.steps(learned) == ["publish", "commit", "publish", "commit"]
        assert result["threshold_ms"] == PLAN.threshold_ms
        kept = outside.apply_states["/t"]
        assert (kept.busy, kept.runs.in_a_row) == ((), 0)

    def test_where_nothing_of_theirs_is_due_nothing_is_planned_again(self, etc, outside, learned):
        learned.state = with_slice(learned.state, "f1", log_files=())
        _, found, err = run(etc, "--yes", "--select", "orders_ro")
        assert (found["orders_ro"][0], self.steps(learned)) == ("compacted", ["publish", "commit"])
        assert "planning again" not in err

    def test_alone_they_are_planned_at_once(self, etc, outside, table):
        run(etc, "--yes", "--select", "orders_ro")
        table.calls.clear()
        table.busy_again = False
        code, found, err = run(etc, "--yes", "--select", "orders_ro")
        assert (code, found) == (0, {"orders_ro": ("compacted", "pass")}), err
        assert self.steps(table) == ["publish", "commit"]

    def test_after_a_hold_that_left_something_the_next_run_begins_with_the_others_too(
        self, etc, outside, table, monkeypatch
    ):
        outside.apply_states["/t"] = ApplyState(hold_bytes=1)

        def between(policy, base_path, plan_anew, git_sha):
            table.busy_again = False
            planned = plan_anew()
            return outside.apply(policy, *planned, git_sha), planned[0]

        monkeypatch.setattr(outside, "apply_between_writes", between)
        code, found = results_of(etc, "--select", "orders_ro")
        assert (code, found["orders_ro"]["file_slices"]) == (0, 1)
        assert outside.apply_states["/t"].busy == (("p", "f1"),)

    def test_they_are_left_out_and_the_rest_goes_on(self, etc, table):
        _, out, _err = etc("apply", "--at", NOON, "--yes", "--output", "json", "--select", "orders_ro")
        (result,) = json.loads(out)["tables"]
        assert (result["status"], result["file_slices"]) == ("compacted", 1)
        assert [call for call in table.calls if call in ("publish", "withdraw", "commit")] == [
            *("publish", "withdraw") * 2,
            *("publish", "commit"),
        ]
        assert table.state.last_compaction.left_out == 1
        assert result["threshold_ms"] == table.state.last_compaction.threshold_ms < PLAN.threshold_ms
        assert result["verification"]["status"] == "pass", [
            e["message"] for e in result["verification"]["expectations"]
        ]

    def test_a_saved_plan_is_refused(self, etc, outside, table, monkeypatch):
        etc("plan", "--at", NOON, "--out", "p.json", "--select", "orders_ro")
        code, found, err = run(etc, "p.json")
        assert (code, found) == (4, {"orders_ro": ("stale", None)}), err
        assert "error[ETC415]" in err
        assert "L10 was added to file group f1 in `p`" in err
        assert (table.state.own_pending, table.commits) == (None, {})


def unread(*_):
    raise TableError("ETC213", "the table cannot be read")


class TestWritesBesideTheCommit:
    """A writer without a lock begins while deletes of file group f1 are being committed."""

    @pytest.fixture
    def table(self, outside, monkeypatch):
        table = outside.tables["orders_ro"]
        deleting = tuple(f._replace(has_deletes=True) for f in slice_of(STATE, "f1").log_files)
        table.state, table.beside = with_slice(STATE, "f1", log_files=deleting), 1
        at, done = instant("11:59:00"), instant("11:59:00.500")

        def written(state):
            log_file = LogFile("L10", 1, at, done, epoch_ms("11:58:00"), recorded_bytes=1)
            added = with_slice(state, "f1", log_files=(*slice_of(state, "f1").log_files, log_file))
            instants = (*state.instants, Instant(at, "deltacommit", "completed", done))
            return replace(added, instants=instants, exposed=frozenset({("p", "f1")}))

        def begin():
            if table.beside:
                table.beside -= 1
                table.changes = [lambda s: s, lambda s: s, written]
            else:
                table.changes = [lambda s: s, lambda s: s, lambda s: replace(s, exposed=frozenset())]

        monkeypatch.setattr(outside, "_runner", lambda _: table.runner(compactor=Compactor(table, meanwhile=begin)))
        return table

    def test_what_it_wrote_is_compacted_at_once(self, etc, table):
        code, out, err = etc("apply", "--at", NOON, "--yes", "--output", "json", "--select", "orders_ro")
        (result,) = json.loads(out)["tables"]
        assert (code, result["status"], table.calls.count("commit")) == (0, "compacted", 2), err
        assert slice_of(table.state, "f1").log_files == ()
        assert result["file_slices"] == len(PLAN.operations) + 1

    def test_what_was_compacted_stays_the_result_where_the_next_plan_grows_stale(
        self, etc, outside, table, monkeypatch
    ):
        calls, real = [], outside.apply

        def apply(*given):
            calls.append(given)
            if len(calls) > 1:
                raise StalePlanError("ETC402", "the plan no longer fits its table")
            return real(*given)

        monkeypatch.setattr(outside, "apply", apply)
        code, out, err = etc("apply", "--at", NOON, "--yes", "--output", "json", "--select", "orders_ro")
        (result,) = json.loads(out)["tables"]
        assert (code, result["status"], result["bytes_written"]) == (1, "compacted", 5)
        assert result["instant"] in table.commits
        assert result["verification"]["status"] == "warn"
        assert "error[ETC402]" in err
        assert "error[ETC416]" in err

    def test_nor_where_it_cannot_be_read_while_the_write_is_waited_for(self, etc, table, monkeypatch):
        monkeypatch.setattr("etc_policy.api.table_apply.await_writes", unread)
        code, found, err = run(etc, "--yes", "--select", "orders_ro")
        assert (code, found["orders_ro"]) == (3, ("compacted", "warn"))
        assert "error[ETC213]" in err

    def test_they_are_found_later_where_the_table_could_not_be_read_at_once(self, etc, table, monkeypatch):
        """Once only: the verification reads it, and so does what looks for writes beside the commit."""
        monkeypatch.setattr("etc_policy.run.fence.writes_beside", unread)
        code, found, err = run(etc, "--yes", "--select", "orders_ro")
        assert (code, found["orders_ro"]) == (1, ("compacted", "warn"))
        assert "error[ETC416]: a writer began on `orders_ro` while the compaction" in err

    def test_a_saved_plan_says_that_it_must_be(self, etc, table):
        etc("plan", "--at", NOON, "--out", "p.json", "--select", "orders_ro")
        code, _, err = run(etc, "p.json")
        assert (code, table.calls.count("commit")) == (1, 1)
        assert "error[ETC416]" in err


class TestStarvation:
    """Refusals in a row are counted by table, and from the third on the hint says what to do."""

    @pytest.fixture
    def clustered(self, outside):
        pending = Instant(instant("11:59:00"), "clustering", "requested")
        outside.tables["orders_ro"].state = replace(STATE, instants=(*STATE.instants, pending))
        return outside

    def test_refusals_in_a_row(self, etc, clustered):
        for count in (1, 2, 3, 4):
            clustered.tables["orders_ro"].state = replace(
                STATE, instants=(*STATE.instants, Instant(instant(f"11:59:0{count}"), "clustering", "requested"))
            )
            code, found = results_of(etc, "--select", "orders_ro")
            result = found["orders_ro"]
            assert (code, result["status"], result["refusals_in_a_row"]) == (4, "refused", count)
            starved = [hint for hint in result["hints"] if f"refused {count} times in a row, since " in hint]
            assert len(starved) == (1 if count >= 3 else 0)
        assert "right after that service" in result["hints"][0]
        assert "`CALL run_clustering(path => '/t'" in result["hints"][1]
        _, _, err = run(etc, "--yes", "--select", "orders_ro")
        assert "hint: refused 5 times in a row" in err

    @pytest.mark.parametrize(
        ("state", "words"), [("requested", "was never started: the job that requests it"), ("inflight", "may be dead")]
    )
    def test_one_service_that_pends_all_the_time_needs_other_advice(self, etc, outside, state, words):
        """Requested once and never run: no job follows it, so nothing can run right after it."""
        pending = Instant(instant("11:59:00"), "compaction", state)
        outside.tables["orders_ro"].state = replace(STATE, instants=(*STATE.instants, pending))
        for _ in range(3):
            _, found = results_of(etc, "--select", "orders_ro")
        first, second = found["orders_ro"]["hints"]
        assert f"the compaction at {instant('11:59:00')} has been pending all the time" in first
        assert words in first
        assert "`etc finish` runs it" in first
        assert "`etc finish --select orders_ro`" in second

    def test_one_write_that_is_in_flight_all_the_time_may_have_failed(self, etc, outside):
        """Hudi keeps the heartbeat of a failed delete fresh while its process lives."""
        began, later = Instant(instant("10:04:00"), "deltacommit", "requested"), instant("11:58:00")
        done = Instant(later, "deltacommit", "completed", instant("11:58:01"))
        outside.tables["orders_ro"].state = replace(
            STATE, instants=(*STATE.instants, began, done), living_writers=frozenset({began.requested})
        )
        for _ in range(3):
            code, found = results_of(etc, "--select", "orders_ro")
        first, second = found["orders_ro"]["hints"]
        assert (code, found["orders_ro"]["status"]) == (4, "refused")
        assert (
            f"the write that began at {began.requested} has been in flight all the time. If it has failed, end" in first
        )
        assert "end or restart its process" in second

    def test_a_run_that_is_not_refused_ends_the_row(self, etc, clustered):
        for _ in range(3):
            results_of(etc, "--select", "orders_ro")
        assert clustered.apply_states["/t"].runs.in_a_row == 3
        clustered.tables["orders_ro"].state = STATE
        code, found = results_of(etc, "--select", "orders_ro")
        assert (code, found["orders_ro"]["refusals_in_a_row"]) == (0, 0)
        kept = clustered.apply_states["/t"]
        assert (kept.refusals, kept.runs.in_a_row) == (None, 0)
        assert [sum(counts) for counts in list(zip(*kept.runs.hours, strict=True))[1:]] == [4, 3]

    def test_a_plan_tells_of_it_and_counts_nothing(self, etc, clustered):
        for _ in range(3):
            results_of(etc, "--select", "orders_ro")
        for _ in range(2):
            out = etc("plan", "--at", NOON, "--select", "orders_ro")[1]
            assert "refused 4 times in a row, since " in out

    def test_plans_that_grow_stale_count_too(self, etc, outside):
        table = outside.tables["orders_ro"]

        for count in (1, 2, 3):
            table.changes = [idle, *[idle, busy] * (1 + REPLANS)]
            code, out, err = etc("apply", "--yes", "--at", NOON, "--output", "json", "--select", "orders_ro")
            result = json.loads(out)["tables"][0]
            assert (code, result["status"], result["refusals_in_a_row"]) == (4, "stale", count)
        assert "refused 3 times in a row" in err


class TestAsking:
    @pytest.fixture
    def terminal(self, monkeypatch):
        """Answers what is typed on a terminal."""

        def put(text):
            typed = io.StringIO(text)
            typed.isatty = lambda: True
            monkeypatch.setattr("sys.stdin", typed)

        return put

    @pytest.mark.parametrize("answer", ["y\n", "YES\n"])
    def test_yes(self, etc, outside, terminal, answer):
        terminal(answer)
        code, out, err = etc("apply", "--at", NOON)
        assert (code, touched(outside)) == (0, {"orders_ro", "payments_ro"})
        question = err[err.index("Compact ") :]
        assert " of 2 tables: reads " in question
        assert question.rstrip().endswith("Go on? [y/N]:")
        assert "[y/N]" not in out

    @pytest.mark.parametrize("answer", ["\n", "n\n", "yep\n"])
    def test_anything_else_changes_nothing(self, etc, outside, terminal, answer):
        terminal(answer)
        code, _, err = etc("apply", "--at", NOON)
        assert (code, touched(outside)) == (0, set())
        assert err.endswith("Nothing was changed by this plan.\n")

    def test_what_is_asked_is_an_object_as_json_and_shown_with_quiet_too(self, etc, outside, terminal):
        terminal("n\nn\n")
        _, _, err = etc("apply", "--at", NOON, "--log-format", "json")
        messages = [json.loads(line)["message"] for line in err.splitlines()]
        assert "Go on? [y/N]" in messages[-2]
        _, _, err = etc("apply", "--at", NOON, "--quiet")
        assert ("payments_ro  /u" in err, err.endswith("Go on? [y/N]: ")) == (True, True)

    def test_a_plan_that_is_made_again_is_asked_for_again(self, etc, outside, terminal):
        terminal("y\nn\n")
        outside.tables["orders_ro"].changes = [idle, idle, busy, idle]
        code, _, err = etc("apply", "--at", NOON)
        assert (code, touched(outside)) == (0, {"payments_ro"})
        first, second = err.split("Nothing was changed")[0].split("Compact ")[1:]
        assert "of 2 tables" in first
        assert "of 2 tables" not in second

    def test_no_to_a_plan_that_was_made_again_does_not_hide_what_was_refused_before(self, etc, outside, terminal):
        terminal("y\nn\n")
        outside.tables["orders_ro"].changes = [idle, idle, busy, idle]
        refused = outside.tables["payments_ro"]
        pending = Instant(instant("11:59:00"), "clustering", "requested")
        refused.state = replace(refused.state, instants=(*refused.state.instants, pending))
        code, _, err = etc("apply", "--at", NOON)
        assert (code, touched(outside)) == (4, set())
        assert "`payments_ro` cannot be compacted now" in err

    def test_the_end_of_input_is_an_interruption(self, etc, outside, terminal):
        terminal("")
        assert (etc("apply", "--at", NOON)[0], touched(outside)) == (130, set())

    def test_nobody_is_there(self, etc, outside, monkeypatch):
        monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
        code, _, err = etc("apply", "--at", NOON)
        assert (code, touched(outside)) == (64, set())
        assert "error[ETC604]: cannot ask" in err

    def test_json_does_not_ask_even_on_a_terminal(self, etc, outside, terminal):
        terminal("y\n")
        code, out, err = etc("apply", "--at", NOON, "--output", "json")
        assert (code, out, touched(outside)) == (64, "", set())
        assert "error[ETC604]: `--output json` does not ask" in err
        assert "add `--yes`" in err
