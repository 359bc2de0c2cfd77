"""What must be true at a checkpoint of the soak, when nobody writes: each difference is a sentence that names what broke."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import NamedTuple

from tests.integration.soak_batches import Batch, Contents, Deleted, partition_of, read_journal
from tests.integration.soak_timeline import Timeline

#: The view for which Hudi lists folders.
LISTED = "RT without the metadata table"
VIEWS = {
    "RT": {},
    LISTED: {"hoodie.metadata.enable": "false"},
    "RO": {"hoodie.query.as.ro.table": "true"},
}
SHOWN = 4
#: So many writes of a key are shown with its first alarm.
STORY = 12
#: A batch's completion, before that of any other.
NEVER = "9"


class Seen(NamedTuple):
    """A row as a view returned it."""

    value: str
    event_ms: int
    file_name: str


def read_views(spark, location: str) -> dict[str, dict[int, list[Seen]]]:
    """All rows of each view by key, in one pass of Spark."""
    from pyspark.sql import functions as F

    frames = [
        spark.read.format("hudi")
        .options(**of_view)
        .load(location)
        .select(F.lit(name).alias("view"), "id", "v", "ts", "_hoodie_file_name")
        for name, of_view in VIEWS.items()
    ]
    found: dict[str, dict[int, list[Seen]]] = {name: defaultdict(list) for name in VIEWS}
    for row in reduce(lambda left, right: left.unionAll(right), frames).collect():
        found[row.view][row.id].append(Seen(row.v, row.ts, row._hoodie_file_name))
    return found


def first_few(sentences: list[str]) -> list[str]:
    more = len(sentences) - SHOWN
    return sentences if more <= 0 else [*sentences[:SHOWN], f"... and {more} more like the last"]


@dataclass
class Expected:
    """What the journals say that the table holds, and when each batch completed.

    A listing of folders shows no newest state of the `hiding` partitions.
    """

    contents: Contents
    completed: dict[str, str]
    lost: list[str]
    batches: list[Batch]
    writers: int = 1
    hiding: frozenset[str] = frozenset()

    @classmethod
    def of(cls, journals: list[Path], timeline: Timeline) -> Expected:
        contents, lost, all_batches = Contents(), [], []
        for path in journals:
            batches, without_commit = read_journal(path, timeline.batches.__contains__)
            lost += without_commit
            all_batches += batches
            for batch in batches:
                contents.commit(batch)
        return cls(contents, timeline.batches, lost, all_batches, len(journals), timeline.hiding_partitions())

    def story(self, key: int) -> str:
        """What was written to a key, and when that was complete: for whoever looks at an alarm."""
        told = []
        for batch in self.batches:
            writes = [row for row in batch.rows if row.key == key] + ["deleted by key"] * (key in batch.deleted_keys)
            told += [f"{batch.name}, completed {self.completed.get(batch.name)}: {write}" for write in writes]
        return "\n    ".join([f"what was written to key {key}:", *told[-STORY:]])

    def problems(self, views: dict[str, dict[int, list[Seen]]], *, forgets_deleted: bool = False) -> Iterator[str]:
        """Lost batches, keys with two rows, and every difference between RT and the journals.

        An index that forgets a deleted key sends its next row to another file group: RO shows both until the delete is
        compacted (facts: forgotten-keys), which what is promised of RO forbids up to a threshold.
        """
        yield from (f"batch {name} was acknowledged and has no commit" for name in self.lost)
        for view, rows in views.items():
            if view == "RO" and forgets_deleted:
                continue
            twice = [f"{view}: key {key} has {len(seen)} rows: {seen}" for key, seen in rows.items() if len(seen) > 1]
            yield from first_few(twice)
            if view != "RO":
                yield from first_few([sentence for _, sentence in self._differences(view, rows)])

    def wrong_keys(self, rows: dict[int, list[Seen]]) -> set[int]:
        """The keys that RT does not show as the journals say: lost, back, older, or twice."""
        return {key for key, _ in self._differences("RT", rows)} | {key for key, seen in rows.items() if len(seen) > 1}

    def _differences(self, view: str, rows: dict[int, list[Seen]]) -> Iterator[tuple[int, str]]:
        for key in sorted(self.contents.living.keys() | rows.keys()):
            living, seen = self.contents.living.get(key), rows.get(key)
            if view == LISTED and partition_of(key, self.writers) in self.hiding:
                continue
            if living is None:
                yield key, f"{view}: key {key} was deleted by {self.contents.deleted.get(key)} and is there: {seen}"
            elif seen is None:
                yield key, f"{view}: key {key} is missing; the journals say {living}"
            elif (seen[0].value, seen[0].event_ms) != (living.value, living.event_ms):
                yield key, f"{view}: key {key} is {seen[0]}; the journals say {living}"

    def ro_problems(
        self, ro: dict[int, list[Seen]], until_ms: int, promise: str, seen_until: str = NEVER, *, latency_ms: int | None
    ) -> list[str]:
        """RO against RT's rows with event time up to a threshold, of batches that had completed by `seen_until`.

        A delete by key has no event time and is always due. With a `latency_ms`, which is for promises beside file slices that
        were left out, it happened no earlier than its batch's completion less that (facts: unknown-bounded).
        """

        def is_due(deleted: Deleted) -> bool:
            if deleted.event_ms is not None:
                return deleted.event_ms <= until_ms
            return latency_ms is None or in_ms(self.completed[deleted.batch]) - latency_ms <= until_ms

        return first_few(list(self._ro_differences(ro, until_ms, promise, lambda at: at <= seen_until, is_due)))

    def _ro_differences(
        self,
        ro: dict[int, list[Seen]],
        until_ms: int,
        promise: str,
        promised: Callable[[str], bool],
        is_due: Callable[[Deleted], bool],
    ) -> Iterator[str]:
        for key, living in self.contents.living.items():
            if living.event_ms > until_ms or not promised(self.completed[living.batch]):
                continue
            values = [seen.value for seen in ro.get(key, [])]
            if values != [living.value]:
                yield f"RO ({promise}): key {key} is {values}; RT has {living}"
        for key, deleted in self.contents.deleted.items():
            if is_due(deleted) and promised(self.completed[deleted.batch]) and key in ro:
                yield f"RO ({promise}): key {key} was deleted by {deleted} and is there: {ro[key]}"


def in_ms(instant: str) -> int:
    """The UTC time of an instant; the soak's table keeps them in the machine's own zone."""
    return round(datetime.strptime(f"{instant}000", "%Y%m%d%H%M%S%f").astimezone().timestamp() * 1000)


def published_problems(
    expected: Expected, ro: dict[int, list[Seen]], timeline: Timeline, latency_ms: int
) -> Iterator[str]:
    """RO against every threshold that a commit published, for the batches that its plan had seen."""
    for compaction in timeline.compactions:
        if compaction.threshold_ms is None:
            yield f"the compaction at {compaction.instant} has no threshold: somebody else made it"
        else:
            promise = f"T {compaction.threshold_ms} of the commit at {compaction.instant}"
            bound_ms = latency_ms if compaction.leaves_out else None
            yield from expected.ro_problems(
                ro, compaction.threshold_ms, promise, compaction.seen_until, latency_ms=bound_ms
            )


def history_problems(history: dict, timeline: Timeline) -> Iterator[str]:
    """`etc history` against the compactions that were seen on the timeline."""
    found = {one["instant"]: one["threshold_ms"] for one in history["compactions"]}
    there = {one.instant: one.threshold_ms for one in timeline.compactions}
    if len(found) != len(history["compactions"]):
        yield "`etc history` shows a compaction twice"
    if found != there:
        wrong = sorted(found.items() ^ there.items())
        yield f"`etc history` shows {len(found)} compactions, the timeline had {len(there)}; they differ in {wrong}"
