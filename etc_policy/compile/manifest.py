"""The manifest: every policy with its defaults filled in, in plain units, ready to plan with."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, computed_field, model_validator
from pydantic_core import PydanticSerializationError

from etc_policy import __version__
from etc_policy.declare.schema_values import StrategyType
from etc_policy.errors import Where

MANIFEST_SCHEMA_VERSION = 1

EventTimeUnit = Literal["s", "ms", "us"]
Granularity = Literal["log_file", "file_slice"]
OTHER_GRANULARITY: dict[Granularity, Granularity] = {"log_file": "file_slice", "file_slice": "log_file"}
#: How a log file that stays gets its name in the slice that a compaction begins (table version 6).
Carry = Literal["auto", "hard_link", "copy"]
#: The weakest first.
VerifyLevel = Literal["metadata", "logs", "sample", "data"]
#: Those that need no rows, and so no Spark.
LEVELS_WITHOUT_ROWS: tuple[VerifyLevel, ...] = ("metadata", "logs")

#: Keys of a policy that decide nothing, so that they are not part of its fingerprint.
NOT_IN_FINGERPRINT = frozenset({"source", "description", "tags", "enabled", "sync", "fingerprint"})
#: Keys that came later, each by its part: a policy that does not use them keeps the fingerprint that it had before.
_LATER_KEYS = (
    ("", "partitions"),
    ("", "max_io_bytes"),
    ("", "every_ms"),
    ("", "carry"),
    ("", "stock_options"),
    ("freshness", "proof"),
    ("verify", "full"),
    ("verify", "suite_digest"),
    ("writer", "merges_tested_with"),
)


class Frozen(BaseModel):
    """Base of the wire models: immutable, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def as_json(self, indent: int | None = None) -> str:
        """The model as JSON. A file's name that is not UTF-8 is in it as Python and JSON escape it."""
        try:
            return self.model_dump_json(indent=indent)
        except PydanticSerializationError:
            return json.dumps(self.model_dump(), indent=indent)


class EventTime(Frozen):
    """The column that carries event time; `unit` for integers, `format` (Spark pattern) for strings.

    `trust_commit_metadata` is false where the writer records event times that cannot be trusted.
    """

    column: str
    unit: EventTimeUnit | None = None
    format: str | None = None
    trust_commit_metadata: bool = True


class Freshness(Frozen):
    """How far RO completeness may lag behind now, in milliseconds; with `proof` only what such a proof reaches counts."""

    target_ms: int | None = None
    warn_after_ms: int | None = None
    error_after_ms: int | None = None
    proof: Literal["logs", "data"] | None = None


class Sample(Frozen):
    """Which share of the file groups is read, and the seed that chooses them.

    Without a seed the moment of the check chooses, so that runs choose differently.
    """

    share: float = 0.1
    seed: int | None = None


class Verify(Frozen):
    """Which suite proves the table, from what, and over how much of it.

    `sample` says which file groups level `sample` reads, `window_ms` how long before the threshold event times are looked
    at, `where` is a condition of Spark SQL on partition columns. With `full` level `data` compares all rows by their values,
    also where both views read the same file. `suite_digest` tells the contents of a suite of the project's own apart; shipped
    suites have none.
    """

    suite: str = "ro_complete"
    level: VerifyLevel = "data"
    sample: Sample | None = None
    window_ms: int | None = None
    where: str | None = None
    full: bool = False
    suite_digest: str | None = None


class Writer(Frozen):
    """Facts about the table's writers that the table itself does not record."""

    index: str | None = None
    lock: dict[str, str] = Field(default_factory=dict)
    lock_wait_ms: int = 60_000
    compaction: Literal["none", "inline", "async"] = "none"
    merges_tested_with: tuple[str, ...] = ()


class Sync(Frozen):
    """The table `db.table` of the catalog whose properties say how far RO is complete; None for no sync."""

    ro_table: str | None = None


class Policy(Frozen):
    """One policy, resolved: what is promised for one table.

    `source` is `file:line:column` of the policy's name and is not part of the fingerprint. `stock_options` are what a strategy
    of Hudi's own becomes, and what it is carried out from; empty for `event_time`.
    """

    name: str
    description: str = ""
    table: str
    event_time: EventTime
    data_latency_ms: int
    log_file_max_bytes: int | None = None
    strategy: StrategyType = "event_time"
    granularity: Granularity = "log_file"
    partitions: tuple[str, ...] = ()
    max_io_bytes: int | None = None
    every_ms: int | None = None
    carry: Carry | None = None
    stock_options: dict[str, str] = Field(default_factory=dict)
    freshness: Freshness = Freshness()
    verify: Verify = Verify()
    writer: Writer = Writer()
    hudi_options: dict[str, str] = Field(default_factory=dict)
    sync: Sync = Sync()
    tags: tuple[str, ...] = ()
    enabled: bool = True
    source: str | None = None

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

    def deciding_values(self) -> dict[str, Any]:
        """What the fingerprint covers, by the manifest's keys."""
        values = self.model_dump(
            mode="json", exclude={**dict.fromkeys(NOT_IN_FINGERPRINT, True), "writer": {"lock_wait_ms"}}
        )
        for part, key in _LATER_KEYS:
            of_part = values[part] if part else values
            if not of_part[key]:
                del of_part[key]
        return values

    @model_validator(mode="before")
    @classmethod
    def _without_fingerprint(cls, values: Any) -> Any:  # noqa: ANN401 - whatever is validated
        """A manifest that is read back: the fingerprint is computed again, not believed."""
        return (
            {key: value for key, value in values.items() if key != "fingerprint"}
            if isinstance(values, dict)
            else values
        )


class GitState(Frozen):
    """The project's commit, and whether its files differ from that commit."""

    sha: str
    dirty: bool


class Manifest(Frozen):
    """All policies of a project, sorted by name; `git` is None outside git.

    `project` and `target` are names; `table_root` is what relative paths of tables start from; `vars` are those that were
    given beside the files (`--vars`).
    """

    schema_version: int = MANIFEST_SCHEMA_VERSION
    etc_version: str = __version__
    git: GitState | None = None
    project: str | None = None
    target: str | None = None
    table_root: str | None = None
    vars: dict[str, Any] = Field(default_factory=dict)
    policies: tuple[Policy, ...]


def digest(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """First 16 hex digits of the SHA-256 of a JSON value's canonical text."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
