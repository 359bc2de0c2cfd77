"""Whether a pending plan, what Hudi would take it back by, and what pends in the metadata table name files of the table alone.

Every writer of the table can write them, and Hudi reads, writes and removes what they name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any

from etc_policy.errors import TableError
from etc_policy.errors.codes import Code
from etc_policy.hudi.layout import METADATA_TABLE, parse_data_file
from etc_policy.hudi.metadata_values import list_of, mapping_of, text_of, texts_in
from etc_policy.hudi.pending_writes import announced_by, marker_files
from etc_policy.hudi.timeline import Timeline
from etc_policy.plan.carry import is_carried_name
from etc_policy.plan.model import CarriedFile, Operation
from etc_policy.storage.open_storage import is_remote, local_path
from etc_policy.storage.safe_files import parts_of

_INSTANT = re.compile(r"[0-9]{14,17}")
_HINT = "nothing was touched; look at who may write to the table, and remove what they made once no writer is at work"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
#: Their files on the timeline say what they wrote; nobody carries them out.
_OF_WRITERS = ("commit", "deltacommit")


def require_own(timeline: Timeline, instant: str, operations: tuple[Operation, ...]) -> None:
    """Return if the pending plan at an instant has a form that etc or Hudi gives it, and its traces are below the table.

    Raises:
        TableError: something of it names a file elsewhere, or is of another form; nothing may be made or removed by it.

    """
    found = next(_foreign(timeline, instant, operations), None)
    if found is not None:
        message = f"the pending plan at {instant} of `{timeline.storage.location}` is not one that etc or Hudi writes: {found}"
        raise TableError(Code.FOREIGN_PLAN, message, hint=_HINT)


def _foreign(timeline: Timeline, instant: str, operations: tuple[Operation, ...]) -> Iterator[str]:
    groups = [operation.group for operation in operations]
    if len(set(groups)) < len(groups):
        yield "it compacts a file group twice"
    for operation in operations:
        found = _malformed(operation)
        if operation.carried and timeline.layout > 1:
            found = f"carried log files of file group `{operation.file_id}`, which only table version 6 needs"
        if found is None and operation.remainder is not None:
            found = _malformed_remainder(operation, instant)
        if found is None and any(not _is_carried(one, operation, instant) for one in operation.carried):
            found = f"carried log files of file group `{operation.file_id}`"
        if found is not None:
            yield f"it names the {found}"
    storage = timeline.storage
    for path in marker_files(storage, instant):
        for announced in announced_by(storage, path):
            if not _is_of(announced, instant):
                yield f"a marker of it names the file `{announced}`"
    for _, plan in pending_rollbacks(timeline, instant):
        for request in list_of(plan.get("RollbackRequests")):
            yield from _foreign_rollback(mapping_of(request, nullable=False), storage.location, instant, groups)


def _malformed(operation: Operation) -> str | None:
    """The first name of an operation that neither etc nor Hudi writes, and what it is of."""
    if not _is_partition(operation.partition):
        return f"partition `{operation.partition}`"
    if not _INSTANT.fullmatch(operation.base_instant):
        return f"base instant `{operation.base_instant}`"
    named = [(name, True) for name in operation.log_files_compacted]
    named += [(operation.base_file, False)] if operation.base_file is not None else []
    for name, is_log in named:
        parsed = parse_data_file(name)
        if parsed is None or (parsed.file_id, parsed.is_log) != (operation.file_id, is_log) or "\0" in name:
            return f"file `{name}`"
    return None


def _malformed_remainder(operation: Operation, instant: str) -> str | None:
    """What of a split is not as etc makes it; which files are merged follows from the rest."""
    name = parse_data_file(operation.remainder or "")
    is_own = name is not None and (name.file_id, name.instant) == (operation.file_id, instant)
    return None if is_own and is_carried_name(operation.remainder or "") else f"log file `{operation.remainder}`"


def _is_carried(carried: CarriedFile, operation: Operation, instant: str) -> bool:
    """Whether it leads from a log file of the operation's slice to one of the slice that the plan begins."""
    name, target = parse_data_file(carried.name), parse_data_file(carried.target)
    if name is None or target is None or "\0" in carried.target:
        return False
    return (name.file_id, name.instant) == (operation.file_id, instant) and (
        (target.file_id, target.instant, target.is_log) == (operation.file_id, operation.base_instant, True)
    )


