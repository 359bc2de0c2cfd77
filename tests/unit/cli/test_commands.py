"""`etc plan`, `freshness` and `verify --level metadata` on tables of files: what is printed, written and returned."""

import io
import json
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from etc_policy.plan.model import Plan
from etc_policy.table.history import PLAN_ID, SEEN_UNTIL, THRESHOLD
from etc_policy.wiring import clock_ms
from tests.unit.hudi.table_folder import COLUMNS, TableFolder, at, base, log
from tests.unit.plan.plan_cases import epoch_ms

NOON = "2026-01-01T12:00:00Z"
POLICIES = """version: 1
policies:
  - name: orders_ro
    table: lake/orders
    event_time_column: ts
    data_latency: 1h
    strategy: {granularity: log_file}
    freshness: {target: 2h, warn_after: 90m, error_after: 3h}
  - name: payments_ro
    table: lake/payments
    event_time_column: ts
    data_latency: 1h
    strategy: {granularity: log_file}
"""
PLAN_TABLE = {
    "policy",
    "base_path",
    "table_version",
    "granularity",
    "action",
    "reason",
    "threshold_ms",
    "instant",
    "watermark_before_ms",
    "watermark_after_ms",
    "unknown_log_files",
    "held_back_by",
    "operations",
}
OPERATION = {
    "partition",
    "file_id",
    "base_instant",
    "base_file",
    "log_files_compacted",
    "log_files_remaining",
    "bytes_read",
    "bytes_written_estimate",
}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project of two policies in the current folder; no table is there yet."""
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "a.yml").write_text(POLICIES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def orders(project):
    """Its base is of eight o'clock; L1 holds events from 10:30, L2 from 11:15."""
    table = TableFolder(project / "lake" / "orders")
    table.commit(at("08:00:00"), at("08:00:05"), base("f1"))
    table.commit(at("10:35:00"), at("10:35:05"), log("f1", epoch_ms("10:30:00"), columns=COLUMNS))
    table.commit(at("11:20:00"), at("11:20:05"), log("f1", epoch_ms("11:15:00"), columns=COLUMNS))
    return table


@pytest.fixture
def payments(project):
    """All of it lies above 11:00."""
    table = TableFolder(project / "lake" / "payments")
    table.commit(at("11:20:00"), at("11:20:05"), base("g1"), log("g2", epoch_ms("11:15:00"), columns=COLUMNS))
    return table


def at_noon(etc, command, *arguments):
    return etc(command, "--at", NOON, *arguments)


def compacted_up_to(table, threshold, log_event):
    """Adds a compaction by etc with a threshold, and a log file after it that the plan had seen."""
    extra = {THRESHOLD: str(epoch_ms(threshold)), PLAN_ID: "x", SEEN_UNTIL: at("11:40:05")}
    table.compaction(at("11:20:05.001"), at("11:45:00"), base("f1"), extra=extra)
    table.commit(at("11:40:00"), at("11:40:05"), log("f1", epoch_ms(log_event)))


