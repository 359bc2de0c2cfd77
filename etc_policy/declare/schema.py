"""The YAML file as models: what may be written, with a description of each key.

Durations and sizes are validated into milliseconds and bytes; everything else keeps the form it was written in.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
)

from etc_policy.declare.schema_strategy import Strategy
from etc_policy.declare.schema_values import (
    Declared,
    DurationMs,
    FormatVersion,
    IntervalMs,
    Name,
    OptionValue,
    SizeBytes,
    Text,
    WriterIndex,
)


class EventTimeColumn(Declared):
    """The column that carries event time, with what is needed to read it as a time."""

    column: Text = Field(
        description="Name of the column that holds each row's event time; a dotted name leads into structs.",
        examples=["placed_at", "event.placed_at"],
    )
    unit: Literal["s", "ms", "us"] | None = Field(
        None,
        description="Unit of an integer column: seconds, milliseconds or microseconds since 1970 (UTC).",
        examples=["ms"],
    )
    format: Text | None = Field(
        None, description="Spark pattern of a text column, for example `yyyy-MM-dd HH:mm:ss`.", examples=["yyyy-MM-dd"]
    )
    trust_commit_metadata: bool = Field(
        True,
        description="`false` reads event times from the log files themselves, not from what the writer recorded in its "
        "commits: for columns with values that Hudi's tracking drops, such as 0 or times before 2001-09-09.",
        examples=[False],
    )


class FreshnessLimits(Declared):
    """How far the read-optimized view's completeness may lag behind now."""

    target: DurationMs | None = Field(
        None, description="The lag that is promised; at least `data_latency`.", examples=["1h"]
    )
    warn_after: DurationMs | None = Field(
        None,
        description="`etc freshness` warns beyond this lag; shorter than `target`, beyond which it warns anyway.",
        examples=["45m"],
    )
    error_after: DurationMs | None = Field(
        None, description="`etc freshness` fails (exit 1) beyond this lag; without it beyond `target`.", examples=["3h"]
    )
    proof: Literal["logs", "data"] | None = Field(
        None,
        description="Count only what a verification of this level, or of a stronger one, has proved since the last compaction; "
        "a table without such a proof is `unknown`.",
        examples=["logs"],
    )


class SampleChoice(Declared):
    """Which file groups level `sample` reads."""

    share: Annotated[StrictFloat | StrictInt, Field(gt=0, le=1)] = Field(
        0.1,
        description="Share of the file groups that is read, above 0 and at most 1; one group at least.",
        examples=[0.1],
    )
    seed: StrictInt | None = Field(
        None,
        description="The same seed chooses the same file groups; without one each run chooses others.",
        examples=[7],
    )


class VerifyChoice(Declared):
    """How a compaction is proved after it ran."""

    suite: Text = Field(
        "ro_complete",
        description="Name of a suite of expectations, a file `suites/<name>.yml`.",
        examples=["ro_complete", "orders"],
    )
    level: Literal["metadata", "logs", "sample", "data"] = Field(
        "data",
        description="`data` compares the rows of both views; `sample` those of some whole file groups; `logs` reads the event "
        "times of log files that are not compacted; `metadata` proves from the timeline alone.",
        examples=["metadata"],
    )
    sample: SampleChoice | None = Field(
        None,
        description="Which file groups level `sample` reads, a tenth by default.",
        examples=[{"share": 0.1, "seed": 7}],
    )
    window: IntervalMs | None = Field(
        None,
        description="Compare only rows whose event time is at most this long before the threshold.",
        examples=["7d"],
    )
    where: Text | None = Field(
        None,
        description="Compare only partitions for which this Spark SQL condition on partition columns holds.",
        examples=["region = 'eu'"],
    )
    full: StrictBool = Field(
        False,
        description="At level `data` compare all rows of both views by their values, also where both read the same file.",
        examples=[True],
    )


class SyncChoice(Declared):
    """Where the catalog records how far the read-optimized view is complete."""

    ro_table: Text | None = Field(
        None,
        description="The table `db.table` of the catalog that shows the read-optimized view, such as the `_ro` table that "
        "Hudi's hive sync makes; its properties `etc.event_time.*` are set by `etc apply` and `etc sync`.",
        examples=["lake.orders_ro"],
    )


class WriterFacts(Declared):
    """Facts about the table's writers that the table itself does not record."""

    index: WriterIndex | None = Field(
        None,
        description="Index by which the writers find keys. Where it finds them in log files too (`bucket`, `record_index`, "
        "`global_record_index`), deletes are compacted beside a write in flight; what is not declared does not.",
        examples=["bloom", "bucket"],
    )
    lock: dict[StrictStr, OptionValue] = Field(
        default_factory=dict,
        description="The writers' lock options (`hoodie.write.lock.*`), so that etc takes the same lock.",
        examples=[
            {
                "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider",
                "hoodie.write.lock.zookeeper.url": "zk1,zk2,zk3",
            }
        ],
    )
    lock_wait: DurationMs = Field(
        "60s", validate_default=True, description="How long to wait for a lock that a writer holds.", examples=["5m"]
    )
    compaction: Literal["none", "inline", "async"] = Field(
        "none", description="Compaction that the writers do on their own.", examples=["none"]
    )
    merges_tested_with: list[Text] = Field(
        default_factory=list,
        description="Releases of Hudi's bundle that you have found to merge this table's rows as its readers do, where "
        "nobody has played that: a payload of your own, or a bundle of a vendor.",
        examples=[["1.2.0"]],
    )


