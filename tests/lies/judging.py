"""What each level of verification says of a table, and whether what etc claims of it is true."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from etc_policy.errors import TableError
from etc_policy.hudi.log_times import fill_from_logs, read_all_logs
from etc_policy.hudi.table import FileTableReader
from etc_policy.policy.files import read_suite
from etc_policy.report.freshness import table_freshness
from etc_policy.verify.evidence import Claim, Evidence
from etc_policy.verify.metadata_checks import KNOWN
from etc_policy.verify.ports import Verification
from etc_policy.verify.prover import claim_of, verify_table
from etc_policy.verify.suites import parse_suite
from tests.lies.honest import NOW, Honest

LEVELS = ("metadata", "logs")


@dataclass(frozen=True)
class Seen:
    """What a level says: what it caught (empty: nothing), and what etc claims then."""

    caught: str
    claim: Claim | None = None
    complete_until_ms: int | None = None


def look(found: Honest, level: str) -> Seen:
    """The verdict of a level, as `etc verify` and `etc freshness` make it."""
    try:
        state, history = FileTableReader().read_with_history(str(found.table.base), found.policy.event_time)[:2]
        read = read_all_logs if level == "logs" else fill_from_logs
        state = read(state, found.policy, found.cache)
        claim = claim_of(found.policy, state, NOW)
        evidence = Evidence(found.policy, state, history, claim, NOW)
        path, text = read_suite("ro_complete", Path("no-such-project"))
        verdict = verify_table(evidence, parse_suite(text, path), level, _no_rows)
        fresh = table_freshness(found.policy, state, NOW, NOW, history)
    except TableError as error:
        return Seen(f"{error.code}: {error.message}")
    if caught := caught_by(verdict):
        return Seen(caught, claim, fresh.complete_until_ms)
    if level == "logs" and verdict.level != "logs":
        return Seen(f"unproven: {verdict.failures}", claim, fresh.complete_until_ms)
    if fresh.status == "unknown":
        return Seen(f"unknown: {fresh.reason}", claim)
    return Seen("", claim, fresh.complete_until_ms)


def caught_by(verdict: Verification) -> str:
    """What failed, empty where nothing did; a check that could not be carried out catches nothing, and is an error here."""
    broken = [str(one) for one in verdict.expectations if one.status == "error" and one.expectation != KNOWN]
    assert not broken, broken
    return verdict.failures if verdict.status in ("fail", "error") else ""


def _no_rows():
    raise AssertionError("no level here reads rows")


def is_false(found: Honest, seen: Seen) -> bool:
    """Whether a log file that is not compacted holds an event that etc says RO has."""
    for one in found.logs:
        claim, until = seen.claim, seen.complete_until_ms
        if claim is not None and one.min_ms <= claim.threshold_ms and one.completed <= claim.seen_until:
            return True
        if until is not None and one.min_ms <= until:
            return True
    return False
