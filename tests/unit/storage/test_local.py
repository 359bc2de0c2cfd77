"""Links, devices and disks that fail: what only a file system has."""

import errno
import os
import subprocess
import sys
from zlib import crc32

import pytest

from etc_policy.run import file_lock
from etc_policy.storage import local
from etc_policy.storage.local import LocalStorage
from etc_policy.storage.shared_file import change_shared


@pytest.fixture
def table(tmp_path):
    (tmp_path / "table").mkdir()
    return tmp_path / "table"


@pytest.fixture
def outside(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "f").write_text("precious")
    return tmp_path / "outside"


READINGS = {
    "names": lambda storage, folder: storage.names(folder),
    "list": lambda storage, folder: storage.list(folder),
    "versions": lambda storage, folder: storage.versions(folder),
    "versions of some": lambda storage, folder: storage.versions(folder, {"f"}),
    "find": lambda storage, folder: list(storage.find(folder, lambda _: True)),
    "info": lambda storage, folder: storage.info(f"{folder}/f"),
    "read": lambda storage, folder: storage.read(f"{folder}/f"),
    "open": lambda storage, folder: storage.open(f"{folder}/f"),
    "hard_link": lambda storage, folder: storage.hard_link(f"{folder}/f", "other"),
    "copy": lambda storage, folder: storage.copy(f"{folder}/f", "other"),
    "link_or_copy": lambda storage, folder: storage.link_or_copy(f"{folder}/f", "other"),
}


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("link", ["folder", "folder/above", "folder/f"])
def test_nothing_is_read_through_a_link(table, outside, reading, link):
    """Its message, a record that is written anew, or a copy of it would show what lies elsewhere."""
    (table / link).parent.mkdir(exist_ok=True)
    (table / link).symlink_to(outside if link != "folder/f" else outside / "f")
    folder = "folder/above" if link.endswith("above") else "folder"
    if link == "folder/f" and reading.startswith(("names", "versions")):
        assert list(READINGS[reading](LocalStorage(table), folder)) == (["f"] if reading == "names" else [])
        return
    with pytest.raises(OSError, match="it is a link, and none is followed") as error:
        READINGS[reading](LocalStorage(table), folder)
    assert error.value.errno == errno.ELOOP
    assert not (table / "other").exists()


def test_the_table_s_own_folder_may_be_a_link(table, outside):
    (table / "linked").symlink_to(outside)
    assert LocalStorage(table / "linked").read("f") == b"precious"


def test_nothing_is_written_or_removed_through_a_linked_folder(table, outside):
    (table / "folder").symlink_to(outside)
    storage = LocalStorage(table)
    for step in (
        lambda: storage.create("folder/g", b""),
        lambda: storage.replace("folder/f", b""),
        lambda: storage.remove("folder/f"),
        lambda: storage.remove_tree("folder/below"),
        lambda: storage.remove_tree("folder"),
    ):
        with pytest.raises(OSError):
            step()
    assert (outside / "f").read_text() == "precious"
    assert os.listdir(outside) == ["f"]


def test_a_linked_file_is_replaced_or_removed_and_not_what_it_leads_to(table, outside):
    storage = LocalStorage(table)
    (table / "f").symlink_to(outside / "f")
    storage.replace("f", b"new")
    (table / "g").symlink_to(outside / "f")
    storage.remove("g")
    assert (outside / "f").read_text() == "precious"
    assert storage.read("f") == b"new"
    with pytest.raises(FileExistsError):
        (table / "h").symlink_to(outside / "nowhere")
        storage.create("h", b"")
    assert os.listdir(outside) == ["f"]


def test_a_pipe_is_an_error_at_once(table):
    os.mkfifo(table / "pipe")
    storage = LocalStorage(table)
    with pytest.raises(OSError, match="not a regular file"):
        storage.read("pipe")
    assert storage.info("pipe") is None
    assert storage.list("") == {}


def test_a_failed_write_leaves_the_old_file_and_no_draft(table, monkeypatch):
    storage = LocalStorage(table)
    storage.replace("f", b"old")

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(local.os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        storage.replace("f", b"new")
    assert os.listdir(table) == ["f"]
    assert storage.read("f") == b"old"


def test_a_file_system_without_links_gets_a_copy(table, monkeypatch):
    storage = LocalStorage(table)
    storage.create("f", b"x")
    link = os.link

    def refused(source, *args, **kwargs):
        if source == "f":
            raise OSError(errno.EPERM, "Operation not permitted")
        return link(source, *args, **kwargs)

    monkeypatch.setattr(local.os, "link", refused)
    storage.link_or_copy("f", "g")
    assert storage.read("g") == b"x"
    assert os.stat(table / "g").st_nlink == 1


#: Copies a file under a limit of size that ends the copy in the middle, as a full disk does; prints what is left.
COPY_UNDER_A_LIMIT = """
import os, resource, signal, sys
from pathlib import Path
from etc_policy.storage.local import LocalStorage
from etc_policy.storage.shared_file import change_shared
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
try:
    LocalStorage(Path(sys.argv[1])).copy("p/f", "p/.g")
except OSError:
    print(sorted(os.listdir(sys.argv[1] + "/p")))
"""


def test_a_copy_that_the_disk_has_no_room_for_leaves_nothing(table):
    storage = LocalStorage(table)
    storage.create("p/f", b"x" * (2 << 20))
    (table / "p" / ".etc-copy-00000000").write_bytes(b"another's")
    done = subprocess.run([sys.executable, "-c", COPY_UNDER_A_LIMIT, str(table)], capture_output=True, text=True)
    assert done.stdout.strip() == "['.etc-copy-00000000', 'f']", done.stderr
    storage.copy("p/f", "p/.g")
    assert storage.read("p/.g") == storage.read("p/f")


def test_what_a_killed_copy_left_is_overwritten(table):
    storage = LocalStorage(table)
    storage.create("p/f", b"x")
    (table / "p" / f".etc-copy-{crc32(b'.g'):08x}").write_bytes(b"half of a longer one")
    storage.copy("p/f", "p/.g")
    assert storage.read("p/.g") == b"x"
    assert sorted(os.listdir(table / "p")) == [".g", "f"]


@pytest.mark.parametrize(
    "write",
    [
        lambda table: change_shared(str(table), ".hoodie/.etc/done.json", lambda _: b"{}"),
        lambda table: change_shared(str(table), "notified.json", lambda _: b"{}"),
        lambda table: LocalStorage(table).replace("f", b"content"),
        lambda table: file_lock._note_takers(table, ["0" * 32]),
    ],
    ids=["done", "notified", "replace", "takers"],
)
def test_what_replaces_a_record_is_on_disk_before_it_has_its_name(table, monkeypatch, write):
    """Else a loss of power leaves an empty file: each event would be sent again, or a dead run's lock be nobody's."""
    on_disk, renamed, sync, rename = set(), [], os.fsync, os.replace

    def note_sync(number):
        sync(number)
        found = os.fstat(number)
        on_disk.add((found.st_ino, found.st_size))

    def note_rename(source, target, **folders):
        found = os.stat(source, dir_fd=folders["src_dir_fd"])
        renamed.append((found.st_ino, found.st_size))
        rename(source, target, **folders)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "replace", note_rename)
    write(table)
    assert renamed
    assert renamed[-1][1]
    assert set(renamed) <= on_disk
