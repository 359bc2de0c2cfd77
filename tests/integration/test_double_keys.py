"""A table that stock Hudi has given two rows of one key: what says so, and that docs/concepts/deletes.md mends it."""

import re
from pathlib import Path

import pytest

from etc_policy.hudi.table import FileTableReader
from etc_policy.policy.manifest import EventTime, Policy, Writer
from etc_policy.verify.diagnosis import TableFacts, diagnose_table
from etc_policy.verify.evidence import Claim, Evidence
from etc_policy.verify.metadata_checks import check_double_keys
from etc_policy.wiring import clock_ms
from tests.integration.hudi_tables import WRITER, StockTable
from tests.integration.test_gx_verifier import ROWS, TWICE, check, row

pytestmark = [pytest.mark.spark, pytest.mark.extended]
HOW_TO = Path(__file__).resolve().parents[2] / "docs" / "concepts" / "deletes.md"
TS = EventTime(column="ts")


def hurt_table(spark, base, index):
    """Key 1 twice in RT, by the steps of docs/upstream/duplicate-key.md."""
    options = {"hoodie.index.type": index, "hoodie.parquet.small.file.limit": "0"}
    table = StockTable(spark, str(base), ROWS, options=options)
    table.write([row(1), row(2)], "insert")
    table.write([row(1, at_ms=2)], "delete")
    every = f"path => '{table.base}', options => 'hoodie.compact.inline.max.delta.commits=1'"
    ((instant, *_),) = spark.sql(f"CALL run_compaction(op => 'schedule', {every})").collect()
    table.write([row(1, "again", at_ms=3)])
    spark.sql(f"CALL run_compaction(op => 'run', path => '{table.base}', timestamp => {instant})").collect()
    table.write([row(1, "once more", at_ms=4)])
    return table


def looked_at(table):
    """What the metadata alone says: level `metadata`, and `etc debug`."""
    policy = Policy(name="t", table=table.base, event_time=TS, data_latency_ms=0, writer=Writer(index="simple"))
    state, history = FileTableReader().read_with_history(table.base, TS)[:2]
    found = check_double_keys(Evidence(policy, state, history, Claim(0, ""), 0))
    debug = diagnose_table(TableFacts(policy, state, history, {}, clock_ms()))
    return found, next(finding for finding in debug if finding.check == "double keys")


def mend(spark, table, kept_at):
    """The steps of the how-to, on this table."""
    (code,) = re.findall(r"```python\n(.*?)```", HOW_TO.read_text("utf-8"), re.DOTALL)
    writer = {**WRITER, "hoodie.datasource.write.precombine.field": "ts", **table.options}
    values = {"path": table.base, "kept_at": str(kept_at), "writer": writer}
    for name, value in values.items():
        code, count = re.subn(rf"(?m)^{name} = .*$", lambda _, n=name, v=value: f"{n} = {v!r}", code)
        assert count == 1
    exec(compile(code, str(HOW_TO), "exec"), {"spark": spark})


@pytest.mark.parametrize("index", ["SIMPLE", "BLOOM"])
def test_it_is_found_and_mended(spark, tmp_path, index):
    table = hurt_table(spark, tmp_path / "t", index)
    metadata, debug = looked_at(table)
    assert (metadata.status, metadata.observed["file_groups_exposed"]) == ("warn", 1)
    assert "etc verify --level data" in metadata.message
    assert (debug.status, metadata.observed["examples"][0] in debug.message) == ("warn", True)
    found = check(table)[1][TWICE]
    (twice,) = found.observed["samples"]["duplicate_keys_in_rt"]
    assert (twice["key"], len(twice["file_groups"])) == ("1", 2)
    assert "`etc explain deletes`" in found.message

    mend(spark, table, tmp_path / "kept")
    assert check(table)[1][TWICE].status == "pass"
    rows = {r.id: r.v for r in spark.read.format("hudi").load(table.base).collect()}
    assert rows == {1: "once more", 2: "a"}
    table.write([row(1, "later", at_ms=9)])
    assert check(table)[1][TWICE].status == "pass"


def test_what_cannot_have_happened_is_no_warning(spark, tmp_path):
    """The same steps with the compaction run before the key is written again."""
    table = StockTable(spark, str(tmp_path / "t"), ROWS, options={"hoodie.index.type": "SIMPLE"})
    table.write([row(1), row(2)], "insert")
    table.write([row(1, at_ms=2)], "delete")
    table.compact()
    table.write([row(1, "again", at_ms=3)])
    metadata, debug = looked_at(table)
    assert (metadata.status, debug.status) == ("pass", "skipped")  # the metadata show no copies that inserts keep
    assert check(table)[1][TWICE].status == "pass"
