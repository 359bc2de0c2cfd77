"""What `etc import` writes of a table: golden cases of facts, and that every file parses, whatever names a table has."""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from etc_policy.hudi.discovery import Range
from etc_policy.policy.files import MARK
from etc_policy.policy.manifest import Policy
from etc_policy.policy.reading import read_project
from etc_policy.policy.resolve import check_project, compile_project
from etc_policy.table.history import Commit, GroupWrite, TableHistory
from etc_policy.table.instants import add_ms
from etc_policy.verify.diagnosis import TableFacts
from etc_policy.verify.proposal import (
    Survey,
    find_drift,
    proposed_lines,
    readable_times,
    render_proposal,
    said_doubts,
    time_columns,
    why_skipped,
)
from tests.unit.plan.plan_cases import epoch_ms
from tests.unit.plan.states import STATE

FILES = Path(__file__).parents[2] / "golden" / "imports"
NOON = epoch_ms("12:00:00")
MS = 1_767_225_600_000  # 2026-01-01
PROPERTIES = {"hoodie.table.version": "9", "hoodie.table.ordering.fields": "ts", "hoodie.table.recordkey.fields": "id"}
POLICY = Policy.model_validate(
    {"name": "orders", "table": "/lake/orders", "event_time": {"column": "ts"}, "data_latency_ms": 3_600_000}
)


def write(number, late_ms, **rest):
    completed = add_ms("20260101080000000", number * 60_000)
    event_ms = epoch_ms("08:00:00") + number * 60_000 - late_ms
    group = GroupWrite(completed, completed, "p", "f", event_ms, certain=True, rows=1)
    return Commit(completed, completed, "deltacommit", "UPSERT", (group,), **rest)


def history(*commits):
    return TableHistory("/lake/orders", 9, "UTC", commits, complete=True)


OFTEN = history(*(write(number, 1_000 * number) for number in range(1, 31)))


def survey(columns, ranges=None, past=None, properties=None, state=STATE, policy=POLICY, **rest):
    facts = TableFacts(policy, state, past or history(), {**PROPERTIES, **(properties or {})}, NOON)
    return Survey("lake/orders", facts, columns, ranges or {}, NOON, **rest)


def lines(found):
    return {line.key: line for line in proposed_lines(found)}


LONG = {"ts": Range(MS, MS + 3_600_000)}
BUCKETS = replace(STATE, slices=tuple(replace(one, file_id="00000001-a") for one in STATE.slices))
MERGED = Commit("20260101090000000", "20260101090005000", "commit", "COMPACT", ())
GOLDEN = {
    "all_is_known": survey({"id": "long", "ts": "long"}, LONG, OFTEN, ro_table="lake.orders_ro", state=BUCKETS),
    "nothing_is_known": survey({"created_at": "timestamp-micros", "updated_at": "timestamp-micros"}),
    "writers_compact": survey({"ts": "long"}, LONG, history(*OFTEN.commits, MERGED)),
    "table_version_6": survey({"ts": "long"}, LONG, state=replace(STATE, table_version=6)),
}


