"""Saved plans: read, and held against their policies and tables; nothing that only their text says is carried out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from etc_policy.api.loading import read_given
from etc_policy.errors import PLAN_AGAIN, EtcError, StalePlanError, UsageError, Where
from etc_policy.errors.codes import Code
from etc_policy.plan.clock import ahead_of_clock
from etc_policy.plan.derivation import find_malformed, find_underived, is_plain_time
from etc_policy.plan.model import PLAN_SCHEMA_VERSION, Plan, TablePlan
from etc_policy.policy.bounded_json import load_json
from etc_policy.policy.locations import location_identity
from etc_policy.policy.manifest import Policy, changed_values, digest, policy_values
from etc_policy.table.formats import iso_ms
from etc_policy.table.state import TableState
from etc_policy.wiring import Environment, clock_ms

_SHOWN = 3
_SAVE_ANOTHER = "save a new one with `etc plan --out FILE`"


def created_ms(plan: Plan) -> int:
    """When the plan was made, by its own text."""
    return iso_ms(plan.created_at)


def require_form(plan: Plan, path: Path | None = None) -> None:
    """Return if each value of a plan has its form: from some of them names of files are made.

    Raises:
        UsageError: one has another.

    """
    try:
        found = None if is_plain_time(created_ms(plan)) else "created_at"
    except (ValueError, OverflowError):
        found = "created_at"
    found = found or next((f"{one.policy[:60]}: {name}" for one in plan.tables if (name := find_malformed(one))), None)
    if found is None and len({one.policy for one in plan.tables}) < len(plan.tables):
        found = "tables (a policy is in it twice)"
    if found is not None:
        message = f"a value of the plan cannot be one that etc wrote: {found}"
        hint = "save a new one with `etc plan --out FILE`, and look at who changed this one"
        raise UsageError(Code.MALFORMED_PLAN, message, where=Where(str(path)) if path else None, hint=hint)


def require_derived(
    environment: Environment, policy: Policy, table: TablePlan, made_ms: int | None, declared: Policy | None = None
) -> None:
    """Return if a plan saved at `made_ms` is what planning gives for the table as it was seen, whoever computed its checksum.

    One that was made just now has no `made_ms`, and is not asked. `declared` is the policy as its file names the table, where
    `policy` has its base path. A plan knows as many event times as were asked for when it was made: the same are looked for here.

    Raises:
        StalePlanError: it is not, or the table has changed so that nobody can say any more.

    """
    if made_ms is None or table.action == "refused":
        return
    first: tuple[str, ...] = ()
    for state in _readings(environment, policy):
        found = find_underived(declared or policy, table, state, made_ms)
        if not found:
            return
        first = first or found
    more = f"; and {len(first) - _SHOWN} more" if len(first) > _SHOWN else ""
    message = f"the plan for `{table.policy}` does not follow from its table: {'; '.join(first[:_SHOWN])}{more}"
    hint = f"{PLAN_AGAIN}. If nothing was written to the table since, the plan file was changed"
    raise StalePlanError(Code.PLAN_NOT_DERIVED, message, hint=hint)


def _readings(environment: Environment, policy: Policy) -> Iterator[TableState]:
    """The table with the event times that `etc plan` knows, each once: by itself, `--metadata-only`, `--read-stats`, both.

    Where log files show that the table is to be refused, who did not read them knows no better.
    """
    for read_stats in (False, True):
        for read_logs in (True, False):
            yield (state := environment.read_state(policy, read_stats=read_stats, read_logs=read_logs))
            if state.unrecorded_files or state.hidden_blocks:
                return


def load_plan(path: Path) -> Plan:
    """A saved plan.

    Raises:
        UsageError: no such file, not a plan of this version, or edited since it was saved.

    """
    try:
        text = read_given(path).decode("utf-8")
        if not text.strip():
            raise UsageError(Code.NOT_A_PLAN, "the plan file is empty", where=Where(str(path)), hint=_SAVE_ANOTHER)
        content = load_json(text)
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
        message = "this is not a plan file of this version of etc"
        raise UsageError(Code.NOT_A_PLAN, message, where=Where(str(path)), hint=_SAVE_ANOTHER) from error
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
