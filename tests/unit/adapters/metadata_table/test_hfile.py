"""HFiles: one that Hudi 1.2.0 wrote, and others as its format has them."""

import gzip
import random
import struct
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etc_policy.adapters.metadata_table import hfile as reader
from etc_policy.adapters.metadata_table.file_records import FileRecords
from etc_policy.adapters.metadata_table.hfile import BadHFile, read_hfile
from tests.unit.adapters.metadata_folder import hfile

REAL = Path(__file__).with_name("hudi-1.2.0.hfile").read_bytes()
RECORDS = st.lists(st.tuples(st.binary(max_size=300), st.binary(max_size=300)), max_size=12)


def test_a_file_of_hudi_is_read():
    records = FileRecords()
    records.add(read_hfile(REAL))
    found = records.partitions()
    assert sorted(found) == ["a", "b", "c"]
    assert found["a"] == {
        "15b3d793-a4a9-40f8-a299-5601e1033382-0_1-822-1681_20261124222324370.parquet": 434_362,
        "15b3d793-a4a9-40f8-a299-5601e1033382-0_1-896-1859_20261124222332011.parquet": 434_361,
        ".15b3d793-a4a9-40f8-a299-5601e1033382-0_20261124222330000.log.1_0-883-1813": 948,
    }


@given(RECORDS, st.integers(1, 5))
def test_what_was_written_is_read(records, in_block):
    found = read_hfile(hfile(records, in_block=in_block))
    assert found.records == records
    assert found.info[b"schema"].startswith(b"{")


@given(st.data())
def test_a_damaged_file_is_never_read_as_another(data):
    at = data.draw(st.integers(0, len(REAL) - 1))
    damaged = bytearray(REAL)
    damaged[at] ^= data.draw(st.integers(1, 255))
    for content in (bytes(damaged), REAL[:at], REAL[at + 1 :]):
        with suppress(BadHFile):
            assert read_hfile(content) == read_hfile(REAL)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "no trailer"),
        (hfile([(b"k", b"v")], codec=2), "another form"),
        (hfile([(b"k", b"v")], entries=1), "1 records, and 2"),
        (hfile([(b"k", b"v")])[:-1] + b"\2", "another version"),
        (hfile([(b"k", b"v")]).replace(b"IDXLEAF2", b"UNKNOWN!"), "of the kind b'UNKNOWN!'"),
    ],
)
def test_what_hudi_does_not_write_is_refused(content, why):
    with pytest.raises(BadHFile, match=why):
        read_hfile(content)


def test_a_block_that_reaches_over_those_behind_it_is_refused():
    """Each block would be read as far as it says: of a file of many, the square of their number."""
    whole, stored = bytearray(hfile([(b"k", b"v"), (b"l", b"w")], in_block=1)), len(gzip.compress(b"", mtime=0))
    assert len(read_hfile(bytes(whole)).records) == 2
    struct.pack_into(">i", whole, 29, len(whole) - stored)
    with pytest.raises(BadHFile, match="beyond its end"):
        read_hfile(bytes(whole))


def test_an_offset_beyond_all_files_is_refused():
    with pytest.raises(BadHFile, match="trailer of another form"):
        read_hfile(hfile([(b"k", b"v")], info_offset=2**69))


def test_a_file_that_becomes_too_large_is_refused(monkeypatch):
    assert read_hfile(hfile([(b"k", bytes(1_000_000))])).records
    with pytest.raises(BadHFile, match="far larger"):
        read_hfile(hfile([(b"k", bytes(1_100_000))]))
    monkeypatch.setattr(reader, "MAX_INFLATED_BYTES", 100_000)
    with pytest.raises(BadHFile, match="far larger"):
        read_hfile(hfile([(b"k", random.Random(1).randbytes(110_000))]))
