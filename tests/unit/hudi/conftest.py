import pytest

from etc_policy.hudi import avro_rows


@pytest.fixture(scope="module", params=["one by one", "side by side"])
def both_ways(request):
    """The few rows of a test are decoded as few, and as many."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "side by side":
            patch.setattr(avro_rows, "_MANY", 1)
            patch.setattr(avro_rows, "_WORTH_LOADING", 1)
        yield
