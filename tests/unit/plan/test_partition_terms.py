import pytest

from etc_policy.table.partitions import is_in


@pytest.mark.parametrize(
    ("terms", "partition", "expected"),
    [
        ((), "anything", True),
        (("",), "", True),
        (("region=eu*",), "region=eu/day=1", True),
        (("region=eu*",), "region=us", False),
        (("us*", "eu*"), "eu", True),
        (("2026-01-01..2026-01-31",), "2026-01-01", True),
        (("2026-01-01..2026-01-31",), "2026-01-31", True),
        (("2026-01-01..2026-01-31",), "2026-02-01", False),
        (("2026-01-01..",), "2027-01-01", True),
        (("..2026-01-31",), "2025-12-31", True),
        (("EU*",), "eu", False),
    ],
)
def test_globs_and_ranges(terms, partition, expected):
    assert is_in(partition, terms) is expected
