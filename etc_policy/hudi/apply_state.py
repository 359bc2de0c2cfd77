"""ApplyStateStore in one small file of the table's own folder, so that it holds on every machine that works on the table."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any, TypeVar

from pydantic import ValidationError

from etc_policy.errors import EtcError, RetryableError, let_go
from etc_policy.hudi.layout import ETC_FOLDER
from etc_policy.hudi.stable_reading import table_errors
from etc_policy.plan.hold import MAX_HOLD_BYTES
from etc_policy.policy.bounded_json import load_json
from etc_policy.policy.manifest import Frozen
from etc_policy.policy.quantities import MAX_MS
from etc_policy.storage.open_storage import is_remote, open_reader, real_path
from etc_policy.storage.shared_file import change_shared, read_shared, write_shared
from etc_policy.table.apply_state import (
    ApplyState,
    ComparedFiles,
    Looked,
    Misrecorded,
    Proof,
    Proofs,
    Refusals,
    Runs,
    Unproven,
)

_FILE = f"{ETC_FOLDER}/memory.json"
#: In a file of its own, which stays as it is: which table it was that etc began to work on.
_PLACE = f"{ETC_FOLDER}/place"
_LONGEST_PLACE = 4_096

#: Longer no text is that etc says of a table; what others write goes into records and messages about all tables.
_MOST_LETTERS = 8_000

Model = TypeVar("Model", bound=Frozen)


class FileApplyStateStore:
    """Keeps `memory.json` beside the lease; one that means nothing counts as empty, and one that cannot be read does not."""

    def read(self, base_path: str) -> ApplyState:
        """What is kept now; what means nothing counts as missing.

        Raises:
            TableError: the storage does not give it, so that nobody knows whether the table is in doubt.

        """
        with table_errors(base_path):
            return _state_of(_parsed(read_shared(base_path, _FILE)))

    def update(self, base_path: str, change: Callable[[ApplyState], ApplyState]) -> ApplyState:
        """Keep what the change makes of what is kept right now; returns that.

        Only what it changes is written, so that what another version of etc keeps in the file stays; and nothing where the
        storage does not give what is kept, so that none of it is lost.
        """
        made: list[ApplyState] = []

        def changed(kept: bytes | None) -> bytes | None:
            content = _parsed(kept)
            before = _state_of(content)
            made.append(change(before))
            known = _content_of(before)
            changes = {name: value for name, value in _content_of(made[-1]).items() if value != known[name]}
            return json.dumps({**content, **changes, **_placed(base_path, content)}).encode() if changes else None

        with suppress(OSError):
            change_shared(base_path, _FILE, changed)
        return made[-1] if made else change(_kept_or_nothing(base_path))


def worked_on_since(base_path: str) -> int | None:
    """When etc began to work on the table at this place, as its storage says (ns); None where nothing of etc says so.

    Whoever copies what is beside another table is later, and what was moved names another place.

    Raises:
        RetryableError: the store does not answer.

    """
    try:
        storage = open_reader(base_path)
        found = storage.info(_PLACE)
        if found is not None and storage.read(_PLACE, _LONGEST_PLACE) == os.fsencode(_place_of(base_path)):
            return found.changed_ns
    except RetryableError:
        raise
    except (OSError, EtcError) as error:  # whoever may write the table may make it so
        let_go(error)
    return None


def _placed(base_path: str, content: Mapping[str, Any]) -> dict[str, str]:
    """The place of the table, noted in a file where what is kept does not say that it was."""
    place = _place_of(base_path)
    with suppress(OSError):
        if content.get("place") != place and worked_on_since(base_path) is None:
            write_shared(base_path, _PLACE, os.fsencode(place))
        return {"place": place}
    return {}


def _place_of(base_path: str) -> str:
    """A table's name and that of its folder: the rest of the way may be another one on each machine."""
    whole = base_path if is_remote(base_path) else real_path(base_path)
    return "/".join(whole.rstrip("/").split("/")[-2:])


def _kept_or_nothing(base_path: str) -> ApplyState:
    """What is kept, if it can be read: nothing can be written there."""
    with suppress(OSError):
        return _state_of(_parsed(read_shared(base_path, _FILE)))
    return ApplyState()


def _parsed(kept: bytes | None) -> dict[str, Any]:
    with suppress(ValueError, RecursionError):
        content = load_json(kept or b"{}")
        return content if isinstance(content, dict) else {}
    return {}


