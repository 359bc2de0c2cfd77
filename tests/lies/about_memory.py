"""Lies in what is kept of a table: the catalog, and what etc remembers."""
# ruff: noqa: E501

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from unittest.mock import patch

from etc_policy.hudi.apply_state import FileApplyStateStore
from etc_policy.report.freshness import table_freshness
from etc_policy.report.sync import PREFIX, ro_properties
from etc_policy.storage import local
from etc_policy.storage.object_cache import MemoryCache, ObjectCache
from etc_policy.table.apply_state import Proof, Proofs
from tests.lies.about_table import DAY_MS
from tests.lies.about_writes import damage_log, early_in_place, one_byte
from tests.lies.honest import HOUR_MS, NOW, Honest, LogTruth
from tests.lies.judging import look
from tests.lies.lie import ROWS, Lie, Told, recorded_log

_KEPT = "what is kept beside the table, or in its catalog, is believed until the next verification or sync"


def _read_before(found: Honest, random: Random) -> LogTruth | None:
    """A log file that an earlier run has read."""
    found.cache = MemoryCache()
    _look_at_rest(found)
    return recorded_log(found, random)


def _look_at_rest(found: Honest) -> None:
    """As if what was written a moment ago were old."""
    with patch.object(local, "_AT_REST_NS", 0):
        look(found, "logs")


def _bit_of_cache(found: Honest, random: Random) -> Told | None:
    folder = found.table.base.parent / "cache"
    found.cache = ObjectCache(folder)
    _look_at_rest(found)
    path = next((path for path in folder.rglob("*") if path.is_file()), None)
    if path is None:
        return None
    one_byte(path, random)
    return Told("one bit of the cache of event times")


def _forged_cache(found: Honest, random: Random) -> Told | None:
    cache = found.cache = MemoryCache()
    _look_at_rest(found)
    for key, content in cache.items():
        files = json.loads(content)
        for entry in files.values():
            entry[1] = entry[1] and entry[1] + random.randrange(1, 4 * HOUR_MS)
        cache[key] = json.dumps(files).encode()
    return Told("later times in the user's own cache") if cache else None


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
    Lie("cache", "later times in the user's own cache", _forged_cache, ROWS),
    Lie("cache", "an earlier event in as many bytes, after the file was read", damage_log("in place", early_in_place, _read_before), ROWS),
    Lie("cache", "a proof by rows, kept beside the table", _forged_proof, _KEPT),
)  # fmt: skip
