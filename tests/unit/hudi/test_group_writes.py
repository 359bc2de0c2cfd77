"""What a commit wrote to each file group, from its write stats."""

from dataclasses import replace
from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etc_policy.hudi.commit_writes import NO_TRUST, Trust, group_writes
from etc_policy.hudi.commits import CommitMetadata, WriteStats
from etc_policy.policy.schema import MAX_AHEAD_MS
from etc_policy.table.instants import instant_to_ms

C, DONE = "20260101100000000", "20260101100005000"
TRUST = Trust(times=True, deletes=True)
COUNT, TIME = st.integers(0, 9), st.one_of(st.none(), st.integers(0, 99))
PREVIOUS = st.sampled_from(["", "null", "20260101090000000"])
STAT = st.tuples(st.sampled_from("abc"), st.booleans(), PREVIOUS, COUNT, COUNT, COUNT, TIME, COUNT, COUNT, TIME)


def stats_of(rows):
    """Write stats of (group, whether it is a log file, what was before, rows, deletes, size, first time, merged, last time)."""
    names = [
        f".{f}_{C}.log.{n}_0-1-0" if is_log else f"{f}_0-1-0_{C}.parquet" for n, (f, is_log, *_) in enumerate(rows)
    ]
    return WriteStats([("p", row[0]) for row in rows], names, *map(list, zip(*(row[2:] for row in rows), strict=True)))


@given(st.lists(STAT, min_size=1, max_size=6))
def test_each_file_group_has_what_all_its_stats_say_together(rows):
    writes = group_writes(C, DONE, CommitMetadata(stats_of(rows), {}, "UPSERT"), TRUST)
    assert set(writes) == {("p", row[0]) for row in rows}
    for (_, file_id), write in writes.items():
        own = [row for row in rows if row[0] == file_id]
        logs = [row for row in own if row[1]]
        assert (write.requested, write.completed, write.partition, write.file_id) == (C, DONE, "p", file_id)
        assert write.log_files == len(logs)
        assert write.bytes_written == sum(row[5] for row in own)
        assert (write.merged_log_files, write.merged_log_bytes) == tuple(sum(row[n] for row in own) for n in (7, 8))
        assert write.previous in {None, "20260101090000000"}
        assert (write.previous is None) == all(row[2] in ("", "null") for row in own)
        if logs:
            assert write.rows == sum(row[3] + row[4] for row in logs)
            assert write.certain == all(row[6] is not None and not row[4] for row in own)
        else:
            assert (write.certain_min_ms, write.seen_ms, write.has_deletes) == (None, None, True)


@given(st.sets(st.sampled_from("abcdef"), min_size=1), st.data())
def test_a_plain_commit_is_read_by_columns_to_the_same(groups, data):
    others = st.tuples(st.just(True), PREVIOUS, COUNT, st.just(0), COUNT, st.integers(0, 99), COUNT, COUNT, TIME)
    commit = CommitMetadata(stats_of([(one, *data.draw(others)) for one in sorted(groups)]), {}, "UPSERT")
    assert group_writes(C, DONE, replace(commit, plain_instant=C), TRUST) == group_writes(C, DONE, commit, TRUST)


DONE_MS = instant_to_ms(DONE, UTC)
LATEST_MS = DONE_MS + MAX_AHEAD_MS


@pytest.mark.parametrize(
    ("first", "last", "known", "seen", "impossible"),
    [
        (DONE_MS, LATEST_MS, DONE_MS, None, None),
        (DONE_MS, None, DONE_MS, None, None),
        (DONE_MS, LATEST_MS + 1, None, DONE_MS, LATEST_MS + 1),
        (LATEST_MS + 1, LATEST_MS + 7, None, None, LATEST_MS + 7),
        (LATEST_MS + 1, None, None, None, LATEST_MS + 1),
    ],
)
def test_an_event_time_that_cannot_be_true_makes_the_smallest_one_unknown(first, last, known, seen, impossible):
    rows = [("a", True, "", 1, 0, 10, first, 0, 0, last), ("b", True, "", 1, 0, 10, DONE_MS, 0, 0, DONE_MS)]
    latest_ms = max(last or first, DONE_MS)
    commit = CommitMetadata(stats_of(rows), {}, "UPSERT", plain_instant=C, latest_event_ms=latest_ms)
    write, other = group_writes(C, DONE, commit, TRUST).values()
    assert (write.certain_min_ms, write.seen_ms, write.impossible_ms) == (known, seen, impossible)
    assert (other.certain_min_ms, other.impossible_ms) == (DONE_MS, None)


def test_where_nothing_is_trusted_nothing_is_known_of_a_plain_commit():
    commit = CommitMetadata(stats_of([("a", True, "", 1, 0, 10, 5, 0, 0, 9)]), {}, "UPSERT", plain_instant=C)
    (write,) = group_writes(C, DONE, commit, NO_TRUST).values()
    assert (write.certain, write.known_min_ms, write.has_deletes) == (False, None, True)
