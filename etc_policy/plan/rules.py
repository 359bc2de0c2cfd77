"""The rules by which a table is not compacted, or nobody knows how far RO is complete: each is one row.

A row is a function that says what it objects to, and by its decorator when it is asked, what it means for the plan and for the
table, and whether it passes. The first that objects to a table is the one that users see: the order of this file is the order
in which they are asked. Each has a case of its own in `tests/golden/refusals`. What is asked before the commit alone and leaves
the plan as it is, or waits, is elsewhere: writers that overtake it, restores, changed tables and, on table version 6, rollbacks
(`run/fence.py`); indexes made anew and open commits to the metadata table (`run/table_files.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from functools import wraps
from itertools import chain
from zoneinfo import ZoneInfo

from etc_policy.errors.codes import Code
from etc_policy.plan.bundles import why_unfit
from etc_policy.plan.carry import find_obstacle
from etc_policy.plan.cut import (
    GUARDS,
    SERVICE_ACTIONS,
    WITHOUT_DATA,
    Cut,
    archive_passed,
    compacted,
    not_left_behind,
)
from etc_policy.plan.delete_rule import find_overtaken
from etc_policy.plan.model import Operation, PendingWork, TablePlan
from etc_policy.plan.refusals import BLOCKING_ACTIONS, LEFT_TO_WRITERS, Facts, Reason, Refusal, work_of
from etc_policy.plan.split import find_split_obstacle, is_exact
from etc_policy.plan.stock_choice import partition_of_no_day
from etc_policy.policy.manifest import Level, Policy
from etc_policy.policy.writers import spark_text
from etc_policy.table.formats import count_of, format_duration, format_time
from etc_policy.table.impossible_times import unit_advice, wrong_unit
from etc_policy.table.instants import CLOCK_TOLERANCE, instant_to_ms, parse_instant
from etc_policy.table.state import (
    CUT_VERSIONS,
    PARQUET,
    UNION,
    WHOLE_SLICE_VERSIONS,
    FileSlice,
    Instant,
    TableState,
    find_lacking,
    not_as_recorded,
)
from etc_policy.table.unknown_times import unreadable_advice


class Moment(Enum):
    """When a rule is asked: for a new plan, before one is published and right after, before its commit, or of one left pending.

    What changes `hoodie.properties` need not be asked again: that makes a plan stale by itself.
    """

    PLAN = "plan"
    PUBLISH = "publish"
    COMMIT = "commit"
    PENDING = "pending"


class Damage(IntEnum):
    """Why nobody knows how far RO is complete; what is said first comes first.

    What is FILES is shown by `check_files` of a verification, which fails; what that check does not see, and any other, is
    said instead of a verdict.
    """

    NONE = 0
    TIMES = 1
    FORMAT = 2
    FILES = 3
    CONTENT = 4


class Passes(Enum):
    """Whether a refusal ends by itself; its value says whether to run again."""

    NO = "no"
    #: The next run of etc ends it, or comes late enough.
    NEXT_RUN = "yes"
    #: When the work of others has ended; where some is pending at every run, the table starves.
    OTHERS_END = "yes, after a pause"
    #: A cleaner at work looks like it, to one reading and not to the next.
    NEXT_READING = "once, as a cleaner at work looks like it"


#: What a rule objects to: why, what to do, and the work that it waits for.
Objection = tuple[str, str | None] | tuple[str, str | None, PendingWork]
Check = Callable[[Facts], Refusal | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """A reason not to compact a table: its code, what it is asked of, and what it means. It decorates its check.

    One without a `check` is given while the plan is built. Where it `spoils` a plan, that plan is not carried out any more:
    before it is committed another one is made. Any other rule stops the run. Whether it is `damage` is asked apart from any
    plan, whatever its moments. One that is there only while a write is in flight is `by_writers`: between two writes it does not
    hold. `means` says in plain words what is wrong and what to do, and `mended_by` who does it; of a rule that has a `Code` of
    its own that row says both.
    """

    code: str
    moments: frozenset[Moment] = frozenset({Moment.PLAN})
    damage: Damage = Damage.NONE
    passes: Passes = Passes.NO
    spoils: bool = False
    by_writers: bool = False
    means: str = ""
    mended_by: str = "table's owner"
    check: Check | None = None

    def __post_init__(self) -> None:
        """Nothing asks a new plan whether it is spoiled, and at a commit only that is asked."""
        never = Moment.PLAN if self.spoils else Moment.COMMIT
        if never in self.moments:
            raise ValueError(f"the rule {self.code} would never be asked at {never}")

    def __call__(self, find: Callable[[Facts], Objection | None]) -> Check:
        """Put the rule into the table, with what finds its objection as its check."""

        @wraps(find)
        def check(facts: Facts) -> Refusal | None:
            objection = find(facts)
            return None if objection is None else Refusal(self.code, *objection)

        _ROWS.append(replace(self, check=check))
        return check


_ROWS: list[Rule] = []


def _spoils(
    code: str, *moments: Moment, hint: str | None = None
) -> Callable[[Callable[[Facts], Iterator[str]]], Check]:
    """A row about a plan that was made: all that its check finds is said."""

    def decorated(find: Callable[[Facts], Iterator[str]]) -> Check:
        @wraps(find)
        def found(facts: Facts) -> Objection | None:
            reasons = tuple(find(facts))
            return ("; ".join(reasons), hint) if reasons else None

        return Rule(code, frozenset(moments), spoils=True)(found)

    return decorated


_AUTHOR, _OPERATOR, _WRITERS = "policy's author", "operator", "who runs the writers"
_NOBODY = "nobody: the next run"
_AT_REST = "nothing was committed; plan again when its writers are at rest"
_AS_IT_IS = "nothing was committed; plan again: the next plan goes by the table as it is now"
_WHILE_WRITING = frozenset({Moment.PLAN, Moment.PUBLISH, Moment.PENDING})


@Rule(
    "table_version",
    damage=Damage.FORMAT,
    means="The table's version is not 6, 8 or 9. Let a writer of Hudi 1.x upgrade version 7 to 8 or 9.",
)
def unsupported_version(facts: Facts) -> Objection | None:
    """A table version of which it is not known which log files belong to which slice."""
    version = facts.state.table_version
    if version in (*CUT_VERSIONS, *WHOLE_SLICE_VERSIONS):
        return None
    hint = "let a writer of Hudi 1.x upgrade it to version 8 or 9" if version == 7 else None
    return f"table version {version} is not supported; versions 6, 8 and 9 are", hint


@Rule(Code.NO_CUT)
def no_cut(facts: Facts) -> Objection | None:
    """Table version 6, which has no cut, where log files are not to be carried (facts: version-6-slices)."""
    return _obstacle_without_cut(facts) if facts.policy.strategy.carry is None else None


@Rule(
    "cannot_carry",
    means="`strategy.carry` is set, and log files of this table may not be carried; the message says why. Set "
    "`granularity: file_slice`. See `etc explain strategies`.",
    mended_by=_AUTHOR,
)
def cannot_carry(facts: Facts) -> Objection | None:
    """Log files that are to be carried, where nobody knows that readers see them (facts: default-payload-0-15)."""
    return _obstacle_without_cut(facts) if facts.policy.strategy.carry is not None else None


def _obstacle_without_cut(facts: Facts) -> Objection | None:
    is_cut_needed = (
        facts.policy.strategy.granularity == "log_file" and facts.state.table_version in WHOLE_SLICE_VERSIONS
    )
    return find_obstacle(facts.policy, facts.state) if is_cut_needed else None


@Rule(
    "changes_kept",
    means="`granularity: log_file` is set, and the table keeps its changes (CDC): those of a log file that stays behind cannot "
    "be read any more once a clean has removed the old file slice. Set `granularity: file_slice`.",
    mended_by=_AUTHOR,
)
def changes_kept(facts: Facts) -> Objection | None:
    """A cut of a table that keeps its changes (facts: changes-need-old-slices)."""
    if facts.policy.strategy.granularity != "log_file" or not (facts.is_cut and facts.state.has_cdc):
        return None
    reason = (
        "the table keeps its changes (CDC): those of a log file that stays behind could not be read once a clean has removed the "
        "slice that it was written to"
    )
    return reason, "set `granularity: file_slice`"


@Rule(
    "cannot_split",
    means="`granularity: record` is set, and rows of this table may not be split at T; the message says why. Set "
    "`granularity: log_file`. See `etc explain as-of`.",
    mended_by=_AUTHOR,
)
def cannot_split(facts: Facts) -> Objection | None:
    """Rows that are to be split at T, where that may change what other readers see (facts: split-is-possible)."""
    return find_split_obstacle(facts.policy, facts.state) if is_exact(facts.policy) else None


@Rule(
    "pending_service",
    passes=Passes.OTHERS_END,
    means="A compaction, clustering, rollback or other service is pending. If a job is running it, it passes when that job "
    "completes it. If none is: `etc finish --select NAME` completes compactions, and starts Spark for it. Whoever "
    "scheduled a clustering or log compaction must carry it out, as no table shows its writers' choices; the hint of a plan "
    "has the call. A writer carries out rollbacks and restores.",
    mended_by=_WRITERS,
)
def pending_service(facts: Facts) -> Objection | None:
    """A service that is pending and decides which slices exist (facts: no-pending-service)."""
    pending = _first_pending(facts.state)
    if pending is None or pending.requested == facts.state.own_pending:
        return None
    return _while_pending(pending, facts)


@Rule(
    "pending_own_plan",
    passes=Passes.NEXT_RUN,
    means="An earlier run of etc published a plan and did not complete it. The next `etc apply` finishes or withdraws it.",
    mended_by=_NOBODY,
)
def pending_own_plan(facts: Facts) -> Objection | None:
    """A pending compaction that an earlier run of etc has left."""
    pending = _first_pending(facts.state)
    if pending is None or pending.requested != facts.state.own_pending:
        return None
    hint = f"it is etc's own: `etc apply --select {facts.policy.name}` finishes it, `etc undo` withdraws it"
    return _what_is_pending(pending), hint, work_of(pending)


def left_to_writers(policy: Policy, state: TableState) -> Refusal | None:
    """That a service is pending which etc never carries out."""
    facts, pending = Facts(policy, state, None), _first_pending(state, LEFT_TO_WRITERS)
    if pending is None:
        return None
    return Refusal("pending_service", *_while_pending(pending, facts))


def _while_pending(pending: Instant, facts: Facts) -> tuple[str, str, PendingWork]:
    return _what_is_pending(pending), _finish_hint(pending, facts), work_of(pending)


def _first_pending(state: TableState, actions: Collection[str] = tuple(BLOCKING_ACTIONS)) -> Instant | None:
    return next((one for one in state.pending if one.action in actions), None)


def _what_is_pending(pending: Instant) -> str:
    return f"a {BLOCKING_ACTIONS[pending.action]} at {pending.requested} is pending ({pending.state})"


#: What a restore that failed leaves pending (facts: restore-before-compaction).
_BY_RESTORE = ("restore", "rollback")
#: How options begin that decide where a clustering writes, what it does about later writes, and which indexes it keeps.
_CLUSTERING_OPTIONS = ("index", "bucket", "clustering", "datasource.write", "write", "metadata")


def _finish_hint(pending: Instant, facts: Facts) -> str:
    if pending.action == "compaction":
        return f"if no job of yours is running it, `etc finish --select {facts.policy.name}` does"
    if pending.action == "clustering":
        options = ", ".join(f"`hoodie.{name}.`" for name in _CLUSTERING_OPTIONS)
        return (
            "etc does not carry it out, as no table shows its writers' index and strategies, without which rows are lost. If no "
            f"job of yours is running it: `CALL run_clustering(path => {spark_text(facts.state.base_path)}, op => 'execute', "
            f"instants => '{pending.requested}', options => 'KEY=VALUE,...')`, with all options of its writers that begin with "
            f"{options}"
        )
    if pending.action == "logcompaction":
        return (
            "etc does not carry it out. If no job of yours is running it, the next commit of a writer of Hudi 1.0.2 or later "
            "with `hoodie.log.compaction.inline=true` does"
        )
    if pending.action in _BY_RESTORE:
        return (
            "plan again when it has completed; a restore that failed with `Found commits after time` is called again, after "
            "`SET hoodie.clean.failed.writes.policy=LAZY`"
        )
    return "plan again when it has completed; a writer that died leaves it to its next run"


@Rule(
    "carried_files_lost",
    damage=Damage.CONTENT,
    means="Another job compacted the table and left out log files that etc had carried. Stop all writers and cleaning, "
    f"then read `etc explain {Code.NOT_IN_COMMIT}`.",
)
def carried_files_lost(facts: Facts) -> Objection | None:
    """A stock run has carried out a plan of etc without recording its carried log files: readers may miss their rows.

    See facts: carried-after-plan.
    """
    uncarried = facts.state.uncarried
    if uncarried is None:
        return None
    reason = f"the compaction at {uncarried} was committed without the log files that its plan carries"
    return reason, f"stop all writers and cleaning, and run `etc explain {Code.NOT_IN_COMMIT}`"


@Rule(
    "orphans_left",
    means="Log files that etc carried or split off lie in the table without their plan. A run of `granularity: record` that "
    "is at work publishes its plan soon. What a killed one left `etc apply` removes, and `etc undo` does.",
    mended_by=_OPERATOR,
)
def orphans_left(facts: Facts) -> Objection | None:
    """Log files that were carried or split off could be attached to a wrong slice without their plan.

    See facts: carried-after-plan.
    """
    orphans = facts.state.orphans
    if not orphans:
        return None
    files = f"{count_of(len(orphans), 'log file')} that etc carried or split off"
    hint = f"`etc apply --select {facts.policy.name}` removes them first, and so does `etc undo`"
    return f"{files} without a compaction, for example {orphans[0]}", hint


@Rule(
    "writer_in_flight",
    passes=Passes.OTHERS_END,
    by_writers=True,
    means="A write is in flight that the compaction would have to wait for, or writers keep adding to every file slice "
    "whose deletes are due. It passes when they commit or pause. If a write has failed, end or restart its process. A "
    "table of version 6 is planned between two batches only (`etc explain writers`). If your writers never pause, see "
    "`etc explain locks`.",
    mended_by=_WRITERS,
)
def writer_in_flight(facts: Facts) -> Objection | None:
    """A write in flight on version 6, whose block would land in the old slice and be lost (facts: version-6-writer-in-flight).

    Of other versions it is said while a plan is built, where the instant would have to come after a writer began.
    """
    if facts.is_cut:
        return None
    state = facts.state
    writing = next((i for i in state.pending if i.action in ("commit", "deltacommit")), None)
    if writing is None:
        return None
    reason = f"a writer is in flight ({writing.action} {writing.requested}), and table version {state.table_version} has no cut"
    hint = (
        "plan again when the writer has committed. A streaming job begins the next write at once: stop it for the run "
        "(Flink: `flink stop --drain`), or upgrade the table to version 8"
    )
    return reason, hint, work_of(writing)


@Rule(
    "base_file_format",
    means="The base files are not Parquet, and Hudi on Spark cannot compact others. Write the table anew with Parquet.",
)
def base_file_format(facts: Facts) -> Objection | None:
    """Base files that Hudi on Spark can neither compact nor show in RO (facts: orc-not-compacted)."""
    names = (one.base_file for one in facts.state.slices if one.base_file)
    formats = (facts.state.base_file_format, *(name.rpartition(".")[2] for name in names))
    other = next((one for one in formats if one != PARQUET), None)
    if other is None:
        return None
    reason = f"the table's base files are {other.upper()}, which Hudi on Spark cannot compact"
    return reason, "write the table anew with base files of Parquet, Hudi's default"


@Rule(Code.NOT_WORKABLE)
def column_of_no_type(facts: Facts) -> Objection | None:
    """A column that Spark has no type for, or reads from no base file: Hudi fails over it whenever it is compacted.

    See facts: types-not-compacted. Hudi 0.x merges without types of Spark, and fails over unions alone.
    """
    found, release = facts.state.unworkable, facts.state.release
    if found is None or release is None or (release.startswith("0.") and not found[1].startswith(UNION)):
        return None
    reason = f"column `{found[0]}` is {found[1]}, which Hudi on Spark cannot compact"
    return reason, "write it as a number or a text, or let the writers that made the table compact it"


@Rule(
    "unsure_keys",
    means="The table has no meta columns, and a complex key of one column, or a date, time or bytes in its key. Delete blocks "
    "name it otherwise than readers compute it, so that a deleted row may come back behind a compaction. Write the table anew "
    "with meta columns, or with a simple key of a number or a text.",
)
def unsure_keys(facts: Facts) -> Objection | None:
    """Keys that readers compute otherwise than delete blocks have them, so that positions in the old base file alone delete.

    See facts: complex-key-computed, time-in-computed-key.
    """
    if not facts.state.has_unsure_keys:
        return None
    reason = (
        "the table has no meta columns, and a complex key of one column, or a date, time or bytes in its key, which delete "
        "blocks name otherwise than readers compute it: after a compaction deleted rows may come back"
    )
    hint = "write the table anew with `hoodie.populate.meta.fields` true, or with a simple key of a number or a text"
    return reason, hint


@Rule(Code.NO_META_COLUMNS)
def no_meta_columns(facts: Facts) -> Objection | None:
    """Rows that cannot be compared by key: the compaction would be right, and could never be verified as the policy wants.

    See facts: no-meta-columns.
    """
    level = facts.policy.verify.level
    if not facts.state.lacks_meta_columns or not Level[level].reads_rows:
        return None
    reason = (
        "the table has no meta columns (`hoodie.populate.meta.fields` is false), by which verification at level "
        f"`{level}` compares rows"
    )
    return reason, "set `verify.level: logs`, which needs no rows, for this policy"


@Rule(Code.UNFIT_BUNDLE)
def bundle_unfit(facts: Facts) -> Objection | None:
    """A bundle of Hudi that merges rows otherwise than the table's readers: both views would be wrong alike.

    See facts: merge-matrix, changelog-compaction.
    """
    state = facts.state
    if state.release is None:
        return None  # nobody has said it: it is asked of the bundle itself before a plan is published
    return why_unfit(state.merging, state.release, facts.policy.writer.merges_tested_with)


@Rule(
    "files_missing",
    damage=Damage.FILES,
    passes=Passes.NEXT_READING,
    means="A data file that a commit wrote is gone. Restore it, or roll the table back to a commit before it.",
)
def files_missing(facts: Facts) -> Objection | None:
    """A data file that a commit wrote and that is gone: to compact its slice would hide the loss."""
    names = facts.state.missing_files
    if not names:
        return None
    reason = f"{count_of(len(names), 'missing data file')}, which a commit wrote, for example {names[0]}"
    return reason, "restore them, or roll the table back to a commit before them"


@Rule(
    "files_unclear",
    damage=Damage.FILES,
    means="A task that was tried again, or a rollback, has left a file: two base files have one file group and instant, and "
    "no commit says which of them counts, or no commit recorded a file, in a table with a metadata table. Move the one away "
    "that was not committed.",
)
def files_unclear(facts: Facts) -> Objection | None:
    """One of two base files, or files that some readers see and others do not, as a failed task or a rollback leaves them.

    See facts: two-base-files, unrecorded-files, rolled-back-files-shown, rolled-back-blocks-shown.
    """
    state = facts.state
    if state.unrecorded_files:
        reason = (
            f"no commit recorded {state.unrecorded_files[0]}, so that the metadata table may leave it out: readers that use that "
            "table, and those that list the folders, then see other rows"
        )
        return reason, "move it out of the table: no commit counts its rows"
    if not state.unclear_files:
        return None
    first, second = state.unclear_files[:2]
    reason = (
        f"{first} and {second} are base files of one file group and instant, and no commit says which of them counts"
    )
    return reason, "move the one away that the table's writer did not commit"


@Rule("files_stray", frozenset(), damage=Damage.FILES)
def files_stray(facts: Facts) -> Objection | None:
    """A base file beside the one that its commit recorded, which some readers take; a compaction merges the right one.

    See facts: two-base-files.
    """
    if not facts.state.stray_files:
        return None
    reason = (
        f"{facts.state.stray_files[0]} lies beside the base file that its commit recorded: readers without the metadata table "
        "may read it instead"
    )
    return reason, "move it out of the table; a compaction of its file group hides it too"


@Rule(
    "files_damaged",
    damage=Damage.FILES,
    passes=Passes.NEXT_READING,
    means="A data file is not as long as its commit recorded. Restore it, or roll the table back to a commit before it.",
)
def files_damaged(facts: Facts) -> Objection | None:
    """A data file that is not as long as its commit recorded: readers fail on it, or miss rows (facts: stat-file-size)."""
    damaged = [one for one in not_as_recorded(facts.state) if one.recorded_bytes is not None]
    if not damaged:
        return None
    first = damaged[0]
    reason = (
        f"{count_of(len(damaged), 'data file')} not as long as recorded by a commit, for example {first.name}: "
        f"{first.size_bytes} bytes, recorded were {first.recorded_bytes}"
    )
    return reason, "restore them, or roll the table back to a commit before them"


@Rule(
    "hidden_by_savepoint",
    damage=Damage.CONTENT,
    means="Stock Hudi hides rows that were committed after a savepoint. Delete the savepoint and let a writer commit "
    "until its commit is archived, too. See `etc explain upstream/beyond-savepoint`.",
)
def hidden_by_savepoint(facts: Facts) -> Objection | None:
    """What was committed between a savepoint and the first other active commit: stock Hudi hides it once archived.

    See facts: beyond-savepoint, savepoint-deleted. Before table version 8 a log file bears the instant of its slice, and its
    blocks that of a write.
    """
    state = facts.state
    kept = {one.requested for one in state.instants if one.has_savepoint}
    first = next(iter(not_left_behind(state.instants)), "")
    behind = min((file for file in state.hidden_blocks if file[0] > first), default=None)
    if behind is not None:
        reason = (
            f"{behind[1]} was committed at {behind[0]} and is archived, though {first}, which came before it, is not: stock Hudi "
            "does not show such rows"
        )
        return (
            reason,
            "let the writer commit until archiving has taken that one too; a savepoint of it that is gone had kept it",
        )
    if not kept:
        return None
    savepoint = min(kept)
    bases = ((one.base_instant, one.base_file or "") for one in state.slices)
    logs = ((one.requested, one.name) for _, one in state.log_files if facts.is_cut)
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
    return reason, hint


@Rule(
    "schema_hidden",
    means="The last write hides what ALTER TABLE made: renamed columns read NULL, and a compaction would lose their "
    "values. Let nobody compact. Roll that write back, or add a column by another ALTER TABLE. See `etc explain facts/schema`.",
)
def schema_hidden(facts: Facts) -> Objection | None:
    """The last write does not carry on what ALTER TABLE made: what readers miss since, a compaction would lose.

    See facts: schema-hidden.
    """
    lacking = find_lacking(facts.state.instants)
    if lacking is None:
        return None
    reason = f"{lacking.why}: readers show older values of renamed columns as NULL, and a compaction would lose them"
    hint = (
        "roll that write back, or add a column by another ALTER TABLE: either brings the values back. Then give all writers "
        "`hoodie.schema.on.read.enable=true`"
    )
    return reason, hint


@Rule(Code.UNREADABLE_TIMES, damage=Damage.CONTENT)
def unreadable_times(facts: Facts) -> Objection | None:
    """Texts, or all numbers, that are no times as the policy has them read: they could never be verified.

    See facts: spark-time-pattern.
    """
    found = facts.state.unreadable_time
    if found is None:
        return None
    column, pattern = facts.policy.event_time.column, facts.policy.event_time.format
    read = "that can be read" if pattern is None else f"of the format `{pattern}`"
    reason = f"`{found.value}` in column `{column}` of the file {found.file} is not a time {read}"
    return reason, unreadable_advice(facts.policy.event_time, found.value)


@Rule(Code.WRONG_UNIT, damage=Damage.CONTENT)
def wrong_unit_everywhere(facts: Facts) -> Objection | None:
    """Event times in another unit than the policy says: all of them are to come, and nothing would ever be due.

    See facts: impossible-times.
    """
    event_time = facts.policy.event_time
    found = wrong_unit(event_time, facts.state)
    if found is None:
        return None
    column, ahead = event_time.column, format_duration(event_time.ahead_ms)
    reason = (
        f"every event time that is known of column `{column}` is later than its commit by more than {ahead}: "
        f"{found.file} holds {format_time(found.event_time_ms)} "
        f"in the unit `{event_time.unit}`"
    )
    return reason, unit_advice(found.fitting, column)


@Rule("unbounded_event_times", frozenset(), damage=Damage.CONTENT)
def unbounded_event_times(facts: Facts) -> Objection | None:
    """A log file that a compaction carried or split off: its rows came before, and what was promised of them is not known."""
    name = next((one.name for _, one in facts.state.log_files if one.may_hold_anything), None)
    if name is None:
        return None
    reason = f"event times in {name} are unknown, and nothing bounds them: no compaction that is known promises anything of it"
    return reason, "`etc apply` compacts it; without `--metadata-only` its event times are read"


@Rule(
    "zone_changed",
    frozenset({Moment.PUBLISH}),
    means="The saved plan was made in another time zone. Plan and apply with the same `TZ`, that of the writers.",
    mended_by=_OPERATOR,
)
def zone_changed(facts: Facts) -> Objection | None:
    """The plan's instants mean other times now: another `TZ`, or another machine (facts: instant-zone)."""
    seen, here = facts.seen, facts.state.timezone
    if seen is None or seen.timezone is None:
        return None
    planned = seen.timezone
    if all(_same_time(one, planned, here) for one in (facts.instant, seen.last_completed) if one):
        return None
    reason = f"the plan was made with the table's instants in zone {planned}, and here they are read in {here}"
    return reason, "plan and apply with the same `TZ`: that of the table's writers"


