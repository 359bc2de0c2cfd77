import pytest

from tests.integration.session import run_under_bundle

pytestmark = pytest.mark.spark


@pytest.mark.extended
@pytest.mark.parametrize("bundle", ["0.15.0", "1.0.1", "1.0.2", "1.1.1", "1.2.0"])
def test_a_compaction_merges_by_the_ordering_field_of_the_table(no_spark, tmp_path, bundle):
    said = run_under_bundle(bundle, "tests.integration.ordering", str(tmp_path / "t"), timeout_seconds=600)
    assert said.strip() == "passed"
