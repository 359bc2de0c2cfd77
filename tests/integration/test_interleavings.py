"""A few of the interleavings of `interleavings.py`; all of them: `python -m tests.integration.interleavings`."""

import pytest

from tests.integration.interleavings import Case, Stage
from tests.integration.writer_on_command import Writer

pytestmark = pytest.mark.spark
CASES = [
    Case("simple", True, "ours published", "metadata"),
    Case("simple", True, "ours checked", "metadata"),
    Case("simple", True, "writer writing", "metadata"),
    Case("bloom", False, "ours compacted", "metadata"),
    Case("simple", False, "ours checked", "metadata"),
    Case("simple", True, "plan withdrawn", "metadata"),
    Case("global_simple", False, "plan withdrawn", "metadata"),
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
    monkeypatch.setattr(
        "etc_policy.execute.fence.WRITER_WAIT_SECONDS", 1.0
    )  # the writer is held for as long as we wait
    told = stage.play(case)
    assert not told.startswith("FAILED"), told
