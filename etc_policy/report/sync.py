"""What the RO table's properties in the catalog say of it: computed from the table itself, written by an adapter (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import unquote
from zoneinfo import ZoneInfo

from etc_policy.errors import TableError
from etc_policy.errors.codes import Code
from etc_policy.policy.manifest import Level, Policy, VerifyLevel
from etc_policy.report.as_of_sql import up_to
from etc_policy.report.results import TableFreshness
from etc_policy.run.results import TableResult, TableStatus
from etc_policy.storage.open_storage import table_identity
from etc_policy.table.formats import iso_time
from etc_policy.table.history import promise_of
from etc_policy.table.instants import instant_to_ms
from etc_policy.table.state import CompactionRecord, TableState
from etc_policy.verify.metadata_checks import KNOWN
from etc_policy.verify.ports import CheckStatus
from etc_policy.verify.prover import proof_level, verdict_on_rows

PREFIX = "etc.event_time."
THRESHOLD = f"{PREFIX}threshold"
COMPLETE_UNTIL = f"{PREFIX}complete_until"
INSTANT = f"{PREFIX}instant"
POLICY = f"{PREFIX}policy"
STATUS = f"{PREFIX}status"
COMPLETE_UNTIL_LEVEL = f"{COMPLETE_UNTIL}_level"
COMPLETE_UNTIL_PROVED_AT = f"{COMPLETE_UNTIL}_proved_at"
VERIFIED_AT = f"{PREFIX}verified_at"
VERIFIED_LEVEL = f"{PREFIX}verified_level"
#: The condition of the view up to T, where there is one.
AS_OF = f"{PREFIX}as_of"
#: That view: one that the policy names no more hides ever more rows, and goes.
AS_OF_VIEW = f"{PREFIX}as_of_view"

#: Runs that completed no compaction, unless they finished an earlier one before (`resumed_instant`).
NOT_DONE: tuple[TableStatus, ...] = ("refused", "stale", "failed")

#: `partly_verified`: of the rows only a sample, a window or those of a condition were compared.
_VERIFIED, _PARTLY, _FAILED, _UNVERIFIED = "verified", "partly_verified", "failed", "unverified"
_SAID: dict[CheckStatus, str] = {"pass": _VERIFIED, "warn": _VERIFIED, "fail": _FAILED}


class PropertyStore(Protocol):
    """What the catalog says of the tables at one base path.

    Raises RetryableError when it cannot be asked, TableError for a table that it does not have, or has elsewhere.
    """

    def read(self, table: str, prefix: str = PREFIX) -> dict[str, str]:
        """The properties of `db.table` that begin so: those of etc if not given."""

    def write(self, table: str, changes: PropertyChanges) -> None:
        """Change the properties of `db.table`; what is to go goes before anything is set."""

    def write_view(self, view: str, table: str, condition: str | None) -> None:
        """Make or replace a view of the rows of a table for which a condition holds; remove the view for None."""

    def write_partition(self, table: str, partition: str, properties: Mapping[str, str]) -> None:
        """Set properties of the partition of `db.table` that lies at the path below the base path."""


def partition_values(partition: str, columns: int) -> tuple[str, ...]:
    """The values of a partition by its path, as Hudi's sync gives them to a catalog with so many partition columns.

    Several folders of one column (`2026/01/01`) are one value, `2026-01-01`.
    """
    parts = [unquote(part.partition("=")[2] if "=" in part else part) for part in partition.split("/")]
    return ("-".join(parts),) if columns == 1 else tuple(parts)


def require_located(table: str, location: str, base_path: str) -> None:
    """Whoever makes folders and whoever makes tables of the catalog need not be the same: a name alone says nothing.

    Raises:
        TableError: the catalog's table lies at another place than the policy's.

    """
    if table_identity(location) != table_identity(base_path):
        message = f"the policy's table lies at `{base_path}`, and `{table}` of the catalog at `{location}`"
        hint = "name the catalog's table of that folder in the policy, or write `table` as the catalog has it"
        raise TableError(Code.NO_RO_TABLE, message, hint=hint)


def no_partition(table: str, partition: str, base_path: str) -> TableError:
    """The error where the catalog knows no such partition."""
    hint = "Hudi's sync adds it (`hoodie.datasource.hive_sync.enable`); the next run tries again"
    message = f"the catalog has no partition of `{table}` at `{base_path.rstrip('/')}/{partition}`"
    return TableError(Code.NO_RO_TABLE, message, hint=hint)


def is_located_at(location: str, partition: str, base_path: str) -> bool:
    """Whether a partition that lies there is the one at this path of the table; no link below the table leads to it."""
    place, below = location.rstrip("/"), f"/{partition}"
    return place.endswith(below) and table_identity(place.removesuffix(below)) == table_identity(base_path)


@dataclass(frozen=True, slots=True)
class PropertyChanges:
    """Properties to take away, and properties to set."""

    remove: tuple[str, ...]
    put: Mapping[str, str]

    def __bool__(self) -> bool:
        return bool(self.remove or self.put)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A verification that took place: over which threshold and which compaction (None: whichever was last), and when.

    `verified_at` is empty where that is not known, `partial` is true where it looked at some of the rows only.
    """

    status: CheckStatus
    level: VerifyLevel
    threshold_ms: int | None
    instant: str | None
    verified_at: str
    partial: bool = False


def verdict_of(result: TableResult) -> Verdict | None:
    """The verdict in a result of `etc apply`; None where nothing was verified."""
    found = result.verification
    if found is None:
        return None
    instant = None if result.status == "nothing_due" else result.instant
    if result.status in NOT_DONE:
        instant = result.resumed_instant
    status = verdict_on_rows(found)
    return Verdict(status, found.level, found.threshold_ms, instant, result.completed_at, found.coverage is not None)


