"""A few of the interleavings of `interleavings.py`; all of them: `python -m tests.integration.interleavings`."""

import time

import pytest

from tests.integration.interleavings import Case, Stage
from tests.integration.writer_on_command import Writer

pytestmark = [pytest.mark.spark, pytest.mark.extended]
CASES = [
    Case("simple", True, "ours published", "metadata"),
    Case("global_simple", False, "plan withdrawn", "metadata"),
    Case("simple", True, "ours checked", "metadata"),
    Case("bloom", False, "ours compacted", "metadata"),
    Case("simple", True, "writer writing", "metadata"),
    Case("simple", False, "ours checked", "metadata"),
    Case("simple", True, "plan withdrawn", "metadata"),
    Case("simple", True, "hold compacted", "metadata"),
    Case("global_bloom", True, "ended published", "metadata"),
    Case("global_record_index", False, "ours compacted", "metadata"),
]


@pytest.fixture(scope="module")
def writer(tmp_path_factory):
    """Its Spark starts beside ours."""
    writer = Writer(tmp_path_factory.mktemp("writer"))
    yield writer
    writer.close()


@pytest.fixture(scope="module")
def stage(writer, spark, tmp_path_factory):
    return Stage(tmp_path_factory.mktemp("stage"), spark, writer)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_key_stands_twice(stage, case, monkeypatch):
    monkeypatch.setattr("etc_policy.run.fence.WRITER_WAIT_SECONDS", 1.0)  # the writer is held for as long as we wait
    told = stage.play(case)
    assert not told.startswith("FAILED"), told


def test_a_write_that_failed_and_beats_on_is_named_with_what_to_do(stage):
    """Hudi beats for a delete that failed as long as its process lives: nobody can know that it will never commit."""
    scene = stage.scene(Case("simple", True, "writer failed"))
    (error,) = scene.beside_a_failed_write("delete")
    (failed,) = scene.table.incomplete("deltacommit")
    beat = scene.table.meta / ".heartbeat" / failed
    before, deadline = beat.stat().st_mtime, time.monotonic() + 20
    while beat.stat().st_mtime == before:
        assert time.monotonic() < deadline, "it beats no more"
        time.sleep(0.2)
    assert error.code == "ETC405"
    assert f"a writer that began at {failed} is in flight" in error.message
    assert "1 write that began after it has completed" in error.message
    assert "end or restart its process" in error.hint


def test_rows_that_a_failed_write_hides_where_folders_are_listed_are_compacted(stage):
    """Stock Hudi counts a log file to a base file that nobody may read; etc to the newest one that completed."""
    views = stage.empty_scene(Case("simple", True, "writer in conflict")).hidden_by_a_failed_write()
    assert views == {"RT": [(1, "newer")], "RT without MDT": [(1, "first")], "RO": [(1, "first")]}
