"""`--every` and `strategy.every`: what is planned and applied, what waits, and that a run with nothing due starts no JVM."""

import builtins
import json
import re
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from jsonschema import Draft202012Validator

from etc_policy.api.project import Project
from etc_policy.errors import ExitCode, UsageError
from etc_policy.hudi.apply_state import FileApplyStateStore
from etc_policy.report.schemas import json_schema
from etc_policy.report.sync import COMPLETE_UNTIL, STATUS
from etc_policy.table.apply_state import Looked, Unproven
from etc_policy.table.history import SEEN_UNTIL
from etc_policy.table.history import THRESHOLD as COMMITTED
from etc_policy.wiring import Environment
from tests.unit.api.test_log_witness import commit_log
from tests.unit.cli.test_apply import outside as outside
from tests.unit.cli.test_sync import Catalog
from tests.unit.hudi import log_file
from tests.unit.hudi.table_folder import TableFolder, at, base, log
from tests.unit.plan.plan_cases import epoch_ms

NOON = "2026-01-01T12:00:00Z"
POLICY = """version: 1
policies:
  - name: orders_ro
    table: lake/orders
    event_time_column: ts
    data_latency: 1h
    {strategy}
    freshness: {{target: {target}}}
    verify: {{level: {level}}}
    sync: {{ro_table: lake.orders_ro}}
"""


@pytest.fixture
def orders(tmp_path, monkeypatch):
    """A table whose only log file holds an event of 10:25, in a project; it is noon, and whoever asks for Spark fails."""

    def no_spark(_):
        raise AssertionError("Spark was asked for")

    monkeypatch.setattr(Environment, "spark", property(no_spark))
    monkeypatch.setattr(Environment, "catalog_spark", property(no_spark))
    monkeypatch.setattr("etc_policy.wiring.time.time_ns", lambda: epoch_ms("12:00:00") * 1_000_000)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policies").mkdir()
    table = TableFolder(tmp_path / "lake" / "orders")
    table.commit(at("08:00:00"), at("08:00:05"), base("f1"))
    table.commit(at("10:30:00"), at("10:30:05"), log("f1", min_event=epoch_ms("10:25:00")))
    return table


@pytest.fixture
def declare(orders, tmp_path):
    def write(strategy="", target="2h", level="metadata"):
        text = POLICY.format(strategy=strategy, target=target, level=level)
        (tmp_path / "policies" / "a.yml").write_text(text)

    write()
    return write


@pytest.fixture
def planned(etc, declare):
    """The plan's only table, as JSON that fits its schema."""

    def plan(*arguments):
        _, out, _ = etc("plan", "--at", NOON, "--output", "json", *arguments)
        assert not list(Draft202012Validator(json_schema("plan")).iter_errors(json.loads(out)))
        return json.loads(out)["tables"][0]

    return plan


