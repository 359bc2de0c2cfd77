import json

import pytest

from etc_policy.errors import PolicyError
from etc_policy.policy.manifest import Manifest
from etc_policy.policy.reading import read_project
from etc_policy.policy.resolve import check_project, compile_project

SUITES = ("ro_complete",)
SHORTEST = """
version: 1
policies:
  - {name: short, table: lake/short, event_time_column: ts, data_latency: 30m}
"""
LONGEST = """
version: 1
policies:
  - name: long
    description: All keys.
    table: s3a://bucket/long
    event_time_column: {column: placed_at, format: "yyyy-MM-dd'T'HH:mm", trust_commit_metadata: false, max_ahead: 2d}
    data_latency: PT1H
    partition_time: {from: "dt=%Y-%m-%d", length: 2d, grace: 6h, zone: Asia/Tokyo}
    done: {rows: until_end, proof: logs, since: dt=2026-01-01, success_file: _SUCCESS, on_late: report,
      partition_property: lake.o_ro, command: [./tell.sh, now], timeout: 5s,
      http: {url: "https://example.com/etc", secret_headers: {Authorization: TOKEN}}}
    log_file_max_size: 128 MiB
    strategy: {type: event_time, granularity: log_file, partitions: ["eu*", "2026-01..2026-02"], max_io: 1 GiB, every: 15m,
      on_close: true, carry: copy}
    freshness: {target: 2h, warn_after: 3h, error_after: 4h, proof: logs}
    verify: {suite: ro_complete, level: sample, sample: {share: 0.25, seed: 7}, window: 7d, where: "region = 'eu'"}
    writer: {index: bucket, lock: {hoodie.write.lock.num_retries: 3}, lock_wait: 5m, hold: 2m, heartbeat_expiry: 10m,
      compaction: async, keys: repeated, merges_tested_with: [1.2.0-x]}
    hudi_options: {hoodie.memory.merge.max.size: 1073741824, hoodie.memory.spillable: true, hoodie.x: "1.50"}
    sync: {ro_table: lake.long_ro}
    tags: [a, b]
    enabled: false
"""


@pytest.fixture
def read(tmp_path):
    def _read(*texts):
        (tmp_path / "policies").mkdir(exist_ok=True)
        for number, text in enumerate(texts):
            (tmp_path / "policies" / f"{number}.yml").write_text(text)
        return read_project(str(tmp_path), {})

    return _read


STRATEGY = {
    "type": "event_time",
    "granularity": "file_slice",
    "partitions": (),
    "max_io_bytes": None,
    "every_ms": None,
    "at": None,
    "keep": None,
    "on_close": False,
    "carry": None,
    "target_io_bytes": None,
    "min_log_bytes": None,
    "min_log_files": None,
    "latest_partitions": None,
    "regex": None,
}


def test_defaults_are_filled_in(read):
    files = read(SHORTEST)
    (policy,) = compile_project(files, SUITES).policies
    assert policy.model_dump(exclude={"table", "fingerprint"}) == {
        "name": "short",
        "description": "",
        "event_time": {
            "column": "ts",
            "unit": None,
            "format": None,
            "trust_commit_metadata": True,
            "max_ahead_ms": None,
        },
        "data_latency_ms": 1_800_000,
        "partition_time": None,
        "partition_idle_ms": None,
        "done": None,
        "log_file_max_bytes": None,
        "extends": None,
        "strategy": STRATEGY,
        "freshness": {"target_ms": None, "warn_after_ms": None, "error_after_ms": None, "proof": None},
        "verify": {
            "suite": "ro_complete",
            "level": "data",
            "sample": None,
            "window_ms": None,
            "where": None,
            "full": False,
            "full_every_ms": 7 * 86_400_000,
        },
        "writer": {
            "index": None,
            "lock": {},
            "lock_wait_ms": 60000,
            "hold_ms": 30000,
            "heartbeat_expiry_ms": 180_000,
            "compaction": "none",
            "keys": "unique",
            "merges_tested_with": (),
        },
        "hudi_options": {},
        "sync": {"ro_table": None, "as_of_view": None},
        "tags": (),
        "enabled": True,
        "source": "policies/0.yml:4:12",
        "suite_digest": None,
        "found_by": None,
        "latency_evidence": None,
        "learned_latency": None,
    }
    assert policy.table == f"{files.project_dir}/lake/short"


