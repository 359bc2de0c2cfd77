"""What is asked of the place where a table lies, and how it fails. Paths are below the table, with `/` between their parts."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import BinaryIO, Literal, NamedTuple, Protocol, TypeVar

from etc_policy.errors import EngineError, EtcError, RetryableError, TableError
from etc_policy.errors.codes import Code

#: Bytes by file name of each folder, by the folder's path; the table's own folder is the empty path.
Tree = Mapping[str, dict[str, int]]

#: Hudi's own folder, the only one in which it looks for no partitions: the value of a partition may begin with a dot.
OWN_FOLDER = ".hoodie"

T = TypeVar("T")

#: The name of threads that ask a server and may never return: see `etc_policy/cli/main.py`.
REQUEST_THREAD = "store request"
#: So many requests of one server may have no answer at a time. More of them wait for their turn, and time out in it.
MOST_REQUESTS = 32

#: No file that is read whole is larger: a commit of a million files.
MAX_READ_BYTES = 256 << 20
#: Nor is a record of etc beside a table: as JSON it may take thirty times as much memory.
MAX_VERSION_BYTES = 32 << 20


class Requests:
    """Requests to one server, each of which ends in time, though what it calls may never return.

    A request that has run out of time goes on in its thread until the server answers or closes the connection.
    """

    def __init__(self) -> None:
        self._free = threading.BoundedSemaphore(MOST_REQUESTS)

    def in_time(self, request: Callable[[], T], seconds: float) -> T:
        """What the request returns or raises.

        Raises:
            TimeoutError: it took longer.

        """
        answer: Future[T] = Future()
        end = time.monotonic() + seconds
        if not self._free.acquire(timeout=seconds):
            raise TimeoutError

        def run() -> None:
            try:
                answer.set_result(request())
            except BaseException as error:
                answer.set_exception(error)
            finally:
                self._free.release()

        threading.Thread(target=run, daemon=True, name=REQUEST_THREAD).start()
        return answer.result(max(0.0, end - time.monotonic()))


class FileInfo(NamedTuple):
    """A file as its storage lists it, with times in nanoseconds since the epoch, as fine as the storage keeps them.

    `changed_ns` is when the storage itself says that the file came to be as it is, which no writer chooses but on HDFS.
    """

    size_bytes: int
    modified_ns: int
    changed_ns: int


class Version(NamedTuple):
    """A file as it was at one moment; the tag names this version, and the time is the storage's own."""

    content: bytes
    tag: str | None
    modified_ns: int


class TreeLister(Protocol):
    """Lists every folder of a table but Hudi's own, once, as a context; hidden folders and files are listed."""

    def __enter__(self) -> TreeLister:
        """Nothing is listed yet."""

    def __exit__(self, *_: object) -> None:
        """End what was begun."""

    def begin(self) -> None:
        """From now on a storage that is far away lists beside other work: no file is missed that is there by now."""

    def read(self) -> Tree:
        """What is listed, of this moment or later than `begin`.

        Raises:
            OSError: a folder cannot be read.

        """


#: What is no plain file or folder: a link; a pipe, a socket or a device.
Irregular = Literal["link", "special"]