class PolicyDeclaration(Declared):
    """One policy: what is promised for one merge-on-read table."""

    #: An editor sees one file: there the rest may come from a template or a folder's defaults.
    model_config = ConfigDict(json_schema_extra={"required": ["name", "table"]})

    name: Name = Field(
        description="Name of the policy, unique in the project: lower-case letters, digits, `_` and `-`.",
        examples=["orders_ro"],
    )
    extends: Name | None = Field(
        None,
        description="Template that gives what is not set here: a file `templates/<name>.yml`.",
        examples=["hourly"],
    )
    description: StrictStr = Field(
        "",
        description="What the table is and who relies on it.",
        examples=["Orders by the time they were placed; the reports of the morning read them."],
    )
    table: Text = Field(
        description="Base path or URI of the table, or `db.table` of the Spark catalog.",
        examples=["lake/orders", "/mnt/lake/orders", "sales.orders"],
    )
    event_time_column: Annotated[
        EventTimeColumn, BeforeValidator(lambda value: _column(value), json_schema_input_type=str | EventTimeColumn)
    ] = Field(
        description="The event-time column: its name, or a mapping with `column`, `unit` and `format`. "
        "Required, here or by `extends` or a default.",
        examples=["placed_at", {"column": "placed_at", "unit": "ms"}],
    )
    data_latency: DurationMs = Field(
        description="How late events may arrive: whatever is older than now minus this is assumed to have arrived. "
        "Required, here or by `extends` or a default.",
        examples=["30m", "1h30m"],
    )
    log_file_max_size: SizeBytes | None = Field(
        None,
        description="Size at which writers begin a new log file; smaller files make finer cuts.",
        examples=["128 MiB"],
    )
    strategy: Strategy = Field(
        Strategy(),
        description="Which log files are compacted, and how finely.",
        examples=[{"type": "event_time", "granularity": "log_file"}],
    )
    freshness: FreshnessLimits = Field(
        FreshnessLimits(),
        description="How far completeness may lag behind now.",
        examples=[{"target": "1h", "warn_after": "45m", "error_after": "3h"}],
    )
    verify: VerifyChoice = Field(
        VerifyChoice(),
        description="How a compaction is verified.",
        examples=[{"suite": "ro_complete", "level": "data"}],
    )
    writer: WriterFacts = Field(
        WriterFacts(),
        description="Facts about the table's writers.",
        examples=[{"index": "bloom", "compaction": "none"}],
    )
    hudi_options: dict[StrictStr, OptionValue] = Field(
        default_factory=dict,
        description="Further Hudi options, passed to the client that compacts.",
        examples=[{"hoodie.memory.merge.max.size": "1073741824"}],
    )
    sync: SyncChoice = Field(
        SyncChoice(),
        description="Where the catalog records how far the view is complete.",
        examples=[{"ro_table": "lake.orders_ro"}],
    )
    tags: tuple[Text, ...] = Field((), description="Words to group policies by.", examples=[["orders", "hourly"]])
    enabled: bool = Field(
        True, description="`false` keeps the policy in the file but out of every run.", examples=[False]
    )


class PolicyFile(Declared):
    """A file under `policies/`."""

    version: FormatVersion = Field(description="Version of this file format.", examples=[1])
    vars: dict[StrictStr, JsonValue] = Field(
        default_factory=dict,
        description="Values for `{{ var('name') }}` in this file; they win over etc_project.yml.",
        examples=[{"lake": "/mnt/lake", "tables": ["orders", "payments"]}],
    )
    policies: tuple[PolicyDeclaration, ...] = Field(
        description="The policies of this file.",
        examples=[[{"name": "orders_ro", "table": "lake/orders", "event_time_column": "ts", "data_latency": "30m"}]],
    )


class PolicyFileShape(Declared):
    """A file under `policies/` whose policies are looked at one by one."""

    version: FormatVersion
    vars: dict[StrictStr, JsonValue] = Field(default_factory=dict)
    policies: tuple[Any, ...]


class TemplateFile(Declared):
    """A file under `templates/` that policies extend; its name is the template's."""

    version: FormatVersion = Field(description="Version of this file format.", examples=[1])
    template: dict[StrictStr, Any] = Field(
        description="Keys of a policy, all but `name` and `table`.", examples=[{"data_latency": "30m"}]
    )


def _column(value: Any) -> Any:  # noqa: ANN401 - any YAML value
    """A bare column name as the mapping that it means."""
    return {"column": value} if isinstance(value, str) else value
