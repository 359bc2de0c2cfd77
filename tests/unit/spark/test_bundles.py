"""Before anything is published the bundle that Spark has loaded is asked itself: whoever named it may have named another."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from etc_policy.errors import EngineError
from etc_policy.hudi.properties import merging_of, read_properties
from etc_policy.plan import bundles
from etc_policy.spark.bundles import release_in
from etc_policy.spark.compactor import HudiCompactor
from etc_policy.storage.open_storage import open_reader
from tests.unit.hudi.table_folder import at, base, log
from tests.unit.spark.test_compactor import Gate, files, job_of


def spark_with(release):
    """A session whose Java says that this release is loaded."""
    package = SimpleNamespace(getImplementationVersion=lambda: release)
    of_name = SimpleNamespace(forName=lambda *_: SimpleNamespace(getPackage=lambda: package))
    thread = SimpleNamespace(currentThread=lambda: SimpleNamespace(getContextClassLoader=lambda: None))
    lang = SimpleNamespace(Thread=thread, Class=of_name)
    return SimpleNamespace(_jvm=SimpleNamespace(java=SimpleNamespace(lang=lang)))


@pytest.fixture
def job(table, monkeypatch):
    """A job on a table that 1.1.1 merges rightly and 1.2.0 does not."""
    table.commit(at("10:00:00"), at("10:00:01"), base("f1"), log("f1", 5))
    merging = merging_of(read_properties(open_reader(str(table.base))))
    monkeypatch.setattr(bundles, "results", lambda: {merging: {"1.1.1": "right", "1.2.0": "wrong: toast"}})
    return job_of(table)


STEPS = {
    "publish": lambda spark, job: HudiCompactor(spark).publish(job, lambda: None, lambda: None),
    "run": lambda spark, job: HudiCompactor(spark).run(job, lambda: None, Gate([])),
}


@pytest.mark.parametrize("release", ["1.2.0", "1.0.2", None])
@pytest.mark.parametrize("step", STEPS)
def test_nothing_is_done_by_a_bundle_that_does_not_fit(table, job, step, release):
    before = files(table)
    with pytest.raises(EngineError, match="`orders_ro` is not compacted") as error:
        STEPS[step](spark_with(release), job)
    assert error.value.code == "ETC322"
    assert "hudi-spark3.5-bundle_2.12:1.1.1" in error.value.hint
    assert files(table) == before


def test_one_that_was_played_or_tested_by_the_user_is_let_through(job):
    """The session is not one: what comes next fails."""
    writer = job.policy.writer.model_copy(update={"merges_tested_with": ("1.0.2-vendor",)})
    tested = replace(job, policy=job.policy.model_copy(update={"writer": writer}))
    for release, one in (("1.1.1", job), ("1.0.2-vendor", tested)):
        with pytest.raises(AttributeError):
            STEPS["publish"](spark_with(release), one)


@pytest.mark.parametrize(
    ("release", "ends_writes"), [("1.0.2", True), ("0.15.0", True), (None, True), ("1.1.1", False)]
)
@pytest.mark.parametrize("step", STEPS)
def test_one_that_would_end_what_writers_stream_to_the_metadata_table_does_nothing(
    table, job, step, release, ends_writes
):
    """From 1.1 on clients stream, too: the session is not one, and what comes next fails."""
    for value, is_refused in (("true", ends_writes), ("false", False)):
        writer = job.policy.writer.model_copy(update={"merges_tested_with": (release or "",)})
        options = {"hoodie.metadata.streaming.write.enabled": value}
        policy = job.policy.model_copy(update={"writer": writer, "hudi_options": options})
        with pytest.raises(EngineError if is_refused or not release else AttributeError) as error:
            STEPS[step](spark_with(release), replace(job, policy=policy, metadata_partitions=("files",)))
        if is_refused and release:
            assert error.value.code == "ETC325"
            assert "hudi-spark3.5-bundle_2.12:1.2.0" in error.value.hint


@pytest.mark.parametrize(
    ("name", "release"),
    [
        ("org.apache.hudi:hudi-spark3.5-bundle_2.12:0.15.0", "0.15.0"),
        ("/jars/org.apache.hudi_hudi-spark3.5-bundle_2.12-1.2.0.jar", "1.2.0"),
        ("org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0,org.example:other:1", "1.2.0"),
        ("/jars/hudi-spark3.5-bundle_2.12-1.0.2-amzn-1.jar", "1.0.2-amzn-1"),
        ("/jars/hudi-spark3.5-bundle_2.12-1.1.0-SNAPSHOT.jar", "1.1.0-SNAPSHOT"),
        ("/jars/hudi-spark3.5-bundle_2.12-1.3.0-rc1.jar", "1.3.0-rc1"),
        ("/jars/mine.jar", None),
        ("hudi-spark3.5-bundle_2.12-ghp_hunter2", None),  # what is no release is in no message
        ("hudi-spark3.5-bundle_2.12-hunter2-1.2.0.jar", None),
        ("hudi-spark3.5-bundle_2.12-{{ env_var('TOKEN') }}", None),
    ],
)
def test_the_release_in_a_name(name, release):
    assert release_in(name) == release