class TableReader(Protocol):
    """A table's files to read: who has only this changes nothing.

    Every method raises OSError with the storage's own words; FileNotFoundError where a path is missing.
    A path that leads out of the table is a ValueError. What is read must be a regular file that is reached by no link below the
    table's folder: a link, a device or a pipe is an OSError.
    """

    @property
    def location(self) -> str:
        """The table's base path, as messages show it."""

    def names(self, folder: str) -> Sequence[str]:
        """The names of all that is in a folder, in no order."""

    def list(self, folder: str) -> Mapping[str, FileInfo]:
        """The files of a folder, by name; folders are not listed."""

    def versions(self, folder: str, among: Collection[str] | None = None) -> Mapping[str, str]:
        """A text for each file of a folder, by name, that is another one once its content is; files without one are left out.

        It is that of a moment before the file is read next. A storage that is far away says what its last listing said. Of
        others than those `among`, where names are given, nothing need be said.
        """

    def below(self, folder: str) -> Iterator[str]:
        """The paths of all files below a folder, hidden ones and links too; no link is followed."""

    def find(self, folder: str, is_wanted: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
        """The path of each file below a folder whose name is wanted, with a text that no other content of it will have,
        whoever writes it; an empty one where the storage has no such text.
        """

    def tree(self) -> TreeLister:
        """Lists the table's folders, so that partitions can be found among them."""

    def info(self, path: str) -> FileInfo | None:
        """A file's size and time; None where there is no such file."""

    def read(self, path: str, max_bytes: int = MAX_READ_BYTES) -> bytes:
        """A file's whole content; OSError where it is larger."""

    def open(self, path: str) -> BinaryIO:
        """A file to read by ranges; seekable."""

    def expect(self, sizes: Mapping[str, int], *, keep: bool = False) -> None:
        """These files, with their sizes as far as known, are opened or read next, in this order.

        A storage that is far away fetches them side by side. `keep` says that a file of such a name never changes, so that
        a copy on this machine will do. It raises OSError like a reading; a file that is missing is left to its reading.
        """


class TableStorage(TableReader, Protocol):
    """A table's files, to read and to change."""

    def is_linked(self, path: str) -> bool:
        """Whether a folder on the way to a path is a link, or none, so that nothing is removed there."""

    def irregular(self, folder: str) -> Iterator[tuple[str, Irregular]]:
        """The paths below a folder of what is neither a file nor a folder; one that is missing has none."""

    def create(self, path: str, content: bytes) -> None:
        """Write a new file in one step, its folders too; FileExistsError where there is one, which stays as it is."""

    def create_from(self, path: str, content: BinaryIO, draft: str) -> None:
        """Write a new file of any size from a seekable stream, its folders too; a reader sees nothing or all of it.

        What is written first is at the path of the draft, if anywhere, and whoever is killed leaves it there. FileExistsError
        where there is a file; both paths are for this writer alone.
        """

    def replace(self, path: str, content: bytes) -> None:
        """Write a file in one step, its folders too: a reader sees the old content or the new one."""

    def hard_link(self, source: str, target: str) -> None:
        """Give a file a second name; FileExistsError where the target exists, another OSError where there are no links."""

    def copy(self, source: str, target: str) -> None:
        """Copy a file within the storage; a reader sees nothing or all of it. FileExistsError where the target exists."""

    def link_or_copy(self, source: str, target: str) -> None:
        """Give a file a second name, or where the storage has no links a copy; FileExistsError where the target exists."""

    def remove(self, path: str) -> None:
        """Remove a file, or a link and not what it leads to; one that is missing is no error."""

    def remove_tree(self, folder: str) -> None:
        """Remove a folder and all that is in it, following no link; one that is missing is no error."""


class RemoteStorage(TableStorage, Protocol):
    """A storage that machines share, with documents that only one of many writers replaces: a lease rests on them.

    A document is not a file for the other methods.
    """

    @property
    def orders_writers(self) -> bool:
        """Whether the storage is known to let one writer win, so that nobody has to try it out."""

    def version(self, path: str) -> Version | None:
        """A document as it is now; None where it is missing, OSError where it is larger than any of etc's."""

    def replace_version(self, path: str, content: bytes, tag: str | None) -> str | None:
        """Replace a document if it still is the version of that tag, or write the first one where the tag is None.

        The new version's tag, or None where there is another. The content must differ from all that were ever there.
        """

    def remove_versions(self, path: str) -> None:
        """Remove a document; one that is missing is no error."""


def too_large(max_bytes: int, place: str) -> OSError:
    """The error of a file that is larger than what is read (EFBIG)."""
    return OSError(errno.EFBIG, f"the file is larger than the {max_bytes:,} bytes that are read", place)


def read_at_most(opened: BinaryIO, max_bytes: int, place: str) -> bytes:
    """All of a file.

    Raises:
        OSError: it is larger than `max_bytes` (EFBIG).

    """
    content = opened.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise too_large(max_bytes, place)
    return content


class StoreUnreachableError(RetryableError, OSError):
    """The store did not answer, or only that it is too busy. For who works with files it is an OSError, else an error of etc."""


class StoreRefusedError(TableError, OSError):
    """The store answered, and will not do it; an OSError too."""


class BadNameError(StoreRefusedError):
    """An object has a name that is no path, so that nothing is listed that is beside it."""


class NamesBeside(NamedTuple):
    """What is in such a folder: the names that can be parts of a path, and how many cannot."""

    names: frozenset[str]
    bad: int


@contextmanager
def os_errors_as(
    code: Code, message: str, hint: str | None = None, kind: type[EtcError] = EngineError
) -> Iterator[None]:
    """An OSError meanwhile is the cause of an error with this code and message; what a store says of itself stays as it is."""
    try:
        yield
    except EtcError:
        raise
    except OSError as error:
        raise kind(code, message, hint=hint, cause=str(error)) from error