class TestPlan:
    def test_in_words(self, etc, orders, payments):
        code, out, err = at_noon(etc, "plan")
        assert (code, err) == (0, "")
        assert out.startswith("orders_ro  ")
        assert "instant C     20260101103505001" in out
        assert "RO complete   until 2026-01-01 10:29:59.999 UTC  now" in out
        assert "until 2026-01-01 11:00:00 UTC  after" in out
        assert f"next event    2026-01-01 11:15:00 UTC, not in RO yet but in .f1_{at('11:20:00')}.log.1_0-1-0" in out
        assert "nothing due   no log file can hold an event" in out
        assert out.rstrip().endswith("1 to compact, 1 with nothing due, 0 refused.")

    def test_the_contract_of_its_json(self, etc, project, orders, payments):
        code, out, err = at_noon(etc, "plan", "--output", "json")
        plan = json.loads(out)
        assert (code, err) == (0, "")
        assert {"schema_version", "plan_id", "created_at", "tables"} <= plan.keys()
        first, second = plan["tables"]
        assert first.keys() >= PLAN_TABLE
        assert (first["action"], first["threshold_ms"]) == ("compact", epoch_ms("11:00:00"))
        (operation,) = first["operations"]
        assert operation.keys() >= OPERATION
        assert operation["log_files_compacted"] == [f".f1_{at('10:35:00')}.log.1_0-1-0"]
        assert operation["log_files_remaining"] == [f".f1_{at('11:20:00')}.log.1_0-1-0"]
        assert (operation["bytes_read"], operation["bytes_written_estimate"]) == (325, 100)
        assert (second["action"], second["instant"], second["operations"]) == ("nothing_due", None, [])
        assert (project / "target" / "plan.json").read_text() == out

    def test_of_many_tables_each_has_a_line_unless_more_is_asked_for(self, etc, orders, payments, monkeypatch):
        monkeypatch.setattr("etc_policy.cli.tables.MANY_TABLES", 2)
        brief, long, explained = (at_noon(etc, "plan", *more)[1] for more in ((), ("--long",), ("--explain",)))
        assert [line.split()[0] for line in brief.splitlines()[:2]] == ["orders_ro", "payments_ro"]
        assert "instant C" not in brief
        assert "`etc plan --long` shows the tables one by one" in brief
        assert "instant C" in long
        assert "why T" in explained

    def test_saved_to_a_file_besides(self, etc, project, orders):
        code, out, err = at_noon(etc, "plan", "--select", "orders_ro", "--out", "my.json", "--output", "json")
        assert (code, err) == (0, "Saved: etc apply my.json\n")
        saved = Plan.model_validate_json((project / "my.json").read_text())
        assert (saved.computed_checksum, json.loads(out)["plan_id"]) == (saved.checksum, saved.plan_id)

    def test_two_means_changes_when_asked_for(self, etc, orders, payments):
        assert at_noon(etc, "plan", "--detailed-exitcode")[0] == 2
        assert at_noon(etc, "plan", "--detailed-exitcode", "--select", "payments_ro")[0] == 0

    def test_explained(self, etc, orders):
        orders.metadata_table((at("10:35:05.001"), at("10:35:06")))
        _, plain, _ = at_noon(etc, "plan", "--select", "orders_ro")
        _, explained, _ = at_noon(etc, "plan", "--select", "orders_ro", "--explain")
        assert "why C" not in plain
        assert "moved         from 20260101103505001 to 20260101103505002 by the guard `free instant`." in explained
        assert "- p/f1\n                  merges 1 of 2 log files" in explained

    def test_the_time_may_be_epoch_milliseconds(self, etc, orders):
        _, by_name, _ = at_noon(etc, "plan", "--select", "orders_ro", "--output", "json")
        _, by_number, _ = etc("plan", "--at", str(epoch_ms("12:00:00")), "--select", "orders_ro", "--output", "json")
        assert json.loads(by_name)["tables"] == json.loads(by_number)["tables"]

    def test_nothing_is_touched(self, etc, orders, payments):
        def listing():
            return {p: p.stat().st_mtime_ns for p in orders.base.rglob("*")}

        before = listing()
        at_noon(etc, "plan")
        assert listing() == before

    def test_one_table_that_is_not_there_does_not_hide_the_other(self, etc, orders):
        code, out, err = at_noon(etc, "plan")
        assert code == 1
        assert "1 to compact, 0 with nothing due, 1 refused." in out
        assert err.startswith("error[ETC201]: `payments_ro` cannot be compacted now: there is no table")
        assert "  --> policies/a.yml:9:11 (policy `payments_ro`)" in err
        assert "hint: check `table` in the policy" in err

    def test_a_pending_compaction_is_for_a_retry(self, etc, orders, payments):
        orders.plan(at("11:30:00"), {})
        code, out, err = at_noon(etc, "plan")
        assert code == 4
        assert "refused       (pending_service) a compaction at 20260101113000000 is pending (requested)" in out
        assert "error[ETC405]" in err
        assert "`etc finish --select orders_ro`" in err

    def test_a_corrupt_commit(self, etc, orders):
        orders.commit(at("11:30:00"), at("11:30:05"), log("f1", 1)).write_bytes(b"Obj\x01")
        code, _, err = at_noon(etc, "plan", "--select", "orders_ro")
        assert code == 3
        assert "error[ETC208]" in err
        assert "Traceback" not in err

    def test_a_column_that_is_missing(self, etc, project, orders):
        policies = project / "policies" / "a.yml"
        policies.write_text(policies.read_text().replace("event_time_column: ts", "event_time_column: when", 1))
        code, _, err = at_noon(etc, "plan", "--select", "orders_ro")
        assert code == 1
        assert "error[ETC209]" in err
        assert "hint: its columns are id, p, ts" in err

    @pytest.mark.parametrize("command", ["plan", "freshness", "verify"])
    def test_nobody_knows_the_future(self, etc, orders, command):
        in_two_minutes = clock_ms() + 120_000
        code, out, err = etc(command, "--at", str(in_two_minutes))
        assert (code, out) == (64, "")
        assert f"`{in_two_minutes}` lies in the future" in err
        assert "lies in the future" in etc(command, "--at", "2999-01-01T00:00:00Z")[2]

    def test_a_clock_that_is_a_little_ahead_is_no_future(self, etc, orders):
        assert etc("freshness", "--select", "orders_ro", "--at", str(clock_ms() + 30_000))[0] == 1

    @pytest.mark.parametrize(
        "arguments", [("--at", "soon"), ("--at", "-"), ("--select", "order_ro"), ("--output", "xml"), ("--frob",)]
    )
    def test_usage(self, etc, orders, arguments):
        self.refused(etc, arguments)

    @pytest.mark.parametrize(
        "at", ["²", "٣", "0001-01-01", "0999-12-31", "9999-12-31", "9" * 20, "9" * 5000, "2013-01"]
    )
    @pytest.mark.parametrize("option", ["--at", "--until"])
    def test_a_time_that_is_none(self, etc, orders, at, option):
        command = ("plan",) if option == "--at" else ("wait", "orders_ro", "--timeout", "0s")
        code, out, err = etc(*command, option, at)
        assert (code, out) == (64, "")
        assert err.startswith("error[ETC001]")
        assert len(err) < 400

    @pytest.mark.parametrize("at", ["1000-01-01", "0"])
    def test_the_first_times(self, etc, orders, at):
        assert "ETC009" not in etc("freshness", "--at", at)[2] + etc("plan", "--at", at)[2]
        assert etc("wait", "orders_ro", "--until", "8999-12-31", "--timeout", "0s")[0] == 4

    def refused(self, etc, arguments):
        code, out, err = etc("plan", *arguments)
        assert (code, out) == (64, "")
        assert err.startswith("error[ETC00")


