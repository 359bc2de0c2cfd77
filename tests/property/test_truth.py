"""What etc says of a table against what is true of it, over random lifetimes: never more than the rows show.

Both are in `judged`. `ETC_HISTORIES` sets how many (500; every night 20,000).
"""

from __future__ import annotations

import pytest

from tests.nightly import HISTORIES, nightly
from tests.property.judged import broken_judgement
from tests.property.mutate import JUDGED, untrue_after

#: What few lifetimes notice.
NOTICED_LATE = (
    "what was known when the table was read is not of later",
    "what a compaction of another column split off may be anything",
    "an event time that cannot be true makes its file unknown",
    "file groups that were replaced are gone",
    "what was found stays where a window leaves it out",
    "what was found stays where a condition leaves it out",
    "what a suite found beyond the claim stays as far",
    "what a partition lacks stays up to an earlier end",
    "what was found stays where a sample leaves it out",
    "what a check found stays where it is not asked",
)


def test_nothing_is_said_to_be_complete_proved_or_promised_that_is_not() -> None:
    found = broken_judgement(HISTORIES // 4, seed=20_261_128)
    assert found is None, found[1]


@pytest.mark.parametrize("name", [*(one for one in JUDGED if one not in NOTICED_LATE), *nightly(*NOTICED_LATE)])
def test_a_broken_judgement_is_noticed(name: str) -> None:
    assert untrue_after(name, 2_000, seed=1) is not None
