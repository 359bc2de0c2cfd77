"""The archived timeline of a table (an LSM tree of Parquet files): completion times, commit metadata, etc's thresholds.

Opened only when something is not on the active timeline any more. Table versions before 8 archive to log files, without
completion times: these are only asked which instants they have.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, BinaryIO, NamedTuple

from etc_policy.errors import EtcError, TableError
from etc_policy.errors.codes import Code
from etc_policy.hudi.blocks import AVRO_DATA, SCHEMA, BadLogFile, Block, read_blocks
from etc_policy.hudi.commits import CommitMetadata, decode_commit, decode_metadata
from etc_policy.hudi.completed_writes import CompletedWrite
from etc_policy.hudi.footers import INFLATED_BYTES, INFLATED_TIMES, can_read_parquet, open_parquet, require_modest
from etc_policy.hudi.metadata_values import bytes_of, load_json, pairs_of, time_of
from etc_policy.hudi.plan_file import expected_bytes
from etc_policy.hudi.timeline import Timeline, read_once
from etc_policy.storage.port import TableReader
from etc_policy.table.history import WRITES
from etc_policy.table.state import CompactionRecord

_MAX_VERSION_BYTES, _MAX_MANIFEST_BYTES = 1_000, 16 << 20
#: Hudi merges ten files into one again and again; each takes some milliseconds.
_MAX_FILES = 10_000
_MANIFEST = "manifest_"
_LOG_FILE = re.compile(r"\.commits_\.archive\.(?P<number>\d+)(?:_\d+-\d+-\d+)?")
_WRITE_COLUMNS = ("instantTime", "completionTime", "action", "metadata", "plan")
_TIMES = ("instantTime", "completionTime")
#: Each row has an instant and metadata of its own, so that honest rows take more.
_BYTES_PER_ROW = 4
_BATCH_ROWS = 4_096
#: So many compactions are read at first where one after the other may be asked for, and so many times more after that.
_FIRST_COMPACTIONS, _MORE = 4, 8
_BY_COMPLETION = attrgetter("completed", "instant")

#: A column, and the values of it that are wanted.
Wanted = tuple[str, Collection[str]]


class ArchivedEnd(NamedTuple):
    """When an archived instant completed, and what it was."""

    completed: str
    action: str


class Archive:
    """The archived timeline of one table; nothing is read before it is asked for."""

    def __init__(self, storage: TableReader, properties: Mapping[str, str]) -> None:
        self._storage = storage
        #: What may be made of its rows, each of which is decoded, though equal ones are in their file once.
        self._allowed_bytes = INFLATED_BYTES
        timeline = properties.get("hoodie.timeline.path", "timeline")
        self._folder = f".hoodie/{timeline}/{properties.get('hoodie.timeline.history.path', 'history')}"
        self._is_of_log_files = properties.get("hoodie.timeline.layout.version", "1") == "1"
        if self._is_of_log_files:
            self._folder = f".hoodie/{properties.get('hoodie.archivelog.folder', 'archived')}"

    @read_once
    def _instants(self) -> Mapping[str, ArchivedEnd]:
        rows = self._rows(("instantTime", "completionTime", "action"))
        return {row["instantTime"]: ArchivedEnd(row["completionTime"] or "", str(row["action"])) for row in rows}

    @read_once
    def ends(self) -> Mapping[str, ArchivedEnd]:
        """The end by requested instant of everything archived."""
        return {instant: end for instant, end in self._instants.items() if end.completed}

    @read_once
    def completions(self) -> Mapping[str, str]:
        """Completion time by requested instant of everything archived."""
        return {instant: end.completed for instant, end in self.ends.items()}

    @read_once
    def first_instant(self) -> str | None:
        """The first instant that was archived, by the names of the files; None where there is none."""
        return min((name.partition("_")[0] for name in self._files()), default=None)

    def lacking(self, instants: Collection[str]) -> frozenset[str]:
        """Those of the instants that it has not got, though it reaches back to before them: nothing was committed at them."""
        if self._is_of_log_files:
            return self._lacking_in_log_files(instants)
        known = self._instants if instants else {}
        first = min(known, default="")
        return frozenset(one for one in instants if first and first < one and one not in known)

    def holding(self, instants: Collection[str]) -> frozenset[str]:
        """Those of the instants that it has as completed writes; before table version 8 whatever they were."""
        if not self._is_of_log_files:
            return frozenset(one for one in instants if one in self.ends and self.ends[one].action in WRITES)
        left = frozenset(instants)
        for name in self._log_files() if left else ():
            left -= self._instants_in(name)[0]
        return frozenset(instants) - left

    def _lacking_in_log_files(self, instants: Collection[str]) -> frozenset[str]:
        """The same before table version 8. The newest file is read first: mostly it has them all, and the archive only grows.

        Raises:
            TableError: one of them may be in a file that cannot be read to its end, such as a killed process leaves.

        """
        left, first = frozenset(instants), ""
        damaged: list[tuple[str, Exception]] = []
        for name in self._log_files() if left else ():
            found, error = self._instants_in(name)
            damaged += [(name, error)] if error is not None else []
            left, first = left - found, min(filter(None, (first, *found)), default="")
            if not left:
                break
        lacking = frozenset(one for one in left if first and first < one)
        if lacking and damaged:
            raise self._corrupt(*damaged[0])
        return lacking

    def _log_files(self) -> list[str]:
        """The newest first."""
        try:
            names = self._storage.names(self._folder)
        except (FileNotFoundError, NotADirectoryError):
            return []
        found = ((match, name) for name in names if (match := _LOG_FILE.fullmatch(name)))
        return [name for match, name in sorted(found, key=lambda one: int(one[0]["number"]), reverse=True)]

    def _instants_in(self, name: str) -> tuple[set[str], Exception | None]:
        """What a log file has, as far as it can be read, and why it cannot be read further."""
        found: set[str] = set()
        try:
            with self._storage.open(f"{self._folder}/{name}") as opened:
                size = opened.seek(0, os.SEEK_END)
                opened.seek(0)
                for block in read_blocks(opened, size):
                    found.update(_instants_of(block))
        except (OSError, EtcError):
            raise
        except Exception as error:  # whatever a decoder raises over bytes that are not what they should be
            return found, error
        return found, None

    def commit_metadata(self, instants: frozenset[str]) -> dict[str, CommitMetadata]:
        """Commit metadata of those of the given instants that are archived."""
        if not instants:
            return {}
        rows = self._rows(("instantTime", "metadata"), ("instantTime", instants))
        return {row["instantTime"]: self._commit(row, len(instants)) for row in rows}

    def writes(self, actions: Sequence[str], limit: int | None = None) -> tuple[list[CompletedWrite], bool]:
        """The archived writes of these actions that completed, or the newest of them; whether there are older ones."""
        if limit is None:
            return self._writes(("action", actions), actions), False
        found = sorted({row["instantTime"] for row in self._rows(("instantTime",), ("action", actions))})
        newest = found[max(0, len(found) - limit) :]
        writes = self._writes(("instantTime", frozenset(newest)), actions) if newest else []
        return writes, len(found) > len(newest)

    def writes_at(self, instants: frozenset[str]) -> list[CompletedWrite]:
        """The archived writes at these instants that completed."""
        return self._writes(("instantTime", instants), WRITES)

    def _writes(self, wanted: Wanted, actions: Sequence[str]) -> list[CompletedWrite]:
        rows = {row["instantTime"]: row for row in self._rows(_WRITE_COLUMNS, wanted) if row["action"] in actions}
        done = (rows[instant] for instant in sorted(rows))
        return [self._write(row, len(rows)) for row in done if row["metadata"] and row["completionTime"]]

    def archived_writes(
        self, timeline: Timeline, actions: Sequence[str], limit: int | None
    ) -> tuple[list[CompletedWrite], bool]:
        """The same, without those that the active timeline has too; none of a timeline of layout 1, whose archive is not read."""
        if timeline.layout == 1:
            return [], False
        archived, has_older = self.writes(actions, limit)
        return [write for write in archived if write.requested not in timeline.files], has_older

    def own_compactions(self, active: Iterable[CompactionRecord], known: Container[str]) -> Iterator[CompactionRecord]:
        """The compactions with a threshold, the last completed first: those given and the archived ones that are not known.

        The archive is read as far back as somebody asks.
        """
        ends = ((end.completed, instant) for instant, end in self.ends.items() if end.action == "commit")
        left = sorted((end for end in ends if end[1] not in known), reverse=True)
        for record in sorted(active, key=_BY_COMPLETION, reverse=True):
            later = sum(end > (record.completed, record.instant) for end in left)
            yield from self._own(left[:later])
            left = left[later:]
            yield record
        size = _FIRST_COMPACTIONS
        while left:
            yield from self._own(left[:size])
            left, size = left[size:], size * _MORE

    def _own(self, ends: Sequence[tuple[str, str]]) -> list[CompactionRecord]:
        instants = frozenset(instant for _, instant in ends)
        writes = self._writes(("instantTime", instants), ("commit",)) if instants else []
        records = (record for write in writes if (record := write.record) is not None)
        return sorted(records, key=_BY_COMPLETION, reverse=True)

    def _plan(self, row: Mapping[str, Any]) -> dict[str, Any]:
        return decode_metadata(bytes_of(row["plan"]), self._place())

    def _commit(self, row: Mapping[str, Any], among: int = 1) -> CommitMetadata:
        return decode_commit(bytes_of(row["metadata"]), self._place(), among=among)

    def _write(self, row: Mapping[str, Any], among: int) -> CompletedWrite:
        plan = self._plan(row) if row["action"] == "commit" else {}
        return CompletedWrite(
            row["instantTime"],
            row["completionTime"],
            row["action"],
            self._commit(row, among),
            pairs_of(plan),
            archived=True,
            expected_bytes=expected_bytes(plan),
        )

    def _rows(self, columns: Sequence[str], wanted: Wanted | None = None) -> Iterator[dict[str, Any]]:
        names = self._files()
        self._storage.expect({f"{self._folder}/{name}": 0 for name in names}, keep=True)
        for name in names:
            try:
                rows = self._read_parquet(name, columns, wanted)
            except FileNotFoundError as error:
                if name in self._files():
                    raise self._corrupt(name, error) from error
                raise
            for row in rows:
                for column in (name for name in _TIMES if name in row):
                    if row[column] is not None or column == "instantTime":
                        time_of(row[column])
                yield row

    def _files(self) -> list[str]:
        version = self._version()
        if version is None:
            return []
        manifest = f"{_MANIFEST}{version}"
        try:
            return _names_in(load_json(self._storage.read(f"{self._folder}/{manifest}", _MAX_MANIFEST_BYTES)))
        except FileNotFoundError as error:
            if self._version() == version:
                raise self._corrupt(manifest, error) from error
            raise
        except (ValueError, RecursionError) as error:
            raise self._corrupt(manifest, error) from error

    def _version(self) -> str | None:
        """The version of the manifest in use; None where nothing has been archived.

        Hudi removes the file that names it and writes it anew: where it is missing, the newest manifest counts, as in Hudi
        (`LSMTimeline.latestSnapshotVersion`).
        """
        try:
            content = self._storage.read(f"{self._folder}/_version_", _MAX_VERSION_BYTES)
        except (FileNotFoundError, NotADirectoryError):
            return self._newest_manifest()
        version = content.decode("utf-8", errors="replace").strip()
        return version if version.isascii() and version.isdecimal() else ""  # of an error it would become part

    def _newest_manifest(self) -> str | None:
        try:
            names = self._storage.names(self._folder)
        except (FileNotFoundError, NotADirectoryError):
            return None
        versions = (name.removeprefix(_MANIFEST) for name in names if name.startswith(_MANIFEST))
        return max((one for one in versions if one.isdecimal() and one.isascii()), key=int, default=None)

    def _read_parquet(self, name: str, columns: Sequence[str], wanted: Wanted | None) -> list[dict[str, Any]]:
        if not can_read_parquet():
            message = (
                f"commits of this table are archived, and pyarrow 26 or later is needed to read `{self._place(name)}`"
            )
            raise TableError(Code.NEEDS_PYARROW, message, hint="run `pip install 'pyarrow>=26'`")
        import pyarrow

        try:
            with self._storage.open(f"{self._folder}/{name}") as opened:
                self._allowed_bytes += INFLATED_TIMES * opened.seek(0, os.SEEK_END)
                rows = list(archive_rows(opened, columns, wanted))
            values = (value for row in rows for value in row.values())
            self._allowed_bytes -= sum(len(value) for value in values if isinstance(value, str | bytes))
            if self._allowed_bytes < 0:
                raise BadArchive("its rows have the same values again and again")
            return rows
        except (FileNotFoundError, EtcError):
            raise
        except (pyarrow.ArrowException, BadArchive, KeyError, OSError, MemoryError) as error:
            raise self._corrupt(name, error) from error

    def _place(self, name: str = "") -> str:
        """A file of the archive, or the archive itself, as messages show it."""
        return f"{self._storage.location}/{self._folder}/{name}".rstrip("/")

    def _corrupt(self, name: str, error: Exception) -> TableError:
        message = f"cannot read archived timeline file `{self._place(name)}`"
        return TableError(Code.DAMAGED_TIMELINE, message, cause=str(error)[:500])


def _names_in(manifest: object) -> list[str]:
    """The files that a manifest lists, each once; ValueError where it is of another form."""
    entries = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(entries, list):
        raise ValueError("it has no list of files")
    names = [entry.get("fileName") if isinstance(entry, dict) else None for entry in entries]
    if not all(isinstance(name, str) for name in names):
        raise ValueError("it lists what has no name")
    found = list(dict.fromkeys(str(name) for name in names))
    if len(found) > _MAX_FILES:
        raise ValueError(f"it lists {len(found):,} files")
    return found


def _instants_of(block: Block) -> Iterator[str]:
    """The instants that a block of an archive before table version 8 has."""
    from etc_policy.hudi.avro_rows import CONTENT_VERSIONS, HEAD, row_schema, values_at

    if block.kind != AVRO_DATA:
        return
    version, count = HEAD.unpack_from(block.content)
    if version not in CONTENT_VERSIONS:
        raise BadLogFile("another version of data block")
    schema = row_schema(load_json(block.header[SCHEMA]))
    for instant in values_at(block.content[HEAD.size :], count, schema, ("commitTime",)):
        yield (instant or b"").decode()


def completions_of(timeline: Timeline, archive: Archive) -> Callable[[str], str | None]:
    """Completion time of an instant; None where it has not completed or was rolled back."""

    def completion(instant: str) -> str | None:
        if instant in timeline.completions:
            return timeline.completions[instant]
        if timeline.layout < 2:
            return instant if instant < (timeline.first_active or "") and instant not in timeline.files else None
        surely, perhaps = timeline.archive_reach
        if instant in timeline.files or instant >= perhaps:
            return None
        return archive.completions.get(instant, instant if instant < surely else None)

    return completion


class BadArchive(Exception):  # noqa: N818 - what a file is, not what went wrong here
    """The file claims more than it can hold; the reason is in the message."""


def archive_rows(stream: BinaryIO, columns: Sequence[str], wanted: Wanted | None) -> Iterator[dict[str, Any]]:
    """The rows of an archive's file whose value in a column is wanted, without one all of them.

    Equal values are in memory once, so that few bytes do not become many.

    Raises:
        BadArchive: the file claims more than it can hold.
        Exception: pyarrow's own, and KeyError for a column that is not there.

    """
    names = list(dict.fromkeys((*columns, wanted[0]) if wanted else columns))
    file = open_parquet(stream, read_dictionary=names)
    _require_likely(file.metadata, stream.seek(0, os.SEEK_END))
    _require_flat(file.schema_arrow, names)
    for group in range(file.num_row_groups):
        if wanted:
            require_modest(stream, file.metadata, [group], wanted[:1])
        if wanted and not _is_in(file, group, *wanted):
            continue
        require_modest(stream, file.metadata, [group], names)
        for batch in file.iter_batches(_BATCH_ROWS, row_groups=[group], columns=names):
            found = [_values(batch.column(name)) for name in names]
            rows = (dict(zip(names, row, strict=True)) for row in zip(*found, strict=True))
            yield from (row for row in rows if wanted is None or row[wanted[0]] in wanted[1])


def _require_likely(metadata: Any, size: int) -> None:
    inflated = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    if metadata.num_rows * _BYTES_PER_ROW > size or inflated > max(INFLATED_BYTES, INFLATED_TIMES * size):
        raise BadArchive(f"it claims {metadata.num_rows:,} rows of {inflated:,} bytes, and has {size:,} bytes")


def _require_flat(schema: Any, names: Sequence[str]) -> None:
    from pyarrow import types

    for name in names:
        if types.is_nested(schema.field(name).type):
            raise BadArchive(f"its column {name} is of type {schema.field(name).type}")


def _is_in(file: Any, group: int, column: str, values: Collection[str]) -> bool:
    """Whether a row of the group is wanted: else its metadata need not be read."""
    batches = file.iter_batches(_BATCH_ROWS, row_groups=[group], columns=[column])
    return any(value in values for batch in batches for value in _values(batch.column(column)))


def _values(column: Any) -> list[Any]:
    """The values of a column; of texts and bytes equal ones are one object."""
    from pyarrow import types

    if not types.is_dictionary(column.type):
        found: list[Any] = column.to_pylist()
        return found
    values = column.dictionary.to_pylist()
    return [None if place is None else values[place] for place in column.indices.to_pylist()]
