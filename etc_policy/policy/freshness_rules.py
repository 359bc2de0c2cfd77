"""Limits of freshness: which can be met, in which order they come, and which of them would never matter."""

from __future__ import annotations

from collections.abc import Iterator

from etc_policy.codes.registry import Code
from etc_policy.errors import Issue
from etc_policy.policy.project import DeclaredPolicy
from etc_policy.policy.quantities import duration_text

_ADD = "add the time between two runs and that of a run to the target"


def freshness_can_be_met(policy: DeclaredPolicy) -> Iterator[Issue]:
    """No limit of freshness is below `data_latency`: completeness never comes nearer to now than that."""
    latency, limits = policy.declaration.data_latency_ms, policy.declaration.freshness
    for key, name in limits.names_by_key().items():
        limit = getattr(limits, name)
        if isinstance(limit, int) and limit < latency:
            meaning = "can never be met" if key == "target" else "is always exceeded"
            message = f"`freshness.{key}` {meaning}: it is shorter than `data_latency`"
            hint = "the view cannot be complete for events that may still arrive; raise it or lower `data_latency`"
            yield Issue(Code.TARGET_TOO_SHORT, message, policy.where("freshness", key), hint)
    yield from pace_issues(policy, policy.declaration.strategy.every_ms)
    yield from _interval_issues(policy)


def pace_issues(policy: DeclaredPolicy, every_ms: int | None) -> Iterator[Issue]:
    """What is wrong with the policy's target when a run comes every `every_ms`; None where nobody knows how often.

    A target below `data_latency` is an error whatever the interval, and no issue here.
    """
    latency_ms, target_ms = policy.declaration.data_latency_ms, policy.declaration.freshness.target_ms
    if target_ms is None or target_ms < latency_ms:
        return
    where = policy.where("freshness", "target")
    if target_ms == latency_ms:
        message = "`freshness.target` equals `data_latency`, which leaves no time to compact"
        if every_ms is None:
            yield Issue(Code.NO_TIME_TO_COMPACT, message, where, _ADD, level="warning")
        else:
            message = f"{message}: with a run every {duration_text(every_ms)} it is missed again and again"
            yield Issue(Code.TARGET_TOO_SHORT, message, where, _ADD)
    elif every_ms is not None and target_ms < latency_ms + every_ms:
        message = (
            f"`freshness.target` ({duration_text(target_ms)}) is shorter than `data_latency` and the time from run to run "
            f"together ({duration_text(latency_ms)} + {duration_text(every_ms)}): an event that arrives late can miss it"
        )
        yield Issue(Code.NO_TIME_TO_COMPACT, message, where, _ADD, level="warning")


def _interval_issues(policy: DeclaredPolicy) -> Iterator[Issue]:
    """An interval without a target decides nothing."""
    if policy.declaration.strategy.every_ms is not None and policy.declaration.freshness.target_ms is None:
        message = "`strategy.every` does nothing without `freshness.target`: every run compacts all that has arrived"
        where = policy.where("strategy", "every", at_key=True)
        hint = "say how far RO may lag behind by `freshness: {target: ...}`, or remove it"
        yield Issue(Code.INTERVAL_WITHOUT_TARGET, message, where, hint, level="warning")


def freshness_is_ordered(policy: DeclaredPolicy) -> Iterator[Issue]:
    """`warn_after` comes before `error_after`, and `error_after` not before `target`; a limit without effect is a warning."""
    errors = tuple(_errors(policy))
    yield from errors or _warning_in_vain(policy)


def _errors(policy: DeclaredPolicy) -> Iterator[Issue]:
    limits, where = policy.declaration.freshness, policy.where("freshness", "error_after")
    if limits.error_after_ms is None:
        return
    if limits.warn_after_ms is not None and limits.warn_after_ms >= limits.error_after_ms:
        message = "`freshness.error_after` must be longer than `freshness.warn_after`"
        yield Issue(Code.FRESHNESS_ORDER, message, where, "a warning comes before the error")
    if limits.target_ms is not None and limits.error_after_ms < limits.target_ms:
        message = "`freshness.error_after` must not be shorter than `freshness.target`"
        yield Issue(Code.FRESHNESS_ORDER, message, where, "an error means that the target was missed")


def _warning_in_vain(policy: DeclaredPolicy) -> Iterator[Issue]:
    """Beyond the target a table is a warning anyway, and without `error_after` an error."""
    limits = policy.declaration.freshness
    if (
        limits.warn_after_ms is None
        or limits.target_ms is None
        or limits.target_ms < policy.declaration.data_latency_ms
    ):
        return
    is_same = limits.warn_after_ms == limits.target_ms and limits.error_after_ms is not None
    if is_same or limits.warn_after_ms < limits.target_ms:
        return
    beyond = "an error, as there is no `error_after`" if limits.error_after_ms is None else "a warning"
    message = f"`freshness.warn_after` has no effect: beyond the `target` the table is {beyond}"
    hint = "make it shorter than the target, to be warned before the target is missed, or remove it"
    yield Issue(Code.LIMIT_WITHOUT_EFFECT, message, policy.where("freshness", "warn_after"), hint, level="warning")


def proofs_can_be_made(policy: DeclaredPolicy) -> Iterator[Issue]:
    """What `freshness.proof` wants is what `etc apply` verifies: the level, and for `data` all rows."""
    wanted, verify = policy.declaration.freshness.proof, policy.declaration.verify
    is_partial = verify.window_ms is not None or verify.where is not None
    is_weaker = verify.level in (("metadata",) if wanted == "logs" else ("metadata", "logs", "sample"))
    if wanted is None or not (is_weaker or (wanted == "data" and is_partial)):
        return
    proves = "some rows alone" if not is_weaker else f"level `{verify.level}`"
    message = f"`freshness.proof: {wanted}` wants more than `etc apply` verifies by this policy: {proves}"
    hint = f"the table is `unknown` until `etc verify --level {wanted}` passes; raise `verify.level`, or lower `proof`"
    yield Issue(Code.PROOF_NOT_MADE, message, policy.where("freshness", "proof"), hint, level="warning")
