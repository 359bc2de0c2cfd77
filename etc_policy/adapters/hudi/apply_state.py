"""ApplyStateStore in one small file of the table's own folder, so that it holds on every machine that works on the table."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from etc_policy.adapters.hudi.layout import etc_folder, local_path
from etc_policy.execute.ports import Refusals


class FileApplyState:
    """Keeps `memory.json` beside the lease; a file that cannot be read or written counts as empty."""

    def verified(self, base_path: str) -> str | None:
        """Which compaction was verified last, and how, as it was noted; None where nothing is known."""
        proof = _read(base_path).get("verified")
        return proof if isinstance(proof, str) else None

    def note_verified(self, base_path: str, proof: str) -> None:
        """Keep which compaction was verified, and how; any text that is equal for equal proofs."""
        _write(base_path, {**_read(base_path), "verified": proof})

    def refusals(self, base_path: str) -> Refusals | None:
        """The refusals in a row so far, or None."""
        match _read(base_path).get("refusals"):
            case {"count": int(count), "since": str(since)}:
                return Refusals(count, since)
        return None

    def note_refusals(self, base_path: str, refusals: Refusals | None) -> None:
        """Keep the refusals in a row; None ends the row."""
        pairs = {"count": refusals.count, "since": refusals.since} if refusals else None
        _write(base_path, {**_read(base_path), "refusals": pairs})


def _path(base_path: str) -> Path:
    return etc_folder(local_path(base_path)) / "memory.json"


def _read(base_path: str) -> dict[str, Any]:
    with suppress(OSError, ValueError, RecursionError):
        content = json.loads(_path(base_path).read_text("utf-8"))
        return content if isinstance(content, dict) else {}
    return {}


def _write(base_path: str, content: dict[str, Any]) -> None:
    path = _path(base_path)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        draft.write_text(json.dumps(content), "utf-8")
        draft.replace(path)