@pytest.mark.parametrize("case", GOLDEN)
def test_the_file_of_a_table(case):
    """`ETC_REWRITE_GOLDEN=1` rewrites them."""
    path, text = FILES / f"{case}.yml", render_proposal(GOLDEN[case])
    if os.environ.get("ETC_REWRITE_GOLDEN") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("columns", "ranges", "value", "asks"),
    [
        ({"ts": "long"}, LONG, "{column: ts, unit: ms}", False),
        ({"ts": "long"}, {}, "ts", False),
        ({"ts": "long"}, {"ts": Range(MS // 1000, MS // 1000 + 9)}, "{column: ts, unit: s}", False),
        ({"event_time": "timestamp-micros", "received_at": "timestamp-micros"}, {}, "event_time", False),
        ({"event_time": "timestamp-micros", "updated_at": "timestamp-micros"}, {}, "updated_at", True),
        ({"ts": "long", "created_at": "timestamp-millis"}, {}, "ts", True),
        ({"updated_at": "timestamp-millis"}, {}, "updated_at", True),
        ({"event_time": "string"}, {}, "event_time", True),
        ({"event_time": "string"}, {"event_time": Range("2026-01-01", "2026-01-01 09:00:00")}, "event_time", False),
        (
            *({"event_time": "string"}, {"event_time": Range("01/02/2025", "12/31/2025")}),
            *("{column: event_time, format: MM/dd/yyyy}", True),
        ),
        (
            *({"event_time": "string"}, {"event_time": Range("20251231 235959", "20260101 090000")}),
            *('{column: event_time, format: "yyyyMMdd HHmmss"}', True),
        ),
        ({"event_time": "string"}, {"event_time": Range("noon", "soon")}, "event_time", True),
        ({"eventTs": "long", "due_at": "timestamp-millis"}, {}, "eventTs", False),
        ({"e.placed_at": "timestamp-millis"}, {}, "e.placed_at", False),
    ],
)
def test_the_column_is_taken_where_the_table_shows_it_and_asked_for_elsewhere(columns, ranges, value, asks):
    line = lines(survey(columns, ranges))["event_time_column"]
    assert (line.value, line.asks) == (value, asks)


@pytest.mark.parametrize(
    ("columns", "ranges", "skips"),
    [
        ({"ts": "long"}, {"ts": Range(1, 9)}, True),
        ({"version": "long"}, {"version": Range(1, 9)}, True),
        ({"birth_date": "date"}, {}, True),
        ({"birth_date": "date", "version": "long"}, {"version": Range(1, 9)}, True),
        ({"placed_at": "timestamp-millis"}, {"placed_at": Range(MS, MS * 2)}, True),
        ({"version": "long"}, {}, False),
        ({"ts": "long", "birth_date": "date"}, LONG, False),
        ({"event_time": "string"}, {"event_time": Range("noon", "soon")}, False),
        ({"updated_at": "timestamp-millis", "due_at": "timestamp-millis"}, {}, False),
    ],
)
def test_where_no_column_moves_with_the_writes_the_table_is_skipped(columns, ranges, skips):
    """Then nothing is asked; once a column is said that is."""
    found = survey(
        columns, ranges, history(*OFTEN.commits, MERGED), properties={"hoodie.table.ordering.fields": "version"}
    )
    asked = [line.key for line in proposed_lines(found) if line.asks]
    assert (asked == [], "enabled" in lines(found), why_skipped(found) is not None) == (skips,) * 3
    named = replace(found, given={"event_time_column": "x"})
    assert "enabled" not in lines(named)
    assert lines(named)["writer.compaction"].asks
    left = replace(found, given={"enabled": False})
    assert ([line.key for line in proposed_lines(left) if line.asks], why_skipped(left)) == ([], None)


SECOND, HOUR, DAY = 1_000, 3_600_000, 86_400_000


@pytest.mark.parametrize(("kind", "lags", "asks"), [("long", 3, False), ("string", 3, False), ("long", 0, True)])
def test_where_no_base_file_was_read_log_files_show_that_a_column_moves(kind, lags, asks):
    """Texts of ISO 8601 and numbers by their digits: others have no lags."""
    found = survey(
        {"upd_ts": kind}, properties={"hoodie.table.ordering.fields": "id"}, lags={"upd_ts": (SECOND,) * lags}
    )
    line = lines(found)["event_time_column"]
    assert (line.value, line.asks) == ("upd_ts", asks)
    assert [one.column for one in readable_times(found)] == ["upd_ts"]


def test_days_of_decades_are_no_figures():
    lags = {"born": (20_000 * DAY,) * 2 + (27_696 * DAY,), "updated_at": (SECOND,) * 3}
    found = survey(dict.fromkeys(lags, "timestamp-micros"), lags=lags)
    reason = lines(found)["event_time_column"].reason
    assert "born (timestamp-micros): all 3 commits came years after their earliest event" in reason
    assert "27696d" not in reason and "27,696d" not in reason


@pytest.mark.parametrize(
    ("columns", "ordering", "lags", "value", "asks"),
    [
        (("placed_at", "updated_at"), "updated_at", {}, "updated_at", True),
        (("placed_at", "updated_at"), "updated_at", {"placed_at": DAY, "updated_at": SECOND}, "updated_at", False),
        (("placed_at", "updated_at"), "id", {"placed_at": DAY, "updated_at": SECOND}, "updated_at", True),
        (("placed_at", "updated_at"), "updated_at", {"placed_at": 20 * SECOND, "updated_at": 1}, "placed_at", False),
        (("placed_at", "updated_at"), "updated_at", {"placed_at": (1, 1), "updated_at": (1, 1)}, "updated_at", True),
        (("updated_at",), "updated_at", {"updated_at": 20 * SECOND}, "updated_at", False),
        (("updated_at",), "updated_at", {"updated_at": DAY}, "updated_at", True),
        (("started_at", "ended_at"), "ended_at", {"started_at": DAY, "ended_at": SECOND}, "ended_at", False),
        (("started_at", "ended_at"), "ended_at", {}, "ended_at", True),
        (("birth_date", "updated_at"), "updated_at", {"birth_date": 999 * DAY, "updated_at": 1}, "updated_at", False),
        (("version", "updated_at"), "version", {"version": SECOND, "updated_at": SECOND}, "updated_at", False),
        (("version",), "version", {"version": SECOND}, "version", False),
        (("version",), "version", {}, "version", True),
        (("event_time", "ingested_at"), "ingested_at", {"event_time": 2 * HOUR, "ingested_at": 1}, "event_time", False),
        (("ingested_at",), "ingested_at", {"ingested_at": 1}, "ingested_at", True),
        (("placed_at",), "id", {"placed_at": 2 * HOUR}, "placed_at", False),
        (("placed_at",), "id", {"placed_at": 2 * DAY}, "placed_at", True),
        (("updated_at",), "id", {"updated_at": 20 * SECOND}, "updated_at", False),
        (("updated_at",), "id", {"updated_at": 20 * HOUR}, "updated_at", False),
        (("updated_at",), "updated_at", {"updated_at": 2 * HOUR}, "updated_at", False),
        (("updated_at",), "id", {"updated_at": (20 * HOUR,)}, "updated_at", True),
        (("updated_at",), "id", {"updated_at": 2 * DAY}, "updated_at", True),
        (("valid_from",), "id", {"valid_from": SECOND}, "valid_from", False),
        (("created_at", "updated_at"), "id", {"created_at": 2 * DAY, "updated_at": SECOND}, "updated_at", False),
        (("birth_date", "updated_at"), "id", {"birth_date": 999 * DAY, "updated_at": 1}, "updated_at", False),
        (("created_at", "updated_at"), "id", {"created_at": SECOND, "updated_at": SECOND}, "updated_at", False),
        (("shipped_at", "updated_at"), "id", {"shipped_at": 2 * DAY, "updated_at": 1}, "updated_at", True),
        (("delivered_at", "updated_at"), "updated_at", {"updated_at": SECOND}, "updated_at", False),
        (("event_time", "updated_at"), "id", {"updated_at": SECOND}, "updated_at", False),
        (("version", "updated_at"), "id", {"updated_at": SECOND}, "updated_at", False),
        (("CRT_DTM", "UPD_DTM"), "id", {"CRT_DTM": 2 * DAY, "UPD_DTM": SECOND}, "UPD_DTM", False),
        (("valid_to", "valid_from"), "id", {"valid_from": SECOND}, "valid_from", False),
        (("created_at", "loaded_at"), "id", {"created_at": 2 * DAY, "loaded_at": 1}, "created_at", True),
        (("received_at",), "id", {"received_at": 20 * SECOND}, "received_at", True),
    ],
)
def test_a_column_that_updates_leave_as_it_was_is_never_taken(columns, ordering, lags, value, asks):
    types = {name: "long" if name == "version" else "timestamp-micros" for name in columns}
    found = survey(
        types,
        properties={"hoodie.table.ordering.fields": ordering},
        lags={name: lag if isinstance(lag, tuple) else (lag,) * 3 for name, lag in lags.items()},
    )
    line = lines(found)["event_time_column"]
    assert (line.value, line.asks) == (value, asks)


@pytest.mark.parametrize(
    ("last_ms", "asks"), [(NOON - 60_000, False), (NOON - 20 * HOUR, False), (NOON - 2 * DAY, True)]
)
def test_of_a_table_that_was_only_loaded_the_only_column_of_times_is_taken_where_it_is_near_the_load(last_ms, asks):
    found = survey({"id": "string", "updated_at": "timestamp-millis"}, {"updated_at": Range(MS - 99 * DAY, last_ms)})
    line = lines(found)["event_time_column"]
    assert (line.value, line.asks) == ("updated_at", asks)


def test_of_a_table_that_was_only_loaded_the_column_of_updates_goes_before_that_of_the_first_write():
    ranges = dict.fromkeys(("created_at", "updated_at"), Range(MS, NOON))
    line = lines(survey(dict.fromkeys(ranges, "timestamp-millis"), ranges))["event_time_column"]
    assert (line.value, line.asks) == ("updated_at", False)


def test_a_text_that_cannot_be_read_may_be_the_event_beside_the_only_column_of_times():
    columns = {"measured_at": "string", "updated_at": "timestamp-millis"}
    ranges = {"measured_at": Range("noon", "soon"), "updated_at": Range(MS, NOON)}
    assert lines(survey(columns, ranges, lags={"updated_at": (1, 1, 1)}))["event_time_column"].asks


@pytest.mark.parametrize(
    ("first", "last", "lags", "pattern", "asks"),
    [
        ("31.12.2025 10:00:00", "01.01.2026 10:00:00", (SECOND,) * 3, "dd.MM.yyyy HH:mm:ss", False),
        ("31.12.2025 10:00:00", "01.01.2026 10:00:00", (SECOND,) * 2, "dd.MM.yyyy HH:mm:ss", True),
        ("31.12.2025 10:00:00", "01.01.2026 10:00:00", (2 * HOUR,) * 3, "dd.MM.yyyy HH:mm:ss", True),
        ("20251231", "20260101", (14 * HOUR,) * 3, "yyyyMMdd", False),
        ("01/01/2026 10:00", "01/01/2026 11:00", (SECOND,) * 3, "dd/MM/yyyy HH:mm", True),
        ("01/02/2025 10:00", "12/11/2025 11:00", (SECOND,) * 3, "MM/dd/yyyy HH:mm", False),
        ("02/01/2025 10:00", "11/12/2025 11:00", (SECOND,) * 3, "dd/MM/yyyy HH:mm", False),
    ],
)
def test_texts_that_move_with_the_writes_are_taken_by_the_one_pattern_that_they_fit(first, last, lags, pattern, asks):
    """Beside a number that orders the rows and is no time. Days and months that may change places are asked."""
    columns = {"upd_ts": "string", "ver": "int"}
    ranges, ordered = {"upd_ts": Range(first, last), "ver": Range(1, 9)}, {"hoodie.table.ordering.fields": "ver"}
    line = lines(survey(columns, ranges, properties=ordered, lags={"upd_ts": lags}))["event_time_column"]
    assert (yaml.safe_load(line.value), line.asks) == ({"column": "upd_ts", "format": pattern}, asks)


DAYS = {"day": Range(20_452, 20_454)}


@pytest.mark.parametrize(
    ("lags", "said", "latency", "asks"),
    [
        ((14 * HOUR,) * 3, {}, "1d", False),
        ((14 * HOUR,) * 2, {}, "1d", True),
        ((14 * HOUR, 14 * HOUR, 40 * HOUR), {}, "1d", True),
        ((), {}, "1d", True),
        ((), {"answered": {"data_latency": "1h"}}, "1d", False),
        ((), {"defaults": {"data_latency": "1h", "freshness": {"target": "2h"}}}, "1d", False),
        ((14 * HOUR,) * 3, {"answered": {"data_latency": "2d"}}, None, False),
        ((14 * HOUR,) * 3, {"defaults": {"data_latency": "2d"}}, None, False),
        ((14 * HOUR,) * 3, {"given": {"data_latency": "1h"}}, "1h", False),
    ],
)
def test_a_column_of_days_has_a_latency_of_a_day_or_more(lags, said, latency, asks):
    """What is said for all tables is too short for it; what is said for this one stands."""
    found = lines(survey({"day": "date"}, DAYS, lags={"day": lags}, **said))
    line = found.get("data_latency")
    assert (line and line.value, bool(line and line.asks)) == (latency, asks)
    assert latency != "1d" or asks or found["freshness.target"].value == "1d2h"


@pytest.mark.parametrize(("first", "last", "asks"), [("N", "Y", False), ("2025 Nov 30", "2026 Jan 1", True)])
def test_a_text_that_is_named_as_what_moves_may_be_a_flag_or_a_time(first, last, asks):
    columns, lags = {"modified": "string", "last_seen": "timestamp-millis"}, {"last_seen": (SECOND,) * 3}
    line = lines(survey(columns, {"modified": Range(first, last)}, lags=lags))["event_time_column"]
    assert (line.value, line.asks) == ("last_seen", asks)


def test_a_text_alone_that_is_named_as_what_moves_is_no_reason_to_skip_the_table():
    found = survey({"last_modified": "string", "seq_no": "long"}, properties={"hoodie.table.ordering.fields": "seq_no"})
    assert "enabled" not in lines(
        replace(found, ranges={"seq_no": Range(1, 9), "last_modified": Range("1 May", "9 May")})
    )


LIMITS = {"data_latency": "1h", "freshness": {"target": "2h30m"}}


@pytest.mark.parametrize(
    ("past", "said", "target"),
    [
        (None, {"defaults": LIMITS}, None),
        (None, {"defaults": LIMITS, "given": {"data_latency": "2h"}}, None),
        (None, {"defaults": LIMITS, "given": {"data_latency": "2d"}}, "3d"),
        (None, {"answered": {"freshness.target": "2h"}, "given": {"data_latency": "2d"}}, "3d"),
        (None, {"defaults": {"freshness": {"error_after": "2h"}}, "given": {"data_latency": "2d"}}, None),
        (OFTEN, {"defaults": {"freshness": {"target": "20s"}}}, "2h"),
        (OFTEN, {"defaults": LIMITS}, None),
        (OFTEN, {"answered": {"data_latency": "1h"}}, None),
    ],
)
def test_a_table_that_cannot_keep_to_the_project_s_target_has_one_of_its_own(past, said, target):
    """`etc parse` refuses a target below `data_latency`."""
    found = lines(survey({"ts": "long"}, LONG, past, **said))
    assert (found["freshness.target"].value if "freshness.target" in found else None) == target


def test_columns_that_hold_no_times_are_no_candidates():
    columns = {"id": "long", "name": "string", "amount": "double", "flag": "boolean", "at": "bytes"}
    assert time_columns(columns, {"hoodie.table.ordering.fields": "name"}) == ()


def test_a_latency_is_what_nearly_all_writes_kept_to():
    line = lines(survey({"ts": "long"}, LONG, OFTEN))["data_latency"]
    assert (line.value, line.asks) == ("30s", False)
    few = lines(survey({"ts": "long"}, LONG, history(*OFTEN.commits[:19])))["data_latency"]
    assert few.asks
    assert "it takes 20 writes to log files. So far, of 19 writes to log files half came within 10s, all" in few.reason


@pytest.mark.parametrize(
    ("lags", "proposed", "target"),
    [
        ((20 * SECOND,) * 3, "1h", "2h30m"),
        ((20 * SECOND, 20 * SECOND, 9 * HOUR), "1h", "2h30m"),
        ((15 * HOUR, 15 * HOUR, 15 * HOUR + SECOND), "16h", "18h"),
    ],
)
def test_a_latency_that_most_commits_exceed_is_not_proposed(lags, proposed, target):
    found = lines(survey({"updated_at": "timestamp-micros"}, lags={"updated_at": lags}))
    assert (found["data_latency"].value, found["data_latency"].asks) == (proposed, True)
    assert (found["freshness"].value, found["freshness"].offers) == (f"{{target: {target}}}", True)


@pytest.mark.parametrize(("given", "says"), [("10s", True), ("30s", False), (None, False)])
def test_a_latency_that_was_said_and_that_enough_writes_exceed_is_doubted(given, says):
    found = survey({"ts": "long"}, LONG, OFTEN, given={"data_latency": given} if given else {})
    said = "of 30 writes to log files half came within 15s, all within 30s of their earliest event, and `data_latency` is 10s"
    assert [*said_doubts(found)] == ([said] if says else [])
    assert (said in lines(found)["data_latency"].reason) == says


def test_drift_is_what_the_table_contradicts():
    def drift(past=OFTEN, state=STATE, **changes):
        found = survey({"ts": "long"}, LONG, past, state=state, policy=POLICY.model_copy(update=changes))
        return {one.key: one.declared for one in find_drift(found.facts)}

    assert drift() == {}
    assert drift(data_latency_ms=10_000) == {"data_latency": "10s"}
    assert drift(history(*OFTEN.commits, MERGED)) == {"writer.compaction": "none"}
    bloom = POLICY.writer.model_copy(update={"index": "bloom"})
    assert drift(state=BUCKETS, writer=bloom) == {"writer.index": "bloom"}


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30)
TYPES = st.sampled_from(["long", "int", "string", "date", "timestamp-micros", "local-timestamp-millis"])
VALUES = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(MS, MS + 10**7), st.text(max_size=20))


