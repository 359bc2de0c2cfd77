"""Reports as the terminal shows them: see tests/golden/reports. `ETC_REWRITE_GOLDEN=1` rewrites them."""

import os
from pathlib import Path

import pytest

from etc_policy.report.report import render_freshness, render_results, render_sync, render_verifications
from etc_policy.report.results import (
    FreshnessReport,
    RunResults,
    SyncReport,
    TableFreshness,
    TableVerification,
    VerificationReport,
)
from etc_policy.report.sync import verdict_of
from etc_policy.report.views import AsOfRows, ViewRows, render_as_of, render_views
from etc_policy.run.results import SyncResult, TableResult, timed
from etc_policy.table.formats import format_time
from etc_policy.verify.ports import ExpectationResult, Verification

GOLDEN = Path(__file__).parents[2] / "golden" / "reports"
T = 1_767_265_200_000

WARNED = Verification(
    level="data",
    status="warn",
    threshold_ms=T,
    late_rows=2,
    expectations=(
        ExpectationResult(
            expectation="no_uncompacted_log_file_at_or_below_threshold",
            status="pass",
            observed={"log_files": 3, "late_log_files": 1, "examples": []},
        ),
        ExpectationResult(
            expectation="expect_ro_to_contain_rt_up_to",
            status="pass",
            observed={"rows_checked": 12_345, "missing_count": 0, "threshold_ms": T, "ok": True},
        ),
        ExpectationResult(
            expectation="expect_event_times_within_bounds", status="pass", observed={"rt_rows": 9, "none_after_ms": T}
        ),
        ExpectationResult(expectation="expect_freshness_within", status="warn", observed={"lag_ms": 5_400_000}),
    ),
)
FAILED = Verification(
    level="metadata",
    status="fail",
    threshold_ms=T,
    expectations=(ExpectationResult(expectation="expect_no_key_twice", status="fail", message="1 key exists twice"),),
)


PASSED = Verification(level="metadata", status="pass", threshold_ms=T)
#: What was refused, was stale or failed is not verified.
VERDICTS = {"compacted": WARNED, "resumed": PASSED, "already_applied": PASSED, "nothing_due": PASSED}


def result(measured=T + 1, **changes):
    status = changes.get("status", "compacted")
    known = {
        "policy": "orders_ro",
        "base_path": "lake/orders",
        "status": status,
        "resumed_instant": changes.get("instant") if status == "resumed" else None,
        "watermark_measured_ms": measured if status in VERDICTS else None,
        "verification": VERDICTS.get(status),
    }
    return TableResult(
        **{
            **timed(1_767_268_800_000, 1_767_268_808_765),
            "completed_at": "2026-01-01T12:00:09.000Z",
            **known,
            **changes,
        }
    )


RESULTS = RunResults(
    plan_id="p",
    tables=(
        result(
            instant="20260101110000001",
            threshold_ms=T,
            file_slices=1,
            log_files=2,
            bytes_written=34_000,
            run_seconds=8.765,
            watermark_predicted_ms=T + 1,
        ),
        result(
            measured=T - 1,
            policy="resumed_ro",
            status="resumed",
            instant="20260101110000001",
            threshold_ms=T,
            file_slices=3,
            log_files=1,
            run_seconds=8.765,
        ),
        result(
            policy="twice_ro",
            instant="20260101110000001",
            threshold_ms=T,
            watermark_predicted_ms=T + 1,
        ).model_copy(update={"resumed_instant": "20260101100000001"}),
        result(measured=None, policy="again_ro", status="already_applied", threshold_ms=T, watermark_predicted_ms=T),
        result(
            policy="idle_ro",
            status="nothing_due",
            threshold_ms=T,
            reason="no log file can hold an event at or below it",
        ),
        result(policy="busy_ro", status="refused", reason="a compaction is pending", hints=("finish it", "or wait")),
        result(policy="stale_ro", status="stale", reason="hoodie.properties changed"),
        result(policy="broken_ro", status="failed", reason="no space left"),
    ),
)
FRESHNESS = FreshnessReport(
    observed_at="2026-01-01T12:00:00.000Z",
    tables=(
        TableFreshness(
            policy="orders_ro",
            base_path="lake/orders",
            status="warn",
            complete_until_ms=T,
            lag_seconds=3_723.5,
            watermark_ms=T,
            threshold_ms=T - 1,
            held_back_by=".f1.log.1",
            last_commit_age_seconds=61.0,
            remaining_log_files=3,
            remaining_log_bytes=2_000_000,
            remaining_file_slices=1,
            unknown_log_files=1,
        ),
        TableFreshness(
            policy="untracked_ro",
            base_path="lake/u",
            status="pass",
            complete_until_ms=T,
            lag_seconds=1.0,
            watermark_ms=T,
            watermark_assumed=True,
            held_back_by=".f2.log.1",
            remaining_log_files=1,
            remaining_log_bytes=10,
            remaining_file_slices=1,
            unknown_log_files=0,
        ),
        TableFreshness(policy="new_ro", base_path="lake/new", status="unknown", reason="no commit yet"),
        TableFreshness(
            policy="past_ro",
            base_path="lake/p",
            status="pass",
            complete_until_ms=T,
            lag_seconds=0.0,
            last_commit_age_seconds=-5.0,
        ),
    ),
)
VERIFICATIONS = VerificationReport(
    observed_at="2026-01-01T12:00:00.000Z",
    tables=(
        TableVerification(policy="orders_ro", base_path="lake/orders", verification=WARNED),
        TableVerification(policy="bad_ro", base_path="lake/bad", verification=FAILED),
        TableVerification(
            policy="gone_ro",
            base_path="lake/gone",
            verification=Verification(level="data", status="error", threshold_ms=None),
        ),
    ),
)
AS_OF = {"log_file": AsOfRows(1_200, 1_210, 1_100, 35), "record": AsOfRows(1_200, 1_200, 1_200, 0)}
BEFORE = ViewRows(T, ro={"landed": 10}, rt={"landed": 1_200, "departed": 3}, missing_in_ro=1_193)
AFTER = ViewRows(T, ro={"landed": 1_200, "departed": 3}, rt={"landed": 1_200, "departed": 3}, missing_in_ro=0)
CHANGED = ViewRows(T, ro=AFTER.ro, rt={"landed": 1_201}, missing_in_ro=0)

