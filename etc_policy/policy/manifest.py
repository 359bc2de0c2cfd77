"""The manifest: every policy with its defaults filled in, ready to plan with, and its values in words where one changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, computed_field, model_validator
from pydantic_core import PydanticSerializationError

from etc_policy import __version__
from etc_policy.errors import Where
from etc_policy.policy.bounded_json import load_json, may_have_long_numbers, require_modest
from etc_policy.policy.hudi_options import STOCK, stock_options
from etc_policy.policy.quantities import duration_text, size_text
from etc_policy.policy.schema import (
    Done,
    EventTime,
    Freshness,
    PolicyDeclaration,
    Sample,
    Strategy,
    Sync,
    Verify,
    Writer,
)
from etc_policy.policy.schema_values import Granularity, RowsWhenDone, VerifyLevel

__all__ = [
    "EventTime",
    "Freshness",
    "Frozen",
    "GitState",
    "Granularity",
    "Level",
    "Manifest",
    "Policy",
    "RowsWhenDone",
    "Sample",
    "Strategy",
    "Sync",
    "Verify",
    "VerifyLevel",
    "Writer",
    "digest",
]  # fmt: skip

MANIFEST_SCHEMA_VERSION = 1

OTHER_GRANULARITY: dict[Granularity, Granularity] = {
    "log_file": "file_slice",
    "file_slice": "log_file",
    "record": "file_slice",
}


class Level(IntEnum):
    """The levels of verifications and proofs, the weakest first; `Level[name]` is that of a name in a file."""

    metadata = 0
    logs = 1
    sample = 2
    data = 3

    @property
    def reads_rows(self) -> bool:
        """Whether it needs rows, and so Spark."""
        return self >= Level.sample


#: Keys of a policy that decide nothing, so that they are not part of its fingerprint.
NOT_IN_FINGERPRINT = frozenset(
    {
        "source",
        "found_by",
        "latency_evidence",
        "description",
        "tags",
        "enabled",
        "sync",
        "extends",
        "fingerprint",
        "partition_idle_ms",
    }
)
#: The same of parts of a policy: what is done by `on_close` depends on `done.rows`.
_NOT_IN_FINGERPRINT_OF = {
    "writer": {"lock_wait_ms", "hold_ms", "heartbeat_expiry_ms"},
    "done": set(Done.model_fields) - {"rows"},
    "verify": {"full_every_ms"},
}


_MOST = 1 << 62


def _counted(value: int) -> int:
    return min(max(value, -_MOST), _MOST)


#: A number in a record beside a table, which whoever writes the table may forge: no text, and small enough to count on from it.
Whole = Annotated[int, Field(strict=True), AfterValidator(_counted)]


class Frozen(BaseModel):
    """Base of the wire models: immutable, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def as_json(self, indent: int | None = None, *, exclude_defaults: bool = False) -> str:
        """The model as JSON. A file's name that is not UTF-8 is in it as Python and JSON escape it."""
        try:
            return self.model_dump_json(indent=indent, exclude_defaults=exclude_defaults)
        except PydanticSerializationError:
            return json.dumps(self.model_dump(exclude_defaults=exclude_defaults), indent=indent)

    @classmethod
    def of_json(cls, text: bytes) -> Self:
        """The model that `as_json` wrote.

        Raises:
            ValueError: it is none.

        """
        require_modest(text)
        if b"\\ud" not in text and not may_have_long_numbers(text):
            return cls.model_validate_json(text)
        try:
            return cls.model_validate(load_json(text))
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error


class LatencyEvidence(Frozen):
    """What a learned `data_latency` rests on: the latest rows of so many writes since `since_ms` came in within `observed_ms`.

    Of `read_writes` the event times were read from log files. Without writes there was nothing to learn from. `promised_ms` is
    the threshold of the table's last compaction by etc, from which T does not go back.
    """

    writes: int = 0
    read_writes: int = 0
    since_ms: int | None = None
    observed_ms: int | None = None
    promised_ms: int | None = None