class TestFreshness:
    def test_in_words(self, etc, orders):
        code, out, err = at_noon(etc, "freshness", "--select", "orders_ro")
        assert (code, err) == (0, "")
        assert out.splitlines()[0] == f"WARN    orders_ro  {orders.base.relative_to(orders.base.parents[1])}"
        assert "  RO complete   until 2026-01-01 10:29:59.999 UTC, 1h30m ago" in out
        assert "  not compacted 2 log files (450 B) of 1 file slice" in out
        assert f"  next event    2026-01-01 10:30:00 UTC, not in RO yet but in .f1_{at('10:35:00')}.log.1_0-1-0" in out
        assert "  last commit   39m55s ago" in out

    def test_the_contract_of_its_json(self, etc, project, orders, payments):
        code, out, err = at_noon(etc, "freshness", "--output", "json")
        report = json.loads(out)
        assert (code, err, report["schema_version"]) == (0, "", 1)
        first, second = report["tables"]
        assert (first["policy"], first["status"], first["lag_seconds"]) == ("orders_ro", "warn", 5400.001)
        assert first["complete_until_ms"] == first["watermark_ms"] == epoch_ms("10:30:00") - 1
        assert (first["remaining_log_files"], first["remaining_log_bytes"], first["remaining_file_slices"]) == (
            2,
            450,
            1,
        )
        assert first["threshold_ms"] is None
        assert (second["policy"], second["status"], second["lag_seconds"]) == ("payments_ro", "no_target", 3600.0)
        assert (project / "target" / "freshness.json").read_text() == out

    @pytest.mark.parametrize(
        ("now", "status", "code"),
        [("11:59:59", "pass", 0), ("13:29:59", "warn", 0), ("13:30:00", "error", 1), ("18:00:00", "error", 1)],
    )
    def test_beyond_its_limit_it_fails(self, etc, orders, now, status, code):
        found, out, _ = etc("freshness", "--select", "orders_ro", "--at", f"2026-01-01T{now}Z", "--output", "json")
        assert (found, json.loads(out)["tables"][0]["status"]) == (code, status)

    def test_a_table_before_its_first_commit_is_unknown(self, etc, project):
        TableFolder(project / "lake" / "orders")
        code, out, err = at_noon(etc, "freshness", "--select", "orders_ro")
        assert (code, err) == (1, "")
        assert out.startswith("UNKNOWN orders_ro")
        assert "no commit yet" in out

    def test_one_table_that_is_not_there_does_not_hide_the_other(self, etc, orders):
        code, out, err = at_noon(etc, "freshness", "--output", "json")
        assert code == 1
        assert [table["status"] for table in json.loads(out)["tables"]] == ["warn", "unknown"]
        unread = json.loads(out)["tables"][1]
        assert {value for key, value in unread.items() if key.startswith(("remaining", "unknown"))} == {None}
        assert "error[ETC201]" in err
        assert "(policy `payments_ro`)" in err

    def test_the_threshold_of_the_last_compaction_is_told(self, etc, orders):
        compacted_up_to(orders, "11:10:00", "11:35:00")
        _, out, _ = at_noon(etc, "freshness", "--select", "orders_ro", "--output", "json")
        (table,) = json.loads(out)["tables"]
        assert (table["threshold_ms"], table["remaining_log_files"]) == (epoch_ms("11:10:00"), 1)