def _same_time(instant: str, one: str, other: str) -> bool:
    return instant_to_ms(instant, ZoneInfo(one)) == instant_to_ms(instant, ZoneInfo(other))


#: What helps against a wrong completion time.
MEND_WRONG_TIME = "`etc explain repair` says how its file is renamed, and what to do where it may not be"


@Rule(
    "wrong_time",
    _WHILE_WRITING,
    damage=Damage.TIMES,
    means="The completion time of a commit cannot be true: its writer was in another time zone, or clocks were set back "
    "while it wrote and readers may not see all of it. The message says the true time, as far as it is known, and whether "
    "the file may be renamed to it. See `etc explain repair`.",
    mended_by=_OPERATOR,
)
def wrong_time(facts: Facts) -> Objection | None:
    """A completion time that cannot be true: before its request, so that readers may not see it, or still to come.

    One that hides nothing, as where a clock was set back, is no reason. See facts: wrong-completion-time, set-back-while-writing.
    """
    wrong = (one for one in facts.state.wrong_times if not one.late or one.is_future(facts.now))
    found = next((one for one in wrong if not one.is_harmless), None)
    return (f"{found.what}; {found.truth}", MEND_WRONG_TIME) if found is not None else None


@Rule(
    "writers_zone",
    _WHILE_WRITING,
    damage=Damage.TIMES,
    means="The writers are in another time zone than etc, or in two. Run all of them, and etc, with one `TZ`. See "
    "`etc explain zones`.",
    mended_by=_WRITERS,
)
def writers_elsewhere(facts: Facts) -> Objection | None:
    """Instants in local time that the files' times show to be of another zone, or of two: C and all lags would be wrong.

    See facts: instant-zone.
    """
    reason = facts.state.zone_fault
    return None if reason is None else (reason, MEND_ZONE)


