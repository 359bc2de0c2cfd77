"""How a table merges its rows, in the words by which the results of the played bundles are found."""

import pytest

from etc_policy.hudi.properties import merging_of

HUDI = "org.apache.hudi.common.model"
MODE, PAYLOAD, STRATEGY = (
    *("hoodie.record.merge.mode", "hoodie.compaction.payload.class"),
    "hoodie.record.merge.strategy.id",
)
BY_EVENT_TIME, BY_PAYLOAD = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5", "00000000-0000-0000-0000-000000000000"
BY_SEQ = {"hoodie.table.precombine.field": "seq"}


@pytest.mark.parametrize(
    ("version", "properties", "merging"),
    [
        (
            6,
            {PAYLOAD: f"{HUDI}.debezium.PostgresDebeziumAvroPayload", **BY_SEQ},
            "table version 6 of Hudi 0.x, PostgresDebeziumAvroPayload, one ordering field",
        ),
        (
            6,
            {
                PAYLOAD: f"{HUDI}.OverwriteWithLatestAvroPayload",
                "hoodie.compaction.record.merger.strategy": "00000000-0000-0000-0000-00000000000a",
            },
            "table version 6 of Hudi 0.x, merge strategy 00000000-0000-0000-0000-00000000000a, OverwriteWithLatestAvroPayload, "
            "no ordering field",
        ),
        (
            6,
            {PAYLOAD: f"{HUDI}.DefaultHoodieRecordPayload", STRATEGY: BY_EVENT_TIME, **BY_SEQ},
            "table version 6 of Hudi 1.0, DefaultHoodieRecordPayload, one ordering field",
        ),
        (
            8,
            {
                MODE: "EVENT_TIME_ORDERING",
                STRATEGY: BY_EVENT_TIME,
                PAYLOAD: f"{HUDI}.DefaultHoodieRecordPayload",
                **BY_SEQ,
            },
            "table version 8 of Hudi 1.0, EVENT_TIME_ORDERING, one ordering field",
        ),
        (
            8,
            {MODE: "EVENT_TIME_ORDERING", STRATEGY: BY_EVENT_TIME, PAYLOAD: f"{HUDI}.EventTimeAvroPayload", **BY_SEQ},
            "table version 8 of Hudi 1.0, EVENT_TIME_ORDERING, EventTimeAvroPayload, one ordering field",
        ),
        (
            8,
            {MODE: "CUSTOM", STRATEGY: BY_PAYLOAD, PAYLOAD: "com.example.Mine", **BY_SEQ},
            "table version 8 of Hudi 1.0, com.example.Mine, one ordering field",
        ),
        (
            9,
            {MODE: "CUSTOM", STRATEGY: "mine"},
            "table version 9, merge strategy mine, no payload, no ordering field",
        ),
        (
            9,
            {
                MODE: "EVENT_TIME_ORDERING",
                "hoodie.table.partial.update.mode": "FILL_UNAVAILABLE",
                "hoodie.table.legacy.payload.class": f"{HUDI}.debezium.PostgresDebeziumAvroPayload",
                "hoodie.table.ordering.fields": "a,b",
                "hoodie.record.merge.property.hoodie.payload.delete.marker": "d",
            },
            "table version 9, EVENT_TIME_ORDERING, FILL_UNAVAILABLE, several ordering fields, with hoodie.payload.delete.marker",
        ),
    ],
)
def test_what_the_properties_say(version, properties, merging):
    assert merging_of({"hoodie.table.version": str(version), **properties}) == merging
