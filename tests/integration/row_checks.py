"""A check of the rows of a small real table, without a policy file or a claim of its own."""

from pathlib import Path

from etc_policy.gx.verifier import GxVerifier
from etc_policy.hudi.table import FileTableReader
from etc_policy.policy.files import read_suite
from etc_policy.policy.manifest import EventTime, Policy, Verify, Writer
from etc_policy.verify.catalog import source_of
from etc_policy.verify.compared_rows import other_partitions, same_files
from etc_policy.verify.ports import DataCheck
from etc_policy.verify.suites import parse_suite
from tests.integration.hudi_tables import EPOCH_MS

T = EPOCH_MS + 1_000
CONTAINMENT, TWICE, DELETED = "expect_ro_to_contain_rt_up_to", "expect_no_key_twice", "expect_no_deleted_rows"
BASE_FILE, BOUNDS = "expect_rows_of_their_base_file", "expect_event_times_within_bounds"


def row_suite():
    path, text = read_suite("ro_complete", Path("no-such-project"))
    return tuple(item for item in parse_suite(text, path) if source_of(item["type"]) != "metadata")


ROW_SUITE = row_suite()


def row(key, value="a", at_ms=0, partition="x"):
    return (key, partition, value, EPOCH_MS + at_ms)


def request_for(table, **changes):
    """The request for a check of all rows up to T."""
    policy = Policy(
        name="orders",
        table=table.base,
        event_time=changes.pop("event_time", EventTime(column="ts")),
        data_latency_ms=0,
        verify=Verify(where=changes.pop("where", None)),
        writer=Writer(index=changes.pop("index", None), keys=changes.pop("keys", "unique")),
    )
    request = {
        "policy": policy,
        "base_path": table.base,
        "suite": ROW_SUITE,
        "threshold_ms": T,
        "now_ms": T + 60_000,
        "complete_until_ms": T,
        "pinned_instant": table.last_completed,
        "seen_until": table.last_completed,
        "late_commits": frozenset(),
        "open_groups": frozenset(),
        "partition_fields": ("p",),
        "base_files": table.base_files(),
        "event_time_type": "long",
        "last_commit_ms": T + 60_000,
    }
    return DataCheck(**{**request, **changes})


def check(table, **changes):
    late, results = GxVerifier(table.spark).check(request_for(table, **changes))
    return late, {result.expectation: result for result in results}


def alike(table, column="ts"):
    """What the table's own listing says of it: files that both views read alike, latest base files, open file groups."""
    state = FileTableReader().read(table.base, EventTime(column=column))
    same = same_files(state, state.last_completed)
    return {
        "same_files": same,
        "other_partitions": other_partitions(state, same),
        "base_files": frozenset(one.base_file for one in state.slices if one.base_file),
        "open_groups": frozenset((one.partition, one.file_id) for one in state.slices if one.log_files),
    }