#: What helps against writers in another zone.
MEND_ZONE = (
    "run etc with the `TZ` of the table's writers; where theirs differ, run all with one: "
    "some 20 new commits then clear this"
)


@Rule(
    "clock_behind",
    _WHILE_WRITING,
    damage=Damage.TIMES,
    means="The last commit is ahead of this machine's clock. Run etc with the `TZ` of the writers, or set the clock. See "
    "`etc explain zones`.",
    mended_by=_OPERATOR,
)
def clock_behind(facts: Facts) -> Objection | None:
    """Instants ahead of our clock come from another time zone or clock: C and every lag would be wrong by as much.

    See facts: instant-zone.
    """
    state, now = facts.state, facts.now
    last = state.last_completed
    if last is None or parse_instant(last) - parse_instant(now) <= CLOCK_TOLERANCE:
        return None
    reason = (
        f"the table's last instant completed at {last}, ahead of this machine's clock ({now} in zone {state.timezone})"
    )
    if state.zone is not None and state.zone.certainty == "declared":
        return (
            reason,
            "compare this machine's clock with those of the writers: the table declares UTC, so `TZ` changes nothing",
        )
    return reason, "if its writers use another time zone, run etc with the environment variable `TZ` set to theirs"


@Rule(
    "not_a_day",
    means="`strategy.type` is `day_based`, and a partition is not a day as `yyyy/MM/dd`. Choose another type. See "
    "`etc explain strategies`.",
    mended_by=_AUTHOR,
)
def not_a_day(facts: Facts) -> Objection | None:
    """A partition that is not a day: Hudi's planner fails on it (facts: strategy-steps)."""
    other = partition_of_no_day(facts.state) if facts.policy.strategy.type == "day_based" else None
    if other is None:
        return None
    reason = f"the partition `{other}` is not a day as `yyyy/MM/dd`, and `day_based` chooses by days"
    return reason, "choose another `strategy.type`, for example `partition_regex`"


