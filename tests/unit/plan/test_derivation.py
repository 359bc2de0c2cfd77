"""A saved plan is made again from the table as it was seen: its text and its id are not believed."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.derivation import find_malformed, find_underived
from etc_policy.plan.model import TablePlan
from etc_policy.plan.rules import find_stale
from etc_policy.plan.skipped_slices import ContendedSlices
from etc_policy.policy.manifest import Strategy
from etc_policy.table.state import Instant
from tests.unit.plan.plan_cases import epoch_ms, inputs_of_case, instant, state_of
from tests.unit.plan.states import NOW, PLAN, POLICY, STATE, C, slice_of, with_instant, with_slice

MINUTE_MS = 60_000
CASES = sorted((Path(__file__).parents[2] / "golden" / "plans").iterdir())
#: Both file groups are due; f2 by a log file that completed last.
BOTH = state_of(
    "/t",
    {
        "slices": {
            "p/f1": {"base": "08:00:00", "logs": {"L1": "09:00:00 > 09:00:05, event 08:55:00"}},
            "p/f2": {"base": "08:00:00", "logs": {"L2": "10:50:00 > 10:50:05, event 10:45:00"}},
        }
    },
)
BOTH_PLAN = build_table_plan(POLICY, BOTH, now_ms=NOW, clock_ms=NOW)


def said(table, state=STATE, *, created_ms=NOW, policy=POLICY):
    return "; ".join(find_underived(policy, table, state, created_ms))


def changed(table=PLAN, **changes):
    return table.model_copy(update=changes)


def seen(table=PLAN, **changes):
    return changed(table, seen=table.seen.model_copy(update=changes))


def operation(**changes):
    return changed(operations=(PLAN.operations[0].model_copy(update=changes),))


class TestHonestPlans:
    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
    def test_every_golden_plan_follows_from_its_table(self, case):
        for policy, state, now_ms, clock_ms, pace in inputs_of_case(case):
            table = build_table_plan(policy, state, now_ms=now_ms, clock_ms=clock_ms, pace=pace)
            assert find_malformed(table) is None
            if table.action != "refused":
                assert said(table, state, created_ms=max(now_ms, clock_ms), policy=policy) == ""

    def test_as_of_an_earlier_time(self):
        for hours in range(1, 12):
            at = NOW - hours * 3_600_000
            assert said(build_table_plan(POLICY, STATE, now_ms=at, clock_ms=NOW)) == ""

    @pytest.mark.parametrize("logs", [{}, {"L2": "11:59:40 > 11:59:41, event 11:30:00"}])
    def test_one_that_was_made_while_a_write_beside_a_compaction_of_deletes_had_not_ended(self, logs):
        """Nobody knew then to which file group it would add: its keys were not exposed yet."""
        f1 = {"base": "08:00:00", "logs": {"L1": "09:00:00 > 09:00:05, event 08:55:00"}}
        compacted = {"instants": ["10:00:00 > 11:59:30, commit, f2"]}
        then = state_of("/t", {"slices": {"p/f1": f1, "p/f2": {"base": "10:00:00", "logs": logs}}, **compacted})
        then = with_instant(replace(then, living_writers=frozenset({instant("11:59:00")})), "11:59:00", "deltacommit")
        table = build_table_plan(POLICY, then, now_ms=NOW, clock_ms=NOW)
        assert [one.file_id for one in table.operations] == ["f1"]
        ended = {"base": "10:00:00", "logs": {**logs, "L9": "11:59:00 > 12:05:00, event 11:30:00"}}
        now = state_of("/t", {"slices": {"p/f1": f1, "p/f2": ended}, "exposed": ["p/f2"], **compacted})
        assert said(table, now) == ""

    def test_one_that_is_applied_much_later(self):
        """Log files, file groups and a compaction came in since, beside what is planned."""
        later = with_instant(STATE, "12:30:00", "deltacommit", completed="12:30:05")
        added = (
            slice_of(later, "f2")
            .log_files[0]
            ._replace(name="L8", requested=instant("12:30:00"), completed=instant("12:30:05"), min_event_time_ms=0)
        )
        later = with_slice(later, "f2", log_files=(*slice_of(later, "f2").log_files, added))
        new = replace(slice_of(later, "f2"), file_id="f9", base_instant=instant("12:30:00"))
        later = replace(later, slices=(*later.slices, new))
        assert said(PLAN, later) == ""

    def test_nothing_was_due_and_a_service_is_pending_since(self):
        idle = build_table_plan(POLICY, STATE, now_ms=epoch_ms("10:00:00"), clock_ms=NOW)
        assert idle.action == "nothing_due"
        assert said(idle, with_instant(STATE, "11:59:30", "clustering")) == ""

    def test_one_that_left_out_what_a_writer_in_flight_may_add_to(self):
        """The writer has completed since."""
        beside = with_instant(replace(BOTH, living_writers=frozenset({instant("10:00:00")})), "10:00:00", "deltacommit")
        table = build_table_plan(POLICY, beside, now_ms=NOW, clock_ms=NOW)
        assert ([one.file_id for one in table.operations], table.left_out_though_due) == (["f1"], 1)
        ended = with_instant(BOTH, "10:00:00", "deltacommit", completed="12:00:05")
        assert [said(table, state) for state in (beside, ended)] == ["", ""]
        nobody = seen(table, oldest_writer=None)
        assert "its `threshold_ms` is" in said(nobody, beside)
        assert "its `threshold_ms` is" in said(changed(table, threshold_ms=PLAN.threshold_ms), beside)

    def test_what_completes_within_the_tolerance_of_clocks_need_not_have_been_seen(self):
        late = with_instant(STATE, "11:59:00", "deltacommit", completed="11:59:01")
        assert said(PLAN, late) == ""
        soon = with_instant(STATE, "11:58:00", "deltacommit", completed="11:59:00")
        assert "a deltacommit at 20260101115800000 had completed before it was made" in said(PLAN, soon)


class TestWhatSomebodyChanged:
    @pytest.mark.parametrize(
        ("table", "words"),
        [
            (changed(threshold_ms=PLAN.threshold_ms + 1), "its `threshold_ms` is"),
            (changed(threshold_ms=253_402_300_799_000), "its `threshold_ms` is"),
            (changed(now_ms=NOW + 1, threshold_ms=PLAN.threshold_ms), "its `threshold_ms` is"),
            (changed(now_ms=None), "a time that had not come"),
            (changed(now_ms=0), "its `threshold_ms` is"),
            (changed(now_ms=NOW + 2 * MINUTE_MS), "a time that had not come"),
            (changed(data_latency_ms=0), "its `data_latency_ms` is 0"),
            (changed(instant=instant("11:20:05.001")), "its `instant` is"),
            (changed(table_version=6), "its `table_version` is 6"),
            (changed(granularity="file_slice"), "its `granularity` is file_slice"),
            (changed(policy_values={}), "its `policy_values` is {}"),
            (changed(action="nothing_due", operations=(), instant=None), "its `action` is nothing_due"),
            (changed(operations=()), "file group f1 in `p` is due, and not in it"),
            (changed(operations=PLAN.operations * 2), "compacts a file group twice"),
            (operation(partition="../../p"), "file group f1 in `../../p` does not follow"),
            (operation(file_id="f2"), "file group f2 in `p` does not follow"),
            (operation(base_file="../other.parquet"), "file group f1 in `p` does not follow"),
            (operation(log_files_compacted=()), "file group f1 in `p` does not follow"),
            (operation(log_files_remaining=()), "file group f1 in `p` does not follow"),
            (operation(bytes_read=1), "file group f1 in `p` does not follow"),
            (seen(last_completed=instant("10:10:05")), "its `seen.last_completed` is"),
            (seen(instants_completed=()), "had completed before it was made, and it had not seen it"),
            (seen(instants_completed=PLAN.seen.instants_completed[:-1]), "and it had not seen it"),
            (
                seen(instants_completed=(*PLAN.seen.instants_completed, "20260102000000000")),
                "it had seen an instant at",
            ),
        ],
    )
    def test_it_is_noticed(self, table, words):
        assert words in said(table)

    def test_a_value_without_end_is_not_shown_whole(self):
        assert len(said(changed(policy_values={"verify.level": "x" * 100_000}))) < 1_000

    def test_a_due_file_group_is_hidden_by_all_that_could_hide_it(self):
        """C, what was seen and what is done, all lowered together: the plan of an earlier time, with the T of a later one."""
        assert [one.file_id for one in BOTH_PLAN.operations] == ["f1", "f2"]
        last = instant("09:00:05")
        earlier = BOTH_PLAN.seen.model_copy(
            update={
                "last_completed": last,
                "instants_completed": tuple(i for i in BOTH_PLAN.seen.instants_completed if i < last),
            }
        )
        forged = changed(
            BOTH_PLAN, instant=instant("09:00:05.001"), operations=BOTH_PLAN.operations[:1], seen=earlier, moves=()
        )
        assert "a deltacommit at 20260101105000000 had completed before it was made" in said(forged, BOTH)
        backdated = said(forged, BOTH, created_ms=epoch_ms("10:00:00"))
        assert "a time that had not come" in backdated

    def test_the_plan_of_an_earlier_time_with_the_threshold_of_that_time_is_an_honest_one(self):
        at = epoch_ms("10:00:00")
        then = replace(
            BOTH,
            instants=tuple(i for i in BOTH.instants if i.requested < instant("10:00:00")),
            slices=tuple(
                replace(s, log_files=tuple(f for f in s.log_files if f.completed < instant("10:00:00")))
                for s in BOTH.slices
            ),
        )
        assert said(build_table_plan(POLICY, then, now_ms=at, clock_ms=at), BOTH, created_ms=at) == ""

    def test_a_table_that_could_not_have_been_planned(self):
        lost = replace(STATE, missing_files=("p/gone.parquet",))
        assert "the table could not have been planned: 1 missing data file" in said(PLAN, lost)

    def test_slices_that_are_left_out_are_never_saved(self):
        left_out = build_table_plan(
            POLICY, BOTH, now_ms=NOW, clock_ms=NOW, contended=ContendedSlices(frozenset({("p", "f1")}))
        )
        assert left_out.action == "compact"
        assert "its `left_out_though_due` is 1" in said(left_out, BOTH)


class TestVersion6:
    OLD = state_of(
        "/t", {"version": 6, "slices": {"p/f1": {"base": "08:00:00", "logs": {"L1": "08:00:00 > 08:00:00"}}}}
    )
    WHOLE = POLICY.model_copy(update={"strategy": Strategy(granularity="file_slice")})
    MADE = build_table_plan(WHOLE, OLD, now_ms=NOW, clock_ms=NOW + 5_000)

    def test_the_instant_is_when_it_was_made(self):
        assert said(self.MADE, self.OLD, created_ms=NOW + 6_000, policy=self.WHOLE) == ""

    def test_what_began_since_changes_nothing(self):
        state = with_instant(self.OLD, "12:00:30", "clean")
        assert find_stale(self.WHOLE, self.MADE, state) == ()
        assert said(self.MADE, state, created_ms=NOW + 6_000, policy=self.WHOLE) == ""

    @pytest.mark.parametrize("clock", ["12:00:07", "07:59:00"])
    def test_it_is_neither_later_nor_below_what_was_seen(self, clock):
        moved = changed(self.MADE, instant=instant(clock))
        assert said(moved, self.OLD, created_ms=NOW + 6_000, policy=self.WHOLE) != ""


class TestForms:
    @pytest.mark.parametrize(
        ("table", "name"),
        [
            (changed(instant=".../../pwn"), "instant"),
            (changed(instant="2026010110100500"), "instant"),
            (changed(instant="20261301101005000"), "instant"),
            (changed(instant=C + "\n"), "instant"),
            (changed(instant="٢٠٢٦٠١٠١١٠١٠٠٥٠٠٠"), "instant"),
            (changed(instant=None), "instant"),
            (changed(operations=()), "operations"),
            (changed(action="nothing_due"), "operations"),
            (changed(threshold_ms=10**18), "threshold_ms"),
            (changed(now_ms=-(10**18)), "now_ms"),
            (changed(watermark_after_ms=10**400), "watermark_after_ms"),
            (seen(last_completed="../x"), "seen.last_completed"),
            (seen(last_completed="99999999999999999"), "seen.last_completed"),
            (seen(instants_completed=("x",)), "seen.instants_completed"),
            (seen(oldest_writer="../x"), "seen.oldest_writer"),
            (seen(timezone="../../../etc/passwd"), "seen.timezone"),
            (seen(timezone="No/Where"), "seen.timezone"),
            (seen(timezone="\0"), "seen.timezone"),
        ],
    )
    def test_one_that_etc_does_not_write(self, table, name):
        assert find_malformed(table) == name

    def test_those_of_old_tables_are_fine(self):
        assert find_malformed(seen(last_completed="20200101000000", instants_completed=("20200101000000",))) is None


def test_a_write_in_flight_changes_nothing():
    pending = Instant(instant("11:59:59"), "deltacommit", "inflight")
    assert said(PLAN, replace(STATE, instants=(*STATE.instants, pending))) == ""


#: What a plan says for people: nothing is done by it, and nothing of it is committed.
FOR_PEOPLE = {
    *("reason", "reason_code", "policy_changes", "notes", "warnings", "hints", "moves", "instant_start", "left_out"),
    *("watermark_before_ms", "watermark_after_ms", "watermark_assumed", "watermark_known", "held_back_by"),
    *("unknown_log_files", "new_from", "latency_evidence", "later_rows", "release"),
}
#: What is held to the policy and the table elsewhere: `match_policies`, `require_same_table`, `find_stale`, `find_clock_refusal`.
ELSEWHERE = {"policy", "policy_fingerprint", "base_path", "seen.properties_fingerprint", "seen.timezone"}
#: A writer that began before C lowers T with what is left out, and a later one changes nothing.
HARMLESS = {"seen.oldest_writer"}
VALUES = [
    *(None, True, 0, -1, 10**18, 10**400, "", "x", "\ud800", "\0", "../../x", [], {}, [[]], "9" * 5_000),
    *("20260101000000000", "99999999999999999", "00010101000000000", "99991231235959999", "00000000000000"),
]


def places_of(value, path=()):
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places_of(item, (*path, key))


def with_value(content, path, value):
    """The content as JSON with another value at a place."""
    copy = json.loads(json.dumps(content))
    holder = copy
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return copy


PLAIN = PLAN.model_dump(mode="json")


@pytest.mark.parametrize("path", list(places_of(PLAIN)), ids=lambda path: ".".join(map(str, path)))
def test_no_value_that_decides_can_be_another(path):
    """Each value of a plan, replaced by each of many: it is no plan, or its form is wrong, or it does not follow."""
    name = ".".join(word for word in path if isinstance(word, str))
    believed = path[0] in FOR_PEOPLE or name in ELSEWHERE | HARMLESS
    for value in VALUES:
        try:
            table = TablePlan.model_validate(with_value(PLAIN, path, value))
        except ValidationError:
            continue
        if find_malformed(table) is None and table.action != "refused" and not said(table):
            assert believed or table == PLAN, value
