"""What golden plans do not show: many slices, widths, names of guards, plans of tables that could not be read."""

from dataclasses import replace

import pytest

from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.explainer import explain_plan, list_plan
from etc_policy.plan.model import UNREAD_VERSION, Move, make_plan
from etc_policy.plan.plan_warnings import EXPOSED
from etc_policy.plan.skipped_slices import NAMED_SLICES
from etc_policy.policy.manifest import EventTime, Policy
from tests.unit.plan.plan_cases import epoch_ms, state_of

NOW = epoch_ms("12:00:00")
POLICY = Policy(name="orders_ro", table="/t", event_time=EventTime(column="ts"), data_latency_ms=3_600_000)


def due(number):
    return {
        "base": "08:00:00",
        "logs": {f"L{number}": f"11:30:{number:02} > 11:30:{number:02}, event 10:00:{number:02}"},
    }


def newer(number):
    return {
        "base": "08:00:00",
        "logs": {f"N{number}": f"11:31:{number:02} > 11:31:{number:02}, event 11:10:{number:02}"},
    }


def plan_of(**state):
    table = build_table_plan(POLICY, state_of("/t", state), now_ms=NOW, clock_ms=NOW)
    return make_plan("2026-01-01T12:00:00Z", (table,))


def many():
    slices = {f"p/due{number:02}": due(number) for number in range(30)}
    slices |= {f"p/new{number:02}": newer(number) for number in range(30)}
    return plan_of(slices={**slices, "p/only_base": {"base": "08:00:00"}})


def test_of_many_slices_the_first_are_told_and_the_rest_is_counted():
    text = explain_plan(many(), explain=True)
    assert [f"due{number:02}" in text for number in range(30)] == [True] * 10 + [False] * 20
    assert "and 20 more file slices with 20 log files to merge." in text
    assert [f"new{number:02}" in text for number in range(30)] == [True] * NAMED_SLICES + [False] * 20
    assert "30 file slices with log files (30 log files, 293.0 KiB) without an event at or before T." in text
    assert "and 20 more file slices with later events." in text
    assert "1 file slice without log files: RO has all of its rows." in text


@pytest.mark.parametrize("width", [60, 80, 116])
def test_lines_fit_the_width(width):
    lines = explain_plan(many(), explain=True, width=width).splitlines()
    assert max(map(len, lines)) <= width
    assert explain_plan(many(), explain=True, width=width).split() == explain_plan(many(), explain=True).split()


def test_a_guard_that_is_not_known_speaks_for_itself():
    (table,) = many().tables
    move = Move(guard="of_later", before="1", after="2", why="what it says")
    table = table.model_copy(update={"moves": (move,)})
    assert "from 1 to 2 by the guard `of_later`. what it says." in explain_plan(make_plan("", (table,)), explain=True)


def test_an_unread_table_has_no_explanation():
    (table,) = many().tables
    unread = table.model_copy(update={"table_version": UNREAD_VERSION, "watermark_known": False, "action": "refused"})
    text = explain_plan(make_plan("", (unread,)), explain=True)
    assert "The table could not be read" in text
    assert "why T" not in text


def test_a_compaction_of_a_table_in_doubt_is_explained_without_a_word_of_completeness():
    (table,) = many().tables
    plan = make_plan("", (table.model_copy(update={"watermark_known": False}),))
    text = " ".join(explain_plan(plan, explain=True).split())
    assert "RO complete not known" in text
    assert "why T" in text
    for claim in ("held back", "moves on", "RO will hold every row"):
        assert (claim in text, claim in " ".join(explain_plan(many(), explain=True).split())) == (False, True)
    assert list_plan(plan).splitlines()[0].endswith("; how far RO is complete is not known")


def test_without_explain_nothing_of_it_is_said():
    text = explain_plan(many())
    assert "why T" not in text
    assert "read-optimized view" not in text


def test_a_refused_table_says_what_it_would_compact():
    plan = plan_of(slices={"p/f1": due(1), "p/f2": newer(2)}, instants=["11:40:00, clustering, requested"])
    (table,) = plan.tables
    assert [(group.reason, group.file_slices) for group in table.left_out] == [
        ("due_but_refused", 1),
        ("newer_than_threshold", 1),
    ]
    assert "because the table is refused" in explain_plan(plan, explain=True)


def test_slices_of_unknown_event_time_are_told_first():
    unknown = {"base": "08:00:00", "logs": {"U": "11:31:00 > 11:31:00"}}
    plan = plan_of(slices={"p/f1": due(1), "p/f2": unknown}, instants=["11:40:00, clustering, requested"])
    (group,) = plan.tables[0].left_out
    assert [one.file_id for one in group.nearest] == ["f2", "f1"]
    text = explain_plan(plan_of(slices={"p/f1": due(1), "p/f2": unknown}), explain=True)
    assert text.index("- p/f2") < text.index("- p/f1")


def test_a_watermark_that_is_assumed_says_how():
    unknown = {"base": "08:00:00", "logs": {"U": "11:31:00 > 11:31:00"}}
    text = explain_plan(plan_of(slices={"p/f1": unknown}, instants=["11:40:00, clustering, requested"]), explain=True)
    assert "its event times are not known" in " ".join(text.split())
    assert "2026-01-01 10:31:00 UTC" in text


def test_the_line_of_a_table_with_much_to_do_is_one():
    slices = {f"p/f{n}": due(n) for n in range(12)}
    table = plan_of(slices=slices).tables[0].model_copy(update={"policy": "customer_addresses_ro", "warnings": ()})
    line, *rest = list_plan(make_plan("", (table,))).splitlines()[:-2]
    assert (rest, "12 log files in 12 file slices" in line) == ([], True)


