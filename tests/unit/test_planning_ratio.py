"""Planning grows with the table no faster than what it reads: ratios within one run, with wide margins."""

import time
from pathlib import Path
from statistics import median

import pytest

from benchmarks.metadata_verification import decode_alone
from benchmarks.planning import plan, write_project

#: Delta commits of the two tables: what both take, Python's own start above all, is no part of the difference.
FEW, MANY = 50, 300
FILE_GROUPS, TURNS = 100, 3
#: The seconds of the processor for the difference, in those of fastavro for the commits alone: 0.7 to 1.4 when this was written.
MOST = 2.5


def decoding(root: Path) -> float:
    began = time.process_time()
    decode_alone(root / "t")
    return time.process_time() - began


@pytest.mark.extended
def test_a_plan_grows_about_as_its_commits_take_to_decode(tmp_path):
    roots = [tmp_path / str(commits) for commits in (FEW, MANY)]
    for root, commits in zip(roots, (FEW, MANY), strict=True):
        root.mkdir()
        write_project(root, commits, FILE_GROUPS)
        plan(root, "off")  # the first look at files that were just written costs the kernel more

    def difference(seconds) -> float:
        few, many = (median(seconds(root) for _ in range(TURNS)) for root in roots)
        return many - few

    took = difference(lambda root: plan(root, "off").cpu_seconds)
    assert took <= MOST * difference(decoding)
