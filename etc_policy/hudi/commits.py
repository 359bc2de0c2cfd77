"""What a commit says that it did, from its file on the timeline: the files that it wrote, and the pairs that it carries.

What completed commits say is kept on this machine: a commit never changes, so its file is decoded once in its life. Nothing is
believed of a file but for the very version that was decoded, and the timeline is always listed anew: a commit that was rolled
back is on no listing. Python's own form is kept, in the user's own folder: nothing reads a table's facts as fast.
"""

from __future__ import annotations

import marshal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, fields
from functools import lru_cache
from io import BytesIO
from itertools import chain
from threading import RLock
from typing import Any, Literal, NamedTuple

from etc_policy import __version__
from etc_policy.errors import TableError
from etc_policy.errors.codes import Code
from etc_policy.hudi.avro import (
    MAGIC,
    SYNC_BYTES,
    memory_rate,
    parse_schema,
    read_first_record,
    read_header,
    require_modest,
)
from etc_policy.hudi.avro_pattern import IrregularError, RecordPattern, next_size, read_long, read_text
from etc_policy.hudi.layout import is_log_name, parse_data_file
from etc_policy.hudi.metadata_values import (
    MAX_PATH,
    UNKNOWN_FORM,
    is_long,
    list_of,
    load_json,
    mapping_of,
    name_of,
    number_of,
    pairs_of,
    partition_of,
    unknown_form,
)
from etc_policy.policy.manifest import digest
from etc_policy.storage.object_cache import Cache
from etc_policy.storage.port import TableReader
from etc_policy.table.state import GroupKey as GroupKey

CORRUPT_HINT = "the file is cut short or corrupt; Hudi itself could not read it either"

#: From so many commits, or such a size, on a pattern is worth the 40 ms that its making takes.
_MANY = 100
_LARGE_BYTES = 1 << 20
#: What is smaller takes at most a few hundred times as much memory; decoding holds Python's own lock, so no time is lost.
_ALONE, _ALONE_BYTES = RLock(), 1 << 18
#: A commit of several hundred thousand files; larger ones are read by their pattern alone, which makes less of them.
MAX_DECODED_BYTES = 64 << 20
_STATS, _REPLACED = "partitionToWriteStats", "partitionToReplaceFileIds"
#: What a commit says of a file has more bytes, also where another engine compressed it; so many files it names beyond that.
_BYTES_PER_FILE, _COMPRESSED_PER_FILE, _SPARE_FILES = 64, 16, 1_000
#: The fields of a HoodieWriteStat, in the order of those of `WriteStat` from the second on.
_WANTED = {
    **dict.fromkeys(("fileId", "path", "prevCommit"), "string"),
    **dict.fromkeys(("numWrites", "numDeletes", "fileSizeInBytes", "minEventTime"), "long"),
    **dict.fromkeys(("totalLogFilesCompacted", "totalLogSizeCompacted", "maxEventTime"), "long"),
}


#: Whether the rows of a commit's log files carry their operation. Of some nobody has looked at a file, or understood what it
#: holds; others were gone by then, or could not be read.
LogForm = Literal["unseen", "plain", "partial", "operations", "gone", "unreadable"]


class WriteStat(NamedTuple):
    """What a commit says of a file that it wrote; a text that is missing is empty, a count is 0."""

    partition: str
    file_id: str
    file_name: str
    previous: str
    rows: int
    deletes: int
    size_bytes: int
    min_event_time_ms: int | None
    merged_log_files: int
    merged_log_bytes: int
    max_event_time_ms: int | None = None


@dataclass(frozen=True, slots=True)
class WriteStats:
    """The write stats of a commit by columns, as `WriteStat` has them: who needs a few of many stats goes by these."""

    groups: Sequence[GroupKey] = ()
    file_names: Sequence[str] = ()
    previous: Sequence[str] = ()
    rows: Sequence[int] = ()
    deletes: Sequence[int] = ()
    sizes_bytes: Sequence[int] = ()
    min_event_times_ms: Sequence[int | None] = ()
    merged_log_files: Sequence[int] = ()
    merged_log_bytes: Sequence[int] = ()
    max_event_times_ms: Sequence[int | None] = ()

    def __len__(self) -> int:
        return len(self.groups)

    def __iter__(self) -> Iterator[WriteStat]:
        partitions, file_ids = ([group[part] for group in self.groups] for part in (0, 1))
        others = (getattr(self, column.name) for column in fields(self)[1:])
        return map(WriteStat, partitions, file_ids, *others)


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    """A completed write; `replaced` are the (partition, file id) of the file groups that a replace commit took away.

    `plain_instant` is the instant that all its files bear, where each is the one log file that it wrote to a file group, without
    deletes and with an event time: what most commits are. It is empty for any other.
    `latest_event_ms` is the latest event time that it records, 0 where it records none.
    `log_form` is what one of its log files shows, and not its own file (`with_log_forms`).
    """

    stats: WriteStats
    extra: Mapping[str, str]
    operation: str | None
    replaced: frozenset[tuple[str, str]] = frozenset()
    plain_instant: str = ""
    latest_event_ms: int = 0
    log_form: LogForm = "unseen"

    @property
    def file_ids(self) -> frozenset[str]:
        """The file groups that it wrote to or took away."""
        return frozenset(file_id for _, file_id in (*self.stats.groups, *self.replaced) if file_id)


