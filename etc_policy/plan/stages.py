"""The plan: all that can be done to a table, decided before anything is touched. A plan is JSON and is never edited."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from etc_policy.compile.manifest import Frozen, Granularity, digest

PLAN_SCHEMA_VERSION = 1

#: The table version in the plan of a table that could not be read: nothing is known of it.
UNREAD_VERSION = 0

Action = Literal["compact", "nothing_due", "refused"]


class Operation(Frozen):
    """One file slice: the log files merged into its new base file and those that stay behind; names in merge order."""

    partition: str
    file_id: str
    base_instant: str
    base_file: str | None
    log_files_compacted: tuple[str, ...]
    log_files_remaining: tuple[str, ...]
    bytes_read: int
    bytes_written_estimate: int
    log_bytes_compacted: int


class SeenState(Frozen):
    """What the plan was made from; `etc apply` refuses when the table no longer agrees with it."""

    properties_fingerprint: str
    last_completed: str | None
    instants_completed: tuple[str, ...]


class TablePlan(Frozen):
    """What is to be done to one table, and why.

    `threshold_ms` is T, `instant` is C (FACTS 1). `watermark_*_ms` are None when no log file would hold RO back, and
    `watermark_assumed` says that the later one is bounded by when its file was written, not by known event times.
    `policy_values` is the policy by dotted key, `policy_changes` what changed in it since the table's last compaction.
    `reason` says why nothing is done; `reason_code` names it for machines; `notes` say how C came about.
    """

    policy: str
    policy_fingerprint: str
    policy_values: dict[str, str] = Field(default_factory=dict)
    policy_changes: tuple[str, ...] = ()
    base_path: str
    table_version: int
    granularity: Granularity
    action: Action
    reason: str | None = None
    reason_code: str | None = None
    threshold_ms: int
    instant: str | None = None
    watermark_before_ms: int | None = None
    watermark_after_ms: int | None = None
    watermark_assumed: bool = False
    unknown_log_files: int = 0
    held_back_by: str | None = None
    operations: tuple[Operation, ...] = ()
    seen: SeenState
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()


class Plan(Frozen):
    """A saved plan over one or more tables; `plan_id` is a hash of its content, so an edited file is noticed."""

    schema_version: int = PLAN_SCHEMA_VERSION
    plan_id: str
    created_at: str
    tables: tuple[TablePlan, ...]

    @property
    def computed_id(self) -> str:
        """The id that the content should have."""
        return digest(self.model_dump(mode="json", exclude={"plan_id"}))

    @property
    def has_changes(self) -> bool:
        """Whether applying the plan would change a table."""
        return any(table.action == "compact" for table in self.tables)


def make_plan(created_at: str, tables: tuple[TablePlan, ...]) -> Plan:
    """A plan with its id; `created_at` is ISO 8601."""
    draft = Plan(plan_id="", created_at=created_at, tables=tables)
    return draft.model_copy(update={"plan_id": draft.computed_id})
