"""Random short histories on real tables against the oracle; more by `python -m tests.integration.histories --count 60`.

Each history mixes stock writes (updates, inserts, late data, deletes by key), stock compactions, automatic clean and
archive at low limits, metadata-table compaction (or no metadata table), and cuts of ours of both granularities. After
every cut RT, RO and hudi-rs are compared, where nothing was cleaned time travel to every commit, and the past that commits
tell with the table's state. In some the value's column is renamed time and again, and writes forget the schema that this
made: then a cut is refused until the next ALTER TABLE. (hudi-rs and time travel are left out: they do not know the new names.)
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from zoneinfo import ZoneInfo

from etc_policy.hudi.table import FileTableReader
from etc_policy.table.completeness import replay_completeness
from etc_policy.table.watermark import watermark
from tests.integration.altered import ON_READ, alter_table
from tests.integration.bench import Bench
from tests.integration.history import QUICK, Oracle, Views, Write, write_history

KEYS = range(12)
STEPS, SHORT_STEPS = 8, 4
SERVICES = {
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "3",
    "hoodie.keep.min.commits": "5",
    "hoodie.keep.max.commits": "6",
    "hoodie.metadata.compact.max.delta.commits": "3",
}
#: The same so low that a short history meets them.
BUSY = {
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.metadata.compact.max.delta.commits": "2",
}
QUIET = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
NO_METADATA_TABLE = {"hoodie.metadata.enable": "false"}


class EvolvedViews(Views):
    """Readers with schema on read."""

    def read(self, **options):
        return super().read(hoodie__schema__on__read__enable="true", **options)


@dataclass
class RealHistory:
    """One table, what was written to it, and a log of its steps."""

    bench: Bench
    dice: random.Random
    options: dict[str, str]
    oracle: Oracle = field(default_factory=Oracle)
    written: list[Write] = field(default_factory=list)
    floor: dict[int, int] = field(default_factory=dict)
    clock: int = 10
    steps: list[str] = field(default_factory=list)
    renames: int = 0
    forgot: bool = False

    @property
    def evolves(self) -> bool:
        return ON_READ.items() <= self.options.items()

    @property
    def column(self) -> str:
        """What the value's column is called by now."""
        return f"v{self.renames or ''}"

    @property
    def has_metadata_table(self) -> bool:
        return self.options.get("hoodie.metadata.enable") != "false"

    @property
    def keeps_everything(self) -> bool:
        return QUIET.items() <= self.options.items()

    def write(self, write: Write, *, without: frozenset[str] = frozenset()) -> None:
        options = {key: value for key, value in self.options.items() if key not in without}
        schema = f"id int, p string, {self.column} string, ts long"
        write_history(self.bench.spark, self.bench.base, (write,), options, len(self.written), schema)
        self.written.append(write)
        self.oracle = Oracle.of(tuple(self.written))
        self.steps.append(repr(write))

    def upsert(self) -> None:
        """Updates and inserts, one in four late; a key that was deleted comes back with a later time only.

        See facts: key-delete-reinsert.
        """
        self.clock += self.dice.randrange(20, 60)
        rows = []
        for key in self.dice.sample(KEYS, self.dice.randrange(1, 5)):
            late = self.dice.random() < 0.25
            second = self.dice.randrange(max(0, self.clock - 200), self.clock) if late else self.clock
            second = max(second, self.floor.get(key, 0))
            rows.append((key, f"v{len(self.written)}", second))
        self.write(Write(tuple(rows)))

    def delete(self) -> None:
        alive = sorted(self.oracle.rt())
        if not alive:
            return self.upsert()
        keys = tuple(self.dice.sample(alive, min(len(alive), self.dice.randrange(1, 3))))
        for key in keys:
            self.floor[key] = 1 + max(
                (row[2] for write in self.written for row in write.rows if row[0] == key), default=0
            )
        return self.write(Write(deleted=keys))

    def alter(self) -> None:
        """The value's column gets another name; what a write has forgotten is known again."""
        old, self.renames, self.forgot = self.column, self.renames + 1, False
        options = {key: value for key, value in self.options.items() if key == "hoodie.metadata.enable"}
        alter_table(self.bench.spark, self.bench.base, f"RENAME COLUMN {old} TO {self.column}", **options)
        self.steps.append(f"rename {old} to {self.column}")

    def forget(self) -> None:
        """A write that does not carry on the schema that ALTER TABLE made."""
        self.clock += 20
        self.write(Write(((self.dice.choice(KEYS), f"v{len(self.written)}", self.clock),)), without=frozenset(ON_READ))
        self.forgot = self.renames > 0

    def remember(self) -> None:
        """Nothing may be compacted until the next ALTER TABLE."""
        if self.forgot:
            time.sleep(0.25)  # past the clock-skew bound
            assert self.bench.plan(self.clock).tables[0].reason_code == "schema_hidden"
            self.alter()

    def stock_compaction(self) -> None:
        self.remember()
        path = str(self.bench.base)
        enable = "true" if self.has_metadata_table else "false"
        options = f"hoodie.compact.inline.max.delta.commits=1,hoodie.metadata.enable={enable}"
        self.bench.spark.sql(f"CALL run_compaction(op => 'schedule', path => '{path}', options => '{options}')")
        self.bench.spark.sql(f"CALL run_compaction(op => 'run', path => '{path}', options => '{options}')")
        self.steps.append("stock compaction")
        self.check(None)

    def cut(self) -> None:
        """A plan at a random threshold, carried out, and everything looked at."""
        self.remember()
        second = self.dice.randrange(0, self.clock + 20)
        self.bench.granularity = self.dice.choice(["log_file", "log_file", "file_slice"])
        time.sleep(0.25)  # past the clock-skew bound
        plan = self.bench.plan(second)
        table = plan.tables[0]
        self.steps.append(
            f"{self.bench.granularity} cut at second {second}: {table.action} {table.instant} {table.reason or ''}"
        )
        assert table.action != "refused", table.reason
        before = self.bench.properties()
        outcome = self.bench.apply(plan)
        assert self.bench.properties() == before
        if outcome.status == "compacted":
            assert self.bench.plan(second).tables[0].watermark_before_ms == table.watermark_after_ms
            assert self.bench.state().last_compaction.instant == table.instant
        self.check(second)

    def check_past(self) -> None:
        """The past that the commits tell, active and archived, ends with what the table shows now."""
        policy, state = self.bench.policy, self.bench.state()
        _, history = FileTableReader().read_with_history(policy.table, policy.event_time, archived=None)[:2]
        last = replay_completeness(history, policy.data_latency_ms)[-1]
        left = [log_file for _, log_file in state.log_files]
        now = watermark(left, policy.data_latency_ms, ZoneInfo(state.timezone))
        assert history.complete
        assert (last.watermark_ms, last.open_log_files) == (now.value_ms, len(left)), "the past as commits tell it"

    def views(self) -> Views:
        views = Views(self.bench.spark, self.bench.base, self.column)
        return EvolvedViews(**vars(views)) if self.evolves else views

    def check(self, second: int | None) -> None:
        self.check_past()
        views, rt = self.views(), self.oracle.rt()
        assert views.rt() == rt, "RT by Spark"
        if self.has_metadata_table:
            assert views.rt_without_mdt() == rt, "RT without the metadata table"
        ro = views.ro()
        if not self.renames:
            assert views.rust() == rt, "RT by hudi-rs"
            assert views.rust(read_optimized=True) == ro, "RO by hudi-rs"
        if second is not None:
            promised = self.oracle.rt_up_to(second)
            assert {key: ro.get(key) for key in promised} == promised, f"RO up to second {second}"
        if self.keeps_everything and not self.renames:
            for number, completed in enumerate(views.delta_commits()):
                assert views.as_of(completed) == self.oracle.as_of(number), f"time travel to commit {number}"


