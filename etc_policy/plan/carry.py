"""Partial compaction on table version 6: which log files stay, and the names that carry them into the new slice.

See facts: carried-names. There the base instant in a log file's name decides its slice, so what stays needs a second name
there. What could not be carried safely is merged instead: more is compacted than must be, and no row is lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping

from etc_policy.plan.model import CarriedFile, Operation
from etc_policy.policy.bounded_json import load_json
from etc_policy.policy.locations import is_local
from etc_policy.policy.manifest import Policy
from etc_policy.table.state import FileSlice, Instant, LogFile, TableState

#: The pair of a compaction's metadata that says what was carried, the RFC's `symlinkOperations`.
CARRIED = "etc.carried"
#: Places in merge order; as texts they compare as they do as numbers, because all have six digits.
_FIRST_PLACE, _LAST_PLACE = 100_000, 999_999
_LOG_FILE = re.compile(
    r"\.(?P<file_id>[^/]+)_(?P<instant>\d{14,17})\.log\.(?P<version>\d{1,9})(?:_(?P<token>\d+-\d+-\d+))?"
)
_CARRIED_TOKEN = re.compile(r"[1-9]\d{5}-0-0")
#: After these on a file group nobody has tried what of its log files may be left behind.
_UNTRIED_SERVICES = frozenset({"logcompaction", "rollback", "restore"})
#: Partitions of the metadata table with which committing carried files was tried.
TRIED_PARTITIONS = frozenset({"files", "column_stats", "partition_stats"})

Split = tuple[tuple[LogFile, ...], tuple[LogFile, ...]]


def log_order(name: str) -> tuple[int, str]:
    """What Hudi's 0.x order of a slice's log files compares: the version as a number, then the write token as text."""
    match = _LOG_FILE.fullmatch(name)
    return (int(match["version"]), match["token"] or "") if match else (0, name)


def is_carried_name(name: str) -> bool:
    """Whether a log file has a name that etc gives to carried ones; stock writers count from version 1."""
    match = _LOG_FILE.fullmatch(name)
    return match is not None and match["version"] == "0" and _CARRIED_TOKEN.fullmatch(match["token"] or "") is not None


def is_bounded(log_file: LogFile) -> bool:
    """Whether all that a log file holds is after the threshold of the compaction that carried it or split it off."""
    return log_file.rows_since is None and log_file.seen_event_time_ms is not None and is_carried_name(log_file.name)


def carried_name(file_id: str, instant: str, place: int) -> str:
    """The name of the log file at a place among those that begin the slice of an instant."""
    return f".{file_id}_{instant}.log.0_{_FIRST_PLACE + place}-0-0"


def log_instant(name: str) -> str:
    """The instant in a log file's name; empty where it has another form."""
    match = _LOG_FILE.fullmatch(name)
    return match["instant"] if match else ""


def split_slice(file_slice: FileSlice, due: Collection[LogFile], instants: Iterable[Instant]) -> Split:
    """What of a slice is merged and what stays, each in merge order: a prefix up to the last due log file.

    See facts: prefix-not-pick.
    """
    files = tuple(sorted(file_slice.log_files, key=lambda one: log_order(one.name)))
    end = max((place for place, one in enumerate(files, 1) if one in due), default=0)
    while 0 < end < len(files) and _are_of_one_version(files[end - 1], files[end]):
        end += 1
    if end < len(files) and not _may_be_split(file_slice, instants):
        return files, ()
    return files[:end], files[end:]


def _are_of_one_version(one: LogFile, other: LogFile) -> bool:
    """Of one version, as two tasks or a retry leave them: their order is that of tokens, which are no times."""
    same = log_order(one.name)[0] == log_order(other.name)[0]
    return same and not (is_carried_name(one.name) and is_carried_name(other.name))