def test_every_key_reaches_the_manifest(read):
    (policy,) = compile_project(read(LONGEST), SUITES).policies
    assert policy.model_dump(exclude={"fingerprint"}) == {
        "name": "long",
        "description": "All keys.",
        "table": "s3a://bucket/long",
        "event_time": {
            "column": "placed_at",
            "unit": None,
            "format": "yyyy-MM-dd'T'HH:mm",
            "trust_commit_metadata": False,
            "max_ahead_ms": 172_800_000,
        },
        "data_latency_ms": 3_600_000,
        "partition_time": {
            "pattern": "dt=%Y-%m-%d",
            "length_ms": 172_800_000,
            "grace_ms": 21_600_000,
            "zone": "Asia/Tokyo",
        },
        "partition_idle_ms": None,
        "done": {
            "rows": "until_end",
            "proof": "logs",
            "since": "dt=2026-01-01",
            "success_file": "_SUCCESS",
            "on_late": "report",
            "command": ("./tell.sh", "now"),
            "partition_property": "lake.o_ro",
            "http": {"url": "https://example.com/etc", "secret_headers": {"Authorization": "TOKEN"}},
            "timeout_ms": 5_000,
        },
        "log_file_max_bytes": 134_217_728,
        "extends": None,
        "strategy": {
            **STRATEGY,
            "granularity": "log_file",
            "partitions": ("eu*", "2026-01..2026-02"),
            "max_io_bytes": 2**30,
            "every_ms": 900_000,
            "on_close": True,
            "carry": "copy",
        },
        "freshness": {
            "target_ms": 7_200_000,
            "warn_after_ms": 10_800_000,
            "error_after_ms": 14_400_000,
            "proof": "logs",
        },
        "verify": {
            "suite": "ro_complete",
            "level": "sample",
            "sample": {"share": 0.25, "seed": 7},
            "window_ms": 7 * 86_400_000,
            "where": "region = 'eu'",
            "full": False,
            "full_every_ms": 7 * 86_400_000,
        },
        "writer": {
            "index": "bucket",
            "lock": {"hoodie.write.lock.num_retries": "3"},
            "lock_wait_ms": 300_000,
            "hold_ms": 120_000,
            "heartbeat_expiry_ms": 600_000,
            "compaction": "async",
            "keys": "repeated",
            "merges_tested_with": ("1.2.0-x",),
        },
        "hudi_options": {
            "hoodie.memory.merge.max.size": "1073741824",
            "hoodie.memory.spillable": "true",
            "hoodie.x": "1.50",
        },
        "sync": {"ro_table": "lake.long_ro", "as_of_view": None},
        "tags": ("a", "b"),
        "enabled": False,
        "source": "policies/0.yml:4:11",
        "suite_digest": None,
        "found_by": None,
        "latency_evidence": None,
        "learned_latency": None,
    }


def test_policies_are_sorted_and_the_manifest_reads_back(read):
    manifest = compile_project(read(SHORTEST, LONGEST), SUITES)
    assert [policy.name for policy in manifest.policies] == ["long", "short"]
    assert Manifest.model_validate(json.loads(manifest.model_dump_json())) == manifest


def test_where_a_policy_stands_does_not_change_its_fingerprint(read):
    (before,) = compile_project(read(SHORTEST), SUITES).policies
    (after,) = compile_project(read("# moved\n" + SHORTEST), SUITES).policies
    assert before.source != after.source
    assert before.fingerprint == after.fingerprint


def test_issues_of_all_files_come_together_in_the_order_of_their_places(read):
    same = SHORTEST.replace("30m", "30m, freshness: {target: 1m}")
    with pytest.raises(PolicyError) as error:
        compile_project(read(SHORTEST, same, SHORTEST.replace("30m", "30")), SUITES)
    places = [(issue.where.path.rsplit("/", 1)[1], str(issue.code)) for issue in error.value.issues]
    assert places == [("1.yml", "ETC130"), ("1.yml", "ETC131"), ("1.yml", "ETC133"), ("2.yml", "ETC116")]


def test_a_disabled_policy_leaves_its_table_to_another(read):
    other = SHORTEST.replace("name: short", "name: other")
    assert [str(issue.code) for issue in check_project(read(SHORTEST, other), SUITES)] == ["ETC131"]
    off = other.replace("30m", "30m, enabled: false")
    assert check_project(read(SHORTEST, off), SUITES) == ()


