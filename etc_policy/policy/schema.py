"""The YAML file as models: what may be written, with a description of each key.

Durations and sizes are validated into milliseconds and bytes, options into text; all else keeps the form it was written in.
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    model_validator,
)

from etc_policy.policy.schema_values import (
    TABLE_MARK,
    Budget,
    CatalogTable,
    Count,
    DatabaseName,
    DayTimes,
    Declared,
    DurationMs,
    FileName,
    FormatVersion,
    Granularity,
    HttpUrl,
    IntervalMs,
    Name,
    Option,
    PartitionRegex,
    PartitionTerms,
    PatternOfNames,
    RowsWhenDone,
    SizeBytes,
    StrategyType,
    TablesGlob,
    TablesMatch,
    Text,
    TimePattern,
    VariableName,
    VerifyLevel,
    WriterIndex,
    ZoneName,
    duration_ms,
    is_in_clear,
)
from etc_policy.policy.times import Boundaries, PartitionClock, parse_boundaries


class Strategy(Declared):
    """How log files are chosen for compaction."""

    type: StrategyType = Field(
        "event_time",
        description="`event_time` compacts what holds events at or before the threshold, now minus `data_latency`. The others "
        "choose whole file slices as the strategies of Hudi do that they are named after, and T is what RO holds then.",
        examples=["event_time", "log_file_num"],
    )
    granularity: Granularity = Field(
        "file_slice",
        description="`file_slice` merges every log file of each slice that has one due. `log_file` merges only the log files up "
        "to the threshold (the RFC's way), so that RO holds as little beyond it as can be; over a day that rewrites more. "
        "`record` merges only the rows up to the threshold, so that RO is the table as of that event time: for tables of version "
        "8 and 9 that are ordered by the event-time column, and whose writers do not compact. It reads all of the log files that "
        "it splits in the process of `etc apply`.",
        examples=["log_file"],
    )
    partitions: PartitionTerms = Field(
        (),
        description="Compact only these partitions: globs over their paths, where `*` is also `/`, or ranges `FROM..TO` in the "
        "order of texts, either end of which may be omitted. How far RO is complete still counts for the whole table.",
        examples=[["region=eu*", "2026-01-01..2026-01-31"]],
    )
    max_io_bytes: SizeBytes | None = Field(
        None,
        alias="max_io",
        description="Bytes that one run reads and writes at most: the file slices with the oldest events go first, and T is what "
        "they reach. A slice that alone takes more is compacted alone.",
        examples=["50 GiB"],
    )
    every_ms: IntervalMs | None = Field(
        None,
        alias="every",
        description="How often `etc apply` runs, from start to start (`--every` wins). With `freshness.target` a slice is "
        "compacted just in time then: when its oldest event would break the target before the next run has ended.",
        examples=["5m"],
    )
    at: DayTimes | None = Field(
        None,
        description="Times of day and their zone: T is the last of them at or before now minus `data_latency`, and each is "
        "published once, so that RO is cut at fixed times. Of a time that the clock shows twice it is the first; one that it "
        "skips is as long after the gap's begin.",
        examples=["00:00 Europe/Paris", "00:00 12:00 UTC"],
    )
    keep: Count | None = Field(
        None,
        description="With `at` and `granularity: record`: the last so many cuts stay readable (`etc cuts` lists them). The "
        "table's writers keep their files, by the options for their cleaner that `etc compile` writes.",
        examples=[7],
    )
    on_close: bool = Field(
        False,
        description="With `partition_time`: what RO lacks of a partition that has closed is compacted by the next run, also "
        "where it could wait just in time, or its events are after T.",
        examples=[True],
    )
    carry: Literal["auto", "hard_link", "copy", "symlink"] | None = Field(
        None,
        description="For tables of version 6 with `granularity: log_file`, whose writers do not compact: how the log files "
        "that stay get their names in the new slice. `auto` takes a hard link, or a copy where the file system has none; "
        "`symlink` is refused. Without it such a table is refused.",
        examples=["auto"],
    )
    target_io_bytes: Budget | None = Field(
        None,
        alias="target_io",
        description="For `bounded_io`, `log_file_size`, `log_file_num` and `day_based`: Hudi takes slices until they read and "
        "write as much, so that the last one may go beyond it. 512000 MiB where it is not given, which is Hudi's default.",
        examples=["50 GiB"],
    )
    min_log_bytes: SizeBytes | None = Field(
        None,
        alias="min_log_size",
        description="For `log_file_size`: only slices with so many bytes in log files are compacted, the most first.",
        examples=["256 MiB"],
    )
    min_log_files: Count | None = Field(
        None,
        description="For `log_file_num`: only slices with so many log files are compacted, the most first.",
        examples=[5],
    )
    latest_partitions: Count | None = Field(
        None,
        description="For `day_based`, whose partitions are days as `yyyy/MM/dd`: only so many of the latest are compacted, "
        "10 where it is not given.",
        examples=[3],
    )
    regex: PartitionRegex | None = Field(
        None,
        description="For `partition_regex`, which needs it: only partitions in whose paths it is found are compacted. Java and "
        "Python must read it alike, so groups may not be repeated, and there are no look-arounds or back references.",
        examples=["^2026/0[1-6]/"],
    )

    @cached_property
    def boundaries(self) -> Boundaries | None:
        """The times of `at`."""
        return parse_boundaries(self.at) if self.at is not None else None


#: A day: an event that is later than its own commit by more cannot be true.
MAX_AHEAD_MS = 86_400_000


class EventTime(Declared):
    """The column that carries event time, with what is needed to read it as a time."""

    column: Text = Field(
        description="Name of the column that holds each row's event time; a dotted name leads into structs.",
        examples=["updated_at", "event.updated_at"],
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
    max_ahead_ms: IntervalMs | None = Field(
        None,
        alias="max_ahead",
        description="How much later than its own commit an event may be, a day by default. What is later cannot be true: it "
        "counts as an unknown event time, and a table where all are is refused.",
        examples=["30d"],
    )

    @property
    def ahead_ms(self) -> int:
        """How much later than its own commit an event may be."""
        return MAX_AHEAD_MS if self.max_ahead_ms is None else self.max_ahead_ms


class PartitionTime(Declared):
    """What time the path of a partition is about, so that a partition can close."""

    pattern: TimePattern = Field(
        alias="from",
        description="Pattern of the whole path: `%Y`, `%m`, `%d`, `%j`, `%H`, `%M`, or `%s` (seconds since 1970) alone; `*` is "
        "any text up to the next `/`. Paths are read with their `%20` and the like decoded.",
        examples=["dt=%Y-%m-%d", "year=%Y/month=%m/day=%d/hour=%H", "region=*/%Y%m%d"],
    )
    length_ms: IntervalMs | None = Field(
        None,
        alias="length",
        description="How long a partition is by the clock of the zone; the finest unit of the pattern where it is not given.",
        examples=["1d", "6h"],
    )
    grace_ms: IntervalMs | None = Field(
        None,
        alias="grace",
        description="So much later than by its path a partition ends: for rows whose events go on after midnight, and are of the "
        "day before. It closes that much later.",
        examples=["6h"],
    )
    zone: ZoneName = Field("UTC", description="The zone whose days and hours they are.", examples=["Europe/Paris"])

    @cached_property
    def clock(self) -> PartitionClock:
        """What reads the paths."""
        return PartitionClock(self.pattern, self.length_ms, ZoneInfo(self.zone), self.grace_ms or 0)


class HttpEndpoint(Declared):
    """Where documents are posted."""

    url: HttpUrl = Field(
        description="Gets a POST of a JSON document; an answer of 200 to 299 accepts it.",
        examples=["https://scheduler.example.com/etc"],
    )
    secret_headers: dict[StrictStr, VariableName] = Field(
        default_factory=dict,
        description="Headers whose values are secrets, each by the environment variable that holds it when it is sent.",
        examples=[{"Authorization": "SCHEDULER_TOKEN"}],
    )

    @model_validator(mode="after")
    def _secrets_are_safe(self) -> Self:
        if self.secret_headers and is_in_clear(self.url):
            raise ValueError("`secret_headers` are not sent in clear: use a URL with `https://`")
        return self


class Done(Declared):
    """What makes a partition done, and where to report those that are, and those that are not any more."""

    @property
    def actions(self) -> tuple[str, ...]:
        """The names of the actions that are declared."""
        return tuple(name for name in ("success_file", "partition_property", "command", "http") if getattr(self, name))

    rows: RowsWhenDone | None = Field(
        None,
        description="`all`, as where it is not given: a closed partition is done when no log file of it is left, so that RO "
        "holds every row that RT has there. `until_end`: when RO holds its rows with an event before its end.",
        examples=["until_end"],
    )
    proof: Literal["metadata", "logs", "data"] = Field(
        "metadata",
        description="A partition is done when a verification of this level, or of a stronger one, has passed up to its end; "
        "for `data` the rows of the partitions that are to be done are compared.",
        examples=["logs"],
    )
    since: Text | None = Field(
        None,
        description="The path of a partition: events are sent of it and of later ones, and no rows of earlier ones are compared.",
        examples=["dt=2026-01-01"],
    )
    success_file: FileName | None = Field(
        None,
        description="Name of a file that is put into a partition when it is done, and taken away when it is done no more.",
        examples=["_SUCCESS"],
    )
    on_late: Literal["reopen", "report"] = Field(
        "reopen",
        description="`report` leaves the success file of a partition that late data reach; all other actions are sent the event.",
        examples=["report"],
    )
    partition_property: CatalogTable | None = Field(
        None,
        description="Table of the catalog whose partition gets the property `etc.partition.status`: `done`, or `reopened`.",
        examples=["lake.orders_ro"],
    )
    command: tuple[Text, ...] = Field(
        (),
        description="A program with its arguments, run in the project's folder for each event: what happened is in "
        "`ETC_EVENT_...` of its environment, and as JSON on its standard input. Exit code 0 means that it was taken.",
        examples=[["./start_daily_report.sh"]],
    )
    http: HttpEndpoint | None = Field(
        None,
        description="Where each event is posted, as a CloudEvents document.",
        examples=[{"url": "https://scheduler.example.com/etc"}],
    )
    timeout_ms: IntervalMs = Field(
        "30s",
        alias="timeout",
        validate_default=True,
        description="How long a program, or an answer over HTTP, may take.",
        examples=["30s"],
    )


class Freshness(Declared):
    """How far the read-optimized view's completeness may lag behind now."""

    target_ms: DurationMs | None = Field(
        None, alias="target", description="The lag that is promised; at least `data_latency`.", examples=["1h"]
    )
    warn_after_ms: DurationMs | None = Field(
        None,
        alias="warn_after",
        description="`etc freshness` warns beyond this lag; shorter than `target`, beyond which it warns anyway.",
        examples=["45m"],
    )
    error_after_ms: DurationMs | None = Field(
        None,
        alias="error_after",
        description="`etc freshness` fails (exit 1) beyond this lag; without it beyond `target`.",
        examples=["3h"],
    )
    proof: Literal["logs", "data"] | None = Field(
        None,
        description="Count only what a verification of this level, or of a stronger one, has proved since the last compaction; "
        "a table without such a proof is `unknown`.",
        examples=["logs"],
    )


