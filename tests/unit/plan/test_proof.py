"""Which proofs are kept, and which of them stands behind what is said."""

import pytest

from etc_policy.table.apply_state import Proof, proof_of, proven_until, with_proof


def proof(level, until, at=0):
    return Proof(level=level, until_ms=until, proved_at_ms=at)


ROWS, LOGS, METADATA = proof("data", 50, 1), proof("logs", 70, 2), proof("metadata", 90, 3)


@pytest.mark.parametrize(
    ("until", "level", "at"),
    [(50, "data", 1), (51, "logs", 2), (70, "logs", 2), (71, "metadata", 9), (95, "metadata", 9)],
)
def test_the_strongest_that_reaches_as_far(until, level, at):
    """Metadata was read just now, which is newer than what is kept of it."""
    found = proof_of(until, (METADATA, LOGS, ROWS), 9)
    assert (found.level, found.proved_at_ms) == (level, at)


def test_a_stronger_proof_counts_as_a_weaker_one():
    assert proven_until((ROWS, LOGS), "logs") == 70
    assert proven_until((ROWS, LOGS), "data") == 50
    assert proven_until((proof("sample", 80), ROWS), "logs") == 80
    assert proven_until((LOGS, METADATA), "data") is None


def test_only_what_says_more_is_kept():
    assert with_proof((), LOGS) == (LOGS,)
    assert with_proof((METADATA, LOGS), proof("data", 80)) == (METADATA, proof("data", 80))
    assert with_proof((ROWS, proof("logs", 60)), LOGS) == (ROWS, LOGS)


def test_one_that_reaches_less_far_takes_nothing_back():
    """A run with nothing due reaches further than the compaction's threshold, which `etc verify` proves once more."""
    newer = proof("logs", 60, 5)
    assert with_proof((ROWS, LOGS), newer) == (ROWS, LOGS, newer)
    assert with_proof((LOGS, newer), proof("logs", 65, 6)) == (LOGS, proof("logs", 65, 6))


def test_in_words():
    assert str(proof("data", 5, 1_767_268_800_123)) == "proof: data, 2026-01-01 12:00:00 UTC"
