"""Each row of `RULES` has one case, `tests/golden/refusals/CODE.yml`: a table, and what is said of it.

A table is described as in `plan_cases`. `asked` says when, by default of a new plan: `verify` of the table alone, the others of
its plan, where `then` is what has changed on the table since, and `files_say` what its files say of the plan. `refused` is what
is said, as `ETC_REWRITE_GOLDEN=1` writes it.
"""

import os
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
import yaml

from etc_policy.api.planning import refusal_errors
from etc_policy.errors.codes import Code
from etc_policy.plan import rules
from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.model import make_plan
from etc_policy.plan.rules import Moment
from tests.unit.plan.plan_cases import inputs_of, readable_table, state_of

CASES = Path(__file__).parents[2] / "golden" / "refusals"
CODES = sorted(path.stem for path in CASES.iterdir())
#: What a plan says that is refused, where no case differs.
SAME = {"action": "refused", "threshold": "11:00:00.000"}


def read(code):
    return yaml.safe_load((CASES / f"{code}.yml").read_text("utf-8"))


def inputs_of_refusal(code):
    """The policy, the state and the clocks of a case."""
    return inputs_of(read(code))


def said(code):
    """What is said in a case, for its code alone; empty where nothing is."""
    case = read(code)
    policy, state, now_ms, clock_ms, pace = inputs_of(case)
    asked = case.get("asked", "plan")
    if asked == "verify":
        return _told(code, [rules.why_unknown(policy, state, clock_ms)])
    plan = build_table_plan(policy, state, now_ms=now_ms, clock_ms=clock_ms, pace=pace)
    if asked == "plan":
        return _said_of_plan(code, plan, policy)
    facts = rules.facts_of_plan(policy, plan, state_of(state.base_path, case | case.get("then", {})), clock_ms)
    facts = replace(facts, **{key: _frozen(value) for key, value in case.get("files_say", {}).items()})
    stops = rules.objections(Moment(asked), facts, spoils=False)
    return _told(code, [*stops, *rules.objections(Moment(asked), replace(facts, clock_ms=None), spoils=True)])


def _frozen(value):
    return tuple(value) if isinstance(value, list) else value


def _told(code, found):
    refusal = next((one for one in found if one is not None and one.code == code), None)
    return {} if refusal is None else _without_nothing(reason=refusal.reason, hint=refusal.hint)


def _said_of_plan(code, plan, policy):
    if plan.reason_code != code:
        return {}
    (error,) = refusal_errors(make_plan("", (plan,)), [policy])
    shown = readable_table(plan)
    assert shown.pop("reason_code") == code
    told = _without_nothing(reason=plan.reason, hint=error.hint, exit_code=int(error.exit_code))
    return {**told, **{key: value for key, value in shown.items() if SAME.get(key) != value and value is not None}}


def _without_nothing(**values):
    return {key: value for key, value in values.items() if value is not None}


def wrong(code):
    """What is said otherwise than in the case; None where nothing is. `tests.property.mutate` asks it too."""
    found, case = said(code), read(code)
    if found != case.get("refused"):
        return f"{code}: {found}"
    is_explained = case.get("asked", "plan") != "plan" or code in {*Code} or rules.explain_refusal(code) is not None
    return None if is_explained else f"{code}: `etc explain` does not know it"


def without_row(code):
    """The table of rules without one of them."""
    assert code in {rule.code for rule in rules.RULES}, code
    return patch.object(rules, "RULES", tuple(rule for rule in rules.RULES if rule.code != code))


def test_every_row_has_one_case_and_every_case_one_row():
    assert sorted(str(rule.code) for rule in rules.RULES) == CODES


@pytest.mark.parametrize("code", CODES)
def test_a_row_says_what_its_case_has(code):
    if os.environ.get("ETC_REWRITE_GOLDEN") == "1":
        path, told = CASES / f"{code}.yml", {"refused": said(code)}
        state = path.read_text("utf-8").split("refused:\n")[0]
        path.write_text(state + yaml.safe_dump(told, sort_keys=False, allow_unicode=True, width=120), "utf-8")
    assert wrong(code) is None


@pytest.mark.parametrize("code", CODES)
def test_without_its_row_a_case_fails(code):
    with without_row(code):
        assert wrong(code) is not None


@pytest.mark.parametrize("code", [rule.code for rule in rules.RULES if Moment.PLAN in rule.moments])
def test_a_plan_is_the_moment_of_what_is_asked_of_one(code):
    assert read(code).get("asked", "plan") == "plan"