class Sample(Declared):
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


class Verify(Declared):
    """How a compaction is proved after it ran."""

    suite: Text = Field(
        "ro_complete",
        description="Name of a suite of expectations, a file `suites/<name>.yml`. With `granularity: record` it is `ro_as_of` "
        "where none is given.",
        examples=["ro_complete", "orders"],
    )
    level: VerifyLevel = Field(
        "data",
        description="`data` compares the rows of both views; `sample` those of some whole file groups; `logs` reads the event "
        "times of log files that are not compacted; `metadata` proves from the timeline alone.",
        examples=["metadata"],
    )
    sample: Sample | None = Field(
        None,
        description="Which file groups level `sample` reads, a tenth by default.",
        examples=[{"share": 0.1, "seed": 7}],
    )
    window_ms: IntervalMs | None = Field(
        None,
        alias="window",
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
        description="At level `data` compare all rows of both views by their values, also where both read the same file; from "
        "level `logs` on read all log files, also those that an earlier run has read.",
        examples=[True],
    )
    full_every_ms: IntervalMs = Field(
        "7d",
        alias="full_every",
        validate_default=True,
        description="At level `data` compare all rows when this long has passed since they last were; in between only those of "
        "partitions whose files have changed, or that have log files.",
        examples=["1d"],
    )


