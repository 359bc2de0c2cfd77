"""The rules by which a table is not compacted, or nobody knows how far RO is complete: one table of them.

`RULES` says of each when it is asked, what it means for the plan and for the table, and whether it passes. Two checks are
elsewhere: `no_cut` gives `cannot_carry` too, and whether writers have overtaken a plan is asked by `Fence` before the commit,
as it waits for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum, IntEnum

from etc_policy.errors.codes import Code
from etc_policy.plan import refusals, staleness
from etc_policy.plan.cut import archive_passed
from etc_policy.plan.delete_rule import find_overtaken
from etc_policy.plan.model import TablePlan
from etc_policy.plan.refusals import Facts, Reason, Refusal
from etc_policy.plan.stock_choice import days_refusal
from etc_policy.policy.manifest import Policy
from etc_policy.table.state import TableState


class Moment(Enum):
    """When a rule is asked: for a new plan, before one is published, before its commit, or of one that was left pending."""

    PLAN = "plan"
    PUBLISH = "publish"
    COMMIT = "commit"
    PENDING = "pending"


class Damage(IntEnum):
    """Why nobody knows how far RO is complete; what is said first comes first.

    What is FILES fails `check_files` of verification, which shows it; any other is said instead of a verdict.
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


_Check = Callable[[Facts], Refusal | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """A reason not to compact a table: its code, what it is asked of, and what it means.

    One without a `check` is given by the check of another one, or while the plan is built. Where it `spoils` a plan, that
    plan is not carried out any more: before it is committed another one is made. Any other rule stops the run. Whether it is
    `damage` is asked apart from any plan, whatever its moments. `means` says in plain words what is wrong and what to do, and
    `mended_by` who does it; of a rule that has a `Code` of its own that row says both.
    """

    code: str
    check: _Check | None = None
    moments: frozenset[Moment] = frozenset({Moment.PLAN})
    damage: Damage = Damage.NONE
    passes: Passes = Passes.NO
    spoils: bool = False
    means: str = ""
    mended_by: str = "table's owner"

    def __post_init__(self) -> None:
        """Nothing asks a new plan whether it is spoiled, and at a commit only that is asked."""
        never = Moment.PLAN if self.spoils else Moment.COMMIT
        if never in self.moments:
            raise ValueError(f"the rule {self.code} would never be asked at {never}")


def _of_table(check: Callable[[Policy, TableState], Refusal | None]) -> _Check:
    return lambda facts: check(facts.policy, facts.state)


def _spoils(code: str, find: Callable[[Facts], Iterator[str]], *moments: Moment, hint: str | None = None) -> Rule:
    """A rule about a plan that was made: all that it finds is said."""

    def check(facts: Facts) -> Refusal | None:
        found = tuple(find(facts))
        return Refusal(code, "; ".join(found), hint) if found else None

    return Rule(code, check, frozenset(moments), spoils=True)


def _files_gone(facts: Facts) -> Iterator[str]:
    yield from (f"its file {name} is gone or was altered" for name in facts.files_gone[:1])


def _archive_passed(facts: Facts) -> Iterator[str]:
    if archive_passed(facts.state.instants, facts.instant):
        yield "archiving has passed it"


def _wrong_schema(facts: Facts) -> Iterator[str]:
    if facts.wrong_schema is not None:
        yield f"{facts.wrong_schema}, and Hudi would lose values by it"


def _rolled_back(facts: Facts) -> Iterator[str]:
    if facts.rolled_back is not None:
        yield facts.rolled_back


def _slices_changed(facts: Facts) -> Iterator[str]:
    return staleness.changed_slices(facts.operations, facts.state, facts.instant)


def _changed_or_overtaken(facts: Facts) -> Iterator[str]:
    """Writers that add to a slice of deletes spoil a plan that can be taken back: before version 8 what they add forbids that."""
    yield from _slices_changed(facts)
    if facts.is_cut:
        overtaken = find_overtaken(facts.policy, facts.operations, facts.state)
        yield from (one.why for one in overtaken if not one.waits)


def _changed_since_carried(facts: Facts) -> Iterator[str]:
    if facts.carries or not facts.is_cut:
        yield from staleness.changed_since_carried(facts.operations, facts.state, facts.instant)


_AUTHOR, _OPERATOR, _WRITERS = "policy's author", "operator", "who runs the writers"
_NOBODY = "nobody: the next run"
_AT_REST = "nothing was committed; plan again when its writers are at rest"
_AS_IT_IS = "nothing was committed; plan again: the next plan goes by the table as it is now"
_WHILE_WRITING = frozenset({Moment.PLAN, Moment.PUBLISH, Moment.PENDING})

#: In the order in which they are asked: the first that objects to a table is the one that users see.
RULES: tuple[Rule, ...] = (
    Rule(
        "table_version",
        _of_table(refusals.unsupported_version),
        damage=Damage.FORMAT,
        means="The table's version is not 6, 8 or 9. Let a writer of Hudi 1.x upgrade version 7 to 8 or 9.",
    ),
    Rule(Code.NO_CUT, _of_table(refusals.no_cut)),
    Rule(
        "cannot_carry",
        means="`strategy.carry` is set, and log files of this table may not be carried; the message says why. Set "
        "`granularity: file_slice`. See docs/how-to/strategies.md.",
        mended_by=_AUTHOR,
    ),
    Rule(
        "cannot_split",
        _of_table(refusals.cannot_split),
        means="`granularity: record` is set, and rows of this table may not be split at T; the message says why. Set "
        "`granularity: log_file`. See docs/how-to/as-of.md.",
        mended_by=_AUTHOR,
    ),
    Rule(
        "pending_service",
        _of_table(refusals.pending_service),
        passes=Passes.OTHERS_END,
        means="A compaction, clustering, rollback or other service is pending. If a job is running it, it passes when that job "
        "completes it. If none is: `etc finish --select NAME` completes compactions, and starts Spark for it. Whoever "
        "scheduled a clustering or log compaction must carry it out, as no table shows its writers' choices; the hint of a plan "
        "has the call. A writer carries out rollbacks and restores.",
        mended_by=_WRITERS,
    ),
    Rule(
        "pending_own_plan",
        passes=Passes.NEXT_RUN,
        means="An earlier run of etc published a plan and did not complete it. The next `etc apply` finishes or withdraws it.",
        mended_by=_NOBODY,
    ),
    Rule(
        "carried_files_lost",
        _of_table(refusals.carried_files_lost),
        damage=Damage.CONTENT,
        means="Another job compacted the table and left out log files that etc had carried. Stop all writers and cleaning, "
        f"then read `etc explain {Code.NOT_IN_COMMIT}`.",
    ),
    Rule(
        "orphans_left",
        _of_table(refusals.orphans_left),
        means="Log files that etc carried or split off lie in the table without their plan. A run of `granularity: record` that "
        "is at work publishes its plan soon. What a killed one left `etc apply` removes, and `etc undo` does.",
        mended_by=_OPERATOR,
    ),
    Rule(
        "writer_in_flight",
        _of_table(refusals.writer_in_flight),
        passes=Passes.OTHERS_END,
        means="A write is in flight that the compaction would have to wait for, or writers keep adding to every file slice "
        "whose deletes are due. It passes when they commit or pause. If a write has failed, end or restart its process. A "
        "table of version 6 is planned between two batches only (docs/how-to/writers.md). If your writers never pause, see "
        "docs/how-to/locks.md.",
        mended_by=_WRITERS,
    ),
    Rule(
        "base_file_format",
        _of_table(refusals.base_file_format),
        means="The base files are not Parquet, and Hudi on Spark cannot compact others. Write the table anew with Parquet.",
    ),
    Rule(Code.NO_META_COLUMNS, _of_table(refusals.no_meta_columns)),
    Rule(Code.UNFIT_BUNDLE, _of_table(refusals.bundle_unfit)),
    Rule(
        "files_missing",
        _of_table(refusals.files_missing),
        damage=Damage.FILES,
        passes=Passes.NEXT_READING,
        means="A data file that a commit wrote is gone. Restore it, or roll the table back to a commit before it.",
    ),
    Rule(
        "files_unclear",
        _of_table(refusals.files_unclear),
        damage=Damage.FILES,
        means="A task that was tried again, or a rollback, has left a file: two base files have one file group and instant, and "
        "no commit says which of them counts, or no commit recorded a file, in a table with a metadata table. Move the one away "
        "that was not committed.",
    ),
    Rule(
        "files_damaged",
        _of_table(refusals.files_damaged),
        damage=Damage.FILES,
        passes=Passes.NEXT_READING,
        means="A data file is not as long as its commit recorded. Restore it, or roll the table back to a commit before it.",
    ),
    Rule(
        "hidden_by_savepoint",
        _of_table(refusals.hidden_by_savepoint),
        damage=Damage.CONTENT,
        means="Stock Hudi hides rows that were committed after a savepoint. Delete the savepoint and let a writer commit "
        "once. See docs/upstream/beyond-savepoint.md.",
    ),
    Rule(
        "schema_hidden",
        _of_table(refusals.schema_hidden),
        means="The last write hides what ALTER TABLE made: renamed columns read NULL, and a compaction would lose their "
        "values. Let nobody compact. Roll that write back, or add a column by another ALTER TABLE. See docs/facts/schema.md.",
    ),
    Rule(Code.UNREADABLE_TIMES, _of_table(refusals.unreadable_times), damage=Damage.CONTENT),
    Rule(Code.WRONG_UNIT, _of_table(refusals.wrong_unit_everywhere), damage=Damage.CONTENT),
    Rule("unbounded_event_times", _of_table(refusals.unbounded_event_times), frozenset(), damage=Damage.CONTENT),
    Rule(
        "zone_changed",
        refusals.zone_changed,
        frozenset({Moment.PUBLISH}),
        means="The saved plan was made in another time zone. Plan and apply with the same `TZ`, that of the writers.",
        mended_by=_OPERATOR,
    ),
    Rule(
        "wrong_time",
        refusals.wrong_time,
        _WHILE_WRITING,
        damage=Damage.TIMES,
        means="The completion time of a commit cannot be true: its writer was in another time zone, or clocks were set back "
        "while it wrote and readers may not see all of it. The message says the true time, as far as it is known, and whether "
        "the file may be renamed to it. See docs/how-to/repair.md.",
        mended_by=_OPERATOR,
    ),
    Rule(
        "writers_zone",
        lambda facts: refusals.writers_elsewhere(facts.state),
        _WHILE_WRITING,
        damage=Damage.TIMES,
        means="The writers are in another time zone than etc, or in two. Run all of them, and etc, with one `TZ`. See "
        "docs/concepts/zones.md.",
        mended_by=_WRITERS,
    ),
    Rule(
        "clock_behind",
        refusals.clock_behind,
        _WHILE_WRITING,
        damage=Damage.TIMES,
        means="The last commit is ahead of this machine's clock. Run etc with the `TZ` of the writers, or set the clock. See "
        "docs/concepts/zones.md.",
        mended_by=_OPERATOR,
    ),
    Rule(
        "not_a_day",
        _of_table(days_refusal),
        means="`strategy.type` is `day_based`, and a partition is not a day as `yyyy/MM/dd`. Choose another type. See "
        "docs/how-to/strategies.md.",
        mended_by=_AUTHOR,
    ),
    Rule(
        "unknown_left_out",
        means="A log file without a known event time is due, and `strategy` or a busy writer leaves it out, so that no T "
        "would be true. The hint names the cause and what to change.",
        mended_by=_AUTHOR,
    ),
    Rule(
        "not_exact",
        passes=Passes.OTHERS_END,
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
    _spoils("properties_changed", staleness.other_properties, Moment.PUBLISH),
    _spoils("work_begun", staleness.work_begun, Moment.PUBLISH),
    _spoils("writers_before", staleness.writers_before, Moment.PUBLISH),
    _spoils("unseen_instants", staleness.unseen_instants, Moment.PUBLISH),
    _spoils("schema_altered", staleness.schema_altered, Moment.PUBLISH),
    _spoils("later_instants", staleness.later_instants, Moment.PUBLISH),
    _spoils("cut_moved", staleness.cut_moved, Moment.PUBLISH),
    _spoils("slices_changed", _slices_changed, Moment.PUBLISH),
    _spoils("files_gone", _files_gone, Moment.PENDING),
    _spoils("archive_passed", _archive_passed, Moment.PENDING),
    _spoils(
        "wrong_schema",
        _wrong_schema,
        *(Moment.COMMIT, Moment.PENDING),
        hint=_AS_IT_IS,
    ),
    _spoils("rolled_back", _rolled_back, Moment.COMMIT, hint=_AS_IT_IS),
    _spoils("changed_since_carried", _changed_since_carried, Moment.COMMIT, hint=_AT_REST),
    # at the commit `Fence` waits for writers first
    _spoils("changed_or_overtaken", _changed_or_overtaken, Moment.PENDING),
)
_BY_CODE = {rule.code: rule for rule in RULES}


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
    if code in _BY_CODE:
        return _BY_CODE[code].passes
    known = next((one for one in Code if one == code), None)
    return Passes.NEXT_RUN if known is not None and known.ends.exit_code == 4 else Passes.NO


def may_pass(code: str | None) -> bool:
    """Whether another run may not meet a refusal with this code."""
    return passing(code) in (Passes.NEXT_RUN, Passes.OTHERS_END)


def explain_refusal(code: str) -> str | None:
    """What the word of a refusal means (`etc explain schema_hidden`), a summary first; None for what is not one."""
    rule = _BY_CODE.get(code := code.strip().lower())
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
    return _BY_CODE[code].damage if code in _BY_CODE else Damage.NONE


def claiming_nothing(refused: TablePlan, why: Reason) -> TablePlan:
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
