"""Listings by a metadata table beside those of the folders, and where it is not relied upon."""

import json
import os

import pytest

from etc_policy.adapters.hudi.partitions import partitions_of
from etc_policy.adapters.hudi.properties import read_properties
from etc_policy.adapters.hudi.table import FileTableReader
from etc_policy.adapters.hudi.timeline import read_timeline
from etc_policy.adapters.metadata_table.file_records import UnsureListing
from etc_policy.adapters.metadata_table.listing import MetadataTableListing, lists_files, read_listing
from etc_policy.adapters.storage.door import open_storage
from etc_policy.policy.manifest import EventTime
from tests.unit.adapters import log_file
from tests.unit.adapters.metadata_folder import FIRST, LISTED, SCHEMA, MetadataFolder, file_records, hfile
from tests.unit.adapters.table_folder import TableFolder, at, base, log

TS = EventTime(column="ts", unit="ms")
EMPTY_DELETE = b"\0\0\0\3\0\0\0\1\0"


class Table:
    """A table whose metadata table has a base file, made by a compaction, and log files before and after it."""

    def __init__(self, folder, version=9):
        self.folder = TableFolder(folder / "t", version=version, properties=LISTED)
        self.own = MetadataFolder(self.folder, version)
        self.own.base(FIRST, at("09:00:00"), {}, "deltacommit")
        self.own.blocks(FIRST, log_file.block(log_file.DELETE, EMPTY_DELETE, {log_file.INSTANT: FIRST}))
        self.write("10:00", base("f"), base("g", partition="q"))
        self.write("10:01", log("f"))
        known = {"p": {**self.sized("10:00", base("f")), **self.sized("10:01", log("f"))}}
        self.own.base(at("10:02:00"), at("10:02:01"), {**known, "q": self.sized("10:00", base("g", partition="q"))})
        self.write("10:03", log("f"), log("g", partition="q"))
        self.write("10:04", log("f"))

    @property
    def location(self):
        return str(self.folder.base)

    def sized(self, clock, *files):
        return {one.name(at(f"{clock}:00")): one.size for one in files}

    def write(self, clock, *files, deleted=()):
        """A commit of both tables: the metadata table's is complete first."""
        listing = {}
        for one in files:
            listing.setdefault(one.partition, {}).update(self.sized(clock, one))
        self.own.log(at(f"{clock}:00"), at(f"{clock}:05"), {**listing, **dict(deleted)})
        self.folder.commit(at(f"{clock}:00"), at(f"{clock}:06"), *files)

    def listing(self):
        storage = open_storage(self.location)
        properties = read_properties(storage)
        return read_listing(storage, properties, read_timeline(storage, properties))

    def in_folders(self):
        with open_storage(self.location).tree() as tree:
            return partitions_of(tree.read())


@pytest.fixture
def table(tmp_path):
    return Table(tmp_path)


class Anywhere(MetadataTableListing):
    """Of tables on local disk too."""

    def may_have(self, storage, properties):
        return lists_files(properties)


def states(table):
    """The state by the folders, that by the metadata table, and why it was not relied upon."""
    doubts = []
    known = FileTableReader(known=Anywhere(doubts.append)).read(table.location, TS)
    return FileTableReader().read(table.location, TS), known, doubts


@pytest.mark.parametrize("version", [8, 9])
def test_it_lists_what_is_in_the_folders(tmp_path, version):
    table = Table(tmp_path, version)
    assert table.listing() == table.in_folders()
    state, known, doubts = states(table)
    assert (known, doubts) == (state, [])
    assert sum(1 for _ in state.log_files) == 4


def test_what_was_cleaned_is_not_listed(table):
    table.folder.clean(at("10:05:00"), at("10:05:06"), at("10:04:00"))
    gone = log("f").name(at("10:01:00"))
    table.own.log(at("10:05:00"), at("10:05:05"), {"p": {gone: None}})
    (table.folder.base / "p" / gone).unlink()
    assert table.listing() == table.in_folders()


def test_commits_of_the_metadata_table_alone_do_not_count(table):
    """Of a writer that is in its commit or was killed there, and of one that begins its own."""
    before = table.listing()
    uncommitted = log("f")
    table.folder.start(at("10:05:00"), uncommitted)
    table.own.log(at("10:05:00"), at("10:05:05"), {"p": table.sized("10:05", uncommitted)})
    table.own.log(at("10:06:00"), None, {"p": {"x": 1}})
    table.own.log(at("10:07:00"), at("10:07:05"), {"p": {"y": 1}})
    assert table.listing() == before
    state, known, doubts = states(table)
    assert (known, doubts) == (state, [])


def test_a_commit_that_was_rolled_back_leaves_nothing(table):
    table.folder.rollback(at("10:05:00"), at("10:05:06"))
    table.own.own.file(at("10:05:00"), f"_{at('10:05:05')}.rollback")
    assert table.listing() == table.in_folders()


def test_a_metadata_table_that_was_made_later_knows_what_was_there(tmp_path):
    folder = TableFolder(tmp_path / "t", properties=LISTED)
    folder.commit(at("08:00:00"), at("08:00:01"), base("f"))
    own = MetadataFolder(folder)
    own.base(FIRST, at("09:00:00"), {"p": {base("f").name(at("08:00:00")): 100}}, "deltacommit")
    storage = open_storage(str(folder.base))
    properties = read_properties(storage)
    assert read_listing(storage, properties, read_timeline(storage, properties)) == {
        "p": {base("f").name(at("08:00:00")): 100}
    }


