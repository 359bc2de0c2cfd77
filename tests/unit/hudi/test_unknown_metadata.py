"""Metadata of other engines and later versions: fields that nobody knows, plans of others, forms that make no sense."""

import copy
import json
import os
from pathlib import Path

import pytest

from etc_policy.errors import TableError
from etc_policy.hudi.table import FileTableReader, read_compactions
from etc_policy.plan.builder import build_table_plan
from etc_policy.policy.manifest import EventTime, Policy
from etc_policy.run.table_files import HudiFiles
from tests.unit.hudi.reading import OURS, read, slices
from tests.unit.hudi.table_folder import COMMIT_SCHEMA, archived, at, avro, base, commit_metadata, log

NOON_MS = 1_767_268_800_000


def with_news(schema):
    """A later version's schema: fields more on every record, first, last and nested."""
    later = copy.deepcopy(schema)
    later["fields"].insert(0, {"name": "writerEpoch", "type": ["null", "long"], "default": None})
    later["fields"].append({"name": "lineage", "type": {"type": "map", "values": "string"}, "default": {}})
    stat = later["fields"][1]["type"]["values"]["items"]
    stat["fields"] = [
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}, "default": "A"},
        *stat["fields"],
    ]
    return later


def news(record):
    return {**record, "writerEpoch": 7, "lineage": {"a": "b"}}


def test_a_commit_of_a_later_version(table):
    table.start(at("10:00:00"), log("f1", 5))
    record = news(commit_metadata(at("10:00:00"), (log("f1", 5),)))
    table.complete(at("10:00:00"), at("10:00:01"), "deltacommit", with_news(COMMIT_SCHEMA), record)
    assert slices(table) == {"f1": (at("10:00:00"), [(at("10:00:00"), at("10:00:01"), 5, False)])}


def test_an_archived_commit_of_a_later_version(table):
    record = news(commit_metadata(at("09:00:00"), (log("f1", 5),)))
    row = {**archived(at("09:00:00"), at("09:00:01")), "metadata": avro(with_news(COMMIT_SCHEMA), record)}
    table.archive(row)
    table.data(at("09:00:00"), log("f1"))
    table.commit(at("10:00:00"), at("10:00:01"), log("f1", 40))
    assert [event for _, _, event, _ in slices(table)["f1"][1]] == [5, 40]


#: A plan as another engine may write it: no extra metadata, a strategy, a field of a later version.
_PLAN = {
    "type": "record",
    "name": "HoodieCompactionPlan",
    "fields": [
        {"name": "operations", "type": {"type": "array", "items": "string"}},
        {"name": "strategy", "type": {"type": "map", "values": "string"}},
        {"name": "engine", "type": "string"},
    ],
}


def test_a_pending_plan_of_another_engine_refuses_the_table(table):
    table.commit(at("10:00:00"), at("10:00:01"), log("f1", 5))
    plan = {"operations": ["f1"], "strategy": {"class": "BoundedIO"}, "engine": "flink"}
    table.file(at("10:00:02"), ".compaction.requested", avro(_PLAN, plan))
    state = read(table)
    assert state.own_pending is None
    policy = Policy(name="orders_ro", table="/t", event_time=EventTime(column="ts"), data_latency_ms=1)
    refused = build_table_plan(policy, state, now_ms=NOON_MS, clock_ms=NOON_MS)
    assert (refused.action, refused.reason_code) == ("refused", "pending_service")
    assert "`etc finish --select " in refused.hints[0]
    with pytest.raises(
        TableError, match="not in a form that this version of etc knows"
    ):  # it carries out no plan that it cannot read
        HudiFiles().pending_job(policy, state, at("10:00:02"))


@pytest.mark.parametrize(
    "name",
    [
        "001_002.deltacommit",
        "20261301000000000_20261301000000001.clean",
        "17.rollback.requested",
        "20260230100000000.deltacommit.requested",
        "20260101110000000_20250229100000000.clean",
        "00010101000000000.clean.inflight",
        "99991231235959999.clean.inflight",
        "٢٠٢٦٠١٠١١٠٠٠٠٠٠٠٠.clean.inflight",
        "1" * 200 + ".clean.inflight",
    ],
)
def test_an_instant_that_is_no_time_is_one_clear_error(table, name):
    """Nothing could be reckoned with it, and the plans of all other tables would end with this one's."""
    table.commit(at("10:00:00"), at("10:00:01"), log("f1", 5))
    (table.timeline / name).write_bytes(avro(COMMIT_SCHEMA, commit_metadata(at("10:00:00"), ())))
    for reader in (read, lambda t: read_compactions(str(t.base))):
        with pytest.raises(TableError, match="not in a form") as error:
            reader(table)
        assert error.value.code == "ETC216"
        assert any(why in error.value.hint for why in ("is not a time", "day is out of range"))


