"""A completed commit is decoded once in its life, and whatever happens to what is kept of it, the table reads the same."""

import random
import shutil
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etc_policy.hudi import timeline as hudi_timeline
from etc_policy.hudi.commit_writes import CommitWrites
from etc_policy.hudi.table import FileTableReader
from etc_policy.storage import local
from etc_policy.storage.object_cache import MemoryCache, ObjectCache
from tests.nightly import HISTORIES
from tests.unit.hudi.reading import TS, read
from tests.unit.hudi.table_folder import TableFolder, at, base, log

STEPS = (
    "commit",
    "commit",
    "commit",
    "several",
    "compaction",
    "replace",
    "roll back",
    "rewrite",
    "properties",
    "new table",
)
DAMAGES = ("none", "none", "cut short", "a byte", "empty", "gone", "another's", "no folder")


@pytest.fixture
def at_rest(monkeypatch):
    """Files count as they are at once; else nothing of a test's files would be kept."""
    monkeypatch.setattr(local, "_AT_REST_NS", 0)


@pytest.fixture
def decoded(monkeypatch):
    """The places of the commits that were decoded."""
    places, decode = [], hudi_timeline.decode_commit

    def counted(content, place, **rest):
        places.append(place)
        return decode(content, place, **rest)

    monkeypatch.setattr(hudi_timeline, "decode_commit", counted)
    return places


def instant(number):
    return at(f"10:{number // 60:02d}:{number % 60:02d}")


def with_cache(table, folder):
    return FileTableReader(ObjectCache(folder)).read(str(table.base), TS)


def test_a_commit_is_decoded_once(table, tmp_path, at_rest, decoded):
    for number in range(3):
        table.commit(instant(2 * number), instant(2 * number + 1), log("f1", number))
    first = with_cache(table, tmp_path / "cache")
    assert (len(decoded), with_cache(table, tmp_path / "cache"), len(decoded)) == (3, first, 3)
    table.commit(instant(6), instant(7), log("f1", 9))
    assert with_cache(table, tmp_path / "cache") == read(table)
    assert len(decoded) == 3 + 1 + 4


def test_a_run_decodes_a_commit_once(table, at_rest, decoded):
    for number in range(3):
        table.commit(instant(2 * number), instant(2 * number + 1), log("f1", number))
    reader = FileTableReader(MemoryCache())
    assert (reader.read(str(table.base), TS), len(decoded)) == (reader.read(str(table.base), TS), 3)


def test_files_that_were_just_written_are_not_kept(table, tmp_path, decoded):
    """Another content of the same size, written within a tick of the clock, would look the same."""
    table.commit(instant(0), instant(1), log("f1", 1))
    with_cache(table, tmp_path / "cache")
    with_cache(table, tmp_path / "cache")
    assert len(decoded) == 2


def test_another_table_at_the_same_place(table, tmp_path, at_rest, decoded):
    table.commit(instant(0), instant(1), log("f1", 1))
    with_cache(table, tmp_path / "cache")
    shutil.rmtree(table.base)
    other = TableFolder(table.base, properties={"hoodie.table.name": "other"})
    other.commit(instant(0), instant(1), log("f1", 2))
    assert with_cache(other, tmp_path / "cache") == read(other)
    assert len(decoded) == 3


def test_another_version_of_etc_decodes_anew(table, tmp_path, at_rest, decoded, monkeypatch):
    table.commit(instant(0), instant(1), log("f1", 1))
    with_cache(table, tmp_path / "cache")
    monkeypatch.setattr("etc_policy.hudi.commits.__version__", "99.0")
    with_cache(table, tmp_path / "cache")
    assert len(decoded) == 2


def test_a_file_that_is_damaged_later_is_still_found_out(table, tmp_path, at_rest):
    path = table.commit(instant(0), instant(1), log("f1", 1))
    with_cache(table, tmp_path / "cache")
    path.write_bytes(b"Obj\x01 damaged")
    with pytest.raises(Exception, match="cannot read timeline file"):
        with_cache(table, tmp_path / "cache")


@settings(max_examples=max(20, HISTORIES // 100))
@given(seed=st.integers(0, 2**32), steps=st.lists(st.sampled_from(STEPS), min_size=1, max_size=12))
def test_a_table_reads_the_same_with_and_without_what_was_kept(tmp_path_factory, seed, steps):
    chance, root = random.Random(seed), tmp_path_factory.mktemp("kept")
    history = History(root / "orders", chance)
    before, local._AT_REST_NS = local._AT_REST_NS, 0
    try:
        for step in steps:
            history.go(step)
            damage(root / "cache", chance)
            anew = read(history.table)
            assert with_cache(history.table, root / "cache") == anew
            assert with_cache(history.table, root / "cache") == anew
        assert one_by_one(history.table) == anew
    finally:
        local._AT_REST_NS = before
        shutil.rmtree(root)


def one_by_one(table):
    """The table's state where no commit is taken for one of log files alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CommitWrites, "are_plain", lambda *_: False)
        return read(table)


def damage(folder, chance):
    """Do something to what is kept."""
    entries = sorted(path for path in folder.rglob("*") if path.is_file())
    kind = chance.choice(DAMAGES)
    for path in entries:
        content = bytearray(path.read_bytes())
        if kind == "cut short":
            path.write_bytes(content[: chance.randrange(len(content) + 1)])
        elif kind == "a byte" and content:
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
            path.write_bytes(content)
        elif kind == "empty":
            path.write_bytes(b"")
        elif kind == "gone":
            path.unlink()
        elif kind == "another's":
            path.write_bytes(chance.choice(entries).read_bytes())
    if kind == "no folder":
        shutil.rmtree(folder, ignore_errors=True)


class History:
    """A table whose past is made up step by step."""

    def __init__(self, folder, chance):
        self.folder, self.chance, self.number = folder, chance, 0
        self.table, self.files = TableFolder(folder), []

    def go(self, step):
        """Make one step."""
        requested, completed = instant(self.number), instant(self.number + 1)
        self.number += 2
        match step:
            case "commit" | "several":
                self.files.append((requested, completed, self.table.commit(requested, completed, *self.logs(step))))
            case "compaction":
                self.table.compaction(requested, completed, base(self.group()))
            case "replace":
                self.table.replace(requested, completed, base("new"), replaced={"p": [self.group()]})
            case "roll back" if self.files:
                self.files.pop(self.chance.randrange(len(self.files)))[2].unlink()
            case "rewrite" if self.files:
                self.rewrite(*self.chance.choice(self.files))
            case "properties":
                with (self.table.meta / "hoodie.properties").open("a") as file:
                    file.write(f"a{self.number}=1\n")
            case "new table":
                shutil.rmtree(self.folder)
                self.table, self.files = TableFolder(self.folder), []

    def rewrite(self, requested, completed, path):
        """The same file with another content, as nobody should."""
        time.sleep(0.02)
        path.unlink()
        self.table.commit(requested, completed, *self.logs("several"))

    def group(self):
        return self.chance.choice(("f1", "f2", "f3"))

    def logs(self, step):
        """What a commit writes: mostly plain log files, and what makes one anything else."""
        for group in ("f1", "f2", "f3")[: self.chance.randint(1, 3)]:
            time_ms = None if self.chance.random() < 0.2 else self.chance.randrange(1_000)
            yield log(group, time_ms, deletes=int(self.chance.random() < 0.2), on_disk=self.chance.random() < 0.9)
            if step == "several" and self.chance.random() < 0.5:
                yield log(group, self.chance.randrange(1_000), version=2, partition=self.chance.choice(("p", "q")))
