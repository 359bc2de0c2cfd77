"""Where outputs may lead: links, pipes and devices that the user named, links that somebody has put below a folder of ours."""

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from etc_policy.storage.files import append_named, create_below, remove_below, write_below, write_named


@pytest.fixture
def outside(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "f").write_text("precious")
    return tmp_path / "outside"


def _read_pipe(path, found):
    with open(path, "rb") as pipe:
        found.append(pipe.read())


@pytest.mark.parametrize("write", [write_named, append_named])
def test_a_device_stays_a_device_behind_a_link_too(tmp_path, write):
    """A terminal is a device that anybody can make."""
    master, terminal = os.openpty()
    link = tmp_path / "link"
    link.symlink_to(os.ttyname(terminal))
    write(link, b"content")
    assert os.read(master, 100) == b"content"
    assert link.is_symlink()
    assert stat.S_ISCHR(link.stat().st_mode)
    assert os.listdir(tmp_path) == ["link"]
    os.close(terminal)
    os.close(master)


def test_the_target_of_a_link_is_replaced_in_one_step_and_keeps_its_permissions(tmp_path, outside):
    (outside / "f").chmod(0o600)
    before = (outside / "f").stat().st_ino
    (tmp_path / "link").symlink_to("outside/f")
    write_named(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (outside / "f").read_bytes() == b"new"
    assert (outside / "f").stat().st_ino != before
    assert stat.S_IMODE((outside / "f").stat().st_mode) == 0o600
    assert os.listdir(outside) == ["f"]


def test_a_link_that_leads_nowhere_yet_and_one_that_leads_to_itself(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "new" / "f")
    write_named(tmp_path / "link", b"new")
    assert (tmp_path / "new" / "f").read_bytes() == b"new"
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(OSError, match="symbolic links"):
        write_named(tmp_path / "circle", b"new")
    assert (tmp_path / "circle").is_symlink()


def test_an_open_file_is_written_where_it_is_and_goes_on(tmp_path):
    """As `--out /dev/stdout` with standard output in a file."""
    with open(tmp_path / "f", "wb", buffering=0) as file:
        file.write(b"before ")
        write_named(Path(f"/proc/self/fd/{file.fileno()}"), b"content")
        file.write(b" after")
    assert (tmp_path / "f").read_bytes() == b"before content after"
    with pytest.raises(OSError, match="Bad file descriptor"):
        write_named(Path("/proc/self/fd/9999"), b"content")


def test_an_equal_file_is_left_as_it_is(tmp_path):
    write_named(tmp_path / "f", b"same")
    write_below(tmp_path, "g", b"same")
    before = [(tmp_path / name).stat().st_ino for name in "fg"]
    write_named(tmp_path / "f", b"same")
    write_below(tmp_path, "g", b"same")
    assert [(tmp_path / name).stat().st_ino for name in "fg"] == before


def test_nothing_below_a_folder_is_written_or_removed_through_a_link(tmp_path, outside):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "f").symlink_to(outside / "f")
    (folder / "sub").symlink_to(outside)
    write_below(folder, "f", b"new")
    assert not (folder / "f").is_symlink()
    for step in (lambda: write_below(folder, "sub/f", b"new"), lambda: remove_below(folder, "sub/f")):
        with pytest.raises(OSError):
            step()
    assert (outside / "f").read_text() == "precious"
    assert os.listdir(outside) == ["f"]


def test_what_is_there_is_not_made_anew_and_no_link_is_followed(tmp_path, outside):
    (tmp_path / "here").write_text("old")
    (tmp_path / "link").symlink_to(outside / "f")
    (tmp_path / "loose").symlink_to(outside / "x")
    for name in ("here", "link", "loose"):
        with pytest.raises(FileExistsError):
            create_below(tmp_path, name, b"new")
    (tmp_path / "sub").symlink_to(outside)
    with pytest.raises(OSError):
        create_below(tmp_path, "sub/new", b"new")
    assert (os.listdir(outside), (outside / "f").read_text(), (tmp_path / "here").read_text()) == (
        ["f"],
        "precious",
        "old",
    )


@pytest.mark.parametrize("name", ["../f", "/f", "sub/../../f", "a\0b", ""])
def test_no_name_leads_out_of_the_folder(tmp_path, outside, name):
    for step in (lambda: write_below(outside / "x", name, b"new"), lambda: remove_below(outside, name)):
        with pytest.raises(ValueError, match="not a path below"):
            step()
    assert (outside / "f").read_text() == "precious"


@pytest.mark.parametrize(
    ("write", "old"),
    [("write_named(Path(sys.argv[1])", b"old"), ("create_below(Path(sys.argv[1]).parent, 'f'", None)],
)
def test_a_disk_that_is_full_leaves_the_old_file_and_no_draft(tmp_path, write, old):
    """A limit on the size of files fails the write itself, as a full disk does."""
    if old is not None:
        write_named(tmp_path / "f", old)
    script = tmp_path / "script.py"
    script.write_text(
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from etc_policy.storage.files import create_below, write_named\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        f"try:\n    {write}, b'x' * 100_000)\n"
        "except OSError as error:\n    print(error.errno)\n"
    )
    done = subprocess.run([sys.executable, script, tmp_path / "f"], capture_output=True, text=True, check=True)
    assert done.stdout == f"{errno.EFBIG}\n"
    assert sorted(os.listdir(tmp_path)) == (["script.py"] if old is None else ["f", "script.py"])
    assert old is None or (tmp_path / "f").read_bytes() == old


def test_names_as_long_as_file_systems_take_them(tmp_path):
    name = "n" * 255
    write_below(tmp_path, name, b"x")
    assert os.listdir(tmp_path) == [name]
