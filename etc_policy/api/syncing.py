"""Syncs what is known of RO to the properties of its table in the catalog, with a few tries."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from etc_policy.api.each_table import each_table
from etc_policy.api.observing import freshness_of
from etc_policy.errors import EtcError, RetryableError, UsageError
from etc_policy.errors.codes import Code
from etc_policy.policy.manifest import Policy
from etc_policy.report.sync import AS_OF, AS_OF_VIEW, PropertyStore, Verdict, changes_between, ro_properties, verdict_of
from etc_policy.run.results import SyncResult, SyncStatus, TableResult
from etc_policy.table.formats import iso_time
from etc_policy.table.history import promise_of
from etc_policy.table.proofs import is_proven, proofs_of, unproven
from etc_policy.table.state import TableState
from etc_policy.wiring import Environment

#: Seconds to wait before the second try and those after it; Spark's own client has tried for some seconds by then.
PAUSES_SECONDS = (1.0, 3.0)

_Wanted = Callable[[Mapping[str, str]], Mapping[str, str]]


def policies_to_sync(selected: Sequence[Policy]) -> tuple[Policy, ...]:
    """Those that name an RO table.

    Raises:
        UsageError: policies are selected, and none of them does.

    """
    policies = tuple(policy for policy in selected if policy.sync.ro_table)
    if selected and not policies:
        hint = "name the RO table of a policy, as `sync: {ro_table: lake.orders_ro}`"
        raise UsageError(Code.NOTHING_TO_SYNC, "no selected policy has an RO table to sync to", hint=hint)
    return policies


def sync_tables(
    environment: Environment,
    policies: Sequence[Policy],
    now_ms: int,
    known: Mapping[str, TableResult],
    *,
    remove: bool,
) -> tuple[tuple[SyncResult, ...], tuple[EtcError, ...]]:
    """Sync each policy's RO table, or with `remove` take its properties away; the results, and what went wrong.

    What the last run verified (`known`, by policy) counts only for the very compaction that it was about.
    """

    def sync(policy: Policy) -> SyncResult:
        if remove:
            return remove_properties(environment, policy)
        last = known.get(policy.name)
        verdict = verdict_of(last) if last is not None and last.status != "nothing_due" else None
        return sync_table(environment, policy, now_ms, verdict)

    return each_table(environment, policies, sync, failed_sync, in_turn=True)


def sync_table(environment: Environment, policy: Policy, now_ms: int, verdict: Verdict | None = None) -> SyncResult:
    """Write the properties of the policy's RO table, from the table as it is now; nothing is written that is there already.

    Raises:
        RetryableError: the catalog could not be asked, or refused, at every try.
        EtcError: there is no such table, or the policy's own table cannot be read.

    """

    def wanted(before: Mapping[str, str]) -> Mapping[str, str]:
        state = environment.read_state(policy)
        freshness = freshness_of(policy, state, now_ms)
        return ro_properties(policy, state, freshness, verdict, before, verdict_beside(policy, state))

    return _with_tries(environment, policy, wanted, "synced")


def verdict_beside(policy: Policy, state: TableState) -> Verdict | None:
    """The verdict of the latest verification of the last compaction, as far as it is kept beside the table; else None.

    When one failed is not kept.
    """
    record, doubt = promise_of(policy, state), unproven(policy, state)
    if doubt is not None and doubt.verification == "fail":
        threshold_ms, instant = (record.threshold_ms, record.instant) if record is not None else (None, None)
        return Verdict("fail", policy.verify.level, threshold_ms, instant, "")
    if record is None:
        return None
    reaching = [one for one in proofs_of(policy, state) if one.until_ms >= record.threshold_ms]
    if not reaching or not is_proven(policy, state, state.apply_state):
        return None
    best = max(reaching, key=lambda one: (one.rank, one.proved_at_ms))
    proved_at, is_part = iso_time(best.proved_at_ms), best.level == "sample"
    return Verdict("pass", best.level, best.until_ms, record.instant, proved_at, is_part)


def remove_properties(environment: Environment, policy: Policy) -> SyncResult:
    """Take etc's own properties away from the policy's RO table.

    Raises:
        RetryableError: the catalog could not be asked, or refused, at every try.
        EtcError: there is no such table.

    """
    return _with_tries(environment, policy, lambda _: {}, "removed")


def failed_sync(policy: Policy, error: EtcError) -> SyncResult:
    """The result of a sync that did not succeed: what another try may mend was tried to the end."""
    attempts = len(PAUSES_SECONDS) + 1 if isinstance(error, RetryableError) else 1
    return SyncResult(
        policy=policy.name,
        ro_table=policy.sync.ro_table or "",
        status="failed",
        attempts=attempts,
        message=error.with_cause,
        error_code=error.code,
    )


def _with_tries(environment: Environment, policy: Policy, wanted: _Wanted, status: SyncStatus) -> SyncResult:
    ro_table = policy.sync.ro_table
    if ro_table is None:
        raise ValueError(f"the policy {policy.name} names no RO table")
    environment.progress(f"{policy.name}: syncing {ro_table}")
    for attempt, pause in enumerate((*PAUSES_SECONDS, None), start=1):
        try:
            store = environment.property_store(environment.locate(policy))
            properties, changed = _put(store, ro_table, policy.sync.as_of_view, wanted)
        except RetryableError as error:
            if pause is None:
                name = policy.name
                error.hint = (
                    f"the table itself is as it should be: run `etc sync --select {name}` when the catalog answers"
                )
                raise
            environment.progress(f"{policy.name}: {error.with_cause}; trying again in {pause:.0f} s")
            time.sleep(pause)
        else:
            done = status if changed else "unchanged"
            return SyncResult(
                policy=policy.name, ro_table=ro_table, status=done, properties=properties, attempts=attempt
            )
    raise AssertionError("the last try returns or raises")


def _put(store: PropertyStore, ro_table: str, view: str | None, wanted: _Wanted) -> tuple[Mapping[str, str], bool]:
    """Make etc's own properties of the table those that are wanted; returns them, and whether something was written.

    The view is written first: whoever is stopped between them writes both again.
    """
    before = store.read(ro_table)
    properties = wanted(before)
    changes = changes_between(before, properties)
    former = before.get(AS_OF_VIEW)
    if former not in (None, view):
        store.write_view(former, ro_table, None)
    if view is not None and any(properties.get(key) != before.get(key) for key in (AS_OF, AS_OF_VIEW)):
        store.write_view(view, ro_table, properties.get(AS_OF))
    if changes:
        store.write(ro_table, changes)
    return properties, bool(changes)
