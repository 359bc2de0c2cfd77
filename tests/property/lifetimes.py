"""Lifetimes: bytes in, a table on disk with a past out, and the true rows of its files. The same bytes give the same lifetime.

What stock Hudi does is played with the files that it leaves. Nothing here asks etc what is complete, proved or exposed.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import fastavro

from etc_policy.plan.split import SPLIT
from etc_policy.policy.manifest import EventTime
from etc_policy.table.history import PLAN_ID, POLICY, POLICY_VALUES, SEEN_UNTIL, THRESHOLD
from tests.property.history import Choices
from tests.property.model import instant_text
from tests.unit.hudi import log_file
from tests.unit.hudi.table_folder import COMMIT_SCHEMA, TableFolder, Written, base, commit_metadata, log

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
BEGIN_MS = 1_767_225_600_000
#: Columns by name; which of two numbers each name has is what ALTER TABLE swaps.
NAMES = ("ts", "id")
#: Rows are no older than this when they are written, by whichever column, but for those that are late.
LATENCY_MS = 2 * HOUR
PLACES = (("a", "f"), ("a", "g"), ("b", "f"))
Group = tuple[str, str]
#: The write token by which a log file of rows that were split off is known.
_REMAINDER = "100000-0-0"
#: 2100-01-01: no event of these tables is so late.
_FAR_MS = 4_102_444_800_000
#: Slower writes are rolled back: their rows would come later than is promised, and clocks in doubt.
_LONGEST_WRITE_MS = 9 * MINUTE


#: What is no write.
_TAKING_BACK = (".rollback", ".restore")


class Row(NamedTuple):
    """A row by the event times of both columns; `stored` are the values in the file, where these are others."""

    times: tuple[int, int]
    stored: tuple[int, int]


@dataclass
class LogFile:
    """A log file with what is in it; one of rows that were split off has parts of several writes, and the column's number."""

    name: str
    requested: int
    completed: int
    rows: tuple[Row, ...]
    deletes: bool = False
    names: Mapping[str, int] = field(default_factory=dict)
    parts: tuple[LogFile, ...] = ()
    split_by: int | None = None


@dataclass
class FileGroup:
    """The newest base file of a file group, and the log files that RO lacks; `merged_deletes` by that base file's compaction."""

    base: int
    logs: list[LogFile] = field(default_factory=list)
    base_completed: int = 0
    merged_deletes: bool = False


class Promise(NamedTuple):
    """What a compaction by etc promised, by which column's number and name, and when."""

    threshold_ms: int
    column: int
    name: str
    instant: int
    completed: int


@dataclass
class Truth:
    """All that is true of a table."""

    groups: dict[Group, FileGroup] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=lambda: {"ts": 0, "id": 1})
    altered: tuple[int, int] | None = None
    promises: list[Promise] = field(default_factory=list)

    def lacking(self) -> list[tuple[Group, LogFile]]:
        """The log files whose rows RO lacks."""
        return [(key, one) for key, group in self.groups.items() for one in group.logs]

    def first_lacking_ms(self, name: str) -> int | None:
        """The smallest event time by the column with this name now that RO lacks."""
        number = self.names[name]
        return min((row.times[number] for _, one in self.lacking() for row in one.rows), default=None)

    def exposed(self) -> set[Group]:
        """The file groups with a write that the compaction of its base file left behind beside deletes."""
        found = ((key, one) for key, one in self.groups.items() if one.merged_deletes)
        return {key for key, one in found if any(file.requested < one.base_completed for file in one.logs)}


