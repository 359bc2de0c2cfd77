"""Short random histories on real tables; `python -m tests.integration.histories` plays any number of longer ones."""

import pytest

from tests.integration.histories import run_history

pytestmark = pytest.mark.spark


@pytest.mark.extended
@pytest.mark.parametrize("seed", [1, 2, 3, 4, 10])
def test_history(spark, tmp_path, seed):
    run_history(spark, tmp_path / "t", seed, short=True)
