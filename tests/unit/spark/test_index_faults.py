"""What statistics in a metadata table are held against: the footers of base files."""

import datetime as dt
from contextlib import contextmanager
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from etc_policy.errors import EngineError
from etc_policy.spark import index_faults
from etc_policy.spark.index_faults import _File, _fill, _lacking, _ranges, _too_narrow

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
