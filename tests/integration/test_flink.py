"""Tables that Flink writes (Flink 1.17, Hudi 0.14: table version 6): planned, compacted, written to again."""

import shutil
from dataclasses import replace

import pytest

from etc_policy.plan.bundles import bundle_of
from etc_policy.plan.refusals import Facts
from etc_policy.plan.rules import bundle_unfit
from etc_policy.spark.session import start_spark
from tests.integration.bench import SECOND
from tests.integration.conftest import _Session
from tests.integration.flink import flink
from tests.integration.flink_table import INDEXES, FlinkTable
from tests.integration.history import HISTORY, Write
from tests.integration.session import stop_spark
from tests.integration.version6_kinds import AFTER, LAST, Kind

pytestmark = [pytest.mark.spark, pytest.mark.extended]

#: Late updates of a row of the last but one commit, and of what became its base file: both lose.
LATE, LATER = Write(((0, "late", 720),)), Write(((0, "later", 730),))


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    """A session with the bundle that merges tables of Hudi 0.x as their own readers do, in the place of the other one."""
    _Session.stop()
    options = {"spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2"}
    session = start_spark(options, tmp_path_factory.mktemp("spark") / "spark.log", bundle_of("0.15.0"))
    yield session
    stop_spark(session)


@pytest.fixture(scope="module")
def engine():
    if shutil.which("mvn") is None:
        pytest.skip("Maven is not installed, which fetches Flink")
    with flink() as started:
        yield started


@pytest.mark.parametrize("granularity", ["file_slice", "log_file"])
@pytest.mark.parametrize("index", INDEXES)
def test_every_view_is_right_by_both_engines(spark, engine, tmp_path, index, granularity):
    kind = Kind(mdt=index == "bucket", carry="copy" if granularity == "log_file" else None)
    table = FlinkTable(spark, tmp_path / "t", kind=kind, index=index, granularity=granularity, flink=engine)
    table.write(*HISTORY)
    table.check("before")
    table.compact(SECOND)
    table.check(f"compacted up to {SECOND}")
    for writes, second in (((*AFTER, LATE), 710), (LAST, 905), ((LATER,), 950)):
        table.write(*writes)
        table.check("written to", len(table.history) - len(writes))
        table.compact(second)
        assert bool(table.carried()) == (granularity == "log_file")
        table.check(f"compacted up to {second}", len(table.history) - len(writes))


@pytest.mark.parametrize("since", [0, 3], ids=["from the first write", "from the fourth write"])
def test_rows_deleted_in_changelog_mode_stay_deleted(spark, engine, tmp_path, since):
    """See facts: changelog-compaction, changelog-switched-on."""
    from pyarrow import parquet

    table = FlinkTable(spark, tmp_path / "t", kind=Kind(mdt=False, carry="copy"), index="bucket", flink=engine)
    table.write(*HISTORY[:since])
    table.in_changelog_mode = True
    table.write(*HISTORY[since:])
    assert table.state().in_changelog_mode
    assert not list(table.wrong_reading(by_spark=not since))
    table.compact(905)
    assert not list(table.wrong_reading())
    columns = [set(parquet.read_schema(file).names) for file in table.base.glob("*/*.parquet")]
    assert columns
    assert all("_hoodie_operation" in one for one in columns)
    table.write(Write(((5, "back", 910), (8, "back", 911))), Write(deleted=(1,)))
    assert not list(table.wrong_reading())
    table.compact(950)
    assert not list(table.wrong_reading())
    assert table.views.ro() == table.oracle.rt()


def test_what_no_bundle_merges_rightly_in_changelog_mode_is_refused(spark, engine, tmp_path):
    """See facts: merge-matrix. The state is that of the table before Spark is asked."""
    table = FlinkTable(
        spark, tmp_path / "t", index="bucket", flink=engine, in_changelog_mode=True, payload="PartialUpdateAvroPayload"
    )
    table.write(*HISTORY[:2])
    state = replace(table.state(), release="1.2.0")
    assert bundle_unfit(Facts(table.policy, state, None)).code == "ETC322"