class TestPlan:
    def test_without_an_interval_all_that_has_arrived_is_due(self, planned):
        table = planned()
        assert (table["action"], table["pace"], table["next_due_ms"]) == ("compact", None, None)

    def test_with_one_it_waits_and_says_until_when(self, planned):
        table = planned("--every", "10m")
        assert (table["action"], table["threshold_ms"]) == ("nothing_due", epoch_ms("10:24:59.999"))
        assert table["pace"] == {
            "every_ms": 600_000,
            "target_ms": 7_200_000,
            "run_ms": 600_000,
            "run_assumed": True,
            "published_ms": None,
        }
        assert table["next_due_ms"] == epoch_ms("12:10:00")  # due at 12:05; an interval passes in any case
        assert planned("--every", "3m")["next_due_ms"] == epoch_ms("12:19:00")

    def test_that_of_the_policy_is_the_same_and_the_flag_wins(self, planned, declare):
        declare("strategy: {every: 10m}")
        assert planned()["action"] == "nothing_due"
        assert planned("--every", "15m")["action"] == "compact"
        assert planned("--every", "15m")["policy_values"]["strategy.every"] == "10m"

    def test_the_last_run_that_is_known_counts(self, planned, orders):
        assert planned("--every", "14m")["action"] == "compact"
        FileApplyStateStore().update(str(orders.base), lambda kept: replace(kept, run_ms=60_000))
        table = planned("--every", "14m")
        assert (table["action"], table["pace"]["run_ms"], table["pace"]["run_assumed"]) == (
            "nothing_due",
            60_000,
            False,
        )

    def test_in_words(self, etc, declare):
        _, out, _ = etc("plan", "--at", NOON, "--every", "10m")
        assert "just in time  runs every 10m, the last one is assumed to take as long" in out
        assert "next due      2026-01-01 12:10:00 UTC  no run is needed before" in out

    def test_a_line_of_many_has_it_too(self, planned, declare):
        from etc_policy.plan.explainer import list_plan

        plan = Project().plan(at=datetime(2026, 1, 1, 12, tzinfo=UTC), every=timedelta(minutes=10))
        assert "RO complete until 2026-01-01 10:24:59 UTC; next due 2026-01-01 12:10:00 UTC" in list_plan(plan, 200)

    def test_a_target_without_room_is_warned_of(self, etc, declare):
        declare(target="80m")
        _, out, _ = etc("plan", "--at", NOON, "--every", "15m")
        assert "shorter than `data_latency`, the interval between runs and a run" in " ".join(out.split())

    @pytest.mark.parametrize("command", [("plan",), ("apply", "--yes")])
    def test_a_target_that_can_never_be_met_is_an_error_at_its_place(self, etc, declare, command):
        declare(target="1h")
        code, out, err = etc(*command, "--at", NOON, "--every", "5m", "--output", "json")
        assert (code, out) == (ExitCode.FAILED, "")
        assert "error[ETC133]: `freshness.target` equals `data_latency`" in err
        assert "policies/a.yml:8:25 (policy `orders_ro`)" in err
        assert "hint: add the time between two runs and that of a run to the target" in err
        assert etc("plan", "--at", NOON)[0] == ExitCode.DONE

    def test_without_any_target_it_is_said_to_do_nothing(self, etc, declare, tmp_path):
        path = tmp_path / "policies" / "a.yml"
        path.write_text(path.read_text().replace("    freshness: {target: 2h}\n", ""))
        _, _, err = etc("plan", "--at", NOON, "--every", "5m")
        assert "no selected policy has a `freshness.target`" in err

    @pytest.mark.parametrize(
        ("value", "says"), [("0s", "must be longer than 0s"), ("5", "not a duration"), ("x", "not a d")]
    )
    def test_what_is_no_interval(self, etc, declare, value, says):
        code, _, err = etc("plan", "--every", value)
        assert (code, says in err) == (ExitCode.USAGE, True)

    @pytest.mark.parametrize("every", [timedelta(0), timedelta(seconds=-1), timedelta(days=9999)])
    def test_from_python_neither(self, declare, every):
        with pytest.raises(UsageError, match="`every`: "):
            Project().plan(every=every)


class TestApply:
    @pytest.mark.parametrize("level", ["metadata", "data"])
    def test_nothing_due_starts_no_jvm(self, etc, declare, level):
        """Not for the rows, and not for the catalog, whose properties stay true."""
        declare(level=level)
        code, out, err = etc("apply", "--yes", "--at", NOON, "--every", "10m", "--output", "json")
        (table,) = json.loads(out)["tables"]
        assert (code, table["status"], table["sync"]) == (0, "nothing_due", None), err
        assert table["next_due_ms"] == epoch_ms("12:10:00")
        assert (table["threshold_ms"], table["verification"]["threshold_ms"]) == (epoch_ms("10:24:59.999"),) * 2

    def test_due_it_wants_one(self, etc, declare):
        code, _, err = etc("apply", "--yes", "--at", NOON, "--every", "15m")
        assert code == ExitCode.ENGINE
        assert "Spark was asked for" in err

    def test_beside_a_plan_it_is_refused(self, etc, declare):
        etc("plan", "--at", NOON, "--out", "p.json")
        code, _, err = etc("apply", "p.json", "--every", "10m")
        assert (code, "give it to `etc plan`" in err) == (ExitCode.USAGE, True)

    def test_in_words(self, etc, declare):
        _, out, _ = etc("apply", "--yes", "--at", NOON, "--every", "10m")
        assert "next due      2026-01-01 12:10:00 UTC  no run is needed before" in out


