import pytest

from etc_policy.policy.manifest import (
    EventTime,
    Freshness,
    Manifest,
    Policy,
    Sample,
    Strategy,
    Verify,
    Writer,
    changed_values,
    policy_values,
)
from etc_policy.policy.quantities import duration_text, parse_duration_ms, parse_size_bytes, size_text

POLICY = Policy(
    name="orders_ro",
    description="d",
    table="/lake/orders",
    event_time=EventTime(column="ts", unit="ms"),
    data_latency_ms=90 * 60_000,
    log_file_max_bytes=16 * 1024 * 1024,
    freshness=Freshness(target_ms=7_200_500),
    writer=Writer(lock={"hoodie.write.lock.provider": "p"}),
    tags=("a",),
)
CHANGES = {
    "table": "/lake/other",
    "event_time": EventTime(column="ts"),
    "data_latency_ms": 1,
    "log_file_max_bytes": 1,
    "strategy": Strategy(granularity="log_file"),
    "freshness": Freshness(),
    "verify": Verify(level="metadata"),
    "writer": Writer(),
    "hudi_options": {"hoodie.a": "b", "hoodie.skew_ms": "149"},
}


def test_keys_and_values_are_those_of_a_policy_file():
    assert policy_values(POLICY) == {
        "data_latency": "1h30m",
        "event_time_column.column": "ts",
        "event_time_column.trust_commit_metadata": "true",
        "event_time_column.unit": "ms",
        "freshness.target": "2h500ms",
        "log_file_max_size": "16 MiB",
        "name": "orders_ro",
        "strategy.granularity": "file_slice",
        "strategy.type": "event_time",
        "table": "/lake/orders",
        "verify.level": "data",
        "verify.suite": "ro_complete",
        "writer.compaction": "none",
        "writer.keys": "unique",
        "writer.lock.hoodie.write.lock.provider": "p",
    }


def test_repeated_keys_are_another_promise():
    repeated = POLICY.model_copy(update={"writer": POLICY.writer.model_copy(update={"keys": "repeated"})})
    shown = changed_values(policy_values(POLICY), policy_values(repeated))
    assert shown == ("writer.keys: unique -> repeated",)
    assert repeated.fingerprint != POLICY.fingerprint


@pytest.mark.parametrize("key", CHANGES)
def test_what_changes_the_fingerprint_changes_a_value(key):
    other = POLICY.model_copy(update={key: CHANGES[key]})
    assert other.fingerprint != POLICY.fingerprint
    assert changed_values(policy_values(POLICY), policy_values(other))


@pytest.mark.parametrize(
    ("key", "value"), [("description", "e"), ("tags", ()), ("source", "f:1:1"), ("enabled", False)]
)
def test_what_does_not_change_the_fingerprint_changes_no_value(key, value):
    other = POLICY.model_copy(update={key: value})
    assert (other.fingerprint, policy_values(other)) == (POLICY.fingerprint, policy_values(POLICY))


def test_what_is_zero_or_false_is_set():
    """And a key that nobody sets leaves the fingerprint as it is."""
    verify = [Verify(level="sample", sample=Sample(seed=seed)) for seed in (None, 0)]
    seeds = {POLICY.model_copy(update={"verify": one}).fingerprint for one in verify}
    trusted = POLICY.model_copy(update={"event_time": EventTime(column="ts", unit="ms", trust_commit_metadata=False)})
    assert len(seeds | {POLICY.fingerprint, trusted.fingerprint}) == 4
    assert policy_values(trusted)["event_time_column.trust_commit_metadata"] == "false"
    assert POLICY.deciding_values()["freshness"] == {"target_ms": 7_200_500}


def test_changes_in_words():
    before, after = {"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "4", "d": "5"}
    assert changed_values(before, after) == ("b: 2 -> 4", "c: 3 -> not set", "d: not set -> 5")


@pytest.mark.parametrize("milliseconds", [0, 1, 999, 1000, 61_000, 86_400_000, 604_800_000, 123_456_789_012])
def test_durations_are_exact(milliseconds):
    assert parse_duration_ms(duration_text(milliseconds)) == milliseconds


@pytest.mark.parametrize(("size", "text"), [(1, "1 B"), (1024, "1 KiB"), (128_000_000, "128 MB"), (1_500, "1500 B")])
def test_sizes_are_exact(size, text):
    assert size_text(size) == text
    assert parse_size_bytes(text) == size


def test_a_manifest_tells_fingerprints_and_believes_none():
    text = Manifest(policies=(POLICY,)).model_dump_json()
    assert f'"fingerprint":"{POLICY.fingerprint}"' in text
    forged = Manifest.model_validate_json(text.replace(POLICY.fingerprint, "0" * 16))
    assert forged.policies[0].fingerprint == POLICY.fingerprint
