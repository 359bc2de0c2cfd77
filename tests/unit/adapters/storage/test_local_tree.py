import os
import subprocess
import sys

import pytest

from etc_policy.adapters.storage import local_tree
from etc_policy.adapters.storage.local_tree import LocalTreeLister, list_tree


@pytest.fixture
def base(tmp_path):
    """A table of two partitions, one of them below another folder, with links and what is no data."""
    for folder in ("a", "b/c", ".hoodie", "no_partition"):
        (tmp_path / folder).mkdir(parents=True)
    for partition in ("a", "b/c"):
        (tmp_path / partition / ".hoodie_partition_metadata").touch()
        (tmp_path / partition / "f1.parquet").write_bytes(b"x" * 100)
        (tmp_path / partition / ".f1.parquet.crc").touch()
    (tmp_path / "a" / ".f1_1.log.1").write_bytes(b"xx")
    (tmp_path / "a" / os.fsdecode(b"\xff \xc3\xa4.parquet")).write_bytes(b"x")
    (tmp_path / "a" / "linked.parquet").symlink_to(tmp_path / "b" / "c" / "f1.parquet")
    (tmp_path / "a" / "dangling.parquet").symlink_to(tmp_path / "nowhere")
    (tmp_path / "no_partition" / "f9.parquet").touch()
    (tmp_path / "again").symlink_to(tmp_path / "a")
    return str(tmp_path)


MARK = ".hoodie_partition_metadata"
IN_A = {MARK: 0, "f1.parquet": 100, ".f1_1.log.1": 2, "linked.parquet": 100, os.fsdecode(b"\xff \xc3\xa4.parquet"): 1}
LISTED = {"": {}, "a": IN_A, "b": {}, "b/c": {MARK: 0, "f1.parquet": 100}, "no_partition": {"f9.parquet": 0}}


def test_the_files_of_every_folder_with_their_sizes(base):
    assert dict(list_tree(base)) == LISTED


def test_a_linked_folder_elsewhere_is_a_folder_of_the_table(base, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / ".hoodie_partition_metadata").touch()
    (elsewhere / "f2.parquet").touch()
    os.symlink(elsewhere, f"{base}/d")
    assert dict(list_tree(base))["d"] == {"f2.parquet": 0, MARK: 0}


def test_links_that_lead_in_circles_are_followed_once(base, tmp_path_factory):
    """Two links in a folder that lead to it have 2**40 paths before the system refuses one."""
    elsewhere, other = tmp_path_factory.mktemp("elsewhere"), tmp_path_factory.mktemp("other")
    (elsewhere / "f2.parquet").touch()
    for folder in (elsewhere, other):
        for name, target in (("x", elsewhere), ("y", other), ("z", elsewhere)):
            os.symlink(target, folder / name)
    os.symlink(elsewhere, f"{base}/d")
    listed = dict(list_tree(base))
    assert listed.keys() - LISTED.keys() == {"d", "d/y"}
    assert listed["d"] == {"f2.parquet": 0}


class TestLister:
    def test_lists_the_same_in_a_process_of_its_own(self, base, monkeypatch):
        with LocalTreeLister(base) as lister:
            lister.begin()
            lister.begin()
            monkeypatch.setattr(local_tree, "list_tree", None)
            assert lister.read() == LISTED

    def test_lists_here_where_it_was_not_told_to_begin(self, base, monkeypatch):
        monkeypatch.setattr(subprocess, "Popen", None)
        with LocalTreeLister(base) as lister:
            assert lister.read() == LISTED

    @pytest.mark.parametrize("python", ["", None, "/nowhere/python"])
    def test_lists_here_where_there_is_no_python(self, base, monkeypatch, python):
        monkeypatch.setattr(sys, "executable", python)
        with LocalTreeLister(base) as lister:
            lister.begin()
            assert lister.read() == LISTED

    def test_does_not_run_what_python_is_embedded_in(self, base, monkeypatch):
        monkeypatch.setattr(sys, "executable", "/usr/sbin/server")
        monkeypatch.setattr(subprocess, "Popen", None)
        with LocalTreeLister(base) as lister:
            lister.begin()
            assert lister.read() == LISTED

    @pytest.mark.parametrize("does", ["exit 1", "true", "echo N", "echo etc partitions", "kill -9 $$"])
    def test_lists_here_where_the_process_does_not_answer(self, base, tmp_path_factory, monkeypatch, does):
        python = tmp_path_factory.mktemp("bin") / "python"
        python.write_text(f"#!/bin/sh\n{does}\n")
        python.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(python))
        with LocalTreeLister(base) as lister:
            lister.begin()
            assert lister.read() == LISTED

    def test_what_is_a_program_of_its_own_is_not_run_again(self, base, monkeypatch):
        monkeypatch.setattr(sys, "frozen", True, raising=False)
        monkeypatch.setattr(subprocess, "Popen", None)
        with LocalTreeLister(base) as lister:
            lister.begin()
            assert lister.read() == LISTED

    def test_a_folder_that_cannot_be_read_is_an_error_here(self, tmp_path):
        with LocalTreeLister(str(tmp_path / "gone")) as lister, pytest.raises(FileNotFoundError):
            lister.begin()
            lister.read()

    def test_leaves_no_process_behind(self, base, monkeypatch):
        begun = []
        popen = subprocess.Popen
        monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: begun.append(popen(*a, **k)) or begun[-1])
        with LocalTreeLister(base) as lister:
            lister.begin()
        assert begun[0].returncode is not None
        assert begun[0].stdout.closed