TEXTS = {
    "results": render_results(RESULTS),
    "freshness": render_freshness(FRESHNESS),
    "verifications": render_verifications(VERIFICATIONS),
    "views": render_views(BEFORE, AFTER),
    "views_narrow": render_views(BEFORE, AFTER, 40),
    "views_changed": render_views(BEFORE, CHANGED),
    "views_as_of": render_as_of(AS_OF, 1_767_225_600_000),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text(name):
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("ETC_REWRITE_GOLDEN") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(TEXTS[name] + "\n", encoding="utf-8")
    assert TEXTS[name] + "\n" == path.read_text(encoding="utf-8")


def test_the_contract_of_a_result():
    table = RESULTS.model_dump(mode="json")["tables"][0]
    wanted = {"policy", "status", "instant", "threshold_ms", "started_at", "completed_at", "bytes_written"}
    assert wanted | {"bytes_written_estimate", "verification"} <= table.keys()
    assert {"level", "status", "late_rows", "expectations"} <= table["verification"].keys()
    assert table["seconds"] == 8.765


def test_of_many_tables_each_that_went_well_has_a_line_and_the_others_are_shown_whole():
    """Eleven tables took 190 lines of `pass`."""
    passed = Verification(level="data", status="pass", threshold_ms=T)
    good = [
        result(policy=f"t{n}", threshold_ms=T, instant="20260101110000001").model_copy(update={"verification": passed})
        for n in range(10)
    ]
    many = RunResults(plan_id="p", tables=(*good, result(policy="broken_ro", status="failed", reason="no space left")))
    lines = render_results(many, 200).splitlines()
    assert len(lines) == 10 + 1 + 2
    assert lines[0].startswith("t0  compacted  ")
    assert f"RO complete until {format_time(T)}" in lines[0]
    assert lines[-1] == "  result        failed: no space left"
    assert len(render_results(many, 200, long=True).splitlines()) > 50
    verified = VerificationReport(
        observed_at="2026-01-01T12:00:00.000Z",
        tables=(
            *(TableVerification(policy=f"t{n}", base_path="b", verification=passed) for n in range(10)),
            TableVerification(policy="bad_ro", base_path="lake/bad", verification=FAILED),
        ),
    )
    lines = render_verifications(verified, 200).splitlines()
    assert lines[9] == f"t9  PASS  up to {format_time(T)} (level: data)"
    assert lines[11] == "bad_ro  lake/bad"


@pytest.mark.parametrize(("compared_until_ms", "lacks"), [(T, True), (T + 1, False)])
def test_rows_that_ro_lacks_are_not_complete_though_the_suite_only_warns(compared_until_ms, lacks):
    """The report said how far RO is complete above the warning that rows are missing there."""
    found = ExpectationResult(
        expectation="expect_ro_to_contain_rt_up_to", status="warn", observed={"threshold_ms": compared_until_ms}
    )
    warned = Verification(level="data", status="warn", threshold_ms=T, expectations=(found,))
    table = result(threshold_ms=T, instant="20260101110000001").model_copy(update={"verification": warned})
    text = render_results(RunResults(plan_id="p", tables=(table,)))
    assert ("RO complete" in text) != lacks
    assert verdict_of(table).status == ("fail" if lacks else "warn")


def test_of_many_tables_those_that_failed_alike_have_a_line_each(monkeypatch):
    monkeypatch.setattr("etc_policy.report.report.MANY_TABLES", 2)
    tables = [
        SyncResult(policy=name, ro_table=f"lake.{name}", status="failed", message=why, error_code="ETC301")
        for name, why in (("a", "no Java"), ("b", "no Java"), ("c", "no such table"))
    ]
    said = render_sync(SyncReport(observed_at="2026-01-01T00:00:00Z", tables=tuple(tables)), 80, long=False)
    assert said.splitlines()[:2] == ["a  FAILED  lake.a: no Java", "b  FAILED  lake.b: no Java"]
    assert "c  lake.c\n  synced        FAILED on lake.c: no such table" in said
