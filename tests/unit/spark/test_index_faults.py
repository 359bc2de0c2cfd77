"""What statistics in a metadata table are held against: the footers of base files."""

import datetime as dt
from contextlib import contextmanager, nullcontext
from decimal import Decimal
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from etc_policy.errors import EngineError
from etc_policy.spark import index_faults
from etc_policy.spark.index_faults import _File, _file, _fill, _lacking, _ranges, _too_long, _too_narrow

FOOTER = {"a": (1, 9), "b": (1, 9), "c": None}


def file_of(recorded, footer=FOOTER, name="f"):
    return _File(f"p/{name}.parquet", dict(footer), dict(recorded))


@pytest.mark.parametrize(
    ("recorded", "others", "defined", "lacks"),
    [
        ({"a": (1, 9), "b": (1, 9)}, [], ("a", "b"), False),
        # Written by a client that was not told the columns: others, and not those.
        ({"a": (1, 9)}, [], ("b",), True),
        # Of a type that Hudi keeps no statistics of: nobody has them.
        ({"a": (1, 9)}, [], ("a", "b"), False),
        ({"a": (1, 9)}, [{"a": (1, 9), "b": (1, 9)}], ("a", "b"), True),
        # Readers keep files that have no statistics at all.
        ({}, [{"a": (1, 9), "b": (1, 9)}], ("a", "b"), False),
        # Without definitions the other files say what is indexed.
        ({"a": (1, 9)}, [{"b": (1, 9)}], (), True),
        ({"a": (1, 9)}, [{"a": (1, 9)}], (), False),
        # A column of lists, or one that came later.
        ({"a": (1, 9), "b": (1, 9)}, [{"c": (1, 9), "d": (1, 2)}], (), False),
    ],
)
def test_a_file_that_lacks_indexed_columns(recorded, others, defined, lacks):
    one = file_of(recorded)
    files = [one, *(file_of(other, name=f"o{number}") for number, other in enumerate(others))]
    assert bool(list(_lacking(one, files, defined))) is lacks


@pytest.mark.parametrize(
    ("recorded", "wrong"),
    [((1, 9), False), ((0, 10), False), ((2, 9), True), ((1, 8), True), (None, False), (("1", "9"), False)],
)
def test_statistics_that_exclude_values_of_the_file(recorded, wrong):
    assert bool(list(_too_narrow(file_of({"a": recorded})))) is wrong


def test_ranges_of_a_footer(tmp_path):
    import pyarrow
    from pyarrow import parquet

    day, moment = dt.date(2024, 1, 2), dt.datetime(2024, 1, 2, 3, tzinfo=dt.UTC)
    columns = {
        "n": [3, 1, None, 2],
        "t": ["b", "a", None, "c"],
        "day": [day, None, None, day],
        "at": [moment, None, None, moment],
        "empty": pyarrow.array([None] * 4, pyarrow.int64()),
        "many": [[1], [2], [3], []],
        "s": [{"x": 1}, {"x": 5}, None, {"x": 2}],
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "f.parquet", row_group_size=2)
    micros = 1_704_164_400_000_000
    assert _ranges(parquet.ParquetFile(tmp_path / "f.parquet").metadata) == {
        "n": (1, 3), "t": ("a", "c"), "day": (19_724, 19_724), "at": (micros, micros), "empty": None, "s.x": (1, 5),
    }  # fmt: skip


def written(folder, column, *, int96=False):
    """A file with that column, as `_file` sees it."""
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"c": column}), folder / "f.parquet", use_deprecated_int96_timestamps=int96)
    return _file("p/f.parquet", parquet.ParquetFile(folder / "f.parquet").metadata)


def arrays():
    """Columns, and what Java prints of their least and greatest values."""
    import pyarrow as pa

    moments = pa.array([dt.datetime(2024, 1, 2, 3, 4, 5, 678_000, dt.UTC)] * 2, pa.timestamp("us", "UTC"))
    micros, prices = 1_704_164_645_678_000, pa.array([Decimal("1.10"), Decimal("2.5")], pa.decimal128(12, 2))
    yield "single precision", pa.array([1.1, 3.3], pa.float32()), ("1.1", "3.3")
    yield "the largest of it", pa.array([-3.4028235e38, 1.4e-45], pa.float32()), ("-3.4028235E38", "1.4E-45")
    yield "double precision", pa.array([1.1, 3.3]), ("1.1", "3.3")
    yield "both zeros", pa.array([0.0, -0.0], pa.float32()), ("-0.0", "0.0")
    yield "not a number", pa.array([float("nan"), 2.0], pa.float32()), ('"NaN"', '"NaN"')
    yield "decimals", prices, ('{"bytes": "n"}', '{"bytes": "ú"}')
    yield "microseconds", moments, (str(micros), str(micros))
    yield "milliseconds", moments.cast(pa.timestamp("ms", "UTC")), (str(micros // 1000), str(micros // 1000))
    yield "milliseconds as microseconds", moments.cast(pa.timestamp("ms", "UTC")), (str(micros), str(micros))
    yield "nanoseconds", moments.cast(pa.timestamp("ns", "UTC")), (str(micros), str(micros))
    yield "texts", pa.array(["é", "z"]), ('"z"', '"\u00e9"')


@pytest.mark.parametrize(("column", "printed"), [one[1:] for one in arrays()], ids=[one[0] for one in arrays()])
def test_what_java_prints_of_a_range_is_the_range_of_the_footer(tmp_path, monkeypatch, column, printed):
    one = written(tmp_path, column)
    least, greatest = (f'{{"value": {value}}}' for value in printed)
    texts = [f'[{{"fileName": "f.parquet", "columnName": "c", "minValue": {least}, "maxValue": {greatest}}}]']
    monkeypatch.setattr(index_faults, "opened_metadata", lambda *_: nullcontext())
    monkeypatch.setattr(index_faults, "_asked", lambda *_: texts)
    _fill(None, SimpleNamespace(base_path="/t"), [one])
    assert "c" in one.recorded
    assert list(_too_narrow(one)) == []


def test_texts_of_which_parquet_keeps_no_range_are_named(tmp_path):
    long = written(tmp_path, ["x" * 5_000, None])
    long.recorded["c"] = None
    assert list(_too_long(long)) == [
        "p/f.parquet: no range of `c`, as Parquet keeps none of texts so long: leave the column out of the statistics"
    ]
    for one in (written(tmp_path, ["x", None]), written(tmp_path, long_nulls())):
        one.recorded["c"] = None
        assert list(_too_long(one)) == []


def long_nulls():
    import pyarrow

    return pyarrow.array([None, None], pyarrow.string())


def test_all_is_asked_before_the_metadata_table_is_closed(monkeypatch):
    """Hudi 1.0.1 fails of one that is closed (facts: closed-metadata-table)."""
    is_open = []

    def of_closed(*_):
        assert is_open
        raise ValueError("of an open one, and Java fails")

    @contextmanager
    def opened(*_):
        is_open.append(True)
        yield SimpleNamespace(getClass=lambda: SimpleNamespace(getMethods=list), getColumnStats=of_closed)
        is_open.clear()

    monkeypatch.setattr(index_faults, "opened_metadata", opened)
    with pytest.raises(EngineError, match="cannot read the column statistics of `/t`"):
        _fill(MagicMock(), SimpleNamespace(base_path="/t"), [file_of({})])
