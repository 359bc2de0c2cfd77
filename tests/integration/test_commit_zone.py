"""The zone in which Hudi writes instants, in a real JVM: set for a table, looked at before a commit, and then as before."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from etc_policy.errors import EngineError
from etc_policy.policy.manifest import EventTime, Policy
from etc_policy.run.ports import Job
from etc_policy.spark.commit_zone import commit_zone, require_engine_time
from etc_policy.table.instants import add_ms, format_instant
from tests.integration.zones import with_zone
from tests.unit.hudi.table_folder import TableFolder

pytestmark = pytest.mark.spark
FIRST = "20260101100000000"


@pytest.fixture
def jvm(spark, monkeypatch):
    """A Java process whose own zone is Los Angeles; Python's is UTC."""
    monkeypatch.setenv("TZ", "UTC")
    with_zone(spark, "America/Los_Angeles")
    # a table that was made in this process with a zone of its own has left that one
    local = spark._jvm.org.apache.hudi.common.model.HoodieTimelineTimeZone.LOCAL
    spark._jvm.org.apache.hudi.common.table.timeline.HoodieInstantTimeGenerator.setCommitTimeZone(local)
    yield spark._jvm
    with_zone(spark, "UTC")


def job_of(folder, timeline, instant=FIRST, last=FIRST):
    table = TableFolder(folder / timeline.lower(), properties={"hoodie.table.timeline.timezone": timeline})
    table.commit(last, add_ms(last, 1))
    policy = Policy(name="t", table=str(table.base), event_time=EventTime(column="ts"), data_latency_ms=1)
    return Job(policy, str(table.base), 9, (), instant)


def written_by(jvm):
    """The offset from UTC, in hours, of what Hudi would write as the time now."""
    generator = jvm.org.apache.hudi.common.table.timeline.HoodieInstantTimeGenerator
    instant = str(generator.formatDateBasedOnTimeZone(jvm.java.util.Date()))
    ahead = datetime.strptime(f"{instant[:14]}+0000", "%Y%m%d%H%M%S%z") - datetime.now(UTC)
    return round(ahead.total_seconds() / 3600)


def los_angeles():
    return round(datetime.now(ZoneInfo("America/Los_Angeles")).utcoffset().total_seconds() / 3600)


def now():
    return format_instant(datetime.now(UTC).replace(tzinfo=None))


def test_it_is_set_for_the_table_and_then_as_before(jvm, tmp_path):
    generator = jvm.org.apache.hudi.common.table.timeline.HoodieInstantTimeGenerator
    last = generator.getLastInstantTime()
    assert written_by(jvm) == los_angeles()
    with commit_zone(jvm, job_of(tmp_path, "UTC")):
        assert written_by(jvm) == 0
    assert (written_by(jvm), generator.getLastInstantTime()) == (los_angeles(), last)


def test_a_zone_behind_the_last_instant_does_not_wait_for_it(jvm, spark, tmp_path):
    """Hudi makes a new instant only once it is later than the last one of the process."""
    with_zone(spark, "Asia/Tokyo")
    generator = jvm.org.apache.hudi.common.table.timeline.HoodieInstantTimeGenerator
    times = jvm.org.apache.hudi.common.table.timeline
    config = jvm.org.apache.hudi.common.config.HoodieTimeGeneratorConfig.defaultConfig(str(tmp_path))
    storage = jvm.org.apache.hudi.storage.hadoop.HadoopStorageConfiguration(False)
    clock = times.TimeGenerators.getTimeGenerator(config, storage)
    in_tokyo = generator.createNewInstantTime(False, clock, 0)
    with commit_zone(jvm, job_of(tmp_path, "UTC")):
        in_utc = generator.createNewInstantTime(False, clock, 0)
    assert in_utc < in_tokyo < generator.createNewInstantTime(False, clock, 0)


def test_local_time_that_java_and_the_planner_read_differently_is_refused(jvm, tmp_path):
    with (
        pytest.raises(EngineError, match=r"Hudi would write \d+ as the time now") as error,
        commit_zone(jvm, job_of(tmp_path, "LOCAL")),
    ):
        pass
    assert (error.value.code, "Java's own zone is America/Los_Angeles" in error.value.hint) == ("ETC313", True)


@pytest.mark.parametrize("ahead_ms", [0, 3_600_000])
def test_what_would_complete_before_its_instant_is_not_committed(jvm, tmp_path, ahead_ms):
    job = job_of(tmp_path, "UTC", add_ms(now(), ahead_ms + 60_000))
    with commit_zone(jvm, job), pytest.raises(EngineError, match="not after its own instant") as error:
        require_engine_time(jvm, job, completes=True)
    assert error.value.code == "ETC314"


def test_a_commit_far_behind_the_last_one_is_not_made(jvm, tmp_path):
    job = job_of(tmp_path, "UTC", last=add_ms(now(), 600_000))
    with commit_zone(jvm, job), pytest.raises(EngineError, match="the table's last instant completed at") as error:
        require_engine_time(jvm, job, completes=True)
    assert error.value.code == "ETC314"


def test_what_is_right_passes(jvm, tmp_path):
    job = job_of(tmp_path, "UTC")
    with commit_zone(jvm, job):
        require_engine_time(jvm, job, completes=True)
