"""Tables whose rows carry their operation, by which they delete (Flink's changelog mode): no property says so, log blocks do.

See facts: changelog-mode.
"""

import io

import pytest

from etc_policy.hudi.blocks import BadLogFile, read_headers
from etc_policy.hudi.table import FileTableReader
from etc_policy.storage.local import LocalStorage
from tests.unit.hudi import log_file
from tests.unit.hudi.reading import TS, read
from tests.unit.hudi.table_folder import TableFolder, archived, at, base, log

PLAIN = ("id", "ts")
OPERATIONS = ("_hoodie_operation", *PLAIN)
ON, LEFT = "in changelog mode", "in changelog mode until its last write"


def written(table, number, columns, *file_ids, **rest):
    """A write at a minute whose log files have these columns; before version 8 they are of the slice of 10:00."""
    named = {"base_instant": at("10:00:00"), "version": number} if table.layout == 1 else {}
    files = (log(one, number, columns=columns, **named, **rest) for one in file_ids)
    table.commit(at(f"10:0{number}:00"), at(f"10:0{number}:01"), *files)


def deletes(table):
    """Of each file group which of its log files may delete."""
    return {one.file_id: [file.has_deletes for file in one.log_files] for one in read(table).slices}


def mode(table):
    """Whether it is in changelog mode, and what is said of that where its bundle is chosen."""
    state = read(table)
    return state.in_changelog_mode, "".join(part for part in state.merging.split(", ") if "changelog" in part)


@pytest.fixture(params=[6, 8, 9])
def table(tmp_path, request):
    table = TableFolder(tmp_path / "t", version=request.param)
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"), base("f2"))
    return table


def test_rows_that_carry_no_operation_delete_as_their_commit_says(table):
    written(table, 1, PLAIN, "f1", "f2")
    assert mode(table) == (False, "")
    assert deletes(table) == {"f1": [False], "f2": [False]}


def test_rows_that_carry_their_operation_may_delete(table):
    """One file of a write shows it for all that it wrote."""
    written(table, 1, OPERATIONS, "f1", "f2")
    assert mode(table) == (True, ON)
    assert deletes(table) == {"f1": [True], "f2": [True]}


def test_nobody_knows_when_such_a_row_is_due_from_what_its_commit_recorded(tmp_path):
    table = TableFolder(tmp_path / "t")
    written(table, 1, OPERATIONS, "f1")
    written(table, 2, PLAIN, "f1")
    assert [file.min_event_time_ms for _, file in read(table).log_files] == [None, 2]


def test_the_mode_may_be_switched_on_in_the_middle_of_a_tables_life(table):
    """Readers go by the newest file, so that older rows without an operation are merged as before."""
    written(table, 1, PLAIN, "f1")
    written(table, 2, OPERATIONS, "f2")
    assert mode(table) == (True, ON)
    assert deletes(table) == {"f1": [False], "f2": [True]}


def test_where_it_was_switched_off_no_compaction_is_right_while_operations_are_left(table):
    """Readers no longer go by operations that are still in log files: what they deleted is back, or not, by what is read."""
    written(table, 1, OPERATIONS, "f1")
    written(table, 2, PLAIN, "f2")
    assert mode(table) == (True, LEFT)
    table.compaction(at("10:03:00"), at("10:03:01"), base("f1"))
    assert mode(table) == (False, "")


def test_it_is_seen_in_whatever_file_of_a_write_is_there(table):
    written(table, 1, OPERATIONS, "f1", "f2")
    next(table.base.glob("p/.f1*.log.*")).unlink()
    assert read(table).in_changelog_mode
    assert deletes(table)["f2"] == [True]


@pytest.mark.parametrize("version", [8, 9])
def test_writes_that_are_archived_may_have_left_log_files(tmp_path, version):
    table = TableFolder(tmp_path / "t", version=version)
    table.data(at("10:00:00"), base("f1"))
    table.data(at("10:01:00"), file := log("f1", 7, columns=OPERATIONS))
    table.archive(archived(at("10:00:00"), at("10:00:01"), base("f1")), archived(at("10:01:00"), at("10:01:01"), file))
    table.commit(at("10:02:00"), at("10:02:01"), base("f2"))
    assert mode(table) == (True, ON)
    assert deletes(table)["f1"] == [True]


def test_a_log_file_to_which_a_later_write_appended_is_read_to_its_end(tmp_path):
    """Writers of Hudi 0.x append where the file system can."""
    table = TableFolder(tmp_path / "t", version=6)
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
    plain, later = (log("f1", base_instant=at("10:00:00"), columns=columns) for columns in (PLAIN, OPERATIONS))
    table.commit(at("10:01:00"), at("10:01:01"), plain)
    path = table.base / "p" / plain.name(at("10:01:00"))
    content = path.read_bytes() + later.content
    table.commit(at("10:02:00"), at("10:02:01"), later)
    path.write_bytes(content)
    assert mode(table) == (True, ON)


def test_a_write_whose_files_are_gone_may_have_deleted_as_the_others(tmp_path):
    """A compaction of its deletes may have left rows beside it."""
    table = TableFolder(tmp_path / "t")
    written(table, 1, OPERATIONS, "f1")
    written(table, 2, OPERATIONS, "f2")
    for file in table.base.glob("p/.f1*"):
        file.unlink()
    _, history = FileTableReader().read_with_history(str(table.base), TS)[:2]
    assert [write.has_deletes for commit in history.commits for write in commit.groups] == [True, True]


def test_where_nobody_may_read_log_files_all_may_delete_and_times_stay_as_recorded(tmp_path, monkeypatch):
    """Such as a user who may read the table's metadata alone."""
    table = TableFolder(tmp_path / "t")
    written(table, 1, PLAIN, "f1")

    opened = LocalStorage.open

    def refused(self, path):
        if ".log." in path:
            raise PermissionError(13, "Permission denied", path)
        return opened(self, path)

    monkeypatch.setattr(LocalStorage, "open", refused)
    ((_, found),) = read(table).log_files
    assert (found.has_deletes, found.min_event_time_ms) == (True, 1)


def test_schemas_of_blocks_are_read_without_their_content():
    first, second = log_file.avro([1] * 100, "long"), log_file.deletes((log_file.LONG, 5), ts="long")
    content = first + log_file.block(log_file.COMMAND) + second
    stream = Counting(content)
    assert len(list(read_headers(stream, len(content)))) == 2
    assert stream.bytes_read < len(content) - 2_000


@pytest.mark.parametrize("content", [b"x" * 40, log_file.avro([1], "long")[:60], b"#HUDI#" + bytes(40)])
def test_what_is_no_block_has_no_schema(content):
    with pytest.raises(BadLogFile):
        list(read_headers(io.BytesIO(content), len(content)))


class Counting(io.BytesIO):
    """Bytes that count how many of them are read."""

    bytes_read = 0

    def read(self, size=-1):
        found = super().read(size)
        self.bytes_read += len(found)
        return found
