"""Each value of a table's metadata, replaced by a value of each other kind: readable, or one clear error of the table."""

import json
from contextlib import suppress
from itertools import islice

import pytest

from etc_policy.errors import TableError
from etc_policy.hudi.commits import decode_metadata
from etc_policy.hudi.table import FileTableReader
from etc_policy.policy.manifest import EventTime, Policy
from etc_policy.run.table_files import HudiFiles
from tests.nightly import nightly
from tests.unit.hudi.reading import OURS
from tests.unit.hudi.table_folder import ROLLBACK_PLAN, TableFolder, archived, at, avro, base, log
from tests.unit.hudi.test_past import operation

EVENT_TIME = EventTime(column="s.ts", unit="ms")
POLICY = Policy(name="orders_ro", table="/t", event_time=EVENT_TIME, data_latency_ms=1)
STRUCT = {"type": "record", "name": "s", "fields": [{"name": "ts", "type": ["null", "long"]}]}
SCHEMA = {
    "type": "record",
    "name": "r",
    "fields": [{"name": "id", "type": "long"}, {"name": "s", "type": ["null", STRUCT]}],
}
PENDING = at("10:00:50")
KINDS = [None, True, 7, -1.5, "x", [], [1], ["x"], [[]], {}, {"x": 1}, {"x": {"y": "z"}}]


def places(value, path=()):
    """The path to each value in a JSON value."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from places(one, (*path, key))


def replaced(value, path, other):
    """The value with another at a path."""
    if not path:
        return other
    copy = value.copy()
    copy[path[0]] = replaced(value[path[0]], path[1:], other)
    return copy


def texts_of(record):
    """A file's record with each value replaced, as JSON; and with each value of the schema that it carries."""
    for path in places(record):
        for other in KINDS:
            yield json.dumps(replaced(record, path, other))
    schema = (record.get("extraMetadata") or {}).get("schema")
    for path in places(json.loads(schema)) if schema else ():
        for other in KINDS:
            text = json.dumps(replaced(json.loads(schema), path, other))
            yield json.dumps(replaced(record, ("extraMetadata", "schema"), text))


def read_all(table):
    """All that is read of a table by whoever plans, verifies or carries out."""
    whole = FileTableReader().read_with_history(str(table.base), EVENT_TIME, archived=None)
    if whole.state.own_pending:
        HudiFiles().pending_job(POLICY, whole.state)


@pytest.fixture
def every_kind(tmp_path):
    """A table with a file of every kind that is read on its timeline."""
    table, schema = TableFolder(tmp_path / "t"), {"schema": json.dumps(SCHEMA)}
    table.archive(archived(at("09:00:00"), at("09:00:01"), log("f1", 5)))
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"), base("f2"), base("f3"))
    table.commit(at("10:00:02"), at("10:00:03"), log("f1", 20), log("f2", 40))
    table.compaction(at("10:00:06"), at("10:00:20"), base("f1", merged=1, previous=at("10:00:00")), extra=OURS)
    table.plan(at("10:00:06"), OURS, operation("f1", None))
    table.replace(at("10:00:30"), at("10:00:31"), base("f4"), replaced={"p": ["f3"]})
    table.rollback(at("10:00:34"), at("10:00:35"), "x")
    table.clean(at("10:00:36"), at("10:00:37"), at("10:00:00"))
    table.plan(PENDING, OURS, operation("f2", None))
    undone = {
        "instantToRollback": {"commitTime": PENDING},
        "RollbackRequests": [{"filesToBeDeleted": [f"p/f2_0-1-0_{PENDING}.parquet"]}],
    }
    table.file(at("10:00:55"), ".rollback.requested", avro(ROLLBACK_PLAN, undone))
    for path in table.timeline.glob("*_*commit"):
        record = decode_metadata(path.read_bytes(), path.name)
        path.write_text(json.dumps({**record, "extraMetadata": {**record["extraMetadata"], **schema}}))
    return table


@pytest.mark.parametrize(
    "pattern",
    [
        *("*0002000_*.deltacommit", "*.commit", "*.replacecommit", "*.rollback", "*.clean"),
        *("*0006000.compaction.requested", f"{PENDING}.compaction.requested", "*.rollback.requested"),
    ],
)
@pytest.mark.parametrize("step", [5, *nightly(1)])
def test_a_file_of_the_timeline(every_kind, pattern, step):
    """With each of the texts, or one of five, so that each place and each kind has its turn."""
    (path,) = every_kind.timeline.glob(pattern)
    record = decode_metadata(path.read_bytes(), path.name)
    path.write_text(json.dumps(record))
    read_all(every_kind)
    for text in islice(texts_of(record), 0, None, step):
        path.write_text(text)
        with suppress(TableError):
            read_all(every_kind)


@pytest.mark.parametrize("column", ["instantTime", "completionTime", "action", "metadata", "plan"])
@pytest.mark.parametrize("value", [None, 7, "x", b"x", ["x"], {"a": 1}], ids=str)
def test_a_column_of_the_archive(every_kind, column, value):
    import pyarrow
    import pyarrow.parquet

    path = every_kind.archive({**archived(at("09:00:00"), at("09:00:01"), log("f1", 5)), "action": "commit"})
    rows = pyarrow.parquet.read_table(path)
    place = rows.column_names.index(column)
    pyarrow.parquet.write_table(rows.set_column(place, column, pyarrow.array([value])), path)
    try:
        read_all(every_kind)
    except TableError as error:
        assert str(every_kind.base) in error.message
