"""In which order the limits of freshness have to come, and which of them would never matter."""

from __future__ import annotations

from collections.abc import Iterator

from etc_policy.codes.registry import Code
from etc_policy.declare.project import DeclaredPolicy
from etc_policy.errors import Issue


def order_issues(policy: DeclaredPolicy) -> Iterator[Issue]:
    """What is wrong with the order of a policy's limits; a limit that has no effect is a warning."""
    errors = tuple(_errors(policy))
    yield from errors or _warning_in_vain(policy)


def _errors(policy: DeclaredPolicy) -> Iterator[Issue]:
    limits, where = policy.declaration.freshness, policy.where("freshness", "error_after")
    if limits.error_after is None:
        return
    if limits.warn_after is not None and limits.warn_after >= limits.error_after:
        message = "`freshness.error_after` must be longer than `freshness.warn_after`"
        yield Issue(Code.FRESHNESS_ORDER, message, where, "a warning comes before the error")
    if limits.target is not None and limits.error_after < limits.target:
        message = "`freshness.error_after` must not be shorter than `freshness.target`"
        yield Issue(Code.FRESHNESS_ORDER, message, where, "an error means that the target was missed")


def _warning_in_vain(policy: DeclaredPolicy) -> Iterator[Issue]:
    """Beyond the target a table is a warning anyway, and without `error_after` an error."""
    limits = policy.declaration.freshness
    if limits.warn_after is None or limits.target is None or limits.target < policy.declaration.data_latency:
        return
    is_same = limits.warn_after == limits.target and limits.error_after is not None
    if is_same or limits.warn_after < limits.target:
        return
    beyond = "an error, as there is no `error_after`" if limits.error_after is None else "a warning"
    message = f"`freshness.warn_after` has no effect: beyond the `target` the table is {beyond}"
    hint = "make it shorter than the target, to be warned before the target is missed, or remove it"
    yield Issue(Code.LIMIT_WITHOUT_EFFECT, message, policy.where("freshness", "warn_after"), hint, level="warning")