class Policy(PolicyDeclaration):
    """A policy, resolved: its table's path is absolute, it has the target's lock where it has none, and its granularity is that
    of its strategy.
    """

    #: `file:line:column` of the policy's name.
    source: str | None = None
    #: Tells the contents of a suite of the project's own apart; shipped suites have none.
    suite_digest: str | None = None
    #: The namespace that found its table; None where the policy names the table itself.
    found_by: str | None = None
    #: What its `data_latency` was learned from; None where it is not learned, or not yet.
    latency_evidence: LatencyEvidence | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def fingerprint(self) -> str:
        """Hash of everything that decides what is done; texts, tags and places do not count."""
        return digest(self.deciding_values())

    @property
    def place(self) -> Where | None:
        """Where the policy is in its file."""
        if self.source is None:
            return None
        path, line, column = self.source.rsplit(":", 2)
        return Where(path, int(line), int(column), self.name)

    @property
    def is_stock(self) -> bool:
        """Whether it is carried out by a strategy of Hudi's own."""
        return self.strategy.type in STOCK

    @property
    def stock_options(self) -> dict[str, str]:
        """What a strategy of Hudi's own becomes, and what it is carried out from; empty for `event_time`."""
        return stock_options(self.strategy)

    @property
    def rows_when_done(self) -> RowsWhenDone:
        """Which rows of a partition RO holds when it is done: all, or those with an event before its end."""
        return "all" if self.done is None or self.done.rows is None else self.done.rows

    def at(self, now_ms: int) -> Policy:
        """The policy as of a time: where `data_latency` is learned, no longer than since the threshold that was published."""
        promised_ms = self.latency_evidence.promised_ms if self.latency_evidence else None
        if promised_ms is None or not 0 <= now_ms - promised_ms < self.data_latency_ms:
            return self
        return self.model_copy(update={"data_latency_ms": now_ms - promised_ms})

    def arrives_ms(self, until_ms: int) -> int:
        """From when on all up to a time has arrived; of what was published that does not go back (`at`)."""
        promised_ms = self.latency_evidence.promised_ms if self.latency_evidence else None
        is_promised = promised_ms is not None and until_ms <= promised_ms
        return until_ms if is_promised else until_ms + self.data_latency_ms

    def latest_ms(self, now_ms: int) -> int:
        """T where nothing is left out: up to where all has arrived by now, or the last boundary of `strategy.at` before that."""
        arrived_ms, boundaries = now_ms - self.data_latency_ms, self.strategy.boundaries
        return arrived_ms if boundaries is None else boundaries.last_ms(arrived_ms)

    @property
    def kept_ms(self) -> int | None:
        """How long a base file stays after a later one took its place: as long as one of `strategy.keep` cuts reads it."""
        strategy = self.strategy
        if strategy.boundaries is None or strategy.keep is None:
            return None
        cuts = strategy.keep + 1  # until the next one has taken the place of the oldest
        return cuts * strategy.boundaries.longest_ms

    def deciding_values(self) -> dict[str, Any]:
        """What the fingerprint covers, without what is not set: a new key leaves the fingerprints of others as they are.

        A `data_latency` that is learned is no part of it.
        """
        values = self.model_dump(
            mode="json", exclude={**dict.fromkeys(NOT_IN_FINGERPRINT, True), **_NOT_IN_FINGERPRINT_OF}
        )
        if self.learned_latency is not None:
            del values["data_latency_ms"]
        return _as_set(self, values)

    @model_validator(mode="before")
    @classmethod
    def _without_fingerprint(cls, values: Any) -> Any:  # noqa: ANN401 - whatever is validated
        """A manifest that is read back: the fingerprint is computed again, not believed."""
        return (
            {key: value for key, value in values.items() if key != "fingerprint"}
            if isinstance(values, dict)
            else values
        )


def _as_set(model: BaseModel, values: dict[str, Any]) -> dict[str, Any]:
    """The values of a model without those that are nothing, as they are where nobody sets them."""
    kept = {}
    for name, value in values.items():
        part = getattr(model, name)
        if isinstance(part, BaseModel):
            kept[name] = _as_set(part, value)
        elif not _is_nothing(value) or type(model).model_fields[name].default:
            kept[name] = value
    return {name: value for name, value in kept.items() if value != {}}


def _is_nothing(value: object) -> bool:
    return value is None or value is False or (isinstance(value, list | dict) and not value)


class GitState(Frozen):
    """The project's commit, and whether its files differ from that commit."""

    sha: str
    dirty: bool


class Manifest(Frozen):
    """All policies of a project, sorted by name; `git` is None outside git.

    `project` and `target` are names; `table_root` is what relative paths of tables start from; `vars` are those that were
    given beside the files (`--vars`). Of each of the `namespaces` it has a hash of what the policies of its tables have in
    common; the policies themselves are there where the tables were looked up.
    """

    schema_version: int = MANIFEST_SCHEMA_VERSION
    etc_version: str = __version__
    git: GitState | None = None
    project: str | None = None
    target: str | None = None
    table_root: str | None = None
    vars: dict[str, Any] = Field(default_factory=dict)
    namespaces: dict[str, str] = Field(default_factory=dict)
    policies: tuple[Policy, ...]


def digest(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """First 16 hex digits of the SHA-256 of a JSON value's canonical text."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


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
