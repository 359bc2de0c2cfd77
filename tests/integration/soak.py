"""A soak of one table: `python -m tests.integration.soak --minutes 30 --index simple --seed 1`.

One or two stock writers with optimistic concurrency and a declared lock (a file; in a bucket Hudi's storage-based one) write
small batches, clean and archive as often as Hudi lets them, and are killed at random moments; `etc apply` runs again and again,
is killed too, and gets company. `--where moto --beside 1 --cleaner` plays it in a bucket, with two runs of etc and a cleaner.
The writers' journals are the oracle: at checkpoints and at the end RT (with the metadata table and without), RO up to each
published threshold, what `etc freshness` says and `etc history` are held against them; `etc verify --level data` has to pass.
Exit 1 and the table's folder on any difference.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.integration.kills import exit_when_told, kill
from tests.integration.session import stop_spark
from tests.integration.soak_checks import Expected, history_problems, published_problems, read_views
from tests.integration.soak_places import Place, place_of, start_spark_at
from tests.integration.soak_processes import NEVER, Apply, BrokenPromiseError, draw_moment, etc
from tests.integration.soak_setting import Setting, read_setting
from tests.integration.soak_timeline import Timeline

SPARK = {"spark.master": "local[1]", "spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "1"}
#: The writers work so long and then pause together: a source is empty at times, and runs may go on then.
WORK_SECONDS = 32.0
#: How often a run is tried while nobody writes, and the pause between: a dead writer looks alive for a while.
QUIET_TRIES, QUIET_PAUSE_SECONDS = 8, 8.0
#: Done, or worth another try: nothing else may happen to a run that nobody kills.
ALLOWED = (0, 4)
#: Of so many keys that are wrong all writes are shown.
KEY, KEYS_SHOWN = re.compile(r"\bkey (\d+) "), 3
TICK_SECONDS, POLL_SECONDS = 0.02, 0.4
LONGEST_REST_SECONDS = 22.0
#: Of all runs so many die.
KILLED_SHARE = 0.42


@dataclass
class Soak:
    """One table, everybody who works on it, and what was counted."""

    setting: Setting
    place: Place
    counts: Counter = field(default_factory=Counter)
    outcomes: Counter = field(default_factory=Counter)
    beside: Counter = field(default_factory=Counter)
    apply: Apply | None = None
    second: Apply | None = None
    second_at: float = NEVER
    next_after: int = 4
    apply_was_killed: bool = False
    rested_since: float = field(default_factory=time.monotonic)
    usual_seconds: float = 20.0
    polled: float = 0.0
    killed_share: float = KILLED_SHARE

    def __post_init__(self) -> None:
        self.setting.write_project(self.place)
        self.table = self.place.table
        self.timeline = Timeline(self.table)
        self.dice = self.setting.dice("applies")
        self.writers = [self.setting.writer(n, self.place, self.timeline) for n in range(self.setting.writers)]
        cleaner = [self.setting.cleaner(self.place, self.timeline)] if self.setting.has_cleaner else []
        self.workers = [*self.writers, *cleaner]
        self.began = time.monotonic()

    @property
    def acknowledged(self) -> int:
        return sum(writer.counts["acknowledged"] for writer in self.writers)

    def say(self, words: str) -> None:
        print(f"{time.monotonic() - self.began:6.0f} s  {self.acknowledged:>4} batches  {words}", flush=True)

    def play(self, spark) -> None:
        self._make_table()
        ends = time.monotonic() + self.setting.minutes * 60
        next_checkpoint = time.monotonic() + self.setting.checkpoint_seconds
        while time.monotonic() < ends or self.acknowledged < self.setting.batches:
            self._tick_writers(paused=self._is_pause)
            self._tick_applies(starting=True)
            if time.monotonic() > next_checkpoint and self.apply is None:
                self.checkpoint(spark)
                next_checkpoint = time.monotonic() + self.setting.checkpoint_seconds
            time.sleep(TICK_SECONDS)
        self.checkpoint(spark)

    @property
    def _is_pause(self) -> bool:
        return (time.monotonic() - self.began) % (WORK_SECONDS + self.place.pause_seconds) > WORK_SECONDS

    @property
    def _is_at_rest(self) -> bool:
        return all(writer.at_rest for writer in self.workers)

    def _make_table(self) -> None:
        """The first batch of the first writer makes the table; the others start after it."""
        first = self.writers[0]
        while not self.timeline.batches:
            first.tick(paused=first.batches.number >= 0)
            if first.counts["failed"]:
                raise BrokenPromiseError(f"the table could not be made: {list(first.reasons)}")
            time.sleep(TICK_SECONDS)
        self.rested_since = time.monotonic()
        self.say(f"the table is made: {self.place.location}")

    def _tick_writers(self, *, paused: bool) -> None:
        for writer in self.workers:
            if writer.tick(paused=paused):
                fate = ", ".join(f"{writer.counts[fate]} {fate}" for fate in ("there", "absent"))
                self.say(f"writer {writer.batches.writer} killed in the middle of a batch (so far {fate})")

    def _tick_applies(self, *, starting: bool) -> None:
        """Start, kill and end runs of etc; while none is `starting`, those that run come to their end."""
        now = time.monotonic()
        if now > self.polled + POLL_SECONDS:
            self.timeline.poll()
            self.polled = now
        if starting and self.apply is None and self._wants_apply(now):
            moment, victim = draw_moment(self.dice, self.usual_seconds, mends=self.timeline.any_pending())
            self.apply = self._start(moment if self.dice.random() < self.killed_share else None, victim)
            beside = self.dice.random() < self.setting.beside_share
            self.second_at = now + self.dice.random() * self.usual_seconds if beside else NEVER
        if starting and self.apply and self.second is None and now > self.second_at:
            self.second, self.second_at = self._start(), NEVER
        if self.second and self.second.tick():
            self._end(self.second, "a second apply")
            self.second = None
        if self.apply and self.apply.tick():
            self._end(self.apply, "apply")
            self.apply_was_killed = self.apply.killed_at is not None
            self.apply, self.second, self.second_at = self.second, None, NEVER
            self.next_after = len(self.timeline.batches) + self.dice.randint(0, 4)
            self.rested_since = now

    def _wants_apply(self, now: float) -> bool:
        """After some commits and in a pause, else after a while: a run that is refused or finds nothing to do proves little.

        What a killed run has left, its lock among it, is taken up at once.
        """
        ready = self.apply_was_killed or (self._is_pause and len(self.timeline.batches) >= self.next_after)
        return ready or now > self.rested_since + LONGEST_REST_SECONDS + self.place.pause_seconds

    def _start(self, moment: tuple[str, float] | None = None, victim: str = "both") -> Apply:
        self.counts["applies"] += 1
        number, patience_seconds = self.counts["applies"], self.setting.patience_seconds
        folder = self.setting.folder / "runs" / f"{number:04}"
        run = Apply(number, folder, patience_seconds, self.table, self.timeline, self.place.confs, moment, victim)
        return run.start()

    def _end(self, apply: Apply, kind: str) -> None:
        """Count how a run ended; any exit code but 0 and 4 breaks a promise."""
        outcome, code = apply.outcome, apply.process.returncode
        (self.beside if apply is self.second else self.outcomes)[outcome] += 1
        self.say(f"{kind} {apply.number}: {outcome}, {time.monotonic() - apply.began:.0f} s")
        if apply.killed_at:
            self.counts["apply kills"] += 1
            return
        if "compacted" in outcome:
            self.usual_seconds = time.monotonic() - apply.began
        if code not in ALLOWED:
            raise BrokenPromiseError(f"apply {apply.number} ended with {outcome}, see {apply.folder}")

    def checkpoint(self, spark) -> None:
        """Nobody writes: look at the table as it is, let a run finish what is begun, and look again."""
        while self.apply or self.second or not self._is_at_rest:
            self._tick_writers(paused=True)
            if self.apply_was_killed and self.apply is None:
                self.apply = self._start()  # a writer may wait for the lock that the killed run has left
            self._tick_applies(starting=False)
            time.sleep(TICK_SECONDS)
        self.counts["checkpoints"] += 1
        self._look(spark, {}, "as it is")
        threshold_ms = self._quiet_apply()["threshold_ms"]
        verdict = self._ask("verify", "--level", "data", "--target-dir", str(self.setting.folder / "look"))
        found = [one["verification"] for one in verdict["tables"]]
        self._require((str(one) for one in found if one["status"] in ("fail", "error")), "etc verify")
        freshness = self._ask("freshness", "--target-dir", str(self.setting.folder / "look"))["tables"][0]
        complete_until_ms = freshness["complete_until_ms"]
        promises = {"T of a run while nobody writes": threshold_ms, "complete by `etc freshness`": complete_until_ms}
        self._look(spark, promises, "after a run")
        self._require(history_problems(self._ask("history", "t"), self.timeline), "history")
        self.say(f"checkpoint {self.counts['checkpoints']}: {len(self.timeline.compactions)} compactions, all is right")

    def _quiet_apply(self) -> dict:
        """A run that is not killed, beside nobody; a 4 is tried again for as long as a dead writer may look alive.

        Who was refused twice may wait for a write that has failed: it stays in flight until somebody writes or cleans again.
        """
        for number in range(QUIET_TRIES):
            apply = self._start()
            while not apply.tick():
                time.sleep(TICK_SECONDS)
            self._end(apply, "apply while nobody writes")
            if apply.process.returncode == 0:
                return apply.result["tables"][0]
            if number:
                self._write_on(QUIET_PAUSE_SECONDS)
            time.sleep(QUIET_PAUSE_SECONDS)
        raise BrokenPromiseError(f"stuck: {QUIET_TRIES} runs while nobody writes have not ended with 0")

    def _write_on(self, seconds: float) -> None:
        """Let the writers go on for a while, and come to rest."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends or not self._is_at_rest:
            self._tick_writers(paused=time.monotonic() >= ends)
            time.sleep(TICK_SECONDS)

    def _look(self, spark, promises: dict[str, int | None], when: str) -> None:
        self.timeline.poll()
        expected = Expected.of([writer.journal_path for writer in self.writers], self.timeline)
        views = read_views(spark, self.place.location)
        problems = [*self.timeline.problems, *(f"{name} is unreadable" for name in sorted(self.timeline.unreadable))]
        problems += expected.problems(views, forgets_deleted=self.setting.forgets_deleted)
        latency_ms = self.setting.latency_seconds * 1000
        problems += published_problems(expected, views["RO"], self.timeline, latency_ms)
        leaves_out = any(compaction.leaves_out for compaction in self.timeline.compactions[-1:])
        bound_ms = latency_ms if leaves_out else None
        for promise, until_ms in promises.items():
            if until_ms is not None:
                problems += expected.ro_problems(views["RO"], until_ms, f"{promise}: {until_ms}", latency_ms=bound_ms)
        keys = sorted({int(key) for problem in problems for key in KEY.findall(problem)})
        self._require([*problems, *map(expected.story, keys[:KEYS_SHOWN])], when)

    def _require(self, problems: Iterable[str], when: str) -> None:
        if found := list(problems):
            raise BrokenPromiseError("\n  ".join([f"checkpoint {self.counts['checkpoints']}, {when}:", *found]))

    def _ask(self, *arguments: str) -> dict:
        """What a command of etc says that must end well."""
        command = [*etc(*arguments), "--project-dir", str(self.setting.folder), "--output", "json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise BrokenPromiseError(f"etc {' '.join(arguments)} ended with {done.returncode}: {done.stderr}")
        return json.loads(done.stdout)

    def stop(self) -> None:
        for apply in (self.apply, self.second):
            if apply and apply.process.poll() is None:
                kill(-apply.process.pid)
        for writer in self.workers:
            writer.stop()

    def summary(self) -> str:
        setting, counts = self.setting, self.counts
        written = sum((writer.counts for writer in self.writers), Counter())
        reasons = sum((writer.reasons for writer in self.workers), Counter())
        lines = [
            f"index {setting.index}, seed {setting.seed}, {setting.writers} writers, lock expiry {setting.expire_minutes} min, "
            f"{time.monotonic() - self.began:.0f} s: {written['acknowledged']} batches acknowledged, {written['failed']} "
            f"failed; {counts['applies']} applies, {len(self.timeline.compactions)} compactions, "
            f"{len(self.timeline.withdrawn)} plans withdrawn; killed: "
            f"{counts['apply kills']} applies, {written['kills']} writers (of their last batches {written['there']} there, "
            f"{written['absent']} absent); {counts['checkpoints']} checkpoints",
        ]
        if self.setting.has_cleaner:
            cleaned = self.workers[-1].counts
            lines.append(
                f"cleaner: {cleaned['acknowledged']} done, {cleaned['failed']} failed, killed {cleaned['kills']} times"
            )
        ended = Counter(what[:6] for what in self.outcomes.elements() if what.startswith("exit"))
        lines.append(f"{ended['exit 4']} of {ended.total()} applies that nobody killed ended with exit 4")
        for name, counter in (("applies", self.outcomes), ("second applies", self.beside), ("failed writes", reasons)):
            lines.append(f"{name}: {'; '.join(f'{count} {what}' for what, count in counter.most_common()) or 'none'}")
        return "\n  ".join(lines)


def main() -> int:
    setting = read_setting(__doc__)
    exit_when_told()
    with place_of(setting.where, setting.folder, setting.expire_minutes) as place:
        return play(setting, place)


def outcome(soak: Soak, spark: object) -> BrokenPromiseError | None:
    """Play to the end, and print the summary; the promise that was broken."""
    broken = None
    try:
        soak.play(spark)
    except BrokenPromiseError as error:
        broken = error
    finally:
        soak.stop()
    print(soak.summary(), flush=True)
    return broken


def play(setting: Setting, place: Place) -> int:
    spark = start_spark_at(place.location, SPARK, setting.folder / "look.log")
    try:
        place.prepare(spark)
        broken = outcome(Soak(setting, place), spark)
    finally:
        stop_spark(spark)
    if broken:
        print(f"BROKEN: {broken}\n  everything is kept in {setting.folder}; the same dice: {setting.command}")
        return 1
    shutil.rmtree(setting.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
