"""The freshness report: how far RO is complete now, from metadata alone (facts: complete-until)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from operator import attrgetter
from zoneinfo import ZoneInfo

from etc_policy.errors.codes import Code
from etc_policy.plan.plan_warnings import column_warnings
from etc_policy.plan.refusals import no_commit
from etc_policy.plan.rules import why_unknown
from etc_policy.plan.skipped_slices import NAMED_SLICES
from etc_policy.policy.manifest import Policy
from etc_policy.report.results import HeldBack, TableFreshness
from etc_policy.table.apply_state import Proof, proof_of
from etc_policy.table.formats import format_time
from etc_policy.table.history import TableHistory, promise_of, promises_in, with_times_of
from etc_policy.table.instants import instant_from_ms, instant_to_ms
from etc_policy.table.partitions import partitions_freshness
from etc_policy.table.proofs import counted_until, without_proof
from etc_policy.table.state import CompactionRecord, TableState
from etc_policy.table.unknown_times import why_unknown_times
from etc_policy.table.watermark import completeness_of, event_time_bound
from etc_policy.verify.freshness import completeness_lag_ms, judge_lag
from etc_policy.verify.late_data import late_data
from etc_policy.verify.latency import judge_table


def table_freshness(
    policy: Policy,
    state: TableState,
    now_ms: int,
    clock_ms: int,
    history: TableHistory | None = None,
    proofs: Sequence[Proof] = (),
) -> TableFreshness:
    """One table's freshness at `now_ms`; the lag is that of `complete_until`, not of the last threshold.

    `proofs` are those of the table's last compaction. Where the policy wants a proof, RO counts as complete as far as that
    reaches, and a table without one is unknown.

    Commits that lie in the future of the wall clock were written in another zone, and a data file that is gone may have
    held anything: then nothing is known. Neither is it of a time before all commits and events of the table.
    """
    if empty := no_commit(state):
        return _unknown(policy, state.base_path, empty.reason, remaining=0)
    refusal = why_unknown(policy, state, clock_ms)
    if refusal is not None:
        has_hint = refusal.code in ("wrong_time", Code.UNREADABLE_TIMES)
        return unreadable(policy, f"{refusal.reason} ({refusal.hint})" if has_hint else refusal.reason)
    if history is not None and _precedes_all(policy, state, history, now_ms):
        said = f"{format_time(now_ms)}, which counts as now, is before every commit and every event of the table"
        return unreadable(policy, f"{said} that is known: what it held then cannot be judged")
    return _judge(policy, state, now_ms, history, proofs)


def with_partitions(
    found: TableFreshness, policy: Policy, state: TableState, now_ms: int, terms: Sequence[str]
) -> TableFreshness:
    """The freshness with that of the partitions which the terms mean, or of all; without where nothing is known of the table.

    No partition counts as complete further than what is proved of the table, where the policy wants a proof.
    """
    if found.complete_until_ms is None:
        return found
    partitions = partitions_freshness(
        policy, state, now_ms, terms, counted_until(policy, now_ms, found.proofs), found.proofs
    )
    return found.model_copy(update={"partitions": partitions})


def _precedes_all(policy: Policy, state: TableState, history: TableHistory, now_ms: int) -> bool:
    """Whether a time lies before all that is known of the table; one before its commits alone is that of a replay."""
    first, last = min((i.requested for i in state.instants), default=None), promise_of(policy, state)
    if first is None or instant_to_ms(first, ZoneInfo(state.timezone)) <= now_ms:
        return False
    if last is not None and last.threshold_ms <= now_ms:
        return False
    in_logs = (log_file.min_event_time_ms for _, log_file in state.log_files)
    times = [time for time in chain((one.known_min_ms for one in history.writes), in_logs) if time is not None]
    return min(times, default=now_ms) > now_ms


def _judge(
    policy: Policy, state: TableState, now_ms: int, history: TableHistory | None, proofs: Sequence[Proof]
) -> TableFreshness:
    """The freshness of a table whose files and times can be trusted."""
    until_ms, mark = completeness_of(state, policy, now_ms)
    until = counted_until(policy, until_ms, proofs)
    lag_ms = completeness_lag_ms(now_ms, until)
    last = promise_of(policy, state)
    found = TableFreshness(
        policy=policy.name,
        policy_fingerprint=policy.fingerprint,
        base_path=state.base_path,
        status=judge_lag(lag_ms, policy.freshness),
        reason=without_proof(policy) if until is None else None,
        limits=policy.freshness,
        complete_until_ms=until,
        complete_until_proof=None if until is None else proof_of(until, proofs, now_ms),
        proofs=tuple(proofs),
        lag_seconds=None if lag_ms is None else lag_ms / 1000,
        watermark_ms=mark.value_ms,
        watermark_assumed=mark.assumed,
        threshold_ms=last.threshold_ms if last else None,
        held_back_by=mark.held_back_by,
        last_commit_age_seconds=_last_commit_age(state, now_ms),
        left_out_file_slices=(last.left_out or None) if last else None,
        **_progress(state, now_ms),
    )
    held = sorted(_held_back(policy, state, last, now_ms), key=attrgetter("earliest_event_ms", "partition", "file_id"))
    found = found.model_copy(update={"held_back": tuple(held[:NAMED_SLICES]), "held_back_file_slices": len(held)})
    return found.model_copy(update={**_not_compacted(policy, state), **_of_history(policy, state, history, now_ms)})


def _progress(state: TableState, now_ms: int) -> dict[str, int | None]:
    """What is kept of earlier runs."""
    kept = state.apply_state.runs
    runs, without = kept.of_day(now_ms)
    return {
        "runs_without_progress": kept.in_a_row,
        "no_progress_since_ms": kept.since_ms,
        "runs_of_day": runs,
        "runs_of_day_without_progress": without,
    }


def _held_back(policy: Policy, state: TableState, last: CompactionRecord | None, now_ms: int) -> Iterator[HeldBack]:
    """The file slices that earlier runs have seen and left, of which something is due now."""
    zone, due_ms = ZoneInfo(state.timezone), policy.at(now_ms).latest_ms(now_ms)
    saw_until = _left_until(state, last, zone)
    for one in state.slices if saw_until else ():
        seen = (f for f in one.log_files if f.committed[1] <= saw_until)
        bounds = ((event_time_bound(f, policy.longest_latency_ms, zone).ms, f.committed[1]) for f in seen)
        due = [found for found in bounds if found[0] <= due_ms]
        if due:
            since_ms = instant_to_ms(min(completed for _, completed in due), zone)
            yield HeldBack(
                partition=one.partition, file_id=one.file_id, earliest_event_ms=min(due)[0], waits_since_ms=since_ms
            )


def _left_until(state: TableState, last: CompactionRecord | None, zone: ZoneInfo) -> str:
    """Up to which completion runs have seen what they left: the last compaction, or those since that brought RO no further."""
    since_ms = state.apply_state.runs.since_ms
    of_runs = "" if since_ms is None else instant_from_ms(since_ms, zone)
    return max(of_runs, last.saw_until if last is not None and last.left_out else "")


def _writes(state: TableState) -> list[str]:
    """When the delta commits of the active timeline completed."""
    return [i.completed for i in state.instants if i.action == "deltacommit" and i.completed]


def _last_commit_age(state: TableState, now_ms: int) -> float | None:
    writes = _writes(state)
    return (now_ms - instant_to_ms(max(writes), ZoneInfo(state.timezone))) / 1000 if writes else None


def _of_history(policy: Policy, state: TableState, history: TableHistory | None, now_ms: int) -> dict[str, object]:
    """What only the history of the table's commits says; nothing where it was not read."""
    if history is None:
        return {}
    late = late_data(with_times_of(promises_in(policy, history), state))
    verdict, doubt = judge_table(policy, state, history, now_ms)
    said = column_warnings(policy, state, doubt)
    return {
        "late_data": late[-1] if late else None,
        "data_latency": verdict,
        "warnings": tuple(map("; ".join, said)),
    }


def _not_compacted(policy: Policy, state: TableState) -> dict[str, object]:
    files = [log_file for _, log_file in state.log_files]
    return {
        "remaining_log_files": len(files),
        "remaining_log_bytes": sum(log_file.size_bytes for log_file in files),
        "remaining_file_slices": sum(1 for file_slice in state.slices if file_slice.log_files),
        "unknown_log_files": sum(log_file.min_event_time_ms is None for log_file in files),
        "unknown_because": "; ".join(why_unknown_times(policy.event_time, state, files)) or None,
    }


def unreadable(policy: Policy, reason: str) -> TableFreshness:
    """The entry of a table that could not be read: unknown, never fresh."""
    return _unknown(policy, policy.table, reason)


def _unknown(policy: Policy, base_path: str, reason: str, remaining: int | None = None) -> TableFreshness:
    """The entry of a table of which it is not known how fresh it is; `remaining` is as many of each as there are left."""
    return TableFreshness(
        policy=policy.name,
        policy_fingerprint=policy.fingerprint,
        base_path=base_path,
        status="unknown",
        reason=reason,
        limits=policy.freshness,
        remaining_log_files=remaining,
        remaining_log_bytes=remaining,
        remaining_file_slices=remaining,
        unknown_log_files=remaining,
    )
