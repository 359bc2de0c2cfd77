"""How rows were written, as the headers of log files show it: what a commit's rows carry, and by which release commits were made.

What was seen is kept with what is kept of commits, so that a log file is opened once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from enum import StrEnum
from itertools import islice

from etc_policy.errors import RetryableError
from etc_policy.hudi.blocks import IS_PARTIAL, SCHEMA, BadLogFile, read_headers
from etc_policy.hudi.commits import CommitFacts, CommitMetadata, LogForm
from etc_policy.hudi.layout import METADATA_TABLE, parse_data_file
from etc_policy.hudi.metadata_values import UNKNOWN_FORM, load_json
from etc_policy.hudi.properties import merging_of, metadata_partitions
from etc_policy.plan.bundles import OF_HUDI_1_0
from etc_policy.storage.port import TableReader
from etc_policy.table.state import CUT_VERSIONS, FileSlice, path_below

#: The column in which a row's operation is: insert, update or delete.
OPERATION_COLUMN = "_hoodie_operation"
#: Log files that are looked at side by side.
_THREADS = 8
#: So many of the newest commits to the metadata table are asked. Each has a log file there, with a field of its records that
#: 1.0 does not know.
_ASKED, _LISTING, _SINCE_1_1 = 10, f"{METADATA_TABLE}/files", b'"valueType"'


def is_metadata_of_1_0(storage: TableReader, properties: Mapping[str, str], facts: CommitFacts) -> bool:
    """Whether the last commits to the metadata table of a table of Hudi 1.0 are all of that release, as their log files show.

    Raises:
        OSError: they cannot be read.

    """
    is_cut = int(properties["hoodie.table.version"]) in CUT_VERSIONS
    if not (is_cut and metadata_partitions(properties) and OF_HUDI_1_0 in merging_of(properties)):
        return False
    try:
        listed = storage.list(_LISTING)
    except FileNotFoundError:
        return False
    logs = [one for one in map(parse_data_file, listed) if one is not None and one.is_log]
    newest = sorted(logs, key=lambda one: one.instant, reverse=True)[:_ASKED]

    def look(name: str) -> bool | None:
        return _is_of_1_0(storage, f"{_LISTING}/{name}", listed[name].size_bytes)

    seen = facts.of_files(_LISTING, [one.name for one in newest], look)
    return True in seen and False not in seen


def _is_of_1_0(storage: TableReader, path: str, size: int) -> bool | None:
    """None where a log file is gone, or has no rows; a file whose bytes are not blocks is not known to be of 1.0."""
    try:
        with storage.open(path) as stream:
            schemas = [header[SCHEMA] for header in read_headers(stream, size)]
    except FileNotFoundError:
        return None
    except BadLogFile:
        return False
    return not any(_SINCE_1_1 in schema for schema in schemas) if schemas else None


def with_log_forms(
    storage: TableReader, layout: int, commits: Mapping[str, CommitMetadata], listed: Mapping[str, Mapping[str, int]]
) -> dict[str, CommitMetadata]:
    """The commits with log files, each with what the first of its files in a listing shows; one that was looked at is not again.

    Before table version 8 a file may hold blocks of several commits, and all count.
    """
    with_logs = ((one, of) for one, of in commits.items() if any(name.startswith(".") for name in of.stats.file_names))
    places = {one: _first_log(commit, listed) for one, commit in with_logs}
    known = {one for one, place in places.items() if place is not None and commits[one].log_form != "unseen"}

    def look(place: tuple[str, int] | None) -> LogForm:
        return "gone" if place is None else _log_form(storage, *place, blocks=1 if layout > 1 else None)

    unseen = {one: place for one, place in places.items() if one not in known}
    with ThreadPoolExecutor(_THREADS) as threads:
        forms = dict(zip(unseen, threads.map(look, unseen.values()), strict=True))
    return {one: replace(commits[one], log_form=forms[one]) if one in forms else commits[one] for one in places}


def _first_log(commit: CommitMetadata, listed: Mapping[str, Mapping[str, int]]) -> tuple[str, int] | None:
    """Path and bytes of the commit's first log file that is there."""
    nothing: Mapping[str, int] = {}
    for (partition, _), name in zip(commit.stats.groups, commit.stats.file_names, strict=True):
        if name.startswith(".") and (size := listed.get(partition, nothing).get(name)) is not None:
            return path_below(partition, name), size
    return None


def _log_form(storage: TableReader, path: str, size: int, blocks: int | None) -> LogForm:
    """What the headers of so many of its first blocks show, or of all."""
    try:
        with storage.open(path) as stream:
            found = list(map(_form_of, islice(read_headers(stream, size), blocks)))
    except FileNotFoundError:
        return "gone"
    except RetryableError:  # the store does not answer
        raise
    except OSError:
        return "unreadable"
    except (BadLogFile, *UNKNOWN_FORM):
        return "unseen"
    forms: tuple[LogForm, ...] = ("operations", "partial", "plain")
    return next((form for form in forms if form in found), "unseen")


def _form_of(header: Mapping[int, bytes]) -> LogForm:
    """What the header of one block shows; of many nothing else is kept in memory."""
    if any(field["name"] == OPERATION_COLUMN for field in load_json(header[SCHEMA])["fields"]):
        return "operations"
    return "plain" if header.get(IS_PARTIAL, b"false").lower() == b"false" else "partial"


class Changelog(StrEnum):
    """Whether the table is in changelog mode, by the newest write whose log files show it."""

    NO = ""
    YES = "in changelog mode"
    #: Rows of before carry operations, by which readers no longer go.
    LEFT = "in changelog mode until its last write"


def changelog_of(commits: Mapping[str, CommitMetadata], slices: Iterable[FileSlice]) -> Changelog:
    """The mode of a table with these commits and latest slices."""
    seen = {one: commit for one, commit in commits.items() if commit.log_form in ("plain", "partial", "operations")}
    with_operations = [commit for commit in seen.values() if commit.log_form == "operations"]
    if not with_operations:
        return Changelog.NO
    if seen[max(seen)].log_form == "operations":
        return Changelog.YES
    left = {log_file.name for one in slices for log_file in one.log_files}
    return Changelog.LEFT if any(not left.isdisjoint(one.stats.file_names) for one in with_operations) else Changelog.NO
