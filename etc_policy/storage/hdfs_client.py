"""Connections to HDFS through hdfs-native. Each request ends in time: the client itself waits for ever for a hanging NameNode."""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice
from typing import BinaryIO, NamedTuple, TypeVar

from hdfs_native import Client, FileStatus

from etc_policy.errors import TableError
from etc_policy.errors.codes import Code
from etc_policy.policy.project_schema import StorageSettings
from etc_policy.storage.listings import ListingBounds
from etc_policy.storage.port import Requests, StoreRefusedError, StoreUnreachableError
from etc_policy.storage.remote_files import open_ranges

T = TypeVar("T")

_DEFAULT_PORT = 8020
#: A refused connection is tried so often within the time of a request, after pauses that grow from the first one.
_TRIES, _FIRST_PAUSE_MS = 8, 200
#: Between two requests of which the first one's answer was lost.
_PAUSE_SECONDS = 0.2
#: Entries of a listing that are asked for in one request's time.
_PAGE = 1000
_BUFFER_BYTES = 1 << 20
#: So long a file may be shorter for a reader than the NameNode says: its last block is not yet reported.
_SETTLE_SECONDS, _SETTLE_PAUSE_SECONDS = 5.0, 0.1
_RPC = re.compile(r"(?:Fatal)?RPCError\(\"(?P<name>[\w.$]+)\", \"(?P<words>.*)", re.DOTALL)
#: A NameNode's words end where its stack begins.
_STACK = re.compile(r"\\n|\n")
#: What a cluster says while it starts, fails over or has lost machines; and what the client says of a connection.
_AWAY = re.compile(
    r"SafeMode|StandbyException|RetriableException|ObserverRetryOnActiveException|RetryStartFileException|LeaseExpired"
    r"|NotReplicatedYet|minReplication|IOError\(|OperationFailed\(|BlocksNotFound|DataTransferError|Timeout"
)
_NOT_A_FOLDER = ("ParentNotDirectoryException", "PathIsNotDirectoryException")
_MAX_WORDS = 400


class HdfsPlace(NamedTuple):
    """A location taken apart; without an authority it is `fs.defaultFS` of Hadoop's configuration."""

    authority: str
    path: str


def parse_hdfs(location: str) -> HdfsPlace:
    """The cluster of a location, and the whole path there.

    Raises:
        TableError: it names no folder.

    """
    authority, _, path = location.removeprefix("hdfs://").partition("/")
    parts = [part for part in path.split("/") if part]
    if not parts or any(part in (".", "..") for part in parts):
        hint = "write `hdfs://HOST:PORT/FOLDER`, or `hdfs://NAMESERVICE/FOLDER`"
        raise TableError(Code.NOT_LOCAL, f"`{location}` names no folder on HDFS", hint=hint)
    return HdfsPlace(authority, "/" + "/".join(parts))


class HdfsClient:
    """A cluster as one table sees it; `location` is for messages."""

    def __init__(self, client: Client, requests: Requests, location: str, seconds: float) -> None:
        self._client, self._requests, self._seconds = client, requests, seconds
        self.location = location

    def ask(self, request: Callable[[Client], T], path: str = "") -> T:
        """What a request returns that may be made again; `path` is what it is about, below the table.

        Raises:
            FileNotFoundError: there is no such file.
            StoreUnreachableError: the cluster did not answer in time.
            StoreRefusedError: it will not do it.

        """
        return self.repeat(lambda: self.ask_once(request, path))

    def ask_once(self, request: Callable[[Client], T], path: str) -> T:
        """The same for a request that is not made again: what became of it without an answer is to be seen by other means.

        hdfs-native makes readings again by itself, and raises for a change whose answer was lost.
        """
        with hdfs_errors(self.location, path):
            return self._in_time(lambda: request(self._client))

    def repeat(self, step: Callable[[], T]) -> T:
        """What a step returns, which is done again where it fails soon: hdfs-native itself tries to connect for longer."""
        end = time.monotonic() + self._seconds / 2
        while True:
            try:
                return step()
            except StoreUnreachableError:
                if time.monotonic() + _PAUSE_SECONDS > end:
                    raise
            time.sleep(_PAUSE_SECONDS)

    def bounds(self) -> ListingBounds:
        """What one listing may take."""
        return ListingBounds(self.location, self._seconds)

    def entries(self, folder: str, path: str, bounds: ListingBounds, *, recursive: bool = False) -> list[FileStatus]:
        """What is in a folder, and with `recursive` below it; `path` is for messages. A file is an entry of itself."""
        return self.repeat(lambda: [*self._pages(folder, path, bounds, recursive)])

    def _pages(self, folder: str, path: str, bounds: ListingBounds, recursive: bool) -> Iterator[FileStatus]:
        found = self.ask_once(lambda client: client.list_status(folder, recursive), path)
        while page := self.ask_once(lambda _: list(islice(found, _PAGE)), path):
            try:
                bounds.count(one.path for one in page)
            except TimeoutError as error:
                raise unanswered(self.location, str(error.strerror)) from error
            yield from page

    def _in_time(self, request: Callable[[], T]) -> T:
        try:
            return self._requests.in_time(lambda: _without_panic(request), self._seconds)
        except TimeoutError as error:
            raise unanswered(self.location, f"no answer within {self._seconds:g} s") from error


def _without_panic(request: Callable[[], T]) -> T:
    try:
        return request()
    except Exception:
        raise
    except BaseException as error:  # a panic of the client's Rust code
        raise OSError(f"hdfs-native broke off: {error}") from error