@settings(deadline=None, max_examples=150)
@given(
    st.dictionaries(NAMES.map(lambda name: f"{name}_at"), TYPES, min_size=1, max_size=4),
    st.lists(VALUES, min_size=2, max_size=2),
    NAMES.map(lambda name: f"lake/{name.strip() or 'x'}"),
    st.sampled_from([None, OFTEN, history(*OFTEN.commits, MERGED)]),
)
def test_every_file_parses_and_once_its_questions_are_answered_is_a_policy(
    tmp_path_factory, columns, ends, table, past
):
    kinds = {int: ("long", "int", "date", "timestamp-micros", "local-timestamp-millis"), str: ("string",)}
    ranges = {
        name: Range(min(ends), max(ends))
        for name, kind in columns.items()
        if type(ends[0]) is type(ends[1]) and kind in kinds[type(ends[0])]
    }
    found = replace(survey(columns, ranges, past), table=table)
    text = render_proposal(found)
    folder = tmp_path_factory.mktemp("project")
    (folder / "policies").mkdir()
    policies, asked = read_policies(folder, text)
    assert asked == [line.key for line in proposed_lines(found) if line.asks]
    assert len(policies) == (not asked)
    answered = re.sub(
        r"^( *)# \? ((?:\w+\.)?(\w+): .*\n(?: *# .*\n)*?) *# (?=\3: )", r"\1# \2\1", text, flags=re.MULTILINE
    )
    assert MARK + " " not in re.sub(r"^#.*", "", answered, flags=re.MULTILINE)
    (policy,), asked = read_policies(folder, answered)
    assert (asked, policy.table) == ([], table)
    assert policy.event_time.column in columns


