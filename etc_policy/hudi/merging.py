"""How a table merges the rows of a key, as far as its properties say it: a line of the matrix of bundles.

See facts: merge-matrix.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from etc_policy.hudi.properties import (
    COMMIT_TIME_STRATEGY,
    EVENT_TIME_STRATEGY,
    MERGE_STRATEGY,
    PAYLOAD,
    STRATEGY_OF_HUDI_0,
    ordering_fields,
)
from etc_policy.plan.bundles import OF_HUDI_0

_MODE, _PARTIAL = "hoodie.record.merge.mode", "hoodie.table.partial.update.mode"
_ORDERING_OF_HUDI_1_0, _FIRST_OF_HUDI_1 = "hoodie.table.precombine.field", 8
_RULE = "hoodie.record.merge.property."
_BY_PAYLOAD = "00000000-0000-0000-0000-000000000000"
_KNOWN_STRATEGIES = (EVENT_TIME_STRATEGY, COMMIT_TIME_STRATEGY, _BY_PAYLOAD)
#: What Hudi itself takes for a mode, so that it says nothing more.
_USUAL = {
    "EVENT_TIME_ORDERING": "DefaultHoodieRecordPayload",
    "COMMIT_TIME_ORDERING": "OverwriteWithLatestAvroPayload",
}
#: The first table version whose rows are merged by modes alone, whatever payload class the table was made with.
_MODES_ALONE = 9


def merging_of(properties: Mapping[str, str]) -> str:
    """The table's version, mode or payload, ordering and rules, in words; names of columns and their values are not in it."""
    return ", ".join(_parts(properties))


def _parts(properties: Mapping[str, str]) -> Iterator[str]:
    version = int(properties["hoodie.table.version"])
    yield f"table version {version}{_makers(properties, version)}"
    yield from _ways(properties, version)
    count = len(ordering_fields(properties))
    yield ("no ordering field", "one ordering field")[count] if count < 2 else "several ordering fields"
    rules = sorted(key.removeprefix(_RULE) for key in properties if key.startswith(_RULE))
    if rules:
        yield f"with {' and '.join(rules)}"


def _makers(properties: Mapping[str, str], version: int) -> str:
    """Which releases make tables with such properties, as far as these tell it; empty for later ones, or where they do not."""
    if version < _FIRST_OF_HUDI_1 and MERGE_STRATEGY not in properties:
        return f" {OF_HUDI_0}"
    return " of Hudi 1.0" if _ORDERING_OF_HUDI_1_0 in properties else ""


def _ways(properties: Mapping[str, str], version: int) -> Iterator[str]:
    mode, strategy = properties.get(_MODE), properties.get(MERGE_STRATEGY) or properties.get(STRATEGY_OF_HUDI_0)
    if mode is not None and mode in _USUAL:
        yield mode
    if properties.get(_PARTIAL):
        yield properties[_PARTIAL]
    if strategy and strategy not in _KNOWN_STRATEGIES:
        yield f"merge strategy {strategy}"
    payload = _short(properties.get(PAYLOAD) or "")
    if version >= _MODES_ALONE and mode in _USUAL:
        return
    if payload and payload != _USUAL.get(mode or ""):
        yield payload
    elif not payload and mode not in _USUAL:
        yield "no payload"


def _short(payload: str) -> str:
    """The class without its package, where that is Hudi's own."""
    return payload.rpartition(".")[2] if payload.startswith("org.apache.hudi.") else payload
