"""Up to where RO was proved to be complete, at which level and when; what is said of completeness carries one of these."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from etc_policy.policy.manifest import Frozen, Level, VerifyLevel
from etc_policy.table.formats import format_time


class Proof(Frozen):
    """A verification that passed at `proved_at_ms`: RO was complete up to `until_ms` as far as the level can show."""

    level: VerifyLevel
    until_ms: int
    proved_at_ms: int

    @property
    def rank(self) -> Level:
        """The larger the stronger."""
        return Level[self.level]

    def __str__(self) -> str:
        return f"proof: {self.level}, {format_time(self.proved_at_ms // 1000 * 1000)}"


def with_proof(kept: Iterable[Proof], new: Proof) -> tuple[Proof, ...]:
    """What is to be kept: of each level the newest and the one that reaches furthest, less weaker ones that reach no further
    than a stronger one.
    """
    own = [one for one in kept if one.level == new.level]
    furthest = max((one for one in own if one.until_ms > new.until_ms), key=lambda one: one.until_ms, default=None)
    rest = (
        one for one in kept if one.level != new.level and not (one.rank < new.rank and one.until_ms <= new.until_ms)
    )
    return (*rest, *([furthest] if furthest else []), new)


def proof_of(until_ms: int, proofs: Sequence[Proof], now_ms: int) -> Proof:
    """The strongest proof that RO is complete up to a time; that of metadata, as of now, where none reaches so far."""
    reaching = [one for one in proofs if one.until_ms >= until_ms]
    by_metadata = Proof(level="metadata", until_ms=until_ms, proved_at_ms=now_ms)
    return max((by_metadata, *reaching), key=lambda one: (one.rank, one.proved_at_ms))


def proven_until(proofs: Iterable[Proof], level: VerifyLevel) -> int | None:
    """Up to where a proof of the level or of a stronger one reaches; None without one."""
    return max((one.until_ms for one in proofs if one.rank >= Level[level]), default=None)
