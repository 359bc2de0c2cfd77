"""Partial compaction with carried log files on real tables of version 6, each view against an oracle. As a command: all kinds.

python -m tests.integration.version6
ETC_HUDI_BUNDLE=org.apache.hudi:hudi-spark3.5-bundle_2.12:0.15.0 python -m tests.integration.version6
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

from etc_policy.hudi.log_times import fill_from_logs
from etc_policy.hudi.table import FileTableReader
from etc_policy.policy.manifest import Policy, Strategy
from etc_policy.run.carrying import carry_files
from etc_policy.run.ports import Job
from etc_policy.run.table_files import HudiFiles
from etc_policy.spark.compactor import HudiCompactor
from etc_policy.spark.metadata_listing import wrongly_listed
from etc_policy.storage.safe_files import copy_draft
from etc_policy.table.state import TableState
from tests.integration.bench import SECOND, Bench
from tests.integration.history import CommitOracle, Oracle, Views, Write, write_history
from tests.integration.version6_kinds import AFTER, KINDS, LAST, MANY, PENDING, VERSION_6, WRITES, Kind

#: Where a run is killed; Hudi 0.x writes the file of its commit in place, and leaves it empty then.
CUT_OFF_BELOW = "in the metadata table's commit"
STEPS = ("published", "half carried", "carried", "before the commit", CUT_OFF_BELOW, "in the commit")
PLAIN = Kind()
#: Commits from this one on are looked at where all would take too long.
RECENT = len(WRITES) - 2


class Views6(Views):
    """Readers of a table whose timeline has no completion times."""

    mdt = "true"

    def read(self, **options):
        return super().read(**{"hoodie__metadata__enable": self.mdt, **options})

    def delta_commits(self):
        return sorted(file.name.split(".")[0] for file in (self.base / ".hoodie").glob("*.deltacommit"))


@dataclass
class Table6(Bench):
    """A table of version 6 with its oracle."""

    kind: Kind = field(default_factory=Kind)
    history: tuple[Write, ...] = ()
    views: Views6 = field(init=False)

    def __post_init__(self) -> None:
        self.views = Views6(self.spark, self.base)
        self.views.mdt = str(self.kind.mdt).lower()

    @property
    def policy(self) -> Policy:
        return super().policy.model_copy(
            update={"strategy": Strategy(granularity=self.granularity, carry=self.kind.carry)}
        )

    @property
    def oracle(self) -> Oracle:
        return (Oracle if self.kind.by_event_time else CommitOracle).of(self.history)

    def state(self) -> TableState:
        state = FileTableReader().read(str(self.base), self.policy.event_time)
        return fill_from_logs(state, self.policy, None)

    def write(self, *writes: Write) -> None:
        for write in writes:
            write_history(self.spark, self.base, (write,), self.kind.options, first=len(self.history))
            self.history = (*self.history, write)

    def carried(self) -> list[Path]:
        return sorted(self.base.glob("*/.*.log.0_1?????-0-0"))

    def timeline(self, pattern: str) -> list[Path]:
        return sorted((self.base / ".hoodie").glob(pattern))

    def wrong_views(self, since: int = 0, until: int | None = None) -> Iterator[str]:
        """The metadata table's listing, RT with and without it; time travel and incremental queries of commits in a range."""
        oracle, commits = self.oracle, self.views.delta_commits()[-len(self.history) :]
        if self.kind.mdt:
            yield from (f"the MDT's listing: {fault}" for fault in wrongly_listed(self.spark, self.state()))
        yield from self._wrong("RT", self.views.rt, oracle.rt())
        yield from self._wrong("RT without the MDT", self.views.rt_without_mdt, oracle.rt())
        first = len(self.history) - len(commits)
        for number in range(max(since, first), until or len(self.history)):
            at = commits[number - first]
            yield from self._wrong(f"time travel to {number}", lambda at=at: self.views.as_of(at), oracle.as_of(number))
            if number > first or not number:
                after = commits[number - first - 1] if number else "000"
                read = lambda after=after, at=at: self.views.incremental(after, at)  # noqa: E731
                yield from self._wrong(f"incremental of {number}", read, oracle.incremental(number))

    def _wrong(self, name: str, read: Callable[[], dict[int, str]], expected: dict[int, str]) -> Iterator[str]:
        try:
            found = read()
        except Exception as error:  # a reader that fails is as wrong as one that lacks rows
            yield f"{name}: {str(error)[:300]}"
            return
        if found != expected:
            keys = sorted(key for key in {*found, *expected} if found.get(key) != expected.get(key))
            yield f"{name}: " + ", ".join(f"{key}: {found.get(key)} not {expected.get(key)}" for key in keys)

    def check(self, when: str, since: int = 0, until: int | None = None) -> None:
        wrong = list(self.wrong_views(since, until))
        assert not wrong, f"{self.kind}, {when}: {'; '.join(wrong)}"

    def check_ro(self, second: int) -> None:
        ro, expected = self.views.ro(), self.oracle.rt_up_to(second)
        assert {key: ro.get(key) for key in expected} == expected, f"{self.kind}: RO up to {second}"

    def pending_job(self) -> Job:
        return HudiFiles().pending_job(self.policy, self.state())

    def files(self) -> set[str]:
        """The paths of the table's data files and timeline, less what Hadoop, etc and the metadata table keep beside them."""
        below = (path.relative_to(self.base) for path in self.base.rglob("*") if path.is_file())
        hidden = ("metadata", ".etc", ".heartbeat", ".temp", ".aux")
        own = {str(path) for path in below if path.suffix != ".crc" and not {*hidden}.intersection(path.parts)}
        return {path for path in own if ".rollback" not in path and not path.endswith("hoodie.properties.backup")}

    def copied(self, base: Path) -> Table6:
        shutil.copytree(self.base, base)
        return Table6(self.spark, base, kind=self.kind, history=self.history)

    def leave_at(self, step: str) -> None:
        """The table with a published plan as a run leaves it that is killed at a step."""
        if step == "published":
            return
        job = self.pending_job()
        carry_files(job)
        if step == "half carried":
            first, *others = self.carried()
            first.with_name(copy_draft(first.name)).write_bytes(first.read_bytes()[:7])
            first.unlink()
            for other in others[1:]:
                other.write_bytes(other.read_bytes()[:-1]) if self.kind.carry == "copy" else other.unlink()
        if step.endswith("commit"):
            with self.runner.lease(str(self.base)) as lease:
                lease.mark(job.instant)
                self._commit_with_markers(job, lambda: lease.note_inflight(job.instant))
            commit = self.base / ".hoodie" / f"{job.instant}.commit"
            cut_off(commit)
            if step != "in the commit":
                commit.unlink()
            if step == CUT_OFF_BELOW:
                cut_off(self.base / ".hoodie/metadata/.hoodie" / f"{job.instant}.deltacommit")

    def _commit_with_markers(self, job: Job, begun: Callable[[], None]) -> None:
        """The job is done, and its markers are still there: Hudi removes them after its commit."""
        markers, kept = self.base / ".hoodie/.temp" / job.instant, self.base / ".hoodie/.temp/kept"

        def keep() -> None:
            shutil.copytree(markers, kept, dirs_exist_ok=True)

        HudiCompactor(self.spark).run(job, begun, SimpleNamespace(before_lock=keep, under_lock=keep))
        kept.rename(markers)

    def compact_by_stock(self) -> None:
        self._call(
            f"run_compaction(op => 'scheduleAndExecute', path => '{self.base}', options => '{self.stock_options}')"
        )

    def clean(self) -> None:
        """The stock cleaner with the lowest retention."""
        name = f"cleaned_{abs(hash(self.base))}"
        self.spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{self.base}'")
        self._call(f"run_clean(table => '{name}', retain_commits => 1, options => '{self.stock_options}')")

    @property
    def stock_options(self) -> str:
        always = {"hoodie.compact.inline.max.delta.commits": "1", "hoodie.metadata.enable": self.views.mdt}
        return ",".join(f"{key}={value}" for key, value in {**always, **VERSION_6}.items())

    def _call(self, procedure: str) -> None:
        self.spark.sql(f"CALL {procedure}").collect()

    def compact(self, second: int) -> None:
        """A whole `etc apply` with the threshold at a second of event time, beside which nobody writes."""
        plan = self.plan(second)
        assert plan.tables[0].action == "compact", plan.tables[0].reason
        assert self.apply(plan).status == "compacted"
        self.check_ro(second)


