"""A policy's values as a policy file writes them, key by key: the form in which a change of a policy is shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from etc_policy.compile.manifest import EventTime, Policy
from etc_policy.declare.quantities import duration_text, size_text

#: The manifest's key -> the policy file's.
_KEYS = {
    "event_time": "event_time_column",
    "strategy": "strategy.type",
    "granularity": "strategy.granularity",
    "partitions": "strategy.partitions",
    "max_io_bytes": "strategy.max_io_bytes",
    "every_ms": "strategy.every_ms",
    "carry": "strategy.carry",
    "stock_options": "strategy.options",
    "log_file_max_bytes": "log_file_max_size_bytes",
}


def policy_values(policy: Policy) -> dict[str, str]:
    """Every value that the fingerprint covers, by its dotted key (`freshness.target`: `6h`); what is not set is left out."""
    values = policy.deciding_values()
    return dict(sorted(_flat({_KEYS.get(key, key): value for key, value in values.items()}, "")))


def event_time_values(event_time: EventTime) -> dict[str, str]:
    """Those of them that say how event times are read."""
    return dict(_flat({_KEYS["event_time"]: event_time.model_dump(mode="json")}, ""))


def changed_values(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """One `key: old -> new` for each key that differs, sorted; `not set` is shown for a key that is missing."""
    keys = sorted(before.keys() | after.keys())
    pairs = ((key, before.get(key, "not set"), after.get(key, "not set")) for key in keys)
    return tuple(f"{key}: {old} -> {new}" for key, old, new in pairs if old != new)


def _flat(value: Any, key: str) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - any JSON value
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _flat(item, f"{key}.{name}" if key else name)
    elif isinstance(value, list):
        yield key, ", ".join(str(item) for item in value)
    elif key.endswith("_ms") and isinstance(value, int):
        yield key.removesuffix("_ms"), duration_text(value)
    elif key.endswith("_bytes") and isinstance(value, int):
        yield key.removesuffix("_bytes"), size_text(value)
    elif value is not None:
        yield key, str(value).lower() if isinstance(value, bool) else str(value)
