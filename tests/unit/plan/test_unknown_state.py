"""A table of which nobody knows how far RO is complete: no plan says anything of it, and neither does freshness."""

from dataclasses import replace

import pytest

from etc_policy.errors.codes import Code
from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.explainer import explain_plan, list_plan
from etc_policy.plan.model import make_plan
from etc_policy.plan.rules import RULES, Damage, Moment
from etc_policy.policy.manifest import EventTime
from etc_policy.report.freshness import table_freshness
from etc_policy.table.completion_times import WrongTime
from etc_policy.table.history import TableHistory
from etc_policy.table.state import UnreadableTime
from etc_policy.table.zone_evidence import ZoneReading
from etc_policy.verify.evidence import Claim, Evidence
from etc_policy.verify.metadata_checks import check_files
from tests.unit.plan import states
from tests.unit.plan.plan_cases import epoch_ms, instant, state_of
from tests.unit.plan.states import NOW, STATE, with_instant, with_slice

POLICY = states.POLICY.model_copy(update={"event_time": EventTime(column="ts", unit="s")})
WRONG = WrongTime("table", instant("09:00:00"), instant("08:00:00"), "commit", False, NOW, None, "no file bears it")
UNKNOWN = {
    "files_missing": replace(STATE, missing_files=("p/.f2.log.1",)),
    "files_unclear": replace(STATE, unclear_files=("p/f1_0-1-0_1.parquet", "p/f1_0-2-0_1.parquet")),
    "hidden_by_savepoint": state_of(
        "/t",
        {
            "archived_before": "10:00:00",
            "savepoints": ["08:00:00 > 08:00:05"],
            "slices": {
                "p/f1": {"base": "08:00:00", "logs": {"L1": "08:30:00 > 08:30:05", "L2": "10:00:00 > 10:00:05"}}
            },
        },
    ),
    "files_damaged": with_slice(STATE, "f1", base_file_bytes=1),
    Code.UNREADABLE_TIMES: replace(STATE, unreadable_time=UnreadableTime("L1", "31/12/2025")),
    Code.WRONG_UNIT: state_of(
        "/t",
        {"slices": {"p/f1": {"base": "08:00:00", "logs": {"L1": "10:00:00 > 10:00:05, impossible 1767261300000000"}}}},
    ),
    "carried_files_lost": replace(STATE, uncarried=instant("09:00:00")),
    "wrong_time": replace(STATE, wrong_times=(WRONG,)),
    "writers_zone": replace(STATE, zone=ZoneReading("UTC", "contradicted", "its writers' clocks show another zone")),
    "clock_behind": with_instant(STATE, "13:00:00", "deltacommit", completed="13:00:01"),
    "table_version": replace(STATE, table_version=7),
}


def plan_of(state):
    return build_table_plan(POLICY, state, now_ms=NOW, clock_ms=NOW)


def test_all_damage_that_a_new_plan_can_meet_is_here():
    assert set(UNKNOWN) == {rule.code for rule in RULES if rule.damage and Moment.PLAN in rule.moments}


@pytest.mark.parametrize("code", UNKNOWN)
def test_nothing_is_said_of_completeness(code):
    table = plan_of(UNKNOWN[code])
    assert (table.action, table.reason_code, table.watermark_known) == ("refused", code, False)
    said = (table.watermark_before_ms, table.watermark_after_ms, table.watermark_assumed, table.held_back_by)
    assert (said, table.left_out) == ((None, None, False, None), ())
    text = explain_plan(make_plan("", (table,)), explain=True)
    assert "RO complete   not known" in text
    assert [word for word in ("until", "next event", "held back", "left alone", "RO has all") if word in text] == []
    assert table_freshness(POLICY, UNKNOWN[code], NOW, NOW).complete_until_ms is None


@pytest.mark.parametrize("code", [rule.code for rule in RULES if rule.damage == Damage.FILES])
def test_what_is_left_to_the_check_of_files_fails_it(code):
    """Else a verification would pass: it does not say that the table is unknown."""
    state = UNKNOWN[code]
    evidence = Evidence(POLICY, state, TableHistory(state.base_path, 9, "UTC"), Claim(0, ""), NOW, None)
    assert check_files(evidence).status == "fail"


@pytest.mark.parametrize("pending", [False, True])
def test_nor_of_a_table_without_a_completed_commit(pending):
    state = state_of("/t", {"slices": {}})
    table = plan_of(with_instant(state, "11:40:00", "deltacommit") if pending else state)
    assert (table.action, table.reason, table.watermark_known) == ("nothing_due", "no commit yet", False)
    assert "nothing due   no commit yet\n  RO complete   not known" in explain_plan(make_plan("", (table,)))
    assert "no commit yet; how far RO is complete is not known" in list_plan(make_plan("", (table,)))
    assert table_freshness(POLICY, state, NOW, NOW).complete_until_ms is None


@pytest.mark.parametrize("code", sorted(UNKNOWN.keys() - {"table_version"}))
def test_nor_where_something_is_pending_besides(code):
    """What is pending is the reason, as it has to end first; the other one is said too."""
    state = with_instant(UNKNOWN[code], "11:40:00", "clustering")
    table = plan_of(state)
    assert (table.reason_code, table.watermark_known, table.watermark_after_ms) == ("pending_service", False, None)
    assert table.warnings[0].startswith("how far RO is complete is not known: ")


def test_a_table_that_is_refused_for_what_is_pending_alone_is_known():
    table = plan_of(with_instant(STATE, "11:40:00", "clustering"))
    assert (table.action, table.watermark_known) == ("refused", True)
    assert table.watermark_after_ms == epoch_ms("10:05:00") - 1
