"""A few of the interleavings of `interleavings.py`; all of them: `python -m tests.integration.interleavings`."""

import pytest

from tests.integration.interleavings import Case, Stage
from tests.integration.writer_on_command import Writer

pytestmark = pytest.mark.spark
CASES = [
    Case("simple", True, "ours published"),
    Case("simple", True, "ours checked"),
    Case("simple", True, "writer writing"),
    Case("bloom", False, "ours compacted"),
]


@pytest.fixture(scope="module")
def stage(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stage")
    writer = Writer(folder)
    yield Stage(folder, spark, writer)
    writer.close()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_key_stands_twice(stage, case):
    told = stage.play(case)
    assert not told.startswith("FAILED"), told