class TestVerify:
    def verify(self, etc, *arguments):
        return at_noon(etc, "verify", "--level", "metadata", "--select", "orders_ro", *arguments)

    def test_a_threshold_that_holds(self, etc, orders):
        compacted_up_to(orders, "11:10:00", "11:35:00")
        code, out, err = self.verify(etc)
        assert (code, err) == (0, "")
        assert "verified      PASS up to 2026-01-01 11:10:00 UTC (level: metadata)" in out

    def test_a_threshold_that_does_not(self, etc, orders):
        compacted_up_to(orders, "11:35:00", "11:35:00")
        code, out, err = self.verify(etc, "--output", "json")
        assert (code, err) == (1, "")
        report = json.loads(out)
        (table,) = report["tables"]
        assert (table["policy"], report["schema_version"]) == ("orders_ro", 1)
        verification = table["verification"]
        assert {"level", "status", "late_rows", "expectations"} <= verification.keys()
        assert (verification["level"], verification["status"]) == ("metadata", "fail")
        expectation, *others = verification["expectations"]
        assert [(other["expectation"], other["status"]) for other in others] == [
            ("files_are_what_their_commits_wrote", "pass"), ("no_double_keys_possible", "pass"),
            ("compaction_promises_what_it_planned", "pass"),
            ("expect_freshness_within", "pass"),
        ]  # fmt: skip
        assert expectation["observed"]["examples"] == [f".f1_{at('11:40:00')}.log.1_0-1-0"]

    def test_data_that_came_later_do_not_refute_it(self, etc, orders):
        compacted_up_to(orders, "11:10:00", "11:35:00")
        orders.commit(at("11:50:00"), at("11:50:05"), log("f1", epoch_ms("10:00:00")))
        code, out, _ = self.verify(etc, "--output", "json")
        expectation = json.loads(out)["tables"][0]["verification"]["expectations"][0]
        assert (code, expectation["observed"]["late_log_files"]) == (0, 1)

    def test_without_a_compaction_of_ours_the_watermark_is_held_to(self, etc, orders):
        code, out, _ = self.verify(etc, "--output", "json")
        assert (code, json.loads(out)["tables"][0]["verification"]["threshold_ms"]) == (0, epoch_ms("10:30:00") - 1)

    def test_a_table_that_is_not_there(self, etc, project):
        code, out, err = self.verify(etc, "--output", "json")
        (table,) = json.loads(out)["tables"]
        assert (code, table["policy"], table["base_path"]) == (1, "orders_ro", f"{project}/lake/orders")
        assert (table["verification"]["status"], table["verification"]["threshold_ms"]) == ("error", None)
        (check,) = table["verification"]["expectations"]
        assert (check["expectation"], check["status"]) == ("table_can_be_read", "error")
        assert check["message"].startswith("there is no table at `")
        assert "error[ETC201]" in err

    def test_each_check_that_needs_rows_is_said_not_to_be_made(self, etc, orders):
        said = " ".join(self.verify(etc)[1].partition("not checked")[2].split())
        assert "no row without an event time held back from RO, event times within bounds" in said
        found = json.loads(self.verify(etc, "--output", "json")[1])["tables"][0]["verification"]
        bounds = "expect_event_times_within_bounds"
        assert found["not_checked"].count(bounds) == 1
        assert [one["arguments"] for one in found["unchecked"] if one["expectation"] == bounds] == [[], ["latest_ms"]]

    def test_a_table_without_a_target_is_said_to_have_none(self, etc, orders, project, tmp_path):
        """The verdict is about rows up to T: that T is long ago passes nothing, and fails nothing."""
        assert "no target" not in self.verify(etc)[1]
        for path in (project / "policies").iterdir():
            path.write_text(re.sub("freshness: {.*}", "freshness: {}", path.read_text()))
        code, out, _ = self.verify(etc)
        said = " ".join(out.split())
        assert (code, "no target RO lags" in said, "`freshness.target` says how far it may" in said) == (0, True, True)
        report = tmp_path / "checks.xml"
        found = json.loads(self.verify(etc, "--output", "json", "--junit-xml", str(report))[1])["tables"][0]
        assert found["verification"]["unjudged_lag_ms"] > 0
        assert "no target: RO lags" in report.read_text()
        etc("docs", "generate")
        assert "No target: RO lags" in "".join(one.read_text() for one in project.rglob("target/**/*.html"))

    def test_a_table_before_its_first_commit_is_not_verified_up_to_anything(self, etc, project):
        TableFolder(project / "lake" / "payments")
        code, out, _ = at_noon(etc, "verify", "--select", "payments_ro", "--level", "metadata")
        assert (code, "verified      WARN (level: metadata)" in out, "up to 2" in out) == (0, True, False)
        assert "warn  how far RO is complete is known: no commit yet" in out
        (run,) = (project / "target" / "runs").iterdir()
        assert json.loads(run.read_text())["verifications"]["tables"][0]["verification"]["threshold_ms"] is None

    def test_its_freshness_is_not_within_limits_either(self, etc, project):
        TableFolder(project / "lake" / "orders")
        code, out, _ = self.verify(etc)
        assert (code, "warn  freshness within its limits: how far RO is complete is not known" in out) == (0, True)

    def test_nothing_of_it_is_kept_as_a_proof(self, etc, project):
        table = TableFolder(project / "lake" / "payments")
        verify = ("verify", "--level", "metadata", "--select", "payments_ro")
        proofs = []
        for commit in (None, at("08:00:00")):
            if commit:
                table.commit(commit, at("08:00:05"), base("f1"))
            at_noon(etc, *verify)
            found = at_noon(etc, "freshness", "--select", "payments_ro", "--output", "json")[1]
            proofs.append(len(json.loads(found)["tables"][0]["proofs"]))
        assert proofs == [0, 1]

    def test_a_table_of_another_version_is_not_verified(self, etc, project):
        TableFolder(project / "lake" / "orders", version=7).commit(at("08:00:00"), at("08:00:05"), base("f1"))
        code, out, _ = self.verify(etc)
        assert (code, "verified      ERROR (level: metadata)" in out) == (3, True)
        assert "error how far RO is complete is known: table version 7 is not supported" in out

    def test_one_that_is_not_there_is_in_the_text_the_run_file_and_junit_once(self, etc, project, orders):
        code, out, _ = etc("verify", "--level", "metadata", "--junit-xml", "j.xml", "--summary", "s.md")
        assert code == 1
        assert "payments_ro  lake/payments\n  verified      ERROR (level: metadata)\n" in out
        assert "error the table can be read: there is no table at" in out
        (run,) = (project / "target" / "runs").iterdir()
        assert [one["policy"] for one in json.loads(run.read_text())["verifications"]["tables"]] == [
            "orders_ro",
            "payments_ro",
        ]
        for file in ("j.xml", "s.md"):
            text = (project / file).read_text().replace("&#95;", "_")
            assert (text.count("table_can_be_read"), "ETC201" in text) == (1, False)