class TestWhatTheCatalogSaysIsTrue:
    """A run with nothing due leaves the catalog alone, unless what stands there does not hold any more."""

    @pytest.fixture
    def catalog(self, monkeypatch):
        found = Catalog(orders_ro={COMPLETE_UNTIL: str(epoch_ms("10:20:00")), STATUS: "verified"})
        monkeypatch.setattr(Environment, "property_store", lambda *_: found)
        return found

    def apply(self, etc):
        _, out, err = etc("apply", "--yes", "--at", NOON, "--every", "5m", "--output", "json")
        (table,) = json.loads(out)["tables"]
        assert table["status"] == "nothing_due", err
        return table

    def test_it_is_left_alone(self, etc, declare, catalog):
        assert (self.apply(etc)["sync"], catalog.writes) == (None, 0)

    def test_a_failed_verification_takes_the_promise_back(self, etc, declare, orders, catalog):
        """The log file holds an event of 10:10, its commit says 10:40."""
        declare(level="logs")
        ours = {COMMITTED: str(epoch_ms("09:00:00")), SEEN_UNTIL: at("08:00:05")}
        orders.compaction(at("10:00:00"), at("10:00:05"), base("f1"), extra=ours)
        content = log_file.avro([epoch_ms("10:40:00"), epoch_ms("10:10:00")], "long")
        commit_log(orders, at("11:00:00"), at("11:00:05"), epoch_ms("10:40:00"), content)
        table = self.apply(etc)
        assert (table["verification"]["status"], table["sync"]["status"]) == ("fail", "synced")
        found = catalog.tables["lake.orders_ro"]
        assert (found[STATUS], found.get(COMPLETE_UNTIL)) == ("failed", None)

    def test_so_does_what_another_verification_has_found_and_this_one_does_not_look_at(
        self, etc, declare, orders, catalog
    ):
        """As `etc verify` finds it, which tells the catalog nothing: nobody knows how far RO is complete."""
        declare(level="metadata")
        rows = Looked(level="data", until_ms=epoch_ms("10:00:00"))
        doubt = Unproven("", "its verification failed", "fail", rows)
        FileApplyStateStore().update(str(orders.base), lambda kept: replace(kept, unproven=(doubt,)))
        table = self.apply(etc)
        assert (table["verification"]["status"], table["sync"]["status"]) == ("warn", "synced")
        assert catalog.tables["lake.orders_ro"].get(COMPLETE_UNTIL) is None

    @pytest.mark.parametrize("every", [(), ("--every", "5m")])
    def test_so_does_a_refusal_that_makes_unknown_how_far_it_holds(self, etc, declare, orders, catalog, every):
        orders.commit(at("19:00:00"), at("19:00:05"), base("f2"))
        _, out, _ = etc("apply", "--yes", "--at", NOON, *every, "--output", "json")
        (table,) = json.loads(out)["tables"]
        assert (table["status"], table["sync"]["status"]) == ("refused", "synced")
        assert catalog.tables["lake.orders_ro"].get(COMPLETE_UNTIL) is None

    @pytest.mark.parametrize("is_paced", [True, False])
    def test_so_does_what_is_found_while_etc_run_has_nothing_to_do(
        self, etc, declare, orders, catalog, tmp_path, monkeypatch, is_paced
    ):
        """Of a table with nothing due nobody looked at what is kept beside it, neither asleep nor planned in each round."""
        policy = tmp_path / "policies" / "a.yml"
        policy.write_text(policy.read_text().replace("    freshness: {target: 2h}\n" * (not is_paced), ""))
        now_ms, said = epoch_ms("11:00:00"), []
        rows = Looked(level="data", until_ms=epoch_ms("10:00:00"))
        doubt = Unproven("", "its verification failed", "fail", rows)

        def waits(*_):
            nonlocal now_ms
            now_ms += 300_000
            said.append((COMPLETE_UNTIL in catalog.tables["lake.orders_ro"], catalog.writes))
            if len(said) == 2:
                FileApplyStateStore().update(str(orders.base), lambda kept: replace(kept, unproven=(doubt,)))

        monkeypatch.setattr("etc_policy.wiring.time.time_ns", lambda: now_ms * 1_000_000)
        monkeypatch.setattr("etc_policy.cli.run._wait", waits)
        etc("run", "--every", "5m", "--rounds", "5")
        assert [is_said for is_said, _ in said] == [True, True, False, False]
        assert said[2][1] == said[3][1] == said[1][1] + 1

    def test_so_does_an_event_that_came_late_for_it_where_nobody_compacts_it(
        self, etc, declare, orders, catalog, tmp_path
    ):
        declare("strategy: {granularity: log_file, partitions: [p]}")
        orders.compaction(at("11:00:00"), at("11:00:05"), base("f9"), extra={COMMITTED: str(epoch_ms("10:20:00"))})
        late = log("f2", min_event=epoch_ms("10:15:00"), partition="q")
        orders.commit(at("11:30:00"), at("11:30:05"), base("f2", partition="q"))
        orders.commit(at("11:40:00"), at("11:40:05"), late)
        assert self.apply(etc)["sync"]["status"] == "synced"
        assert catalog.tables["lake.orders_ro"][COMPLETE_UNTIL] == str(epoch_ms("10:15:00") - 1)