def test_many_tables_have_a_line_each():
    plans = [
        plan_of(slices={"p/f1": due(1)}),
        plan_of(slices={"p/f1": {"base": "08:00:00"}}),
        plan_of(slices={"p/f1": due(1)}, instants=["11:40:00, clustering, requested"]),
    ]
    tables = [plan.tables[0].model_copy(update={"policy": f"t{n}"}) for n, plan in enumerate(plans)]
    assert list_plan(make_plan("", tuple(tables)), 100).splitlines()[:-1] == [
        "t0  compact      1 log file in 1 file slice, 986.3 KiB; then RO until 2026-01-01 11:00:00 UTC",
        "t1  nothing due  RO complete until 2026-01-01 11:00:00 UTC",
        "t2  refused      (pending_service) a clustering at 20260101114000000 is pending (requested)",
        "",
    ]


def test_of_many_tables_each_warning_is_a_line_without_its_reasons():
    table = plan_of(slices={"p/f1": due(1)}).tables[0]
    warned = table.model_copy(
        update={"policy": "t1", "warnings": ("3 of 4 commits came late, by 1d: why; what to do", "two")}
    )
    lines = list_plan(make_plan("", (table, warned)), 100).splitlines()
    assert lines[2:-1] == ["", "t1  warning  3 of 4 commits came late, by 1d", "t1  warning  two", ""]


def test_a_refusal_by_an_error_begins_with_its_code():
    refused = {"action": "refused", "reason_code": "ETC237", "reason": "its commits lie in the future"}
    plan = make_plan("", (plan_of(slices={"p/f1": due(1)}).tables[0].model_copy(update=refused),))
    for text in (list_plan(plan), explain_plan(plan)):
        assert "(ETC237) its commits lie in the future" in text


@pytest.mark.parametrize(
    ("metadata_of_1_0", "release", "number"),
    [(True, "1.2.0", 1), (True, "1.2.0", 2), (False, "1.2.0", 1), (True, "1.0.2", 1)],
)
def test_a_compaction_that_keeps_hudi_rs_away_is_warned_of(metadata_of_1_0, release, number):
    slices = {"p/f1": due(1) if number == 1 else newer(1)}
    merging = "table version 8 of Hudi 1.0, EVENT_TIME_ORDERING, one ordering field"
    case = {"slices": slices, "release": release, "merging": merging, "version": 8}
    state = replace(state_of("/t", case), metadata_of_1_0=metadata_of_1_0)
    table = build_table_plan(POLICY, state, now_ms=NOW, clock_ms=NOW)
    is_warned = any("hudi-rs 0.5" in one for one in table.warnings)
    assert is_warned == (metadata_of_1_0 and release == "1.2.0" and number == 1)


def test_a_time_before_the_first_commit_is_warned_of_unless_a_table_is_replayed():
    early, slices = epoch_ms("06:00:00"), {"p/new": newer(1)}
    replayed = state_of("/t", {"slices": slices, "published": "03:00:00"})
    state = state_of("/t", {"slices": slices})
    found = [
        any("is before the table's first commit" in warning for warning in table.warnings)
        for table in (
            build_table_plan(POLICY, state, now_ms=early, clock_ms=NOW),
            build_table_plan(POLICY, state, now_ms=NOW, clock_ms=NOW),
            build_table_plan(POLICY, replayed, now_ms=early, clock_ms=NOW),
        )
    ]
    assert found == [True, False, False]


def test_slices_that_are_compacted_whatever_their_event_times_say_why():
    """None of them is said to hold events up to T."""
    (table,) = many().tables
    first, *others = table.operations
    whatever = first.model_copy(update={"due_log_files": 0, "oldest_event_ms": NOW})
    table = table.model_copy(update={"operations": (whatever, *others)})
    closing = table.model_copy(update={"policy_values": {"strategy.on_close": "true"}})
    exposed = table.model_copy(update={"warnings": (f"1 file slice {EXPOSED}, for example p/due00: ...",)})
    for one, why in (
        (closing, "RO lacks rows of a closed partition (`strategy.on_close`)"),
        (exposed, "a key could come to exist twice (see the warning)"),
    ):
        text = explain_plan(make_plan("", (one,)), explain=True, width=1000)
        assert "29 file slices hold log files that are due, with events at or before T:" in text
        assert f"1 file slice holds no log file that is due by T: {why}:" in text
        assert "merges 1 of 1 log file (9.8 KiB): the first event at 2026-01-01 12:00:00 UTC, after T." in text


def test_where_t_is_earlier_for_what_is_left_out_no_slice_is_said_to_hold_events_up_to_it():
    (table,) = many().tables
    left_out = table.left_out[0].model_copy(update={"reason": "due_but_in_other_partitions", "file_slices": 1})
    table = table.model_copy(update={"left_out": (left_out,), "left_out_though_due": 1})
    text = explain_plan(make_plan("", (table,)), explain=True, width=1000)
    assert "30 file slices hold log files that are due:" in text
    assert "1 file slice that is due (" in text
    assert "as soon as `strategy.partitions` takes their partitions too." in text


def test_in_doubt_no_row_is_said_to_be_in_ro():
    (table,) = many().tables
    text = explain_plan(make_plan("", (table.model_copy(update={"watermark_known": False}),)), explain=True)
    assert "1 file slice without log files.\n" in text
