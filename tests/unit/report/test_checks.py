"""What a command found, as checks: a table that is not known is an error, never a pass."""

from html import unescape

import pytest

from etc_policy.errors import Issue, Where
from etc_policy.plan.explainer import explain_plan
from etc_policy.plan.model import make_plan
from etc_policy.report.checks import checks_of, github_annotations, junit_xml, markdown_summary, with_errors
from etc_policy.report.history_text import verdict_line
from etc_policy.report.report import render_verifications
from etc_policy.report.results import (
    FreshnessReport,
    RunResults,
    SyncReport,
    TableFreshness,
    TableVerification,
    VerificationReport,
)
from etc_policy.table.formats import MANY_TABLES
from etc_policy.verify.ports import Coverage, ExpectationResult, UncheckedExpectation, Verification
from tests.unit.plan.states import PLAN
from tests.unit.report.test_metrics import RUN

PLACES = {"orders_ro": Where("policies/a.yml", 3, 5, "orders_ro")}


def told(checks):
    return [(check.subject, check.code, check.level, check.message) for check in checks]


@pytest.mark.parametrize(
    ("status", "strict", "found"),
    [
        ("pass", False, "pass"),
        ("warn", False, "warn"),
        ("warn", True, "fail"),
        ("error", False, "fail"),
        ("unknown", False, "error"),
        ("unknown", True, "error"),
        ("no_target", True, "no_target"),
    ],
)
def test_freshness(status, strict, found):
    table = TableFreshness(
        policy="orders_ro", base_path="/t", status=status, complete_until_ms=1_700_000_000_000, lag_seconds=5400
    )
    report = FreshnessReport(observed_at="2026-01-01T12:00:00.000Z", tables=(table,))
    (check,) = checks_of(report, PLACES, strict=strict)
    message = "RO is complete until 2023-11-14 22:13:20 UTC, 1h30m ago"
    assert (check.level, check.message, check.where) == (found, message, PLACES["orders_ro"])


def test_results_with_their_expectations():
    broken = ExpectationResult(expectation="expect_no_key_twice", status="error", message="gone")
    run = RUN.model_copy(
        update={"verification": Verification(level="data", status="error", threshold_ms=1, expectations=(broken,))}
    )
    refused = RUN.model_copy(
        update={
            "policy": "b",
            "status": "refused",
            "reason": "pending",
            "hints": ("wait",),
            "verification": None,
            "sync": None,
        }
    )
    checks = checks_of(RunResults(tables=(run, refused)), PLACES)
    assert told(checks) == [
        ("orders_ro", "apply", "pass", "compacted, threshold -"),
        ("orders_ro", "expect_no_key_twice", "error", "gone"),
        ("orders_ro", "sync", "pass", "synced: lake.orders_ro"),
        ("b", "apply", "error", "pending"),
    ]
    assert (checks[0].seconds, checks[3].hint, checks[3].where) == (7.5, "wait", None)


def test_a_sync_that_failed_is_an_error_beside_a_run_that_is_done():
    sync = RUN.sync.model_copy(update={"status": "failed", "message": "down"})
    checks = checks_of(RunResults(tables=(RUN.model_copy(update={"sync": sync}),)), PLACES)
    assert [(check.code, check.level) for check in checks] == [
        ("apply", "pass"), ("verification", "pass"), ("sync", "error"),
    ]  # fmt: skip
    report = SyncReport(observed_at="2026-01-01T12:00:00.000Z", tables=(sync,))
    assert checks_of(report, PLACES) == checks[2:]


@pytest.mark.parametrize("status", ["refused", "stale", "failed"])
def test_what_was_not_done_is_an_error(status):
    run = RUN.model_copy(update={"status": status, "verification": None, "sync": None})
    (check,) = checks_of(RunResults(tables=(run,)), PLACES)
    assert check.level == "error"


def test_plan():
    refused = PLAN.model_copy(update={"action": "refused", "reason": "pending", "hints": ("wait", "more")})
    checks = checks_of(make_plan("2026-01-01T12:00:00Z", (PLAN, refused)), PLACES)
    assert [(check.level, check.hint) for check in checks] == [("pass", None), ("error", "wait")]
    assert checks[0].message.startswith("compact ")


