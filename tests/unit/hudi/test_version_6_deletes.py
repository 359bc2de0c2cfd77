"""On version 6 a log file has its slice's name: whether it holds deletes is told by the commits on that slice."""

from tests.unit.hudi.reading import slices
from tests.unit.hudi.table_folder import TableFolder, at, base, log

FIRST, SECOND = at("10:00:00"), at("10:00:02")


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
