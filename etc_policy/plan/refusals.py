"""Why a table may not be planned now, or has nothing to do: `rules` has the table of all checks; what else is here is found while
a plan is built.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import chain
from zoneinfo import ZoneInfo

from etc_policy.errors.codes import Code
from etc_policy.plan.bundles import why_unfit
from etc_policy.plan.carry import find_obstacle
from etc_policy.plan.cut import not_left_behind
from etc_policy.plan.model import PUBLISHED, Operation, PendingWork, SeenState
from etc_policy.plan.split import find_split_obstacle, is_exact
from etc_policy.policy.manifest import Level, Policy
from etc_policy.policy.writers import spark_text
from etc_policy.table.formats import count_of, format_duration, format_time
from etc_policy.table.history import promise_of
from etc_policy.table.impossible_times import unit_advice, wrong_unit
from etc_policy.table.instants import CLOCK_TOLERANCE, instant_from_ms, instant_to_ms, parse_instant
from etc_policy.table.state import (
    CUT_VERSIONS,
    PARQUET,
    WHOLE_SLICE_VERSIONS,
    FileSlice,
    Instant,
    TableState,
    find_lacking,
    not_as_recorded,
)
from etc_policy.table.unknown_times import why_unknown_times

#: Services that decide which slices exist; the RFC's EVENT_TIME_TRIGGER runs after them, never beside them.
BLOCKING_ACTIONS = {
    "compaction": "compaction",
    "logcompaction": "log compaction",
    "clustering": "clustering",
    "replacecommit": "replace commit",
    "restore": "restore",
    "rollback": "rollback",
    "indexing": "metadata index build",
}
#: Reasons to refuse a plan while a write is in flight; between two writes none of them holds.
REFUSED_BY_WRITERS = ("writer_in_flight", "not_exact")
#: Services that go by choices of their writers which no table shows: `etc` carries out none of them.
LEFT_TO_WRITERS = ("clustering", "logcompaction")
#: How options begin that decide where a clustering writes, what it does about later writes, and which indexes it keeps.
_CLUSTERING_OPTIONS = ("index", "bucket", "clustering", "datasource.write", "write", "metadata")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a table is left as it is: a code for machines, a sentence, and what to do."""

    code: str
    reason: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Refusal(Reason):
    """Why a table may not be compacted now; its code is that of a row of `RULES`, `pending` is the work that it waits for."""

    pending: PendingWork | None = None


def refusal_message(policy: str, code: str | None, reason: str | None) -> str:
    """A refusal as an error's message; the word of one without an error code of its own is what `etc explain` takes."""
    word = f" ({code})" if code and not code.startswith("ETC") else ""
    return f"`{policy}` cannot be compacted now{word}: {reason}"


@dataclass(frozen=True, slots=True)
class Facts:
    """What rules look at. From `instant` on it is about a compaction that was planned, none while one is being planned.

    `clock_ms` is None where a rule is asked whether it spoils a plan. `seen` is what a saved plan was made from. `files_gone`,
    `wrong_schema` and `rolled_back` are what the table's files say of a plan that is on the timeline.
    """

    policy: Policy
    state: TableState
    clock_ms: int | None
    instant: str = ""
    operations: tuple[Operation, ...] = ()
    seen: SeenState | None = None
    files_gone: tuple[str, ...] = ()
    wrong_schema: str | None = None
    rolled_back: str | None = None

    @property
    def now(self) -> str:
        """The clock in the table's zone.

        Raises:
            ValueError: what spoils a plan is asked without a clock.

        """
        if self.clock_ms is None:
            raise ValueError("no clock is known at this moment")
        return instant_from_ms(self.clock_ms, ZoneInfo(self.state.timezone))

    @property
    def is_cut(self) -> bool:
        """Whether the table's version has a cut."""
        return self.state.table_version in CUT_VERSIONS

    @property
    def carries(self) -> bool:
        """Whether the compaction adds log files to its slices: carried ones (table version 6), or rows that were split off."""
        return any(operation.adds_log_files for operation in self.operations)


