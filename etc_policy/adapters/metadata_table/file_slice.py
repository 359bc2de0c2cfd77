"""Which files of a metadata table hold what it knows of the table's files, and whether it knows all of it.

Hudi's own readers take the newest base file and the log files of the delta commits that completed after it, and of those the
ones whose instants have completed on the table itself. What does not look like what Hudi writes as a matter of course is
not interpreted: the folders of the table can always be listed instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from etc_policy.adapters.hudi.layout import DataFileName, parse_data_file
from etc_policy.adapters.hudi.timeline import Timeline
from etc_policy.adapters.metadata_table.file_records import UnsureListing

#: Where a metadata table begins: its first base file is made of a listing of the table's folders.
FIRST_INSTANT = "00000000000000000"
_FILE_GROUP = "files-0000-0"
#: Files beside those of data, their checksums on local disk among them.
_PARTITION_MARK, _CHECKSUM = ".hoodie_partition_metadata", ".crc"
#: What is understood, of the table and of its metadata table: the actions that have completed, and those that are pending.
_TABLE_ACTIONS = frozenset(("commit", "deltacommit", "replacecommit", "clean", "rollback"))
_OWN_ACTIONS, _OWN_PENDING = (
    frozenset(("commit", "deltacommit", "clean", "rollback")),
    frozenset(("deltacommit", "clean")),
)


class ListingFiles(NamedTuple):
    """A base file and the log files after it, in the order in which their commits completed."""

    base: DataFileName
    logs: tuple[DataFileName, ...]


def choose_slice(table: Timeline, own: Timeline, names: Iterable[str]) -> ListingFiles:
    """What to read of the files in the folder `files`; `table` was listed before `own`, which is the metadata table's.

    Raises:
        UnsureListing: something is pending, is not understood, or is missing.

    """
    _require_known_actions(table, own)
    files = list(_data_files(names))
    done = [one for one in files if not one.is_log and one.instant in own.completions]
    base = max(done, key=lambda one: one.instant, default=None)
    if base is None:
        raise UnsureListing("no base file of a completed commit")
    _require_all_written(table, own, base.instant)
    logs = [one for one in files if one.is_log and _is_after(one.instant, base.instant, table, own)]
    ordered = sorted(logs, key=lambda one: (own.completions[one.instant], one.instant, one.version))
    return ListingFiles(base, tuple(one for one in ordered if _counts(one.instant, table)))


def _require_known_actions(table: Timeline, own: Timeline) -> None:
    for whose, timeline, known in (("table", table, _TABLE_ACTIONS), ("metadata table", own, _OWN_ACTIONS)):
        for end in map(timeline.latest, timeline.files):
            if end.state == "completed" and end.action not in known:
                raise UnsureListing(f"a {end.action} at {end.requested} of the {whose}")
    for requested, files in own.files.items():
        end = own.latest(requested)
        if any(one.action == "logcompaction" for one in files):
            raise UnsureListing(f"a log compaction at {requested} of the metadata table")
        if end.state != "completed" and end.action not in _OWN_PENDING:
            raise UnsureListing(f"a pending {end.action} at {requested} of the metadata table")


def _data_files(names: Iterable[str]) -> Iterator[DataFileName]:
    for name in names:
        if name.startswith(_PARTITION_MARK) or name.endswith(_CHECKSUM):
            continue
        parsed = parse_data_file(name)
        if parsed is None or parsed.file_id != _FILE_GROUP:
            raise UnsureListing(f"a file `{name[:80]}` in the metadata table")
        yield parsed


def _require_all_written(table: Timeline, own: Timeline, base: str) -> None:
    """Each completed instant of the table has its commit in the metadata table.

    It may have been there before the metadata table was made, or its commit may be archived, and lies below the base file.
    """
    made, first = own.completions.get(FIRST_INSTANT, ""), min(own.files)
    for requested, completed in table.completions.items():
        is_archived = requested < first and completed < base
        if requested not in own.completions and completed >= made and not is_archived:
            raise UnsureListing(f"the metadata table has no commit for the instant {requested}")


def _is_after(instant: str, base: str, table: Timeline, own: Timeline) -> bool:
    """Whether the log file of an instant is of a commit that completed after the base file began.

    That of an archived commit is older: archiving stops at the newest base file, and what it passed on both timelines
    completed long before.
    """
    if instant in own.completions:
        return own.completions[instant] >= base
    if instant in own.files:
        return False
    is_older = instant < min(own.files) and table.completions.get(instant, instant) < base
    if not is_older or (instant in table.files and instant not in table.completions):
        raise UnsureListing(f"a log file of the instant {instant}, which is not on the metadata table's timeline")
    return False


def _counts(instant: str, table: Timeline) -> bool:
    """Whether an instant of the metadata table has completed on the table, or was not meant to be there.

    The metadata table is written first. What began after the table's timeline was listed is not counted either.
    """
    if instant in table.completions or instant <= FIRST_INSTANT:
        return True
    if instant in table.files or instant > max(table.files, default=""):
        return False
    raise UnsureListing(f"the instant {instant} of the metadata table is not on the table's timeline")
