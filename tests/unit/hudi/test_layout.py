import pytest

from etc_policy.errors import TableError
from etc_policy.hudi.layout import (
    InstantFile,
    parse_data_file,
    parse_instant_file,
    timeline_folder,
)

FILE_ID = "d8f18d50-ea72-4740-9c26-0dd0abe80892-0"


@pytest.mark.parametrize(
    ("name", "file_id", "instant", "version"),
    [
        (f".{FILE_ID}_20261121105820353.log.1_0-129-247", FILE_ID, "20261121105820353", 1),
        (f".{FILE_ID}_20261121105820353.log.12_3-4-5", FILE_ID, "20261121105820353", 12),
        (f".{FILE_ID}_20261121105820353.log.2", FILE_ID, "20261121105820353", 2),
        (".00000007-a_b_20200101000000.log.1_0-1-0", "00000007-a_b", "20200101000000", 1),
    ],
)
def test_log_files(name, file_id, instant, version):
    parsed = parse_data_file(name)
    assert (parsed.name, parsed.file_id, parsed.instant, parsed.version) == (name, file_id, instant, version)
    assert parsed.is_log


@pytest.mark.parametrize("ending", ["parquet", "orc", "hfile", "lance"])
def test_base_files(ending):
    parsed = parse_data_file(f"{FILE_ID}_0-31-35_20261121105804278.{ending}")
    assert (parsed.file_id, parsed.instant, parsed.is_log) == (FILE_ID, "20261121105804278", False)


@pytest.mark.parametrize(
    "name",
    [
        f".{FILE_ID}_20261121105820353.log.1_0-129-247.cdc",
        f".{FILE_ID}_20261121105820353.log.1_0-129-247-cdc",
        f"..{FILE_ID}_20261121105820353.log.1_0-129-247.crc.x",
        ".hoodie_partition_metadata",
        "part-0000.parquet",
        f"{FILE_ID}_20261121105804278.parquet",
        f"{FILE_ID}_0-31-35_20261121105804278.parquet.tmp",
        "",
    ],
)
def test_other_files_are_none_of_hudis(name):
    assert parse_data_file(name) is None


@pytest.mark.parametrize(
    ("name", "requested", "completed", "action", "state"),
    [
        ("100_200.deltacommit", "100", "200", "deltacommit", "completed"),
        ("100.deltacommit.inflight", "100", None, "deltacommit", "inflight"),
        ("100.compaction.requested", "100", None, "compaction", "requested"),
        ("100.inflight", "100", None, "commit", "inflight"),
        ("100_200.commit", "100", "200", "commit", "completed"),
    ],
)
def test_instants_of_layout_2(name, requested, completed, action, state):
    assert parse_instant_file(name, 2) == InstantFile(name, requested, completed, action, state)


@pytest.mark.parametrize(
    ("name", "action", "state"),
    [
        ("100.deltacommit", "deltacommit", "completed"),
        ("100.commit", "commit", "completed"),
        ("100.inflight", "commit", "inflight"),
        ("100.commit.requested", "commit", "requested"),
        ("100.compaction.inflight", "compaction", "inflight"),
    ],
)
def test_instants_of_layout_1_have_no_completion_time(name, action, state):
    assert parse_instant_file(name, 1) == InstantFile(name, "100", None, action, state)


@pytest.mark.parametrize(
    "name", ["history", "hoodie.properties", "100.deltacommit", "100_200.deltacommit.inflight", ".100.x.crc"]
)
def test_what_is_no_instant_of_layout_2(name):
    assert parse_instant_file(name, 2) is None


def test_where_the_timeline_is():
    assert timeline_folder({"hoodie.timeline.layout.version": "2"}, "/t") == (".hoodie/timeline", 2)
    elsewhere = {"hoodie.timeline.layout.version": "2", "hoodie.timeline.path": "other"}
    assert timeline_folder(elsewhere, "/t") == (".hoodie/other", 2)
    assert timeline_folder({}, "/t") == (".hoodie", 1)


@pytest.mark.parametrize("layout", ["0", "3", "99", "two", ""])
def test_an_unknown_layout_is_refused(layout):
    with pytest.raises(TableError) as error:
        timeline_folder({"hoodie.timeline.layout.version": layout}, "/t")
    assert error.value.code == "ETC206"