# these are given while a plan is built
_ROWS += (
    Rule(
        "unknown_left_out",
        means="A log file without a known event time is due, and `strategy` or a busy writer leaves it out, so that no T "
        "would be true. The hint names the cause and what to change.",
        mended_by=_AUTHOR,
    ),
    Rule(
        "not_exact",
        passes=Passes.OTHERS_END,
        by_writers=True,
        means="`granularity: record` is set, and writers keep slices out that are due. Plan again when they pause, or set "
        "`granularity: log_file`.",
        mended_by=_WRITERS,
    ),
    Rule(
        "too_young",
        passes=Passes.NEXT_RUN,
        means="A write has completed within the bound on clock skew. Plan again in a second.",
        mended_by=_NOBODY,
    ),
)


@_spoils("properties_changed", Moment.PUBLISH)
def other_properties(facts: Facts) -> Iterator[str]:
    """Properties of the table that are not those which the plan has seen."""
    if facts.seen is not None and facts.state.properties_fingerprint != facts.seen.properties_fingerprint:
        yield "hoodie.properties changed"


@_spoils("work_begun", Moment.PUBLISH)
def work_begun(facts: Facts) -> Iterator[str]:
    """A service, or a write on a table version without a cut, that is pending."""
    for pending in facts.state.pending:
        if pending.action in BLOCKING_ACTIONS:
            yield f"a {BLOCKING_ACTIONS[pending.action]} at {pending.requested} is pending"
        elif not facts.is_cut and pending.action in ("commit", "deltacommit"):
            yield f"a writer that began at {pending.requested} is in flight, and this table version has no cut"


