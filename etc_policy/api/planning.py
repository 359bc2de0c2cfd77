"""Plans over many tables: one table's trouble never hides another's plan."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from etc_policy.api.derived_plans import created_ms, require_form
from etc_policy.api.loading import read_given
from etc_policy.api.one_table import entries_of, outcomes_of
from etc_policy.api.starvation import with_remedy
from etc_policy.errors import PLAN_AGAIN, EtcError, RetryableError, StalePlanError, UsageError, Where
from etc_policy.errors.codes import Code
from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.clock import ahead_of_clock, clock_skew_ms
from etc_policy.plan.commit_metadata import git_state_of
from etc_policy.plan.model import PLAN_SCHEMA_VERSION, UNREAD_VERSION, Plan, SeenState, TablePlan, make_plan
from etc_policy.plan.pace import Pace, has_pace, pace_of
from etc_policy.plan.refusals import refusal_message
from etc_policy.plan.rules import may_pass
from etc_policy.plan.skipped_slices import WrittenTo
from etc_policy.plan.split import is_exact, later_rows
from etc_policy.policy.locations import location_identity
from etc_policy.policy.manifest import Policy, changed_values, digest, policy_values
from etc_policy.table.formats import format_time, iso_time
from etc_policy.table.history import promise_of
from etc_policy.table.proofs import doubt_in_words, misrecorded, unproven
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
    written_to: Mapping[str, WrittenTo] | None = None,
    every_ms: int | None = None,
) -> Plan:
    """The plan over all policies; a table that cannot be read is refused in it, with the reason.

    `written_to` are file slices to leave out, by the policy's name; `every_ms` is the time from run to run, where it is not
    the policies'. Right after a write a table is read and planned again once the bound on clock skew is past.
    """
    left_out = written_to or {}

    def plan_once(policy: Policy, state: TableState) -> TablePlan:
        whole = environment.with_statistics(policy, state) if read_stats else state
        table = plan_table(policy, whole, now_ms, left_out.get(policy.name, WrittenTo()), every_ms)
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

    with no_garbage_collection():
        found = outcomes_of(policies, environment.read_state, plan, environment.jobs, environment.progress)
        tables, _ = entries_of(found, lambda policy, error: _unreadable(policy, now_ms, error))
        return make_plan(iso_time(clock_ms()), tables, git_state_of(environment.git_sha()))


def plan_table(
    policy: Policy,
    state: TableState,
    now_ms: int,
    written_to: WrittenTo,
    every_ms: int | None,
) -> TablePlan:
    """One table's plan, with what earlier runs left to say about it."""
    pace = _pace(policy, state, every_ms)
    table = build_table_plan(policy, state, now_ms=now_ms, clock_ms=clock_ms(), written_to=written_to, pace=pace)
    table = _with_doubt(policy, table, state)
    return with_remedy(policy, table, state.apply_state.refusals) if table.action == "refused" else table


def _with_doubt(policy: Policy, table: TablePlan, state: TableState) -> TablePlan:
    """The plan; where the table's last compaction is known not to be proven it says so, and what that means."""
    record, doubt = state.last_compaction, unproven(policy, state)
    if (wrong := misrecorded(policy, state)) is not None:
        return table.model_copy(update={"warnings": (f"{wrong}. The plan takes the true time", *table.warnings)})
    if doubt is None:
        return table
    until = f" up to {format_time(record.threshold_ms)}" if record is not None else ""
    warning = f"{doubt_in_words(doubt, record)}. Do not rely on RO being complete{until} before a verification passes"
    level = f" --level {doubt.level}" if doubt.level not in (None, policy.verify.level) else ""
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


def load_plan(path: Path) -> Plan:
    """A saved plan.

    Raises:
        UsageError: no such file, not a plan of this version, or edited since it was saved.

    """
    try:
        content = json.loads(read_given(path).decode("utf-8"))
        plan = Plan.model_validate(content)
        if plan.schema_version != PLAN_SCHEMA_VERSION or (
            plan.computed_checksum != plan.checksum and _is_whole(content)
        ):
            raise ValueError(plan.schema_version)
    except OSError as error:
        raise UsageError(
            Code.CANNOT_READ_PLAN, f"cannot read the plan file: {error.strerror}", where=Where(str(path))
        ) from error
    except (ValueError, RecursionError, ValidationError) as error:
        hint = "save a new one with `etc plan --out FILE`"
        raise UsageError(
            Code.NOT_A_PLAN, "this is not a plan file of this version of etc", where=Where(str(path)), hint=hint
        ) from error
    require_unedited(plan, path)
    return plan


