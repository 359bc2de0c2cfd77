"""On version 6 a log file has its slice's name: commits tell whether it holds deletes, and when it was written."""

from tests.unit.hudi.reading import read, slices
from tests.unit.hudi.table_folder import TableFolder, at, base, log

FIRST, SECOND, THIRD = at("10:00:00"), at("10:00:02"), at("10:00:04")


def old_table(folder, **properties):
    return TableFolder(folder / "v6", version=6, properties=properties)


def deletes(table):
    return {file_id: [known for *_, known in log_files] for file_id, (_, log_files) in slices(table).items()}


def test_deletes_are_told_by_the_commits_on_the_slice_and_event_times_by_none(tmp_path):
    table = old_table(tmp_path)
    table.commit(FIRST, FIRST, base("f1", min_event=5), base("f2", min_event=5), action="commit")
    table.commit(SECOND, SECOND, log("f1", 70, base_instant=FIRST, deletes=1), log("f2", 70, base_instant=FIRST))
    assert deletes(table) == {"f1": [True], "f2": [False]}
    assert {event for _, log_files in slices(table).values() for _, _, event, _ in log_files} == {None}


def test_a_slice_older_than_the_active_timeline_may_hold_deletes(tmp_path):
    table = old_table(tmp_path)
    table.data(FIRST, base("f1"), log("f1", base_instant=FIRST))
    table.commit(SECOND, SECOND, base("f2"), log("f2", base_instant=SECOND))
    assert deletes(table) == {"f1": [True], "f2": [False]}


def test_deletes_that_no_commit_counts(tmp_path):
    table = old_table(tmp_path, **{"hoodie.record.merge.property.hoodie.payload.delete.field": "Op"})
    table.commit(FIRST, FIRST, base("f1"), log("f1", 70, base_instant=FIRST))
    assert deletes(table) == {"f1": [True]}


def written(table):
    """When the rows of each log file were committed at the earliest and the latest."""
    return {f.name[1:3] + f.name[-7]: f.written for _, f in read(table).log_files}


def test_commits_say_of_the_log_files_that_they_name_when_they_were_written(tmp_path):
    table = old_table(tmp_path)
    table.commit(FIRST, FIRST, base("f1"))
    table.commit(SECOND, SECOND, log("f1", base_instant=FIRST))
    table.commit(THIRD, THIRD, log("f1", base_instant=FIRST, version=2))
    assert written(table) == {"f11": (SECOND, SECOND), "f12": (THIRD, THIRD)}


def test_so_they_do_where_that_of_the_base_file_is_archived(tmp_path):
    """A log file that no commit names was written before the first of them, as far as is known."""
    table = old_table(tmp_path)
    table.data(FIRST, base("f1"), log("f1", base_instant=FIRST))
    table.commit(THIRD, THIRD, log("f1", base_instant=FIRST, version=2))
    assert written(table) == {"f11": (FIRST, THIRD), "f12": (THIRD, THIRD)}


def test_where_writers_append_archived_ones_may_have_written_to_the_same_file(tmp_path):
    table = old_table(tmp_path)
    table.data(FIRST, base("f1"))
    table.commit(SECOND, SECOND, base("f2"), log("f1", base_instant=FIRST), log("f2", base_instant=SECOND))
    table.commit(THIRD, THIRD, log("f1", base_instant=FIRST), log("f2", base_instant=SECOND))
    assert written(table) == {"f11": (FIRST, THIRD), "f21": (SECOND, THIRD)}


def test_from_version_8_on_the_name_says_it(tmp_path):
    table = TableFolder(tmp_path / "v8")
    table.commit(FIRST, SECOND, base("f1"), log("f2"))
    (found,) = (f for _, f in read(table).log_files)
    assert (found.written, found.committed) == (None, (SECOND, SECOND))
