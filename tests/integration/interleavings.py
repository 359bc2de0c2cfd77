"""`etc apply` and one stock writer at each step of each other, where a compaction merges a delete of a key:
`python -m tests.integration.interleavings [--index I ...] [--lock yes|no] [--moment M ...]`.

The writer upserts the deleted key again. It is held (SIGSTOP) at a step of its commit while an apply goes to its end, or it
writes while the apply is held at a step of its own. Or the apply waits for the end of another write and keeps the lock from
then on: the writer begins at a step of it, while the lock is held or once it was given back. Afterwards: RT with and without the
metadata table has no key twice and the right rows, also after one more upsert of the key; after another apply RO is complete up
to its T.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any

from etc_policy.api.applying import Applier
from etc_policy.errors import EtcError
from etc_policy.plan.clock import MAX_CLOCK_SKEW_MS
from etc_policy.policy.manifest import EventTime, Policy, Strategy, Verify, VerifyLevel
from etc_policy.policy.manifest import Writer as WriterFacts
from etc_policy.run.ports import CommitGate
from etc_policy.spark.compactor import HudiCompactor
from etc_policy.table.double_keys import SEES_LOG_FILES
from etc_policy.wiring import Environment, clock_ms
from tests.integration.held import writer_step
from tests.integration.kills import Table, exit_when_told
from tests.integration.session import stop_spark
from tests.integration.writer_on_command import Writer, write

INDEXES = {
    "simple": {"hoodie.index.type": "SIMPLE"},
    "bloom": {"hoodie.index.type": "BLOOM"},
    "global_simple": {"hoodie.index.type": "GLOBAL_SIMPLE"},
    "global_bloom": {"hoodie.index.type": "GLOBAL_BLOOM"},
    "bucket": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"},
    "global_record_index": {"hoodie.index.type": "RECORD_INDEX", "hoodie.metadata.record.index.enable": "true"},
}
#: Where the apply is held while the writer does all of its commit. `checked`: under the lock, right before the commit.
OURS = ("published", "compacted", "checked", "committed")
#: Where the writer is held while the apply goes to its end: before it has looked for the key, after that, in its commit.
THEIRS = ("requested", "writing", "committing to the metadata table", "committed to the metadata table", "committed")
#: A write makes the plan wrong, and a second one, which has listed the timeline with it, opens its file when it was withdrawn.
WITHDRAWN = "plan withdrawn"
MOMENTS = (*(f"ours {moment}" for moment in OURS), *(f"writer {moment}" for moment in THEIRS), WITHDRAWN)
#: The same steps of an apply that keeps the lock from its plan on: until its commit, or no longer than until the step.
IN_HOLD = (*(f"hold {moment}" for moment in OURS[:3]), *(f"ended {moment}" for moment in OURS[:2]))
#: So long it keeps the lock where the writer is to begin after it was given back, and else.
SHORT_HOLD_MS, LONG_HOLD_MS = 8_000, 300_000
_LOOKS = "waiting for one between two writes"
_LOCK = {
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    "hoodie.write.lock.wait_time_ms_between_retry": "200",
    "hoodie.write.lock.num_retries": "15",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "200",
    "hoodie.write.lock.client.num_retries": "2",
}
_SHARED = {
    **_LOCK,
    "hoodie.write.lock.client.num_retries": "300",
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
}
_WRITER = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.compact.inline": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.delete.shuffle.parallelism": "1",
    "hoodie.write.track.event.time.watermark": "true",
    "hoodie.payload.event.time.field": "ts",
    "hoodie.parquet.small.file.limit": "0",
}
LATENCY_MS = 5_000
#: So many at most, until one is not refused.
APPLIES = 10


@dataclass(frozen=True)
class Case:
    """One interleaving."""

    index: str
    lock: bool
    moment: str
    level: VerifyLevel = "data"

    def __str__(self) -> str:
        return f"{self.index:13}  {'lock' if self.lock else 'none':4}  {self.moment:43}"

    @property
    def forgets_deleted(self) -> bool:
        """Whether the index sends a deleted key to another file group: RO shows both until the delete is compacted."""
        return self.index.startswith("global_")

    @property
    def options(self) -> dict[str, str]:
        """Those of the stock writer."""
        return {**_WRITER, **INDEXES[self.index], **(_SHARED if self.lock else {})}

    @property
    def hold_ms(self) -> int:
        """For how long the apply may keep the lock."""
        return SHORT_HOLD_MS if self.moment.startswith("ended") else LONG_HOLD_MS

    def policy(self, table: Path) -> Policy:
        """That of the table."""
        lock = _LOCK if self.lock else {}
        wait_ms = 60_000 if self.moment in IN_HOLD else 2_000
        return Policy(
            name="t",
            table=str(table),
            event_time=EventTime(column="ts", unit="ms"),
            data_latency_ms=LATENCY_MS,
            strategy=Strategy(granularity="log_file"),
            writer=WriterFacts(index=self.index, lock=lock, lock_wait_ms=wait_ms, hold_ms=self.hold_ms),
            verify=Verify(level=self.level),
        )


@dataclass(frozen=True)
class HeldGate:
    """The real one, held before the first question and after the last."""

    gate: CommitGate
    hook: Callable[[str], None]

    def before_lock(self):
        self.hook("compacted")
        self.gate.before_lock()

    def under_lock(self):
        self.gate.under_lock()
        self.hook("checked")


class HeldCompactor(HudiCompactor):
    """The real one, which calls `hook` with the step that it has reached."""

    def __init__(self, spark: Any, hook: Callable[[str], None]) -> None:
        super().__init__(spark)
        self._hook = hook

    def publish(self, job, *checks):
        super().publish(job, *checks)
        self._hook("published")

    def run(self, job, begun, gate):
        super().run(job, begun, HeldGate(gate, self._hook))
        self._hook("committed")


class HeldEnvironment(Environment):
    """The real one, on a Spark that is there already."""

    hook: Callable[[str], None] = staticmethod(lambda step: None)

    def runner(self, *given):
        return replace(super().runner(*given), compactor=lambda: HeldCompactor(self.spark, self.hook))


@dataclass
class Scene:
    """A table, the writer beside it and what is true of it."""

    spark: Any
    writer: Writer
    folder: Path
    case: Case
    told: list[str] = field(default_factory=list)
    rows: dict[int, str] = field(default_factory=dict)
    errors: list[EtcError] = field(default_factory=list)

    @property
    def table(self) -> Table:
        return Table(self.folder / "t")

    def play(self) -> str:
        """What came of it; raises AssertionError where it is not right."""
        self.rows = {1: "again", 2: "other"}
        scenes = {"ours": self._beside_ours, "writer": self._beside_theirs, "plan": self._beside_withdrawal}
        scenes |= {"hold": self._in_hold, "ended": self._in_hold}
        whose, moment = self.case.moment.split(" ", 1)
        scenes[whose](moment)
        self._upsert("once more")  # before anything else: another compaction would put the key back into its base file
        self._check("after one more upsert")
        self._apply_until_done(lambda step: None)
        self._check("after the applies", ro=True)
        if self.case.level == "data":
            self._upsert("and again")
            self._check("in the end")
        return "; ".join(self.told)

    def _upsert(self, value: str) -> None:
        self._write([(1, "a", value, clock_ms() - LATENCY_MS)])
        self.rows[1] = value

    def _beside_ours(self, moment: str) -> None:
        seen: list[str] = []

        def hook(step: str) -> None:
            if step != moment or seen:
                return
            seen.append(step)
            self._begin([(1, "a", "again", clock_ms() - LATENCY_MS)])
            deadline = time.monotonic() + (4 if self.case.lock and step == "checked" else 300)
            while not self.writer.is_done and time.monotonic() < deadline:
                time.sleep(0.02)

        self._apply_until_done(hook)
        assert seen, "the apply did not come there"
        self._heard()

    def _beside_theirs(self, moment: str) -> None:
        before = len(self.table.timeline("*.deltacommit.requested"))
        self._begin([(1, "a", "again", clock_ms() - LATENCY_MS)])
        while len(self.table.timeline("*.deltacommit.requested")) == before:
            time.sleep(0.0005)
        order = ("requested", *THEIRS[1:])
        while order.index(writer_step(self.table)) < order.index(moment):
            time.sleep(0.0005)
        os.killpg(self.writer.process.pid, signal.SIGSTOP)
        try:
            self.told.append(f"writer held at `{writer_step(self.table)}`")
            self._apply(lambda step: None)
        finally:
            os.killpg(self.writer.process.pid, signal.SIGCONT)
        self._heard()

    def _beside_withdrawal(self, moment: str) -> None:
        hold, seen = self.folder / "hold", []

        def hook(step: str) -> None:
            seen.append(step)
            if seen == ["published"]:
                self._write([(1, "a", "between", clock_ms() - LATENCY_MS)])
            elif seen == ["published", "compacted"]:
                self._begin([(1, "a", "again", clock_ms() - LATENCY_MS)], hold=hold)
                self.writer.wait_until_held(hold)

        try:
            assert self._apply(hook) != "compacted", "; ".join(self.told)
        finally:
            self._look_at_plans(moment)
            hold.unlink(missing_ok=True)
        assert seen[:2] == ["published", "compacted"], seen
        assert (answer := self.writer.answer()) == "done", f"the writer that had listed the plan: {answer}"

    def _in_hold(self, moment: str) -> None:
        """A write is in flight when the apply plans, and ends while it looks for the moment between two writes."""
        hold, seen, is_long = self.folder / "hold", [], self.case.hold_ms == LONG_HOLD_MS
        self._begin([(2, "a", "new", clock_ms() - LATENCY_MS)], hold=hold)
        self.writer.wait_until_held(hold)
        self.rows[2] = "new"

        def hook(step: str) -> None:
            if step == "looking":
                hold.unlink(missing_ok=True)
            if step != moment or seen:
                return
            seen.append(step)
            assert (answer := self.writer.answer()) == "done", answer
            begun = self.table.timeline("*.deltacommit.requested")
            self._begin([(1, "a", "again", clock_ms() - LATENCY_MS)])
            deadline = time.monotonic() + (4 if is_long else 300)
            while not self.writer.is_done and time.monotonic() < deadline:
                time.sleep(0.02)
            if is_long:
                assert self.table.timeline("*.deltacommit.requested") == begun, "the writer has begun in the hold"

        try:
            self._apply(hook)
        finally:
            hold.unlink(missing_ok=True)
        assert seen, f"the apply did not come there: {'; '.join(self.told)}"
        self._heard()
        self._apply_until_done(hook)

    def beside_a_failed_write(self, operation: str) -> list[EtcError]:
        """What an apply says beside a write that has failed in a process that lives on, and has written once more since."""
        hold = self.folder / "hold"
        hold.with_suffix(".fail").touch()
        options = {**self.case.options, "hoodie.client.heartbeat.interval_in_ms": "2000"}
        self.writer.begin(self.table.base, [(2, "a", "", clock_ms() - LATENCY_MS)], options, operation, hold)
        self.writer.wait_until_held(hold)
        hold.unlink()
        assert (answer := self.writer.answer()).startswith("failed"), answer
        self._upsert("later")
        time.sleep(MAX_CLOCK_SKEW_MS / 1000)
        self._apply(lambda step: None)
        return self.errors

    def hidden_by_a_failed_write(self) -> Mapping[str, list[tuple[int, str]]]:
        """The views where a write that failed has left a base file before another's log file, which an apply then compacts.

        A write that failed in a conflict takes its heartbeat along, so it may live until stock Hudi rolls it back.
        """
        hold, options = self.folder / "hold", {**self.case.options, "hoodie.parquet.small.file.limit": "104857600"}
        write(self.spark, str(self.table.base), [(1, "a", "first", clock_ms() - LATENCY_MS)], "upsert", options)
        self.writer.begin(self.table.base, [(3, "a", "lost", clock_ms())], options, hold=hold)
        self.writer.wait_until_held(hold)
        write(self.spark, str(self.table.base), [(1, "a", "newer", clock_ms() - LATENCY_MS)], "upsert", options)
        hold.unlink()
        assert "WriteConflict" in (answer := self.writer.answer()), answer
        views = self._views()
        self._apply(lambda step: None)
        assert [error.code for error in self.errors] == ["ETC405"], self.told
        cleans = {**options, "hoodie.clean.automatic": "true"}
        write(self.spark, str(self.table.base), [(2, "a", "other", clock_ms() - LATENCY_MS)], "upsert", cleans)
        self.rows = {1: "newer", 2: "other"}
        self._apply_until_done(lambda step: None)
        self._check("after the applies", ro=True)
        return views

    def _look_at_plans(self, moment: str) -> None:
        pending = self.table.incomplete("compaction", "commit")
        self.told.append(f"{moment}: {len(pending)} plans pending")
        assert not pending, pending

    def _begin(self, rows: list, operation: str = "upsert", hold: Path | None = None) -> None:
        self.writer.begin(self.table.base, rows, self.case.options, operation, hold)

    def _heard(self) -> None:
        answer = self.writer.answer()
        if answer != "done":
            self.told.append(f"writer: {answer}")
            self._write([(1, "a", "again", clock_ms() - LATENCY_MS)])

    def _write(self, rows: list) -> None:
        self._begin(rows)
        assert (answer := self.writer.answer()) == "done", answer

    def _apply_until_done(self, hook: Callable[[str], None]) -> None:
        """Apply until nothing is left: one that is refused because the writer has only just committed is run again."""
        for _ in range(APPLIES):
            if self._apply(hook) in ("compacted", "nothing_due"):
                return
            time.sleep(MAX_CLOCK_SKEW_MS / 1000)
        raise AssertionError(f"no apply came to its end; {'; '.join(self.told)}")

    def _apply(self, hook: Callable[[str], None]) -> str:
        lines: list[str] = []

        def say(line: str) -> None:
            lines.append(line)
            if line.endswith(_LOOKS):
                hook("looking")

        environment = HeldEnvironment(self.folder, say)
        environment.session = self.spark
        environment.hook = hook
        applier = Applier(environment, clock_ms())
        applier.run([self.case.policy(self.table.base)])
        self.errors = applier.errors
        plans = sum("publishing" in line for line in lines)
        status = ", ".join(result.status for result in applier.results) or "nothing"
        codes = " ".join(error.code for error in applier.errors)
        verdicts = [r.verification.status for r in applier.results if r.verification]
        self.told.append(f"apply: {status} with {plans} plans{f' ({codes})' if codes else ''}")
        assert "fail" not in verdicts, [str(error) for error in applier.errors]
        unexpected = set(codes.split()) - {"ETC402", "ETC405", "ETC414", "ETC415", "ETC416", "ETC422"}
        assert not unexpected, [str(error) for error in applier.errors]
        return status

    def _check(self, when: str, *, ro: bool = False) -> None:
        for view, rows in self._views().items():
            is_stale = view == "RO" and not ro
            if not (is_stale and self.case.forgets_deleted):
                twice = [key for key, count in Counter(key for key, _ in rows).items() if count > 1]
                assert not twice, f"{when}: {view} has key {twice} twice; {'; '.join(self.told)}"
            if not is_stale:
                assert dict(rows) == self.rows, f"{when}: {view} is {rows}; {'; '.join(self.told)}"

    def _views(self) -> Mapping[str, list[tuple[int, str]]]:
        """The rows of each view, in one pass of Spark."""
        from pyspark.sql import functions as F

        views = {
            "RT": {},
            "RT without MDT": {"hoodie.metadata.enable": "false"},
            "RO": {"hoodie.query.as.ro.table": "true"},
        }
        frames = [
            self.spark.read.format("hudi").options(**options).load(str(self.table.base)).select(F.lit(name), "id", "v")
            for name, options in views.items()
        ]
        found: dict[str, list[tuple[int, str]]] = {name: [] for name in views}
        for name, key, value in reduce(lambda left, right: left.unionAll(right), frames).collect():
            found[name].append((key, value))
        return found


@dataclass
class Stage:
    """One Spark of ours and one stock writer, for any number of scenes."""

    folder: Path
    spark: Any
    writer: Writer
    sources: dict[str, Path] = field(default_factory=dict)

    def source(self, case: Case) -> Path:
        """A table with a row that was deleted, and one that was not; the same for all indexes that look in base files."""
        key = case.index if case.index in SEES_LOG_FILES else "other"
        if key not in self.sources:
            base = self.folder / f"source_{key}"
            now = clock_ms() - 120_000
            rows = [(1, "a", "first", now), (2, "a", "other", now)]
            write(self.spark, str(base), rows, "upsert" if key == "bucket" else "insert", case.options)
            write(self.spark, str(base), [(2, "a", "other", now + 1)], "upsert", case.options)
            write(self.spark, str(base), [(1, "a", "", now + 2)], "delete", case.options)
            self.sources[key] = base
            time.sleep(MAX_CLOCK_SKEW_MS / 1000)
        return self.sources[key]

    def scene(self, case: Case) -> Scene:
        """The case with a table of its own, before anything happens."""
        scene = self.empty_scene(case)
        shutil.copytree(self.source(case), scene.table.base)
        return scene

    def empty_scene(self, case: Case) -> Scene:
        """The case before there is a table."""
        folder = self.folder / str(case).replace(" ", "_")
        folder.mkdir()
        return Scene(self.spark, self.writer, folder, case)

    def play(self, case: Case) -> str:
        """What came of a case, `FAILED` and why where it was not right."""
        scene = self.scene(case)
        folder = scene.folder
        try:
            told = scene.play()
        except AssertionError as error:
            self.writer.settle()
            return f"FAILED: {error} (table in {folder})"
        with suppress(OSError):
            shutil.rmtree(folder)
        return told


def cases(indexes: Iterable[str], locks: Iterable[bool], moments: Iterable[str]) -> Iterator[Case]:
    """All of them; a lock is kept where there is one, and where writers do not find keys in log files."""
    chosen = tuple(moments)
    every = (Case(index, lock, moment) for index in indexes for lock in locks for moment in chosen)
    return (one for one in every if one.moment not in IN_HOLD or (one.lock and one.index not in SEES_LOG_FILES))


def main() -> int:
    from etc_policy.spark.session import start_spark

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", nargs="*", default=tuple(INDEXES))
    parser.add_argument("--lock", choices=("yes", "no"))
    parser.add_argument("--moment", nargs="*", default=(*MOMENTS, *IN_HOLD))
    arguments = parser.parse_args()
    exit_when_told()
    folder, failed = Path(tempfile.mkdtemp()), 0
    locks = (True, False) if arguments.lock is None else (arguments.lock == "yes",)
    writer = Writer(folder)
    spark = start_spark({"spark.sql.shuffle.partitions": "1", "spark.master": "local[1]"}, folder / "spark.log")
    stage = Stage(folder, spark, writer)
    for case in cases(arguments.index, locks, arguments.moment):
        told = stage.play(case)
        failed += told.startswith("FAILED")
        print(f"{case}  {told}", flush=True)
    stop_spark(spark)
    writer.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
