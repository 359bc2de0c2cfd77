"""What is right and what is wrong with one table and its writers, from metadata alone: one small check each."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal
from zoneinfo import ZoneInfo

from etc_policy.errors.codes import Code
from etc_policy.plan.between_writes import can_hold, ends_refusals
from etc_policy.plan.bundles import right_releases
from etc_policy.plan.carry import is_carried_name
from etc_policy.plan.plan_warnings import after_end_warning, column_warnings
from etc_policy.plan.refusals import no_commit
from etc_policy.plan.rules import MEND_WRONG_TIME, MEND_ZONE, may_pass, why_refused, why_unknown
from etc_policy.policy.hudi_options import (
    COMMITS_BEFORE_COMPACTION,
    EXPIRY,
    PROVIDER,
    expiry_minutes,
    is_file_lock,
    is_in_process,
)
from etc_policy.policy.manifest import Frozen, Policy
from etc_policy.policy.writers import TRACKED_SINCE
from etc_policy.table.double_keys import Merged, Written, find_exposed, sees_log_files, written_by
from etc_policy.table.formats import count_of, format_bytes, format_duration, format_time, part_of
from etc_policy.table.history import THRESHOLD, Commit, TableHistory
from etc_policy.table.impossible_times import ColumnDoubt, LateCommits, doubt_text
from etc_policy.table.proofs import counted_until, doubt_about, proofs_of, without_proof
from etc_policy.table.state import WHOLE_SLICE_VERSIONS, LogFile, TableState, WriterOption
from etc_policy.table.unknown_times import by_digits, null_rows_in
from etc_policy.table.watermark import completeness_of
from etc_policy.table.writing import Writing, writing_of
from etc_policy.verify.freshness import completeness_lag_ms, error_limit_ms, judge_lag
from etc_policy.verify.latency import LatencyVerdict, judge_table

FindingStatus = Literal["ok", "warn", "error", "skipped"]

#: Parts of the metadata table that a client with default settings removes (facts: client-mirrors-table).
_DROPPED_BY_DEFAULTS = ("record_index", "bloom_filters")
#: File groups of the bucket index begin with the bucket's number in eight digits; other names are random, and few begin so.
_BUCKET = re.compile(r"000\d{5}-")
_RECENT = 10
#: How the properties begin by which Hudi's sync records in a catalog what it has synced.
LAST_SYNC = "last_commit_"
#: Operations that write a key again where it is there already, and keep copies within one batch.
_LOOK_NO_KEY_UP = ("INSERT", "BULK_INSERT")
_NAMED_FILES = 5
#: So many writes show how writers write; and how long a run is taken to be where none has compacted the table yet, which is
#: never quicker than the last.
_ENOUGH_WRITES, _ASSUMED_RUN_MS, _QUICKEST_RUN_MS = 3, 60_000, 15_000


class Finding(Frozen):
    """One thing looked at: what it is about (`python`, `java`, ... or a policy's name), what was found, what to do."""

    subject: str
    check: str
    status: FindingStatus
    message: str
    hint: str | None = None


def finding(subject: str, check: str, status: FindingStatus, message: str, hint: str | None = None) -> Finding:
    """A finding, of plain values in this order."""
    return Finding(subject=subject, check=check, status=status, message=message, hint=hint)


@dataclass(frozen=True, slots=True)
class HeldLock:
    """A lock file that somebody holds now; `is_left` says that it is etc's own and its process has ended."""

    path: str
    holder: str
    age_seconds: float
    is_left: bool


@dataclass(frozen=True)
class TableFacts:
    """All that the checks look at; `properties` are those of `hoodie.properties`, `clock_ms` is the wall clock.

    `writer_form` is what the table shows of its writers' options. `index_faults` are sentences, or why nobody could look; None
    where nobody did.
    `consistent_buckets` says that writers keep buckets by consistent hashing, which file groups do not show. `last_sync` are
    the properties by which Hudi's sync records in the catalog how far it came, or why the catalog does not say.
    """

    policy: Policy
    state: TableState
    history: TableHistory
    properties: Mapping[str, str]
    clock_ms: int
    lock: HeldLock | None = None
    writer_form: tuple[WriterOption, ...] = ()
    consistent_buckets: bool = False
    index_faults: tuple[str, ...] | str | None = None
    last_sync: Mapping[str, str] | str | None = None

    @property
    def has_buckets(self) -> bool:
        """Whether its file groups are buckets: they begin with numbers, or writers keep them otherwise; not known without any."""
        slices = self.state.slices
        return bool(slices) and (self.consistent_buckets or all(_BUCKET.match(one.file_id) for one in slices))

    @property
    def untracked(self) -> str | None:
        """Why Hudi cannot record the policy's event times here; None where it can."""
        return self.state.shape.untracked(self.policy.event_time)

    @cached_property
    def judged(self) -> tuple[LatencyVerdict, ColumnDoubt | None]:
        """What `judge_table` says of it now."""
        return judge_table(self.policy, self.state, self.history, self.clock_ms)

    @property
    def foreign_compactions(self) -> tuple[Commit, ...]:
        """Completed compactions that are not by etc."""
        return tuple(c for c in self.history.commits if c.is_compaction and THRESHOLD not in c.extra)

    @property
    def others_compact(self) -> bool:
        """Whether anybody but us compacts the table: has done it, is about to, or is said to."""
        pending = any(i.action == "compaction" and i.requested != self.state.own_pending for i in self.state.pending)
        return bool(self.foreign_compactions) or pending or self.policy.writer.compaction != "none"


Found = tuple[FindingStatus, str, str | None]
TableCheck = Callable[[TableFacts], Found]


def can_be_planned(facts: TableFacts) -> Found:
    """Whether a compaction can be planned now; an error where no retry helps, as in `etc plan`."""
    refusal = why_refused(facts.policy, facts.state, facts.clock_ms)
    version = f"table version {facts.state.table_version}"
    if refusal is not None:
        status: FindingStatus = "warn" if may_pass(refusal.code) else "error"
        return status, f"{version}: {refusal.reason}", refusal.hint
    return "ok", f"{version}: can be planned now", None


def table_version(facts: TableFacts) -> Found:
    """Whether writers may upgrade the table to a version that etc does not read: no table shows that they may not."""
    message = f"version {facts.state.table_version}; whether a writer may upgrade it does not show in the table"
    if facts.state.table_version in WHOLE_SLICE_VERSIONS:
        upgrade = "writers of Hudi 1.x upgrade it with their next write, to a version of their own"
    else:
        upgrade = "from Hudi 1.3 on writers upgrade it to 10, which etc does not read"
    return "skipped", message, f"{upgrade}: give all of them the options of `etc compile`"


def completion_times(facts: TableFacts) -> Found:
    """Whether every completion time can be true, those of the metadata table too."""
    found = facts.state.wrong_times
    wrong = [one for one in found if not one.is_harmless]
    if not wrong and found:
        return "ok", f"{found[0].what}; {found[0].truth}; readers see all that it wrote", None
    if not wrong:
        return "ok", "every completion time comes after its request and agrees with its file", None
    others = f"; so are {count_of(len(wrong) - 1, 'other')}" if len(wrong) > 1 else ""
    message = f"{wrong[0].what}; {wrong[0].truth}{others}"
    return "error", message, MEND_WRONG_TIME


def time_zone(facts: TableFacts) -> Found:
    """In which zone the table's instants are read, and how sure that is."""
    reading = facts.state.zone
    if reading is None or reading.certainty == "declared":
        return "ok", f"instants are in {facts.state.timezone}, as the table declares", None
    taken = f"instants are in the writers' local time, taken to be {reading.timezone}"
    if reading.certainty == "confirmed":
        return "ok", f"{taken}: {reading.evidence}", None
    if reading.certainty == "unsure":
        return "ok", f"{taken} (`TZ`, or this machine's zone); not sure: {reading.evidence}", None
    return "error", f"{taken}, but {reading.evidence}", MEND_ZONE


def log_file_sizes(facts: TableFacts) -> Found:
    """Whether writers keep to `log_file_max_size`."""
    limit = facts.policy.log_file_max_bytes
    files = [log_file for _, log_file in facts.state.log_files if not is_carried_name(log_file.name)]
    if limit is None:
        return "skipped", "the policy sets no `log_file_max_size`", None
    large: list[LogFile] = [log_file for log_file in files if log_file.size_bytes > limit]
    if not large:
        return "ok", f"{count_of(len(files), 'log file')}, none larger than `log_file_max_size`", None
    largest = format_bytes(max(log_file.size_bytes for log_file in large))
    verb, up_to = ("is", "with") if len(large) == 1 else ("are", "up to")
    count = part_of(len(large), len(files), "log file")
    message = f"{count} {verb} larger than {format_bytes(limit)}, {up_to} {largest}"
    hint = "give the writers `hoodie.logfile.max.size` (`etc compile`); a file may pass it by its last block"
    return "warn", message, hint


def event_times(facts: TableFacts) -> Found:
    """Whether delta commits record event times, so that nothing has to be read from log files."""
    writes = facts.history.writes
    commits = list(dict.fromkeys(one.requested for one in writes))
    bare = {one.requested for one in writes if one.certain_min_ms is None}
    _, doubt = facts.judged
    other = None if isinstance(doubt, LateCommits) else doubt
    said = next(column_warnings(facts.policy, facts.state, other), None)
    if said is not None:
        return "warn", *said
    without = [log_file for _, log_file in facts.state.log_files if log_file.null_rows]
    if without:
        message = f"{null_rows_in(facts.policy.event_time, without)}: these log files are compacted whatever they hold"
        return "warn", message, f"let the writer fill `{facts.policy.event_time.column}`"
    if not bare:
        return "ok", f"{count_of(len(commits), 'commit')} to log files, all with event times", None
    recent = sum(c in bare for c in commits[-_RECENT:])
    last = f", {recent} of the last {_RECENT}" if len(bare) < len(commits) > _RECENT else ""
    verb = "records" if len(bare) == 1 else "record"
    message = f"{part_of(len(bare), len(commits), 'commit')} to log files {verb} none{last}"
    reason = facts.untracked
    if reason is not None:
        return "ok", f"{message}: {reason}; they are read from the log files", None
    since = (
        f" (from Hudi {TRACKED_SINCE} on; log files of earlier writers are read)"
        if facts.state.shape.may_be_older
        else ""
    )
    hint = f"give the writers the options of `etc compile`{since}; commits with deletes never record a certain one"
    hint += by_digits(facts.policy.event_time, facts.state) if facts.state.lacks_event_times else ""
    return ("warn" if recent else "ok"), message, hint if recent else None


def data_latency(facts: TableFacts) -> Found:
    """Whether events come as late as the policy says, and whether the column moves with updates."""
    policy, (verdict, doubt) = facts.policy, facts.judged
    if isinstance(doubt, LateCommits):
        return "warn", *doubt_text(doubt, policy.event_time, policy.data_latency_ms, facts.state.ordering_fields)
    seen, declared = verdict.observed, format_duration(policy.data_latency_ms)
    if verdict.judged is None or seen is None:
        return "skipped", f"too little is known: {verdict.reason}{f'; {seen}' if seen else ''}", None
    enough = format_duration(verdict.suggested_ms or 0)
    if verdict.status == "too_short":
        hint = f"set `data_latency: {enough}`, which covers {verdict.covers} them"
        return "warn", f"{declared} is too short: {seen}", hint
    return "ok", f"{declared} {'is generous' if verdict.status == 'generous' else 'fits'}: {seen}", None


def foreign_compactions(facts: TableFacts) -> Found:
    """Whether anybody else compacts, and whether the policy says so."""
    foreign, declared = facts.foreign_compactions, facts.policy.writer.compaction
    if foreign:
        message = f"{count_of(len(foreign), 'compaction')} not by etc, the last at {foreign[-1].requested}"
        if declared != "none":
            return "ok", f"{message}, as the policy says (`{declared}`)", None
        hint = "turn compaction off where the table is written (`etc compile`), or declare `writer.compaction`"
        return "warn", message, hint
    if declared != "none":
        message = f"the policy says `{declared}`, but the history has compactions by etc alone"
        return "warn", message, "set `writer.compaction: none` if the writers no longer compact"
    commits = facts.history.commits
    writes = sum(one.action == "deltacommit" for one in commits)
    if 0 < writes <= COMMITS_BEFORE_COMPACTION and not any(one.is_compaction for one in commits):
        message = (
            "none yet: Spark's writers compact after five delta commits unless told otherwise, which no table shows"
        )
        return "skipped", message, "give the writers the options of `etc compile` before their sixth commit"
    return "ok", "no compaction but by etc in the history", None


def declared_index(facts: TableFacts) -> Found:
    """Whether the table looks as it would under the index that the policy declares."""
    index, partitions = facts.policy.writer.index, facts.state.metadata_partitions
    buckets = facts.has_buckets
    if index == "bucket" and facts.state.slices and not buckets:
        return "error", "declared `bucket`, but its file groups carry no bucket numbers", "correct `writer.index`"
    if index not in (None, "unknown", "bucket") and buckets:
        return "error", f"declared `{index}`, but its file groups are buckets", "set `writer.index: bucket`"
    if index in ("record_index", "global_record_index") and "record_index" not in partitions:
        message = f"declared `{index}`, but the metadata table has no record index: writers fall back to another one"
        return "error", message, "build it again by a writer with `hoodie.metadata.record.index.enable=true`"
    if index in (None, "unknown"):
        shown = "buckets" if buckets else ("a record index" if "record_index" in partitions else "no trace of one")
        return "ok", f"not declared; the table shows {shown}, and planning trusts none", None
    return "ok", f"`{index}`: nothing in the table contradicts it", None


def declared_lock(facts: TableFacts) -> Found:
    """Whether the lock that the policy declares fits what the timeline shows of concurrent writers."""
    lock = facts.policy.writer.lock
    provider = lock.get(PROVIDER, "").rsplit(".", 1)[-1]
    writes = sorted((c for c in facts.history.commits if c.action == "deltacommit"), key=lambda c: c.requested)
    overlap = next(((a, b) for a, b in pairwise(writes) if b.requested < a.completed), None)
    if is_in_process(lock):
        hint = "declare a lock that other processes see (ZooKeeper, DynamoDB, Hive metastore, file system)"
        return "warn", "the declared lock works inside one JVM only: `etc apply` runs in another", hint
    if (held := _held(facts)) is not None:
        return held
    if not lock and overlap is not None:
        both = " and ".join(one.requested for one in overlap)
        message = f"writers work beside each other (commits {both} overlap), no lock is declared"
        return "warn", message, "declare the writers' lock under `writer.lock`, so that `etc apply` takes the same"
    if not lock:
        return "ok", "none declared, and no two writers overlap in the history", None
    if is_file_lock(lock) and not expiry_minutes(lock):
        hint = f"give the writers, and `writer.lock`, `{EXPIRY}: 5` (minutes, longer than any commit takes)"
        message = f"declared ({provider}), without expiry: a writer that dies while it holds it stops all others"
        return "warn", message, hint
    if not provider and not any(key.startswith("hoodie.write.lock.zookeeper.") for key in lock):
        return "warn", "the declared lock names no provider: Hudi takes ZooKeeper's", f"add `{PROVIDER}`"
    shown = provider or "no provider named: Hudi takes ZooKeeper's"
    return "ok", f"declared ({shown})", None


def _held(facts: TableFacts) -> Found | None:
    """What there is to say of a lock that is held now; one of a moment ago is a writer's at work."""
    lock = facts.lock
    if lock is None or (not lock.is_left and lock.age_seconds < facts.policy.writer.lock_wait_ms / 1000):
        return None
    if lock.is_left:
        hint = "`etc apply` removes it, though nothing is due"
        return "warn", f"a killed run of etc has left the lock `{lock.path}`", hint
    hint = f"check whether its holder is alive; if it is not, `rm {shlex.quote(lock.path)}`"
    return "warn", f"the lock `{lock.path}` is held by {lock.holder}", hint


def pauses(facts: TableFacts) -> Found:
    """Whether the writers of the last day left runs that compact deletes the time that they need."""
    state = facts.state
    if not state.is_cut:
        return "skipped", f"table version {state.table_version} does not record when writes ended", None
    in_flight = (one.requested for one in state.writes_in_flight if one.may_live)
    seen = writing_of(facts.history.commits, in_flight, ZoneInfo(state.timezone), facts.clock_ms)
    if seen.writes < _ENOUGH_WRITES:
        return "skipped", f"{count_of(seen.writes, 'write')} in the last day: too few to judge", None
    share = f"{seen.duty:.0%}"
    share = "less than 1%" if seen.duty and share == "0%" else share
    message = (
        f"a write was in flight {share} of the last {format_duration(seen.seen_ms)}, the longest pause was "
        f"{format_duration(seen.longest_pause_ms)}, the longest write took {format_duration(seen.longest_write_ms)}"
    )
    if not any(log_file.has_deletes for _, log_file in state.log_files):
        return "ok", f"{message}; no log file holds deletes now, which such writers would hold back", None
    return _enough_pauses(facts, seen, message)


def _enough_pauses(facts: TableFacts, seen: Writing, message: str) -> Found:
    """Whether a run that compacts deletes finds its time, and as often as RO may not be later."""
    state, policy = facts.state, facts.policy
    is_assumed, run_ms = state.apply_state.run_ms is None, state.apply_state.run_ms or _ASSUMED_RUN_MS
    message += f", and a run {'is assumed to take' if is_assumed else 'takes'} {format_duration(run_ms)}"
    is_enough, without_ms = seen.longest_pause_ms > run_ms, seen.longest_without_ms(run_ms)
    limit_ms = error_limit_ms(policy.freshness)
    if is_enough and (limit_ms is None or without_ms <= limit_ms):
        return "ok", message, None
    place = policy, state.table_version, state.base_path
    if can_hold(*place) and seen.longest_write_ms < policy.writer.lock_wait_ms:
        return "ok", f"{message}: a run holds the writers' lock between two writes", None
    if is_assumed and not is_enough and seen.longest_pause_ms > _QUICKEST_RUN_MS:
        return "skipped", f"{message}: whether a pause is enough shows once one has run", None
    hint = "; ".join(filter(None, ("run `etc apply` in the writer's job, between two batches", ends_refusals(*place))))
    why = "one that compacts deletes would be refused or overtaken"
    if is_enough:
        why = f"for {format_duration(without_ms)} no pause was long enough, and RO would be later than the policy says"
    return "warn", f"{message}: {why}", hint


def duplicate_keys(facts: TableFacts) -> Found:
    """Whether a compaction has made, or can make, two rows of one key here, and whether writers may have kept some.

    See facts: delete-rule.
    """
    index = facts.policy.writer.index
    if facts.policy.writer.keys_repeated:
        return "skipped", "keys are repeated on purpose, as the policy says (`writer.keys`)", None
    if sees_log_files(index, facts.state.metadata_partitions):
        return _none_found(facts, f"the index (`{index}`) finds keys in log files too")
    if not facts.state.is_cut:
        message = "before table version 8 nobody knows what was written before a compaction had completed"
        return "skipped", message, "`etc verify --level data` finds keys that are there more than once"
    commits = facts.history.commits
    merged = ((one, frozenset(group.file_id for group in one.groups)) for one in commits if one.is_compaction)
    compactions = (Merged(one.requested, one.completed, file_ids) for one, file_ids in merged)
    written = (Written(one.requested, one.completed) for one in commits if one.action == "deltacommit")
    exposed = find_exposed(compactions, facts.history.writes, (*written, *written_by(facts.state.instants)))
    if exposed:
        first = exposed[0]
        message = (
            f"may be there: {count_of(len(exposed), 'file group')} took a write beside a compaction that merged deletes, the "
            f"first {first.file_group} at {first.compaction}"
        )
        hint = "`etc verify --level data` finds them; `etc explain deletes` says how to remove them"
        return "warn", message, hint
    if not facts.others_compact:
        return _none_found(
            facts, "only etc compacts, and none of its compactions left a write behind deletes that it merged"
        )
    if not any(log_file.has_deletes for _, log_file in facts.state.log_files):
        return _none_found(facts, "no deletes in its log files now, which it would take")
    message = "at risk: others compact, log files hold deletes, and the index may look keys up in base files only"
    hint = "an upsert of a deleted key beside a pending compaction makes a second row of it: leave compaction to etc"
    return "warn", message, hint


def _none_found(facts: TableFacts, why: str) -> Found:
    """No compaction makes double keys; copies that inserts keep are in the rows alone."""
    inserts = sum(one.operation in _LOOK_NO_KEY_UP for one in facts.history.commits)
    if not inserts:
        return "ok", f"by compactions: {why}", None
    message = (
        f"by compactions: {why}; {count_of(inserts, 'write')} by insert looked no key up, and rows are not read here"
    )
    return "skipped", message, "`etc verify --level data` finds keys that are there more than once"


def dropped_indexes(facts: TableFacts) -> Found:
    """Whether a stock client with default settings would destroy indexes of this table (facts: client-mirrors-table)."""
    precious = [p for p in facts.state.metadata_partitions if p in _DROPPED_BY_DEFAULTS]
    if not precious:
        return "ok", "it has no index that a client with default settings removes", None
    named = " and ".join(precious)
    if not facts.others_compact:
        return "ok", f"it has {named}; etc keeps them, and nobody else compacts", None
    hint = (
        "run other jobs on this table with `hoodie.metadata.auto.delete.partitions=false`, or leave compaction to etc"
    )
    return "warn", f"at risk: others compact, and default settings remove its {named}", hint


def written_as(facts: TableFacts) -> Found:
    """Which of the writers' options a compaction takes over, and from where; what the policy says wins."""
    declared = facts.policy.hudi_options
    taken = [
        f"{one.option}={declared[one.option]} (the policy)"
        if one.option in declared
        else f"{one.option}={one.value} ({one.source})"
        for one in facts.writer_form
    ]
    if not taken:
        return "ok", "a compaction writes with Hudi's defaults: the table shows nothing else", None
    return "ok", f"a compaction writes with {', '.join(taken)}", None


def merges_as(facts: TableFacts) -> Found:
    """How the table's rows are merged, in the words of docs/reference/bundles.md, and which releases do it rightly."""
    right = right_releases(facts.state.merging)
    by = f"right by Hudi {', '.join(right)}" if right else "no release is known to be right"
    return "ok", f"{facts.state.merging}: {by}", None if right else f"`etc explain {Code.UNFIT_BUNDLE}` says what to do"


def index_records(facts: TableFacts) -> Found:
    """Whether the metadata table's statistics fit the base files."""
    if set(facts.state.metadata_partitions) <= {"files"}:
        return "ok", "the metadata table has no indexes", None
    faults = facts.index_faults
    if faults is None:
        hint = "`etc debug --spark` or `etc verify --level data` do"
        return "skipped", "the metadata table's indexes were not looked at", hint
    if isinstance(faults, str):
        return "warn", f"the metadata table's indexes could not be looked at: {faults}", None
    if not faults:
        return "ok", "statistics of the newest base files fit what these hold", None
    message = f"{count_of(len(faults), 'base file')} with wrong statistics, for example {faults[0]}"
    hint = "readers with data skipping miss rows: `etc explain wrong-indexes` says how to mend the table"
    return "error", message, hint


def unseen_rows(facts: TableFacts) -> Found:
    """Whether writes have added to file groups that a clustering, a deletion or an overwrite took away without them."""
    files = facts.state.unseen_files
    if not files:
        return "ok", "no write of the active timeline added to a file group that was replaced without it", None
    named = ", ".join(files[:_NAMED_FILES]) + (", ..." if len(files) > _NAMED_FILES else "")
    message = f"{count_of(len(files), 'file')} with rows that no reader sees: {named}"
    hint = (
        "stop the writers of these partitions: what they write next may not be seen either (apache/hudi 19793, or a clustering "
        "by another index or strategy than theirs). Copy the files aside before a clean removes them"
    )
    return "error", message, hint


def compaction_backlog(facts: TableFacts) -> Found:
    """How much of the table waits for a compaction: the first of two reasons for rows that are missing in RO."""
    if (unknown := _why_unknown(facts)) is not None:
        return unknown
    policy, freshness = facts.policy, facts.policy.freshness
    files = [log_file for _, log_file in facts.state.log_files]
    until_ms, _ = completeness_of(facts.state, policy, facts.clock_ms)
    until_ms = counted_until(policy, until_ms, proofs_of(policy, facts.state)) or until_ms
    if freshness.proof is None and not files:
        return "ok", "no log file is left to compact: RO holds all that is committed", None
    late = judge_lag(completeness_lag_ms(facts.clock_ms, until_ms), freshness) in ("warn", "error")
    size = format_bytes(sum(one.size_bytes for one in files))
    lacks = f" lacks {count_of(len(files), 'log file')} ({size}) and" if files else ""
    message = f"RO{lacks} is complete until {format_time(until_ms)}"
    return ("warn", message, f"`etc apply --select {policy.name}`") if late else ("ok", message, None)


def _why_unknown(facts: TableFacts) -> Found | None:
    """Why nobody knows how far RO is complete, as `etc freshness` says it; None where that is known."""
    policy, state, not_known = facts.policy, facts.state, "how far RO is complete is not known"
    if (doubt := doubt_about(policy, state)) is not None:
        return "warn", f"{not_known}: {doubt}", f"`etc verify --select {policy.name}` verifies it again"
    if (empty := no_commit(state)) is not None:
        return "skipped", f"{not_known}: {empty.reason}", None
    if (refusal := why_unknown(policy, state, facts.clock_ms)) is not None:
        return "warn", f"{not_known}: {refusal.reason}", refusal.hint
    is_proven = counted_until(policy, facts.clock_ms, proofs_of(policy, state)) is not None
    return None if is_proven else ("warn", f"{not_known}: {without_proof(policy)}", None)


def partition_ends(facts: TableFacts) -> Found:
    """Whether the events of closed partitions come before the end that the policy gives them."""
    timed = facts.policy.partition_time
    if timed is None:
        return "skipped", "the policy does not say what time partitions are about (`partition_time`)", None
    late = next(after_end_warning(facts.policy, facts.state, facts.clock_ms), None)
    if late is not None:
        return "warn", f"by `partition_time.from: {timed.pattern}` {late}", "say which rows count, by one of these keys"
    return (
        "ok",
        "no log file of a closed partition is known to hold events after its end, or the policy says what counts",
        None,
    )


def catalog_sync(facts: TableFacts) -> Found:
    """Whether the catalog has every commit: the second reason. Queries by the catalog miss new partitions until it has."""
    table, synced = facts.policy.sync.ro_table, facts.last_sync
    if table is None:
        return "skipped", "the policy names no table of a catalog (`sync.ro_table`)", None
    if synced is None:
        return "skipped", "Spark was not started", "`etc debug --spark` asks the catalog"
    if isinstance(synced, str):
        return "warn", synced, None
    by_completion, by_request = synced.get(f"{LAST_SYNC}completion_time_sync"), synced.get(f"{LAST_SYNC}time_sync")
    if not by_request:
        message = f"Hudi's sync has never recorded a commit in `{table}`"
        return "warn", message, "see `hoodie.datasource.hive_sync.enable`"
    missing = [
        one.requested
        for one in facts.state.instants
        if one.state == "completed" and one.action in ("deltacommit", "replacecommit")  # compactions add no partition
        if ((one.completed or one.requested) > by_completion if by_completion else one.requested > by_request)
    ]
    if not missing:
        return "ok", f"`{table}` has every commit of the table", None
    message = f"{count_of(len(missing), 'commit')} since {missing[0]} not synced to `{table}`"
    return "warn", f"{message}: queries by it miss new partitions", "run Hudi's sync; no compaction helps"


#: Of findings that are as grave the first here is shown first: whether anything can be done, what puts rows at risk, what
#: holds RO back or hides rows from queries, what it costs, and what is so.
CHECKS: Mapping[str, TableCheck] = {
    "plan": can_be_planned,
    "completed at": completion_times,
    "time zone": time_zone,
    "unseen rows": unseen_rows,
    "index records": index_records,
    "double keys": duplicate_keys,
    "lost indexes": dropped_indexes,
    "index": declared_index,
    "lock": declared_lock,
    "event times": event_times,
    "data latency": data_latency,
    "backlog": compaction_backlog,
    "partitions": partition_ends,
    "pauses": pauses,
    "catalog": catalog_sync,
    "compactions": foreign_compactions,
    "log file size": log_file_sizes,
    "version": table_version,
    "merges as": merges_as,
    "written as": written_as,
}


def diagnose_table(facts: TableFacts) -> tuple[Finding, ...]:
    """What every check says about the table."""
    return tuple(finding(facts.policy.name, name, *check(facts)) for name, check in CHECKS.items())
