"""How a table merges the rows of a key, by its properties."""

from __future__ import annotations

from collections.abc import Mapping

from etc_policy.adapters.hudi.properties import names_in

#: The merge modes that take one row or the other, and none of its columns from the other.
_WHOLE_ROWS = ("EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING")
#: So do these payloads of Hudi.
_WHOLE_ROW_PAYLOADS = frozenset(
    {"DefaultHoodieRecordPayload", "EventTimeAvroPayload", "OverwriteWithLatestAvroPayload"}
    | {"AWSDmsAvroPayload", "MySqlDebeziumAvroPayload"}
)
#: What writers of Hudi 1.x record on table version 6 where rows are merged by event time; 0.x has no such property.
_MERGE_STRATEGY = "hoodie.record.merge.strategy.id"
_EVENT_TIME, _COMMIT_TIME = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5", "ce9acb64-bde0-424c-9b91-f6ebba25356d"
#: What tables of Hudi 0.x name instead: a payload, and from 0.13 on a strategy that may go another way.
_PAYLOAD = "hoodie.compaction.payload.class"
#: Payloads of 0.x by which rows are merged by event time alone; Flink takes the second unless it is told another.
_BY_EVENT_TIME = tuple(
    f"org.apache.hudi.common.model.{payload}" for payload in ("DefaultHoodieRecordPayload", "EventTimeAvroPayload")
)
_STRATEGY_OF_HUDI_0 = "hoodie.compaction.record.merger.strategy"


def ordering_fields(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The columns by which the rows of a key are ordered; none where the last commit wins."""
    return names_in(properties.get("hoodie.table.ordering.fields") or properties.get("hoodie.table.precombine.field"))


def merges_in_any_order(properties: Mapping[str, str]) -> bool:
    """Whether it is known that RT does not depend on which log files are compacted first.

    By the payload that Hudi 0.x takes if nothing is said, it does: log records are merged with each other by ordering value,
    and the result wins over the base file whatever that holds (FACTS 8).
    """
    if _MERGE_STRATEGY in properties:
        return properties[_MERGE_STRATEGY] in (_EVENT_TIME, _COMMIT_TIME)
    strategy = properties.get(_STRATEGY_OF_HUDI_0, _EVENT_TIME)
    return properties.get(_PAYLOAD) in _BY_EVENT_TIME and strategy == _EVENT_TIME


def updates_in_part(properties: Mapping[str, str]) -> bool:
    """Whether a row may change columns of one with an earlier event time, or nobody knows that it does not.

    So do partial updates (FACTS 4): a row without an event time keeps the old one's, and one that loses fills in what is missing.
    """
    if properties.get("hoodie.table.partial.update.mode"):
        return True
    mode, strategy = properties.get("hoodie.record.merge.mode"), properties.get(_MERGE_STRATEGY)
    if mode in _WHOLE_ROWS or strategy in (_EVENT_TIME, _COMMIT_TIME):
        return False
    payload = properties.get(_PAYLOAD)
    if payload:
        return payload.rpartition(".")[2] not in _WHOLE_ROW_PAYLOADS
    return mode == "CUSTOM" or (strategy or properties.get(_STRATEGY_OF_HUDI_0, _EVENT_TIME)) != _EVENT_TIME