def test_warnings_do_not_fail(read):
    files = read(SHORTEST.replace("30m", "30m, freshness: {target: 30m}"))
    assert [issue.level for issue in check_project(files, SUITES)] == ["warning"]
    assert len(compile_project(files, SUITES).policies) == 1


@pytest.mark.parametrize(
    ("proof", "verify", "codes"),
    [
        ("logs", "{level: logs}", []),
        ("logs", "{level: sample}", []),
        ("logs", "{level: metadata}", ["ETC471"]),
        ("data", "{level: data}", []),
        ("data", "{level: sample}", ["ETC471"]),
        ("data", "{level: data, window: 7d}", ["ETC471"]),
    ],
)
def test_a_proof_that_no_run_makes_is_a_warning(read, proof, verify, codes):
    files = read(SHORTEST.replace("30m", f"30m, freshness: {{proof: {proof}}}, verify: {verify}"))
    assert [str(issue.code) for issue in check_project(files, SUITES)] == codes


@pytest.mark.parametrize(
    ("key", "reserved"),
    [
        ("hoodie.record.merge.mode", True),
        ("hoodie.write.record.merge.mode", True),
        ("hoodie.write.record.merge.strategy.id", True),
        ("hoodie.datasource.write.record.merger.strategy", True),
        ("hoodie.compaction.record.merger.strategy", True),
        ("hoodie.datasource.write.payload.class", True),
        ("hoodie.compaction.payload.class", True),
        ("hoodie.datasource.write.precombine.field", True),
        ("hoodie.table.ordering.fields", True),
        ("hoodie.write.record.merge.custom.implementation.classes", False),
        ("hoodie.datasource.write.record.merger.impls", False),
        ("hoodie.memory.merge.max.size", False),
    ],
)
def test_how_rows_merge_is_decided_by_the_table(read, key, reserved):
    """The table does not name the classes of a merger of one's own."""
    issues = check_project(read(SHORTEST.replace("30m", f"30m, hudi_options: {{{key}: x}}")), SUITES)
    assert [str(issue.code) for issue in issues] == (["ETC137"] if reserved else [])


@pytest.mark.parametrize(
    ("key", "reserved"),
    [
        ("hoodie.metadata.streaming.write.enabled", False),
        ("hoodie.metadata.table.service.manager.enabled", False),
        ("hoodie.metadata.table.service.manager.actions", False),
        ("hoodie.metadata.write.concurrency.mode", True),
        ("hoodie.metadata.enable", True),
    ],
)
def test_how_writers_use_the_metadata_table_may_be_said_where_the_table_does_not(read, key, reserved):
    issues = check_project(read(SHORTEST.replace("30m", f"30m, hudi_options: {{{key}: x}}")), SUITES)
    assert [str(issue.code) for issue in issues] == (["ETC137"] if reserved else [])


@pytest.mark.parametrize(("pattern", "right"), [
    ("yyyy-MM-dd HH:mm:ss", True),
    ("yyyyMMdd", True),
    ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", True),
    ("'day' yy", True),
    ("HH:mm", False),
    ("%Y", False),
    ("YYYY", False),
    ("yyyy-ww", False),
    ("yyyy", True),
    ("yyyy-MM", True),
    ("yyyyDDD HH", True),
    ("dd/MM/yyyy hh:mm a", True),
    ("d MMM yyyy K a", True),
    ("yyyy-MM-dd kk:mm", True),
    ("[yyyy-MM-dd][dd.MM.yyyy]", True),
    ("yyyy-MM-dd[ HH:mm[:ss[.SSS]]]", True),
    ("yyyy-mm-dd", False),
    ("yyyy-MM-dd HH:MM:ss", False),
    ("yyyy-MM-dd HH:MM", False),
    ("yyyy-MM-dd hh:mm:ss", False),
    ("yyyy-MM-dd KK:mm", False),
    ("HH:mm yyyy", False),
    ("yyyy-dd", False),
    ("yyyy-MM HH:mm", False),
    ("yyyy-MM-DD", False),
    ("yyyy-MM-dd mm:ss", False),
    ("yyyy-MM-dd HH:ss", False),
    ("yyyy-MM-dd 'a' hh:mm", False),
])  # fmt: skip
def test_patterns(read, pattern, right):
    column = f'{{column: ts, format: "{pattern}"}}'
    issues = check_project(read(SHORTEST.replace("column: ts", f"column: {column}")), SUITES)
    assert ([str(issue.code) for issue in issues] == []) is right
