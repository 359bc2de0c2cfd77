"""Run as a process of its own under an older bundle: the cut on a table that this bundle wrote. Prints `passed`."""

import shutil
import sys
import time
from pathlib import Path

from etc_policy.plan.clock import MAX_CLOCK_SKEW_MS
from etc_policy.spark.session import start_spark
from tests.integration.bench import ORACLE, SECOND, Bench
from tests.integration.history import EPOCH_MS, HISTORY, Views, write_history

#: So that its metadata table is compacted after the cut, in which case this bundle cannot roll the cut back.
COMPACTING = {"hoodie.metadata.compact.max.delta.commits": "1"}


def main(base: Path) -> None:
    spark = start_spark({"spark.sql.shuffle.partitions": "2"}, base.parent / "spark.log")
    write_history(spark, base, options=COMPACTING)
    time.sleep(MAX_CLOCK_SKEW_MS / 1000)
    bench, views = (
        Bench(spark, base, read_stats=True),
        Views(spark, base),
    )  # this bundle records no event times in commits
    state, before = bench.state(), bench.properties()
    assert state.table_version == 8
    commits = views.delta_commits()
    plan = bench.plan()
    table = plan.tables[0]
    assert any(operation.log_files_remaining for operation in table.operations)
    assert bench.apply(plan).status == "compacted"
    assert bench.properties() == before
    died_before_its_commit(base, table.instant)
    copy = Bench(spark, Path(shutil.copytree(base, base.with_name("copy"))), read_stats=True)
    assert bench.runner.finish_pending(bench.policy, str(base)).status == "resumed"
    assert bench.properties() == before
    assert views.rt() == ORACLE.rt() == views.rust()
    for number, completed in enumerate(commits):
        assert views.as_of(completed) == ORACLE.as_of(number)
    expected = ORACLE.rt_up_to(SECOND)
    assert {key: views.ro().get(key) for key in expected} == expected
    after = bench.state()
    assert after.last_compaction.threshold_ms == EPOCH_MS + SECOND * 1000
    assert bench.plan().tables[0].watermark_before_ms == table.watermark_after_ms
    write_history(spark, base, HISTORY[1:3], first=len(HISTORY))
    assert views.rt() == ORACLE.rt()
    assert copy.runner.undo(copy.policy, str(copy.base))
    assert not list(copy.base.glob(f"*/*_{table.instant}.parquet"))
    assert Views(spark, copy.base).rt() == Views(spark, copy.base).rt_without_mdt() == ORACLE.rt()
    time.sleep(MAX_CLOCK_SKEW_MS / 1000)
    assert copy.plan().tables[0].action == "compact"
    spark.stop()
    print("passed")


def died_before_its_commit(base: Path, instant: str) -> None:
    """The table as a run leaves it that is killed between its commit to the metadata table and that to the table."""
    (done,) = (base / ".hoodie" / "timeline").glob(f"{instant}_*.commit")
    done.unlink()
    done.with_name(f".{done.name}.crc").unlink()


main(Path(sys.argv[1]))
