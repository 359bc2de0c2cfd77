"""Lies in what is kept of a table: the catalog, and what etc remembers."""
# ruff: noqa: E501

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from zlib import crc32

from etc_policy.hudi.apply_state import FileApplyStateStore
from etc_policy.report.freshness import table_freshness
from etc_policy.report.sync import PREFIX, ro_properties
from etc_policy.table.apply_state import Proof, Proofs
from tests.lies.about_table import DAY_MS
from tests.lies.about_writes import damage_log, early_in_place, one_byte
from tests.lies.honest import HOUR_MS, NOW, Honest, LogTruth
from tests.lies.judging import look
from tests.lies.lie import ROWS, Lie, Told, recorded_log

_KEPT = "what is kept beside the table, or in its catalog, is believed until the next verification or sync"


def _read_before(found: Honest, random: Random) -> LogTruth | None:
    """A log file that an earlier run has read."""
    found.cache = found.table.base.parent / "cache"
    look(found, "logs")
    return recorded_log(found, random)


def _cache_file(found: Honest):
    found.cache = found.table.base.parent / "cache"
    look(found, "logs")
    return next(found.cache.glob("*.json"), None)


def _bit_of_cache(found: Honest, random: Random) -> Told | None:
    path = _cache_file(found)
    if path is None:
        return None
    one_byte(path, random)
    return Told("one bit of the cache of event times")


def _forged_cache(found: Honest, random: Random) -> Told | None:
    path = _cache_file(found)
    if path is None:
        return None
    tables = json.loads(path.read_bytes().partition(b"\n")[2])
    for files in tables.values():
        for entry in files.values():
            entry[1] = entry[1] and entry[1] + random.randrange(1, 4 * HOUR_MS)
    content = json.dumps(tables).encode()
    path.write_bytes(b"%08x\n%b" % (crc32(content), content))
    return Told("later times in the cache, below a right checksum")


def _catalog(said: str, **forged: str):
    """Properties of the RO table that somebody has changed; the next sync computes them anew."""

    def tell(found: Honest, random: Random) -> Told | None:
        state = found.state()
        if state.last_compaction is None:
            return None
        fresh = table_freshness(found.policy, state, NOW, NOW)
        right = ro_properties(found.policy, state, fresh, None, {})
        after = ro_properties(found.policy, state, fresh, None, {**right, **{PREFIX + k: v for k, v in forged.items()}})
        return Told(f"catalog: {said}", harm=True, mended_by="the next `etc sync`" if after == right else "")

    return tell


def _forged_proof(found: Honest, random: Random) -> Told | None:
    """What is kept beside the table says that rows were compared."""
    store, base_path = FileApplyStateStore(), str(found.table.base)
    forged = Proofs("subject", (Proof(level="data", until_ms=NOW, proved_at_ms=NOW),))
    store.update(base_path, lambda kept: replace(kept, proofs=forged))
    fresh = table_freshness(found.policy, found.state(), NOW, NOW, None, store.read(base_path).proofs_of("subject"))
    said = fresh.complete_until_proof
    return Told("a proof by rows that never was", harm=said is not None and said.level == "data")


LIES = (
    Lie("catalog", "a later complete_until", _catalog("complete_until", complete_until=str(DAY_MS * 2))),
    Lie("catalog", "a proof by rows", _catalog("level", complete_until_level="data")),
    Lie("catalog", "a verification that never was", _catalog("status", status="verified", verified_at="2026-01-01T12:00:00Z", verified_level="data"), _KEPT),
    Lie("cache", "one bit of the cache", _bit_of_cache),
    Lie("cache", "later times below a right checksum", _forged_cache, ROWS),
    Lie("cache", "an earlier event in as many bytes, after the file was read", damage_log("in place", early_in_place, _read_before), ROWS),
    Lie("cache", "a proof by rows, kept beside the table", _forged_proof, _KEPT),
)  # fmt: skip
