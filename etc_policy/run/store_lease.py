"""Lease over a document on an object store or HDFS: only one of many replaces it, a thread renews it, the commit is fenced by it.

All ages are measured by the store's own clock, so that a machine whose clock is wrong takes over nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from uuid import uuid4

from etc_policy.errors import EngineError, RetryableError
from etc_policy.errors.codes import Code
from etc_policy.hudi.layout import ETC_FOLDER
from etc_policy.hudi.pending_writes import HEARTBEAT_EXPIRY_MS
from etc_policy.policy.manifest import Policy
from etc_policy.run.lease_document import MAX_VALID_SECONDS, STORE_LEASE, LeaseDocument, read_document
from etc_policy.run.lock_holder import Owner
from etc_policy.run.run_signs import HEARTBEAT_TOLERANCE_SECONDS, Progress, RunSigns, warn_of_clock
from etc_policy.storage.clocks import note_time, time_at
from etc_policy.storage.port import RemoteStorage, Version

#: Of a store that looks right one at a time and is not atomic nine rounds of ten have two winners or none.
_WRITERS, _ROUNDS = 8, 2


def require_conditional_put(storage: RemoteStorage) -> int:
    """Return if the store creates and replaces conditionally; its own time, in nanoseconds since the epoch.

    Raises:
        EngineError: it does not, so that two runs could overwrite each other's files.

    """
    for _ in range(0 if storage.orders_writers else _ROUNDS):
        with _scratch(storage) as path:
            if not _one_creates(storage, path):
                raise _unfit(storage, "created one file twice")
    with _scratch(storage) as path:
        first = storage.replace_version(path, uuid4().bytes, None)
        if not storage.orders_writers and not _one_replaces(storage, path, first):
            raise _unfit(storage, "replaced a file that had been replaced")
        last = storage.version(path)
    if last is None:
        raise _unfit(storage, "lost a file")
    return last.modified_ns


def _one_creates(storage: RemoteStorage, path: str) -> bool:
    def create(number: int) -> bool:
        return storage.replace_version(path, f"{number} {uuid4()}".encode(), None) is not None

    with ThreadPoolExecutor(_WRITERS) as pool:
        return sum(pool.map(create, range(_WRITERS))) == 1


def _one_replaces(storage: RemoteStorage, path: str, tag: str | None) -> bool:
    def replace(number: int) -> bool:
        return storage.replace_version(path, f"{number} {uuid4()}".encode(), tag) is not None

    with ThreadPoolExecutor(_WRITERS) as pool:
        return tag is not None and sum(pool.map(replace, range(_WRITERS))) == 1


@contextmanager
def _scratch(storage: RemoteStorage) -> Iterator[str]:
    """The path of a file that is gone afterwards."""
    path = f"{ETC_FOLDER}/probe-{uuid4().hex}"
    try:
        yield path
    finally:
        with suppress(OSError):
            storage.remove_versions(path)


def _unfit(storage: RemoteStorage, what: str) -> EngineError:
    message = f"the object store of `{storage.location}` cannot hold a lease: it has {what}"
    hint = "use a store with atomic conditional writes (If-None-Match and If-Match), as Amazon S3 has"
    return EngineError(Code.NO_CONDITIONAL_PUT, message, hint=hint)


#: How long a lease holds that is not renewed, and how often it is.
_VALID_SECONDS, _RENEWALS = 60.0, 4
#: Beyond its end: the times of stores have whole seconds, and their machines' clocks differ a little.
_MARGIN_SECONDS = 10.0


class StoreLease:
    """At most one `etc apply` works on a table that machines share; a lease of a dead machine ends by itself."""

    def __init__(
        self,
        storage: RemoteStorage,
        *,
        valid_seconds: float = _VALID_SECONDS,
        progress: Progress = lambda _: None,
        goes_on: Callable[[], bool] = lambda: True,
    ) -> None:
        self._storage, self._valid_seconds = storage, valid_seconds
        self._document = LeaseDocument(Owner(storage.location), valid_seconds)
        self._signs, self._progress = RunSigns(storage, progress, goes_on), progress
        self._inflight_found = ""
        self._tag: str | None = None
        self._last: LeaseDocument | None = None
        self._attempted: list[bytes] = []
        self._lock, self._done = threading.Lock(), threading.Event()
        self._care = threading.Thread(target=self._keep, daemon=True, name="table lease")

    def __enter__(self) -> StoreLease:
        """Take the lease.

        Raises:
            RetryableError: another `etc apply` works on this table, or has died so lately that it may be alive.
            EngineError: the store has no conditional put.

        """
        warn_of_clock(self._note_store_time(require_conditional_put(self._storage)), self._progress)
        found = self._storage.version(STORE_LEASE)
        if found is None:
            self._create()
        else:
            self._last, self._tag = read_document(found.content), found.tag
            self._require_free(found)
            if not self._put(self._document):
                raise self._in_use("another process")
        self._care.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Give the lease back; a run that has ended, well or not, leaves nothing to wait for."""
        self._done.set()
        self._care.join()
        with suppress(OSError), self._lock:
            self._put(self._document.renewed(ended=bool(self._document.instant), released=True))

    def has_left_lock(self, policy: Policy) -> bool:
        """Never: a table on an object store or HDFS has no lock file that etc knows."""
        return False

    def remove_left_lock(self, policy: Policy) -> bool:
        """Nothing is removed."""
        return False

    def mark(self, instant: str) -> None:
        """Write the instant into the lease: should this process die, the next holder knows whose traces it finds."""
        self._require_put(instant=instant, found=self._inflight_found, made=None)

    def note_inflight(self, instant: str) -> None:
        """Write into the lease when our inflight file was made: whoever takes the plan over makes another."""
        self._require_put(made=self._signs.inflight_made(instant))

    def wait_for_dead_run(self, instant: str, heartbeat_expiry_ms: int = HEARTBEAT_EXPIRY_MS) -> None:
        """Return once a run of `instant` has shown no sign of life for long enough; one that advances is alive.

        Raises:
            RetryableError: the run is alive.

        """
        last, self._inflight_found = self._last, self._signs.inflight_made(instant)
        was_ours = last is not None and last.is_of(instant, self._inflight_found)
        if was_ours and last is not None and last.ended:
            self._signs.remove_beat(instant)
            return
        tolerance = HEARTBEAT_TOLERANCE_SECONDS if was_ours else heartbeat_expiry_ms / 1000
        self._signs.wait_until_silent(instant, tolerance)

    def require_alive(self, instant: str) -> None:
        """Return while the lease, renewed and read now, is ours, the inflight file the one that we made, our heartbeat fresh.

        Raises:
            EngineError: one of them is lost, so another run may have taken over.

        """
        with self._lock:
            found = self._storage.version(STORE_LEASE) if self._put(self._document.renewed()) else None
            if found is None or found.content != self._document.as_bytes():  # the store may have taken long to answer
                raise self._lost()
        self._note_store_time(found.modified_ns)
        self._signs.require_own(instant, self._document.made or "")

    def _create(self) -> None:
        self._tag = self._storage.replace_version(STORE_LEASE, self._document.as_bytes(), None)
        if self._tag is None:
            raise self._in_use("another process")

    def _require_free(self, found: Version) -> None:
        """Return if nobody has the lease, or whoever has it did not renew it in time."""
        last = self._last
        if last is not None and (last.released or last.owner.is_gone_here):
            return
        valid_seconds = (last.valid_seconds if last is not None else 0) or MAX_VALID_SECONDS
        left = found.modified_ns / 1e9 + valid_seconds + _MARGIN_SECONDS - time_at(self._storage.location)
        if left > 0:
            raise self._in_use(str(last.owner) if last is not None else "an unknown process", left)

    def _require_put(self, **changed: str | None) -> None:
        """Renew the lease, with these changes.

        Raises:
            EngineError: it is lost.
            StoreUnreachableError: the store does not answer.

        """
        with self._lock:
            if not self._put(self._document.renewed(**changed)):
                raise self._lost()

    def _lost(self) -> EngineError:
        message = f"this run's lease of `{self._storage.location}` was lost; nothing was committed"
        return EngineError(
            Code.RUN_TAKEN_OVER, message, hint="another `etc apply` has taken over; run the same command again"
        )

    def _put(self, document: LeaseDocument) -> bool:
        """Whether the document has replaced the version that we know; the lease is lost where it has not.

        A version that the store has kept without an answer is ours too.
        """
        if self._tag is None:
            return False
        content, tag = document.as_bytes(), self._tag
        self._attempted.append(content)
        self._tag = None
        try:
            self._tag = self._storage.replace_version(STORE_LEASE, content, tag)
            if self._tag is None and len(self._attempted) > 1:
                found = self._storage.version(STORE_LEASE)
                if found is not None and found.tag is not None and found.content in self._attempted:
                    self._tag = self._storage.replace_version(STORE_LEASE, content, found.tag)
        except OSError:
            self._tag = tag  # what became of it is seen the next time
            raise
        if self._tag is not None:
            self._document, self._attempted = document, []
        return self._tag is not None

    def _keep(self) -> None:
        """Renew the lease until it is given back or lost; a store that does not answer is tried again."""
        while not self._done.wait(self._valid_seconds / _RENEWALS):
            with suppress(OSError), self._lock:
                if not self._put(self._document.renewed()):
                    return

    def _note_store_time(self, modified_ns: int) -> float:
        return note_time(self._storage.location, modified_ns / 1e9)

    def _in_use(self, who: str, left_seconds: float = 0.0) -> RetryableError:
        message = f"another `etc apply` is working on `{self._storage.location}`: {who}"
        ends = f", or for its lease to end in {left_seconds:.0f} s if it has died" if left_seconds else ""
        return RetryableError(Code.TABLE_IN_USE, message, hint=f"wait for it to end{ends}, then run this again")