def decode_commit(content: bytes, place: str, *, among: int = 1) -> CommitMetadata:
    """A commit's metadata from Avro or JSON bytes; `place` is named in the error.

    Of one among many commits, and of a large one, the stats are read by a pattern if it fits: faster, and without a look
    at the fields that are not asked for. What does not fit, and what is damaged, is fastavro's to judge.

    Raises:
        TableError: the content cannot be parsed.

    """
    with _alone(content):
        return _decode_commit(content, place, among)


def _decode_commit(content: bytes, place: str, among: int) -> CommitMetadata:
    found = _by_pattern(content) if among >= _MANY or len(content) >= _LARGE_BYTES else None
    record = decode_metadata(content, place) if found is None else found[1]
    try:
        _require_likely(record, len(content))
        stats = _by_columns(list(_stats(record))) if found is None else found[0]
        return _commit(stats, record)
    except UNKNOWN_FORM as error:
        raise unknown_form(f"timeline file `{place}` is", error) from error


def _alone(content: bytes) -> AbstractContextManager[object]:
    """Around the decoding of what may take much memory: one at a time, as tables are read side by side."""
    return _ALONE if len(content) >= _ALONE_BYTES else nullcontext()


def _require_likely(record: Mapping[str, Any], size: int) -> None:
    """Return if a commit has bytes enough for the files that it names: it is kept for longer than its record."""
    named = (one for name in (_STATS, _REPLACED) for one in mapping_of(record.get(name)).values())
    if not _is_likely(sum(1 + len(list_of(one)) for one in named), size, _COMPRESSED_PER_FILE):
        raise ValueError(f"it names more files than its {size:,} bytes can")


def _is_likely(files: int, size: int, each: int = _BYTES_PER_FILE) -> bool:
    return files <= _SPARE_FILES + size // each


def decode_metadata(content: bytes, place: str) -> dict[str, Any]:
    """One metadata record from Avro or JSON bytes; `place` is named in the error.

    Raises:
        TableError: the content cannot be parsed.

    """
    if not content:
        return {}
    if len(content) > MAX_DECODED_BYTES:
        message = f"timeline file `{place}` is larger than {MAX_DECODED_BYTES >> 20} MiB, and not as Hudi writes it"
        raise TableError(Code.TOO_LARGE, message, hint=CORRUPT_HINT)
    try:
        with _alone(content):
            record = read_first_record(content) if content[: len(MAGIC)] == MAGIC else load_json(content)
    except Exception as error:  # corrupt bytes make fastavro raise almost anything
        message = f"cannot read timeline file `{place}`"
        raise TableError(Code.DAMAGED_TIMELINE, message, hint=CORRUPT_HINT, cause=str(error)[:500]) from error
    if not isinstance(record, dict):
        raise TableError(Code.DAMAGED_TIMELINE, f"timeline file `{place}` holds no record")
    return record


def _commit(stats: WriteStats, record: Mapping[str, Any]) -> CommitMetadata:
    taken = mapping_of(record.get(_REPLACED)).items()
    replaced = frozenset(
        (partition_of(partition), name_of(one)) for partition, found in taken for one in list_of(found, nullable=False)
    )
    operation = name_of(record.get("operationType")) or None
    times = chain(stats.min_event_times_ms, stats.max_event_times_ms)
    latest_ms = max(filter(None, times), default=0)
    return CommitMetadata(stats, pairs_of(record), operation, replaced, _plain_instant(stats), latest_ms)


def _plain_instant(stats: WriteStats) -> str:
    if any(stats.deletes) or None in stats.min_event_times_ms or len(set(stats.groups)) < len(stats):
        return ""
    first = parse_data_file(stats.file_names[0]) if stats.file_names else None
    if first is None or not first.is_log:
        return ""
    named = zip(stats.groups, stats.file_names, strict=True)
    return first.instant if all(is_log_name(name, file_id, first.instant) for (_, file_id), name in named) else ""


