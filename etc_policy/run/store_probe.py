"""Whether a storage lets exactly one of many writers win: what publishing and a lease on it rest on."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from uuid import uuid4

from etc_policy.errors import EngineError
from etc_policy.errors.codes import Code
from etc_policy.hudi.layout import ETC_FOLDER
from etc_policy.storage.port import RemoteStorage

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