class TestWait:
    def wait(self, etc, *arguments, until="2020-01-01T00:00:00Z"):
        return etc("wait", *arguments, "--until", until, "--timeout", "0s", "--output", "json")

    def statuses(self, out):
        return [(table["policy"], table["complete_until_ms"] is not None) for table in json.loads(out)["tables"]]

    def test_when_the_time_runs_out_its_json_says_how_far_each_table_is(self, etc, orders):
        code, out, err = self.wait(etc, "orders_ro", until="2026-01-02T12:00:00Z")
        assert (code, self.statuses(out), "error[ETC410]" in err) == (4, [("orders_ro", True)], True)

    def test_where_the_wait_is_too_short_no_table_was_read(self, etc, orders):
        code, out, err = self.wait(etc, "orders_ro", until="2999-01-01T00:00:00Z")
        assert (code, self.statuses(out), "error[ETC411]" in err) == (4, [("orders_ro", False)], True)

    def test_a_table_that_is_not_there_is_unknown_with_the_reason(self, etc, orders):
        code, out, err = self.wait(etc, "orders_ro", "payments_ro")
        assert (code, self.statuses(out)) == (1, [("orders_ro", True), ("payments_ro", False)])
        assert "there is no table at" in json.loads(out)["tables"][1]["reason"]
        assert "error[ETC201]" in err

    def test_in_words_nothing_is_printed_then(self, etc, orders):
        assert etc("wait", "*_ro", "--until", "2020-01-01", "--timeout", "0s")[:2] == (1, "")

    def test_of_a_table_that_can_never_be_complete_it_ends_at_once(self, etc, project):
        TableFolder(project / "lake" / "orders", version=7).commit(at("08:00:00"), at("08:00:05"), base("f1"))
        code, _, err = etc("wait", "orders_ro", "--until", "2020-01-01", "--timeout", "30m")
        assert (code, "error[ETC413]: waiting does not help" in err) == (3, True)
        assert "hint: let a writer of Hudi 1.x upgrade it to version 8 or 9" in err
        code, out, _ = etc("debug", "--select", "orders_ro")
        assert (code, "table version 7 is not supported" in out) == (1, True)