def _may_be_split(file_slice: FileSlice, instants: Iterable[Instant]) -> bool:
    """Without a base file, with deletes, with names of another form or after untried services it may not."""
    if file_slice.base_file is None or len(file_slice.log_files) > _LAST_PLACE - _FIRST_PLACE:
        return False
    matches = [_LOG_FILE.fullmatch(one.name) for one in file_slice.log_files]
    if any(match is None or not match["token"] or match["file_id"] != file_slice.file_id for match in matches):
        return False
    if any(one.has_deletes for one in file_slice.log_files):
        return False
    return not any(
        one.action in _UNTRIED_SERVICES
        and one.requested > file_slice.base_instant
        and (one.file_ids is None or file_slice.file_id in one.file_ids)
        for one in instants
    )


def carried_files(file_slice: FileSlice, staying: Iterable[LogFile], instant: str) -> tuple[CarriedFile, ...]:
    """The second names of the log files that stay, which sort before whatever writers add to the new slice."""
    return tuple(
        CarriedFile(
            name=carried_name(file_slice.file_id, instant, place),
            target=one.name,
            size_bytes=one.size_bytes,
        )
        for place, one in enumerate(staying)
    )


def carried_text(operations: Iterable[Operation]) -> str:
    """What is carried, as the plan and the commit record it."""
    pairs = [
        {"partition": operation.partition, "name": one.name, "target": one.target, "size": one.size_bytes}
        for operation in operations
        for one in operation.carried
    ]
    return json.dumps(pairs, separators=(",", ":")) if pairs else ""


def carried_in(extra: Mapping[str, str]) -> dict[tuple[str, str], tuple[CarriedFile, ...]]:
    """What a compaction carries, by partition and file id, as its metadata has it.

    Raises:
        ValueError: it has not the form that etc writes.

    """
    found: dict[tuple[str, str], tuple[CarriedFile, ...]] = {}
    for pair in load_json(extra.get(CARRIED) or "[]"):
        match pair:
            case {"partition": str(partition), "name": str(name), "target": str(target), "size": int(size)}:
                parsed = _LOG_FILE.fullmatch(name)
                if parsed is None or not is_carried_name(name):
                    raise ValueError(f"`{name}` is not a name that a carried log file has")
                key = partition, parsed["file_id"]
                found[key] = (*found.get(key, ()), CarriedFile(name=name, target=target, size_bytes=size))
            case _:
                raise ValueError(f"`{CARRIED}` has another form")
    return found


def find_obstacle(policy: Policy, state: TableState) -> tuple[str, str] | None:
    """Why no log file of a table of version 6 may be carried, and what to do; None where it may."""
    whole = "set `granularity: file_slice`"
    if policy.strategy.carry is None:
        reason = f"table version {state.table_version} cannot be cut: the base instant in a log file's name decides its slice"
        hint = f"{whole}; upgrade the table to version 8 or later; or, where nobody else compacts it, set `carry: auto`"
        return reason, hint
    if policy.writer.compaction != "none":
        reason = (
            f"its writers compact on their own (`{policy.writer.compaction}`) and would leave carried log files out"
        )
        return reason, f"give the writers the options that `etc compile` writes, or {whole}"
    if state.foreign_compaction is not None:
        reason = f"the compaction at {state.foreign_compaction} is not etc's; whoever made it would leave carried log files out"
        return reason, f"see that nobody else compacts the table; until that instant is archived, {whole}"
    if policy.strategy.carry == "hard_link" and not is_local(state.base_path):
        return "object stores and HDFS have no hard links", f"set `carry: auto`, or {whole}"
    if state.logs_grow:
        reason = "on its store writers of Hudi 0.x append to the last log file of a slice, which may be a carried one"
        return reason, f"{whole}; or upgrade the table to version 8 or later"
    untried = sorted(set(state.metadata_partitions) - TRIED_PARTITIONS)
    if untried:
        return f"carrying log files was not tried with `{untried[0]}` in the metadata table", whole
    if state.merges_otherwise:
        reason = (
            "carrying log files was only tried on tables of Hudi 1.x whose rows are merged by event time or by commit time, and "
            "on those of Hudi 0.x with the payloads DefaultHoodieRecordPayload and EventTimeAvroPayload"
        )
        return reason, whole
    if state.has_cdc:
        return "carrying log files was not tried on tables that keep their changes (CDC)", whole
    return None
