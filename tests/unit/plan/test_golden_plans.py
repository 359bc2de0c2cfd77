"""Tables in a few lines and the plan for each, as text: see tests/golden/plans. `ETC_REWRITE_GOLDEN=1` rewrites it."""

import json
import os
from pathlib import Path

import pytest

from etc_policy.plan.cut import GUARDS
from etc_policy.plan.explainer import explain_plan
from etc_policy.plan.refusals import BLOCKING_ACTIONS
from tests.unit.plan.plan_cases import plan_of_case, readable

CASES = Path(__file__).parents[2] / "golden" / "plans"
NAMES = sorted(folder.name for folder in CASES.iterdir())
#: Cases whose explanation is held word for word: of each kind of table one.
EXPLAINED = [case for case in NAMES if (CASES / case / "explain.txt").exists()]


@pytest.mark.parametrize("case", NAMES)
def test_plan(case):
    plan = plan_of_case(CASES / case)
    check(CASES / case / "plan.json", json.dumps(readable(plan), indent=2, ensure_ascii=False) + "\n")
    if case in EXPLAINED:
        check(CASES / case / "explain.txt", explain_plan(plan, explain=True) + "\n")


def explanation(plan):
    """On one line."""
    return " ".join(explain_plan(plan, explain=True).split())


def check(path, text):
    if os.environ.get("ETC_REWRITE_GOLDEN") == "1":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("case", NAMES)
def test_every_plan_can_be_explained(case):
    """With the threshold of each table, and the reason where it is refused; how that reads is held by a few cases."""
    plan = plan_of_case(CASES / case)
    text = explanation(plan)
    assert [table.policy for table in plan.tables if table.policy not in text] == []
    assert [table.reason for table in plan.tables if table.action == "refused" and table.reason not in text] == []


def test_every_guard_has_a_case():
    moves = {move.guard for case in NAMES for table in plan_of_case(CASES / case).tables for move in table.moves}
    assert {guard.name for guard in GUARDS} == moves, "a guard needs a case in tests/golden/plans in which it moves C"


def test_every_blocking_service_has_a_case():
    said = "".join(explanation(plan_of_case(CASES / case)) for case in NAMES)
    assert [name for name in BLOCKING_ACTIONS.values() if f"a {name} at" not in said] == []