@pytest.mark.parametrize("command", ["undo", "finish"])
def test_that_nothing_is_pending_is_said_only_of_tables_that_were_read(etc, project, orders, command):
    code, out, err = etc(command)
    assert (code, out) == (1, "")
    assert "error[ETC201]" in err
    code, out, err = etc(command, "--select", "orders_ro")
    assert (code, "pending" in out, err) == (0, True, "")


@pytest.mark.parametrize("command", ["undo", "finish"])
def test_on_a_terminal_it_is_asked_whether_tables_may_be_changed(etc, project, orders, monkeypatch, command):
    asked = []
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("etc_policy.cli.tables.ask", asked.append)
    code, out, err = etc(command, "-s", "orders_ro")
    assert (code, out, err) == (0, "", "Nothing was changed.\n")
    assert [question.endswith(" of orders_ro?") for question in asked] == [True]
    assert "pending" in etc(command, "-s", "orders_ro", "--yes")[1]


def test_finish_says_what_it_looked_for_where_a_rollback_is_pending(etc, project, orders):
    (project / "lake" / "orders" / ".hoodie" / "timeline" / f"{at('09:30:00')}.rollback.requested").touch()
    assert "a rollback at" in etc("plan", "--select", "orders_ro")[1]
    code, out, _ = etc("finish", "--select", "orders_ro")
    assert (code, out) == (0, "No compaction of another job is pending.\n")


@pytest.mark.parametrize("command", ["plan", "debug", "finish"])
@pytest.mark.parametrize(
    ("action", "words"),
    [
        ("clustering", "options => 'KEY=VALUE,...')`, with all options of its writers that begin with `hoodie.index.`"),
        ("logcompaction", "a writer of Hudi 1.0.2 or later with `hoodie.log.compaction.inline=true` does"),
    ],
)
def test_who_must_carry_out_what_goes_by_its_writers_choices(etc, project, orders, command, action, words):
    """No Spark is started, and nothing is touched."""
    orders.file(at("09:30:00"), f".{action}.requested")
    before = {path: path.stat().st_mtime_ns for path in (project / "lake").rglob("*")}
    code, out, err = etc(command, "--select", "orders_ro")
    assert code == {"plan": 4, "debug": 0, "finish": 3}[command]
    said = " ".join(f"{out}{err}".split())
    assert (words in said, "etc finish" in said) == (True, False), said
    if action == "clustering":
        assert f"CALL run_clustering(path => '{orders.base}', op => 'execute', instants => '{at('09:30:00')}'" in said
    assert {path: path.stat().st_mtime_ns for path in (project / "lake").rglob("*")} == before


@pytest.mark.parametrize(("command", "done"), [("undo", "withdrawn"), ("finish", "finished")])
def test_the_json_names_each_table_that_failed(etc, project, orders, command, done):
    code, out, _ = etc(command, "--output", "json")
    found = json.loads(out)
    assert (code, found[done], len(found["failed"])) == (1, [], 1)
    assert (found["failed"][0]["policy"], found["failed"][0]["reason_code"]) == ("payments_ro", "ETC201")
    assert "there is no table at" in found["failed"][0]["reason"]
    assert found["failed"][0]["hints"] == [
        "check `table` in the policy, and `table_root` of the target where it has one"
    ]
    assert json.loads(etc(command, "-s", "orders_ro", "--output", "json")[1])["failed"] == []


