"""Saved plans against the tables that they are for: nothing that only their text says is carried out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from etc_policy.errors import PLAN_AGAIN, StalePlanError, UsageError, Where
from etc_policy.errors.codes import Code
from etc_policy.plan.derivation import find_malformed, find_underived, is_plain_time
from etc_policy.plan.model import Plan, TablePlan
from etc_policy.policy.manifest import Policy
from etc_policy.table.formats import iso_ms
from etc_policy.table.state import TableState
from etc_policy.wiring import Environment

_SHOWN = 3


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
    """The table with the event times that `etc plan` knows, each once: by itself, `--metadata-only`, `--read-stats`, both."""
    for read_stats in (False, True):
        for read_logs in (True, False):
            yield environment.read_state(policy, read_stats=read_stats, read_logs=read_logs)
