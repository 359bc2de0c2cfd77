import pytest

from tests.unit.adapters.table_folder import TableFolder


@pytest.fixture
def table(tmp_path):
    """An empty merge-on-read table of version 9."""
    return TableFolder(tmp_path / "orders")
