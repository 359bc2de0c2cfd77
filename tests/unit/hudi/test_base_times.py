"""The latest event times of base files, from the footers of real Parquet files."""

import datetime as dt
import io
from dataclasses import replace

import pytest

from etc_policy.errors.codes import Code
from etc_policy.hudi import base_times
from etc_policy.hudi.base_times import read_row_groups, with_left_times, with_newest_times
from etc_policy.plan.plan_warnings import column_warning
from etc_policy.plan.rules import why_refused
from etc_policy.policy.manifest import EventTime
from etc_policy.report.freshness import table_freshness
from etc_policy.storage.object_cache import MemoryCache
from etc_policy.table.history import TableHistory
from etc_policy.table.state import FileSlice
from etc_policy.verify.diagnosis import TableFacts, event_times
from tests.unit.hudi.table_folder import at, base_rows
from tests.unit.plan.plan_cases import epoch_ms
from tests.unit.plan.states import POLICY, STATE

T = 1_700_000_000_000
MOMENT = dt.datetime.fromtimestamp(T / 1000, dt.UTC)
DAY_MS = 86_400_000


def state_in(folder, *names):
    slices = tuple(
        FileSlice("p", name, f"2026010100000000{n}", f"{name}.parquet", 1, ()) for n, name in enumerate(names)
    )
    return replace(STATE, base_path=str(folder), slices=slices)


def write(folder, name, values, kind="int64", column="ts", **options):
    import pyarrow
    from pyarrow import parquet

    kinds = {"timestamp UTC": pyarrow.timestamp("us", "UTC"), "struct": pyarrow.struct([("at", pyarrow.int64())])}
    array = pyarrow.array(values, kinds.get(kind) or pyarrow.type_for_alias(kind))
    (folder / "p").mkdir(exist_ok=True)
    table = pyarrow.table({"id": pyarrow.array(range(len(values))), column: array})
    parquet.write_table(table, folder / "p" / f"{name}.parquet", **options)


def groups_of(folder, values, event_time, kind="int64", **options):
    write(folder, "f", values, kind, **options)
    found = read_row_groups(state_in(folder, "f"), event_time)
    return [tuple(one) for one in found["p/f.parquet"]] if found else None


