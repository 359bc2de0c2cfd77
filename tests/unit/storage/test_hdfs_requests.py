"""What is asked of a NameNode, seen by a client that plays one: how often, and what its answers are taken for."""

import subprocess
import sys
import threading
from itertools import count
from types import SimpleNamespace

import pytest

from etc_policy.errors import ExitCode
from etc_policy.storage import hdfs_client, hdfs_storage, listings, object_tree
from etc_policy.storage.hdfs_client import HdfsClient, hdfs_errors
from etc_policy.storage.hdfs_storage import HdfsStorage, replace_version
from etc_policy.storage.port import MOST_REQUESTS, Requests, StoreUnreachableError


def status(path, length=None):
    return SimpleNamespace(path=path, isdir=length is None, length=length or 0, modification_time=1)


class Reader:
    def __init__(self, content, ranges):
        self._content, self._ranges = content, ranges

    def __len__(self):
        return len(self._content)

    def read_range(self, start, length):
        if self._content is None:
            raise RuntimeError('DataTransferError("All DataNodes failed: []")')
        self._ranges.append(length)
        return self._content[start : start + length]


class NameNode:
    """Files by their whole path; a listing that comes to `vanishing` fails once, as if a folder went meanwhile."""

    def __init__(self, files, vanishing=None):
        self.files, self.vanishing = files, vanishing
        self.listed, self.ranges, self.sizes = [], [], []

    def get_file_info(self, path):
        if path in self.files:
            return status(path, self.sizes.pop(0) if self.sizes else len(self.files[path]))
        if self._folders(path):
            return status(path)
        raise FileNotFoundError(path)

    def list_status(self, folder, recursive):
        self.listed.append((folder, recursive))
        if not self._folders(folder):
            raise FileNotFoundError(folder)
        for path, content in self.files.items():
            if path.startswith(f"{folder}/") and (recursive or "/" not in path[len(folder) + 1 :]):
                yield status(path, len(content))
        if not recursive:
            yield from (status(f"{folder}/{name}") for name in self._folders(folder) - {""})
        if recursive and self.vanishing is not None and f"{self.vanishing}/".startswith(f"{folder}/"):
            self.vanishing = None
            raise FileNotFoundError(folder)

    def read(self, path):
        self.reader = Reader(self.files[path], self.ranges)
        return self.reader

    def _folders(self, folder):
        """The names of the folders in a folder, and an empty one where it has a file."""
        below = [path[len(folder) + 1 :] for path in self.files if path.startswith(f"{folder}/")]
        return {name.partition("/")[0] if "/" in name else "" for name in below}


def storage_on(namenode):
    return HdfsStorage(HdfsClient(namenode, Requests(), "hdfs://n:1/t", 5.0), "/t")


def test_a_file_that_is_read_ahead_takes_few_requests():
    namenode = NameNode({"/t/f": bytes(range(256)) * 8_192})
    storage = storage_on(namenode)
    storage.expect({"f": 2 << 20})
    assert storage.read("f") == namenode.files["/t/f"]
    with storage.open("f") as opened:
        assert opened.read() == namenode.files["/t/f"]
    assert namenode.ranges == [2 << 20, 2 << 20]


def test_a_folder_that_goes_while_it_is_listed_hides_none_of_the_others():
    markers = "/t/.hoodie/.temp/1"
    storage = storage_on(NameNode({f"{markers}/c/f.marker.CREATE": b""}, f"{markers}/d"))
    assert list(storage.below(".hoodie/.temp/1")) == [".hoodie/.temp/1/c/f.marker.CREATE"]
    assert list(storage.below(".hoodie/.temp/2")) == []


@pytest.mark.parametrize("name", ["f{}", "f"])
def test_a_listing_without_end_is_an_error(name, monkeypatch):
    monkeypatch.setattr(listings, "_MOST_ENTRIES", 20_000)
    namenode = NameNode({"/t/p=1/f": b"x"})
    namenode.list_status = lambda folder, _: (status(f"{folder}/{name.format(number)}") for number in count())
    storage = storage_on(namenode)
    for step in (lambda: storage.names("p=1"), lambda: list(storage.below("p=1")), lambda: storage.tree().read()):
        with pytest.raises(OSError, match="beyond those of any table"):
            step()


def test_a_listing_that_takes_too_long_is_an_error(monkeypatch):
    monkeypatch.setattr(listings, "_WHOLE_REQUESTS", 0)
    with pytest.raises(StoreUnreachableError, match="the listing does not end"):
        storage_on(NameNode({"/t/p=1/f": b"x"})).names("p=1")


def test_so_it_is_in_a_partition():
    storage = storage_on(NameNode({"/t/p=1/f": b"x", "/t/p=2/q=1/f": b"x"}, "/t/p=2/q=2"))
    with storage.tree() as tree:
        assert tree.read() == {"": {}, "p=1": {"f": 1}, "p=2/q=1": {"f": 1}}


