"""A compaction keeps the indexes of the table's writers; a table that another client has hurt is recognised, and mended."""

import time

import pytest

from etc_policy.gx.index_probes import _expression
from etc_policy.gx.verifier import GxVerifier
from etc_policy.hudi.table import FileTableReader
from etc_policy.hudi.writer_options import IndexDefinition
from etc_policy.table.state import TableState
from etc_policy.verify.ports import DataCheck
from tests.integration.index_play import FIRST, LATER, OF_STATISTICS, SQL_INDEXES, IndexedTable, play
from tests.unit.gx.test_index_probes import CALL

pytestmark = [pytest.mark.spark, pytest.mark.extended]

#: What `CALL run_compaction` gives its client where nobody says more.
STOCK_DEFAULTS = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.auto.delete.partitions": "false",
}


def faults(table: IndexedTable) -> list[str]:
    """What a verification at level `data` finds in the indexes."""
    policy = table.bench.policy
    state: TableState = FileTableReader().read(str(table.base), policy.event_time)
    check = DataCheck(policy, str(table.base), (), 0, 0, None, None, frozenset(), "", frozenset())
    verifier = GxVerifier(table.spark)
    return [*verifier.wrongly_indexed(state), *verifier.missed_by_indexes(check, state)]


def test_no_name_of_an_indexed_column_runs_java(spark):
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F

    written = _expression(IndexDefinition((f"ts`, {CALL}, `ts",), {"expr": "concat"}))
    with pytest.raises(AnalysisException, match="cannot be resolved"):
        spark.createDataFrame([("a",)], ["ts"]).select(F.expr(written)).collect()
    assert spark._jvm.java.lang.System.getProperty("etc") is None


def test_no_name_of_an_indexed_column_shows_a_variable(spark):
    """Spark puts the variable in its place, and says in its error that there is no such column."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F

    written = _expression(IndexDefinition(("${env:PATH}",), {"expr": "upper"}))
    with pytest.raises(AnalysisException, match=r"\$\{env:PATH\}"):
        spark.createDataFrame([("a",)], ["ts"]).select(F.expr(written)).collect()


def test_columns_that_the_writers_chose_keep_their_statistics(spark, tmp_path):
    table = IndexedTable(spark, tmp_path / "t")
    table.make()
    table.compact()
    assert faults(table) == []
    assert table.faults_of_skipping(10, seed=4) == []


def test_a_client_that_was_not_told_hides_rows_which_is_seen_and_mended(spark, tmp_path):
    table = IndexedTable(spark, tmp_path / "t")
    table.make()
    table.compact_by_stock(STOCK_DEFAULTS)
    found = faults(table)
    assert any("no statistics of the indexed columns" in fault for fault in found)
    assert any("RO: " in fault and "not found by `column statistics`" in fault for fault in found)
    assert any("RT: " in fault for fault in found)
    assert table.faults_of_skipping(10, seed=5, columns=OF_STATISTICS)

    spark.sql(f"CREATE TABLE hurt USING hudi LOCATION '{table.base}'")
    try:
        spark.sql("CALL delete_metadata_table(table => 'hurt')").collect()
    finally:
        spark.sql("DROP TABLE hurt")
    table.write(*FIRST)
    assert not any("statistics" in fault for fault in faults(table))
    # Not by key: RO misses keys with a newer version in a log file once Hudi has built the record index anew
    # (facts: record-index-rebuilt).
    assert table.faults_of_skipping(10, seed=5, columns=OF_STATISTICS) == []


@pytest.mark.parametrize("version", [9, 8, 6])
def test_every_index_is_as_the_writers_client_leaves_it(spark, tmp_path, version):
    assert play(spark, tmp_path, version, predicates=30) == []


def test_secondary_and_expression_indexes_are_asked_too(spark, tmp_path):
    table = IndexedTable(spark, tmp_path / "t", sql=SQL_INDEXES)
    table.make()
    table.compact()
    assert faults(table) == []
    table.write(*LATER)
    time.sleep(0.5)
    table.compact()
    assert faults(table) == []