def unsupported_version(policy: Policy, state: TableState) -> Refusal | None:
    """A table version of which it is not known which log files belong to which slice."""
    if state.table_version in (*CUT_VERSIONS, *WHOLE_SLICE_VERSIONS):
        return None
    hint = "let a writer of Hudi 1.x upgrade it to version 8 or 9" if state.table_version == 7 else None
    return Refusal(
        "table_version", f"table version {state.table_version} is not supported; versions 6, 8 and 9 are", hint
    )


def no_cut(policy: Policy, state: TableState) -> Refusal | None:
    """Table version 6 is compacted in whole slices, or where log files may be carried."""
    if state.table_version not in WHOLE_SLICE_VERSIONS or policy.strategy.granularity != "log_file":
        return None
    obstacle = find_obstacle(policy, state)
    code = Code.NO_CUT if policy.strategy.carry is None else "cannot_carry"
    return Refusal(code, *obstacle) if obstacle else None


def cannot_split(policy: Policy, state: TableState) -> Refusal | None:
    """Rows can be split at T where that is known to change nothing that other readers see."""
    obstacle = find_split_obstacle(policy, state) if is_exact(policy) else None
    return Refusal("cannot_split", *obstacle) if obstacle else None


def work_of(pending: Instant) -> PendingWork:
    """What a refusal waits for."""
    return PendingWork(instant=pending.requested, action=pending.action, is_begun=pending.state != "requested")


def pending_service(
    policy: Policy, state: TableState, actions: Collection[str] = tuple(BLOCKING_ACTIONS)
) -> Refusal | None:
    """No pending compaction, log compaction, clustering, replace, rollback or restore (facts: no-pending-service)."""
    pending = next((i for i in state.pending if i.action in actions), None)
    if pending is None:
        return None
    reason = f"a {BLOCKING_ACTIONS[pending.action]} at {pending.requested} is pending ({pending.state})"
    work = work_of(pending)
    if pending.requested == state.own_pending:
        hint = f"it is etc's own: `etc apply --select {policy.name}` finishes it, `etc undo` withdraws it"
        return Refusal("pending_own_plan", reason, hint, work)
    return Refusal("pending_service", reason, _finish_hint(pending, policy, state), work)


def carried_files_lost(policy: Policy, state: TableState) -> Refusal | None:
    """A stock run has carried out a plan of etc without recording its carried log files: readers may miss their rows."""
    if state.uncarried is None:
        return None
    reason = f"the compaction at {state.uncarried} was committed without the log files that its plan carries"
    return Refusal(
        "carried_files_lost", reason, f"stop all writers and cleaning, and run `etc explain {Code.NOT_IN_COMMIT}`"
    )


def orphans_left(policy: Policy, state: TableState) -> Refusal | None:
    """Log files that were carried or split off could be attached to a wrong slice without their plan."""
    if not state.orphans:
        return None
    files = f"{count_of(len(state.orphans), 'log file')} that etc carried or split off"
    reason = f"{files} without a compaction, for example {state.orphans[0]}"
    return Refusal(
        "orphans_left", reason, f"`etc apply --select {policy.name}` removes them first, and so does `etc undo`"
    )


def writer_in_flight(policy: Policy, state: TableState) -> Refusal | None:
    """On version 6 a block that lands in the old slice after planning would be lost (facts: version-6-writer-in-flight)."""
    if state.table_version in CUT_VERSIONS:
        return None
    writing = next((i for i in state.pending if i.action in ("commit", "deltacommit")), None)
    if writing is None:
        return None
    reason = f"a writer is in flight ({writing.action} {writing.requested}), and table version {state.table_version} has no cut"
    hint = (
        "plan again when the writer has committed. A streaming job begins the next write at once: stop it for the run "
        "(Flink: `flink stop --drain`), or upgrade the table to version 8"
    )
    return Refusal("writer_in_flight", reason, hint, work_of(writing))


