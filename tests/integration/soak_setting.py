"""What a soak is asked for, what its seed decides, and the project and the writers that follow from it."""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.integration.soak_batches import Batches, Cleanings
from tests.integration.soak_places import PLACES, Place
from tests.integration.soak_processes import Writer, at_any_time, never_holds
from tests.integration.soak_timeline import Timeline
from tests.integration.soak_writer import INDEXES

POLICY = """version: 1
policies:
  - name: t
    table: {table}
    event_time_column: {{column: ts, unit: ms}}
    data_latency: {latency}s
    strategy: {{type: event_time, granularity: {granularity}}}
    freshness: {{target: {target}, warn_after: 1h, error_after: 2h}}
    verify: {{suite: ro_complete, level: metadata}}
    writer:
      index: {index}
      compaction: none
      lock: {lock}
      hold: {hold}
"""
#: How policies name the indexes of the writers that they name otherwise.
DECLARED = {"record": "global_record_index"}


@dataclass(frozen=True)
class Setting:
    """One soak; what the seed decides may be given."""

    folder: Path
    index: str
    seed: int
    minutes: float
    batches: int
    writers: int
    expire_minutes: int
    checkpoint_seconds: float
    patience_seconds: float
    where: str
    beside_share: float
    has_cleaner: bool
    declares_lock: bool = True
    hold: str = "30s"
    target: str = "1h"

    @property
    def latency_seconds(self) -> int:
        """The policy's data latency."""
        return (2, 6, 10)[self.seed % 3]

    @property
    def forgets_deleted(self) -> bool:
        """Whether the index forgets a key with its delete (facts: forgotten-keys)."""
        return DECLARED.get(self.index, self.index).startswith("global_")

    @property
    def command(self) -> str:
        return (
            f"python -m tests.integration.soak --index {self.index} --seed {self.seed} --minutes {self.minutes:g} "
            f"--batches {self.batches} --writers {self.writers} --expire {self.expire_minutes} "
            f"--checkpoint {self.checkpoint_seconds:g} --patience {self.patience_seconds:g} --where {self.where} "
            f"--beside {self.beside_share:g}{' --cleaner' if self.has_cleaner else ''}"
        )

    def dice(self, whose: str) -> random.Random:
        """Dice of one actor: its draws do not depend on how fast the others are."""
        return random.Random(f"{self.seed} {whose}")

    def write_project(self, place: Place) -> None:
        for folder in ("runs", "policies", "lake"):
            (self.folder / folder).mkdir(parents=True)
        text = POLICY.format(
            table=place.location,
            latency=self.latency_seconds,
            granularity="file_slice" if self.seed % 5 == 0 else "log_file",
            index=DECLARED.get(self.index, self.index),
            lock=json.dumps(place.lock if self.declares_lock else {}),
            hold=self.hold,
            target=self.target,
        )
        (self.folder / "policies" / "t.yml").write_text(text)

    def writer(self, number: int, place: Place, timeline: Timeline) -> Writer:
        """One of the writers; where its lock never expires, it is not killed while it may hold it."""
        batches = Batches(number, self.writers, self.dice(f"batches {number}"))
        cleans = not number and not self.has_cleaner
        return self._process(f"writer-{number}", batches, place, timeline, cleans=cleans)

    def cleaner(self, place: Place, timeline: Timeline) -> Writer:
        """Who cleans, and writes nothing."""
        return self._process("cleaner", Cleanings(), place, timeline, cleans=True)

    def _process(
        self, name: str, batches: Batches | Cleanings, place: Place, timeline: Timeline, *, cleans: bool
    ) -> Writer:
        journal = self.folder / f"{name}.journal"
        command = [sys.executable, "-m", "tests.integration.soak_writer", place.location, str(journal)]
        command += ["--index", self.index, "--seed", str(self.seed), "--writers", str(self.writers)]
        command += ["--options", json.dumps({**place.lock, **place.writer_options}), "--confs", json.dumps(place.confs)]
        expires = bool(self.expire_minutes) or self.where != "disk"
        may_be_killed = at_any_time if expires else never_holds(self.folder / "lake" / "t" / ".hoodie" / "lock")
        victims = ("both", "both", "both", "python") if expires else ("both",)
        command += ["--cleans"] if cleans else []
        dice = self.dice(name)
        return Writer(batches, command, journal, timeline, dice, may_be_killed, victims, self.patience_seconds)


def read_setting(description: str | None) -> Setting:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--batches", type=int, default=0, help="go on for longer until so many are acknowledged")
    parser.add_argument("--index", choices=INDEXES, default="simple")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--writers", type=int, choices=(1, 2), help="default: 2 for an odd seed")
    parser.add_argument(
        "--expire", type=int, help="minutes after which the lock expires, 0 for never; default: by the seed"
    )
    parser.add_argument("--checkpoint", type=float, default=300, help="seconds between checkpoints")
    parser.add_argument("--patience", type=float, default=240, help="seconds after which a process counts as stuck")
    parser.add_argument("--where", choices=PLACES, default="disk")
    parser.add_argument(
        "--beside", type=float, default=0.25, help="the share of runs of etc that get a second one beside them"
    )
    parser.add_argument("--cleaner", action="store_true", help="a process of its own cleans, and no writer does")
    parser.add_argument("--folder", type=Path, help="where the table and all else is made; default: a temporary one")
    given = parser.parse_args()
    folder = (given.folder or Path(tempfile.mkdtemp(prefix="soak-"))).resolve()
    writers = given.writers or 1 + given.seed % 2
    expire = given.seed // 2 % 2 if given.expire is None else given.expire
    times = (given.checkpoint, given.patience)
    lengths = (given.minutes, given.batches)
    others = (given.where, given.beside, given.cleaner)
    return Setting(folder, given.index, given.seed, *lengths, writers, expire, *times, *others)
