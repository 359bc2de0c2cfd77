"""What etc says of a table that has lived against what is true of it: `python -m tests.property.judged --count 100000`.

The truth is the rows of each file, and what was promised and verified, as `lifetimes` and this module know it themselves.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from traceback import walk_tb
from types import SimpleNamespace
from typing import Any, NamedTuple

from etc_policy.api import observing, partitions, verifying
from etc_policy.api.observing import proven_partitions
from etc_policy.api.syncing import verdict_beside
from etc_policy.hudi.log_times import fill_from_logs
from etc_policy.hudi.table import FileTableReader
from etc_policy.policy.manifest import EventTime, Freshness, LatencyEvidence, Level, Policy, Sample, Verify, VerifyLevel
from etc_policy.policy.schema import LearnedLatency
from etc_policy.report.freshness import with_partitions
from etc_policy.report.results import TableFreshness
from etc_policy.report.sync import COMPLETE_UNTIL, STATUS, Verdict, ro_properties
from etc_policy.table.formats import iso_time
from etc_policy.table.history import TableHistory
from etc_policy.table.log_witness import of_event_time, with_earlier_times
from etc_policy.table.proofs import look_back_to, without_doubts_about_rows
from etc_policy.table.state import FileSlice, TableState
from etc_policy.verify.catalog import NO_KEY_TWICE, VIEWS_AGREE
from etc_policy.verify.compared_rows import (
    choose_file_groups,
    closed_partitions,
    listed_files,
    partitions_read_whole,
    pin_of,
    seed_of,
)
from etc_policy.verify.evidence import Claim, Evidence, Listing
from etc_policy.verify.ports import Coverage, ExpectationResult, RestsOn, Verification
from etc_policy.verify.prover import claim_of, compared_since, files_compared, verdict_on_rows
from tests.fakes import MemoryApplyStates
from tests.property.lifetimes import BEGIN_MS, HOUR, LATENCY_MS, MINUTE, Group, Lifetime, LogFile, Promise, Row
from tests.property.model import instant_text
from tests.unit.hudi.table_folder import ROLLBACK_SCHEMA

RELEASE = "1.2.0"


#: A file slice by its partition, file id, base file's instant and log files.
Sliced = tuple[str, str, str, tuple[str, ...]]


class Compared(NamedTuple):
    """A comparison of rows up to a time, by a column's name and number, after a compaction by etc and a restore; whether all of
    them were compared, and agreed, and no key was there twice; and the slices then."""

    until_ms: int
    name: str
    number: int
    after: Promise | None
    restored: str
    agreed: bool
    whole: bool
    slices: frozenset[Sliced]


class Suite(NamedTuple):
    """Whether both views are compared, and how far beyond the claim, and whether keys are counted."""

    compares: bool = True
    counts: bool = True
    beyond_ms: int = 0


SUITES = (Suite(), Suite(), Suite(counts=False), Suite(compares=False), Suite(beyond_ms=HOUR), Suite(beyond_ms=-HOUR))
SAMPLES = tuple(
    Verify(level="sample", sample=Sample(share=share, seed=seed)) for share, seed in ((0.3, 1), (0.6, 2), (0.6, None))
)
VERIFIES = (
    *(Verify(), Verify(window_ms=10 * MINUTE), Verify(level="logs"), *SAMPLES),
    *(Verify(where="p = 'a'"), Verify(where="p = 'b'"), Verify(where="p = 'a'", window_ms=HOUR)),
)
#: `etc verify` as the policy says, and by hand: the level, and how long ago its time is (`--at`).
BY_HAND: tuple[tuple[VerifyLevel | None, int], ...] = (
    *((None, 0), (None, 0), (None, 0), (None, HOUR), ("data", 0), ("sample", 0), ("logs", 0), ("metadata", 0)),
)
#: After so long a quiet partition closes.
IDLE_MS = 10 * MINUTE
#: How much later partitions end.
GRACE_MS = 80 * MINUTE
#: Conditions on the partition columns by the partition that each means.
WHERE = {None: None, "p = 'a'": "a", "p = 'b'": "b"}


class Verifying(NamedTuple):
    """A verification that has begun: what it is about, and what it finds."""

    evidence: Evidence
    verdict: Verification
    missing: frozenset[tuple[Group, Row]]
    twice: frozenset[Group]
    compared: Compared | None


class Judged(Lifetime):
    """A table whose completeness is asked for, verified and synced on the way, and that is put back to copies."""

    def __init__(self, data: bytes, folder: Path, about: int | None = None) -> None:
        super().__init__(data, folder)
        self.about = self.choices.below(8) if about is None else about
        self.has_wrong_values = self.is_punctual and self.choices.one_in(3)
        self.reads_logs = not self.is_punctual or self.has_wrong_values
        if self.has_wrong_values:
            self.tracks = None  # Hudi records nothing of a value that it takes for no time
        self.notes, self.compared = MemoryApplyStates(), list[Compared]()
        self.proof: str | None = None
        self.verify_as, self.suite, self.grace_ms = Verify(), Suite(), GRACE_MS
        self.latency_ms, self.is_learned = LATENCY_MS, False
        self.copies: list[tuple[Path, str, Any]] = []
        self.lost: list[tuple[Group, LogFile]] = []
        self.twice: set[Group] = set()
        self.restored = ""
        self.rotten: set[Group] = set()
        self.known_lost: set[tuple[Group, Row]] = set()
        self.known_twice: set[Group] = set()
        self.was_doubted = False
        self.verifying: Verifying | None = None
        self.asked = self.known = 0
        self.properties = dict[str, str]()
        self._read: tuple[Any, tuple[TableState, TableHistory]] | None = None

    @property
    def kinds(self) -> tuple[Callable[[], str], ...]:
        """The same, and what is done about a table; most often that which this lifetime is about."""
        about = (
            (self.compact, self.edit_column, self.archive, self.rest, self.ask),
            (self.compact, self.verify, self.begin_verify, self.end_verify, self.edit_proof, self.ask),
            (self.copy_all, self.put_back, self.verify, self.lose, self.compact, self.ask),
            (self.cluster, self.edit_latency, self.write, self.rest, self.ask),
            (self.verify, self.alter, self.edit_column, self.compact, self.ask),
            (
                *(self.lose, self.double, self.verify, self.begin_verify, self.end_verify, self.edit_verify),
                *(self.compact, self.edit_column, self.write, self.ask),
            ),
            (self.find, self.rest, self.verify, self.edit_verify, self.verify, self.mend, self.switch_column, self.ask)
            * 9,
            (self.find, self.compare_partition, self.edit_ends, self.verify, self.edit_verify, self.ask) * 6,
        )[self.about]
        others = self.ask, self.verify, self.edit_proof, self.edit_latency, self.copy_all, self.put_back, self.lose
        return (*super().kinds, *others, *about * 4)

    def edit_verify(self) -> str:
        """The policy asks for rows to be compared by another suite, perhaps only some of them, or for less."""
        self.verify_as = VERIFIES[self.choices.below(len(VERIFIES))]
        self.suite = SUITES[self.choices.below(len(SUITES))]
        return f"{self.verify_as}, {self.suite}"

    def double(self) -> str:
        """A key of a file group is written into it once more by an error of Hudi, or of a disk that leaves it as it was."""
        groups = sorted(self.truth.groups)
        partition, file_id = group = groups[self.choices.below(len(groups))]
        if self.choices.one_in(3):
            self.rotten.add(group)
        for path in (self.folder / partition).glob(f"{file_id}_*.parquet") if group not in self.rotten else ():
            os.utime(path, (self.now, self.now))
        self.twice.add(group)
        return f"{self.twice}, unseen of {self.rotten}"

    def edit_proof(self) -> str:
        """The policy asks for a proof of rows, or no more."""
        self.proof = None if self.proof else "data"
        return str(self.proof)

    def edit_latency(self) -> str:
        """The policy promises another latency, or lets it be learned: what is unknown may be as late as the longest."""
        self.is_learned = not self.is_learned and bool(self.choices.below(2))
        self.latency_ms = 30 * MINUTE if self.is_learned else LATENCY_MS + self.choices.below(2) * HOUR
        return f"{self.latency_ms}, learned: {self.is_learned}"

    def copy_all(self) -> str:
        """Somebody copies the table, without what etc keeps of it in memory here."""
        if self.open:
            return ""
        place = self.folder.with_name(f"copy{len(self.copies)}")
        shutil.copytree(self.folder, place)
        known = deepcopy((self.truth, self.table.archived, self.replaced, self.lost, self.twice, self.restored))
        self.copies.append((place, self.column, known))
        return str(len(self.copies))

    def put_back(self) -> str:
        """The table is put back to a copy, or by a restore of Hudi; what was noted beside it stays.

        Not to one of before the first compaction by its column, where that is another one since: nothing in it shows which one
        writers recorded.
        """
        if self.open or not self.copies:
            return ""
        place, column, known = self.copies[self.choices.below(len(self.copies))]
        if column != self.column and column not in (one.name for one in known[0].promises[-1:]):
            return ""
        shutil.rmtree(self.folder)
        shutil.copytree(place, self.folder)
        self.truth, self.table.archived, self.replaced, self.lost, self.twice, self.restored = deepcopy(known)
        self.known_twice &= self.twice
        self.tracks = self.tracks and self.column
        if self.choices.one_in(2):
            return place.name
        instant = self.restored = instant_text(self.tick())
        self.table.complete(
            instant, instant_text(self.tick(20)), "restore", ROLLBACK_SCHEMA, {"successDeleteFiles": {}}
        )
        return f"{place.name} by a restore"

    def lose(self) -> str:
        """A stock compaction in which an error of Hudi loses the rows of a log file in RO."""
        keys = [key for key, group in sorted(self.truth.groups.items()) if group.logs]
        if not keys:
            return ""
        key, instant = keys[self.choices.below(len(keys))], self.tick()
        self.lost += [(key, one) for one in self.truth.groups[key].logs if one.completed < instant]
        self._merge(instant, [key], {})
        return f"{key}"

    def find(self) -> str:
        """What was just written is lost, and a verification looks."""
        self.write()
        return f"{self.lose()}, {self.verify()}"

    def mend(self) -> str:
        """Somebody writes rows that were lost once more, and removes a copy of a key that was there twice."""
        number = self.choices.below(2)
        if self.lost:
            mended = self.lost[-number][0]
            self.lost = [lost for lost in self.lost if lost[0] != mended]
        self.twice -= set(sorted(self.twice)[:number])
        return f"{len(self.lost)} and {len(self.twice)} are left"

    def switch_column(self) -> str:
        """A compaction, and the policy names the other column."""
        return f"{self.compact()}, {self.edit_column()}"

    def edit_ends(self) -> str:
        """The policy says that partitions end so much later, or no more, and a run compares one."""
        self.grace_ms = GRACE_MS - self.grace_ms
        return f"{self.grace_ms}, {self.compare_partition()}"

    def compare_partition(self) -> str:
        """A run compares the rows of a partition that has closed and has no log file, as far as the table is known."""
        self.compact_by_stock()
        self.rest()
        lost = [key[0] for key, _ in self._still_lost()]
        (state, history), policy, partition = self.read(), self.policy, (lost or ["a", "b"])[-self.choices.below(2)]
        read = {key for key in self.truth.groups if key[0] == partition}
        ends = {partition: BEGIN_MS + 21 * HOUR + (0 if partition == "a" else 10) * MINUTE + self.grace_ms}
        is_closed = ends[partition] + self.latency_ms <= self.now and not any(
            self.truth.groups[key].logs for key in read
        )
        if (
            not read
            or not is_closed
            or proven_partitions(policy, without_doubts_about_rows(state), history, self.now) is None
            or partition not in partitions_read_whole(state, pin_of(state))
        ):
            return ""
        claim = Claim(ends[partition] - 1, state.last_completed or "")
        missing = self._missing(read, 0, claim.threshold_ms, self._shown_ms(self.now))
        twice = frozenset(self.twice & read)
        whole = policy.model_copy(update={"verify": Verify()})
        part = replace(state, slices=tuple(one for one in state.slices if one.partition == partition))
        judged = Evidence(whole, part, history, claim, self.now, ends=ends)
        results = _results(Suite(), missing, twice, claim.threshold_ms)
        status = "fail" if missing or twice else "pass"
        verdict = Verification(level="data", status=status, threshold_ms=claim.threshold_ms, expectations=results)
        environment: Any = SimpleNamespace(apply_states=self.notes)
        if status == "fail":
            partitions._note_different(environment, policy, ends, state, judged, verdict)
        else:
            partitions._note_equal(environment, policy, ends, state)
        self._know(missing, twice)
        return f"{partition} up to {claim.threshold_ms}: {status}"

    def verify(self) -> str:
        """Rows of both views are compared up to what the table claims, as far as its writes had been seen then, or log files
        alone are read; as the policy says, or by hand.
        """
        return self._end(self._begin())

    def begin_verify(self) -> str:
        """Somebody else begins to verify the table as it is now."""
        self.verifying = self.verifying or self._begin()
        return f"up to {self.verifying.evidence.claim.threshold_ms}"

    def end_verify(self) -> str:
        """They have done it."""
        begun, self.verifying = self.verifying, None
        return self._end(begun) if begun is not None else ""

    def _begin(self) -> Verifying:
        """What a verification sees that begins now, perhaps by hand with `--at` or `--level`."""
        (state, history), policy, (level, ago_ms) = self.read(), self.policy, BY_HAND[self.choices.below(len(BY_HAND))]
        now_ms, level = self.now - ago_ms, level or policy.verify.level
        claim = claim_of(policy, state, now_ms)
        verify, window_ms = policy.verify, policy.verify.window_ms
        since_ms = look_back_to(policy, state, claim.threshold_ms - window_ms) if window_ms else None
        chosen = choose_file_groups(state, verify, now_ms) if level == "sample" else None
        is_part = chosen is not None or since_ms is not None or verify.where is not None
        evidence = Evidence(policy, state, history, claim, now_ms)
        if level == "data" and not is_part:
            evidence = replace(evidence, listing=Listing(self._listed(state), self.now))
        believed = self._believed(evidence)
        read = {
            (partition, file_id)
            for partition, file_id in self.truth.groups
            if (chosen is None or file_id in chosen)
            and WHERE[verify.where] in (None, partition)
            and partition not in believed
        }
        up_to_ms, reads_rows = claim.threshold_ms + self.suite.beyond_ms, Level[level].reads_rows
        seen_ms = int_of(claim.seen_until)
        shown_ms = self._shown_ms(seen_ms)
        missing = self._missing(read, since_ms or 0, up_to_ms, shown_ms)
        missing = missing if reads_rows and self.suite.compares else frozenset()
        twice = frozenset(self.twice & read if reads_rows and self.suite.counts else ())
        verdict = Verification(
            level=level,
            status="fail" if missing or twice else "pass",
            threshold_ms=claim.threshold_ms,
            expectations=_results(self.suite, missing, twice, up_to_ms) if reads_rows else (),
            coverage=Coverage(
                file_groups=len(self.truth.groups),
                file_groups_read=len(read),
                seed=seed_of(verify, now_ms) if chosen is not None else None,
                since_ms=since_ms,
                where=verify.where,
            )
            if reads_rows and is_part
            else None,
            read_by=RELEASE if reads_rows else None,
            rests_on=_rests_on(evidence, believed) if believed else None,
        )
        whole = level == "data" and not is_part and self.suite.compares and self.suite.beyond_ms >= 0
        whole = whole and shown_ms == seen_ms
        after = self.truth.promises[-1] if self.truth.promises else None
        column = self.column, self.truth.names[self.column]
        found = not (missing or twice), whole, frozenset(map(_sliced, state.slices))
        compared = Compared(claim.threshold_ms, *column, after, self.restored, *found)
        verifying.begin_proof(policy, state, self.notes)
        return Verifying(evidence, verdict, missing, twice, compared if verdict.expectations else None)

    def _believed(self, evidence: Evidence) -> Mapping[str, int]:
        """The partitions that are believed: no key is twice in a file that is another one since, where keys are counted."""
        believed = compared_since(evidence, RELEASE)
        unseen = {one for one in self.twice - self.rotten if one in self.truth.groups and one[0] in believed}
        assert not (unseen and self.suite.counts), f"{believed} are believed, and a key is twice in {unseen}"
        return believed

    def _listed(self, state: TableState) -> dict[str, str]:
        """What the files of partitions without log files are now."""
        closed = closed_partitions(state, pin_of(state))
        paths = {partition: (self.folder / partition).iterdir() for partition in closed}
        versions = {
            partition: {
                path.name: f"{one.st_size} {one.st_ino} {one.st_mtime_ns}" for path in found for one in [path.stat()]
            }
            for partition, found in paths.items()
        }
        return listed_files(state, versions)

    def _shown_ms(self, seen_ms: int) -> int:
        """Until which completion rows are read: beside a write in flight as of right before it."""
        return min((seen_ms, *(requested - 1 for requested, _, _ in self.open)))

    def _missing(
        self, read: AbstractSet[Group], since_ms: int, up_to_ms: int, seen_ms: int
    ) -> frozenset[tuple[Group, Row]]:
        """The rows of these file groups that RO lacks, though their writes had completed."""
        number = self.truth.names[self.column]
        files = [(key, one) for key, one in [*self.truth.lacking(), *self._still_lost()] if key in read]
        rows = ((key, row) for key, one in files if one.completed <= seen_ms for row in one.rows)
        return frozenset((key, row) for key, row in rows if since_ms < row.times[number] <= up_to_ms)

    def _end(self, begun: Verifying) -> str:
        """What it has found is noted, and known from then on; what others found since it began is as known as before."""
        evidence, verdict, missing, twice, compared = begun
        policy, state, claim = evidence.policy, evidence.state, evidence.claim
        files = files_compared(evidence, verdict)
        kept = verifying.note_verdict(policy, state, self.notes, verdict, verdict.level, claim, files)
        self._know(missing, twice)
        if policy == self.policy:
            self._sync(verifying._with_doubt(verdict, policy, replace(state, apply_state=kept)))
        if compared is not None:
            self.compared.append(compared)
        of_all = "" if compared is not None and compared.whole else "in part "
        part = verdict.coverage and verdict.coverage.model_dump(exclude_none=True)
        rests = verdict.rests_on and verdict.rests_on.model_dump()
        return f"{verdict.status} {of_all}up to {claim.threshold_ms}, {verdict.level}, {part}, {rests}"

    def _know(self, missing: AbstractSet[tuple[Group, Row]], twice: AbstractSet[Group]) -> None:
        """What was found is known as long as it is so: what was gone when somebody looked is news where it is put back."""
        self.was_doubted |= bool(missing or twice)
        self.known_lost = (self.known_lost | missing) & self._lacking_rows()
        self.known_twice = (self.known_twice | twice) & self.twice & self.truth.groups.keys()

    def _still_lost(self) -> list[tuple[Group, LogFile]]:
        """What was lost of file groups that are there."""
        return [(key, one) for key, one in self.lost if key in self.truth.groups]

    def _lacking_rows(self) -> set[tuple[Group, Row]]:
        return {(key, row) for key, one in [*self.truth.lacking(), *self._still_lost()] for row in one.rows}

    @property
    def policy(self) -> Policy:
        """The policy now."""
        learned = LearnedLatency(at_most_ms=LATENCY_MS) if self.is_learned else None
        return Policy(
            name="t",
            table=str(self.folder),
            event_time=EventTime(column=self.column, unit="ms"),
            data_latency_ms=self.latency_ms,
            learned_latency=learned,
            latency_evidence=LatencyEvidence(writes=30, since_ms=0, observed_ms=0) if learned else None,
            freshness=Freshness(proof=self.proof),
            verify=self.verify_as.model_copy(update={"full_every_ms": 6 * HOUR}),
            suite_digest=str(self.suite),
        )

    def read(self) -> tuple[TableState, TableHistory]:
        """The table as a command reads it, with what is noted beside it."""
        mark = self.event_time, self.latency_ms, self.is_learned, sorted(os.listdir(self.table.timeline))
        if self._read is None or self._read[0] != mark:
            self._read = mark, self._read_files()
        state, history = self._read[1]
        kept = self.notes.read(str(self.folder))
        state = with_earlier_times(state, of_event_time(kept.misrecorded, self.event_time, state))
        return replace(state, apply_state=kept), history

    def _read_files(self) -> tuple[TableState, TableHistory]:
        state, history = FileTableReader().read_with_history(str(self.folder), self.event_time)[:2]
        return fill_from_logs(state, self.policy, None) if self.reads_logs else state, history

    def ask(self) -> str:
        """`etc freshness`, also at a time that is not now."""
        state, history = self.read()
        now_ms = self.now + (0, 0, 5 * HOUR, -MINUTE)[self.choices.below(4)]
        found = observing.freshness_of(self.policy, state, now_ms, history, clock_at_ms=max(now_ms, self.now))
        self.asked += 1
        self.known += found.complete_until_ms is not None
        self.judge(found, now_ms)
        self._judge_properties(state, found, None)
        self._judge_partitions(state, history)
        assert set(state.exposed) == self.truth.exposed(), f"exposed: {state.exposed}, not {self.truth.exposed()}"
        return f"complete until {found.complete_until_ms}, {found.reason}"

    def judge(self, found: TableFreshness, now_ms: int) -> None:
        """Nothing is said that is not so; and what is known is said."""
        self._judge_threshold(found)
        number, until_ms = self.truth.names[self.column], found.complete_until_ms
        of_this = [one for one in self.compared if (one.name, one.number) == (self.column, number)]
        if of_this and not of_this[-1].agreed:
            assert until_ms is None, f"complete until {until_ms}, and rows were found missing"
        if until_ms is not None:
            lost = self.known_lost & self._lacking_rows()
            assert not lost, f"complete until {until_ms}, and {lost} were found missing"
            assert not self.known_twice & self.twice & self.truth.groups.keys(), (
                f"complete until {until_ms}, and a key is there twice"
            )
        first_ms = self.truth.first_lacking_ms(self.column)
        if until_ms is not None:
            assert first_ms is None or until_ms < first_ms, (
                f"complete until {until_ms}, and RO lacks a row of {first_ms}"
            )
            assert until_ms <= now_ms - self.latency_ms, f"complete until {until_ms}, and data may come until {now_ms}"
            said = [until_ms] if self.proof else []
            said += [one.until_ms for one in found.proofs if one.level == "data"]
            places = (place for place, one in enumerate(self.compared) if one in of_this and self._proves(place))
            proven = max((self.compared[place].until_ms for place in places), default=-sys.maxsize)
            assert not said or max(said) <= proven, f"complete until {until_ms}, proved until {proven}, said {said}"
        elif now_ms >= self.now and not (
            (self.proof and not self._was_just_compared) or self._may_be_anything(number) or self.was_doubted
        ):
            raise AssertionError(f"nothing is known, as {found.reason}")
        if until_ms is not None and not self.proof and self._is_all_known():
            known_ms = now_ms - self.latency_ms if first_ms is None else min(first_ms - 1, now_ms - self.latency_ms)
            assert until_ms == known_ms, f"complete until {until_ms}, and {known_ms} is known"

    def _judge_partitions(self, state: TableState, history: TableHistory) -> None:
        """One that is done lacks no row, and where its rows prove that it was compared as it is, with all of them."""
        policy = self.policy.model_copy(update={"partition_idle_ms": IDLE_MS})
        found = observing.freshness_of(policy, state, self.now, history, clock_at_ms=self.now)
        partitions = with_partitions(found, policy, state, self.now, ()).partitions
        column = self.column, self.truth.names[self.column]
        for one in partitions.done.values() if partitions is not None else ():
            lacks = [file for (partition, _), file in self.truth.lacking() if partition == one.partition]
            assert not lacks, f"{one.partition} is done, and RO lacks {lacks}"
            lost = [key for key, _ in self._still_lost() if key[0] == one.partition]
            slices = {_sliced(file_slice) for file_slice in state.slices if file_slice.partition == one.partition}
            proofs = (other for other in self.compared if (other.name, other.number) == column and other.agreed)
            assert one.proof != "data" or (
                not lost and any(slices <= other.slices for other in proofs if other.whole)
            ), f"{one.partition} is done by its rows, of which {lost} are missing"

    def _sync(self, found: Verification) -> None:
        """A run in which nothing was due records in the catalog what it has found."""
        state, history = self.read()
        status, is_part = verdict_on_rows(found), found.coverage is not None
        verdict = Verdict(status, found.level, found.threshold_ms, None, iso_time(self.now), is_part)
        fresh = observing.freshness_of(self.policy, state, self.now, history, clock_at_ms=self.now)
        self._judge_properties(state, fresh, verdict)

    def _judge_properties(self, state: TableState, found: TableFreshness, verdict: Verdict | None) -> None:
        """What a sync says in the catalog: nothing is verified of which it is known that it is not so."""
        policy, before = self.policy, self.properties
        self.properties = ro_properties(policy, state, found, verdict, before, verdict_beside(policy, state))
        status, lost = self.properties[STATUS], self.known_lost & self._lacking_rows()
        is_wrong = lost or self.known_twice & self.twice & self.truth.groups.keys()
        assert "verified" not in status.split("_") or not is_wrong, f"{status}, and {lost} were found missing"
        assert COMPLETE_UNTIL not in self.properties or found.complete_until_ms is not None

    @property
    def _was_just_compared(self) -> bool:
        """Whether a comparison that agreed is the last that was done, so that nothing is unproven."""
        return bool(self.story) and " verify: pass up to " in self.story[-1]

    def _may_be_anything(self, number: int) -> bool:
        """Whether rows that were split off by another column were not read: those may be of any time by this one."""
        altered = self.truth.altered is not None
        splits = (one.split_by for _, one in self.truth.lacking() if one.split_by is not None)
        return any(by != number or altered for by in splits)

    def _judge_threshold(self, found: TableFreshness) -> None:
        promises = self.truth.promises
        last = max(promises, key=lambda one: (one.completed, one.instant)) if promises else None
        number = self.truth.names[self.column]
        is_own = last is not None and (last.name, last.column) == (self.column, number)
        expected = last.threshold_ms if last is not None and is_own else None
        if found.complete_until_ms is not None:
            assert found.threshold_ms == expected, f"T is {found.threshold_ms}, not {expected}"

    def _proves(self, place: int) -> bool:
        """Whether the comparison there agreed, and is of the last compaction and restore, and none has found otherwise since."""
        after = self.truth.promises[-1] if self.truth.promises else None
        one, since = self.compared[place], self.compared[place:]
        is_of_now = one.whole and (one.after, one.restored) == (after, self.restored)
        return is_of_now and all(later.agreed for later in since if later.after == one.after)

    def _is_all_known(self) -> bool:
        """Whether every log file that RO lacks was read, with times of the column, and deletes no row."""
        files = [one for _, one in self.truth.lacking()]
        altered = self.truth.altered[1] if self.truth.altered else 0
        plain = all(not one.deletes and one.requested > altered for one in files)
        return self.reads_logs and not self.has_wrong_values and plain and altered == 0


def _results(
    suite: Suite, missing: AbstractSet[Any], twice: AbstractSet[Any], up_to_ms: int
) -> tuple[ExpectationResult, ...]:
    """What the checks of a suite say."""
    lacks, counts = "fail" if missing else "pass", "fail" if twice else "pass"
    agree = ExpectationResult(expectation=VIEWS_AGREE, status=lacks, observed={"threshold_ms": up_to_ms})
    once = ExpectationResult(expectation=NO_KEY_TWICE, status=counts)
    return (*([agree] if suite.compares else []), *([once] if suite.counts else []))


def _rests_on(evidence: Evidence, believed: Mapping[str, int]) -> RestsOn:
    slices, oldest_ms = evidence.state.slices, min(believed.values())
    compared = sum(one.partition not in believed for one in slices)
    return RestsOn(file_groups=len(slices), file_groups_compared=compared, oldest_ms=oldest_ms, oldest_ago_ms=0)


def _sliced(one: FileSlice) -> Sliced:
    return one.partition, one.file_id, one.base_instant, tuple(file.name for file in one.log_files)


def int_of(instant: str) -> int:
    """The time of an instant; that of none is before all."""
    from tests.property.model import instant_time

    return instant_time(instant) if instant else 0


def check(data: bytes, folder: Path, about: int | None = None) -> Judged:
    """Lives through it.

    Raises:
        AssertionError: etc says what is not so; the story follows.

    """
    life = Judged(data, folder, about)
    try:
        while not life.choices.used_up:
            life.step()
        life.ask()
    except AssertionError as broken:
        raise AssertionError("\n".join((str(broken), *life.story))) from broken
    return life


def broken_judgement(count: int, seed: int, about: int | None = None) -> tuple[int, str] | None:
    """After how many lifetimes, of all kinds or about one thing, something is said that is not so, and what.

    Every other error is raised.
    """
    source, asked, known = random.Random(seed), 0, 0
    for number in range(count):
        data = source.randbytes(source.randrange(40, 240))
        with TemporaryDirectory() as folder:
            try:
                life = check(data, Path(folder) / "t", about)
            except AssertionError as broken:
                (*_, raised_in) = (frame.f_code.co_filename for frame, _ in walk_tb(broken.__traceback__))
                if Path(raised_in).name != Path(__file__).name:
                    raise
                return number + 1, f"{broken}\n\nagain: python -m tests.property.judged --bytes {data.hex()}"
        asked, known = asked + life.asked, known + life.known
    assert about is not None or count < 100 or known > asked // 3, f"of {asked} answers only {known} know something"
    return None


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; 0 where nothing was said that is not so."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bytes", help="one lifetime, in hex, as a failure printed it")
    options = parser.parse_args(arguments)
    if options.bytes is not None:
        with TemporaryDirectory() as folder:
            print("\n".join(check(bytes.fromhex(options.bytes), Path(folder) / "t").story))
        return 0
    started = time.monotonic()
    broken = broken_judgement(options.count, options.seed)
    print(
        broken
        or f"{options.count:,} lifetimes of seed {options.seed} in {time.monotonic() - started:.0f} s: nothing untrue"
    )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
