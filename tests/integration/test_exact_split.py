"""`granularity: record` on real tables: random histories, chained cuts, and a plan that is taken back.

`python -m tests.integration.exact_histories` plays any number of histories, `random_kills --where record` any number of kills.
"""

import time

import pytest

from etc_policy.api.verifying import gather_evidence
from etc_policy.gx.verifier import GxVerifier
from etc_policy.hudi.table import FileTableReader
from etc_policy.verify.catalog import AS_OF
from etc_policy.verify.prover import claim_of, verify_table
from etc_policy.wiring import clock_ms
from tests.integration.bench import Bench
from tests.integration.cut_checks import EXACT
from tests.integration.exact_histories import as_of_event, begin_history, run_history
from tests.integration.history import EPOCH_MS, HISTORY, QUICK, WRITER, Oracle, Write, partition_of, write_history

pytestmark = pytest.mark.spark

#: Without deletes, which make a slice whole.
ROWS = tuple(one for one in HISTORY if one.rows)


def files(base):
    """The table's files and extracts, without Hudi's own folder."""
    paths = (path.relative_to(base) for path in base.rglob("*") if path.is_file())
    return {str(path) for path in paths if path.parts[0] != ".hoodie" or "split" in path.parts}


@pytest.mark.parametrize("seed", [11, pytest.param(23, marks=pytest.mark.extended), 39])
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
def test_rows_after_t_that_their_commit_does_not_show_stay(spark, tmp_path):
    """One of the year 9999, which Hudi leaves out of the recorded maximum, and one that is too far ahead to be true."""
    far, ahead = (253_402_300_799_000 - EPOCH_MS) // 1000, (clock_ms() + 3 * 86_400_000 - EPOCH_MS) // 1000
    odd = ((1, "never", far), (2, "v1", 100)), ((3, "v1", 101), (4, "ahead", ahead))
    written = (ROWS[0], *map(Write, odd))
    write_history(spark, tmp_path / "t", written, options=QUICK)
    bench = Bench(spark, tmp_path / "t", "record")
    time.sleep(0.25)  # past the clock-skew bound
    assert {f.max_event_time_ms for _, f in bench.state().log_files} == {None}
    for second, status in ((102, "compacted"), (200, "nothing_due"), (300, "nothing_due")):
        assert bench.apply(bench.plan(second, reads_logs=True)).status == status
        assert bench.views().ro() == bench.views().rust(read_optimized=True) == as_of_event(written, second)
        assert bench.views().rt() == bench.views().rust() == Oracle.of(written).rt()


def compact_logs(bench):
    """By the stock client, as a writer with `hoodie.log.compaction.enable` does; no procedure of SQL does it."""
    jvm = bench.spark._jvm
    options = jvm.java.util.HashMap()
    chosen = {"hoodie.log.compaction.enable": "true", "hoodie.log.compaction.blocks.threshold": "1"}
    for key, value in {**QUICK, **WRITER, **chosen}.items():
        options.put(key, value)
    none = getattr(getattr(jvm.scala, "None$"), "MODULE$")
    create = jvm.org.apache.hudi.HoodieCLIUtils.createHoodieWriteClient
    client = create(bench.spark._jsparkSession, str(bench.base), jvm.PythonUtils.toScalaMap(options), none)
    try:
        client.logCompact(client.scheduleLogCompaction(jvm.org.apache.hudi.common.util.Option.empty()).get(), True)
    finally:
        client.close()


@pytest.mark.extended
def test_log_files_of_a_log_compaction_are_split_by_those_that_they_repeat(spark, tmp_path):
    """Also where it repeats rows that an earlier cut has split off; nothing is merged whole for it."""
    bench, views = Bench(spark, tmp_path / "t", "record"), Bench(spark, tmp_path / "t").views()
    for first, end, second in ((0, 3, 104), (3, 4, 200)):
        write_history(spark, tmp_path / "t", ROWS[first:end], options=QUICK, first=first)
        compact_logs(bench)
        time.sleep(0.25)  # past the clock-skew bound
        plan = bench.plan(second, reads_logs=True)
        assert not any("merged whole" in warning for warning in plan.tables[0].warnings)
        assert bench.apply(plan).status == "compacted"
        assert views.ro() == views.rust(read_optimized=True) == as_of_event(ROWS[:end], second)
        assert views.rt() == views.rt_without_mdt() == views.rust() == Oracle.of(ROWS[:end]).rt()


def as_of_check(bench, second):
    """What the suite of such a policy finds of RO as of the last cut."""
    state, history = FileTableReader().read_with_history(bench.location, bench.policy.event_time)[:2]
    claim = claim_of(bench.policy, state, clock_ms())
    suite = [{"type": AS_OF, "kwargs": {"threshold_ms": EPOCH_MS + second * 1000}}]
    evidence = gather_evidence(bench.policy, state, history, claim, clock_ms())
    found = verify_table(evidence, suite, "data", lambda: GxVerifier(bench.spark)).expectations
    return next(one for one in found if one.expectation == AS_OF)


@pytest.mark.extended
def test_the_suite_of_a_policy_by_record_knows_what_the_compaction_could_not_do(spark, tmp_path):
    """A row that a later one of a base file hides is a warning, a slice with deletes is left out, and a wrong T is a fault."""
    written = (ROWS[0], Write(((0, "late", -5), (1, "v1", 100), (4, "v1", 400))), Write(deleted=(5,)))
    write_history(spark, tmp_path / "t", written[:2], options=QUICK)
    bench = Bench(spark, tmp_path / "t", "record")
    time.sleep(0.25)  # past the clock-skew bound
    assert bench.apply(bench.plan(-1)).status == "compacted"
    found = as_of_check(bench, -1)
    assert (found.status, found.observed["hidden_by_later_rows"]) == ("warn", 1), found
    assert bench.apply(bench.plan(100)).status == "compacted"
    right, wrong = as_of_check(bench, 100), as_of_check(bench, 400)
    assert (right.status, right.observed["as_of_rows"], right.message) == ("pass", 12, None)
    assert (wrong.status, wrong.observed["missing"] + wrong.observed["different"]) == ("fail", 1)
    write_history(spark, tmp_path / "t", written[2:], options=QUICK, first=2)
    time.sleep(0.25)  # past the clock-skew bound
    assert bench.apply(bench.plan(200, reads_logs=True)).status == "compacted"
    found = as_of_check(bench, 200)
    assert (found.status, found.observed["merged_whole"]) == ("pass", 1), found
    assert bench.views().ro() == Oracle.of(written).rt_up_to(200) | {4: "v0"}


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
