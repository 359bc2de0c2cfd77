"""Random histories on real tables that are cut by record, on local disk or in a bucket:

python -m tests.integration.exact_histories [--count 60] [--where moto]

After each cut RO is compared with the table as of T: what an oracle makes of the rows of all writes up to T alone. RT with and
without the metadata table, with a condition on the event time, by hudi-rs, time travel to commits by both of their times and
their incremental queries must be as before: after a cut of the last commits and an older one, at the end of all. Late rows, ties,
several versions of a key, new keys and deletes are written; where deletes make a slice whole, RO may hold more than the table as
of T, never less.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.integration import bucket_cut
from tests.integration.bench import Bench
from tests.integration.histories import (
    KEYS,
    NO_METADATA_TABLE,
    QUIET,
    RealHistory,
    play_seeds,
    seeds_parser,
    start_local,
)
from tests.integration.history import (
    EPOCH_MS,
    QUICK,
    READ_OPTIMIZED,
    WITHOUT_METADATA_TABLE,
    Oracle,
    Views,
    Write,
    incremental,
)
from tests.integration.soak_places import PLACES
from tests.s3_servers import S3Server, running

STEPS = 9
BUCKET = {
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "SIMPLE",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.bucket.index.hash.field": "id",
}
#: One of each bucket of each partition, by Hudi's hash: other keys then go to log files, and into no new bucket's base file.
FIRST_KEYS = range(6)
PARQUET_BLOCKS = {"hoodie.logfile.data.block.format": "parquet"}
VERSION_8 = {"hoodie.write.table.version": "8", "hoodie.write.auto.upgrade": "false"}


def oracle_as_of(history: tuple[Write, ...], second: int) -> Oracle:
    """Of the table as of an event time: what it would be if no later row had ever been written."""
    early = (Write(tuple(row for row in one.rows if row[2] <= second), one.deleted) for one in history)
    return Oracle.of(tuple(early))


def as_of_event(history: tuple[Write, ...], second: int) -> dict[int, str]:
    """The table as of an event time."""
    return oracle_as_of(history, second).rt()


@dataclass
class ExactHistory(RealHistory):
    """T only grows, as it does for a policy whose latency does not change."""

    deletes: bool = False
    threshold: int = 0
    splits: int = 0
    checks: int = 0

    def upsert(self) -> None:
        """Rows of some time, one in four late, and ties: T is then between the rows of a log file."""
        self.clock += self.dice.randrange(20, 60)
        rows = []
        for key in self.dice.sample(KEYS, self.dice.randrange(2, 6)):
            age = self.dice.randrange(200 if self.dice.random() < 0.25 else 40)
            second = max(0, self.clock - age, self.floor.get(key, 0))
            rows.append((key, f"v{len(self.written)}", second))
        self.write(Write(tuple(rows)))
        if self.dice.random() < 0.3:
            key, value, second = self.dice.choice(self.written[-1].rows)
            self.write(Write(((key, f"{value} again", second),)))

    def cut(self, *, all_commits: bool = False) -> None:
        """T is beside the time of a row of the last writes."""
        latest = [row[2] for one in self.written[-3:] for row in one.rows] or [self.threshold]
        self.threshold = max(self.threshold, self.dice.choice(latest) + self.dice.choice((-1, 0, 0, 7)))
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
        assert not self.bench.names_in(".hoodie/.etc/split")
        if outcome.status == "compacted" or all_commits:
            self.check(self.threshold, all_commits=all_commits)
        else:
            self.check_ro(self.views().ro(), self.threshold)

    def check(self, second: int | None, *, all_commits: bool = False) -> None:
        """All views of now, and those of the last two commits and of an older one, or of all commits."""
        self.check_past()
        views, rt, commits = self.views(), self.oracle, self.commits()
        older = range(len(commits) - 2)
        seen = (
            range(len(commits)) if all_commits else [*older[self.checks % 3 :: 3][:1], *range(len(older), len(commits))]
        )
        self.checks += 1
        frames = self.frames(views) | {f"incremental of commit {n}": self.increment(views, commits, n) for n in seen}
        frames |= {f"commit {n} as of {at}": views.frame(as__of__instant=at) for n in seen for at in commits[n]}
        found = views.read_all(frames)
        after = {key: row[0] for key, row in rt.states[-1].items() if row[1] > self.threshold}
        for name, rows in found.items():
            if name.startswith("RT"):
                assert rows == (after if "after T" in name else rt.rt()), name
        assert views.rust() == rt.rt(), "RT by hudi-rs"
        assert views.rust(read_optimized=True) == found["RO"], "RO by hudi-rs"
        for number in seen:
            for at in commits[number]:
                name = f"commit {number} as of {at}"
                assert found[name] == rt.as_of(number), name
            self.check_incremental(commits, number, found[f"incremental of commit {number}"])
        if second is not None:
            self.check_ro(found["RO"], second)

    def check_ro(self, ro: Mapping[int, str], second: int) -> None:
        """The table as of T, with all rows of the first write, which are in base files; with deletes, no less than RT up to T."""
        promised = self.oracle.rt_up_to(second)
        assert {key: ro.get(key) for key in promised} == promised, f"RO up to second {second}"
        if not any(one.deleted for one in self.written):
            first, *others = self.written
            early = oracle_as_of(tuple(others), second).history
            as_of = Oracle.of((first, *early)).rt()
            wrong = {key: (ro.get(key), as_of.get(key)) for key in ro | as_of if ro.get(key) != as_of.get(key)}
            assert not wrong, f"RO is not the table as of second {second}: found and expected are {wrong}"

    def frames(self, views: Views) -> dict[str, object]:
        """RO, and RT in each way: by a condition that Hudi may use to skip files, it has the rows after T."""
        found = {"RT": views.frame(), "RO": views.frame(**READ_OPTIMIZED)}
        if self.has_metadata_table:
            found["RT without the metadata table"] = views.frame(**WITHOUT_METADATA_TABLE)
        enable = {"hoodie__metadata__enable": str(self.has_metadata_table).lower()}
        skipping = str(self.checks % 2 == 0).lower()
        rows = views.frame(hoodie__enable__data__skipping=skipping, **enable)
        found[f"RT after T, data skipping {skipping}"] = rows.where(f"ts > {EPOCH_MS + self.threshold * 1000}")
        return found

    def increment(self, views: Views, commits: list[tuple[str, str]], number: int) -> object:
        return views.frame(**incremental(commits[number - 1][1] if number else "000", commits[number][1]))

    def check_incremental(self, commits: list[tuple[str, str]], number: int, rows: Mapping[int, str]) -> None:
        """One commit's own rows; of those that lost, any may be missing where a compaction completed in its range.

        What was split off counts as written by that compaction, and is merged with the commit's rows.
        """
        start, end = commits[number - 1][1] if number else "000", commits[number][1]
        written, shown = self.oracle.incremental(number).items(), rows.items()
        ends = (name.split(".")[0].split("_")[1] for name in self.views().timeline() if name.endswith(".commit"))
        if any(start < one <= end for one in ends):
            won = {(key, row[0]) for key, row in self.oracle.states[number].items() if row[2] == number}
            assert won <= shown <= written, f"incremental of commit {number} beside a compaction"
        else:
            assert shown == written, f"incremental of commit {number}"

    def commits(self) -> list[tuple[str, str]]:
        """The instant and the completion time of each delta commit."""
        names = (name.split(".")[0].split("_") for name in self.views().timeline() if name.endswith(".deltacommit"))
        return sorted(((requested, completed) for requested, completed in names), key=lambda one: one[1])

    def views(self) -> Views:
        return self.bench.views()


def begin_history(spark, base: Path, seed: int, server: S3Server | None = None) -> ExactHistory:
    """The table of a seed and its first write, in a bucket of a server where one is given.

    One in three has deletes, half a bucket index, and one in four log files of Parquet blocks.
    """
    dice = random.Random(seed)
    bucketed, old = dice.random() < 0.5, dice.random() < 0.5
    options = {**QUIET, **QUICK, **(BUCKET if bucketed else {}), **(VERSION_8 if old else {})}
    options |= NO_METADATA_TABLE if dice.random() < 0.3 else {}
    options |= PARQUET_BLOCKS if seed % 4 == 0 else {}
    index = "bucket" if bucketed else None
    bench = Bench(spark, base, "record", index)
    if server is not None:
        options |= {"hoodie.write.markers.type": "DIRECT"}  # there is no server of the timeline
        bench = bucket_cut.BucketBench(spark, f"s3a://{server.make_bucket()}/t", "record", index, server=server)
    history = ExactHistory(bench, dice, options, deletes=dice.random() < 0.3)
    keys = [key for key in KEYS if not bucketed or dice.random() < 0.7 or key in FIRST_KEYS]
    history.write(Write(tuple((key, "v0", key % 10) for key in keys)))
    return history


def run_history(spark, base: Path, seed: int, *, steps: int = STEPS, server: S3Server | None = None) -> ExactHistory:
    """Play so many steps of a seed and its last ones; an assertion carries them."""
    history = begin_history(spark, base, seed, server)
    kinds = {"upsert": 6, "cut": 4, **({"delete": 2} if history.deletes else {})}
    try:
        for _ in range(steps):
            step = history.dice.choices([*kinds], weights=[*kinds.values()])[0]
            getattr(history, step)()
        history.cut()
        history.upsert()
        history.cut(all_commits=True)
        history.upsert()  # stock Hudi plans nothing where no delta commit came after the last compaction's instant
        history.stock_compaction()
        assert history.views().ro() == history.oracle.rt(), "RO after a stock compaction"
    except Exception as error:
        played = "\n".join(history.steps)
        raise AssertionError(
            f"seed {seed} at {history.bench.location}, {history.options}: {error}\n{played}"
        ) from error
    return history


def main() -> int:
    parser = seeds_parser(__doc__ or "")
    parser.add_argument("--steps", type=int, default=STEPS, help="random ones, before the last five")
    parser.add_argument("--where", choices=PLACES, default="disk")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        server, start = None, start_local
        if arguments.where != "disk":
            folder = Path(stack.enter_context(TemporaryDirectory()))
            server, start = stack.enter_context(running(arguments.where, folder)), bucket_cut.start
            os.environ.update(bucket_cut.variables(server))

        def splits(spark, base: Path, seed: int) -> int:
            return run_history(spark, base, seed, steps=arguments.steps, server=server).splits

        return play_seeds(arguments, "file slices split", splits, start)


if __name__ == "__main__":
    sys.exit(main())
