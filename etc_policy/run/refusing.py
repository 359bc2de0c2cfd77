"""What ends an apply before anything is committed, as errors; and why a pending plan may not be carried out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from etc_policy.errors import PLAN_AGAIN, EngineError, StalePlanError
from etc_policy.errors.codes import Code
from etc_policy.plan.model import TablePlan
from etc_policy.plan.refusals import Facts, Refusal, refusal_message
from etc_policy.plan.rules import Moment, facts_of_plan, find_stale, first_objection
from etc_policy.policy.manifest import Policy
from etc_policy.run.ports import Job
from etc_policy.run.table_files import HudiFiles
from etc_policy.table.state import TableState


def raise_refusal(policy: Policy, refusal: Refusal | None) -> None:
    """Raise where there is a refusal: an EngineError that the policy's table cannot be compacted now."""
    if refusal is not None:
        message = refusal_message(policy.name, refusal.code, refusal.reason)
        raise EngineError(Code.CANNOT_COMPACT_NOW, message, hint=refusal.hint)


def raise_unfit(policy: Policy, table: TablePlan, state: TableState, now_ms: int, *, published: bool) -> None:
    """Raise where a plan may not be carried out on its table as it is now; `published` says that it is on the table.

    Raises:
        EngineError: the clock or its zone forbids it.
        StalePlanError: the table has changed.

    """
    raise_refusal(policy, first_objection(Moment.PUBLISH, facts_of_plan(policy, table, state, now_ms)))
    changes = find_stale(policy, table, state, published=published)
    if changes:
        message = f"the plan for `{table.policy}` no longer fits its table: {'; '.join(changes)}"
        raise StalePlanError(Code.STALE_PLAN, message, hint=PLAN_AGAIN)


def find_spoiled(files: HudiFiles, state: TableState, job: Job) -> str | None:
    """Why a pending plan may not be executed any more; None where it may."""
    gone, schema = files.missing_files(job), files.wrong_schema(job.base_path, job.instant)
    facts = Facts(job.policy, state, None, job.instant, job.operations, files_gone=gone, wrong_schema=schema)
    found = first_objection(Moment.PENDING, facts, spoils=True)
    return found.reason if found else None


def require_clock_and_instants(policy: Policy, state: TableState, clock_ms: int) -> None:
    """Raise where the clock or the table's instants forbid to carry out what is pending on it."""
    raise_refusal(policy, first_objection(Moment.PENDING, Facts(policy, state, clock_ms)))


@contextmanager
def with_manual_hint(files: HudiFiles, job: Job, why: str) -> Iterator[None]:
    """Around the withdrawal of a plan that may not be executed; where writers have added to its slice, it must be mended by hand.

    Raises:
        EngineError: it cannot be withdrawn either; readers see every row while it is on the timeline.

    """
    try:
        yield
    except EngineError as error:
        if error.code != Code.LOG_FILES_ADDED:
            raise
        missing = files.missing_files(job)
        message = f"the pending plan of `{job.policy.name}` cannot be carried out ({why}), and {error.message}"
        then = f"put {', '.join(f'`{one}`' for one in missing)} back, then run `etc apply`; " if missing else ""
        hint = f"stop its writers and leave the plan, with which readers see every row; {then}`etc explain {error.code}` says how"
        raise EngineError(Code.LOG_FILES_ADDED, message, hint=hint) from error