@_spoils("writers_before", Moment.PUBLISH)
def writers_before(facts: Facts) -> Iterator[str]:
    """Writers in flight from before C."""
    for writer in sorted(w for w in facts.state.begun_writes if w < facts.instant):
        yield f"a writer that began at {writer}, before the plan's instant, is still in flight"


@_spoils("unseen_instants", Moment.PUBLISH)
def unseen_instants(facts: Facts) -> Iterator[str]:
    """What completed on the chosen file groups, or before C, and the plan has not seen."""
    seen = set(facts.seen.instants_completed) if facts.seen else set()
    chosen = {operation.file_id for operation in facts.operations}
    for done in facts.state.instants:
        if done.state != "completed" or done.requested in seen:
            continue
        if done.action in SERVICE_ACTIONS and (done.file_ids is None or not chosen.isdisjoint(done.file_ids)):
            yield f"a {done.action} at {done.requested} completed on the chosen file groups"
        elif (done.completed or done.requested) < facts.instant and done.action not in WITHOUT_DATA:
            yield f"a {done.action} at {done.requested} completed before the plan's instant, and the plan had not seen it"


@_spoils("schema_altered", Moment.PUBLISH)
def schema_altered(facts: Facts) -> Iterator[str]:
    """A schema that was altered: Hudi merges by that of the last write before C (facts: schema-of-the-cut)."""
    if (lacking := find_lacking(facts.state.instants, facts.instant)) is not None:
        yield f"{lacking.why}, and Hudi would lose values by merging at {facts.instant}"


