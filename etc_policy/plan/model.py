"""The plan: all that can be done to a table, decided before anything is touched. A plan is JSON and is never edited."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from etc_policy.errors.codes import Code
from etc_policy.plan.pace import Pace
from etc_policy.policy.manifest import Frozen, GitState, Granularity, LatencyEvidence, digest
from etc_policy.table.write_growth import WriteGrowth

PLAN_SCHEMA_VERSION = 1

#: The table version in the plan of a table that could not be read: nothing is known of it.
UNREAD_VERSION = 0

Action = Literal["compact", "nothing_due", "refused"]
#: The reason code of a plan that has nothing to do as its boundary of `strategy.at` was published before.
PUBLISHED = "published"
#: `due_but_refused`: would be compacted if the table could be. `due_but_written_to`: has deletes to compact, and writers kept
#: adding to it while earlier tries were at work. `due_but_behind_a_writer`: no instant before the oldest write in flight can
#: merge all of it that is due. `due_but_beyond_hold`: for a later run, as writers are kept out for `writer.hold` at most.
#: `due_but_in_other_partitions`: not one of the policy's. `due_but_beyond_budget`: for a later
#: run, as `max_io` is used up. `due_but_not_chosen`: a strategy of Hudi's own does not take it.
#: The others have nothing at or below T in log files.
SkipReason = Literal[
    "due_but_refused",
    "due_but_written_to",
    "due_but_behind_a_writer",
    "due_but_beyond_hold",
    "due_but_in_other_partitions",
    "due_but_beyond_budget",
    "due_but_not_chosen",
    "newer_than_threshold",
    "no_log_files",
]


_BY_POLICY = ("due_but_in_other_partitions", "due_but_beyond_budget", "due_but_not_chosen")
#: What a plan does to a table. T, C and the names of carried log files follow from it and from the time of planning.
_DONE: dict[str, Any] = {
    **dict.fromkeys(("policy", "policy_fingerprint", "base_path", "table_version", "action", "reason_code"), True),
    "operations": {"__all__": {"partition", "file_id", "base_instant", "log_files_compacted"}},
}
_LEFT_OUT = ("due_but_written_to", "due_but_behind_a_writer", "due_but_beyond_hold", *_BY_POLICY)


class CarriedFile(Frozen):
    """A log file that stays, and its name in the slice that the compaction begins (table version 6)."""

    name: str
    target: str
    size_bytes: int


class SplitInput(Frozen):
    """A log file that is merged: of it an extract of so many bytes with the rows at or before T, or all where that is None."""

    name: str
    extract_bytes: int | None = None


class SplitSlice(Frozen):
    """What a split by record has made of a slice: what is merged, in merge order, and the bytes of its rows after T."""

    inputs: tuple[SplitInput, ...]
    remainder_bytes: int


class Operation(Frozen):
    """One file slice: the log files merged into its new base file and those that stay behind; names in merge order.

    Of the merged ones `due_log_files` must be (an event at or below T, or `unknown_log_files` of them whose event times
    nobody knows); the others come along because a slice is compacted up to its last due log file and up to C.
    `oldest_event_ms` is the smallest known event time that is merged, `remaining_from_ms` the smallest that stays. Before
    table version 8 each one that stays is `carried` into the new slice. With `granularity: record` those in
    `straddling` hold rows after T, or may: they are split before the plan is published, which `split` describes. Rows after T
    go into the log file `remainder`; it has no name where a slice is merged whole.
    """

    partition: str
    file_id: str
    base_instant: str
    base_file: str | None
    log_files_compacted: tuple[str, ...]
    log_files_remaining: tuple[str, ...]
    bytes_read: int
    bytes_written_estimate: int
    log_bytes_compacted: int
    due_log_files: int = 0
    unknown_log_files: int = 0
    oldest_event_ms: int | None = None
    remaining_from_ms: int | None = None
    carried: tuple[CarriedFile, ...] = ()
    straddling: tuple[str, ...] = ()
    remainder: str | None = None
    split: SplitSlice | None = None

    @property
    def adds_log_files(self) -> bool:
        """Whether log files are added to the new slice: carried ones (table version 6), or rows that are split off."""
        return bool(self.carried or self.remainder)

    @property
    def added_log_files(self) -> tuple[tuple[str, int], ...]:
        """The names and bytes of the log files that etc adds to the new slice."""
        carried = tuple((one.name, one.size_bytes) for one in self.carried)
        if self.remainder is None or self.split is None or not self.split.remainder_bytes:
            return carried
        return (*carried, (self.remainder, self.split.remainder_bytes))

    @property
    def group(self) -> tuple[str, str]:
        """Its file group: partition and file id."""
        return self.partition, self.file_id


class LaterRows(Frozen):
    """Base files with rows after T, which RO shows whatever is compacted: these have `rows_at_most` of them together.

    Of `unknown_base_files` it is not known whether they have such rows.
    """

    base_files: int
    rows_at_most: int
    unknown_base_files: int


class Move(Frozen):
    """One step by which a guard raised C: by which rule, and the file or instant that it met."""

    guard: str
    before: str
    after: str
    why: str
    witness: str | None = None


class PendingWork(Frozen):
    """What a refused table waits for: the write or service that began, or was requested, at `instant`."""

    instant: str = Field(pattern=r"^[0-9]{14,17}$")
    action: str
    is_begun: bool = True


class SkippedSlice(Frozen):
    """A file slice that is not compacted; `earliest_event_ms` is None where no event time of it is known."""

    partition: str
    file_id: str
    log_files: int
    log_bytes: int
    earliest_event_ms: int | None


class SkippedSlices(Frozen):
    """All file slices that are not compacted for one reason, with the ones named whose events come first."""

    reason: SkipReason
    file_slices: int
    log_files: int
    log_bytes: int
    nearest: tuple[SkippedSlice, ...] = ()


class SeenState(Frozen):
    """What the plan was made from; `etc apply` refuses when the table no longer agrees with it.

    `timezone` is the IANA zone in which the table's instants were read. `oldest_writer` is the write in flight that began
    first: what it may add to is left out, so the plan cannot be made again without it. `write_growth` is what the plan's
    estimates were learned from; nothing else depends on it but what fits a budget.
    """

    properties_fingerprint: str
    last_completed: str | None
    instants_completed: tuple[str, ...]
    timezone: str | None = None
    oldest_writer: str | None = None
    write_growth: WriteGrowth | None = None


class TablePlan(Frozen):
    """What is to be done to one table, and why.

    `threshold_ms` is T, `instant` is C. `watermark_*_ms` are None when no log file would hold RO back, and
    `watermark_assumed` says that the later one is bounded by when its file was written, not by known event times. Where
    the state of a refused table is not known, or a verification has found it wrong, `watermark_known` is false: nothing is
    said then of how far RO is complete, and what `watermark_*_ms` say goes by metadata alone.
    `policy_values` is the policy by dotted key, `policy_changes` what changed in it since the table's last compaction.
    `reason` says why nothing is done; `reason_code` names it for machines. T is `now_ms` less `data_latency_ms`, or the
    last boundary of `strategy.at` before that; where file slices are left out that are due, T is before all that these may
    hold. C began at `instant_start`, and `moves` (as texts: `notes`) say how guards raised it. `left_out` counts every other file
    slice.
    The other granularity would merge `other_log_bytes` of log files of the same slices, None where the table has no other.
    By a `pace` T is before all that slices hold which can wait for a later run, chosen slices are merged up to `now_ms` less
    `data_latency_ms` all the same, and until `next_due_ms` no run is needed. With `stock_options` slices are chosen as Hudi's
    planner does by these options, whatever their event times. `new_from` is the namespace that found a table of which etc has
    compacted nothing and keeps nothing yet. `release` is the one of Hudi that takes the table, None where the name of its
    bundle does not say it. `latency_evidence` is what a `data_latency` rests on that was learned.
    """

    policy: str
    policy_fingerprint: str
    policy_values: dict[str, str] = Field(default_factory=dict)
    policy_changes: tuple[str, ...] = ()
    base_path: str
    new_from: str | None = None
    table_version: int
    release: str | None = None
    granularity: Granularity
    stock_options: dict[str, str] = Field(default_factory=dict)
    action: Action
    reason: str | None = None
    reason_code: str | None = None
    #: What the refusal waits for, where that is one thing.
    pending: PendingWork | None = None
    threshold_ms: int
    instant: str | None = None
    watermark_before_ms: int | None = None
    watermark_after_ms: int | None = None
    watermark_assumed: bool = False
    watermark_known: bool = True
    unknown_log_files: int = 0
    held_back_by: str | None = None
    operations: tuple[Operation, ...] = ()
    other_log_bytes: int | None = None
    #: What writers have put straight into base files; only where RO is to be the table as of T.
    later_rows: LaterRows | None = None
    seen: SeenState
    now_ms: int | None = None
    data_latency_ms: int | None = None
    latency_evidence: LatencyEvidence | None = None
    pace: Pace | None = None
    next_due_ms: int | None = None
    instant_start: str | None = None
    moves: tuple[Move, ...] = ()
    left_out: tuple[SkippedSlices, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()

    @property
    def error_code(self) -> str | None:
        """The code of the error that a refusal is; None where nothing is refused."""
        if self.action != "refused":
            return None
        code = self.reason_code or ""
        return code if code.startswith("ETC") else Code.CANNOT_COMPACT_NOW

    @property
    def left_out_though_due(self) -> int:
        """How many file slices a compaction leaves out though they are due."""
        return sum(one.file_slices for one in self.left_out if one.reason in _LEFT_OUT)

    @property
    def left_out_by_policy(self) -> int:
        """How many of these the policy leaves out: beyond its budget, or not in its partitions."""
        return sum(one.file_slices for one in self.left_out if one.reason in _BY_POLICY)


class Plan(Frozen):
    """A saved plan over one or more tables.

    `plan_id` is a hash of what it does: two plans have the same one where nothing changed but the time. `checksum` is one of
    the whole plan, so an edited file is noticed.
    """

    schema_version: int = PLAN_SCHEMA_VERSION
    plan_id: str
    checksum: str = ""
    created_at: str
    git: GitState | None = None
    tables: tuple[TablePlan, ...]

    @property
    def computed_checksum(self) -> str:
        """The checksum that the plan should have."""
        return digest(self.model_dump(mode="json", exclude={"checksum"}))

    @property
    def has_changes(self) -> bool:
        """Whether applying the plan would change a table."""
        return any(table.action == "compact" for table in self.tables)

    def renewed(self, newer: Plan) -> Plan:
        """The plan with the tables of a newer one in the place of its own for the same policies."""
        found = {table.policy: table for table in newer.tables}
        return make_plan(newer.created_at, tuple(found.get(table.policy, table) for table in self.tables), newer.git)


def make_plan(created_at: str, tables: tuple[TablePlan, ...], git: GitState | None = None) -> Plan:
    """A plan with its id and checksum; `created_at` is ISO 8601."""
    plan_id = digest([table.model_dump(mode="json", include=_DONE) for table in tables])
    draft = Plan(plan_id=plan_id, created_at=created_at, git=git, tables=tables)
    return draft.model_copy(update={"checksum": draft.computed_checksum})