class Lifetime:
    """A table that lives through what its bytes spell out, one step at a time."""

    def __init__(self, data: bytes, folder: Path) -> None:
        self.choices, self.folder = Choices(data), folder
        self.table, self.truth = TableFolder(folder), Truth()
        self.now, self.story = BEGIN_MS + 24 * HOUR, list[str]()
        self.column = "ts"
        self.tracks: str | None = "ts" if self.choices.below(4) else None
        self.is_punctual = self.choices.one_in(2)
        self.has_wrong_values = False
        self.open: list[tuple[int, Callable[[], None], list[Path]]] = []
        self.replaced: list[tuple[str, str, str]] = []
        started = self.tick()
        self._commit(started, self.tick(), [base(file_id, partition=part) for part, file_id in PLACES])
        self.truth.groups = {key: FileGroup(started) for key in PLACES}

    def tick(self, most: int = 30) -> int:
        """A later moment; of no write the completion looks like one of a clock in another zone."""
        self.now += (1 + self.choices.below(most)) * SECOND
        return self.now

    @property
    def event_time(self) -> EventTime:
        """How the policy reads event times now."""
        return EventTime(column=self.column, unit="ms")

    @property
    def kinds(self) -> tuple[Callable[[], str], ...]:
        """What may happen, more often what is there more than once."""
        return (
            *(self.write, self.write, self.write, self.compact, self.compact, self.compact_by_stock, self.cluster),
            *(
                self.begin_write,
                self.end_write,
                self.archive,
                self.archive,
                self.edit_column,
                self.alter,
                self.overwrite,
            ),
        )

    def step(self) -> None:
        """Lives through one thing that can happen now, if one of a few can."""
        for _ in range(4):
            done = self.kinds[self.choices.below(len(self.kinds))]
            if said := done():
                self.story.append(f"{instant_text(self.now)} {done.__name__}: {said}")
                return

    def write(self) -> str:
        """A write that begins and ends."""
        self.begin_write()
        return self.end_write()

    def begin_write(self) -> str:
        """A writer has begun to write to a file group or two."""
        requested, tracks, names = self.tick(), self.tracks, dict(self.truth.names)
        keys = [key for key in sorted(self.truth.groups) if self.choices.below(2)] or [min(self.truth.groups)]
        written, made = [], []
        for partition, file_id in keys:
            rows, deletes = self._rows(requested), self.choices.one_in(6)
            content = log_content(rows, names, requested, deletes=deletes)
            times = [row.stored[names[tracks]] for row in rows] if tracks else None
            file = log(
                file_id,
                partition=partition,
                min_event=min(times) if times else None,
                max_event=max(times) if times else None,
                deletes=int(deletes),
                rows=len(rows),
                size=len(content),
            )
            name = file.name(instant_text(requested))
            written.append((file, content))
            made.append(((partition, file_id), LogFile(name, requested, 0, rows, deletes, names)))
        self.table.start(instant_text(requested), *(file for file, _ in written))
        paths = [self.folder / file.partition / file.name(instant_text(requested)) for file, _ in written]
        for path, (_, content) in zip(paths, written, strict=True):
            path.write_bytes(content)

        def end() -> None:
            completed = self.tick(20)
            self._complete(requested, completed, "deltacommit", [file for file, _ in written], "UPSERT")
            for key, one in made:
                one.completed = completed
                if key in self.truth.groups:
                    self.truth.groups[key].logs.append(one)

        self.open.append((requested, end, paths))
        return f"{instant_text(requested)} begins on {keys}, {[row.times for _, one in made for row in one.rows]}"

    def end_write(self) -> str:
        """A writer that has begun commits, or is rolled back."""
        if not self.open:
            return ""
        requested, end, paths = self.open.pop(self.choices.below(len(self.open)))
        is_slow = self.now - requested > _LONGEST_WRITE_MS - MINUTE
        if not (is_slow or self.choices.one_in(8)):
            end()
            return f"{instant_text(requested)} is committed"
        instant = instant_text(self.tick())
        names = [path.name for path in paths]
        for path in [*paths, *self.table.timeline.glob(f"{instant_text(requested)}.*")]:
            path.unlink()
        self.table.rollback(instant, instant_text(self.tick(20)), *names)
        return f"{instant_text(requested)} is rolled back"

    def compact(self) -> str:
        """A compaction by etc, as an honest plan of it is: all up to the last log file that is due by T."""
        number, seen = self.truth.names[self.column], self._last_completed()
        threshold_ms = self.now - self.choices.below(LATENCY_MS // MINUTE) * MINUTE
        due = {
            key: [f for f in group.logs if any(row.times[number] <= threshold_ms for row in f.rows) or f.deletes]
            for key, group in self.truth.groups.items()
        }
        last = max((one.completed for files in due.values() for one in files), default=None)
        if last is None or any(requested <= last for requested, _, _ in self.open):
            return ""
        instant = max(last, self.truth.altered[1] if self.truth.altered else 0) + 1
        first, taken = self._active()
        while instant_text(instant) in taken:
            instant += 1
        if instant_text(instant) <= first:
            return ""
        values = {f"event_time_column.{key}": str(value) for key, value in (("column", self.column), ("unit", "ms"))}
        pairs = {
            THRESHOLD: str(threshold_ms),
            POLICY: "t",
            PLAN_ID: f"plan-{instant}",
            SEEN_UNTIL: seen,
            POLICY_VALUES: json.dumps(values),
        }
        split = self.choices.one_in(3) and not self.has_wrong_values
        self._merge(
            instant, [key for key, files in due.items() if files], pairs, (number, threshold_ms) if split else None
        )
        self.truth.promises.append(Promise(threshold_ms, number, self.column, instant, self.now))
        return f"{instant_text(instant)} by {self.column}, T={threshold_ms}"

    def compact_by_stock(self) -> str:
        """A compaction by stock Hudi of a file group or all."""
        keys = [key for key in sorted(self.truth.groups) if self.truth.groups[key].logs]
        if not keys or self.open:
            return ""
        instant = self.tick()
        self._merge(instant, keys if self.choices.below(2) else keys[:1], {})
        return f"{instant_text(instant)}"

    def _merge(
        self, instant: int, keys: list[Group], pairs: Mapping[str, str], split: tuple[int, int] | None = None
    ) -> None:
        previous = {key: self.truth.groups[key].base for key in keys}
        if self.choices.below(2):
            self.write()  # beside the compaction, whose plan is made already
        completed = self.tick(20)
        files = [base(f, partition=part, previous=instant_text(previous[part, f])) for part, f in keys]
        text = instant_text(instant)
        merged = {key: [one for one in self.truth.groups[key].logs if one.completed < instant] for key in keys}
        late = {key: _later(files, *split) for key, files in merged.items()} if split else {}
        late = {key: files for key, files in late.items() if files}
        contents = {key: b"".join(_content_of(one) for one in found) for key, found in late.items()}
        remainders = [
            log(f, partition=part, version=0, token=_REMAINDER, size=len(content), rows=1)
            for (part, f), content in contents.items()
        ]
        if remainders:
            traces = [_trace(one, one.name(text)) for one in remainders]
            pairs = {**pairs, SPLIT: json.dumps(traces)}
        self.table.plan(text, pairs)
        self.table.file(text, ".compaction.inflight")
        self.table.data(text, *files, *remainders)
        for one, content in zip(remainders, contents.values(), strict=True):
            (self.folder / one.partition / one.name(text)).write_bytes(content)
        self._complete(instant, completed, "commit", [*files, *remainders], "COMPACT", pairs)
        for key in keys:
            left = [one for one in self.truth.groups[key].logs if one.completed >= instant]
            rows = tuple(row for one in late.get(key, ()) for row in one.rows)
            parts = tuple(late.get(key, ()))
            rest = (
                [LogFile(_REMAINDER, instant, completed, rows, parts=parts, split_by=split[0])]
                if rows and split
                else []
            )
            self.truth.groups[key] = FileGroup(
                instant, [*rest, *left], completed, any(one.deletes for one in merged[key])
            )

    def cluster(self) -> str:
        """A clustering, beside which a writer writes to the new file group already (facts: dual-write-names)."""
        keys = [key for key, group in sorted(self.truth.groups.items()) if not group.logs]
        if self.open or not keys:
            return ""
        (partition, old), requested, new_id = keys[0], self.tick(), f"c{len(self.story)}"
        text = instant_text(requested)
        self.table.file(text, ".clustering.requested")
        written = self.tick()
        rows = self._rows(written, slowest_ms=MINUTE)
        content = log_content(rows, self.truth.names, written, deletes=False)
        file = log(new_id, partition=partition, base_instant=text, size=len(content), rows=len(rows))
        self._commit(written, self.tick(5), [file])
        (self.folder / partition / file.name(text)).write_bytes(content)
        self.now += 7 * MINUTE
        completed = self.tick()
        self.table.replace(
            text, instant_text(completed), base(new_id, partition=partition), replaced={partition: [old]}
        )
        self.replaced.append((text, partition, old))
        del self.truth.groups[partition, old]
        made = LogFile(file.name(text), written, completed, rows, names=dict(self.truth.names))
        self.truth.groups[partition, new_id] = FileGroup(requested, [made])
        return f"{partition}/{old} by {new_id}, {[row.times for row in rows]}"

    def _last_completed(self) -> str:
        return max(path.name.split("_")[1][:17] for path in self.table.timeline.glob("*_*.*"))

    def _active(self) -> tuple[str, set[str]]:
        """The first write of the active timeline, and all instants of it."""
        names = {path.name[:17] for path in self.table.timeline.iterdir() if path.is_file()}
        writes = (
            path.name[:17]
            for path in self.table.timeline.iterdir()
            if path.suffix not in _TAKING_BACK and path.is_file()
        )
        return min(writes), names

    def archive(self) -> str:
        """The first instants are archived, up to the first write that is under way; what they replaced is cleaned before."""
        pending = min((requested for requested, _, _ in self.open), default=self.now)
        ends = (path for path in self.table.timeline.glob("*_*.*") if path.suffix != ".restore")
        count = min(self.choices.below(8), sum(path.name[:17] < instant_text(pending) for path in ends))
        self.archive_more(count)
        return f"{count} instants"

    def archive_more(self, count: int) -> None:
        """So many instants, the first that completed, are archived, but not the last write; what they replaced was cleaned."""
        ends = sorted(path for path in self.table.timeline.glob("*_*.*") if path.suffix != ".restore")
        done = [path.name[:17] for path in ends]
        count = min(count, max(place for place, path in enumerate(ends) if path.suffix not in _TAKING_BACK))
        for instant, partition, file_id in self.replaced:
            for path in (self.folder / partition).glob(f"*{file_id}_*") if instant in done[:count] else ():
                path.unlink()
        self.table.archive_first(count)

    def edit_column(self) -> str:
        """The policy names the other column, and writers that begin from now on record that one.

        Between two edits there is a compaction: nothing else shows that the column was another one.
        """
        if not self.truth.promises or self.truth.promises[-1].name != self.column:
            return ""
        self.column = NAMES[1 - NAMES.index(self.column)]
        self.tracks = self.tracks and self.column
        return f"{self.column}, tracks {self.tracks}"

    def alter(self) -> str:
        """ALTER TABLE swaps the names of the two columns: of what was written before only the promise on latency is known."""
        if self.open or self.truth.altered is not None or not self.is_punctual:
            return ""
        requested, completed = self.tick(), self.tick(20)
        self.truth.altered = requested, completed
        self._commit(requested, completed, [], kind="ALTER_SCHEMA")
        folder = self.table.meta / ".schema"
        folder.mkdir()
        versions = [_version(0, (1, 2)), _version(int(instant_text(requested)), (2, 1))]
        name = f"{instant_text(requested)}_{instant_text(completed)}.schemacommit"
        (folder / name).write_text(json.dumps({"schemas": versions}))
        self.truth.names = {"ts": 1, "id": 0}
        return "names swapped"

    def rest(self) -> str:
        """Nothing happens for a while."""
        self.now += 0 if self.open else 15 * MINUTE
        return "" if self.open else "15 minutes"

    def overwrite(self) -> str:
        """INSERT OVERWRITE of a partition: its file groups are replaced by a new one."""
        if self.open:
            return ""
        requested, completed = self.tick(), self.tick(20)
        partition = sorted(self.truth.groups)[0][0]
        old = [file_id for part, file_id in self.truth.groups if part == partition]
        new = base(f"n{len(self.story)}", partition=partition)
        text = instant_text(requested)
        self.table.replace(
            text,
            instant_text(completed),
            new,
            replaced={partition: old},
            kind="INSERT_OVERWRITE",
        )
        self.replaced += [(text, partition, file_id) for file_id in old]
        for file_id in old:
            del self.truth.groups[partition, file_id]
        self.truth.groups[partition, new.file_id] = FileGroup(requested)
        return f"{partition}: {old} by {new.file_id}"

    def _rows(self, written: int, slowest_ms: int = _LONGEST_WRITE_MS) -> tuple[Row, ...]:
        """Rows of a write that takes no longer than that, so that they come as early as is promised where all do."""
        return tuple(self._row(written, slowest_ms) for _ in range(1 + self.choices.below(3)))

    def _row(self, written: int, slowest_ms: int) -> Row:
        oldest = (LATENCY_MS - slowest_ms if self.is_punctual else 2 * LATENCY_MS) // MINUTE
        ages = [oldest if self.choices.one_in(5) else self.choices.below(oldest) for _ in NAMES]
        times = written - ages[0] * MINUTE, written - ages[1] * MINUTE
        return Row(times, (_FAR_MS, _FAR_MS) if self.has_wrong_values and self.choices.one_in(4) else times)

    def _commit(self, requested: int, completed: int, files: list[Written], kind: str = "UPSERT") -> None:
        self.table.start(instant_text(requested), *files)
        self._complete(requested, completed, "deltacommit", files, kind)

    def _complete(
        self,
        requested: int,
        completed: int,
        action: str,
        files: list[Written],
        kind: str,
        pairs: Mapping[str, str] | None = None,
    ) -> None:
        schema = {"latest_schema": f"of {self.truth.altered is not None}"}
        record = commit_metadata(instant_text(requested), tuple(files), {**schema, **(pairs or {})}, kind)
        self.table.complete(instant_text(requested), instant_text(completed), action, COMMIT_SCHEMA, record)


def _later(files: list[LogFile], number: int, threshold_ms: int) -> list[LogFile]:
    """The log files with the rows alone that are later than T by a column; of those with deletes nothing is split off."""
    if any(one.deletes for one in files):
        return []
    parts = [part for one in files for part in one.parts or (one,)]
    rows = [(one, tuple(row for row in one.rows if row.times[number] > threshold_ms)) for one in parts]
    return [LogFile(one.name, one.requested, 0, late, names=one.names) for one, late in rows if late]


def _content_of(one: LogFile) -> bytes:
    return log_content(one.rows, one.names, one.requested, deletes=False)


def _trace(one: Written, name: str) -> dict[str, Any]:
    made = {"remainder": name, "remainder_bytes": one.size}
    return {"partition": one.partition, "file_id": one.file_id, "log_files": [], "merged": [], **made}


def _version(number: int, numbers: tuple[int, int]) -> dict[str, Any]:
    fields = [{"id": n, "name": name, "optional": True, "type": "long"} for n, name in zip(numbers, NAMES, strict=True)]
    return {"max_column_id": 9, "version_id": number, "type": "record", "fields": fields}


def log_content(rows: tuple[Row, ...], names: Mapping[str, int], requested: int, *, deletes: bool) -> bytes:
    """The blocks of a log file: its rows under the names that the columns had then, and a delete by key alone."""
    fields = [{"name": name, "type": ["null", "long"], "default": None} for name in NAMES]
    schema = {"type": "record", "name": "r", "fields": fields}
    content = struct.pack(">ii", 3, len(rows))
    for row in rows:
        buffer = BytesIO()
        fastavro.schemaless_writer(buffer, schema, {name: row.stored[names[name]] for name in NAMES})
        content += struct.pack(">i", len(buffer.getvalue())) + buffer.getvalue()
    header = {log_file.INSTANT: instant_text(requested), log_file.SCHEMA: json.dumps(schema)}
    blocks = log_file.block(log_file.AVRO, content, header)
    if deletes:
        named = log_file.delete_list((log_file.NULL,))
        blocks += log_file.block(log_file.DELETE, struct.pack(">ii", 3, len(named)) + named, header)
    return blocks