def cut_off(file: Path) -> None:
    """A file of the timeline as Hudi 0.x leaves it that is killed while it writes it."""
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    file.write_bytes(b"")


def make_table(spark: object, base: Path, kind: Kind = PLAIN, writes: tuple[Write, ...] = WRITES) -> Table6:
    """A table with its first writes."""
    table = Table6(spark, base, kind=kind)
    table.write(*writes)
    return table


def play(table: Table6) -> None:
    """What `play_first` does, then two more plans, stock compaction and cleaning."""
    before = table.properties()
    play_first(table)
    for write, second in zip(AFTER, (410, 610), strict=True):
        table.write(write)
        table.compact(second)
        table.check(f"compacted up to {second}", RECENT)
    assert table.properties() == before
    table.compact_by_stock()
    table.check("after a stock compaction", RECENT)
    assert table.plan().tables[0].reason_code in ("nothing_due", "cannot_carry")
    table.write(*LAST)
    table.clean()
    table.check("cleaned", len(table.history) - 1)


def play_first(table: Table6, since: int = 0, until: int | None = None) -> None:
    """A plan is published, carried, written beside and executed.

    Once executed, the views of the commits in that range are looked at; at the other stages those of the last ones.
    """
    before, recent = table.properties(), len(table.history) - 2
    table.check("before", recent)
    plan = table.plan()
    assert plan.tables[0].action == "compact", plan.tables[0].reason
    table.publish(plan)
    table.check("pending", recent)
    carry_files(table.pending_job())
    carried = [len(one.carried) for one in plan.tables[0].operations]
    assert len(table.carried()) == sum(carried)
    assert max(carried) > len({*MANY}.intersection(table.history))
    table.check("pending and carried", recent)
    table.write(PENDING)
    table.check("pending and written to", recent)
    finished = table.runner.finish_pending(table.policy, str(table.base))
    assert finished is not None
    assert finished.status == "resumed"
    assert table.properties() == before
    table.check("executed", since, until)
    table.check_ro(SECOND)