def _stats(record: Mapping[str, Any]) -> Iterator[WriteStat]:
    for partition, stats in mapping_of(record.get(_STATS)).items():
        for stat in list_of(stats, nullable=False):
            file_id, path, previous, rows, deletes, size, time, files, merged, latest = map(
                mapping_of(stat, nullable=False).get, _WANTED
            )
            yield WriteStat(
                partition_of(partition),
                name_of(file_id),
                name_of(path).rpartition("/")[2],
                name_of(previous),
                number_of(rows),
                number_of(deletes),
                number_of(size),
                time if is_long(time) else None,
                number_of(files),
                number_of(merged),
                latest if is_long(latest) else None,
            )


def _by_columns(stats: Sequence[WriteStat]) -> WriteStats:
    if not stats:
        return WriteStats()
    partitions, file_ids, *others = map(list, zip(*stats, strict=True))
    return WriteStats(list(zip(partitions, file_ids, strict=True)), *others)


@dataclass(frozen=True, slots=True)
class _Form:
    """How the commits of one writer version are laid out: stats in a map, perhaps null, and then the rest."""

    pattern: RecordPattern
    is_nullable: bool
    rest: Any
    rate: int


#: Forms by the headers of files. Writers of a release have one or two; whoever writes a new one into each commit gets no more.
_FORMS = dict[bytes, _Form | None]()
_MOST_FORMS, _MAX_HEADER_BYTES = 32, 1 << 18


def _form(header: bytes) -> _Form | None:
    """The form that an Avro file's header, up to its sync marker, describes; None where no pattern is made for it."""
    if header not in _FORMS and len(_FORMS) < _MOST_FORMS:
        _FORMS[header] = _form_of(header)
    return _FORMS.get(header)


def _form_of(header: bytes) -> _Form | None:
    try:
        file = read_header(header + bytes(SYNC_BYTES))
        schema: Any = load_json(file.schema)
        parse_schema(schema)
        first, *rest = schema["fields"]
        kinds = first["type"] if isinstance(first["type"], list) else [first["type"]]
        if first["name"] != _STATS or kinds[:-1] not in ([], ["null"]) or file.codec != "null":
            return None
        pattern = RecordPattern(kinds[-1]["values"]["items"], _WANTED)
        named: dict[str, Any] = {}
        others = parse_schema({**schema, "fields": rest}, named)
        return _Form(pattern, len(kinds) > 1, others, memory_rate(others, named))
    except Exception:  # corrupt bytes make fastavro raise almost anything; reading one by one says what is wrong
        return None


def _by_pattern(content: bytes) -> tuple[WriteStats, Mapping[str, Any]] | None:
    """The stats of an Avro file of one block and one record, and the record's other fields; None for any other file."""
    import fastavro

    try:
        end = len(content) - SYNC_BYTES
        begin = content.index(content[end:], 0, _MAX_HEADER_BYTES)
        form = _form(content[:begin])
        records, start = next_size(content, begin + SYNC_BYTES)
        length, start = next_size(content, start)
        if form is None or records != 1 or start + length != end:
            return None
        stats, start = _read_stats(content, start, form)
        if start > end:
            return None
        require_modest(end - start, form.rate)
        rest = BytesIO(content[start:end])
        record: Any = fastavro.schemaless_reader(rest, form.rest, None)
    except Exception:  # as above
        return None
    return None if rest.read(1) else (stats, record)


def _read_stats(content: bytes, start: int, form: _Form) -> tuple[WriteStats, int]:
    counts: dict[str, int] = {}
    records: list[tuple[bytes | None, ...]] = []
    is_there, start = next_size(content, start) if form.is_nullable else (1, start)
    if is_there > 1:
        raise IrregularError
    partitions, start = next_size(content, start) if is_there else (0, start)
    while partitions:
        for _ in range(partitions):
            length, start = next_size(content, start)
            partition, start = content[start : start + length].decode(), start + length
            if partition in counts or length > MAX_PATH or not _is_likely(len(counts), len(content)):
                raise IrregularError
            before = len(records)
            count, start = next_size(content, start)
            while count:
                if not _is_likely(len(records) + count, len(content)):
                    raise IrregularError
                found, start = form.pattern.read(content, start, count)
                records += found
                count, start = next_size(content, start)
            counts[partition] = len(records) - before
        partitions, start = next_size(content, start)
    return _columns([partition for partition, count in counts.items() for _ in range(count)], records), start


def _columns(partitions: Sequence[str], records: Sequence[tuple[bytes | None, ...]]) -> WriteStats:
    if not records:
        return WriteStats()
    file_ids, paths, previous, rows, deletes, sizes, times, merged_files, merged_bytes, latest = zip(
        *records, strict=True
    )
    return WriteStats(
        list(map(_group, partitions, file_ids)),
        [read_text(path).rpartition("/")[2] if path else "" for path in paths],
        list(map(_text, previous)),
        list(map(_count, rows)),
        list(map(_count, deletes)),
        [read_long(size) if size else 0 for size in sizes],
        [read_long(time) if time else None for time in times],
        list(map(_count, merged_files)),
        list(map(_count, merged_bytes)),
        [read_long(time) if time else None for time in latest],
    )


