"""Many large files of a table, read by a process for each core that may be used where that pays.

Each is started as `python -P`, so that no file of the working directory is imported. It gets its work over a pipe, and exits when
that is closed, however the run that started it ends.
"""

from __future__ import annotations

import math
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import BinaryIO, TypeVar, cast

from etc_policy.errors import EtcError, TableError
from etc_policy.errors.codes import Code
from etc_policy.storage.open_storage import open_reader, storage_settings, use_storage_settings
from etc_policy.storage.port import TableReader

#: Beyond so many bytes in all they are shared: a process takes half a second to begin.
SHARED_BYTES = 256 * 1024 * 1024
#: A process is given files of about so many bytes at once.
_SHARE_BYTES = 16 * 1024 * 1024
#: So much memory there must be for each process.
_PROCESS_BYTES = 1024 * 1024 * 1024
#: Where Linux says how much a container or a service may use, and which of them this process is in.
_GROUPS, _OWN_GROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")

T = TypeVar("T")
#: What is read of each of some files, in their order. It can be pickled, and so can what it gives.
Read = Callable[[TableReader, "Sizes"], Iterator[tuple[str, T]]]
#: Paths below the table's base path, with the sizes that they are listed with.
Sizes = Mapping[str, int]

#: Held by the table whose files several processes read: others that are read beside it are read by one.
_SHARING = threading.Lock()


def read_by_cores(storage: TableReader, sizes: Sizes, read: Read[T]) -> Iterator[tuple[str, T]]:
    """What is read of each of the files, in their order.

    Raises:
        TableError: a process that read some was killed.
        Exception: what `read` raises.

    """
    count = min(_usable_cores(), len(sizes)) if sys.executable and sum(sizes.values()) > SHARED_BYTES else 1
    if count == 1 or not _SHARING.acquire(blocking=False):
        yield from _read_in_turn(storage, sizes, read)
        return
    try:
        yield from _read_by_processes(count, storage, sizes, read)
    finally:
        _SHARING.release()


def _usable_cores() -> int:
    """How many cores this process may use at once, and has memory for; a container sees all those of its machine."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for group in _groups():
        match _words(group, "cpu.max") or _words(group, "cpu.cfs_quota_us", "cpu.cfs_period_us"):
            case [quota, period] if quota.isdecimal():
                cores = min(cores, math.ceil(int(quota) / int(period)))
        match _words(group, "memory.max") or _words(group, "memory.limit_in_bytes"):
            case [limit] if limit.isdecimal():
                memory = min(memory, int(limit))
    return max(1, min(cores, memory // _PROCESS_BYTES))


def _groups() -> Iterator[Path]:
    """The folders with this process's limits: its own group and all above it, and where an older system has those of its root."""
    yield from (_GROUPS / "cpu", _GROUPS / "memory")
    with suppress(OSError):
        for line in _OWN_GROUP.read_text().splitlines():
            if line.startswith("0::"):
                own = Path(os.path.normpath(f"{_GROUPS}/{line[3:]}"))
                yield from (one for one in (own, *own.parents) if one.is_relative_to(_GROUPS))


def _words(group: Path, *names: str) -> list[str]:
    with suppress(OSError):
        return [word for name in names for word in (group / name).read_text().split()]
    return []


def _read_in_turn(storage: TableReader, sizes: Sizes, read: Read[T]) -> Iterator[tuple[str, T]]:
    storage.expect(sizes)
    for share in _shares(sizes):
        yield from read(storage, share)


def _read_by_processes(count: int, storage: TableReader, sizes: Sizes, read: Read[T]) -> Iterator[tuple[str, T]]:
    begun, free = pickle.dumps((storage.location, storage_settings(), read)), SimpleQueue[_Process]()
    processes = [_Process(begun) for _ in range(count)]
    for process in processes:
        free.put(process)

    def ask(share: Sizes) -> list[tuple[str, T]] | None:
        process = free.get()
        try:
            return process.read(share)
        finally:
            free.put(process)

    threads, shares = ThreadPoolExecutor(count, thread_name_prefix="by cores"), list(_shares(sizes))
    try:
        for share, found in zip(shares, threads.map(ask, shares), strict=True):
            # what a process could not read is read here, for the error that it is
            yield from found if found is not None else _read_in_turn(storage, share, read)
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.end()


def _shares(sizes: Sizes) -> Iterator[Sizes]:
    share, left = dict[str, int](), _SHARE_BYTES
    for path, size in sizes.items():
        share[path], left = size, left - size
        if left <= 0:
            yield share
            share, left = {}, _SHARE_BYTES
    if share:
        yield share


class _Process:
    """Another process that reads files of one table, for one thread at a time."""

    def __init__(self, begun: bytes) -> None:
        command, pipe = [sys.executable, "-P", "-m", __name__], subprocess.PIPE
        self._child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        self._told, self._answers = cast("BinaryIO", self._child.stdin), cast("BinaryIO", self._child.stdout)
        with suppress(OSError):  # `read` sees that it has ended
            self._tell(begun)

    def read(self, share: Sizes) -> list[tuple[str, T]] | None:
        """What is read of these files; None where one of them is an error, or another process finds no etc.

        Raises:
            TableError: the process was killed.

        """
        try:
            self._tell(pickle.dumps(share))
            found: list[tuple[str, T]] | None = pickle.load(self._answers)  # noqa: S301 - its own
        except pickle.UnpicklingError:
            return None
        except (OSError, EOFError) as error:
            signal = -self._child.wait()
            if signal <= 0:
                return None
            files = ", ".join(f"`{path}`" for path in islice(share, 3)) + (" and others" if len(share) > 3 else "")
            message = f"the process that read {files} was killed (signal {signal})"
            hint = (
                "if memory is short, let fewer processes read: `taskset` gives fewer cores, and one is begun for each"
            )
            raise TableError(Code.CANNOT_READ_TABLE, message, hint=hint) from error
        return found

    def _tell(self, content: bytes) -> None:
        self._told.write(content)
        self._told.flush()

    def end(self) -> None:
        """End it, whatever it does."""
        self._child.kill()
        for pipe in (self._told, self._answers):
            with suppress(OSError):
                pipe.close()
        self._child.wait()


def _serve(told: BinaryIO, answers: BinaryIO) -> None:
    """Read what is asked for, until nobody asks any more."""
    location, settings, read = pickle.load(told)  # noqa: S301 - from the process that began this one
    use_storage_settings(settings)
    storage = open_reader(location)
    with suppress(EOFError):
        while True:
            share: Sizes = pickle.load(told)  # noqa: S301 - from the process that began this one
            try:
                found = list(_read_in_turn(storage, share, read))
            except (EtcError, OSError):
                found = None
            pickle.dump(found, answers)
            answers.flush()


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer)