def _content_of(state: ApplyState) -> dict[str, Any]:
    """The state as it is in the file."""
    proofs = state.proofs
    return {
        "run_ms": None if state.run_ms is None else min(max(state.run_ms, 0), MAX_MS),
        "verified": state.verified,
        "unproven": [_pairs_of(one) for one in state.unproven],
        "misrecorded": [one._asdict() for one in state.misrecorded],
        "proofs": {"subject": proofs.subject, "of": [one.model_dump() for one in proofs.of]} if proofs else None,
        "refusals": asdict(state.refusals) if state.refusals else None,
        "runs": state.runs.model_dump(mode="json"),
        "busy": [list(group) for group in state.busy],
        "hold_bytes": state.hold_bytes,
        "compared": dict(state.compared),
        "compared_files": state.compared_files.model_dump(mode="json") if state.compared_files else None,
    }


def _state_of(content: Mapping[str, Any]) -> ApplyState:
    """The state that a file holds; what means nothing in it is missing."""
    verified, misrecorded = content.get("verified"), content.get("misrecorded")
    return ApplyState(
        run_ms=_natural(content.get("run_ms")),
        verified=verified if isinstance(verified, str) else None,
        unproven=_all_unproven(content.get("unproven")),
        misrecorded=tuple(filter(None, map(_misrecorded, misrecorded if isinstance(misrecorded, list) else ()))),
        proofs=_proofs(content.get("proofs")),
        refusals=_refusals(content.get("refusals")),
        runs=_valid(Runs, content.get("runs")) or Runs(),
        busy=_busy(content.get("busy")),
        hold_bytes=_natural(content.get("hold_bytes"), MAX_HOLD_BYTES),
        compared=_compared(content.get("compared")),
        compared_files=_valid(ComparedFiles, content.get("compared_files")),
    )


def _valid(model: type[Model], found: object) -> Model | None:
    with suppress(ValidationError):
        return model.model_validate(found)
    return None


def _compared(pairs: object) -> dict[str, str]:
    found = pairs.items() if isinstance(pairs, dict) else ()
    return {partition: key for partition, key in found if isinstance(key, str)}


def _busy(groups: object) -> tuple[tuple[str, str], ...]:
    found = (one for one in groups if isinstance(one, list)) if isinstance(groups, list) else ()
    return tuple((one[0], one[1]) for one in found if [type(part) for part in one] == [str, str])


def _cut(text: str) -> str:
    return text[:_MOST_LETTERS]


def _natural(value: object, most: int = MAX_MS) -> int | None:
    return value if type(value) is int and 0 <= value <= most else None


def _pairs_of(doubt: Unproven) -> dict[str, Any]:
    """With the level by itself, as an older etc reads it."""
    rows, level = (doubt.rows.model_dump(mode="json"), doubt.rows.level) if doubt.rows else (None, None)
    return {**asdict(replace(doubt, rows=None)), "level": level, "rows": rows, "passed": list(doubt.passed)}


def _all_unproven(found: object) -> tuple[Unproven, ...]:
    """An older etc kept one alone, of whatever event time."""
    kept = found if isinstance(found, list) else [found]
    return tuple(filter(None, map(_unproven, kept)))


def _unproven(pairs: object) -> Unproven | None:
    found = _verdict(pairs)
    match pairs:
        case {"event_time": str(event_time), "passed": list(passed), **more} if found is not None:
            known = tuple(one for one in passed if isinstance(one, str))
            return replace(found, event_time=event_time, passed=known, written_ms=_natural(more.get("written_ms")) or 0)
    return found


def _verdict(pairs: object) -> Unproven | None:
    match pairs:
        case {"compaction": str(compaction), "why": str(why), "verification": "running"}:
            return Unproven(_cut(compaction), _cut(why), "running")
        case {"compaction": str(compaction), "why": str(why), "verification": "fail", **others}:
            # an older etc kept a level; what means nothing is all rows
            rows = others.get("rows") or others.get("level")
            looked = None if rows is None else _valid(Looked, rows) or Looked(level="data")
            return Unproven(_cut(compaction), _cut(why), "fail", looked)
        case {"compaction": str(compaction), "why": str(why)}:
            return Unproven(_cut(compaction), _cut(why))
    return None


def _misrecorded(pairs: object) -> Misrecorded | None:
    match pairs:
        case {"path": str(path), "size_bytes": int(size), "recorded_ms": int(recorded), "found_ms": int(found), **more}:
            event_time = more.get("event_time")
            return Misrecorded(path, size, recorded, found, event_time if isinstance(event_time, str) else "")
    return None


def _proofs(pairs: object) -> Proofs | None:
    match pairs:
        case {"subject": str(subject), "of": list(kept)}:
            return Proofs(subject, tuple(one for found in kept if (one := _valid(Proof, found)) is not None))
    return None


def _refusals(pairs: object) -> Refusals | None:
    match pairs:
        case {"count": count, "since": str(since), **more} if (known := _natural(count)) is not None:
            pending = more.get("pending")
            return Refusals(known, _cut(since), _cut(pending) if isinstance(pending, str) else "")
    return None
