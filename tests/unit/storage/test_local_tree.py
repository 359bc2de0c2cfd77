import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from etc_policy.storage.local import LocalTreeLister, list_tree


@pytest.fixture
def base(tmp_path):
    """A table of two partitions, one of them below another folder, and what is no data."""
    for folder in ("a", "b/c", ".hoodie", "no_partition"):
        (tmp_path / folder).mkdir(parents=True)
    for partition in ("a", "b/c"):
        (tmp_path / partition / ".hoodie_partition_metadata").touch()
        (tmp_path / partition / "f1.parquet").write_bytes(b"x" * 100)
        (tmp_path / partition / ".f1.parquet.crc").touch()
    (tmp_path / "a" / ".f1_1.log.1").write_bytes(b"xx")
    (tmp_path / "a" / os.fsdecode(b"\xff \xc3\xa4.parquet")).write_bytes(b"x")
    (tmp_path / "no_partition" / "f9.parquet").touch()
    return str(tmp_path)


MARK = ".hoodie_partition_metadata"
IN_A = {MARK: 0, "f1.parquet": 100, ".f1_1.log.1": 2, os.fsdecode(b"\xff \xc3\xa4.parquet"): 1}
LISTED = {"": {}, "a": IN_A, "b": {}, "b/c": {MARK: 0, "f1.parquet": 100}, "no_partition": {"f9.parquet": 0}}


def test_the_files_of_every_folder_with_their_sizes(base):
    assert dict(list_tree(base)) == LISTED


def test_what_a_cleaner_removes_meanwhile_is_left_out(base, monkeypatch):
    scan = os.scandir

    def after_the_cleaner(number):
        entries = scan(number)
        listed = list(entries)
        for one in listed:
            if one.name == "f1.parquet":
                os.unlink(one.name, dir_fd=number)
        entries.close()
        return nullcontext(iter(listed))

    monkeypatch.setattr(os, "scandir", after_the_cleaner)
    found = dict(list_tree(base))
    assert found["b/c"] == {MARK: 0}
    assert found["a"].keys() - {"linked.parquet"} == IN_A.keys() - {"f1.parquet", "linked.parquet"}


def test_a_folder_that_goes_meanwhile_is_left_out(base, monkeypatch):
    opened = os.open

    def after_it_has_gone(path, *rest, **more):
        if str(path).endswith("no_partition"):
            os.unlink(f"{path}/f9.parquet")
            os.rmdir(path)
        return opened(path, *rest, **more)

    monkeypatch.setattr(os, "open", after_it_has_gone)
    assert dict(list_tree(base)) == {folder: files for folder, files in LISTED.items() if folder != "no_partition"}
    with pytest.raises(FileNotFoundError):
        dict(list_tree(f"{base}/nothing"))


def test_a_folder_may_begin_with_a_dot_and_only_that_of_hudi_is_left_out(base, tmp_path):
    """A partition's value may begin with a dot; Hudi looks for partitions everywhere but below `.hoodie`."""
    for folder in (".net", "b/.d", "b/.hoodie/e"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "f1.parquet").touch()
    files = {"f1.parquet": 0}
    assert dict(list_tree(base)) == {**LISTED, ".net": files, "b/.d": files}


@pytest.mark.parametrize("target", ["elsewhere", "a", ".", "b/c/f1.parquet", "nowhere"])
@pytest.mark.parametrize("place", ["d", "a/d", "a/f2.parquet"])
def test_a_link_is_an_error(base, place, target):
    """What Hudi reads through it is part of the table to other readers: it may not be left out either."""
    (Path(base).parent / "elsewhere").mkdir(exist_ok=True)
    os.symlink(f"{base}/../elsewhere" if target == "elsewhere" else f"{base}/{target}", f"{base}/{place}")
    with pytest.raises(OSError, match="it is a link, and none is followed") as error:
        dict(list_tree(base))
    assert error.value.filename == f"{base}/{place}"


class TestLister:
    def test_lists_the_folders(self, base):
        with LocalTreeLister(base) as lister:
            assert lister.read() == LISTED

    def test_a_folder_that_cannot_be_read_is_an_error(self, tmp_path):
        with LocalTreeLister(str(tmp_path / "gone")) as lister, pytest.raises(FileNotFoundError):
            lister.read()