def no_commit(state: TableState) -> Reason | None:
    """Nothing was ever written to the table: there is nothing to compact, and nobody knows what RO should hold."""
    has_writes = any(i.action == "deltacommit" and i.completed for i in state.instants)
    return None if has_writes or state.slices else Reason("no_commit", "no commit yet")


def base_file_format(policy: Policy, state: TableState) -> Refusal | None:
    """Base files that Hudi on Spark can neither compact nor show in RO (facts: orc-not-compacted)."""
    names = (one.base_file for one in state.slices if one.base_file)
    found = (state.base_file_format, *(name.rpartition(".")[2] for name in names))
    other = next((one for one in found if one != PARQUET), None)
    if other is None:
        return None
    reason = f"the table's base files are {other.upper()}, which Hudi on Spark cannot compact"
    return Refusal("base_file_format", reason, "write the table anew with base files of Parquet, Hudi's default")


def no_meta_columns(policy: Policy, state: TableState) -> Refusal | None:
    """Rows that cannot be compared by key: the compaction would be right, and could never be verified as the policy wants."""
    level = policy.verify.level
    if not state.lacks_meta_columns or not Level[level].reads_rows:
        return None
    reason = (
        "the table has no meta columns (`hoodie.populate.meta.fields` is false), by which verification at level "
        f"`{level}` compares rows"
    )
    return Refusal(Code.NO_META_COLUMNS, reason, "set `verify.level: logs`, which needs no rows, for this policy")


def bundle_unfit(policy: Policy, state: TableState) -> Refusal | None:
    """A bundle of Hudi that merges rows otherwise than the table's readers: both views would be wrong alike.

    See facts: merge-matrix.
    """
    if state.release is None:
        return None  # nobody has said it: it is asked of the bundle itself before a plan is published
    unfit = why_unfit(state.merging, state.release, policy.writer.merges_tested_with)
    return Refusal(Code.UNFIT_BUNDLE, *unfit) if unfit else None


def files_missing(policy: Policy, state: TableState) -> Refusal | None:
    """A data file that a commit wrote and that is gone: to compact its slice would hide the loss."""
    if not state.missing_files:
        return None
    missing = count_of(len(state.missing_files), "missing data file")
    reason = f"{missing}, which a commit wrote, for example {state.missing_files[0]}"
    return Refusal("files_missing", reason, "restore them, or roll the table back to a commit before them")


def files_unclear(policy: Policy, state: TableState) -> Refusal | None:
    """What a task that was tried again leaves, or a rollback: one of two base files, or files that some readers see and others
    do not.
    """
    if state.unrecorded_files:
        reason = (
            f"no commit recorded {state.unrecorded_files[0]}, so that the metadata table may leave it out: readers that use that "
            "table, and those that list the folders, then see other rows"
        )
        return Refusal("files_unclear", reason, "move it out of the table: no commit counts its rows")
    if not state.unclear_files:
        return None
    first, second = state.unclear_files[:2]
    reason = (
        f"{first} and {second} are base files of one file group and instant, and no commit says which of them counts"
    )
    return Refusal("files_unclear", reason, "move the one away that the table's writer did not commit")


def hidden_by_savepoint(policy: Policy, state: TableState) -> Refusal | None:
    """What was committed between a savepoint and the first other active commit: stock Hudi hides it once archived.

    See facts: beyond-savepoint. Before table version 8 a log file bears the instant of its slice, and its blocks that of a write.
    """
    kept = {one.requested for one in state.instants if one.has_savepoint}
    if not kept:
        return None
    savepoint, first = min(kept), next(iter(not_left_behind(state.instants)), "")
    bases = ((one.base_instant, one.base_file or "") for one in state.slices)
    logs = ((one.requested, one.name) for _, one in state.log_files if state.table_version in CUT_VERSIONS)
    files = chain(bases, logs, state.hidden_blocks)
    hidden = min((file for file in files if savepoint < file[0] < first and file[0] not in kept), default=None)
    if hidden is None:
        return None
    reason = (
        f"{hidden[1]} was committed at {hidden[0]}, between the savepoint at {savepoint} and {first}, the first other commit "
        "that is not archived: stock Hudi does not show such rows"
    )
    hint = (
        "delete the savepoint and let the writer commit once; without `hoodie.archive.beyond.savepoint` it stays right"
    )
    return Refusal("hidden_by_savepoint", reason, hint)


