"""What a table's properties say of how rows of a key are merged, and what follows for its log files."""

from dataclasses import replace

import pytest

from etc_policy.hudi.log_times import fill_from_logs
from etc_policy.hudi.properties import ordering_fields, updates_in_part
from etc_policy.hudi.table import FileTableReader
from etc_policy.plan.builder import build_table_plan
from etc_policy.policy.manifest import EventTime
from tests.unit.hudi.log_file import avro
from tests.unit.hudi.table_folder import TableFolder, at, base, log
from tests.unit.plan.states import POLICY

PAYLOAD, HUDI = "hoodie.compaction.payload.class", "org.apache.hudi.common.model"
MODE, STRATEGY = "hoodie.record.merge.mode", "hoodie.record.merge.strategy.id"
BY_EVENT_TIME, BY_PAYLOAD = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5", "00000000-0000-0000-0000-000000000000"


@pytest.mark.parametrize(
    ("properties", "in_part"),
    [
        ({}, False),
        ({MODE: "EVENT_TIME_ORDERING"}, False),
        ({MODE: "COMMIT_TIME_ORDERING"}, False),
        ({MODE: "EVENT_TIME_ORDERING", "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}, True),
        ({MODE: "CUSTOM"}, True),
        ({MODE: "CUSTOM", PAYLOAD: f"{HUDI}.PartialUpdateAvroPayload"}, True),
        ({MODE: "CUSTOM", PAYLOAD: f"{HUDI}.debezium.MySqlDebeziumAvroPayload"}, False),
        ({STRATEGY: BY_EVENT_TIME}, False),
        ({STRATEGY: BY_PAYLOAD}, True),
        ({PAYLOAD: f"{HUDI}.DefaultHoodieRecordPayload"}, False),
        ({PAYLOAD: f"{HUDI}.OverwriteWithLatestAvroPayload"}, False),
        ({PAYLOAD: f"{HUDI}.OverwriteNonDefaultsWithLatestAvroPayload"}, True),
        ({PAYLOAD: "com.example.Mine"}, True),
        ({"hoodie.compaction.record.merger.strategy": "mine"}, True),
    ],
)
def test_tables_whose_updates_may_change_a_part_of_an_earlier_row(properties, in_part):
    assert updates_in_part(properties) == in_part


@pytest.mark.parametrize("recorded", [True, False])
def test_there_no_event_time_makes_a_log_file_known(tmp_path, recorded):
    table = TableFolder(tmp_path / "t", properties={"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"})
    table.commit(at("08:00:00"), at("08:00:10"), base("f1"))
    content = avro([1_767_225_600_000], "long")
    file = replace(log("f1", 1_767_225_600_000 if recorded else None), size=len(content))
    table.commit(at("09:00:00"), at("09:00:10"), file)
    (table.base / "p" / file.name(at("09:00:00"))).write_bytes(content)
    state = fill_from_logs(FileTableReader().read(str(table.base), EventTime(column="ts", unit="ms")), POLICY, None)
    ((_, found),) = state.log_files
    assert (found.min_event_time_ms, found.seen_event_time_ms) == (None, 1_767_225_600_000)
    noon_ms = 1_767_268_800_000
    table = build_table_plan(POLICY, state, now_ms=noon_ms, clock_ms=noon_ms)
    assert any("an update may change a part" in one for one in table.warnings)


def test_the_fields_that_order_rows():
    assert ordering_fields({}) == ()
    assert ordering_fields({"hoodie.table.precombine.field": "seq"}) == ("seq",)
    assert ordering_fields({"hoodie.table.ordering.fields": "a, b", "hoodie.table.precombine.field": "seq"}) == (
        "a",
        "b",
    )
