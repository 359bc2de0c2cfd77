"""A few lies about honest tables: `python -m tests.lies --count 500` tells more, and prints which level catches which."""

import pytest

from tests.lies.kinds import KINDS
from tests.lies.telling import COLUMNS, MISSED, alarm, tell


@pytest.mark.parametrize("lie", KINDS, ids=lambda lie: f"{lie.target}: {lie.name}")
def test_each_lie_is_caught_or_does_no_harm_or_has_a_reason(lie):
    found = tell(20_000 + KINDS.index(lie), lie)
    assert found.outcome in COLUMNS, f"{found.said}: {found.outcome}"


def test_a_lie_that_nobody_looks_for_is_missed(monkeypatch):
    """Else the count of missed lies would mean nothing."""
    from tests.lies import telling

    later = next(lie for lie in KINDS if lie.name == "a later event time than the log file holds")
    monkeypatch.setattr(telling, "LEVELS", ("metadata",))
    assert MISSED in {tell(seed, later).outcome for seed in range(20)}


def test_honest_tables_raise_no_alarm():
    assert [said for seed in range(30_000, 30_030) if (said := alarm(seed)) is not None] == []
