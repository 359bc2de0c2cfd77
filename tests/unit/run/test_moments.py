"""Beside writers that never pause a moment between two writes is found, as they are on the clock of `moments.py`."""

import pytest

from tests.unit.run.moments import World


@pytest.mark.parametrize(("writers", "at_least"), [(1, 40), (2, 38), (3, 30)])
def test_with_hudi_s_own_waits_it_is_mostly_found_within_a_minute(writers, at_least):
    """A batch takes 8 to 16 s."""
    found = [World(seed, writers).search() for seed in range(40)]
    assert sum(seconds is not None for seconds in found) >= at_least
