"""What the table's timeline shows during a soak, kept beyond archiving: commits of batches, compactions, what each published."""

from __future__ import annotations

from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import fastavro

from tests.integration.kills import Table

THRESHOLD, SEEN_UNTIL, WITHDRAWN = "etc.event_time.threshold", "etc.seen_until", "etc.withdrawn"
LEFT_OUT = "etc.left_out"


class Compaction(NamedTuple):
    """A completed compaction and what etc committed with it; `leaves_out`: some file slices that were due."""

    instant: str
    completed: str
    threshold_ms: int | None
    seen_until: str
    leaves_out: bool = False


@dataclass
class Timeline:
    """Completed commits, read while they are active; `poll` must come sooner than archiving does."""

    table: Table
    batches: dict[str, str] = field(default_factory=dict)
    compactions: list[Compaction] = field(default_factory=list)
    unreadable: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    withdrawn: set[str] = field(default_factory=set)
    _seen: set[str] = field(default_factory=set)

    def poll(self) -> None:
        """Read what has completed since the last call; a file that is still being written waits for the next."""
        self.unreadable = set()
        for pattern in ("*_*.deltacommit", "*_*.commit"):
            for path in self.table.timeline(pattern):
                if path.name not in self._seen:
                    self._read(path)

    def _read(self, path: Path) -> None:
        try:
            content = BytesIO(self.table.content(path))
            extra = next(iter(fastavro.reader(content)))["extraMetadata"] or {}
        except FileNotFoundError:
            return
        except (ValueError, EOFError, StopIteration):
            self.unreadable.add(path.name)
            return
        self._seen.add(path.name)
        instant, completed = path.stem.split("_")
        if path.suffix == ".commit":
            if extra.get(WITHDRAWN):  # a plan of etc that it ended without compacting anything
                self.withdrawn.add(instant)
                return
            threshold_ms, seen_until = _number(extra.get(THRESHOLD)), extra.get(SEEN_UNTIL, "")
            self._add(Compaction(instant, completed, threshold_ms, seen_until, leaves_out=LEFT_OUT in extra))
        elif name := extra.get("_batch"):
            if name in self.batches:
                self.problems.append(f"batch {name} was committed twice, at {self.batches[name]} and {completed}")
            self.batches[name] = completed

    def _add(self, compaction: Compaction) -> None:
        if any(compaction.instant == other.instant for other in self.compactions):
            self.problems.append(f"the compaction at {compaction.instant} was committed twice")
        self.compactions.append(compaction)

    def plans(self) -> set[str]:
        """The instants of compactions that were requested and are not archived yet."""
        return {path.name.split(".")[0] for path in self.table.timeline("*.compaction.requested")}

    def any_pending(self) -> bool:
        """Whether a compaction is requested or begun, and not completed."""
        return bool(self.table.incomplete("compaction", "commit"))

    def hiding_partitions(self) -> frozenset[str]:
        """Those with a base file of a write that has begun and not completed.

        By a listing of folders Hudi reads no log file of its file group that completed after that write began
        (facts: failed-write-hides-rows).
        """
        open_writes = self.table.incomplete("deltacommit")
        files = self.table.glob("*/*.parquet")
        return frozenset(path.parent.name for path in files if path.stem.rpartition("_")[2] in open_writes)

    def completed(self, instant: str) -> bool:
        return bool(self.table.done("commit", instant))


def _number(text: str | None) -> int | None:
    return int(text) if text else None