def read_policies(folder, text):
    """The policies of a project of this file, and the keys that are asked for."""
    (folder / "policies" / "orders.yml").write_text(text, encoding="utf-8")
    issues = check_project(read_project(str(folder), {}), ("ro_as_of", "ro_complete"))
    files = read_project(str(folder), {})
    errors = [str(issue) for issue in issues if issue.level == "error"]
    assert errors == []
    compile_project(files, ("ro_as_of", "ro_complete"))
    asked = [issue.message.split(":")[1].strip() for issue in issues if issue.code == "ETC153"]
    return [policy.declaration for policy in files.policies], asked


@pytest.mark.parametrize(
    ("columns", "ordering", "lags", "value", "asks"),
    [
        ({"shipped_date": "date", "updated_at": "timestamp-micros"}, "updated_at", (14 * HOUR, 1), "updated_at", False),
        ({"event_date": "date", "updated_at": "timestamp-micros"}, "id", (14 * HOUR, 400 * SECOND), "updated_at", True),
        ({"event_day": "string", "updated_at": "timestamp-micros"}, "updated_at", (14 * HOUR, 1), "updated_at", False),
        ({"shipped_date": "date"}, "shipped_date", (14 * HOUR,), "shipped_date", False),
        ({"shipped_date": "date", "placed_at": "timestamp-micros"}, "id", (14 * HOUR, 19 * DAY), "shipped_date", True),
    ],
)
def test_a_date_is_judged_by_days_and_a_finer_column_goes_before_it(columns, ordering, lags, value, asks):
    """By the clock it comes half a day late, whenever it comes."""
    properties = {"hoodie.table.ordering.fields": ordering}
    ranges = {"event_day": Range("2025-12-30", "2026-01-01")} if "event_day" in columns else {}
    given_lags = {name: (lag,) * 3 for name, lag in zip(columns, lags, strict=True)}
    found = lines(survey(columns, ranges, properties=properties, lags=given_lags))
    line, day = found["event_time_column"], next(iter(columns))
    assert (line.value, line.asks) == (value, asks)
    assert "it has days alone, so that RO's freshness can be told by days only" in line.reason
    assert "14h" not in line.reason
    assert ("has days alone, for which less" in found["data_latency"].reason) == (value == day)
    assert found["data_latency"].value == ("1d" if value == day else "1h")
