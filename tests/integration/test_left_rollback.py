"""A run that died while it rolled another back, by a bundle that does not take up such a rollback."""

import pytest

from etc_policy.hudi.properties import read_properties
from etc_policy.hudi.writer_options import STREAMING, option_of_metadata_commits
from etc_policy.plan.bundles import bundle_of
from etc_policy.storage.open_storage import open_reader
from tests.integration.history import EPOCH_MS, HISTORY, QUICK, WRITER, partition_of
from tests.integration.kills import Project, kill_at
from tests.integration.writer_on_command import Writer

pytestmark = [pytest.mark.spark, pytest.mark.extended]


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A table of Hudi 1.0.2; from now on etc compacts with its bundle."""
    monkeypatch.setenv("ETC_HUDI_BUNDLE", bundle_of("1.0.2"))
    writer, base = Writer(tmp_path), tmp_path / "source"
    for write in HISTORY[:4]:
        rows = [(key, partition_of(key), value, EPOCH_MS + second * 1000) for key, value, second in write.rows]
        writer.begin(base, rows, {**WRITER, **QUICK})
        assert writer.answer() == "done"
    writer.close()
    return base


def test_it_is_not_left_behind(source, tmp_path):
    """Hudi before 1.1 begins another rollback; the first one stayed pending, and every later plan was refused for it."""
    project = Project(tmp_path)
    storage = open_reader(str(source))
    shown = [tuple(one)[:2] for one in option_of_metadata_commits(storage, read_properties(storage))]
    assert shown == [(STREAMING, "false")]
    table = kill_at(project, "t", source, "executing", level="metadata")
    project.kill_when(lambda: bool(table.timeline("*.rollback.inflight")), "t")
    assert table.incomplete("rollback")
    assert project.apply()["t"]["status"] == "resumed"
    assert not table.incomplete("rollback")
    assert project.apply()["t"]["status"] == "nothing_due"
