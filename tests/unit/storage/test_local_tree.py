import os
import threading
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from etc_policy.storage.local import LocalStorage, LocalTreeLister, list_tree


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
        if path == "no_partition":
            os.unlink(f"{base}/{path}/f9.parquet")
            os.rmdir(f"{base}/{path}")
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


LOOKS = {
    "list_tree": lambda base: list_tree(base),
    "below": lambda base: LocalStorage(Path(base)).below(""),
    "find": lambda base: LocalStorage(Path(base)).find("", lambda _: True),
    "irregular": lambda base: LocalStorage(Path(base)).irregular(""),
}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("folder", ["a", "b", "b/c"])
def test_a_folder_that_becomes_a_link_meanwhile_is_an_error(base, tmp_path_factory, monkeypatch, look, folder):
    """A writer of the table makes it one between the moment in which it was found and the one in which it is opened."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "c").mkdir()
    (elsewhere / "salaries of ada").touch()

    def swap(path):
        path.rename(tmp_path_factory.mktemp("former") / "folder")
        path.symlink_to(elsewhere)

    swap_before_it_is_opened(monkeypatch, Path(base, folder), swap)
    with pytest.raises(OSError, match="it is a link, and none is followed"):
        print([*LOOKS[look](base)])


@pytest.mark.parametrize("look", LOOKS)
def test_one_that_becomes_a_pipe_is_not_waited_for(base, tmp_path_factory, monkeypatch, look):
    def swap(path):
        path.rename(tmp_path_factory.mktemp("former") / "folder")
        os.mkfifo(path)

    def read():
        with suppress(NotADirectoryError):
            list(LOOKS[look](base))
        answers.append("done")

    answers = []
    swap_before_it_is_opened(monkeypatch, Path(base, "a"), swap)
    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(5)
    assert answers == ["done"]


def swap_before_it_is_opened(monkeypatch, path, swap):
    """By whatever name and function."""
    for function in ("open", "scandir"):
        real = getattr(os, function)

        def swapped(name, *rest, real=real, **more):
            is_it = not isinstance(name, int) and Path(name).name == path.name
            if is_it and path.is_dir() and not path.is_symlink():
                swap(path)
            return real(name, *rest, **more)

        monkeypatch.setattr(os, function, swapped)


class TestLister:
    def test_lists_the_folders(self, base):
        with LocalTreeLister(base) as lister:
            assert lister.read() == LISTED

    def test_a_folder_that_cannot_be_read_is_an_error(self, tmp_path):
        with LocalTreeLister(str(tmp_path / "gone")) as lister, pytest.raises(FileNotFoundError):
            lister.read()
