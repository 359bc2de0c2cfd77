"""Random histories on real tables that are cut by record; more by `python -m tests.integration.exact_histories --count 60`.

After each cut RO is compared with the table as of T: what an oracle makes of the rows of all writes up to T alone. RT with and
without the metadata table, with a condition on the event time, by hudi-rs, time travel to each commit by both of its times and
each commit's incremental query must be as before. Late rows, ties, several versions of a key, new keys and deletes are written;
where deletes make a slice whole, or new keys are written into base files, RO may hold more than the table as of T, never less.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.integration.bench import Bench
from tests.integration.histories import KEYS, NO_METADATA_TABLE, QUIET, RealHistory, play_seeds
from tests.integration.history import EPOCH_MS, QUICK, Oracle, Write

STEPS, SHORT_STEPS = 9, 5
BUCKET = {
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "SIMPLE",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.bucket.index.hash.field": "id",
}
VERSION_8 = {"hoodie.write.table.version": "8", "hoodie.write.auto.upgrade": "false"}


def as_of_event(history: tuple[Write, ...], second: int) -> dict[int, str]:
    """The table as of an event time: what it would be if no later row had ever been written."""
    early = (Write(tuple(row for row in one.rows if row[2] <= second), one.deleted) for one in history)
    return Oracle.of(tuple(early)).rt()


@dataclass
class ExactHistory(RealHistory):
    """T only grows, as it does for a policy whose latency does not change."""

    threshold: int = 0
    splits: int = 0

    @property
    def is_bucketed(self) -> bool:
        return BUCKET.items() <= self.options.items()

    def upsert(self) -> None:
        """As in the other histories, with ties."""
        super().upsert()
        if self.dice.random() < 0.3:
            key, value, second = self.dice.choice(self.written[-1].rows)
            self.write(Write(((key, f"{value} again", second),)))

    def cut(self) -> None:
        self.threshold = self.dice.randrange(self.threshold, max(self.threshold + 1, self.clock + 20))
        time.sleep(0.25)  # past the clock-skew bound
        plan = self.bench.plan(self.threshold)
        table = plan.tables[0]
        self.steps.append(f"cut at second {self.threshold}: {table.action} {table.instant} {table.reason or ''}")
        assert table.action != "refused", table.reason
        before = self.bench.properties()
        outcome = self.bench.apply(plan)
        assert self.bench.properties() == before
        if outcome.status == "compacted":
            state = self.bench.state()
            assert state.orphans == (), state.orphans
            assert state.uncarried is None
            self.splits += sum(one.remainder is not None for one in table.operations)
        assert not list(self.bench.base.glob(".hoodie/.etc/split/*"))
        self.check(self.threshold)

    def check(self, second: int | None) -> None:
        super().check(second)
        views, rt = self.views(), self.oracle
        after = {key: row[0] for key, row in rt.states[-1].items() if row[1] > self.threshold}
        for skipping in ("true", "false"):
            assert self.later(views, skipping) == after, f"RT with a condition, data skipping {skipping}"
        commits = self.commits()
        for number, (requested, completed) in enumerate(commits):
            assert views.as_of(completed) == rt.as_of(number), f"time travel to the completion of commit {number}"
            assert views.as_of(requested) == rt.as_of(number), f"time travel to the instant of commit {number}"
            start = commits[number - 1][1] if number else "000"
            self.check_incremental(number, start, completed)
        if second is None:
            return
        ro, exact = views.ro(), as_of_event(tuple(self.written), second)
        if self.is_exact:
            assert ro == exact, f"RO is not the table as of second {second}"

    def check_incremental(self, number: int, start: str, completed: str) -> None:
        """One commit's own rows; of those that lost, any may be missing where a compaction completed in its range.

        What was split off counts as written by that compaction, and is merged with the commit's rows.
        """
        views, written = self.views(), self.oracle.incremental(number).items()
        ends = (name.split(".")[0].split("_")[1] for name in views.timeline() if name.endswith(".commit"))
        shown = views.incremental(start, completed).items()
        if any(start < end <= completed for end in ends):
            won = {(key, row[0]) for key, row in self.oracle.states[number].items() if row[2] == number}
            assert won <= shown <= written, f"incremental of commit {number} beside a compaction"
        else:
            assert shown == written, f"incremental of commit {number}"

    @property
    def is_exact(self) -> bool:
        """Without deletes, and where no row after T was ever written into a base file."""
        return not any(one.deleted for one in self.written)

    def commits(self) -> list[tuple[str, str]]:
        """The instant and the completion time of each delta commit."""
        names = (name.split(".")[0].split("_") for name in self.views().timeline() if name.endswith(".deltacommit"))
        return sorted(((requested, completed) for requested, completed in names), key=lambda one: one[1])

    def later(self, views, skipping: str) -> dict[int, str]:
        """The rows of RT after T, by a condition that Hudi may use to skip files."""
        options = {
            "hoodie.enable.data.skipping": skipping,
            "hoodie.metadata.enable": str(self.has_metadata_table).lower(),
        }
        rows = views.spark.read.format("hudi").options(**options).load(str(views.base))
        found = rows.where(f"ts > {EPOCH_MS + self.threshold * 1000}").select("id", "v").collect()
        return {row.id: row.v for row in found}


def run_history(spark, base: Path, seed: int, *, short: bool = False) -> ExactHistory:
    """Play the history of a seed; an assertion carries its steps. One in three has deletes, half a bucket index."""
    dice = random.Random(seed)
    bucketed, old = dice.random() < 0.5, dice.random() < 0.5
    options = {**QUIET, **(BUCKET if bucketed else {}), **(VERSION_8 if old else {}), **(QUICK if short else {})}
    options |= NO_METADATA_TABLE if dice.random() < 0.3 else {}
    history = ExactHistory(Bench(spark, base, "record", "bucket" if bucketed else None), dice, options)
    kinds = {"upsert": 6, "cut": 4, **({"delete": 2} if dice.random() < 0.3 else {})}
    try:
        keys = [key for key in KEYS if not bucketed or dice.random() < 0.7]  # new keys go to log files of buckets alone
        history.write(Write(tuple((key, "v0", key % 10) for key in keys)))
        for _ in range(SHORT_STEPS if short else STEPS):
            step = dice.choices([*kinds], weights=[*kinds.values()])[0]
            getattr(history, step)()
        history.cut()
        history.upsert()
        history.cut()
        history.upsert()  # stock Hudi plans nothing where no delta commit came after the last compaction's instant
        history.stock_compaction()
        assert history.views().ro() == history.oracle.rt(), "RO after a stock compaction"
    except Exception as error:
        steps = "\n".join(history.steps)
        raise AssertionError(f"seed {seed} at {base}, {options}: {error}\n{steps}") from error
    return history


def main() -> int:
    def splits(spark, base, seed, arguments) -> int:
        return run_history(spark, base, seed, short=arguments.short).splits

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true")
    return play_seeds(parser, "file slices split", splits)


if __name__ == "__main__":
    sys.exit(main())