def require_unedited(plan: Plan, path: Path | None = None) -> None:
    """Return if a plan is as it was made.

    Raises:
        UsageError: it was edited since.

    """
    if plan.computed_checksum != plan.checksum:
        hint = "a plan is carried out exactly as it was made; save a new one with `etc plan --out FILE`"
        what = "plan file" if path else "plan"
        message = f"the {what} was edited: its content does not match its checksum"
        raise UsageError(Code.EDITED_PLAN, message, where=_file(path), hint=hint)


def require_made_before_now(plan: Plan) -> None:
    """Return if a plan was made in the past of this machine's clock.

    Raises:
        EtcError: it comes from the future: C and T would be too late by as much.

    """
    ahead = ahead_of_clock(created_ms(plan), clock_ms())
    if ahead is not None:
        raise EtcError(Code.PLAN_FROM_THE_FUTURE, ahead, hint="set the clocks of both machines right, then plan again")


def _file(path: Path | None) -> Where | None:
    return Where(str(path)) if path else None


def _is_whole(content: dict[str, Any]) -> bool:
    """Whether a plan is as it was saved: one that an earlier etc saved has another checksum here, or none."""
    rest = {key: value for key, value in content.items() if key != "checksum"}
    return content.get("checksum") in {None, digest(rest)}


def match_policies(plan: Plan, policies: Iterable[Policy], path: Path | None = None) -> dict[str, Policy]:
    """The policy of each table in a plan that was made earlier, and perhaps saved at `path`.

    Raises:
        StalePlanError: a policy is gone, was changed, or names another table than the plan does.

    """
    known = {policy.name: policy for policy in policies}
    for table in plan.tables:
        policy = known.get(table.policy)
        if policy is None:
            message = f"the plan is for a policy `{table.policy}` that this project does not have"
            raise StalePlanError(Code.POLICY_IS_GONE, message, where=_file(path), hint=PLAN_AGAIN)
        if policy.fingerprint != table.policy_fingerprint:
            changes = changed_values(table.policy_values, policy_values(policy)) if table.policy_values else ()
            what = f": {'; '.join(changes)}" if changes else ""
            message = f"policy `{table.policy}` was changed since the plan was made{what}"
            raise StalePlanError(Code.POLICY_CHANGED, message, where=_file(path), hint=PLAN_AGAIN)
    return {table.policy: known[table.policy] for table in plan.tables}


def choose_policies(
    plan: Plan | str | os.PathLike[str] | None,
    known: Iterable[Policy],
    selected: tuple[Policy, ...],
    disabled: Iterable[Policy],
) -> tuple[Plan | None, tuple[Policy, ...]]:
    """The plan, read where it is a file, and the selected policies of its tables; without one all that are selected.

    Raises:
        UsageError: the plan cannot be read, was edited, or has values that no plan has.
        StalePlanError: a policy of the plan was changed since, is gone, or is one of `disabled`.

    """
    if plan is None:
        return None, selected
    path = None if isinstance(plan, Plan) else Path(plan)
    saved = plan if isinstance(plan, Plan) else load_plan(Path(plan))
    require_unedited(saved, path)
    require_form(saved, path)
    matched, wanted = match_policies(saved, known, path), {policy.name for policy in selected}
    _require_enabled(matched, disabled, path)
    return saved, tuple(one for one in matched.values() if one.name in wanted)


def _require_enabled(matched: Mapping[str, Policy], disabled: Iterable[Policy], path: Path | None) -> None:
    for policy in disabled:
        if policy.name in matched:
            message = f"policy `{policy.name}` of the plan is disabled (`enabled: false` at {policy.source})"
            hint = f"{PLAN_AGAIN}. Or leave the policy out by `--exclude {policy.name}`"
            raise StalePlanError(Code.POLICY_CHANGED, message, where=_file(path), hint=hint)


def require_same_table(table: TablePlan, policy: Policy) -> None:
    """Return if the plan was made for the table at which the policy's table lies now.

    Raises:
        StalePlanError: it is for another one.

    """
    if table.action == "compact" and location_identity(policy.table) != location_identity(table.base_path):
        message = (
            f"the plan for `{table.policy}` is for the table at `{table.base_path}`, which is now at `{policy.table}`"
        )
        raise StalePlanError(Code.OTHER_TABLE, message, hint=PLAN_AGAIN)
