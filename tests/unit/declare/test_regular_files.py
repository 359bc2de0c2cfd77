"""Files that somebody else may have put there."""

import os

import pytest

from etc_policy.declare.regular_files import open_regular, read_regular


def test_a_regular_file_is_read_also_through_a_link(tmp_path):
    (tmp_path / "f").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("f")
    assert read_regular(tmp_path / "f") == read_regular(tmp_path / "link", 3) == b"abc"


def test_a_sparse_file_is_refused_before_it_is_in_memory(tmp_path):
    (tmp_path / "f").touch()
    os.truncate(tmp_path / "f", 1 << 40)
    with pytest.raises(OSError, match="larger than the 67,108,864 bytes"):
        read_regular(tmp_path / "f")


def test_a_pipe_or_a_folder_is_an_error_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(OSError, match="not a regular file"):
            open_regular(path)


def test_no_file_stays_open(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(OSError):
            read_regular(tmp_path / "pipe")
    assert len(os.listdir("/proc/self/fd")) == before