def test_a_file_that_is_larger_than_one_that_is_read_ahead_is_not_held_in_memory(monkeypatch):
    """Of files on the timeline the size is not known before they are opened."""
    monkeypatch.setattr(hdfs_storage, "_MAX_AHEAD_BYTES", 1 << 20)
    namenode = NameNode({"/t/f": b"x" * (8 << 20)})
    storage = storage_on(namenode)
    storage.expect({"f": 0})
    with pytest.raises(OSError, match="larger than"):
        storage.read("f", 2 << 20)
    assert max(namenode.ranges) <= 3 << 20


def test_the_table_is_listed_without_the_folder_of_hudi(monkeypatch):
    """A writer makes and removes folders there all the time, and each is a request."""
    monkeypatch.setattr(object_tree, "_MANY_FOLDERS", 3)
    files = {f"/t/p={number}/f": b"x" for number in range(5)}
    namenode = NameNode({**files, "/t/.hoodie/.temp/1/p=0/f.marker.CREATE": b""}, "/t/.hoodie/.temp/1/p=0")
    with storage_on(namenode).tree() as tree:
        assert tree.read() == {"": {}, **{f"p={number}": {"f": 1} for number in range(5)}}
    assert {folder for folder, recursive in namenode.listed if recursive} == {f"/t/p={number}" for number in range(5)}


def test_a_file_that_is_replaced_by_a_shorter_one_while_it_is_opened():
    namenode = NameNode({"/t/f": b"short"})
    namenode.sizes = [100]
    assert storage_on(namenode).read("f") == b"short"


@pytest.mark.parametrize(("stays", "error"), [(True, StoreUnreachableError), (False, FileNotFoundError)])
def test_a_file_whose_blocks_are_gone_with_it_is_no_outage(monkeypatch, stays, error):
    monkeypatch.setattr(hdfs_client, "_PAUSE_SECONDS", 10)
    namenode = NameNode({"/t/f": b"content", "/t/g": b""})
    opened = storage_on(namenode).open("f")
    namenode.reader._content = None
    if not stays:
        del namenode.files["/t/f"]
    with pytest.raises(error):
        opened.read(1)


@pytest.mark.parametrize("folder", ["SessionTimeout", "LeaseExpired", "SafeMode"])
def test_no_right_is_no_outage_whatever_the_folder_is_called(folder):
    text = (
        'RPCError("org.apache.hadoop.security.AccessControlException", "Permission denied: user=a, access=WRITE, '
        f'inode=\\"/{folder}\\":hdfs:hdfs:drwxr-xr-x")'
    )
    with pytest.raises(OSError, match="refuses a request") as error, hdfs_errors(f"hdfs://n:1/{folder}"):
        raise RuntimeError(text)
    assert (error.value.code, error.value.exit_code) == ("ETC457", ExitCode.ENGINE)


def test_a_version_that_is_gone_before_its_answer_comes_was_replaced():
    def gone(path, content):
        raise FileNotFoundError(path)

    assert replace_version(SimpleNamespace(create=gone), "d", b"x", "3") is None


def test_requests_without_an_answer_leave_a_bounded_number_of_threads():
    requests, answer = Requests(), threading.Event()
    before = threading.active_count()
    for _ in range(3 * MOST_REQUESTS):
        with pytest.raises(TimeoutError):
            requests.in_time(answer.wait, 0.001)
    assert threading.active_count() - before == MOST_REQUESTS
    answer.set()
    assert requests.in_time(lambda: 7, 10) == 7


PROCESS = """
import atexit, runpy, sys, threading
from etc_policy.storage.port import REQUEST_THREAD
threading.Thread(target=threading.Event().wait, daemon=True, name=REQUEST_THREAD).start()
atexit.register(print, "Python ended")
module, sys.argv = sys.argv[1], ["etc", *sys.argv[2:]]
runpy.run_module(module, run_name="__main__")
"""


@pytest.mark.parametrize(
    ("module", "arguments", "code"),
    [("main", ["--version"], 0), ("main", ["plan", "--nope"], 64)],
)
def test_a_command_that_leaves_a_request_behind_ends_with_its_own_code(tmp_path, module, arguments, code):
    """When Python ends, it ends such a thread within hdfs-native's code, which aborts the process (exit code 134)."""
    script = tmp_path / "process.py"
    script.write_text(PROCESS)
    done = subprocess.run(
        [sys.executable, str(script), f"etc_policy.cli.{module}", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, "Python ended" in done.stdout) == (code, False)
    assert done.stdout.startswith("etc ") if code == 0 else "error[ETC001]" in done.stderr
