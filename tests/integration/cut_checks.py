"""The cut from its plan until after a stock compaction and clean: every view against the oracle, wherever the table lies."""

from __future__ import annotations

from collections.abc import Mapping

from tests.integration.bench import ORACLE, SECOND, Bench, check_views
from tests.integration.history import EPOCH_MS, HISTORY, Oracle, Write, partition_of, write_history

#: A stock write after ours: an update in each partition, and a key that was deleted comes back.
LATER = Write(((1, "v7", 600), (9, "v7", 601), (2, "v7", 602), (5, "v7", 603)))
#: The table as of T in the partitions without deletes, which `granularity: record` splits.
EXACT = {
    key: row
    for key, row in Oracle.of(tuple(Write(tuple(r for r in one.rows if r[2] <= SECOND)) for one in HISTORY))
    .rt()
    .items()
    if partition_of(key) in "ab"
}


def check_the_cut(bench: Bench, options: Mapping[str, str] | None = None, *, since: int = 0) -> None:
    """A table with `HISTORY` is planned, published, finished, written to and cleaned; `options` are its writers' own.

    The views of the commits `since` a number are looked at.
    """
    views = bench.views()
    commits = views.delta_commits()
    assert len(commits) == len(HISTORY)
    check_views(views, commits, since=since)
    plan = bench.plan()
    table = plan.tables[0]
    assert table.action == "compact"
    left = [name for operation in table.operations for name in operation.log_files_remaining]
    assert bool(left) == (bench.granularity != "file_slice")

    before = bench.properties()
    bench.publish(plan)
    check_views(views, commits, since=since)
    outcome = bench.runner.finish_pending(bench.policy, bench.location)
    assert outcome is not None and outcome.status == "resumed"
    assert bench.properties() == before

    check_views(views, commits, since=since)
    ro = views.ro()
    assert views.rust(read_optimized=True) == ro
    expected = ORACLE.rt_up_to(SECOND)
    assert {key: ro.get(key) for key in expected} == expected
    state = bench.state()
    assert state.last_compaction is not None and state.last_compaction.threshold_ms == EPOCH_MS + SECOND * 1000
    assert state.last_compaction.plan_id == plan.plan_id
    after = bench.plan(reads_logs=bench.granularity == "record").tables[0]
    assert after.action == "nothing_due"
    if bench.granularity == "record":  # what was split off begins after T, nobody knew where
        assert after.watermark_before_ms > table.watermark_after_ms == EPOCH_MS + SECOND * 1000
        assert {key: v for key, v in ro.items() if partition_of(key) in "ab"} == EXACT
    else:
        assert after.watermark_before_ms == table.watermark_after_ms

    write_history(bench.spark, bench.location, (LATER,), options, first=len(HISTORY))
    later = Oracle.of((*HISTORY, LATER)).rt()
    assert views.rt() == views.rust() == later
    stock_compaction_and_clean(bench)
    assert views.rt() == views.ro() == views.rust() == views.rust(read_optimized=True) == later
    assert bench.state().last_compaction.threshold_ms == EPOCH_MS + SECOND * 1000


def stock_compaction(bench: Bench) -> None:
    """All log files, as a user would compact them."""
    path = bench.location
    bench.spark.sql(
        f"CALL run_compaction(op => 'schedule', path => '{path}', options => 'hoodie.compact.inline.max.delta.commits=1')"
    )
    bench.spark.sql(f"CALL run_compaction(op => 'run', path => '{path}')")


def stock_compaction_and_clean(bench: Bench) -> None:
    """A full compaction and a clean by stock Hudi, as a user would call them."""
    stock_compaction(bench)
    bench.spark.sql(f"CREATE TABLE cleaned USING hudi LOCATION '{bench.location}'")
    try:
        bench.spark.sql("CALL run_clean(table => 'cleaned', retain_commits => 1)")
    finally:
        bench.spark.sql("DROP TABLE cleaned")
    assert any(name.endswith(".clean") for name in bench.views().timeline())