def run_history(spark, base: Path, seed: int, *, short: bool = False) -> list[str]:
    """Play the history of a seed, a `short` one with services that come sooner; an assertion carries its steps.

    One in five has a column that is renamed.
    """
    dice = random.Random(seed)
    options = QUIET if seed % 2 else BUSY if short else SERVICES
    options = {**options, **(NO_METADATA_TABLE if dice.random() < 0.5 else {}), **(QUICK if short else {})}
    evolves = seed % 5 == 0
    history = RealHistory(Bench(spark, base), dice, {**options, **ON_READ} if evolves else options)
    kinds = {
        "upsert": 6,
        "delete": 2,
        "stock_compaction": 1,
        "cut": 4,
        **({"alter": 2, "forget": 2} if evolves else {}),
    }
    try:
        history.write(Write(tuple((key, "v0", key) for key in KEYS if dice.random() < 0.8)))
        for _ in range(SHORT_STEPS if short else STEPS):
            step = dice.choices([*kinds], weights=[*kinds.values()])[0]
            getattr(history, step)()
        history.cut()
    except Exception as error:
        steps = "\n".join(history.steps)
        raise AssertionError(f"seed {seed} at {base}: {error}\n{steps}") from error
    return history.steps


def seeds_parser(description: str) -> argparse.ArgumentParser:
    """The arguments of a command that plays seeds."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--count", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="histories side by side, in one Spark")
    return parser


def start_local(folder: Path):
    """Spark for tables on local disk."""
    from etc_policy.spark.session import start_spark

    confs = {"spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2", "spark.driver.memory": "3g"}
    return start_spark(confs, folder / "spark.log")


def play_seeds(
    arguments: argparse.Namespace, counted: str, play: Callable[..., int], start: Callable[[Path], object] = start_local
) -> int:
    """Play a history of each seed by `play(spark, base, seed)`, which returns how many of `counted` it has done."""
    folder, began = Path(tempfile.mkdtemp()), time.monotonic()
    spark = start(folder)
    module = Path(sys.argv[0]).stem

    def one(seed: int) -> int | None:
        base, started = folder / str(seed) / "t", time.monotonic()
        try:
            found = play(spark, base, seed)
        except AssertionError as error:
            print(f"{error}\n  again: python -m tests.integration.{module} --count 1 --seed {seed}", flush=True)
            return None
        print(f"seed {seed} passed ({found} {counted}, {time.monotonic() - started:.0f} s)", flush=True)
        shutil.rmtree(base.parent, ignore_errors=True)
        return found

    with ThreadPoolExecutor(arguments.jobs) as pool:
        played = list(pool.map(one, range(arguments.seed, arguments.seed + arguments.count)))
    spark.stop()
    passed = [found for found in played if found is not None]
    seconds = time.monotonic() - began
    failed = len(played) - len(passed)
    print(f"{len(passed)} passed, {failed} failed ({sum(passed)} {counted}, {seconds:.0f} s)")
    return 1 if failed else 0


def main() -> int:
    def cuts(spark, base, seed) -> int:
        return sum("cut at" in step and "compact" in step for step in run_history(spark, base, seed))

    return play_seeds(seeds_parser(__doc__).parse_args(), "cuts carried out", cuts)


if __name__ == "__main__":
    sys.exit(main())
