"""ApplyStateStore in one small file of the table's own folder, so that it holds on every machine that works on the table."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from pydantic import ValidationError

from etc_policy.adapters.hudi.layout import ETC_FOLDER
from etc_policy.adapters.storage.door import open_storage
from etc_policy.declare.quantities import MAX_MS
from etc_policy.plan.apply_state import Misrecorded, Refusals, RunLengths, Unproven
from etc_policy.plan.proof import Proof


class FileRunLengths:
    """Keeps them in the same file."""

    def last_ms(self, base_path: str) -> int | None:
        """From the begin of the last run that compacted the table to the commit; None where nothing is known."""
        match _read(base_path).get("run_ms"):
            case int(run_ms) if not isinstance(run_ms, bool) and 0 <= run_ms <= MAX_MS:
                return run_ms
        return None

    def note(self, base_path: str, run_ms: int) -> None:
        """Keep how long a run took."""
        _write(base_path, {**_read(base_path), "run_ms": min(max(run_ms, 0), MAX_MS)})


class FileApplyState:
    """Keeps `memory.json` beside the lease; a file that cannot be read or written counts as empty."""

    runs: RunLengths = FileRunLengths()

    def verified(self, base_path: str) -> str | None:
        """Which compaction was verified last, and how, as it was noted; None where nothing is known."""
        proof = _read(base_path).get("verified")
        return proof if isinstance(proof, str) else None

    def note_verified(self, base_path: str, proof: str) -> None:
        """Keep which compaction was verified, and how; any text that is equal for equal proofs."""
        _write(base_path, {**_read(base_path), "verified": proof, "unproven": None})

    def unproven(self, base_path: str) -> Unproven | None:
        """The compaction that did not pass its verification, or None."""
        match _read(base_path).get("unproven"):
            case {"compaction": str(compaction), "why": str(why)}:
                return Unproven(compaction, why)
        return None

    def note_unproven(self, base_path: str, unproven: Unproven) -> None:
        """Keep that a compaction did not pass its verification; nothing is verified then."""
        pairs = {"compaction": unproven.compaction, "why": unproven.why}
        _write(base_path, {**_read(base_path), "verified": None, "unproven": pairs})

    def misrecorded(self, base_path: str) -> tuple[Misrecorded, ...]:
        """The log files that were found to hold earlier events than their commits recorded."""
        kept = _read(base_path).get("misrecorded")
        return tuple(filter(None, map(_misrecorded, kept if isinstance(kept, list) else ())))

    def note_misrecorded(self, base_path: str, found: tuple[Misrecorded, ...]) -> None:
        """Keep these log files, and no others."""
        if found != self.misrecorded(base_path):
            _write(base_path, {**_read(base_path), "misrecorded": [one._asdict() for one in found]})

    def proofs(self, base_path: str, subject: str) -> tuple[Proof, ...]:
        """The verifications that passed of a subject: a compaction, as it was named when they were noted."""
        match _read(base_path).get("proofs"):
            case {"subject": str(known), "of": list(kept)} if known == subject:
                return tuple(filter(None, map(_proof, kept)))
        return ()

    def note_proofs(self, base_path: str, subject: str, proofs: tuple[Proof, ...]) -> None:
        """Keep these proofs, and no others."""
        kept = {"subject": subject, "of": [one.model_dump() for one in proofs]}
        _write(base_path, {**_read(base_path), "proofs": kept})

    def refusals(self, base_path: str) -> Refusals | None:
        """The refusals in a row so far, or None."""
        match _read(base_path).get("refusals"):
            case {"count": int(count), "since": str(since), "pending": str(pending)}:
                return Refusals(count, since, pending)
            case {"count": int(count), "since": str(since)}:
                return Refusals(count, since)
        return None

    def note_refusals(self, base_path: str, refusals: Refusals | None) -> None:
        """Keep the refusals in a row; None ends the row."""
        pairs = asdict(refusals) if refusals else None
        _write(base_path, {**_read(base_path), "refusals": pairs})


_FILE = f"{ETC_FOLDER}/memory.json"


def _proof(pairs: object) -> Proof | None:
    with suppress(ValidationError):
        return Proof.model_validate(pairs)
    return None


def _misrecorded(pairs: object) -> Misrecorded | None:
    match pairs:
        case {"path": str(path), "size_bytes": int(size), "recorded_ms": int(recorded), "found_ms": int(found)}:
            return Misrecorded(path, size, recorded, found)
    return None


def _read(base_path: str) -> dict[str, Any]:
    with suppress(OSError, ValueError, RecursionError):
        content = json.loads(open_storage(base_path).read(_FILE))
        return content if isinstance(content, dict) else {}
    return {}


def _write(base_path: str, content: dict[str, Any]) -> None:
    with suppress(OSError):
        open_storage(base_path).replace(_FILE, json.dumps(content).encode())
