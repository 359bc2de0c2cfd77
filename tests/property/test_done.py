"""What is sent about partitions, in modelled tables with all that happens to them, against what was really so.

`python -m tests.property.test_done 100000` plays that many, and prints what was sent and why.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable

import pytest

from tests.nightly import HISTORIES
from tests.property.mutate import OF_PARTITIONS
from tests.property.partition_world import live


def play(seeds: Iterable[int]) -> Counter[str]:
    """How many events of each kind were sent, all of them rightly."""
    seen = Counter[str]()
    for seed in seeds:
        try:
            seen.update(live(seed).seen)
        except AssertionError as broken:
            broken.add_note(f"seed {seed}")
            raise
    return seen


def test_nothing_false_is_sent_and_nothing_is_passed_over() -> None:
    seen = play(range(HISTORIES))
    if HISTORIES >= 150:
        for why in ("late_data", "dropped", "rolled_back"):
            assert seen[f"reopened: {why}"] > HISTORIES // 10, seen


#: So few tables show that they are broken that these are for the night.
RARE = ("what is archived may have completed last", "success files of no record go")


@pytest.mark.parametrize(
    "rule", [pytest.param(one, marks=pytest.mark.extended if one in RARE else ()) for one in OF_PARTITIONS]
)
def test_a_broken_rule_is_noticed(rule: str) -> None:
    with OF_PARTITIONS[rule](), pytest.raises(AssertionError):
        play(range(3000))


if __name__ == "__main__":
    print(dict(play(range(int(sys.argv[1])))))