class Sync(Declared):
    """Where the catalog records how far the read-optimized view is complete."""

    ro_table: Text | None = Field(
        None,
        description="The table `db.table` of the catalog that shows the read-optimized view, such as the `_ro` table that "
        "Hudi's hive sync makes; its properties `etc.event_time.*` are set by `etc apply` and `etc sync`.",
        examples=["lake.orders_ro"],
    )
    as_of_view: CatalogTable | None = Field(
        None,
        description="For `granularity: record`: a view of Spark's catalog with the rows of `ro_table` up to T alone, which hides "
        "what writers put straight into base files. `etc apply` and `etc sync` replace it as T moves.",
        examples=["lake.orders_asof"],
    )


class Writer(Declared):
    """Facts about the table's writers that the table itself does not record."""

    index: WriterIndex | None = Field(
        None,
        description="Index by which the writers find keys. Where it finds them in log files too (`bucket`, `record_index`, "
        "`global_record_index`), deletes are compacted beside a write in flight; what is not declared does not.",
        examples=["bloom", "bucket"],
    )
    lock: dict[StrictStr, Option] = Field(
        default_factory=dict,
        description="The writers' lock options (`hoodie.write.lock.*`), so that etc takes the same lock.",
        examples=[
            {
                "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider",
                "hoodie.write.lock.zookeeper.url": "zk1,zk2,zk3",
            }
        ],
    )
    lock_wait_ms: DurationMs = Field(
        "60s",
        alias="lock_wait",
        validate_default=True,
        description="How long to wait for a lock that a writer holds.",
        examples=["5m"],
    )
    hold_ms: DurationMs = Field(
        "30s",
        alias="hold",
        validate_default=True,
        description="How long a compaction may hold the lock file of writers that leave it no other moment, from its plan to its "
        "commit. `0s`: not at all.",
        examples=["2m"],
    )
    heartbeat_expiry_ms: IntervalMs = Field(
        "3m",
        alias="heartbeat_expiry",
        validate_default=True,
        description="How old the heartbeat of a write in flight may be before its writer counts as dead: longer than the longest "
        "`hoodie.client.heartbeat.interval_in_ms` of the writers times their `hoodie.client.heartbeat.tolerable.misses`.",
        examples=["10m"],
    )
    compaction: Literal["none", "inline", "async"] = Field(
        "none", description="Compaction that the writers do on their own.", examples=["none"]
    )
    keys: Literal["unique", "repeated"] = Field(
        "unique",
        description="`repeated`: writers keep a key more than once on purpose (operation insert), so that no verification asks "
        "for keys that are there once.",
        examples=["repeated"],
    )

    @property
    def keys_repeated(self) -> bool:
        """Whether a key may be there more than once on purpose."""
        return self.keys == "repeated"

    merges_tested_with: tuple[Text, ...] = Field(
        (),
        description="Releases of Hudi's bundle that you have found to merge this table's rows as its readers do, where "
        "nobody has played that: a payload of your own, or a bundle of a vendor.",
        examples=[["1.2.0"]],
    )