@lru_cache(maxsize=65_536)
def _group(partition: str, file_id: bytes | None) -> GroupKey:
    """The same object for the same file group, of which there are few beside its log files."""
    return partition, _text(file_id)


@lru_cache(maxsize=65_536)
def _text(raw: bytes | None) -> str:
    """A text that comes again and again."""
    return read_text(raw) if raw else ""


@lru_cache(maxsize=65_536)
def _count(raw: bytes | None) -> int:
    return read_long(raw) if raw else 0


#: Raised when the same bytes may be decoded to something else: what was kept before is then ignored.
FORM = 5

#: Version, columns, and the fields of a commit that follow its stats.
_Packed = tuple[Any, ...]


class CommitFacts:
    """Decoded commits by the names of their files; here nothing is kept."""

    def find(self, folder: str) -> None:
        """Begin a reading of the timeline in this folder: what is known of the files as they are there now."""

    def unknown(self, names: Iterable[str]) -> list[str]:
        """Those of the files of which it is not known what they were decoded to."""
        return list(names)

    def get(self, name: str) -> CommitMetadata | None:
        """What a file of the version that it has now was decoded to; None where that is not known."""
        return None

    def put(self, name: str, commit: CommitMetadata) -> None:
        """Keep what a file was decoded to."""

    def of_files(self, folder: str, names: Sequence[str], look: Callable[[str], bool | None]) -> list[bool | None]:
        """What `look` sees in these files of a folder; None, which is not kept, where it sees nothing."""
        return list(map(look, names))

    def save(self) -> None:
        """Keep all of it for the next command."""


class KeptFacts(CommitFacts):
    """The facts of one table in a cache; what cannot be read there, or is not whole, is not there."""

    def __init__(self, cache: Cache, storage: TableReader, properties: Mapping[str, str]) -> None:
        made_by = (FORM, __version__, sys.implementation.cache_tag, marshal.version)
        self._storage, self._cache = storage, cache
        self._key = digest({"table": [storage.location, dict(properties)], "made_by": [*map(str, made_by)]})
        self._versions: Mapping[str, str] = {}
        self._kept: dict[str, _Packed] = {}
        self._seen: dict[str, tuple[str, bool]] = {}
        self._changed = False

    def find(self, folder: str) -> None:
        """Read what was kept, and forget files that are gone or that have changed."""
        kept, now = self._kept, self._storage.versions(folder)
        if not kept:
            kept, self._seen = _unpacked(self._cache.get(self._key))
        self._versions = now
        self._kept = {name: one for name, one in kept.items() if now.get(name) == one[0]}
        self._changed = len(self._kept) < len(kept)

    def unknown(self, names: Iterable[str]) -> list[str]:
        """Those that have not been decoded."""
        return [name for name in names if name not in self._kept]

    def get(self, name: str) -> CommitMetadata | None:
        """A commit as it was decoded."""
        packed = self._kept.get(name)
        return CommitMetadata(WriteStats(*packed[1]), *packed[2:]) if packed else None

    def put(self, name: str, commit: CommitMetadata) -> None:
        """Keep a commit whose file has a version."""
        version = self._versions.get(name)
        if version is not None:
            columns = tuple(getattr(commit.stats, column.name) for column in fields(WriteStats))
            others = (getattr(commit, one.name) for one in fields(CommitMetadata)[2:])
            self._kept[name] = (version, columns, dict(commit.extra), *others)
            self._changed = True

    def of_files(self, folder: str, names: Sequence[str], look: Callable[[str], bool | None]) -> list[bool | None]:
        """What was seen of files of the versions that they have now; these alone are kept from now on."""
        now, before = self._storage.versions(folder), self._seen
        known = {name: seen for name, (version, seen) in before.items() if now.get(name) == version}
        found = [known[name] if name in known else look(name) for name in names]
        pairs = zip(names, found, strict=True)
        self._seen = {name: (now[name], seen) for name, seen in pairs if seen is not None and name in now}
        self._changed = self._changed or self._seen != before
        return found

    def save(self) -> None:
        """Write what has changed."""
        if self._changed:
            self._cache.put(self._key, marshal.dumps((self._kept, self._seen)))
            self._changed = False


def _unpacked(content: bytes | None) -> tuple[dict[str, _Packed], dict[str, tuple[str, bool]]]:
    if content is not None:
        with suppress(EOFError, ValueError, TypeError):  # another Python's, whatever its key says
            kept, seen = marshal.loads(content)  # noqa: S302 - the digest before it says that it is ours
            if isinstance(kept, dict) and isinstance(seen, dict):
                return kept, seen
    return {}, {}
