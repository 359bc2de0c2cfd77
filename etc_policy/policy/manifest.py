"""The manifest: every policy with its defaults filled in, in plain units, ready to plan with."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, computed_field, model_validator
from pydantic_core import PydanticSerializationError

from etc_policy import __version__
from etc_policy.errors import Where
from etc_policy.policy.schema import EventTime, Freshness, PolicyDeclaration, Sample, Sync, Verify, Writer
from etc_policy.policy.schema_strategy import Strategy
from etc_policy.policy.stock_options import STOCK, stock_options

__all__ = [
    "EventTime", "Freshness", "Frozen", "GitState", "Manifest", "Policy", "Sample", "Strategy", "Sync", "Verify", "Writer",
    "digest",
]  # fmt: skip

MANIFEST_SCHEMA_VERSION = 1

Granularity = Literal["log_file", "file_slice"]
OTHER_GRANULARITY: dict[Granularity, Granularity] = {"log_file": "file_slice", "file_slice": "log_file"}
#: How a log file that stays gets its name in the slice that a compaction begins (table version 6).
Carry = Literal["auto", "hard_link", "copy"]
#: The weakest first.
VerifyLevel = Literal["metadata", "logs", "sample", "data"]
#: Those that need no rows, and so no Spark.
LEVELS_WITHOUT_ROWS: tuple[VerifyLevel, ...] = ("metadata", "logs")

#: Keys of a policy that decide nothing, so that they are not part of its fingerprint.
NOT_IN_FINGERPRINT = frozenset({"source", "description", "tags", "enabled", "sync", "extends", "fingerprint"})


class Frozen(BaseModel):
    """Base of the wire models: immutable, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def as_json(self, indent: int | None = None) -> str:
        """The model as JSON. A file's name that is not UTF-8 is in it as Python and JSON escape it."""
        try:
            return self.model_dump_json(indent=indent)
        except PydanticSerializationError:
            return json.dumps(self.model_dump(), indent=indent)


class Policy(PolicyDeclaration):
    """A policy, resolved: its table's path is absolute, it has the target's lock where it has none, and its granularity is that
    of its strategy.
    """

    #: `file:line:column` of the policy's name.
    source: str | None = None
    #: Tells the contents of a suite of the project's own apart; shipped suites have none.
    suite_digest: str | None = None

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

    def deciding_values(self) -> dict[str, Any]:
        """What the fingerprint covers, without what is not set: a new key leaves the fingerprints of others as they are."""
        values = self.model_dump(
            mode="json", exclude={**dict.fromkeys(NOT_IN_FINGERPRINT, True), "writer": {"lock_wait_ms"}}
        )
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
        elif value not in (None, False, [], {}) or type(model).model_fields[name].default:
            kept[name] = value
    return {name: value for name, value in kept.items() if value != {}}


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
