"""Plans over many tables: one table's trouble never hides another's plan."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from etc_policy.api.each_table import by_release, each_table
from etc_policy.api.starvation import with_remedy
from etc_policy.errors import EtcError, RetryableError, Where
from etc_policy.errors.codes import Code
from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.clock import clock_skew_ms
from etc_policy.plan.commit_metadata import git_state_of
from etc_policy.plan.model import UNREAD_VERSION, Plan, SeenState, TablePlan, make_plan
from etc_policy.plan.pace import Pace, has_pace, pace_of
from etc_policy.plan.refusals import refusal_message
from etc_policy.plan.rules import may_pass
from etc_policy.plan.skipped_slices import ContendedSlices
from etc_policy.plan.split import is_exact, later_rows
from etc_policy.policy.manifest import Policy
from etc_policy.table.formats import format_time, iso_time
from etc_policy.table.history import promise_of
from etc_policy.table.proofs import doubt_about, doubt_in_words, level_to_settle, misrecorded, unproven
from etc_policy.table.state import TableState
from etc_policy.wiring import Environment, clock_ms, no_garbage_collection

#: The longest bound on clock skew that planning waits for; with a longer one the table is refused.
_LONGEST_WAIT_MS = 5_000
#: The instant that a plan needs may be some milliseconds after the last write.
_AFTER_A_WRITE_MS = 50


def plan_tables(
    environment: Environment,
    policies: Iterable[Policy],
    now_ms: int,
    *,
    read_stats: bool,
    contended: Mapping[str, ContendedSlices] | None = None,
    every_ms: int | None = None,
) -> Plan:
    """The plan over all policies; a table that cannot be read is refused in it, with the reason.

    `contended` are file slices to leave out, by the policy's name; `every_ms` is the time from run to run, where it is not
    the policies'. Right after a write a table is read and planned again once the bound on clock skew is past. Column statistics
    are read with the release of Hudi that takes the table.
    """
    left_out, chosen = contended or {}, tuple(policies)

    def plan_once(policy: Policy, state: TableState) -> TablePlan:
        whole = environment.with_statistics(policy, state) if read_stats else state
        table = plan_table(policy, whole, now_ms, left_out.get(policy.name, ContendedSlices()), every_ms)
        if table.action != "compact" or not is_exact(policy):
            return table
        found = later_rows(whole, environment.row_groups(policy, whole), table.threshold_ms)
        return table.model_copy(update={"later_rows": found})

    def plan(policy: Policy, state: TableState) -> TablePlan:
        first, skew_ms = plan_once(policy, state), clock_skew_ms(policy)
        if first.reason_code != "too_young" or skew_ms > _LONGEST_WAIT_MS:
            return first
        time.sleep((skew_ms + _AFTER_A_WRITE_MS) / 1000)
        return plan_once(policy, environment.read_state(policy))

    def unreadable(policy: Policy, error: EtcError) -> TablePlan:
        return _unreadable(policy, now_ms, error)

    with no_garbage_collection():
        found: dict[str, TablePlan] = {}
        for group in by_release(environment, chosen) if read_stats else (chosen,):
            tables, _ = each_table(environment, group, environment.read_state, unreadable, plan)
            found |= {table.policy: table for table in tables}
        in_order = (found[policy.name] for policy in chosen)
        return make_plan(iso_time(clock_ms()), tuple(in_order), git_state_of(environment.git_sha()))


def plan_table(
    policy: Policy,
    state: TableState,
    now_ms: int,
    contended: ContendedSlices,
    every_ms: int | None,
) -> TablePlan:
    """One table's plan, with what earlier runs left to say about it."""
    pace = _pace(policy, state, every_ms)
    table = build_table_plan(policy, state, now_ms=now_ms, clock_ms=clock_ms(), contended=contended, pace=pace)
    table = _with_doubt(policy, table, state)
    return with_remedy(policy, table, state.apply_state.refusals) if table.action == "refused" else table


def _with_doubt(policy: Policy, table: TablePlan, state: TableState) -> TablePlan:
    """The plan; where the table's last compaction is known not to be proven it says so, and what that means."""
    if doubt_about(policy, state) is not None:
        table = table.model_copy(update={"watermark_known": False})
    record, doubt = state.last_compaction, unproven(policy, state)
    if (wrong := misrecorded(policy, state)) is not None:
        return table.model_copy(update={"warnings": (f"{wrong}. The plan takes the true time", *table.warnings)})
    if doubt is None:
        return table
    until = f" up to {format_time(record.threshold_ms)}" if record is not None else ""
    warning = f"{doubt_in_words(doubt, record)}. Do not rely on RO being complete{until} before a verification passes"
    level = f" --level {needed}" if (needed := level_to_settle(policy, doubt)) != policy.verify.level else ""
    hint = f"`etc verify --select {table.policy}{level}` verifies it again"
    return table.model_copy(update={"warnings": (warning, *table.warnings), "hints": (*table.hints, hint)})


def _pace(policy: Policy, state: TableState, every_ms: int | None) -> Pace | None:
    """How often runs come, and how long the last one took."""
    if not has_pace(policy, every_ms):
        return None
    promise = promise_of(policy, state)
    published_ms = promise.threshold_ms if promise else None
    return pace_of(policy, every_ms, state.apply_state.run_ms, published_ms)


def _unreadable(policy: Policy, now_ms: int, error: EtcError) -> TablePlan:
    return TablePlan(
        policy=policy.name,
        policy_fingerprint=policy.fingerprint,
        base_path=policy.table,
        table_version=UNREAD_VERSION,
        granularity=policy.strategy.granularity,
        action="refused",
        reason=error.with_cause,
        reason_code=error.code,
        threshold_ms=policy.latest_ms(now_ms),
        watermark_known=False,
        seen=SeenState(properties_fingerprint="", last_completed=None, instants_completed=()),
        hints=error.hints,
    )


def refusal_errors(plan: Plan, policies: Iterable[Policy]) -> list[EtcError]:
    """The refusals of a plan as errors, each at the place of its policy; tables of other policies are left out."""
    places = {policy.name: policy.place for policy in policies}
    refused = (table for table in plan.tables if table.action == "refused" and table.policy in places)
    return [_refusal(table, places[table.policy]) for table in refused]


def _refusal(table: TablePlan, where: Where | None) -> EtcError:
    kind = RetryableError if may_pass(table.reason_code) else EtcError
    message = refusal_message(table.policy, table.reason_code, table.reason)
    hint = table.hints[0] if table.hints else None
    return kind(table.error_code or Code.CANNOT_COMPACT_NOW, message, where=where, hint=hint)