@_spoils("later_instants", Moment.PUBLISH)
def later_instants(facts: Facts) -> Iterator[str]:
    """Before table version 8: what came after C, where it may have changed what the plan merges under the same name.

    A slice begins with carried log files: nothing may have been written after it before it is known. And a log file to which
    writers append has its name still (facts: version-6-writer-in-flight, append-schemes).
    """
    if facts.is_cut or not (facts.carries or facts.state.logs_grow):
        return
    named = (one for one in facts.state.instants if facts.carries or one.action not in WITHOUT_DATA)
    last = max((one.requested for one in named), default="")
    if last >= facts.instant:
        yield f"an instant at {last} is not before the plan's"


@_spoils("cut_moved", Moment.PUBLISH)
def cut_moved(facts: Facts) -> Iterator[str]:
    """The guards that would move C now: what came in since planning may need it elsewhere."""
    if not facts.is_cut:
        return
    chosen, state = {operation.group for operation in facts.operations}, facts.state
    slices = tuple(file_slice for file_slice in state.slices if file_slice.group in chosen)
    cut = Cut.of(slices, state, facts.policy.hudi_options)
    for guard in (guard for guard in GUARDS if guard.is_asked_again):
        raised = guard.raised(cut, facts.instant)
        if raised is not None:
            yield f"the plan's instant {facts.instant} is no longer valid: {raised.why}"


