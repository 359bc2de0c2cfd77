"""The evolved schema that commits of tables with schema on read carry on, and by which Hudi reads and merges.

See facts: schema-of-the-cut. Beside the timeline Hudi keeps all versions of it, in which a column has one number under all
its names.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

from etc_policy.hudi.table_commits import is_write
from etc_policy.hudi.timeline import Timeline
from etc_policy.hudi.values import load_json
from etc_policy.table.evolved_schema import Lacking, find_lacking
from etc_policy.table.state import HIDDEN, Instant

#: The pair of a commit's metadata by which tables with schema on read know names and types that columns had before.
EVOLVED_SCHEMA = "latest_schema"
_VERSIONS_FOLDER = ".hoodie/.schema"
_VERSIONS_FILE = re.compile(r"(?P<instant>\d{14,17})(?:_\d+)?\.schemacommit")
#: Where a version says the number of a column, of the elements of a list and of the keys and values of a map.
_NUMBERS = {"fields": "id", "element": "element_id", "key": "key_id", "value": "value_id"}


def evolved_schema_before(timeline: Timeline, instant: str) -> str:
    """The schema that the last completed write requested before an instant carries; empty where it carries none."""
    before = max((one for one in _writes(timeline) if one < instant), default=None)
    return timeline.commit(before).extra.get(EVOLVED_SCHEMA, "") if before is not None else ""


def with_schemas(timeline: Timeline) -> tuple[Instant, ...]:
    """All instants, where completed writes have the names of the schemas that they carry."""
    names = _names(timeline, _writes(timeline))
    return tuple(replace(one, schema=names.get(one.requested, "")) for one in timeline.instants())


def lacking_at(timeline: Timeline, instant: str) -> Lacking | None:
    """Why a compaction at an instant would not merge by the table's schema, of what was requested since and the last before."""
    writes = sorted(one for one in _writes(timeline) if one != instant)
    last = sum(one < instant for one in writes) - 1
    seen = writes[max(last, 0) :]
    timeline.expect(timeline.latest(one) for one in seen)
    names = _names(timeline, seen)
    return find_lacking((Instant(one, "commit", "completed", schema=names[one]) for one in seen), instant)


def _writes(timeline: Timeline) -> Iterator[str]:
    return (one for one in timeline.completions if is_write(timeline.latest(one)))


def _names(timeline: Timeline, writes: Iterable[str]) -> dict[str, str]:
    """The name of the schema that each of the writes carries: HIDDEN for none where that loses values, else empty."""
    names = {one: _name_of(timeline.commit(one).extra.get(EVOLVED_SCHEMA, "")) for one in writes}
    altered = _altered_from(timeline) if "" in names.values() else None
    if altered is None:
        return names
    return {one: name or (HIDDEN if one > altered else "") for one, name in names.items()}


@lru_cache(maxsize=256)
def _name_of(schema: str) -> str:
    """A short text that is another one for another schema: mostly all commits carry the same."""
    return hashlib.sha256(schema.encode(errors="surrogatepass")).hexdigest()[:16] if schema else ""


def _altered_from(timeline: Timeline) -> str | None:
    """The instant of the first version of a schema that has lost or changed columns since; None where columns were only added."""
    try:
        names = timeline.storage.names(_VERSIONS_FOLDER)
    except (FileNotFoundError, NotADirectoryError):
        return None
    found = ((match["instant"], name) for name in names if (match := _VERSIONS_FILE.fullmatch(name)))
    first = timeline.first_active or ""
    newest = max(((at, name) for at, name in found if at in timeline.completions or at < first), default=None)
    if newest is None:
        return None
    return _first_altered(timeline.storage.read(f"{_VERSIONS_FOLDER}/{newest[1]}"), newest[0])


def _first_altered(content: bytes, otherwise: str) -> str | None:
    """As `_altered_from`, of all versions as Hudi keeps them; `otherwise` where these have another form."""
    try:
        versions = {int(one["version_id"]): _columns(one) for one in load_json(content)["schemas"]}
        newest = versions[max(versions)]
        if all(one.items() <= newest.items() for one in versions.values()):
            return None
        return str(min(version for version in versions if version))
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
        return otherwise


def _columns(kind: Any, path: str = "") -> dict[str, tuple[int, str]]:
    """Number and type by path of each column, also within others."""
    found: dict[str, tuple[int, str]] = {}
    for part, number in _NUMBERS.items():
        inner = kind.get(part) if isinstance(kind, dict) else None
        for one in inner if isinstance(inner, list) else [{**kind, "type": inner, "name": part}] if inner else ():
            below, own = f"{path}.{one['name']}", one["type"]
            found[below] = int(one[number]), own if isinstance(own, str) else str(own["type"])
            found |= _columns(own, below)
    return found