def _is_partition(path: str) -> bool:
    try:
        return not path or parts_of(path)[0] != ".hoodie"
    except ValueError:
        return False


def _is_of(path: str, instant: str) -> bool:
    """Whether a path below the table is that of a data file of an instant."""
    partition, _, name = path.rpartition("/")
    parsed = parse_data_file(name)
    return parsed is not None and parsed.instant == instant and _is_partition(partition)


def _foreign_rollback(
    request: Mapping[str, Any], location: str, instant: str, groups: list[tuple[str, str]]
) -> Iterator[str]:
    """What a part of a pending rollback of the instant would do elsewhere; Hudi takes such a rollback up.

    See facts: rollback-by-its-plan.
    """
    partition, blocks = text_of(request.get("partitionPath")), mapping_of(request.get("logBlocksToBeDeleted"))
    if not _is_partition(partition):
        yield f"a rollback of it names the partition `{partition}`"
    for path in map(text_of, chain(list_of(request.get("filesToBeDeleted")), blocks)):
        if not _is_of(_below_table(path, location), instant):
            yield f"a rollback of it would remove `{path}`"
    if blocks:
        file_id, at = text_of(request.get("fileId")), text_of(request.get("latestBaseInstant"))
        if (partition, file_id) not in groups or at != instant:
            yield f"a rollback of it would write to the file group `{file_id}` at {at}"


def pending_rollbacks(timeline: Timeline, instant: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The rollbacks of an instant that were begun and did not end, with the plan of each."""
    begun = (one for one in timeline.files if one not in timeline.completions)
    return ((rollback, plan) for rollback, of, plan in rollback_plans(timeline, begun) if of == instant)


def rollback_plans(timeline: Timeline, instants: Iterable[str]) -> Iterator[tuple[str, str | None, Mapping[str, Any]]]:
    """The rollbacks among the instants, each with the instant that it takes back, and its plan."""
    for requested in instants:
        plan = timeline.requested_file(requested, "rollback")
        if plan is not None:
            content = timeline.metadata(plan)
            of = mapping_of(content.get("instantToRollback")).get("commitTime")
            yield requested, None if of is None else text_of(of), content


def require_own_in_metadata_table(timeline: Timeline) -> None:
    """Return if what pends on the timeline of a table's metadata table names files below that alone.

    A client of Hudi takes up rollbacks there, and may do other services (facts: metadata-services-pending).

    Raises:
        TableError: something of it names a file elsewhere.

    """
    location = f"{timeline.storage.location}/{METADATA_TABLE}"
    pending = (one for one in timeline.files if one not in timeline.completions)
    for file in chain.from_iterable(map(timeline.files.__getitem__, pending)):
        with suppress(FileNotFoundError):  # it has ended
            texts = texts_in(timeline.metadata(file)) if file.action not in _OF_WRITERS else ()
            found = next((text for text in texts if _leads_out(text, location)), None)
            if found is not None:
                message = f"the {file.action} that pends at {file.requested} in `{location}` names `{found}`"
                raise TableError(Code.FOREIGN_PLAN, message, hint=_HINT)


def _leads_out(text: str, location: str) -> bool:
    """Whether Hudi may take a text of a plan for a path that is not below the table at a location."""
    below = _below_table(text, location) if _is_whole(text) else text
    return _is_whole(below) or ".." in below.split("/")


def _is_whole(path: str) -> bool:
    return path.startswith("/") or _SCHEME.match(path) is not None


def _below_table(path: str, location: str) -> str:
    """A whole path of Hudi's as one below the table; as it is where it leads elsewhere, or upwards: Hudi takes no link then."""
    if ".." in path.split("/"):
        return path
    if is_remote(location):
        return _plain(path).removeprefix(f"{_plain(location)}/")
    try:
        folder, name = os.path.split(local_path(path))
    except TableError:
        return path
    real, table = os.path.realpath(folder), os.path.realpath(location)
    return f"{os.path.relpath(real, table)}/{name}".removeprefix("./") if real.startswith(table) else path


def _plain(uri: str) -> str:
    """One scheme for all clients of S3, and no port of a NameNode that is HDFS's own: Hadoop adds it."""
    return re.sub(r"^(hdfs://[^/]+):8020(?=/|$)", r"\1", re.sub(r"^s3[an]?://", "s3://", uri)).rstrip("/")
