import pytest

from tests.unit.hudi.table_folder import TableFolder


@pytest.fixture
def table(tmp_path):
    """An empty merge-on-read table of version 9."""
    return TableFolder(tmp_path / "orders")


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    """A damaged file does not become whole."""
    monkeypatch.setattr("etc_policy.hudi.stable_reading.WRITTEN_SECONDS", 0)