def files_damaged(policy: Policy, state: TableState) -> Refusal | None:
    """A data file that is not as long as its commit recorded: readers fail on it, or miss rows."""
    damaged = [one for one in not_as_recorded(state) if one.recorded_bytes is not None]
    if not damaged:
        return None
    first = damaged[0]
    reason = (
        f"{count_of(len(damaged), 'data file')} not as long as recorded by a commit, for example {first.name}: "
        f"{first.size_bytes} bytes, recorded were {first.recorded_bytes}"
    )
    return Refusal("files_damaged", reason, "restore them, or roll the table back to a commit before them")


def schema_hidden(policy: Policy, state: TableState) -> Refusal | None:
    """The last write does not carry on what ALTER TABLE made: what readers miss since, a compaction would lose.

    See facts: schema-hidden.
    """
    lacking = find_lacking(state.instants)
    if lacking is None:
        return None
    reason = f"{lacking.why}: readers show older values of renamed columns as NULL, and a compaction would lose them"
    hint = (
        "roll that write back, or add a column by another ALTER TABLE: either brings the values back. Then give all writers "
        "`hoodie.schema.on.read.enable=true`"
    )
    return Refusal("schema_hidden", reason, hint)


def unreadable_times(policy: Policy, state: TableState) -> Refusal | None:
    """Texts that are no times, as the policy has them read: compacted as unknown, they could never be verified."""
    found = state.unreadable_time
    if found is None:
        return None
    column, pattern = policy.event_time.column, policy.event_time.format
    read = "that can be read" if pattern is None else f"of the format `{pattern}`"
    reason = f"`{found.value}` in column `{column}` of log file {found.log_file} is not a time {read}"
    hint = f"give its pattern: `event_time_column: {{column: {column}, format: PATTERN}}`, such as `dd/MM/yyyy HH:mm`"
    return Refusal(Code.UNREADABLE_TIMES, reason, hint)


def wrong_unit_everywhere(policy: Policy, state: TableState) -> Refusal | None:
    """Event times in another unit than the policy says: all of them are to come, and nothing would ever be due."""
    found = wrong_unit(policy.event_time, state)
    if found is None:
        return None
    column, ahead = policy.event_time.column, format_duration(policy.event_time.ahead_ms)
    reason = (
        f"every event time that is known of column `{column}` is later than its commit by more than {ahead}: log file "
        f"{found.log_file.name}, committed at {found.log_file.completed}, holds {format_time(found.event_time_ms)} "
        f"in the unit `{policy.event_time.unit}`"
    )
    return Refusal(Code.WRONG_UNIT, reason, unit_advice(found.fitting, column))


def unbounded_event_times(policy: Policy, state: TableState) -> Refusal | None:
    """A log file that a compaction carried or split off: its rows came before, and what was promised of them is not known."""
    name = next((one.name for _, one in state.log_files if one.may_hold_anything), None)
    if name is None:
        return None
    reason = f"event times in {name} are unknown, and nothing bounds them: no compaction that is known promises anything of it"
    return Refusal(
        "unbounded_event_times", reason, "`etc apply` compacts it; without `--metadata-only` its event times are read"
    )


#: What a restore that failed leaves pending (facts: restore-before-compaction).
_BY_RESTORE = ("restore", "rollback")


