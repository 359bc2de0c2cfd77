from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etc_policy.table.state import LogFile
from etc_policy.table.watermark import Watermark, watermark
from tests.unit.plan.plan_cases import epoch_ms, instant

LATENCY_MS = 60_000
COMPLETED = instant("10:00:00")
BOUND_MS = epoch_ms("10:00:00") - LATENCY_MS

OFFSETS = st.none() | st.integers(-1, 1)


def moved(offset):
    return None if offset is None else BOUND_MS + offset


log_files = st.builds(
    lambda name, offset, seen: LogFile(
        name, 1, COMPLETED, COMPLETED, moved(offset), seen_event_time_ms=moved(seen) if offset is None else None
    ),
    st.sampled_from("abc"),
    OFFSETS,
    OFFSETS,
)


def bound(log_file):
    """What is known, or seen in it, or promised by the latency: the earliest."""
    if log_file.min_event_time_ms is not None:
        return log_file.min_event_time_ms
    return min(one for one in (BOUND_MS, log_file.seen_event_time_ms) if one is not None)


@given(st.lists(log_files, max_size=6))
def test_the_smallest_event_time_then_the_first_name_hold_it_back(files):
    found = watermark(files, LATENCY_MS, UTC)
    if not files:
        assert found == Watermark(None, None, assumed=False)
        return
    lowest = min(map(bound, files))
    held = sorted(f.name for f in files if bound(f) == lowest)
    assert (found.value_ms, found.held_back_by) == (lowest - 1, held[0])


TIED = [LogFile("a", 1, COMPLETED, COMPLETED, time_ms) for time_ms in (None, BOUND_MS)]


@pytest.mark.parametrize("files", [TIED, TIED[::-1]])
def test_what_is_known_goes_before_what_is_assumed(files):
    assert not watermark(files, LATENCY_MS, UTC).assumed
