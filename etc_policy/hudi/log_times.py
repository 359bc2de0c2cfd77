"""Smallest event times of log files from their own blocks, where nothing cheaper knows them, or from all of them.

See facts: log-scan.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, chain, groupby
from operator import methodcaller
from typing import BinaryIO, TypeVar
from zoneinfo import ZoneInfo

from etc_policy.errors import EtcError
from etc_policy.hudi.archive import Archive
from etc_policy.hudi.base_times import left_times
from etc_policy.hudi.block_times import (
    OTHER_COLUMN,
    ROWS_WITHOUT_TIMES,
    LogTimes,
    TimesWanted,
    read_small_files,
    read_times,
)
from etc_policy.hudi.event_time_values import kind_of
from etc_policy.hudi.layout import parse_data_file
from etc_policy.hudi.properties import read_properties
from etc_policy.hudi.stable_reading import table_errors
from etc_policy.hudi.times_cache import TimesCache
from etc_policy.plan.carry import is_bounded
from etc_policy.plan.cut import not_left_behind
from etc_policy.policy.manifest import EventTime, Policy
from etc_policy.storage.by_cores import SHARED_BYTES, read_by_cores
from etc_policy.storage.object_cache import Cache
from etc_policy.storage.open_storage import open_reader
from etc_policy.storage.port import TableReader
from etc_policy.table.apply_state import Misrecorded
from etc_policy.table.formats import count_of, format_bytes, format_duration, format_time
from etc_policy.table.history import TableHistory, WriteKey
from etc_policy.table.impossible_times import latest_in, with_impossible
from etc_policy.table.instants import instant_to_ms
from etc_policy.table.log_witness import NOT_THERE, in_words, misrecorded_in, path_of, with_earlier_times
from etc_policy.table.state import FileSlice, LogFile, LogWitness, TableState, UnreadableTime

#: So many are read before what commits recorded is believed.
_ASKED = 3
#: What `etc import` reads to see how late events come: the newest log files, so many and so many bytes.
_SAMPLED, _SAMPLED_BYTES = 20, 64 * 1024 * 1024
_UNCOUNTED = "it deletes rows, and its commit counts no deletes"

#: Files up to this size are held in memory, and decoded together: as many as a share of `read_by_cores` has.
_SMALL_BYTES = 1024 * 1024

T = TypeVar("T")
Progress = Callable[[str], None]
Files = Sequence[tuple[FileSlice, LogFile]]


def fill_from_logs(
    state: TableState, policy: Policy, kept: Cache | None, progress: Progress = lambda _: None
) -> TableState:
    """The state with the event times that the unknown log files themselves hold; which of them have deletes stays as it was.

    What was read is kept in `kept` for the next time; without one nothing is. A file that cannot be read, or not in full,
    stays unknown.
    """
    missing = _unknown(state)
    if not missing:
        return state
    cache, _ = _read_files(state, lambda _: missing, policy, kept, progress)
    filled = _with_archived_blocks(_filled(state, policy, cache, known_too=False), cache)
    return replace(filled, unreadable_time=_unreadable(filled, missing, cache))


def read_all_logs(
    state: TableState, policy: Policy, kept: Cache | None, progress: Progress = lambda _: None
) -> TableState:
    """As `fill_from_logs`, but of every log file: the state has a witness for each, and the earlier of both times.

    Those of which an earlier run has read the very same version are read again only with `verify.full`.
    """
    files = list(state.log_files)
    if not files:
        return replace(state, witnesses=())
    cache, _ = _read_files(state, lambda _: files, policy, kept, progress, anew=policy.verify.full)
    grows = not state.is_cut  # so that no one commit counts its deletes
    witnesses = tuple(_witness(path_of(s, f), f, cache, may_delete=grows or f.has_deletes) for s, f in files)
    filled = _with_archived_blocks(_filled(state, policy, cache, known_too=True), cache)
    read = replace(filled, unreadable_time=_unreadable(filled, _unknown(state), cache), witnesses=witnesses)
    return with_earlier_times(read, misrecorded_in(witnesses))


def why_not_believed(
    state: TableState, policy: Policy, kept: Cache | None, progress: Progress = lambda _: None
) -> str | None:
    """What contradicts the event times that commits recorded of log files, in words; None where nothing does.

    A few are read, the newest of each file group, or those that did when they were read before: no commit says of which column
    its times are. What cannot be read is said, and contradicts nothing.
    """
    try:
        cache, chosen = _read_files(state, partial(_to_ask, state), policy, kept, progress)
    except EtcError as error:
        progress(f"{policy.name}: commits are believed, as log files cannot be held against them: {error.with_cause}")
        return None
    unread = [path for s, f in chosen if (times := cache.get(path := path_of(s, f))) is None or times.damaged]
    if unread:
        progress(f"{policy.name}: its commit is believed, as it cannot be read: {unread[0]}")
    return next(filter(None, (_contradiction(s, f, cache.get(path_of(s, f))) for s, f in chosen)), None)


def _to_ask(state: TableState, cache: TimesCache) -> Files:
    names = {path.rpartition("/")[2] for path in cache.entries}
    before = (
        (s, f, cache.entries.get(path_of(s, f))) for s, f in (state.log_files if names else ()) if f.name in names
    )
    known = [(s, f) for s, f, entry in before if entry is not None and _contradiction(s, f, entry[1])]
    of_slices = ((s, _newest_recorded(s)) for s in state.slices)
    newest = [(s, f) for s, f in of_slices if f is not None]
    latest = sorted(newest, key=lambda one: (one[1].completed, one[1].name), reverse=True)
    return (known or latest)[:_ASKED]


def _newest_recorded(file_slice: FileSlice) -> LogFile | None:
    """The last to complete of its log files whose event time is known."""
    return next((one for one in reversed(file_slice.log_files) if one.min_event_time_ms is not None), None)


def _contradiction(file_slice: FileSlice, log_file: LogFile, times: LogTimes | None) -> str | None:
    recorded_ms, path = log_file.min_event_time_ms, path_of(file_slice, log_file)
    if recorded_ms is None or times is None:
        return None
    if times.seen_ms is not None and times.seen_ms < recorded_ms:
        return in_words(Misrecorded(path, log_file.size_bytes, recorded_ms, times.seen_ms))
    has_none = times.why is None and times.min_ms is None and times.has_nulls
    if has_none or times.why in OTHER_COLUMN:
        return f"{path} holds {times.why or 'no event time'}, and its commit recorded {format_time(recorded_ms)}"
    return None


def with_read_times(history: TableHistory, state: TableState, policy: Policy, kept: Cache | None) -> TableHistory:
    """The history with what was read of the log files of its writes, now or before they were compacted; none is opened here."""
    if all(one.known_min_ms is not None for one in history.writes):
        return history
    cache = TimesCache.load(kept, state.base_path, _wanted(policy, state))
    found: dict[WriteKey, list[int | None]] = {}
    for path, (_, times) in cache.entries.items():
        partition, _, name = path.rpartition("/")
        log_file = parse_data_file(name)
        if log_file is None:
            continue
        # before version 8 its name bears the instant of its slice, and writers may add to it
        written = {log_file.instant} if state.is_cut else times.instants
        is_whole = times.why is None or times.deletes
        for instant in written if len(written) == 1 else ():
            found.setdefault((instant, partition, log_file.file_id), []).append(times.seen_ms if is_whole else None)
    read = ((one.key, found[one.key]) for one in history.writes if len(found.get(one.key, ())) >= one.log_files)
    least = {key: min((one for one in times if one is not None), default=None) for key, times in read}
    return replace(history, read_times=least)


def sampled_lags(
    state: TableState, event_times: Iterable[EventTime], types: Mapping[str, str], kept: Cache | None = None
) -> dict[str, tuple[int, ...]]:
    """How long before its commit the earliest event of each of the newest came, the shortest first, by column; below 0 after it.

    They are those of the newest log files, and others of which the newest base files still hold rows. `types` are the columns'
    Avro types. A file whose rows cannot be read by a column is left out there.
    """
    storage, zone = open_reader(state.base_path), ZoneInfo(state.timezone)
    newest = sorted(state.log_files, key=lambda one: one[1].completed, reverse=True)[:_SAMPLED]
    sizes = accumulate(log_file.size_bytes for _, log_file in newest)
    files = [one for one, size in zip(newest, sizes, strict=True) if size <= _SAMPLED_BYTES]
    found: dict[str, tuple[int, ...]] = {}
    for event_time in event_times:
        type_name, lags = types[event_time.column], dict[int, int]()
        for began_ms, time_ms in left_times(state, event_time, type_name, kept).items():
            lags[began_ms] = began_ms - time_ms
        for file_slice, log_file in files:
            wanted = TimesWanted(event_time, type_name, state.ordering_fields)
            ((_, times),) = _read(storage, {path_of(file_slice, log_file): log_file.size_bytes}, wanted)
            write = None if times is None else _write_of(state, log_file, times)
            if times is not None and times.seen_ms is not None and write is not None:
                began_ms, ended_ms = (instant_to_ms(one, zone) for one in write)
                lag_ms = ended_ms - times.seen_ms
                lags[began_ms] = max(lag_ms, lags.get(began_ms, lag_ms))
        found |= {event_time.column: tuple(sorted(lags.values()))} if lags else {}
    return found


def _write_of(state: TableState, log_file: LogFile, times: LogTimes) -> tuple[str, str] | None:
    """When the write of a log file began and ended. Before table version 8 its name says neither: None where it is not one write
    of the active timeline.
    """
    if state.is_cut:
        return log_file.requested, log_file.completed
    found = [one for one in state.instants if one.requested in times.instants and one.state == "completed"]
    is_known = len(found) == len(times.instants) == 1
    return (found[0].requested, found[0].completed or found[0].requested) if is_known else None


def _unknown(state: TableState) -> Files:
    return [(s, f) for s, f in state.log_files if f.min_event_time_ms is None]


def _read_files(
    state: TableState,
    choose: Callable[[TimesCache], Files],
    policy: Policy,
    kept: Cache | None,
    progress: Progress,
    *,
    anew: bool = False,
) -> tuple[TimesCache, Files]:
    """What the chosen log files hold, and which these are; those that were read before are not read again, unless `anew`."""
    storage = open_reader(state.base_path)
    cache = TimesCache.load(kept, state.base_path, wanted := _wanted(policy, state))
    files = choose(cache)
    if kept is not None:
        names = defaultdict[str, set[str]](set)
        for file_slice, log_file in files:
            names[file_slice.partition].add(log_file.name)
        cache.find(storage, names)
    sizes = {path_of(s, f): f.size_bytes for s, f in files}
    unread = {path: size for path, size in sizes.items() if anew or cache.get(path) is None}
    announce = _announcer(policy.name, unread, progress)
    for path, times in read_by_cores(storage, unread, partial(_read, wanted=wanted)):
        announce(unread[path])
        if times is not None:
            cache.put(path, times)
    if cache.entries:
        cache.save({f.name for _, f in state.log_files})
    return cache, files


def _witness(path: str, log_file: LogFile, cache: TimesCache, *, may_delete: bool) -> LogWitness:
    recorded_ms, times = log_file.min_event_time_ms, cache.get(path)
    if times is None:
        return LogWitness(path, log_file.size_bytes, recorded_ms, None, NOT_THERE)
    why = _UNCOUNTED if times.deletes and times.why is None and not may_delete else times.why
    witness = LogWitness(path, log_file.size_bytes, recorded_ms, times.min_ms, why, times.has_nulls, times.damaged)
    return witness._replace(is_read_anew=path in cache.read)


def _filled(state: TableState, policy: Policy, cache: TimesCache, *, known_too: bool) -> TableState:
    """The state with what was read of log files whose time is not known, or of all."""

    def filled(file_slice: FileSlice, log_file: LogFile) -> LogFile:
        if log_file.min_event_time_ms is not None and not known_too:
            return log_file
        times = cache.get(path_of(file_slice, log_file))
        if times is None:
            return log_file
        return _with_writes(_with_time(state, policy, file_slice, log_file, times), times)

    return state.with_log_files(filled)


def _with_writes(log_file: LogFile, times: LogTimes) -> LogFile:
    """The log file with when its rows were committed by its own blocks, where commits know no more than its slice's instant.

    All blocks have to be understood.
    """
    instants, is_whole = times.instants - times.taken_back, times.why is None or times.deletes
    if log_file.written is None or log_file.written[0] > log_file.requested or not (instants and is_whole):
        return log_file
    return log_file._replace(written=(min(instants), max(instants)))


def _unreadable(state: TableState, missing: Files, cache: TimesCache) -> UnreadableTime | None:
    """The first log file whose values cannot be read as the policy says; among numbers that can, others are odd values."""
    if kind_of(state.event_time_type or "") == "number" and state.knows_event_times:
        return None
    read = ((f.name, cache.get(path_of(s, f))) for s, f in missing)
    return next((UnreadableTime(name, times.unreadable) for name, times in read if times and times.unreadable), None)


def _with_archived_blocks(state: TableState, cache: TimesCache) -> TableState:
    """The state with what blocks show before table version 8, where no name does: of which archived writes log files have rows.

    A write that is rolled back leaves them, and a block that takes them back; where its markers are gone, it leaves no such block
    (facts: rolled-back-blocks-shown). What came after a savepoint readers may not show (facts: beyond-savepoint).
    """
    if state.is_cut:
        return state
    known, first = {one.requested for one in state.instants}, next(iter(not_left_behind(state.instants)), "")
    found: dict[str, frozenset[str]] = {}
    for file_slice in state.slices:
        read = {path: times for f in file_slice.log_files if (times := cache.get(path := path_of(file_slice, f)))}
        done = known.union(*(times.taken_back for times in read.values()))
        found |= {path: times.instants - done for path, times in read.items()}
    savepoint = min((one.requested for one in state.instants if one.has_savepoint), default=first)
    archived = {path: frozenset(one for one in instants if one < first) for path, instants in found.items()}
    storage, later = open_reader(state.base_path), {one for of_file in found.values() for one in of_file if one > first}
    asked = frozenset(chain.from_iterable(archived.values())) if state.metadata_partitions else frozenset()
    held = never = frozenset[str]()
    if later or asked:
        with table_errors(storage.location):
            archive = Archive(storage, read_properties(storage))
            held, never = archive.holding(later), archive.lacking(asked) if asked else never
    hidden = (
        (one, path) for path, instants in found.items() for one in instants if savepoint < one < first or one in held
    )
    left = (path for path, instants in archived.items() if not never.isdisjoint(instants))
    unrecorded = tuple(sorted({*state.unrecorded_files, *left}))
    return replace(state, unrecorded_files=unrecorded, hidden_blocks=tuple(sorted({*state.hidden_blocks, *hidden})))


def _with_time(state: TableState, policy: Policy, file_slice: FileSlice, log_file: LogFile, times: LogTimes) -> LogFile:
    """A log file with a row without an event time stays unknown: nobody knows when that row, or a delete, is due.

    See facts: unknown-event-times. So does each where rows change earlier ones in part. One with an event time that cannot
    be true becomes unknown, unless a compaction found that all in it is after its threshold, or its commit recorded the others:
    Hudi leaves out what has more digits, and no plan sees it (facts: dropped-maximum).
    """
    in_part = state.updates_in_part or file_slice.updates_in_part
    latest_ms, recorded_ms = latest_in(state, log_file, policy.event_time), log_file.min_event_time_ms
    is_recorded = recorded_ms is not None and times.seen_ms is not None and times.seen_ms <= latest_ms
    if times.max_ms is not None and times.max_ms > latest_ms and not is_bounded(log_file) and not is_recorded:
        return with_impossible(log_file, times.seen_ms, times.max_ms, latest_ms)
    if recorded_ms is not None:
        return log_file
    if times.min_ms is not None and not times.has_nulls and not in_part:
        return log_file._replace(min_event_time_ms=times.min_ms, max_event_time_ms=times.max_ms)
    seen = [one for one in (times.seen_ms, log_file.seen_event_time_ms) if one is not None]
    only_deletes_lack_times = (times.why is None or times.deletes) and not times.has_nulls
    found_deletes = log_file.has_deletes and not in_part and only_deletes_lack_times
    lacks_others = times.has_nulls or times.why in ROWS_WITHOUT_TIMES  # the commit recorded the times of the rest
    is_deletes = found_deletes or (log_file.unknown_is_deletes and not lacks_others)
    return log_file._replace(
        seen_event_time_ms=min(seen, default=None), unknown_is_deletes=is_deletes, null_rows=times.null_rows
    )


def _wanted(policy: Policy, state: TableState) -> TimesWanted:
    return TimesWanted(policy.event_time, state.event_time_type, state.ordering_fields, state.column_since)


def _read(storage: TableReader, sizes: Mapping[str, int], wanted: TimesWanted) -> Iterator[tuple[str, LogTimes | None]]:
    """What each log file holds; None where the file system does not give it as it was listed. Small ones are decoded together.

    Raises:
        TableError: nobody may read one as this user.

    """
    for is_small, paths in groupby(sizes, key=lambda path: sizes[path] <= _SMALL_BYTES):
        if is_small:
            contents = {path: _opened(storage, path, sizes[path], methodcaller("read", sizes[path])) for path in paths}
            whole = [content for content in contents.values() if content is not None]
            times = read_small_files(whole, wanted)
            yield from ((path, None if content is None else next(times)) for path, content in contents.items())
        else:
            for path in paths:
                size = sizes[path]
                yield path, _opened(storage, path, size, partial(read_times, size=size, wanted=wanted))


def _opened(storage: TableReader, path: str, size: int, read: Callable[[BinaryIO], T]) -> T | None:
    with table_errors(storage.location):
        try:
            with storage.open(path) as stream:
                if stream.seek(0, os.SEEK_END) != size:
                    return None
                stream.seek(0)
                return read(stream)
        except (EtcError, PermissionError):
            raise
        except OSError:
            return None


def _announcer(name: str, sizes: Mapping[str, int], progress: Progress) -> Callable[[int], None]:
    """To be called with the size of each file that was read; says how far that is, where there is much to read."""
    total, files, began = sum(sizes.values()), count_of(len(sizes), "log file"), time.monotonic()
    done = due = 0

    def announce(size: int) -> None:
        nonlocal done, due
        done += size
        if total > SHARED_BYTES and due <= done < total:
            left_seconds = (total - done) * (time.monotonic() - began) / max(done, 1)
            left = f", about {format_duration(round(left_seconds) * 1000)} left" if left_seconds >= 1 else ""
            read = f"{format_bytes(done)} of {format_bytes(total)} read{left}"
            progress(f"{name}: reading event times of {files} ({read})")
            due += SHARED_BYTES

    announce(0)
    return announce