def kill_and_recover(written: Table6, folder: Path, steps: Sequence[str]) -> None:
    """What a killed run leaves at each step is finished, or withdrawn without a trace."""
    for step in steps:
        for finish in (True, False):
            table = written.copied(folder / f"{step}_{finish}".replace(" ", "_"))
            table.kind = replace(written.kind, carry="copy")
            files = table.files()
            table.publish(table.plan())
            table.leave_at(step)
            if finish:
                outcome = table.runner.finish_pending(table.policy, str(table.base))
                assert outcome is not None
                assert outcome.status == "resumed", step
                table.check_ro(SECOND)
            else:
                assert table.runner.undo(table.policy, str(table.base)), step
                assert table.files() == files, step
            assert not list(table.wrong_views(len(table.history) - 1)), f"{step}, finish {finish}"


def main() -> None:
    """Every kind of table, each in a line."""
    from etc_policy.spark.session import start_spark

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="where the tables are made; default: a temporary one")
    parser.add_argument("--first", action="store_true", help="the first kind alone, left half-done at one step")
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp())
    kinds, steps = (KINDS[:1], (CUT_OFF_BELOW,)) if given.first else (KINDS, STEPS)
    spark = start_spark({"spark.sql.shuffle.partitions": "1", "spark.default.parallelism": "1"}, folder / "spark.log")
    written = make_table(spark, folder / "written", kinds[0])
    wrong = [play_one(written.copied(folder / "0"))]
    wrong += [play_one(make_table(spark, folder / str(number), kind)) for number, kind in enumerate(kinds[1:], start=1)]
    kill_and_recover(written, folder, steps)
    print(f"left at each of {len(steps)} steps, then finished or withdrawn: right", flush=True)
    spark.stop()
    sys.exit(any(wrong))


def play_one(table: Table6) -> bool:
    """Whether anything was wrong, which is printed."""
    began, wrong = time.monotonic(), ""
    try:
        play(table)
    except AssertionError as error:
        wrong = f"WRONG: {error}"
    print(f"{table.kind}: {wrong or 'right'} ({time.monotonic() - began:.0f} s)", flush=True)
    return bool(wrong)


if __name__ == "__main__":
    main()
