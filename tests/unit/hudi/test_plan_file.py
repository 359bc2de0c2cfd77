from io import BytesIO

import fastavro
import pytest

from etc_policy.errors import TableError
from etc_policy.hudi import avro
from etc_policy.hudi.plan_file import decode_operations, encode_plan, expected_bytes, planned_reads, require_full
from etc_policy.plan.model import Operation
from tests.unit.hudi.table_folder import operation

METRICS = {"TOTAL_LOG_FILES", "TOTAL_LOG_FILES_SIZE", "TOTAL_IO_MB", "TOTAL_IO_READ_MB", "TOTAL_IO_WRITE_MB"}


def decoded(content):
    return next(iter(fastavro.reader(BytesIO(content))))


@pytest.mark.parametrize(
    "operations",
    [
        (),
        (operation("f1", "f1_0-1-0_100.parquet", ".f1_101.log.1_0-1-0", ".f1_102.log.1_0-1-0"),),
        (
            operation("f1", None, ".f1_101.log.1_0-1-0", partition=""),
            operation("f2", "b.parquet", ".x", partition="a=1/b=ü"),
        ),
    ],
)
def test_there_and_back(operations):
    assert decode_operations(decoded(encode_plan(operations, {}))) == operations


def test_sizes_come_back_to_the_byte():
    sized = operation("f1", None, ".f1_101.log.1_0-1-0").model_copy(
        update={"bytes_read": 10**12 + 7, "bytes_written_estimate": 3, "log_bytes_compacted": 10**9 + 1}
    )
    assert decode_operations(decoded(encode_plan((sized,), {}))) == (sized,)


def test_what_the_stock_planner_reads_next():
    """What may be left in partitions that nobody writes to: else it would never look at them again."""
    assert decoded(encode_plan((), {}, ("", "a=1")))["missingSchedulePartitions"] == ["", "a=1"]


def test_what_the_stock_executor_reads():
    planned = Operation(
        partition="p",
        file_id="f1",
        base_instant="100",
        base_file="f1_0-1-0_100.parquet",
        log_files_compacted=(".a", ".b"),
        log_files_remaining=(".c",),
        bytes_read=3 * 1024 * 1024,
        bytes_written_estimate=1024 * 1024,
        log_bytes_compacted=2048,
    )
    plan = decoded(encode_plan((planned,), {"etc.policy": "orders_ro"}))

    assert (plan["version"], plan["extraMetadata"], plan["strategy"]) == (2, {"etc.policy": "orders_ro"}, None)
    (entry,) = plan["operations"]
    assert entry["metrics"].keys() == METRICS
    assert entry["metrics"] == {
        "TOTAL_LOG_FILES": 2.0,
        "TOTAL_LOG_FILES_SIZE": 2048.0,
        "TOTAL_IO_READ_MB": 3.0,
        "TOTAL_IO_WRITE_MB": 1.0,
        "TOTAL_IO_MB": 4.0,
    }
    assert (entry["baseInstantTime"], entry["dataFilePath"], entry["deltaFilePaths"]) == (
        "100",
        planned.base_file,
        [".a", ".b"],
    )
    assert (entry["fileId"], entry["partitionPath"]) == ("f1", "p")


def test_a_plan_of_stock_hudi_with_fields_left_out():
    entry = {
        "partitionPath": None,
        "fileId": "f",
        "baseInstantTime": "1",
        "dataFilePath": None,
        "deltaFilePaths": None,
        "metrics": None,
    }
    (found,) = decode_operations({"operations": [entry]})
    assert (found.partition, found.log_files_compacted, found.log_bytes_compacted) == ("", (), 0)
    assert decode_operations({}) == decode_operations({"operations": None}) == ()


@pytest.mark.parametrize("size", [float("nan"), float("inf"), -1.0])
def test_sizes_that_cannot_be_say_nothing(size):
    plan = decoded(encode_plan((operation("f1", None, ".f1_101.log.1_0-1-0"),), {}))
    plan["operations"][0]["metrics"] = dict.fromkeys(METRICS, size)
    assert (expected_bytes(plan), list(planned_reads(plan))) == (0, [(("p", "f1"), 0, 0)])
    assert decode_operations(plan)[0].bytes_read == 0


class TestPlansOfALaterHudi:
    """RFC-103 plans full and log compactions in one; what such a plan says is not known yet."""

    def plan(self):
        return decoded(encode_plan((operation("f1", None, ".f1_101.log.1_0-1-0"), operation("f2", None, ".x")), {}))

    def test_those_of_today_are_known(self):
        require_full(self.plan(), "p")
        require_full({}, "p")

    def test_an_operation_of_a_kind(self):
        plan = self.plan()
        plan["operations"][1]["operationType"] = "LOG"
        with pytest.raises(TableError) as error:
            require_full(plan, "`1` in `/t`")
        assert error.value.code == "ETC216"
        assert error.value.message.startswith("the compaction plan of `1` in `/t` is not in a form")
        assert "`operationType` of an operation is new" in error.value.hint

    def test_a_later_version(self):
        with pytest.raises(TableError) as error:
            require_full({**self.plan(), "version": 3}, "p")
        assert "version 3 is new" in error.value.hint

    def test_a_part_without_a_value_changes_nothing(self):
        plan = self.plan()
        plan["operations"][1]["operationType"] = None
        require_full({**plan, "engine": "flink"}, "p")


def test_a_plan_that_the_next_run_could_not_read_is_none(monkeypatch):
    content = encode_plan((operation("f1", None, ".f1_101.log.1_0-1-0"),), {})
    monkeypatch.setattr(avro, "MAX_MEMORY", len(content))
    with pytest.raises(TableError, match="a plan of 1 file slice is larger than what etc reads") as raised:
        encode_plan((operation("f1", None, ".f1_101.log.1_0-1-0"),), {})
    assert "strategy.max_io" in raised.value.hint
