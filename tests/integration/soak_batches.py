"""What the writers of the soak write, their journals, and what the table must then show. Shares no code with etc.

No oracle can be right about a key that was deleted by key and comes back with a lower event time (facts: key-delete-reinsert),
so a key that was deleted comes back later than it ever was, and late events are drawn for living keys and new ones.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

KEYS_OF_WRITER = 20
SHARED = "shared"
LATENESS_MS = 90_000
ROWS = 6
#: Of so many keys that were deleted last one comes back often: a run of etc may be between the two.
LATELY = 3


class Row(NamedTuple):
    """One row to upsert; a deleted one is written with `_hoodie_is_deleted`."""

    key: int
    value: str
    event_ms: int
    deleted: bool = False


@dataclass(frozen=True)
class Batch:
    """One call of `save()`: rows to upsert, or keys to delete. `name` is recorded in its commit.

    One that `cleans` writes nothing.
    """

    name: str
    rows: tuple[Row, ...] = ()
    deleted_keys: tuple[int, ...] = ()
    cleans: bool = False

    @classmethod
    def of(cls, fields: Mapping) -> Batch:
        rows = tuple(Row(*row) for row in fields["rows"])
        return cls(fields["name"], rows, tuple(fields["deleted_keys"]), fields.get("cleans", False))


def partition_of(key: int, writers: int) -> str:
    """Two partitions of each writer's own, and one that all write to, where they may conflict."""
    writer, number = key % writers, key // writers
    return SHARED if number % 5 == 4 else f"{'ab'[number % 2]}{writer}"


class Living(NamedTuple):
    """A row of RT: its value and event time, and the batch that wrote it."""

    value: str
    event_ms: int
    batch: str


class Deleted(NamedTuple):
    """A key that was deleted, when its delete carried an event time with that."""

    event_ms: int | None
    batch: str


@dataclass
class Contents:
    """What RT shows after committed batches, under event-time ordering."""

    living: dict[int, Living] = field(default_factory=dict)
    deleted: dict[int, Deleted] = field(default_factory=dict)

    def commit(self, batch: Batch) -> None:
        for key in batch.deleted_keys:
            self._delete(key, Deleted(None, batch.name))
        for row in batch.rows:
            if row.key in self.living and row.event_ms < self.living[row.key].event_ms:
                continue
            if row.deleted:
                self._delete(row.key, Deleted(row.event_ms, batch.name))
            else:
                self.living[row.key] = Living(row.value, row.event_ms, batch.name)
                self.deleted.pop(row.key, None)

    def _delete(self, key: int, how: Deleted) -> None:
        if self.living.pop(key, None):
            self.deleted[key] = how


@dataclass
class Batches:
    """The batches of one writer, drawn by its dice from what is committed so far; `deletes` are `key`, `ordered` or both.

    One that does not share writes no key of the partition that all write to.
    """

    writer: int
    writers: int
    dice: random.Random
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    contents: Contents = field(default_factory=Contents)
    newest_ms: dict[int, int] = field(default_factory=dict)
    number: int = -1
    deletes: tuple[str, ...] = ("key", "ordered")
    shares: bool = True

    @property
    def keys(self) -> list[int]:
        own = range(self.writer, self.writer + KEYS_OF_WRITER * self.writers, self.writers)
        return [key for key in own if self.shares or partition_of(key, self.writers) != SHARED]

    def draw(self) -> Batch:
        """The next batch: most of the keys at first, then few: updates, inserts, late events and deletes of both kinds."""
        self.number += 1
        name = f"w{self.writer}-{self.number}"
        living = sorted(self.contents.living)
        if living and self.number and self.dice.random() < 0.2 and "key" in self.deletes:
            return Batch(name, deleted_keys=tuple(self.dice.sample(living, min(len(living), self.dice.randint(1, 3)))))
        count = self.dice.randint(1, ROWS) if self.number else KEYS_OF_WRITER * 2 // 3
        chosen = set(self.dice.sample(self.keys, count))
        back = list(self.contents.deleted)[-LATELY:]
        if back and self.dice.random() < 0.6:
            chosen.add(self.dice.choice(back))
        batch = Batch(name, tuple(self._row(key, name) for key in sorted(chosen)))
        for row in batch.rows:
            self.newest_ms[row.key] = max(row.event_ms, self.newest_ms.get(row.key, 0))
        return batch

    def _row(self, key: int, name: str) -> Row:
        living, now_ms = key in self.contents.living, self.now_ms()
        after_all = max(now_ms, self.newest_ms.get(key, 0) + 1)
        if living and self.dice.random() < 0.15 and "ordered" in self.deletes:
            return Row(key, "", after_all, deleted=True)
        if self.dice.random() < 0.65:
            return Row(key, f"{name}/{key}", after_all)
        late_ms = now_ms - self.dice.randrange(LATENESS_MS)
        newest_ms = self.newest_ms.get(key, 0)
        if late_ms == newest_ms or not living:
            late_ms = max(late_ms, newest_ms + 1)
        return Row(key, f"{name}/{key}", late_ms)


@dataclass
class Cleanings:
    """What a process is to do that cleans, and nothing else."""

    writer: str = "that cleans"
    number: int = -1

    def draw(self) -> Batch:
        """The next one."""
        self.number += 1
        return Batch(f"clean-{self.number}", cleans=True)


class Journal:
    """Lines of JSON that a writer appends and syncs: `ready`, each `attempt` before it, then `acknowledged` or `failed`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_bytes = 0

    def entries(self) -> Iterable[dict]:
        """The entries that are new since the last call."""
        if not self._path.exists():
            return
        with self._path.open("rb") as handle:
            handle.seek(self._read_bytes)
            for line in handle:
                if not line.endswith(b"\n"):
                    return
                self._read_bytes += len(line)
                if line.strip():
                    yield json.loads(line)


def read_journal(path: Path, committed: Callable[[str], bool]) -> tuple[list[Batch], list[str]]:
    """The batches of a journal that must be in the table, and those that were acknowledged but have no commit."""
    attempts, acknowledged = [], set()
    for entry in Journal(path).entries():
        if entry["what"] == "attempt":
            attempts.append(Batch.of(entry["batch"]))
        elif entry["what"] == "acknowledged":
            acknowledged.add(entry["name"])
    there = [batch for batch in attempts if batch.name in acknowledged or committed(batch.name)]
    return there, sorted(name for name in acknowledged if not committed(name))
