"""Restores to a savepoint behind a compaction by etc: stock Hudi refuses them with its eager policy, and does them with LAZY.

And a rollback of a write that is being compacted, which stock Hudi does.
"""

from __future__ import annotations

import time

import pytest

from etc_policy.errors import OvertakenError
from etc_policy.plan.clock import MAX_CLOCK_SKEW_MS
from etc_policy.spark.compactor import HudiCompactor
from tests.integration.bench import Bench
from tests.integration.history import HISTORY, QUICK, Oracle, Views, write_history

pytestmark = [pytest.mark.spark, pytest.mark.extended]

LAZY = "hoodie.clean.failed.writes.policy"


@pytest.mark.parametrize("metadata_table", ["true", "false"])
def test_a_savepoint_before_the_compaction_can_be_restored(spark, tmp_path, metadata_table):
    options = {**QUICK, "hoodie.metadata.enable": metadata_table}
    bench, oracle = Bench(spark, tmp_path / "t"), Oracle.of(HISTORY)
    write_history(spark, bench.base, HISTORY[:2], options=options)
    saved = sorted(one.requested for one in bench.state().instants)[-1]
    spark.sql(f"CALL create_savepoint(path => '{bench.base}', commit_time => '{saved}')").collect()
    write_history(spark, bench.base, HISTORY[2:], options, first=2)
    assert bench.apply(bench.plan()).status == "compacted"
    restore = f"CALL rollback_to_savepoint(path => '{bench.base}', instant_time => '{saved}')"
    with pytest.raises(Exception, match="Found commits after time"):
        spark.sql(restore).collect()
    assert "LAZY" in bench.plan().tables[0].hints[0]
    spark.sql(f"SET {LAZY}=LAZY")
    try:
        spark.sql(restore).collect()
    finally:
        spark.sql(f"RESET {LAZY}")
    views = Views(spark, bench.base)
    assert views.rt() == views.rt_without_mdt() == oracle.as_of(1)
    write_history(spark, bench.base, HISTORY[2:], options, first=2)
    assert views.rt() == views.rt_without_mdt() == oracle.rt()
    assert bench.apply(bench.plan(second=1000)).status == "compacted"
    assert views.rt() == views.ro() == oracle.rt()


@pytest.mark.parametrize("version", [9, 6])
@pytest.mark.parametrize("metadata_table", ["true", "false"])
def test_a_write_is_rolled_back_while_it_is_compacted(spark, tmp_path, monkeypatch, metadata_table, version):
    """Before table version 8 its rows stay in a log file that is compacted, and the rollback adds another one."""
    options = {**QUICK, "hoodie.metadata.enable": metadata_table, "hoodie.write.table.version": str(version)}
    options["hoodie.write.auto.upgrade"] = "false"
    bench, views = Bench(spark, tmp_path / "t", "file_slice"), Views(spark, tmp_path / "t")
    write_history(spark, bench.base, HISTORY[:4], options=options)
    last, rt = max(one.requested for one in bench.state().instants), Oracle.of(HISTORY[:3]).rt()
    finish_work, name = HudiCompactor._finish_work, f"rolled_back_{metadata_table}_{version}"
    spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{bench.base}'")
    time.sleep(MAX_CLOCK_SKEW_MS / 1000)

    def roll_back_then(compactor, job, client, result):
        written = finish_work(compactor, job, client, result)
        if version == 9:
            spark.sql(f"CALL rollback_to_instant(table => '{name}', instant_time => '{last}')").collect()
        else:  # the procedure looks for a timeline of version 8
            assert client.rollback(last)
        return written

    monkeypatch.setattr(HudiCompactor, "_finish_work", roll_back_then)
    spark.conf.set("hoodie.metadata.enable", metadata_table)  # else the procedure makes one
    why = "takes back the write at" if version == 9 else "the log files of file group"  # the rollback's own is new
    with pytest.raises(OvertakenError, match=why):
        bench.apply(bench.plan(second=1000))
    monkeypatch.undo()
    spark.conf.unset("hoodie.metadata.enable")
    assert views.rt() == views.rt_without_mdt() == rt
    assert bench.apply(bench.plan(second=1000)).status == "compacted"
    assert views.rt() == views.rt_without_mdt() == views.ro() == rt