def _finish_hint(pending: Instant, policy: Policy, state: TableState) -> str:
    if pending.action == "compaction":
        return f"if no job of yours is running it, `etc finish --select {policy.name}` does"
    if pending.action == "clustering":
        options = ", ".join(f"`hoodie.{name}.`" for name in _CLUSTERING_OPTIONS)
        return (
            "etc does not carry it out, as no table shows its writers' index and strategies, without which rows are lost. If no "
            f"job of yours is running it: `CALL run_clustering(path => {spark_text(state.base_path)}, op => 'execute', "
            f"instants => '{pending.requested}', options => 'KEY=VALUE,...')`, with all options of its writers that begin with "
            f"{options}"
        )
    if pending.action == "logcompaction":
        return (
            "etc does not carry it out. If no job of yours is running it, the next commit of a writer with "
            "`hoodie.log.compaction.inline=true` does"
        )
    if pending.action in _BY_RESTORE:
        return (
            "plan again when it has completed; a restore that failed with `Found commits after time` is called again, after "
            "`SET hoodie.clean.failed.writes.policy=LAZY`"
        )
    return "plan again when it has completed; a writer that died leaves it to its next run"


def clock_behind(facts: Facts) -> Refusal | None:
    """Instants ahead of our clock come from another time zone or clock: C and every lag would be wrong by as much."""
    state, now = facts.state, facts.now
    last = state.last_completed
    if last is None or parse_instant(last) - parse_instant(now) <= CLOCK_TOLERANCE:
        return None
    reason = (
        f"the table's last instant completed at {last}, ahead of this machine's clock ({now} in zone {state.timezone})"
    )
    if state.zone is not None and state.zone.certainty == "declared":
        hint = "compare this machine's clock with those of the writers: the table declares UTC, so `TZ` changes nothing"
    else:
        hint = "if its writers use another time zone, run etc with the environment variable `TZ` set to theirs"
    return Refusal("clock_behind", reason, hint)


#: What helps against a wrong completion time.
MEND_WRONG_TIME = "docs/how-to/repair.md says how its file is renamed, and what to do where it may not be"


def wrong_time(facts: Facts) -> Refusal | None:
    """A completion time that cannot be true: before its request, so that readers may not see it, or still to come."""
    wrong = (one for one in facts.state.wrong_times if not one.late or one.is_future(facts.now))
    found = next((one for one in wrong if not one.is_harmless), None)
    return Refusal("wrong_time", f"{found.what}; {found.truth}", MEND_WRONG_TIME) if found is not None else None


def writers_elsewhere(state: TableState) -> Refusal | None:
    """Instants in local time that the files' times show to be of another zone, or of two: C and all lags would be wrong."""
    reading = state.zone
    if reading is None or reading.certainty != "contradicted":
        return None
    reason = (
        f"the table's instants are in its writers' local time, read here in {reading.timezone}, but {reading.evidence}"
    )
    hint = "run every writer of the table, and etc, with one and the same `TZ`; once they do, some 20 new commits clear this"
    return Refusal("writers_zone", reason, hint)


def zone_changed(facts: Facts) -> Refusal | None:
    """The plan's instants mean other times now: another `TZ`, or another machine."""
    seen, here = facts.seen, facts.state.timezone
    if seen is None or seen.timezone is None:
        return None
    planned = seen.timezone
    if all(_same_time(one, planned, here) for one in (facts.instant, seen.last_completed) if one):
        return None
    reason = f"the plan was made with the table's instants in zone {planned}, and here they are read in {here}"
    return Refusal("zone_changed", reason, "plan and apply with the same `TZ`: that of the table's writers")


def _same_time(instant: str, one: str, other: str) -> bool:
    return instant_to_ms(instant, ZoneInfo(one)) == instant_to_ms(instant, ZoneInfo(other))


def nothing_due(policy: Policy, *, elsewhere: bool, can_wait: bool) -> Reason:
    """No file slice is due: all can wait for the next run, or those that cannot are not ones that the policy takes."""
    if policy.is_stock:
        return Reason("nothing_due", f"`{policy.strategy.type}` takes no file slice of the table as it is")
    if can_wait and not elsewhere:
        return Reason("nothing_due", "what log files hold can wait for the next run without breaking the target")
    where = " in the partitions of `strategy.partitions`" if elsewhere else ""
    return Reason("nothing_due", f"no log file{where} can hold an event at or below the threshold")


