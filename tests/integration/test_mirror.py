"""A compaction by etc changes nothing but the data: indexes, metadata table, version and properties stay."""

from __future__ import annotations

import pytest

from tests.integration.bench import ORACLE, SECOND, Bench
from tests.integration.history import HISTORY, Views, write_history

pytestmark = pytest.mark.spark

INDEXED = {
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.index.type": "RECORD_INDEX",
}
TABLES = {
    "record index and bloom filters": (INDEXED, {"record_index", "bloom_filters"}, "record_index"),
    "no metadata table": ({"hoodie.metadata.enable": "false"}, set(), None),
    "version 8": ({"hoodie.write.table.version": "8", "hoodie.write.auto.upgrade": "false"}, {"files"}, None),
}


@pytest.mark.parametrize("name", TABLES)
def test_properties_stay(spark, tmp_path, name):
    options, partitions, index = TABLES[name]
    bench = Bench(spark, tmp_path / "t", index=index)
    write_history(spark, bench.base, options=options)
    state = bench.state()
    assert partitions <= set(state.metadata_partitions)
    assert bool(partitions) == bool(state.metadata_partitions)
    before = bench.properties()

    outcome = bench.apply(bench.plan())

    assert outcome.status == "compacted"
    assert bench.properties() == before
    assert bench.state().metadata_partitions == state.metadata_partitions
    views = Views(spark, bench.base)
    assert views.rt() == ORACLE.rt() == views.rust()
    expected = ORACLE.rt_up_to(SECOND)
    assert {key: views.ro().get(key) for key in expected} == expected


def test_later_upserts_by_the_record_index_find_every_key(spark, tmp_path):
    options, _, index = TABLES["record index and bloom filters"]
    bench = Bench(spark, tmp_path / "t", index=index)
    write_history(spark, bench.base, options=options)
    bench.apply(bench.plan())
    write_history(spark, bench.base, HISTORY[1:4], options, first=len(HISTORY))
    assert Views(spark, bench.base).rt() == ORACLE.rt()