def complete_until(result: TableResult) -> tuple[int, VerifyLevel] | None:
    """Up to when (epoch ms) RO is complete after an `etc apply`, and at which level that is proved; None where nothing is.

    No further than was verified: of a plan that was refused, or failed, the threshold is not what holds. Nothing is where what
    an earlier verification found is in doubt.
    """
    found, measured = result.verification, result.watermark_measured_ms
    if found is None or result.threshold_ms is None or found.threshold_ms is None:
        return None
    if verdict_on_rows(found) not in ("pass", "warn") or any(one.expectation == KNOWN for one in found.expectations):
        return None
    ends = (result.threshold_ms, found.threshold_ms, measured)
    return min(one for one in ends if one is not None), proof_level(found)


def ro_properties(
    policy: Policy,
    state: TableState,
    freshness: TableFreshness,
    verdict: Verdict | None,
    before: Mapping[str, str],
    beside: Verdict | None = None,
) -> dict[str, str]:
    """The properties that the RO table is to have; times are epoch milliseconds, `..._at` are ISO 8601.

    The threshold is that of the last completed compaction by etc. `verified` is said only of a compaction that was
    verified: by `verdict` of a run, or earlier, as the properties `before` say; `beside` is what is kept beside the table of its
    latest verification, on whichever machine that was. What RO lacks by a verification, or what nobody should rely on by its
    freshness, is not promised: then there is no `complete_until`.
    """
    record = promise_of(policy, state)
    # what was verified before was another one at its instant, or of files that a restore replaced
    if record is not None:
        restored = (one.completed or one.requested for one in state.instants if one.action == "restore")
        since = iso_time(instant_to_ms(max((record.completed, *restored)), ZoneInfo(state.timezone)))
        before = before if before.get(VERIFIED_AT, "") >= since else {}
        verdict = None if verdict is not None and verdict.verified_at < since else verdict
    said = _latest(_said(record, verdict, before), _fresh(record, beside))
    properties = {POLICY: policy.name, **said}
    if record is not None:
        properties |= {THRESHOLD: str(record.threshold_ms), INSTANT: record.instant}
        if policy.sync.as_of_view is not None:
            properties[AS_OF] = up_to(policy, state.event_time_type, record.threshold_ms)
            properties[AS_OF_VIEW] = policy.sync.as_of_view
    until, proof = freshness.complete_until_ms, freshness.complete_until_proof
    if until is not None and proof is not None and said[STATUS] != _FAILED:
        properties |= {COMPLETE_UNTIL: str(until), COMPLETE_UNTIL_LEVEL: proof.level}
        properties[COMPLETE_UNTIL_PROVED_AT] = iso_time(proof.proved_at_ms)
    return properties


def changes_between(before: Mapping[str, str], wanted: Mapping[str, str]) -> PropertyChanges:
    """What makes `wanted` of `before`; nothing where they are the same."""
    put = {key: value for key, value in wanted.items() if before.get(key) != value}
    return PropertyChanges(tuple(sorted(set(before) - set(wanted))), put)


def _latest(said: dict[str, str], beside: dict[str, str] | None) -> dict[str, str]:
    """What is said; a later verification that failed, or that passed after one that did not, weighs more."""
    if beside is None:
        return said
    if beside[STATUS] == _FAILED:
        return said if said[STATUS] == _FAILED else beside
    is_open = said[STATUS] in (_FAILED, _UNVERIFIED)
    return beside if is_open and beside[VERIFIED_AT] > said.get(VERIFIED_AT, "") else said


def _said(record: CompactionRecord | None, verdict: Verdict | None, before: Mapping[str, str]) -> dict[str, str]:
    """Status, time and level of the latest verification of the compaction; a weaker one does not outweigh a stronger one."""
    kept = _kept(record, before)
    fresh = _fresh(record, verdict)
    if fresh is None:
        return kept or {STATUS: _UNVERIFIED}
    if _rank(fresh) < _rank(kept) and fresh[STATUS] != _FAILED:
        return kept
    return fresh


def _rank(said: Mapping[str, str]) -> tuple[int, bool]:
    level = Level.__members__.get(said.get(VERIFIED_LEVEL, ""))
    return -1 if level is None else level, said.get(STATUS) != _PARTLY


def _kept(record: CompactionRecord | None, before: Mapping[str, str]) -> dict[str, str]:
    said_of = before.get(INSTANT), before.get(THRESHOLD)
    if (
        record is None
        or said_of != (record.instant, str(record.threshold_ms))
        or before.get(STATUS) not in (_VERIFIED, _PARTLY, _FAILED)
        or VERIFIED_AT not in before
    ):
        return {}
    return {key: before[key] for key in (STATUS, VERIFIED_AT, VERIFIED_LEVEL) if key in before}


def _fresh(record: CompactionRecord | None, verdict: Verdict | None) -> dict[str, str] | None:
    """What the verdict says, where it is about the last compaction and could be reached at all."""
    if verdict is None or verdict.status not in _SAID:
        return None
    if record is None:
        covers = verdict.instant is None
    elif verdict.instant is not None:
        covers = verdict.instant == record.instant
    else:
        covers = verdict.threshold_ms is not None and verdict.threshold_ms >= record.threshold_ms
    if not covers:
        return None
    said = _SAID[verdict.status]
    status = _PARTLY if said == _VERIFIED and verdict.partial else said
    when = {VERIFIED_AT: verdict.verified_at, VERIFIED_LEVEL: verdict.level} if verdict.verified_at else {}
    return {STATUS: status, **when}