@_spoils("slices_changed", Moment.PUBLISH)
def slices_changed(facts: Facts) -> Iterator[str]:
    """Slices that are not as the plan found them (facts: prefix-not-pick)."""
    return _changed_slices(facts)


def _changed_slices(facts: Facts) -> Iterator[str]:
    """Where the operations are not all that their slices held at C: what is left out from before C is lost."""
    slices = {file_slice.group: file_slice for file_slice in facts.state.slices}
    for operation in facts.operations:
        found = slices.get(operation.group)
        if found is None:
            yield f"file group {operation.file_id} in `{operation.partition}` is gone"
        elif (found.base_file, found.base_instant) != (operation.base_file, operation.base_instant):
            yield f"file group {operation.file_id} in `{operation.partition}` has a new base file"
        elif not _has_as_planned(operation, found, facts):
            yield f"the log files of file group {operation.file_id} in `{operation.partition}` changed"


def _has_as_planned(operation: Operation, found: FileSlice, facts: Facts) -> bool:
    """Whether the slice held what the operation merges and carries; what bears C in its name was added to the next one."""
    instant = facts.instant
    files = compacted(found, instant) if facts.is_cut else [f for f in found.log_files if f.requested != instant]
    sizes = {log_file.name: log_file.size_bytes for log_file in files}
    if sizes.keys() != {*operation.log_files_compacted, *(one.target for one in operation.carried)}:
        return False
    return all(sizes[one.target] == one.size_bytes for one in operation.carried)


@_spoils("files_gone", Moment.PENDING)
def files_gone(facts: Facts) -> Iterator[str]:
    """A file that the plan would merge and that is gone, or was altered."""
    yield from (f"its file {name} is gone or was altered" for name in facts.files_gone[:1])


@_spoils("archive_passed", Moment.PENDING)
def archiving_passed(facts: Facts) -> Iterator[str]:
    """Archiving that has passed C: readers see no compaction before the first active commit (facts: archive-passed)."""
    if archive_passed(facts.state.instants, facts.instant):
        yield "archiving has passed it"


@_spoils("wrong_schema", Moment.COMMIT, Moment.PENDING, hint=_AS_IT_IS)
def wrong_schema(facts: Facts) -> Iterator[str]:
    """Another schema than a later write carries, by which Hudi would merge (facts: schema-one-rule)."""
    if facts.wrong_schema is not None:
        yield f"{facts.wrong_schema}, and Hudi would lose values by it"


@_spoils("rolled_back", Moment.COMMIT, hint=_AS_IT_IS)
def rolled_back(facts: Facts) -> Iterator[str]:
    """What a rollback has taken of what was merged, however far that has come (facts: planned-file-rolled-back)."""
    if facts.rolled_back is not None:
        yield facts.rolled_back


