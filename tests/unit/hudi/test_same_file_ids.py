"""Buckets written without blocking have the same file id in every partition: what befalls one may not befall another."""

from tests.unit.hudi.reading import TS, read
from tests.unit.hudi.table_folder import at, base, log


def by_partition(table):
    return {one.partition: [f.min_event_time_ms for f in one.log_files] for one in read(table, TS).slices}


def test_a_partition_replaced_leaves_the_others(table):
    table.commit(at("10:00:00"), at("10:00:01"), base("f1", partition="p"), base("f1", partition="q"))
    table.replace(at("10:00:04"), at("10:00:05"), base("f3"), replaced={"q": ["f1"]})
    assert {(one.partition, one.file_id) for one in read(table).slices} == {("p", "f1"), ("p", "f3")}


def test_each_partition_has_its_own_event_times(table):
    table.commit(at("10:00:00"), at("10:00:01"), log("f1", 50, partition="p"), log("f1", 70, partition="q"))
    table.commit(at("10:00:02"), at("10:00:03"), log("f1", 90, partition="p"), log("f1", partition="q"))
    assert by_partition(table) == {"p": [50, 90], "q": [70, None]}
