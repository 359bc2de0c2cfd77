"""What a verification of a table is about: a claim, and all that the table's metadata and log files say about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from etc_policy.plan.carry import is_carried_name
from etc_policy.plan.refusals import Reason
from etc_policy.policy.manifest import Policy
from etc_policy.table.apply_state import Proof
from etc_policy.table.history import TableHistory
from etc_policy.table.proofs import counted_until, proofs_of
from etc_policy.table.state import LogFile, TableState
from etc_policy.table.watermark import Completeness, completeness_of
from etc_policy.verify.ports import ExpectationResult


@dataclass(frozen=True, slots=True)
class Claim:
    """What is to be proved: RO is complete up to `threshold_ms` as far as commits up to `seen_until` go.

    Commits that completed after `seen_until` are late data: they are counted, and do not make the claim false.
    `leaves_out` says that log files whose event times nobody knows hold something after the threshold only, by the promise on
    latency: the compaction left their slices out, or nothing was compacted yet.
    """

    threshold_ms: int
    seen_until: str
    leaves_out: bool = False


class Listing(NamedTuple):
    """What the files of partitions without log files were at a time, right before rows are read: a text for each partition."""

    files: Mapping[str, str]
    at_ms: int


@dataclass(frozen=True)
class Evidence:
    """A claim, and all that the table's metadata say about it; `unknown` says why nobody can know how far RO is complete.

    With `ends` (epoch ms, by partition) the claim is about these partitions alone, each up to its end, and `state` has no slices
    of others. With a listing it may rest on earlier comparisons of the same files. `proof` is what the verification proves if it
    passes.
    """

    policy: Policy
    state: TableState
    history: TableHistory
    claim: Claim
    now_ms: int
    unknown: Reason | None = None
    ends: Mapping[str, int] = field(default_factory=dict)
    listing: Listing | None = None
    proof: Proof | None = None

    @property
    def zone(self) -> ZoneInfo:
        """The zone of the table's instants."""
        return ZoneInfo(self.state.timezone)

    @cached_property
    def completeness(self) -> Completeness:
        """How far RO is complete now, as far as the metadata can be trusted."""
        return completeness_of(self.state, self.policy, self.now_ms)

    @property
    def watermark_ms(self) -> int | None:
        """The completeness watermark now."""
        return self.completeness.watermark.value_ms

    @property
    def complete_until_ms(self) -> int | None:
        """Up to where RO counts as complete now; None where nobody can know, or nothing proves it as the policy wants."""
        if self.unknown is not None:
            return None
        proofs = (*proofs_of(self.policy, self.state), *([self.proof] if self.proof else []))
        return counted_until(self.policy, self.completeness.until_ms, proofs)

    def speaks_of(self, log_file: LogFile) -> bool | None:
        """Whether the claim speaks of what is in the log file; None where nobody knows, or of a part alone."""
        first, last = log_file.committed
        if is_carried_name(log_file.name) or last <= self.claim.seen_until:
            return True  # the rows of a carried one were there when the plan that carried it was made
        return False if first > self.claim.seen_until else None


def judged(name: str, observed: dict[str, Any], message: str | None) -> ExpectationResult:
    """Failed where there is something to say."""
    return ExpectationResult(
        expectation=name, status="pass" if message is None else "fail", observed=observed, message=message
    )