@_spoils("changed_since_carried", Moment.COMMIT, hint=_AT_REST)
def changed_since_carried(facts: Facts) -> Iterator[str]:
    """Old slices that are not as log files were carried, or rows split, from them, or may not stay so.

    See facts: version-6-writer-in-flight.
    """
    if facts.is_cut and not facts.carries:
        return
    for write in facts.state.writes_in_flight:
        if write.may_live and write.requested < facts.instant:
            yield f"a writer that began at {write.requested}, before the compaction's instant, has not ended"
    yield from _changed_slices(facts)


@_spoils("changed_or_overtaken", Moment.PENDING)
def changed_or_overtaken(facts: Facts) -> Iterator[str]:
    """Slices that changed, or to whose deletes writers add: before version 8 what they add forbids to take the plan back.

    At the commit `Fence` waits for writers first (facts: delete-rule-until-commit).
    """
    yield from _changed_slices(facts)
    if facts.is_cut:
        overtaken = find_overtaken(facts.policy, facts.operations, facts.state)
        yield from (one.why for one in overtaken if not one.waits)


RULES: tuple[Rule, ...] = tuple(_ROWS)


def _row_of(code: str | None) -> Rule | None:
    return next((rule for rule in RULES if rule.code == code), None)


def objections(moment: Moment, facts: Facts, *, spoils: bool) -> Iterator[Refusal]:
    """What the rules of that moment object: those that spoil a plan, or the others."""
    asked = (rule.check for rule in RULES if moment in rule.moments and rule.spoils is spoils and rule.check)
    return (found for check in asked if (found := check(facts)) is not None)


def first_objection(moment: Moment, facts: Facts, *, spoils: bool = False) -> Refusal | None:
    """The one that users see."""
    return next(objections(moment, facts, spoils=spoils), None)


def why_refused(policy: Policy, state: TableState, clock_ms: int) -> Refusal | None:
    """Why no compaction of the table may be planned, whatever is due; None where one may."""
    return first_objection(Moment.PLAN, Facts(policy, state, clock_ms))


def why_unknown(policy: Policy, state: TableState, clock_ms: int) -> Refusal | None:
    """Why the table's metadata do not show how far RO is complete, whatever is pending on it; None where they do."""
    facts, rules = Facts(policy, state, clock_ms), (rule for rule in RULES if rule.damage)
    ordered = sorted(rules, key=lambda rule: rule.damage)
    return next((found for rule in ordered if rule.check and (found := rule.check(facts)) is not None), None)


def find_stale(policy: Policy, table: TablePlan, state: TableState, *, published: bool = False) -> tuple[str, ...]:
    """What changed since planning that makes the plan wrong; empty when it may be published, or may stay `published`.

    A published plan that a stock compaction has begun or completed meanwhile is not stale: it is being carried out.
    """
    if published:
        if any(i.requested == table.instant and i.state == "completed" for i in state.instants):
            return ()
        state = replace(state, instants=tuple(i for i in state.instants if i.requested != table.instant))
    facts = facts_of_plan(policy, table, state, None)
    return tuple(found.reason for found in objections(Moment.PUBLISH, facts, spoils=True))


def facts_of_plan(policy: Policy, table: TablePlan, state: TableState, clock_ms: int | None) -> Facts:
    """What the rules look at where a plan is to be published."""
    return Facts(policy, state, clock_ms, table.instant or "", table.operations, table.seen)


def passing(code: str | None) -> Passes:
    """How a refusal ends that has this code; one by an error of a reading may not be met again where its exit code says so."""
    if (rule := _row_of(code)) is not None:
        return rule.passes
    known = next((one for one in Code if one == code), None)
    return Passes.NEXT_RUN if known is not None and known.ends.exit_code == 4 else Passes.NO


def is_by_writers(code: str | None) -> bool:
    """Whether a refusal with this code is there only while a write is in flight."""
    rule = _row_of(code)
    return rule is not None and rule.by_writers


def may_pass(code: str | None) -> bool:
    """Whether another run may not meet a refusal with this code."""
    return passing(code) in (Passes.NEXT_RUN, Passes.OTHERS_END)


def explain_refusal(code: str) -> str | None:
    """What the word of a refusal means (`etc explain schema_hidden`), a summary first; None for what is not one."""
    rule = _row_of(code := code.strip().lower())
    if rule is None or not rule.means:
        return None
    what, exit_code = (
        f"{Code.CANNOT_COMPACT_NOW} ({rule.code})  {Code.CANNOT_COMPACT_NOW.summary}",
        4 if may_pass(code) else 3,
    )
    return (
        f"{what}\n\n{rule.means} Who acts: {rule.mended_by}. Run it again: {rule.passes.value}. Exit code {exit_code}."
    )


def refusal_words() -> list[str]:
    """The words that `explain_refusal` knows."""
    return [rule.code for rule in RULES if rule.means]


def damage_of(code: str) -> Damage:
    """What a refusal with this code says of the table."""
    rule = _row_of(code)
    return rule.damage if rule else Damage.NONE


def without_watermark(refused: TablePlan, why: Reason) -> TablePlan:
    """The plan without what it would say of completeness, and of what its file slices hold; it says why not."""
    other = () if why.code == refused.reason_code else (f"how far RO is complete is not known: {why.reason}",)
    return refused.model_copy(
        update={
            "watermark_known": False,
            "watermark_before_ms": None,
            "watermark_after_ms": None,
            "watermark_assumed": False,
            "held_back_by": None,
            "left_out": (),
            "warnings": (*other, *refused.warnings),
        }
    )
