"""`etc sync` over tables of files and a catalog in memory that may not answer."""

import json
import re

import pytest

from etc_policy.api import syncing
from etc_policy.errors import RetryableError, TableError
from etc_policy.report.results import RunResults
from etc_policy.report.sync import COMPLETE_UNTIL, INSTANT, STATUS, THRESHOLD, VERIFIED_AT
from etc_policy.table.history import THRESHOLD as COMMITTED
from etc_policy.wiring import Environment
from tests.unit.hudi import log_file
from tests.unit.hudi.table_folder import TableFolder, at, base, log
from tests.unit.plan.plan_cases import epoch_ms
from tests.unit.report.test_metrics import RUN

NOON = "2026-01-01T12:00:00Z"
POLICIES = """version: 1
policies:
  - name: orders_ro
    table: lake/orders
    event_time_column: ts
    data_latency: 1h
    sync: {ro_table: lake.orders_ro}
  - {name: payments_ro, table: lake/payments, event_time_column: ts, data_latency: 1h}
"""
T = epoch_ms("10:00:00")


class Catalog:
    """A PropertyStore in memory; `failures` are raised by its next calls."""

    def __init__(self, **tables):
        self.tables = {f"lake.{name}": dict(properties) for name, properties in tables.items()}
        self.failures, self.writes, self.views = [], 0, {}

    def read(self, table):
        if self.failures:
            raise self.failures.pop(0)
        if table not in self.tables:
            raise TableError("ETC217", f"the catalog has no table `{table}`")
        return dict(self.tables[table])

    def write(self, table, changes):
        self.writes += 1
        properties = self.tables[table]
        for key in changes.remove:
            del properties[key]
        properties.update(changes.put)

    def write_view(self, view, table, condition):
        self.views[view] = condition and (table, condition)


@pytest.fixture
def catalog(tmp_path, monkeypatch):
    """A catalog with the RO table of a table that was compacted up to 10:00; the current folder is its project."""
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "a.yml").write_text(POLICIES)
    monkeypatch.chdir(tmp_path)
    orders = TableFolder(tmp_path / "lake" / "orders")
    orders.commit(at("08:00:00"), at("08:00:05"), base("f1"))
    orders.compaction(at("10:30:00"), at("10:30:05"), base("f1"), extra={COMMITTED: str(T)})
    orders.commit(at("11:00:00"), at("11:00:05"), log("f1", min_event=epoch_ms("10:45:00")))
    found = Catalog(orders_ro={})
    monkeypatch.setattr(Environment, "property_store", lambda *_: found)
    monkeypatch.setattr(syncing, "PAUSES_SECONDS", (0.0, 0.0))
    return found


def run(etc, *arguments):
    code, out, err = etc("sync", "--at", NOON, "--output", "json", *arguments)
    return code, json.loads(out)["tables"] if out else [], err


def away():
    return RetryableError("ETC409", "the catalog cannot be asked about `lake.orders_ro`", cause="connection refused")


def test_what_the_table_says(etc, catalog):
    code, (result,), _ = run(etc)
    assert (code, result["status"], result["attempts"]) == (0, "synced", 1)
    found = catalog.tables["lake.orders_ro"]
    assert result["properties"] == found
    assert (found[THRESHOLD], found[INSTANT], found[STATUS]) == (str(T), at("10:30:00"), "unverified")
    assert found[COMPLETE_UNTIL] == str(epoch_ms("10:45:00") - 1)


def test_again_writes_nothing(etc, catalog):
    run(etc)
    code, (result,), _ = run(etc)
    assert (code, result["status"], catalog.writes) == (0, "unchanged", 1)


def test_the_verdict_of_the_last_run_counts_for_its_own_compaction_alone(etc, catalog, tmp_path):
    (tmp_path / "target").mkdir()
    results = tmp_path / "target" / "run_results.json"
    here, elsewhere = str(tmp_path / "lake" / "orders"), "/other/orders"
    for instant, base_path, status in (
        (at("09:00:00"), here, "unverified"),
        (at("10:30:00"), elsewhere, "unverified"),
        (at("10:30:00"), here, "verified"),
    ):
        last = RUN.model_copy(update={"instant": instant, "base_path": base_path})
        results.write_text(RunResults(tables=(last,)).model_dump_json())
        run(etc)
        assert catalog.tables["lake.orders_ro"][STATUS] == status
    assert catalog.tables["lake.orders_ro"][VERIFIED_AT] == RUN.completed_at


