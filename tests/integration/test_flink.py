"""Tables that Flink writes (Flink 1.17, Hudi 0.14: table version 6): planned, compacted, written to again."""

import shutil

import pytest

from etc_policy.plan.bundles import bundle_of
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
