"""A policy's values as a policy file writes them, key by key: the form in which a change of a policy is shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from etc_policy.policy.manifest import EventTime, Policy
from etc_policy.policy.quantities import duration_text, size_text


def policy_values(policy: Policy) -> dict[str, str]:
    """Every value that the fingerprint covers, by its dotted key (`freshness.target`: `6h`); what is not set is left out."""
    return dict(sorted(_flat(policy, policy.deciding_values(), "")))


def event_time_values(event_time: EventTime) -> dict[str, str]:
    """Those of them that say how event times are read."""
    return dict(_flat(event_time, event_time.model_dump(mode="json"), "event_time_column."))


def changed_values(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """One `key: old -> new` for each key that differs, sorted; `not set` is shown for a key that is missing."""
    keys = sorted(before.keys() | after.keys())
    pairs = ((key, before.get(key, "not set"), after.get(key, "not set")) for key in keys)
    return tuple(f"{key}: {old} -> {new}" for key, old, new in pairs if old != new)


def _flat(model: BaseModel, values: Mapping[str, Any], before: str) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        key = f"{before}{type(model).model_fields[name].alias or name}"
        if isinstance(part := getattr(model, name), BaseModel):
            yield from _flat(part, value, f"{key}.")
        elif isinstance(value, Mapping):
            yield from ((f"{key}.{option}", str(item)) for option, item in value.items())
        elif value is not None:
            yield key, _text(name, value)


def _text(name: str, value: Any) -> str:  # noqa: ANN401 - any JSON value
    if isinstance(value, list):
        return ", ".join(str(item) for item in value)
    if name.endswith("_ms"):
        return duration_text(value)
    if name.endswith("_bytes"):
        return size_text(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