def is_published(policy: Policy, state: TableState, threshold_ms: int) -> Reason | None:
    """An earlier run had its T at this boundary of `strategy.at`, or after it."""
    boundaries, promise = policy.strategy.boundaries, promise_of(policy, state)
    if boundaries is None or promise is None or promise.threshold_ms < threshold_ms:
        return None
    due_ms = boundaries.next_ms(max(threshold_ms, promise.threshold_ms)) + policy.data_latency_ms
    reason = f"this boundary of `strategy.at` was published by the compaction at {promise.instant}"
    return Reason(PUBLISHED, f"{reason}; the next one is due at {format_time(due_ms)}")


def overlapping_writer(state: TableState, writer: str, instant: str) -> Refusal:
    """A living writer that began before C would be missed by time travel and by incremental readers while C is pending.

    Later writes that have completed prove nothing of it, as there may be several writers: but it may have failed
    (facts: failed-write-unknown).
    """
    reason = (
        f"a writer that began at {writer} is in flight, and the compaction would have to come after it, at {instant}"
    )
    work = _writing(state, writer)
    later = sum(i.action == "deltacommit" and i.requested > writer and i.completed is not None for i in state.instants)
    if not later:
        return Refusal("writer_in_flight", reason, "plan again when the writer has committed", work)
    hint = (
        "plan again when the writer has committed. If its write has failed, end or restart its process: until then Hudi keeps "
        "the heartbeat of a failed write fresh, and nobody can know"
    )
    completed = "1 write that began after it has" if later == 1 else f"{later} writes that began after it have"
    return Refusal("writer_in_flight", f"{reason}; {completed} completed", hint, work)


def written_to_all(state: TableState) -> Refusal:
    """Every file slice that is due compacts deletes, and writers add to each, or may."""
    reason = "every file slice that is due has deletes to compact, and writers "
    if began := oldest_writer(state):
        hint = "plan again when it has committed; if it is dead, the next commit of a writer rolls it back"
        why = f"{reason}may add to it (delete rule): {not_ended(state)}"
        return Refusal("writer_in_flight", why, hint, _writing(state, began))
    return Refusal(
        "writer_in_flight",
        f"{reason}kept adding to it meanwhile (delete rule)",
        "plan again when the writers are at rest",
    )


def unknown_left_out(policy: Policy, state: TableState, left_out: FileSlice, *, written_to: bool) -> Refusal:
    """A slice that is left out may hold any event, so that no T would be true."""
    if written_to:
        by = "writers that keep adding to its file slice leave"
    else:
        by = "`strategy.type` leaves" if policy.is_stock else "`strategy.partitions` or `strategy.max_io` leaves"
    reason = f"a log file without a known event time is due, and {by} it out"
    also = ("set `strategy.type: unbounded`",) if policy.is_stock else ()
    hints = (*why_unknown_times(policy.event_time, state, left_out.log_files), *also)
    return Refusal("unknown_left_out", reason, "; or ".join(hints))


def not_ended(state: TableState) -> str:
    """That the oldest write in flight that may live has not ended; empty without one."""
    began = oldest_writer(state)
    return f"the writer that began at {began} has not ended" if began else ""


def oldest_writer(state: TableState) -> str | None:
    """When the oldest write in flight began that may live."""
    return min((write.requested for write in state.writes_in_flight if write.may_live), default=None)


def _writing(state: TableState, writer: str) -> PendingWork:
    found = next((one for one in state.pending if one.requested == writer), None)
    return work_of(found) if found else PendingWork(instant=writer, action="deltacommit")


def not_exact(policy: Policy, threshold_ms: int, complete_ms: int) -> Refusal | None:
    """RO is the table as of T only where no slice that is due is left out."""
    if not is_exact(policy) or complete_ms >= threshold_ms:
        return None
    reason = (
        f"some file slices that are due would be left out, as writers are at work: RO would not be the table as of "
        f"{format_time(threshold_ms)}, but lack some of its rows from {format_time(complete_ms + 1)} on"
    )
    return Refusal("not_exact", reason, "plan again when the writers are at rest, or set `granularity: log_file`")