def remove(folder, *patterns):
    for pattern in patterns:
        found = list(folder.glob(pattern))
        assert found
        for path in found:
            path.unlink()


def header(instant):
    return {log_file.INSTANT: at(instant), log_file.SCHEMA: json.dumps(SCHEMA)}


def block(kind, content=b"", instant="10:04:00"):
    return log_file.block(kind, content, header(instant))


DOUBTS = {
    "a commit is missing": (
        lambda t: remove(t.own.own.timeline, f"{at('10:03:00')}*"),
        "no commit for the instant|not on the metadata table's timeline",
    ),
    "a commit of the table alone": (
        lambda t: t.folder.commit(at("10:05:00"), at("10:05:06"), log("f")),
        "no commit for the instant 20260101100500000",
    ),
    "a pending compaction": (lambda t: t.own.own.file(at("10:06:00"), ".compaction.requested"), "pending compaction"),
    "a pending rollback": (lambda t: t.own.own.file(at("10:06:00"), ".rollback.requested"), "pending rollback"),
    "a log compaction": (lambda t: t.own.own.log_compaction(at("10:06:00"), at("10:06:01")), "a log compaction"),
    "an action of the metadata table": (
        lambda t: t.own.own.file(at("10:06:00"), f"_{at('10:06:01')}.indexing"),
        "a indexing at",
    ),
    "a restore of the table": (lambda t: t.folder.file(at("10:06:00"), f"_{at('10:06:01')}.restore"), "a restore at"),
    "no base file": (lambda t: remove(t.own.files, "files*.hfile"), "no base file"),
    "a file of another kind": (lambda t: (t.own.files / "files-0000-0_0_1.parquet.tmp").touch(), "a file `files"),
    "another file group": (lambda t: (t.own.files / f"files-0001-0_0-1-2_{FIRST}.hfile").touch(), "a file `files-0001"),
    "a log file of nobody": (
        lambda t: t.own.blocks(at("10:03:30"), block(log_file.HFILE)),
        "not on the metadata table's timeline",
    ),
    "a commit of nobody": (
        lambda t: t.own.log(at("10:03:30"), at("10:03:31"), {}),
        "10033.* of the metadata table is not on the table's timeline",
    ),
    "a rollback block": (lambda t: t.own.blocks(at("10:04:00"), block(log_file.COMMAND)), "a block of kind 0"),
    "a corrupt block": (lambda t: t.own.blocks(at("10:04:00"), block(log_file.CORRUPT)), "a block of kind 2"),
    "a block of deletes": (lambda t: t.own.blocks(at("10:04:00"), block(log_file.DELETE, b"x")), "a block of kind 1"),
    "a block of another instant": (
        lambda t: t.own.blocks(at("10:04:00"), block(log_file.HFILE, hfile(file_records({"p": {}})), "10:03:00")),
        "a block of another instant",
    ),
    "half a log file": (lambda t: t.own.blocks(at("10:04:00"), block(log_file.HFILE)[:-3]), "cannot be decoded"),
    "half a base file": (
        lambda t: (t.own.files / f"files-0000-0_0-1-2_{at('10:02:00')}.hfile").write_bytes(hfile([])[:-3]),
        "cannot be decoded",
    ),
    "more than is read": (
        lambda t: os.truncate(t.own.files / f".files-0000-0_{at('10:04:00')}.log.1_0-1-0", 65 << 20),
        "bytes are to be read",
    ),
    "another version": (
        lambda t: (t.own.own.meta / "hoodie.properties").write_text("hoodie.table.version=6\n"),
        "another version",
    ),
    "no properties": (lambda t: remove(t.own.own.meta, "hoodie.properties"), "another version"),
}


@pytest.mark.parametrize("doubt", DOUBTS)
def test_in_doubt_the_folders_are_listed(table, doubt):
    change, why = DOUBTS[doubt]
    change(table)
    with pytest.raises(UnsureListing, match=why):
        table.listing()
    state, known, doubts = states(table)
    assert known == state
    assert len(doubts) == 1
    assert doubts[0].startswith(f"listing the folders of {table.location}: its metadata table is not relied upon (")


@pytest.mark.parametrize("recorded", [None, 4])
def test_a_listing_that_contradicts_a_commit_is_not_taken(table, recorded):
    """The log file is not listed, or cut short; what commits recorded is there."""
    name = log("f").name(at("10:04:00"))
    table.own.log(at("10:04:00"), at("10:04:05"), {"p": {name: recorded}})
    state, known, doubts = states(table)
    assert known == state
    assert doubts == [
        f"listing the folders of {table.location}: its metadata table is not relied upon (it contradicts a commit)"
    ]


@pytest.mark.parametrize(
    "properties",
    [
        {"hoodie.table.metadata.partitions": "column_stats"},
        {"hoodie.table.metadata.partitions": None},
        {"hoodie.table.metadata.partitions.inflight": "files"},
        {"hoodie.table.version": "6"},
        {"hoodie.table.initial.version": "6"},
        {"hoodie.table.initial.version": None},
    ],
)
def test_it_is_asked_only_where_the_table_says_that_it_lists_files(tmp_path, properties):
    folder = TableFolder(tmp_path / "t", properties={**LISTED, **properties})
    assert not lists_files(read_properties_as_they_are(folder))
    assert lists_files({"hoodie.table.version": "9", **LISTED})


def read_properties_as_they_are(folder):
    lines = (folder.meta / "hoodie.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def test_a_table_on_local_disk_is_listed(table):
    storage = open_storage(table.location)
    assert not MetadataTableListing(print).may_have(storage, read_properties(storage))
