"""What the metadata table lists against the files; that Hudi's own listing is read rightly is played with Spark."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from etc_policy.errors import TableError
from etc_policy.spark import metadata_listing
from etc_policy.spark.metadata_listing import require_listed_below, wrongly_listed
from tests.unit.hudi.reading import read
from tests.unit.hudi.table_folder import at, base, log

FIRST, LOG, SECOND = at("10:00:00"), at("10:00:06"), at("10:01:00")


@pytest.fixture
def compacted(table):
    """A file group with a slice that was compacted, and its log file after that."""
    table.commit(FIRST, at("10:00:01"), base("f1"))
    table.commit(SECOND, at("10:01:01"), base("f1"))
    table.commit(LOG, at("10:01:30"), log("f1", 5))
    return table


@pytest.fixture
def faults(compacted, monkeypatch):
    """The faults of a listing that differs from the right one, by path; a size of None takes a file out."""
    path = {
        one: f"p/{written.name(one)}" for one, written in ((FIRST, base("f1")), (LOG, log("f1")), (SECOND, base("f1")))
    }

    def found(**other):
        state = read(compacted)
        listed = {path[FIRST]: 100, path[SECOND]: 100, path[LOG]: 10} | {key: other[key] for key in other}
        right = {key: size for key, size in listed.items() if size is not None}
        monkeypatch.setattr(metadata_listing, "_listed_files", lambda *_: right)
        return wrongly_listed(None, state)

    return found, path


def test_the_right_listing_has_no_fault(faults):
    found, _ = faults
    assert found() == ()


@pytest.mark.parametrize("instant", [SECOND, LOG])
def test_a_file_of_the_latest_slice_must_be_listed(faults, instant):
    found, path = faults
    assert found(**{path[instant]: None}) == (f"{path[instant]}: not listed",)


def test_what_was_compacted_may_be_cleaned(faults):
    found, path = faults
    assert found(**{path[FIRST]: None}) == ()


def test_a_base_file_must_have_its_size(faults):
    """Readers take the end of a file from it. Log files grow before table version 8."""
    found, path = faults
    assert found(**{path[SECOND]: 99, path[LOG]: 7}) == (f"{path[SECOND]}: listed with 99 bytes, has 100",)


@pytest.mark.parametrize(("file_id", "instant"), [("f1", SECOND), ("f1", at("10:02:00"))])
def test_a_file_that_is_gone_must_not_be_listed(faults, file_id, instant):
    """The base file of a run that was rolled back, beside that of the next run (facts: empty-metadata-commit)."""
    found, _ = faults
    other = f"p/{file_id}_0-7-7_{instant}.parquet"
    assert found(**{other: 100}) == (f"{other}: listed, not there",)


def test_nor_a_log_file_of_a_write_that_began_before_the_slice_and_completed_in_it(faults):
    found, _ = faults
    other = f"p/.f1_{LOG}.log.1_0-7-7"
    assert found(**{other: 10}) == (f"{other}: listed, not there",)


@pytest.mark.parametrize(("file_id", "instant"), [("f1", at("09:00:00")), ("f2", SECOND)])
def test_what_readers_of_the_latest_slices_do_not_open_is_no_fault(faults, file_id, instant):
    """An older slice, or a replaced file group, that a cleaner has removed and not yet taken off the listing."""
    found, _ = faults
    assert found(**{f"p/{file_id}_0-7-7_{instant}.parquet": 100}) == ()


def test_what_was_written_since_is_no_fault(compacted, faults):
    found, _ = faults
    newer = base("f1").name(at("10:03:00"))
    (compacted.base / "p" / newer).write_bytes(b"newer")
    assert found(**{f"p/{newer}": 5}) == ()


def test_what_was_cleaned_since_is_no_fault(compacted, monkeypatch):
    state = read(compacted)
    (compacted.base / "p" / log("f1").name(LOG)).unlink()
    (compacted.base / "p" / base("f1").name(SECOND)).unlink()
    monkeypatch.setattr(metadata_listing, "_listed_files", lambda *_: {})
    assert wrongly_listed(None, state) == ()


@pytest.mark.parametrize("is_pending", [True, False])
def test_what_a_pending_compaction_carries_is_listed_with_its_commit(compacted, monkeypatch, is_pending):
    state = read(compacted)
    (one,) = state.slices
    pending = at("10:04:00")
    carried = one.log_files[0]._replace(name=f".f1_{pending}.log.0_100000-0-0")
    (compacted.base / "p" / carried.name).write_bytes(b"rows")
    state = replace(state, slices=(replace(one, log_files=(carried,)),), own_pending=pending if is_pending else None)
    monkeypatch.setattr(metadata_listing, "_listed_files", lambda *_: {f"p/{one.base_file}": 100})
    assert wrongly_listed(None, state) == (() if is_pending else (f"p/{carried.name}: not listed",))


class Paths(list):
    """A list of Java."""

    add = list.append


class Listing:
    """What Java says of a metadata table with these partitions and files."""

    def __init__(self, partitions, *paths):
        self.partitions, self.paths, self.asked = partitions, paths, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def getAllPartitionPaths(self):
        return SimpleNamespace(size=lambda: len(self.partitions))

    def getAllFilesInPartitions(self, asked):
        self.asked.append(len(asked))
        paths = self.paths if asked[-1].endswith("".join(self.partitions[-1:])) else ()
        found = ", ".join(f"StoragePathInfo{{path={path}, length=5, isDirectory=false}}" for path in paths)
        return SimpleNamespace(toString=lambda: f"{{x=[{found}]}}")


def look(monkeypatch, base_path, listing):
    monkeypatch.setattr(metadata_listing, "opened_metadata", lambda *_: listing)
    lang = SimpleNamespace(String=SimpleNamespace(join=lambda between, _: between.join(listing.partitions)))
    java = SimpleNamespace(lang=lang, util=SimpleNamespace(ArrayList=Paths))
    require_listed_below(SimpleNamespace(_jvm=SimpleNamespace(java=java)), base_path)


BASES = {
    "/lake/t": ("/lake/t", "file:/lake/t", "file:///lake/t"),
    "s3a://bucket/lake/t": ("s3a://bucket/lake/t",),
    "hdfs://node:8020/lake/t": ("hdfs://node:8020/lake/t",),
    "hdfs:///lake/t": ("hdfs:/lake/t", "hdfs:///lake/t", "hdfs://node:8020/lake/t"),  # Java prints the first
    "file:///lake/t": ("file:/lake/t",),
}


@pytest.mark.parametrize(("base_path", "shown"), [(one, path) for one, shown in BASES.items() for path in shown])
def test_what_the_metadata_table_lists_lies_in_its_table(monkeypatch, base_path, shown):
    files = [f"{shown}/p=1/f.parquet", f"{shown}/.f_1.log.1_0-1-0", f"{shown}/a b/..c/f"]
    look(monkeypatch, base_path, Listing(["", "p=1", "a b/..c"], *files))
    look(monkeypatch, base_path, Listing([]))


@pytest.mark.parametrize("base_path", BASES)
@pytest.mark.parametrize(
    "path",
    [
        "/evil/.f_1.log.1",
        "/evil{base}/.f_1.log.1",
        "{base}2/.f_1.log.1",
        "{base}/p/../../.f_1.log.1",
        "file:/evil/.f_1.log.1",
        "s3a://evil/lake/t/.f_1.log.1",
        "hdfs://node:8020/other/t/.f_1.log.1",
        "https://evil/lake/t/.f_1.log.1",
    ],
)
def test_a_file_elsewhere_that_the_metadata_table_lists_is_refused(monkeypatch, base_path, path):
    listing = Listing(["p"], f"{base_path}/p/f.parquet", path.format(base=base_path))
    with pytest.raises(TableError, match="does not lie in the table") as error:
        look(monkeypatch, base_path, listing)
    assert error.value.code == "ETC213"


def test_a_partition_that_is_named_like_two_is_refused(monkeypatch):
    """One whose files are not listed would be one that nobody has looked at."""
    with pytest.raises(TableError, match="does not lie in the table"):
        look(monkeypatch, "/lake/t", Listing(["a\0b"]))


def test_no_more_partitions_are_listed_at_once_than_java_has_memory_for(monkeypatch):
    """Java with 2 GB ended where it had to print a million files."""
    listing = Listing([f"p={number}" for number in range(450)], "/evil/.f_1.log.1")
    with pytest.raises(TableError, match="does not lie in the table"):
        look(monkeypatch, "/lake/t", listing)
    assert listing.asked == [200, 200, 50]