@pytest.mark.parametrize(
    ("values", "kind", "event_time", "latest_ms"),
    [
        ([T, T - 5], "int64", EventTime(column="ts", unit="ms"), T),
        ([T // 1000, 1], "int64", EventTime(column="ts", unit="s"), T),
        ([T * 1000 + 999], "int64", EventTime(column="ts", unit="us"), T),
        ([7, None], "int32", EventTime(column="ts", unit="ms"), 7),
        ([MOMENT], "timestamp UTC", EventTime(column="ts"), T),
        ([MOMENT.replace(tzinfo=None)], "timestamp[ms]", EventTime(column="ts"), T),
        ([dt.date(1969, 12, 31)], "date32", EventTime(column="ts"), -DAY_MS),
        ([None], "int64", EventTime(column="ts", unit="ms"), None),
    ],
)
def test_what_a_footer_says(tmp_path, values, kind, event_time, latest_ms):
    rows = 0 if latest_ms is None else len(values)
    assert groups_of(tmp_path, values, event_time, kind) == [(latest_ms, rows)]


def test_each_row_group_counts_by_itself(tmp_path):
    assert groups_of(tmp_path, [3, 1, 2, 9, None], EventTime(column="ts", unit="ms"), row_group_size=2) == [
        (3, 2),
        (9, 2),
        (None, 0),
    ]


def test_what_no_footer_says_is_left_out(tmp_path, monkeypatch):
    event_time = EventTime(column="ts", unit="ms")
    assert groups_of(tmp_path, [1], event_time, write_statistics=False) is None
    assert groups_of(tmp_path, ["x"], event_time, "string") is None
    assert groups_of(tmp_path, [1], event_time, column="other") is None
    assert groups_of(tmp_path, [2**62], EventTime(column="ts"), "timestamp[us]") is None  # no time of Python's
    (tmp_path / "p" / "damaged.parquet").write_bytes(b"PAR1")
    write(tmp_path, "early", [1])
    write(tmp_path, "f", [2])
    names = ("early", "f", "damaged", "gone")
    assert list(read_row_groups(state_in(tmp_path, *names), event_time)) == ["p/early.parquet", "p/f.parquet"]
    monkeypatch.setattr(base_times, "MOST_FILES", 3)
    assert list(read_row_groups(state_in(tmp_path, *names), event_time)) == ["p/f.parquet"]


def test_a_field_of_a_struct(tmp_path):
    write(tmp_path, "f", [{"at": 5}, {"at": 6}], "struct", column="event")
    found = read_row_groups(state_in(tmp_path, "f"), EventTime(column="event.at", unit="ms"))
    assert found["p/f.parquet"] == ((6, 2),)


NOW_MS = 1_767_268_800_000  # 2026-01-01 12:00
BEGAN_MS = NOW_MS - DAY_MS


def quiet(folder, values, event_time, kind="int64"):
    """A table without log files, of which the newest base file has these values."""
    write(folder, "f", values, kind)
    state = replace(state_in(folder, "f"), event_time_type="string" if kind == "string" else "long")
    return with_newest_times(state, event_time)


@pytest.mark.parametrize(
    ("values", "kind", "event_time", "hint"),
    [
        ([NOW_MS - 5_000, NOW_MS - 9_000], "int64", EventTime(column="ts", unit="s"), "unit: ms"),
        (["n12", "n7"], "string", EventTime(column="ts"), "format: PATTERN"),
    ],
)
def test_a_wrong_unit_or_column_is_refused_where_no_log_file_is_left(tmp_path, values, kind, event_time, hint):
    found = why_refused(
        POLICY.model_copy(update={"event_time": event_time}), quiet(tmp_path, values, event_time, kind), NOW_MS
    )
    assert (found.code in (Code.WRONG_UNIT, Code.UNREADABLE_TIMES), hint in found.hint) == (True, True)
    assert "p/f.parquet" in found.reason


@pytest.mark.parametrize(
    ("unit", "left", "said"),
    [
        ("us", NOW_MS // 1000, True),
        ("ms", NOW_MS, False),
        ("ms", 12, False),  # fits no unit
        ("s", NOW_MS * 1000, False),  # no early one
    ],
)
def test_too_small_a_unit_is_a_warning_once_etc_has_compacted_by_it(unit, left, said):
    """By what is left of commits, in plan, freshness and debug."""
    event_time = EventTime(column="ts", unit=unit)
    policy = POLICY.model_copy(update={"event_time": event_time})
    state = replace(STATE, slices=(), left_times=((NOW_MS, left), (NOW_MS - 9_000, left - 9)))
    past = TableHistory("/t", 9, "UTC", (), complete=True)
    facts = TableFacts(policy, state, past, {}, NOW_MS)
    warned = [*column_warning(policy, state), *table_freshness(policy, state, NOW_MS, NOW_MS, past).warnings]
    status, message, hint = event_times(facts)
    assert [one.endswith("unit: ms}`") for one in warned] == [True, True] * said
    assert (status == "warn", "due at once" in message, "unit: ms}`" in (hint or "")) == (said, said, said)


def test_too_small_a_unit_is_a_warning_there(tmp_path):
    event_time = EventTime(column="ts", unit="us")
    (said,) = column_warning(
        POLICY.model_copy(update={"event_time": event_time}),
        quiet(tmp_path, [NOW_MS - 5_000, NOW_MS - 9_000], event_time),
    )
    assert said.endswith("the values look like milliseconds: set `event_time_column: {column: ts, unit: ms}`")


@pytest.mark.parametrize(
    ("values", "kind", "event_time", "said"),
    [
        ([BEGAN_MS - 5_000, BEGAN_MS - 9_000], "int64", EventTime(column="ts", unit="ms"), None),
        (
            [BEGAN_MS - 5_000, (BEGAN_MS - 9_000) * 1000],
            "int64",
            EventTime(column="ts", unit="ms"),
            None,
        ),  # one wrong row
        (["2026-01-01", "n7"], "string", EventTime(column="ts"), None),
        (["", " "], "string", EventTime(column="ts"), None),
        (["1/2/2026"], "string", EventTime(column="ts", format="d/M/yyyy"), None),  # only Spark can read it
        ([None], "int64", EventTime(column="ts", unit="s"), None),
        (
            [7, 12],
            "int64",
            EventTime(column="ts", unit="ms"),
            "holds numbers that are no times in `ms` (what base file p/f.parquet holds lies between",
        ),  # fits no unit
        ([NOW_MS + DAY_MS], "int64", EventTime(column="ts", unit="ms"), "does not say when an event happened"),
    ],
)
def test_what_may_be_right_is_not_refused(tmp_path, values, kind, event_time, said):
    state = quiet(tmp_path, values, event_time, kind)
    policy = POLICY.model_copy(update={"event_time": event_time})
    assert why_refused(policy, state, NOW_MS) is None
    assert [bool(said) and said in one for one in column_warning(policy, state)] == [True] * bool(said)


PLACED = EventTime(column="ts")


def left_in(folder, content, event_time=PLACED, kind="timestamp-millis", kept=None):
    """What is left in a base file of these bytes, which a compaction at noon wrote."""
    (folder / "p").mkdir(exist_ok=True)
    (folder / "p" / "f.parquet").write_bytes(content)
    state = replace(state_in(folder, "f"), event_time_type=kind)
    noon = replace(state.slices[0], base_instant=at("12:00:00"), base_file_bytes=len(content))
    return dict(with_left_times(replace(state, slices=(noon,)), event_time, kept).left_times)


def test_the_earliest_event_that_is_left_of_each_commit_but_the_first(tmp_path):
    rows = [(at("08:00:00"), {"ts": T}), (at("09:00:00"), {"ts": T + 7}), (at("09:00:00"), {"ts": T + 5})]
    rows += [(at("12:00:00"), {"ts": T}), ("soon", {"ts": T}), (at("09:00:00"), {"ts": None})]
    assert left_in(tmp_path, base_rows(rows)) == {epoch_ms("09:00:00"): T + 5}


@pytest.mark.parametrize(
    ("content", "event_time", "kind"),
    [
        (b"PAR1", PLACED, "timestamp-millis"),
        (base_rows([(at("08:00:00"), {"ts": T}), (at("09:00:00"), {"ts": T})]), EventTime(column="at"), "date"),
        (base_rows([(at("08:00:00"), {"ts": T}), (at("09:00:00"), {"ts": T})]), PLACED, "date"),
        (base_rows([(at("12:00:00"), {"ts": T}), (at("12:00:00"), {"ts": T})]), PLACED, "timestamp-millis"),
    ],
)
def test_nothing_is_left_where_a_base_file_does_not_say_it(tmp_path, content, event_time, kind):
    assert left_in(tmp_path, content, event_time, kind) == {}


def test_a_text_that_many_rows_have_is_made_once(tmp_path):
    """Ten megabytes in each of 65,000 rows are more than any machine has."""
    import pyarrow
    from pyarrow import parquet

    rows = 65_000
    commits = [at("07:00:00"), at("08:00:00"), at("09:00:00")]
    texts = {"_hoodie_commit_time": commits, "ts": ["2026-01-01", "x" * 10_000_000, "2026-01-01 "]}
    indices = pyarrow.array([number % 3 for number in range(rows)], pyarrow.int32())
    columns = {name: pyarrow.DictionaryArray.from_arrays(indices, pyarrow.array(held)) for name, held in texts.items()}
    written = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), written, dictionary_pagesize_limit=64 << 20, store_schema=False)
    found = left_in(tmp_path, written.getvalue(), EventTime(column="ts"), "string")
    assert found == {epoch_ms("09:00:00"): epoch_ms("00:00:00")}


def test_a_commit_time_that_is_no_text_is_left_out(tmp_path):
    import pyarrow
    from pyarrow import parquet

    written = io.BytesIO()
    moments = pyarrow.array([T, T], pyarrow.timestamp("ms"))
    parquet.write_table(pyarrow.table({"_hoodie_commit_time": [1, 2], "ts": moments}), written)
    assert left_in(tmp_path, written.getvalue()) == {}


def test_what_a_base_file_holds_is_read_once(tmp_path):
    rows = [(at("08:00:00"), {"ts": T}), (at("09:00:00"), {"ts": T + 5})]
    kept = MemoryCache()
    assert left_in(tmp_path, base_rows(rows), kept=kept) == {epoch_ms("09:00:00"): T + 5}
    same_size = b"x" * len(base_rows(rows))
    assert left_in(tmp_path, same_size, kept=kept) == {epoch_ms("09:00:00"): T + 5}
    assert left_in(tmp_path, same_size + b"x", kept=kept) == {}
    for key in kept:
        kept[key] = b'{"2": null}'
    assert left_in(tmp_path, base_rows(rows), kept=kept) == {}


def test_no_more_is_read_of_a_base_file_than_a_few_megabytes(tmp_path, monkeypatch):
    rows = [(at("08:00:00"), {"ts": T}), (at("09:00:00"), {"ts": T + 5})]
    monkeypatch.setattr(base_times, "_READ_BYTES", 1)
    assert left_in(tmp_path, base_rows(rows, row_group_size=1)) == {}