@pytest.mark.parametrize("action", ["compact", "nothing_due", "refused"])
def test_each_form_says_of_a_plan_what_its_text_says(action):
    idle = {} if action == "compact" else {"operations": (), "instant": None, "reason": "why", "hints": ("do this",)}
    table = PLAN.model_copy(
        update={"action": action, "policy_changes": ("data_latency: 1h -> 2h",), "warnings": ("look",), **idle}
    )
    plan = make_plan("2026-01-01T12:00:00Z", (table,))
    checks = checks_of(plan, PLACES)
    forms = [unescape(markdown_summary("etc plan", checks)), unescape(junit_xml("etc plan", checks).decode())]
    forms += [github_annotations(checks)] if action == "refused" else []
    text = [" ".join(line.split()) for line in explain_plan(plan, width=1000).splitlines()]
    for form in forms:
        for said in ("data_latency: 1h -> 2h", "look", *table.hints, "threshold T: 2026-01-01 11:00:00 UTC"):
            assert said in form
        values = (text[n].removeprefix("RO complete ") for n, line in enumerate(text) if line.startswith("until "))
        assert [value for value in values if f"RO complete: {value}" not in form] == []


def test_an_error_of_another_table_with_the_same_words_is_reported_too():
    checks = [Issue("plan", "gone", policy="a", error_code="ETC201"), Issue("plan", "gone", level="pass", policy="b")]
    issues = [Issue("ETC201", f"`{name}`: gone", Where("p.yml", 1, 1, name), "look") for name in "ab"]
    assert [(one.subject, one.code, one.hint) for one in with_errors(checks, issues)] == [
        ("a", "plan", "look"),
        ("b", "plan", None),
        ("b", "ETC201", "look"),
    ]


PART = Coverage(file_groups=30, file_groups_read=30, since_ms=1767222000000, where="region = 'eu'")


def test_a_verification_of_a_part_is_none_of_all():
    """Each form says how far it reaches, which rows it read, and what it did not check."""
    rows = ("expect_ro_to_contain_rt_up_to", "expect_no_key_twice", "expect_no_key_twice")
    passed = tuple(ExpectationResult(expectation=name, status="pass") for name in rows[:1])
    found = Verification(
        level="data", status="warn", threshold_ms=1767225600000, late_rows=7, coverage=PART, expectations=passed,
        unchecked=tuple(UncheckedExpectation(expectation=name) for name in rows[1:]),
    )  # fmt: skip
    table = TableVerification(policy="orders_ro", base_path="/t", verification=found)
    report = VerificationReport(observed_at="2026-01-01T12:00:00.000Z", tables=(table,))
    checks = checks_of(report, PLACES, strict=True)
    part = "rows read: event times after 2025-12-31 23:00:00 UTC, partitions where region = 'eu'; nothing is proved of other rows"
    why = "needs rows, and none were read"
    assert told(checks) == [
        ("orders_ro", "verification", "pass", f"WARN up to 2026-01-01 00:00:00 UTC (level: data, 7 late rows); {part}"),
        ("orders_ro", rows[0], "pass", ""),
        ("orders_ro", rows[1], "skipped", why),
        ("orders_ro", f"{rows[1]} #2", "skipped", why),
    ]
    assert f'<skipped message="not checked: {why}"/>' in junit_xml("etc verify", checks).decode()
    assert "2 skipped, 2 pass" in markdown_summary("etc verify", checks)
    assert part in unescape(markdown_summary("etc verify", checks))
    assert verdict_line(found) == f"WARN  1 of 1 checks (level: data, 7 late rows); {part}"
    good = found.model_copy(update={"status": "pass"})
    many = tuple(TableVerification(policy=f"t{n}", base_path="/t", verification=good) for n in range(MANY_TABLES))
    line = render_verifications(report.model_copy(update={"tables": many}), 1000).splitlines()[0]
    assert line.endswith(f"(level: data, 7 late rows); {part}")


def test_equal_expectations_are_checks_with_names_of_their_own():
    twice = ExpectationResult(expectation="expect_event_times_within_bounds", status="pass")
    found = RUN.model_copy(
        update={"verification": Verification(level="data", status="pass", threshold_ms=1, expectations=(twice, twice))}
    )
    names = [check.code for check in checks_of(RunResults(tables=(found,)), PLACES)]
    assert names[2:4] == ["expect_event_times_within_bounds", "expect_event_times_within_bounds #2"]