@pytest.mark.parametrize(
    ("writes", "said"),
    [
        (
            3,
            "cannot be judged yet: it takes 20 writes to log files; so far all 3 writes to log files came within 10m5s of their "
            "earliest event</small>",
        ),
        (20, "<small>all came within 10m5s</small>"),
    ],
)
def test_the_site_judges_a_latency_by_as_many_writes_as_freshness_does(etc, project, writes, said):
    table = TableFolder(project / "lake" / "orders")
    table.commit(at("08:00:00"), at("08:00:05"), base("f1"))
    for minute in range(20, 20 + writes):
        event = epoch_ms(f"09:{minute - 10}:00")
        table.commit(at(f"09:{minute}:00"), at(f"09:{minute}:05"), log("f1", min_event=event))
    assert etc("docs", "generate", "--select", "orders_ro", "--at", NOON)[0] == 0
    assert said in (project / "target" / "site" / "tables" / "orders_ro.html").read_text()
    judged = "cannot be judged" not in at_noon(etc, "freshness", "--select", "orders_ro")[1]
    assert judged == (writes == 20)


@pytest.mark.parametrize(("unit", "code", "said"), [("s", 1, "error[ETC237]"), ("us", 0, "warning"), ("ms", 0, "")])
def test_the_unit_is_held_against_a_base_file_where_no_log_file_is_left(etc, project, unit, code, said):
    import pyarrow.parquet

    times, buffer = [epoch_ms("07:00:00"), epoch_ms("07:30:00")], io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"id": [1, 2], "ts": times}), buffer)
    written = replace(base("f1"), size=len(buffer.getvalue()))
    table = TableFolder(project / "lake" / "orders")
    table.commit(at("08:00:00"), at("08:00:05"), written)
    (table.base / "p" / written.name(at("08:00:00"))).write_bytes(buffer.getvalue())
    file = project / "policies" / "a.yml"
    file.write_text(
        file.read_text().replace("event_time_column: ts", f"event_time_column: {{column: ts, unit: {unit}}}", 1)
    )
    found, out, err = etc("plan", "-s", "orders_ro", "--at", NOON)
    assert (found, said in out + err, "unit: ms" in out + err) == (code, True, unit != "ms"), out + err
    assert etc("plan", "-s", "orders_ro", "--at", NOON, "--metadata-only")[0] == 0


class TestWithoutJava:
    """What every table lacks is said once."""

    @pytest.fixture(autouse=True, params=["old", "gone"])
    def _no_java(self, request, tmp_path, monkeypatch, orders, payments):
        if request.param == "old":
            (tmp_path / "java" / "bin").mkdir(parents=True)
            (tmp_path / "java" / "bin" / "java").touch()
            (tmp_path / "java" / "release").write_text('JAVA_VERSION="1.7.0"\n')
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
        monkeypatch.setattr("etc_policy.report.report.MANY_TABLES", 2)

    def test_a_verification_has_a_line_a_table_with_what_is_proved_without_rows(self, etc):
        code, out, err = at_noon(etc, "verify", "--level", "data")
        assert (code, "starting Spark" in err) == (3, False)
        assert [line.split()[:2] for line in out.splitlines()[:2]] == [["orders_ro", "ERROR"], ["payments_ro", "ERROR"]]
        assert "; rows not read, without them " in out.splitlines()[0]
        said = " ".join(out.split())
        assert "no row of these 2 tables could be read error Java" in said.replace("JAVA", "Java")
        assert said.count("set JAVA_HOME to Java 17") == 1
        assert at_noon(etc, "verify", "--level", "data", "--long")[1].count("the rows can be read") == 2

    def test_a_run_has_a_line_a_table(self, etc):
        code, out, err = etc("apply", "--yes")
        assert (code, "starting Spark" in err) == (3, False)
        lines = [line.split()[:2] for line in out.splitlines() if not line.startswith(" ")]
        assert lines == [["orders_ro", "failed"], ["payments_ro", "failed"]]
        assert "error[ETC301]: Java" in err.replace("JAVA", "Java")