PACED = """version: 1
policies:
  - {name: orders_ro, table: /t, event_time_column: ts, data_latency: 1h, verify: {level: metadata},
     freshness: {target: 2h}}
"""


class TestInMemory:
    """Tables in memory: f1 holds 10:05 and 11:15, f2 11:15."""

    @pytest.fixture(autouse=True)
    def paced(self, outside):
        (outside.project_dir / "policies" / "a.yml").write_text(PACED)

    def test_how_long_a_run_took_is_kept_without_the_time_of_the_question(self, outside, monkeypatch):
        seconds, apply = [0.0], outside.apply
        monkeypatch.setattr("etc_policy.api.applying.time.monotonic", lambda: seconds[0])

        def passes(took, then):
            seconds[0] += took
            return then

        outside.apply = lambda *given: passes(5.0, apply)(*given)
        Project().apply(at=datetime(2026, 1, 1, 12, tzinfo=UTC), confirm=lambda _: passes(100.0, True))
        assert outside.apply_states["/t"].run_ms == 5_000

    def test_nothing_due_is_no_run_that_counts(self, etc, outside):
        code, out, _ = etc("apply", "--yes", "--at", "2026-01-01T11:10:00Z", "--every", "5m", "--output", "json")
        assert (code, json.loads(out)["tables"][0]["status"], outside.apply_states["/t"].run_ms) == (
            0,
            "nothing_due",
            None,
        )

    def test_a_saved_plan_keeps_its_interval(self, etc, outside):
        _, out, _ = etc("plan", "--at", NOON, "--every", "5m", "--out", "p.json", "--output", "json")
        assert json.loads(out)["tables"][0]["action"] == "compact"
        code, out, err = etc("apply", "p.json", "--at", NOON, "--output", "json")
        assert (code, json.loads(out)["tables"][0]["status"]) == (0, "compacted"), err
        assert json.loads(out)["tables"][0]["next_due_ms"] is not None

    def test_the_scheduler_of_the_page_comes_in_time_for_a_table_that_failed(self, outside):
        page = Path(__file__).parents[3] / "docs" / "how-to" / "just-in-time.md"
        (code,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
        folder = outside.project_dir / "warehouse" / "policies"
        folder.mkdir(parents=True)
        payments = "  - {name: payments_ro, table: /u, event_time_column: ts, data_latency: 1h}\n"
        (folder / "a.yml").write_text(PACED.replace("target: 2h", "target: 2d") + payments)
        slept = []

        def sleep(seconds):
            slept.append(seconds)
            if len(slept) >= 2:
                raise KeyboardInterrupt
            outside.lost.clear()

        def import_for_page(name, *given):
            # The clock of the page alone: whatever else sleeps in this process takes none of its turns.
            return SimpleNamespace(time=time.time, sleep=sleep) if name == "time" else __import__(name, *given)

        outside.lost.add("payments_ro")
        with pytest.raises(KeyboardInterrupt):
            exec(code, {"__builtins__": {**vars(builtins), "__import__": import_for_page}})
        assert 200 < slept[0] <= 300
        assert {one.mark for one in outside.tables.values()} != {None}

    def test_one_with_another_target_does_not_follow(self, etc, outside):
        from etc_policy.plan.model import Plan

        etc("plan", "--at", NOON, "--every", "5m", "--out", "p.json")
        content = json.loads((outside.project_dir / "p.json").read_text())
        content["tables"][0]["pace"]["target_ms"] += 60_000
        plan = Plan.model_validate(content)
        signed = plan.model_copy(update={"checksum": plan.computed_checksum})
        (outside.project_dir / "p.json").write_text(signed.model_dump_json())
        code, _, err = etc("apply", "p.json", "--at", NOON)
        assert (code, "its `pace` is" in err) == (ExitCode.RETRY, True)
