"""What a command found, as checks: a table that is not known is an error, never a pass."""

from html import unescape

import pytest

from etc_policy.errors import Issue, Where
from etc_policy.plan.explainer import explain_plan
from etc_policy.plan.model import make_plan
from etc_policy.report.checks import checks_of, github_annotations, junit_xml, markdown_summary, with_errors
from etc_policy.report.results import FreshnessReport, RunResults, SyncReport, TableFreshness
from etc_policy.verify.ports import ExpectationResult, Verification
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
    assert [(check.code, check.level) for check in checks] == [("apply", "pass"), ("sync", "error")]
    report = SyncReport(observed_at="2026-01-01T12:00:00.000Z", tables=(sync,))
    assert checks_of(report, PLACES) == checks[1:]


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


def test_equal_expectations_are_checks_with_names_of_their_own():
    twice = ExpectationResult(expectation="expect_event_times_within_bounds", status="pass")
    found = RUN.model_copy(
        update={"verification": Verification(level="data", status="pass", threshold_ms=1, expectations=(twice, twice))}
    )
    names = [check.code for check in checks_of(RunResults(tables=(found,)), PLACES)]
    assert names[1:3] == ["expect_event_times_within_bounds", "expect_event_times_within_bounds #2"]