@pytest.mark.parametrize(
    "record",
    [
        {"partitionToWriteStats": {"p": None}},
        {"partitionToWriteStats": {"p": ["f1"]}},
        {"partitionToWriteStats": [1]},
        {"extraMetadata": "none"},
    ],
)
def test_metadata_of_another_form_is_one_clear_error(table, record):
    table.file(at("10:00:00"), f"_{at('10:00:01')}.deltacommit", json.dumps(record).encode())
    with pytest.raises(TableError) as error:
        read(table)
    assert (error.value.code, error.value.exit_code) == ("ETC216", 3)
    assert str(table.base) in error.value.message
    assert error.value.cause


@pytest.mark.parametrize("value", ["soon", "1700000000000", 17.5, [1], True])
def test_an_event_time_that_is_no_number_is_not_known(table, value):
    stats = [{"fileId": "f1", "minEventTime": value}, {"fileId": "f1", "minEventTime": 3}]
    record = {"partitionToWriteStats": {"p": stats}, "operationType": "UPSERT"}
    table.file(at("10:00:00"), f"_{at('10:00:01')}.deltacommit", json.dumps(record).encode())
    table.data(at("10:00:00"), log("f1"))
    assert [event for _, _, event, _ in slices(table)["f1"][1]] == [None]


@pytest.mark.parametrize("action", ["deltacommit", "commit", "replacecommit"])
def test_a_completed_file_that_is_empty_is_corrupt(table, action):
    """What it would tell decides which slices readers see."""
    path = table.file(at("10:00:00"), f"_{at('10:00:01')}.{action}")
    with pytest.raises(TableError, match=f"{path.name}` is empty") as error:
        read(table)
    assert error.value.code == "ETC208"


def test_files_of_unfinished_writes_may_be_empty(table):
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"))
    table.start(at("10:00:02"))
    table.file(at("10:00:04"), ".compaction.requested")
    table.compaction(at("10:00:06"), at("10:00:30"), base("f1"), extra=OURS, plan_extra=OURS)
    assert [i.action for i in read(table).pending] == ["deltacommit", "compaction"]


def test_a_name_that_is_not_utf8_is_one_clear_error_where_it_is_a_data_file(table):
    """What is no data file is passed over, whatever its name."""
    table.commit(at("10:00:00"), at("10:00:01"), log("f1", 5))
    folder = os.fsencode(table.base) + b"/p/"
    (table.base / "p" / os.fsdecode(b"\xff.txt")).write_bytes(b"")
    assert slices(table)
    Path(os.fsdecode(folder + b"f\xff_0-1-0_20260101100000000.parquet")).write_bytes(b"x")
    with pytest.raises(TableError, match="not in a form") as error:
        read(table)
    error.value.message.encode()
    error.value.hint.encode()


@pytest.mark.parametrize("instant", ["abc", "20260230100000000", "1"])
def test_an_archived_instant_that_is_no_time_is_one_clear_error(table, instant):
    table.archive(archived(instant, at("09:00:01"), log("f1")))
    table.commit(at("10:00:00"), at("10:00:01"), log("f1", 5))
    with pytest.raises(TableError, match="not in a form"):
        FileTableReader().read_with_history(str(table.base), EventTime(column="ts"), archived=None)


def test_what_is_nested_deeper_than_python_goes_is_one_clear_error(table):
    nested = '{"successDeleteFiles": ' + "[" * 970 + "]" * 970 + "}"
    table.file(at("10:00:00"), f"_{at('10:00:01')}.rollback", nested.encode())
    with pytest.raises(TableError) as error:
        read(table)
    assert error.value.code in ("ETC208", "ETC216")


def test_memory_that_is_exhausted_is_one_clear_error(table, monkeypatch):
    def exhausted(*_, **__):
        raise MemoryError

    table.commit(at("10:00:00"), at("10:00:01"), log("f1"))
    monkeypatch.setattr("etc_policy.hudi.commit_writes.group_writes", exhausted)
    with pytest.raises(TableError, match="not in a form") as error:
        read(table)
    assert "MemoryError" in error.value.hint
