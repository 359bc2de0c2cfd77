"""A table of which nobody knows how far RO is complete: no plan says anything of it, and neither does freshness."""

import pytest

from etc_policy.api.verifying import gather_evidence
from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.explainer import explain_plan, list_plan
from etc_policy.plan.model import make_plan
from etc_policy.plan.rules import RULES, Damage, Moment
from etc_policy.report.freshness import table_freshness
from etc_policy.table.history import TableHistory
from etc_policy.verify.evidence import Claim
from etc_policy.verify.metadata_checks import check_files
from tests.unit.plan.plan_cases import epoch_ms, state_of
from tests.unit.plan.states import NOW, POLICY, STATE, with_instant
from tests.unit.plan.test_refusals import inputs_of_refusal

#: What no plan can say how complete it is: policy and state.
ORDER = [rule.code for rule in RULES]
UNKNOWN = {rule.code: inputs_of_refusal(rule.code)[:2] for rule in RULES if rule.damage and Moment.PLAN in rule.moments}


def plan_of(policy, state):
    return build_table_plan(policy, state, now_ms=NOW, clock_ms=NOW)


@pytest.mark.parametrize("code", UNKNOWN)
def test_nothing_is_said_of_completeness(code):
    policy, state = UNKNOWN[code]
    table = plan_of(policy, state)
    assert (table.action, table.reason_code, table.watermark_known) == ("refused", code, False)
    said = (table.watermark_before_ms, table.watermark_after_ms, table.watermark_assumed, table.held_back_by)
    assert (said, table.left_out) == ((None, None, False, None), ())
    text = explain_plan(make_plan("", (table,)), explain=True)
    assert "RO complete   not known" in text
    assert [word for word in ("until", "next event", "held back", "left alone", "RO has all") if word in text] == []
    assert table_freshness(policy, state, NOW, NOW).complete_until_ms is None


def fails(code):
    """Whether the check of files fails, and whether a verification says that the table is unknown."""
    policy, state, *_ = inputs_of_refusal(code)
    evidence = gather_evidence(policy, state, TableHistory(state.base_path, 9, "UTC"), Claim(0, ""), NOW)
    return check_files(evidence).status == "fail", evidence.unknown is not None


@pytest.mark.parametrize("code", [rule.code for rule in RULES if rule.damage == Damage.FILES])
def test_damaged_files_fail_a_verification_once(code):
    assert fails(code) in ((True, False), (False, True))


def test_damage_that_the_check_of_files_does_not_see_is_not_left_to_it(monkeypatch):
    monkeypatch.setattr("etc_policy.api.verifying.damage_of", lambda _: Damage.FILES)
    assert fails("hidden_by_savepoint") == (False, True)


@pytest.mark.parametrize("pending", [False, True])
def test_nor_of_a_table_without_a_completed_commit(pending):
    state = state_of("/t", {"slices": {}})
    table = plan_of(POLICY, with_instant(state, "11:40:00", "deltacommit") if pending else state)
    assert (table.action, table.reason, table.watermark_known) == ("nothing_due", "no commit yet", False)
    assert "nothing due   no commit yet\n  RO complete   not known" in explain_plan(make_plan("", (table,)))
    assert "no commit yet; how far RO is complete is not known" in list_plan(make_plan("", (table,)))
    assert table_freshness(POLICY, state, NOW, NOW).complete_until_ms is None


@pytest.mark.parametrize("code", [code for code in UNKNOWN if ORDER.index(code) > ORDER.index("pending_service")])
def test_nor_where_something_is_pending_besides(code):
    """What is pending is the reason, as it has to end first; the other one is said too."""
    policy, state = UNKNOWN[code]
    table = plan_of(policy, with_instant(state, "11:40:00", "clustering"))
    assert (table.reason_code, table.watermark_known, table.watermark_after_ms) == ("pending_service", False, None)
    assert table.warnings[0].startswith("how far RO is complete is not known: ")


def test_a_table_that_is_refused_for_what_is_pending_alone_is_known():
    table = plan_of(POLICY, with_instant(STATE, "11:40:00", "clustering"))
    assert (table.action, table.watermark_known) == ("refused", True)
    assert table.watermark_after_ms == epoch_ms("10:05:00") - 1
