"""Writers that never pause, on a clock of their own, and the search for a moment between two of their writes:
`python -m tests.unit.run.moments` prints how often one is found within a minute.

A writer takes the lock to begin and to commit, as stock Hudi does, and tries again after a while where it does not get it. One
that fails does so at its commit, and its write is in flight until it is rolled back.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from math import inf
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from unittest.mock import patch

from etc_policy.run import lock_hold
from etc_policy.run.lock_holder import LockPlace

STEP_SECONDS, WAIT_SECONDS = 0.02, 60.0
#: Of one batch: the lock to begin and to commit, from the first file to the end of the work, and until the next batch.
BEGIN_SECONDS, COMMIT_SECONDS, FILES_SECONDS, REST_SECONDS = 0.15, 1.5, (0.3, 2.0), 0.4
#: From a writer's failure to the rollback.
ROLLED_BACK_SECONDS = 15.0


@dataclass
class Writer:
    """One that writes batch after batch; `steps` yields when it looks at the world again."""

    number: int
    world: World
    batches: int = 0
    since_files: float | None = None
    wakes: float = 0.0

    def __post_init__(self) -> None:
        self.steps = self._steps()

    def _steps(self) -> Iterator[float]:
        world, dice = self.world, self.world.dice
        yield dice.random() * 10
        while True:
            self.batches += 1
            write, self.since_files = f"{self.number}-{self.batches}", None
            yield from self._locked(BEGIN_SECONDS)
            world.in_flight[write] = self
            files_seconds = dice.uniform(*FILES_SECONDS)
            yield dice.uniform(*world.batch_seconds) - files_seconds
            self.since_files = world.now
            yield files_seconds
            yield from self._locked(COMMIT_SECONDS)
            if dice.random() < world.failing:
                world.failed[write] = world.now + ROLLED_BACK_SECONDS
            else:
                del world.in_flight[write]
            yield REST_SECONDS

    def _locked(self, seconds: float) -> Iterator[float]:
        while self.world.owner is not None:
            yield self.world.retry_seconds
        self.world.owner = self.number
        yield seconds
        self.world.owner = None


@dataclass
class World:
    """The table, its lock and its clock."""

    seed: int
    writers: int
    batch_seconds: tuple[float, float] = (8.0, 16.0)
    retry_seconds: float = 5.0
    failing: float = 0.0
    now: float = 0.0
    owner: object = None
    in_flight: dict[str, Writer] = field(default_factory=dict)
    failed: dict[str, float] = field(default_factory=dict)
    kept_out: float = 0.0

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self._writers = [Writer(number, self) for number in range(self.writers)]

    def sleep(self, seconds: float) -> None:
        """Let the time pass in which the writers work."""
        until = self.now + seconds
        while self.now < until:
            self.now += STEP_SECONDS
            self.kept_out += STEP_SECONDS if self.owner == "etc" else 0.0
            for write in [one for one, at in self.failed.items() if at < self.now]:
                del self.failed[write], self.in_flight[write]
            for writer in self.dice.sample(self._writers, len(self._writers)):
                if writer.wakes <= self.now:
                    writer.wakes = self.now + next(writer.steps)

    @contextmanager
    def lock(self) -> Iterator[str]:
        """The lock, once it is free."""
        while self.owner is not None:
            self.sleep(STEP_SECONDS)
        self.owner = "etc"
        try:
            yield "taken"
        finally:
            self.owner = None

    def seconds_since_files(self, writes: Iterable[str]) -> list[float | None]:
        """As `TableFiles` has it."""
        return [self._since_files(one) for one in writes]

    def _since_files(self, write: str) -> float | None:
        if write not in self.in_flight or write in self.failed:
            return inf
        made = self.in_flight[write].since_files
        return None if made is None else self.now - made

    def search(self) -> float | None:
        """After how many seconds a moment is found; None where none is within a minute."""
        self.sleep(30)
        began, self.kept_out = self.now, 0.0
        clock = SimpleNamespace(monotonic=lambda: self.now, sleep=self.sleep)
        holder = patch.object(lock_hold, "read_holder", lambda _: self.owner)
        with patch.object(lock_hold, "time", clock), holder:
            found = lock_hold.take_between_writes(
                self.lock,
                LockPlace(Path("lock"), 0),
                lambda: frozenset(self.in_flight),
                self.seconds_since_files,
                WAIT_SECONDS,
            )
        return None if found is None else self.now - began


def main() -> None:
    """Prints a line for each kind of writers."""
    for writers, batch, retry, failing in product((1, 2, 3), ((2, 5), (8, 16), (30, 60)), (5.0, 0.5), (0.0, 0.2)):
        worlds = [World(seed, writers, batch, retry, failing) for seed in range(100)]
        found = [seconds for world in worlds if (seconds := world.search()) is not None]
        after = f"after p50 {median(found):.1f} s, worst {max(found):.1f} s" if found else ""
        kept_out = median(world.kept_out for world in worlds)
        print(
            f"{writers} writers, batches of {batch[0]} to {batch[1]} s, lock tried every {retry} s, {failing:.0%} fail: "
            f"{len(found)} of 100 {after}; kept out p50 {kept_out:.1f} s"
        )


if __name__ == "__main__":
    main()
