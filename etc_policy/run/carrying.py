"""Carries the log files that stay into the slice that a compaction begins, on table version 6 (facts: version-6-slices).

A carried file is made only once its plan is published, and goes before its plan does: one without a plan would be attached to
another slice. Each step may be done again after a kill.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from etc_policy.errors import EngineError
from etc_policy.errors.codes import Code
from etc_policy.plan.model import CarriedFile
from etc_policy.plan.split import made_files
from etc_policy.run.ports import Job
from etc_policy.run.table_files import require_no_links
from etc_policy.storage.open_storage import is_remote, open_reader, open_storage
from etc_policy.storage.port import TableReader, TableStorage, os_errors_as
from etc_policy.storage.safe_files import copy_draft
from etc_policy.table.state import path_below

#: What to do where a writer has added to a carried file: it can be neither finished nor withdrawn.
ADDED_TO = (
    "nothing was committed, and readers see every row while the plan is there: stop writers and cleaning, and leave it; "
    f"`etc explain {Code.CARRIED_ALTERED}` says what to do"
)
#: (path of the carried file, path of its target, the pair).
Paths = tuple[str, str, CarriedFile]


def carry_files(job: Job) -> None:
    """Make every carried file of a published plan that is not there yet; what a killed run left half is made anew.

    Raises:
        EngineError: one cannot be made, lies behind a link, or is larger than its target, so that somebody has written to it.
        RetryableError: the table's store does not answer.

    """
    if job.carries:
        require_no_links(job)
    storage = open_storage(job.base_path)
    for path, target, pair in carried_paths(job):
        found = storage.info(path)
        if found is not None and found.size_bytes > pair.size_bytes:
            raise _altered(path, found.size_bytes, pair.size_bytes)
        if found is not None and found.size_bytes == pair.size_bytes:
            continue
        _require_target(storage, target, pair)
        storage.remove(path)
        message = f"the log file `{target}` could not be carried into the slice that begins at {job.instant}"
        hint = (
            "nothing is lost: make room, or set `carry: auto`; `etc apply` then goes on, `etc undo` withdraws the plan"
        )
        with os_errors_as(Code.NOT_CARRIED, message, hint):
            _carry(storage, target, path, job.policy.strategy.carry or "auto")


def require_carried(job: Job) -> None:
    """Return if every carried file, and all that a split has made, is there as it was made.

    Raises:
        EngineError: one is gone or has another size.

    """
    storage = open_reader(job.base_path)
    made = [(path, pair.size_bytes) for path, _, pair in carried_paths(job)]
    made += chain.from_iterable(map(made_files, job.operations))
    for path, size_bytes in made:
        found = storage.info(path)
        if found is None or found.size_bytes != size_bytes:
            raise _altered(path, None if found is None else found.size_bytes, size_bytes)


def carried_paths(job: Job) -> Iterator[Paths]:
    """What the plan carries, by paths below the table."""
    for operation in job.operations:
        for pair in operation.carried:
            path, target = (path_below(operation.partition, name) for name in (pair.name, pair.target))
            yield path, target, pair


def untouched_carried(job: Job) -> frozenset[str]:
    """The paths of what the plan carries, less what somebody has added to."""
    storage = open_reader(job.base_path)
    infos = ((path, storage.info(path), pair.size_bytes) for path, _, pair in carried_paths(job))
    return frozenset(path for path, found, size in infos if found is None or found.size_bytes <= size)


def carried_drafts(job: Job) -> Iterator[str]:
    """The paths of copies that a killed run may have left half done."""
    return (copy_draft(path) for path, _, _ in carried_paths(job))


def _carry(storage: TableStorage, target: str, path: str, how: str) -> None:
    """Object stores and HDFS have no links, and an object store copies by itself; nobody else gives a file such a name."""
    best = storage.copy if is_remote(storage.location) else storage.link_or_copy
    carry = {"auto": best, "hard_link": storage.hard_link, "copy": storage.copy}[how]
    carry(target, path)


def _require_target(storage: TableReader, target: str, pair: CarriedFile) -> None:
    found = storage.info(target)
    if found is None or found.size_bytes != pair.size_bytes:
        state = "gone" if found is None else f"{found.size_bytes} bytes long"
        message = (
            f"the log file `{target}` was {pair.size_bytes} bytes long when the compaction was planned, and is {state}"
        )
        hint = "nothing was committed; `etc undo` withdraws the plan"
        raise EngineError(Code.CARRIED_ALTERED, message, hint=hint)


def _altered(path: str, size: int | None, planned: int) -> EngineError:
    state = "gone" if size is None else f"{size} bytes long"
    message = f"the carried log file `{path}` is {state}; {planned} bytes were carried"
    hint = "nothing was committed; look at who writes to the table's folder, then `etc apply` goes on"
    return EngineError(Code.CARRIED_ALTERED, message, hint=ADDED_TO if size is not None and size > planned else hint)
