"""`granularity: record` on real tables: random histories, chained cuts, and a plan that is taken back.

`python -m tests.integration.exact_histories` plays any number of histories, `random_kills --where record` any number of kills.
"""

import pytest

from tests.integration.bench import Bench
from tests.integration.cut_checks import EXACT
from tests.integration.exact_histories import as_of_event, begin_history, run_history
from tests.integration.history import HISTORY, QUICK, Oracle, Write, partition_of, write_history

pytestmark = pytest.mark.spark

#: Without deletes, which make a slice whole.
ROWS = tuple(one for one in HISTORY if one.rows)


def files(base):
    """The table's files and extracts, without Hudi's own folder."""
    paths = (path.relative_to(base) for path in base.rglob("*") if path.is_file())
    return {str(path) for path in paths if path.parts[0] != ".hoodie" or "split" in path.parts}


@pytest.mark.parametrize("seed", [11, 23, 39])
def test_one_cut(spark, tmp_path, seed):
    history = begin_history(spark, tmp_path / "t", seed)
    history.upsert()
    history.upsert()
    history.cut(all_commits=True)
    assert history.splits > 0


@pytest.mark.extended
@pytest.mark.parametrize("seed", [4, 5, 8, 9])
def test_history(spark, tmp_path, seed):
    assert run_history(spark, tmp_path / "t", seed, steps=5).splits > 0


@pytest.mark.extended
def test_chained_cuts_are_the_table_as_of_each_threshold(spark, tmp_path):
    write_history(spark, tmp_path / "t", ROWS, options=QUICK)
    bench, views = Bench(spark, tmp_path / "t", "record"), Bench(spark, tmp_path / "t").views()
    for second in (104, 105, 210, 301, 450, 502):
        bench.apply(bench.plan(second))
        assert views.ro() == views.rust(read_optimized=True) == as_of_event(ROWS, second)
        assert views.rt() == views.rt_without_mdt() == views.rust() == Oracle.of(ROWS).rt()


@pytest.mark.extended
def test_a_plan_that_is_taken_back_leaves_nothing(spark, tmp_path):
    write_history(spark, tmp_path / "t", ROWS, options=QUICK)
    bench = Bench(spark, tmp_path / "t", "record")
    views, before = bench.views(), files(bench.base)
    bench.publish(bench.plan())
    assert files(bench.base) > before
    assert views.rt() == views.rt_without_mdt() == views.rust() == Oracle.of(ROWS).rt()
    bench.runner.undo(bench.policy, bench.location)
    assert files(bench.base) == before
    assert views.rt() == views.rt_without_mdt() == views.rust() == Oracle.of(ROWS).rt()
    later = (*ROWS, Write(((1, "v7", 600), (4, "v7", 601))))
    write_history(spark, bench.base, later[-1:], options=QUICK, first=len(ROWS))
    assert bench.apply(bench.plan()).status == "compacted"
    assert views.rt() == views.rt_without_mdt() == views.rust() == Oracle.of(later).rt()
    ro = views.ro()
    assert {key: ro[key] for key in ro if partition_of(key) in "ab"} == EXACT