class LearnedLatency(Declared):
    """A `data_latency` that is learned from the table's own history."""

    quantile: Annotated[StrictFloat | StrictInt, Field(gt=0, le=1)] = Field(
        0.999,
        description="Share of the writes whose latest row came in within it, above 0 and at most 1.",
        examples=[0.999],
    )
    at_least_ms: DurationMs = Field(
        "0s", alias="at_least", validate_default=True, description="It is never shorter.", examples=["10m"]
    )
    at_most_ms: DurationMs = Field(
        alias="at_most",
        description="It is never longer, and this long where the history has too few event times to learn from.",
        examples=["6h"],
    )

    @model_validator(mode="after")
    def _is_ordered(self) -> Self:
        if self.at_least_ms > self.at_most_ms:
            raise ValueError("`at_least` is longer than `at_most`")
        return self


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
    event_time: Annotated[
        EventTime, BeforeValidator(lambda value: _column(value), json_schema_input_type=str | EventTime)
    ] = Field(
        alias="event_time_column",
        description="The event-time column: its name, or a mapping with `column`, `unit` and `format`. "
        "Required, here or by `extends` or a default.",
        examples=["updated_at", {"column": "updated_at", "unit": "ms"}],
    )
    data_latency_ms: Annotated[
        int, BeforeValidator(duration_ms, json_schema_input_type=DurationMs | LearnedLatency)
    ] = Field(
        alias="data_latency",
        description="How late events may arrive: whatever is older than now minus this is assumed to have arrived. Or a mapping "
        "with `quantile`, `at_least` and `at_most`: then it is learned. Required, here or by `extends` or a default.",
        examples=["30m", {"quantile": 0.999, "at_least": "10m", "at_most": "6h"}],
    )
    learned_latency: LearnedLatency | None = Field(
        None,
        description="What `data_latency` as a mapping means.",
        examples=[{"quantile": 0.999, "at_least": "10m", "at_most": "6h"}],
    )
    partition_time: PartitionTime | None = Field(
        None,
        description="What time each partition is about: it is closed `data_latency` after its end, and done when RO then holds "
        "every row of it (`done.rows`).",
        examples=[{"from": "dt=%Y-%m-%d", "zone": "Europe/Paris"}],
    )
    partition_idle_ms: IntervalMs | None = Field(
        None,
        alias="partition_idle",
        description="For partitions that are about no time: one is done when nothing was written to it for so long, and no log "
        "file of it is left to compact.",
        examples=["2h"],
    )
    done: Done | None = Field(
        None,
        description="What makes a partition done, and where to report that it is, and that late data reopen it.",
        examples=[{"success_file": "_SUCCESS"}],
    )
    log_file_max_bytes: SizeBytes | None = Field(
        None,
        alias="log_file_max_size",
        description="Size at which writers begin a new log file; smaller files make finer cuts.",
        examples=["128 MiB"],
    )
    strategy: Strategy = Field(
        Strategy(),
        description="Which log files are compacted, and how finely.",
        examples=[{"type": "event_time", "granularity": "log_file"}],
    )
    freshness: Freshness = Field(
        Freshness(),
        description="How far completeness may lag behind now.",
        examples=[{"target": "1h", "warn_after": "45m", "error_after": "3h"}],
    )
    verify: Verify = Field(
        Verify(),
        description="How a compaction is verified.",
        examples=[{"suite": "ro_complete", "level": "data"}],
    )
    writer: Writer = Field(
        Writer(),
        description="Facts about the table's writers.",
        examples=[{"index": "bloom", "compaction": "none"}],
    )
    hudi_options: dict[StrictStr, Option] = Field(
        default_factory=dict,
        description="Further Hudi options, passed to the client that compacts.",
        examples=[{"hoodie.memory.merge.max.size": "1073741824"}],
    )
    sync: Sync = Field(
        Sync(),
        description="Where the catalog records how far the view is complete.",
        examples=[{"ro_table": "lake.orders_ro"}],
    )
    tags: tuple[Text, ...] = Field((), description="Words to group policies by.", examples=[["orders", "hourly"]])
    enabled: bool = Field(
        True, description="`false` keeps the policy in the file but out of every run.", examples=[False]
    )

    @model_validator(mode="after")
    def _proves_its_granularity(self) -> Self:
        """Without a suite of its own a policy that splits by record has that which compares RO with the table as of T."""
        is_exact = self.strategy.type == "event_time" and self.strategy.granularity == "record"
        if is_exact and "suite" not in self.verify.model_fields_set:
            object.__setattr__(self, "verify", self.verify.model_copy(update={"suite": "ro_as_of"}))  # it is frozen
        return self

    @property
    def longest_latency_ms(self) -> int:
        """The longest `data_latency` that it may have; rows without a known event time are at most so late."""
        return self.learned_latency.at_most_ms if self.learned_latency else self.data_latency_ms