def test_a_later_verification_counts_and_not_the_last_run_alone(etc, catalog, tmp_path):
    """The log file holds an event of 09:50, below the threshold; its commit says 10:45."""
    folder = tmp_path / "lake" / "orders"
    (written,) = (folder / "p").glob(".f1_*.log.*")
    content = log_file.avro([epoch_ms("10:45:00"), epoch_ms("09:50:00")], "long")
    (tmp_path / "target").mkdir()
    last = RUN.model_copy(update={"instant": at("10:30:00"), "base_path": str(folder)})
    (tmp_path / "target" / "run_results.json").write_text(RunResults(tables=(last,)).model_dump_json())
    run(etc)
    assert catalog.tables["lake.orders_ro"][STATUS] == "verified"
    written.write_bytes(content)
    assert etc("verify", "--select", "orders_ro", "--level", "logs", "--at", NOON)[0] != 0
    run(etc)
    failed = catalog.tables["lake.orders_ro"]
    assert (failed[STATUS], failed.get(VERIFIED_AT), failed.get(COMPLETE_UNTIL)) == ("failed", None, None)


@pytest.mark.parametrize(
    ("status", "ended"), [("failed", "error"), ("refused", "refused"), ("stale", "refused"), ("compacted", "done")]
)
def test_policies_are_selected_by_how_their_last_run_ended(etc, catalog, tmp_path, status, ended):
    (tmp_path / "target").mkdir()
    last = RUN.model_copy(update={"status": status, "base_path": str(tmp_path / "lake" / "orders")})
    (tmp_path / "target" / "run_results.json").write_text(RunResults(tables=(last,)).model_dump_json())
    found = {
        one: etc("ls", "--select", f"result:{one}", "--output", "names")[1] for one in ("error", "refused", "done")
    }
    assert [one for one, names in found.items() if names] == [ended]


def test_results_that_cannot_be_read_verify_nothing(etc, catalog, tmp_path):
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "run_results.json").write_text('{"schema_version": 99}')
    code, (result,), err = run(etc)
    assert (code, result["properties"][STATUS]) == (0, "unverified")
    assert err.startswith("warning[ETC343]: the results are of version 99")
    told = [json.loads(line) for line in run(etc, "--log-format", "json")[2].splitlines()]
    assert [(line["level"], line["code"]) for line in told if "code" in line] == [("warning", "ETC343")]
    assert "ETC343" not in run(etc, "--quiet")[2]


@pytest.mark.parametrize(("failures", "attempts"), [(1, 2), (2, 3)])
def test_a_catalog_that_answers_late(etc, catalog, failures, attempts):
    catalog.failures = [away() for _ in range(failures)]
    code, (result,), err = run(etc)
    assert (code, result["status"], result["attempts"]) == (0, "synced", attempts)
    assert err.count("trying again") == failures


def test_a_catalog_that_does_not_answer(etc, catalog):
    catalog.failures = [away() for _ in range(3)]
    code, (result,), err = run(etc)
    assert (code, result["status"], result["attempts"], result["properties"]) == (4, "failed", 3, None)
    assert "error[ETC409]: the catalog cannot be asked" in err
    assert "policies/a.yml:3:11 (policy `orders_ro`)" in err
    (hint,) = re.findall(r"run `etc (sync [^`]*)`", err)
    assert "cause: connection refused" in err
    assert catalog.tables == {"lake.orders_ro": {}}
    assert etc(*hint.split(), "--at", NOON)[0] == 0
    assert catalog.tables["lake.orders_ro"][COMPLETE_UNTIL]


def test_a_table_that_the_catalog_does_not_have_is_tried_once(etc, catalog):
    catalog.tables.clear()
    code, (result,), err = run(etc)
    assert (code, result["status"], result["attempts"]) == (1, "failed", 1)
    assert "trying again" not in err


def test_remove(etc, catalog):
    run(etc)
    catalog.tables["lake.orders_ro"]["etc.event_time.of_old"] = "1"
    assert run(etc, "--remove")[1][0]["status"] == "removed"
    assert catalog.tables == {"lake.orders_ro": {}}
    assert run(etc, "--remove")[1][0]["status"] == "unchanged"


def test_remove_needs_no_table_of_its_own(etc, catalog, tmp_path):
    import shutil

    run(etc)
    shutil.rmtree(tmp_path / "lake" / "orders")
    assert run(etc, "--remove")[0] == 0


def test_text(etc, catalog):
    code, out, _ = etc("sync", "--at", NOON)
    assert code == 0
    assert "properties set on lake.orders_ro" in out
    assert f"etc.event_time.threshold = {T}  (2026-01-01 10:00:00 UTC)" in out


def test_policies_without_an_ro_table(etc, catalog):
    code, _, err = run(etc, "--select", "payments_ro")
    assert code == 64
    assert "error[ETC606]" in err