def open_hdfs(location: str, settings: StorageSettings) -> HdfsClient:
    """The cluster of a location; nothing is asked of it yet.

    Raises:
        TableError: the location, or Hadoop's configuration, names no NameNode.

    """
    variables = tuple((name, value) for name, value in sorted(os.environ.items()) if name.startswith("HADOOP_"))
    seconds = settings.timeout / 1000
    try:
        client, requests = _connect(parse_hdfs(location).authority, seconds, variables)
    except (RuntimeError, OSError, ValueError) as error:
        message = f"no NameNode is known for `{location}`"
        hint = (
            "set HADOOP_CONF_DIR to the folder of core-site.xml and hdfs-site.xml, or write `hdfs://HOST:PORT/FOLDER`"
        )
        raise TableError(Code.NO_NAMENODE, message, hint=hint, cause=str(error)[:400]) from error
    return HdfsClient(client, requests, location, seconds)


@lru_cache(maxsize=32)
def _connect(authority: str, seconds: float, variables: tuple[tuple[str, str], ...]) -> tuple[Client, Requests]:
    """A client, whose connections tables share, and the requests made by it.

    It reads Hadoop's configuration, and the name of the user, from `variables`.
    """
    pause_ms = max(1, int(seconds * 1000 / _TRIES))
    settings = {
        "dfs.client.failover.max.attempts": str(_TRIES),
        "dfs.client.failover.sleep.base.millis": str(min(_FIRST_PAUSE_MS, pause_ms)),
        "dfs.client.failover.sleep.max.millis": str(pause_ms),
    }
    try:
        return Client(f"hdfs://{authority}", settings), Requests()
    except RuntimeError as error:
        if ":" in authority or "No NameNode hosts found" not in str(error):
            raise
    return Client(f"hdfs://{authority}:{_DEFAULT_PORT}", settings), Requests()


def open_hdfs_file(client: HdfsClient, whole_path: str, path: str, size: int) -> BinaryIO:
    """A file, seekable, of which the NameNode says that it has so many bytes; `path` is for messages.

    hdfs-native leaves out the last block of a file until a DataNode has reported it, and all of a file without one seems empty.
    """
    end = time.monotonic() + _SETTLE_SECONDS
    while True:
        reader = client.ask(lambda one: one.read(whole_path), path)
        if len(reader) >= size:
            break
        if time.monotonic() > end:
            raise OSError(
                f"`{client.location}/{path}` has {size} bytes of which {len(reader)} can be read: it is being written"
            )
        time.sleep(_SETTLE_PAUSE_SECONDS)
        size = client.ask(lambda one: one.get_file_info(whole_path), path).length  # another file may have its name now

    def get(start: int, stop: int) -> bytes:
        try:
            content = client.ask(lambda _: reader.read_range(start, stop - start), path)
        except StoreUnreachableError:
            client.ask(lambda one: one.get_file_info(whole_path), path)  # its blocks go with it
            raise
        if len(content) != stop - start:
            raise OSError(f"`{client.location}/{path}` was cut off while it was read")
        return content

    return open_ranges(len(reader), get, _BUFFER_BYTES)


@contextmanager
def hdfs_errors(location: str, path: str = "") -> Iterator[None]:
    """Whatever hdfs-native raises, as OSError; FileNotFoundError and FileExistsError where they are meant.

    Where a connection fails it raises OSError, and for all else that a NameNode or DataNode says a RuntimeError with the name
    of its Java class.

    Raises:
        StoreUnreachableError: another try may succeed.
        StoreRefusedError: it will not.

    """
    place = f"{location}/{path}".rstrip("/")
    try:
        yield
    except (StoreUnreachableError, StoreRefusedError):
        raise
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, "there is no such file or folder", place) from error
    except FileExistsError as error:
        raise FileExistsError(errno.EEXIST, "the file exists", place) from error
    except (OSError, RuntimeError, NotImplementedError) as error:
        raise _as_store_error(error, location, place) from error


def unanswered(location: str, words: str) -> StoreUnreachableError:
    """The error to raise where a cluster does not answer."""
    hint = "run it again; if it goes on, check the NameNode's address in `table`, or HADOOP_CONF_DIR for a nameservice"
    message = f"the HDFS cluster of `{location}` does not answer"
    return StoreUnreachableError(Code.HDFS_UNREACHABLE, message, hint=hint, cause=words)


def _as_store_error(error: Exception, location: str, place: str) -> OSError:
    found = _RPC.match(str(error))
    name, words = (found["name"].rpartition(".")[2], found["words"]) if found else ("", str(error))
    said = _STACK.split(words)[0].replace('\\"', '"')[:_MAX_WORDS]
    if name in _NOT_A_FOLDER:
        return NotADirectoryError(errno.ENOTDIR, "there is a file where a folder is needed", place)
    forbidden = name == "AccessControlException"  # its words name the folder, which may be called anything
    if isinstance(error, OSError) or (not forbidden and _AWAY.search(f"{name} {said}")):
        return unanswered(location, said)
    if forbidden:
        hint = "check the permissions there, and as which user `etc` acts: HADOOP_USER_NAME, or the Kerberos ticket"
    else:
        hint = "look at the cluster's own words below the error"
    message = f"the HDFS cluster of `{location}` refuses a request"
    return StoreRefusedError(Code.HDFS_REFUSES, message, hint=hint, cause=f"{name}: {said}".removeprefix(": "))
