"""What a soak is asked for, what its seed decides, and the project and the writers that follow from it."""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.integration.soak_batches import Batches
from tests.integration.soak_processes import Writer, at_any_time, never_holds
from tests.integration.soak_timeline import Timeline
from tests.integration.soak_writer import INDEXES, lock

POLICY = """version: 1
policies:
  - name: t
    table: {table}
    event_time_column: {{column: ts, unit: ms}}
    data_latency: {latency}s
    strategy: {{type: event_time, granularity: {granularity}}}
    freshness: {{target: 1h, warn_after: 1h, error_after: 2h}}
    verify: {{suite: ro_complete, level: metadata}}
    writer:
      index: {index}
      compaction: none
      lock: {lock}
"""
DECLARED = {"simple": "simple", "bucket": "bucket", "record": "global_record_index"}


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

    @property
    def base(self) -> Path:
        return self.folder / "lake" / "t"

    @property
    def latency_seconds(self) -> int:
        """The policy's data latency."""
        return (2, 6, 10)[self.seed % 3]

    @property
    def command(self) -> str:
        return (
            f"python -m tests.integration.soak --index {self.index} --seed {self.seed} --minutes {self.minutes:g} "
            f"--batches {self.batches} --writers {self.writers} --expire {self.expire_minutes} "
            f"--checkpoint {self.checkpoint_seconds:g} --patience {self.patience_seconds:g}"
        )

    def dice(self, whose: str) -> random.Random:
        """Dice of one actor: its draws do not depend on how fast the others are."""
        return random.Random(f"{self.seed} {whose}")

    def write_project(self) -> None:
        for folder in ("runs", "policies", "lake"):
            (self.folder / folder).mkdir(parents=True)
        text = POLICY.format(
            table=self.base,
            latency=self.latency_seconds,
            granularity="file_slice" if self.seed % 5 == 0 else "log_file",
            index=DECLARED[self.index],
            lock=json.dumps(lock(self.expire_minutes)),
        )
        (self.folder / "policies" / "t.yml").write_text(text)

    def writer(self, number: int, timeline: Timeline) -> Writer:
        """One of the writers; where its lock never expires, it is not killed while it may hold it."""
        journal = self.folder / f"writer-{number}.journal"
        command = [sys.executable, "-m", "tests.integration.soak_writer", str(self.base), str(journal)]
        command += ["--index", self.index, "--seed", str(self.seed), "--expire", str(self.expire_minutes)]
        command += ["--writers", str(self.writers), *(() if number else ("--cleans",))]
        batches = Batches(number, self.writers, self.dice(f"batches {number}"))
        may_be_killed = at_any_time if self.expire_minutes else never_holds(self.base / ".hoodie" / "lock")
        victims = ("both", "both", "both", "python") if self.expire_minutes else ("both",)
        dice = self.dice(f"writer {number}")
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
    parser.add_argument("--folder", type=Path, help="where the table and all else is made; default: a temporary one")
    given = parser.parse_args()
    folder = (given.folder or Path(tempfile.mkdtemp(prefix="soak-"))).resolve()
    writers = given.writers or 1 + given.seed % 2
    expire = given.seed // 2 % 2 if given.expire is None else given.expire
    times = (given.checkpoint, given.patience)
    lengths = (given.minutes, given.batches)
    return Setting(folder, given.index, given.seed, *lengths, writers, expire, *times)
