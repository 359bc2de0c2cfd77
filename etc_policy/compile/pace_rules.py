"""Whether a target of freshness leaves time to compact, between runs that come at an interval."""

from __future__ import annotations

from collections.abc import Iterator

from etc_policy.codes.registry import Code
from etc_policy.declare.project import DeclaredPolicy
from etc_policy.declare.quantities import duration_text
from etc_policy.errors import Issue

_ADD = "add the time between two runs and that of a run to the target"


def pace_issues(policy: DeclaredPolicy, every_ms: int | None) -> Iterator[Issue]:
    """What is wrong with the policy's target when a run comes every `every_ms`; None where nobody knows how often.

    A target below `data_latency` is an error whatever the interval, and no issue here.
    """
    latency_ms, target_ms = policy.declaration.data_latency, policy.declaration.freshness.target
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


def interval_issues(policy: DeclaredPolicy) -> Iterator[Issue]:
    """An interval without a target decides nothing."""
    if policy.declaration.strategy.every is not None and policy.declaration.freshness.target is None:
        message = "`strategy.every` does nothing without `freshness.target`: every run compacts all that has arrived"
        where = policy.where("strategy", "every", at_key=True)
        hint = "say how far RO may lag behind by `freshness: {target: ...}`, or remove it"
        yield Issue(Code.INTERVAL_WITHOUT_TARGET, message, where, hint, level="warning")