class Tables(Declared):
    """Where tables are looked for: folders, or a database of the catalog."""

    path: TablesGlob | None = Field(
        None,
        description="A glob over the folders of tables, on this machine, in a bucket or on HDFS; `*` means no `/`.",
        examples=["s3://lake/sales/*", "lake/*/*_mor"],
    )
    catalog: DatabaseName | None = Field(
        None, description="A database of the target's catalog, where `path` is not given.", examples=["sales"]
    )
    match: TablesMatch = Field(
        "*",
        description="Which tables of the database: a name in which `*` is any text, or several with `|` between them.",
        examples=["*_mor"],
    )

    @model_validator(mode="after")
    def _has_one_place(self) -> Self:
        if (self.path is None) == (self.catalog is None):
            raise ValueError("write a glob such as `lake/sales/*`, or `{catalog: sales, match: '*_mor'}`")
        return self

    def __str__(self) -> str:
        return self.path or f"{self.catalog}.{self.match}"


class PolicyEntry(PolicyDeclaration):
    """A policy as a file says it; `for_each` and `tables` are worked out before the rest."""

    model_config = ConfigDict(
        json_schema_extra={"required": [], "anyOf": [{"required": ["name", "table"]}, {"required": ["tables"]}]}
    )

    name: PatternOfNames = Field(
        default_factory=lambda: TABLE_MARK,
        description="Name of the policy, unique in the project: lower-case letters, digits, `_` and `-`. Required, but with "
        "`tables`: there it holds `{table}`, the name of each table, and is that alone where it is not given; `{folder}` is the "
        "name of the folder or database.",
        examples=["orders_ro", "sales_{table}"],
    )
    table: Text = Field(
        default_factory=str,
        description="Base path or URI of the table, or `db.table` of the Spark catalog. Required, or `tables`.",
        examples=["lake/orders", "/mnt/lake/orders", "sales.orders"],
    )
    tables: Annotated[
        Tables | None, BeforeValidator(lambda value: _path(value), json_schema_input_type=str | Tables | None)
    ] = Field(
        None,
        description="In the place of `table`: a policy for each merge-on-read table that a glob over folders means, or that is "
        "in a database of the catalog. Commands that work on tables look them up, so new tables are taken by themselves.",
        examples=["s3://lake/sales/*", {"catalog": "sales", "match": "*_mor"}],
    )
    exclude: tuple[Text, ...] = Field(
        (),
        description="With `tables`: globs over the names of the tables that get no policy.",
        examples=[["tmp_*", "orders_test"]],
    )
    for_each: str | list[JsonValue] | dict[str, JsonValue] | None = Field(
        None,
        description="Makes one policy for each item of a list, each entry of a mapping (`each.key`, `each.value`), or each table "
        "that a glob over folders means (`each.path`, `each.name`); `{{ each }}` is the item.",
        examples=["{{ var('tables') }}", ["orders", "payments"], "lake/sales/*"],
    )

    @model_validator(mode="after")
    def _has_one_table(self) -> Self:
        if self.tables is None or self.table:
            raise ValueError("a policy has `table`, or `tables` and perhaps `exclude`")
        if TABLE_MARK not in self.name:
            raise ValueError(
                f'`name` needs `{TABLE_MARK}`, as each table gets a policy: `name: "{self.name}_{TABLE_MARK}"`'
            )
        return self


class PolicyFile(Declared):
    """A file under `policies/`."""

    version: FormatVersion = Field(description="Version of this file format.", examples=[1])
    vars: dict[StrictStr, JsonValue] = Field(
        default_factory=dict,
        description="Values for `{{ var('name') }}` in this file; they win over etc_project.yml.",
        examples=[{"lake": "/mnt/lake", "tables": ["orders", "payments"]}],
    )
    policies: tuple[PolicyEntry, ...] = Field(
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


def _path(value: Any) -> Any:  # noqa: ANN401 - any YAML value
    """A bare glob as the mapping that it means."""
    return {"path": value} if isinstance(value, str) else value


def _column(value: Any) -> Any:  # noqa: ANN401 - any YAML value
    """A bare column name as the mapping that it means."""
    return {"column": value} if isinstance(value, str) else value
