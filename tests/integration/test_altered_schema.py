"""ALTER TABLE beside a compaction: Hudi merges by the schema of the last commit before C, and loses values.

See facts: schema-of-the-cut.
"""

from __future__ import annotations

import pytest

from etc_policy.errors import OvertakenError, StalePlanError
from etc_policy.hudi.table import FileTableReader
from etc_policy.policy.manifest import EventTime
from tests.integration.altered import HIDDEN_ROWS, LATER, ROWS, SECOND, WRITTEN_ROWS, make
from tests.integration.session import run_under_bundle

pytestmark = [pytest.mark.spark, pytest.mark.extended]


@pytest.fixture
def bench(spark, tmp_path):
    return make(spark, tmp_path / "t")


@pytest.mark.parametrize(
    ("statements", "column"),
    [
        (("RENAME COLUMN v TO vv",), "vv"),
        (("DROP COLUMN v", "ADD COLUMNS(v string)"), "v"),
        (("ADD COLUMNS(w string)",), "v"),
    ],
)
def test_the_cut_lies_after_it(bench, statements, column):
    bench.alter(*statements)
    since = FileTableReader().read(bench.location, EventTime(column=column)).column_since
    assert bool(since) == ("DROP" in statements[0]), "whether the name was another column's"
    before = bench.both(column)
    assert before[0] == (ROWS if "DROP" not in statements[0] else [(key, None) for key, _ in ROWS])
    plan = bench.plan(SECOND)
    assert [move.guard for move in plan.tables[0].moves if move.guard == "after_schema_changes"]
    assert bench.apply(plan).status == "compacted"
    schemas = {one.requested: one.schema for one in bench.state().instants}
    assert schemas[plan.tables[0].instant] == schemas[max(schemas)] != ""
    assert bench.both(column) == before
    assert bench.promised(column) == [one for one in before[0] if one[0] in (0, 2, 3)]


def test_one_that_comes_later_withdraws_the_plan(bench):
    """Saved: it is stale. Published by a run that died: it is taken back, and the next plan is right."""
    saved = bench.plan(SECOND)
    bench.publish(saved)
    bench.alter("RENAME COLUMN v TO vv")
    assert bench.runner.finish_pending(bench.policy, bench.location) is None
    assert bench.state().own_pending is None
    with pytest.raises(StalePlanError):
        bench.apply(saved)
    assert bench.both() == [ROWS, ROWS]
    assert bench.apply(bench.plan(SECOND)).status == "compacted"
    assert bench.both() == [ROWS, ROWS]


def test_a_plan_that_was_taken_back_carries_the_schema_on(bench):
    """Readers and compactions go by the last commit: an empty one without the schema would hide the renamed column."""
    bench.alter("RENAME COLUMN v TO vv")
    plan = bench.plan(1000)
    bench.publish(plan)
    assert max(one.requested for one in bench.state().instants) == plan.tables[0].instant
    assert bench.runner.undo(bench.policy, bench.location)
    assert bench.both() == [ROWS, ROWS]
    assert bench.apply(bench.plan(1000)).status == "compacted"
    assert bench.both() == [ROWS, ROWS]


def test_what_stock_has_scheduled_before_it_is_not_finished(bench):
    bench.compact_by_stock("schedule")
    bench.alter("RENAME COLUMN v TO vv")
    with pytest.raises(OvertakenError, match="the table's schema was altered at"):
        bench.finish()
    assert bench.both() == [ROWS, ROWS]
    assert bench.apply(bench.plan(1000)).status == "compacted"
    assert bench.both() == [ROWS, ROWS]


def test_a_writer_that_hides_the_schema_forbids_a_compaction_until_the_next_alter_table(bench):
    """Readers find renamed columns by what the last write carries. A compaction then would lose for good what is only hidden."""
    bench.alter("RENAME COLUMN v TO vv")
    bench.write_row()
    assert bench.both() == [HIDDEN_ROWS, HIDDEN_ROWS]
    by_stock = bench.copied("by-stock")
    refused = bench.plan(LATER).tables[0]
    assert (refused.action, refused.reason_code) == ("refused", "schema_hidden")
    bench.alter("ADD COLUMNS(w string)")
    assert bench.both() == [WRITTEN_ROWS, WRITTEN_ROWS]
    assert bench.apply(bench.plan(LATER)).status == "compacted"
    assert bench.both() == [WRITTEN_ROWS, WRITTEN_ROWS]
    assert bench.promised("vv", LATER) == WRITTEN_ROWS
    by_stock.compact_by_stock("schedule")
    by_stock.compact_by_stock("run")
    by_stock.alter("ADD COLUMNS(w string)")
    assert by_stock.rows("vv") == HIDDEN_ROWS


def test_one_that_comes_later_hides_it_from_readers_alone(bench):
    """The compaction merges by what was carried before C: after the next ALTER TABLE every value is there."""
    bench.alter("RENAME COLUMN v TO vv")
    plan = bench.plan(SECOND)
    bench.publish(plan)
    bench.write_row()
    assert bench.runner.finish_pending(bench.policy, bench.location).status == "resumed"
    assert bench.rows("vv")[0] == (0, "new")
    bench.alter("ADD COLUMNS(w string)")
    assert bench.both() == [WRITTEN_ROWS, WRITTEN_ROWS]
    assert bench.apply(bench.plan(LATER)).status == "compacted"
    assert bench.both() == [WRITTEN_ROWS, WRITTEN_ROWS]


def test_where_columns_were_only_added_nothing_is_hidden(bench):
    bench.alter("ADD COLUMNS(w string)")
    bench.write_row("v", "w")
    assert bench.both("v") == [WRITTEN_ROWS, WRITTEN_ROWS]
    assert bench.apply(bench.plan(LATER)).status == "compacted"
    assert bench.both("v") == [WRITTEN_ROWS, WRITTEN_ROWS]
    assert bench.promised("v", LATER) == WRITTEN_ROWS


def test_a_writer_of_the_old_column_hides_it_too(bench):
    """With missing columns filled in as NULL a writer may still write the old name: a column of its own from then on."""
    bench.alter("RENAME COLUMN v TO vv")
    bench.write_row("v", **{"hoodie.write.set.null.for.missing.columns": "true"})
    assert bench.plan(LATER).tables[0].reason_code == "schema_hidden"
    bench.alter("ADD COLUMNS(w string)")
    rows = [(0, None), *ROWS[1:]]
    assert bench.both() == [rows, rows]
    assert bench.apply(bench.plan(LATER)).status == "compacted"
    assert bench.both() == [rows, rows]
    assert bench.rows("v") == [(0, "new"), *((key, None) for key in range(1, 6))]


@pytest.mark.parametrize(("bundle", "kind"), [("1.0.2", ()), ("0.15.0", ("--version-6",)), ("1.2.0", ("--version-6",))])
def test_so_it_is_under_older_bundles_and_with_carried_log_files(no_spark, tmp_path, bundle, kind):
    said = run_under_bundle(bundle, "tests.integration.altered", str(tmp_path), *kind, timeout_seconds=600)
    assert said.strip() == "passed"
