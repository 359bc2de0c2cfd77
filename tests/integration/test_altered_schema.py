"""ALTER TABLE beside a compaction: Hudi merges by the schema of the last commit before C, and loses values (FACTS 1.8)."""

from __future__ import annotations

import pytest

from etc_policy.errors import EngineError, StalePlanError
from tests.integration.bench import Bench
from tests.integration.history import EPOCH_MS, QUICK, Write, write_history
from tests.nightly import nightly

pytestmark = pytest.mark.spark

ON_READ = {"hoodie.schema.on.read.enable": "true"}
#: At second 200 the second and third commits are due, and the last is not.
HISTORY = (
    Write(tuple((key, "v0", key) for key in range(6))),
    Write(((1, "v1", 100), (2, "v1", 101))),
    Write(((1, "v2", 150), (4, "v2", 500))),
    Write(((1, "v3", 600), (5, "v3", 601))),
)
ROWS = [(0, "v0"), (1, "v3"), (2, "v1"), (3, "v0"), (4, "v2"), (5, "v3")]
SECOND = 200


@pytest.fixture
def bench(spark, tmp_path):
    write_history(spark, tmp_path / "t", HISTORY, options={**QUICK, **ON_READ, "hoodie.metadata.enable": "false"})
    return Bench(spark, tmp_path / "t")


def alter(bench, *statements):
    spark, settings = (
        bench.spark,
        {**ON_READ, "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true"},
    )
    for key, value in settings.items():
        spark.sql(f"SET {key}={value}")
    spark.sql(f"CREATE TABLE altered USING hudi LOCATION '{bench.base}'")
    try:
        for statement in statements:
            spark.sql(f"ALTER TABLE altered {statement}")
    finally:
        spark.sql("DROP TABLE altered")
        for key in settings:
            spark.sql(f"RESET {key}")


def rows(bench, column, **options):
    read = bench.spark.read.format("hudi").options(**ON_READ, **options).load(str(bench.base))
    return sorted((row.id, row[column]) for row in read.select("id", column).collect())


def both(bench, column="vv"):
    return [rows(bench, column), rows(bench, column, **{"hoodie.metadata.enable": "false"})]


def promised(bench, column):
    """What RO holds of the rows with an event at or below T."""
    read = bench.spark.read.format("hudi").options(**ON_READ, **{"hoodie.query.as.ro.table": "true"})
    view = read.load(str(bench.base)).where(f"ts <= {EPOCH_MS + SECOND * 1000}")
    return sorted((row.id, row[column]) for row in view.select("id", column).collect())


@pytest.mark.parametrize(
    ("statements", "column"),
    [
        (("RENAME COLUMN v TO vv",), "vv"),
        *nightly((("DROP COLUMN v", "ADD COLUMNS(v string)"), "v"), (("ADD COLUMNS(w string)",), "v")),
    ],
)
def test_the_cut_lies_after_it(bench, statements, column):
    alter(bench, *statements)
    before = both(bench, column)
    assert before[0] == (ROWS if "DROP" not in statements[0] else [(key, None) for key, _ in ROWS])
    plan = bench.plan(SECOND)
    assert [move.guard for move in plan.tables[0].moves if move.guard == "after_schema_changes"]
    assert bench.apply(plan).status == "compacted"
    schemas = {one.requested: one.schema for one in bench.state().instants}
    assert schemas[plan.tables[0].instant] == schemas[max(schemas)] != ""
    assert both(bench, column) == before
    assert promised(bench, column) == [one for one in before[0] if one[0] in (0, 2, 3)]


@pytest.mark.extended
def test_one_that_comes_later_withdraws_the_plan(bench):
    """Saved: it is stale. Published by a run that died: it is taken back, and the next plan is right."""
    saved = bench.plan(SECOND)
    bench.publish(saved)
    alter(bench, "RENAME COLUMN v TO vv")
    assert bench.runner.finish_pending(bench.policy, bench.location) is None
    assert bench.state().own_pending is None
    with pytest.raises(StalePlanError):
        bench.apply(saved)
    assert both(bench) == [ROWS, ROWS]
    assert bench.apply(bench.plan(SECOND)).status == "compacted"
    assert both(bench) == [ROWS, ROWS]


@pytest.mark.extended
def test_a_plan_that_was_taken_back_carries_the_schema_on(bench):
    """Readers and compactions go by the last commit: an empty one without the schema would hide the renamed column."""
    alter(bench, "RENAME COLUMN v TO vv")
    plan = bench.plan(1000)
    bench.publish(plan)
    assert max(one.requested for one in bench.state().instants) == plan.tables[0].instant
    assert bench.runner.undo(bench.policy, bench.location).status == "withdrawn"
    assert both(bench) == [ROWS, ROWS]
    assert bench.apply(bench.plan(1000)).status == "compacted"
    assert both(bench) == [ROWS, ROWS]


@pytest.mark.extended
def test_what_stock_has_scheduled_before_it_is_not_finished(bench):
    always = "hoodie.compact.inline.max.delta.commits=1,hoodie.metadata.enable=false"
    bench.spark.sql(f"CALL run_compaction(op => 'schedule', path => '{bench.base}', options => '{always}')").collect()
    alter(bench, "RENAME COLUMN v TO vv")
    with pytest.raises(EngineError, match="was scheduled before the table's schema was altered"):
        bench.finish()
    assert both(bench) == [ROWS, ROWS]
