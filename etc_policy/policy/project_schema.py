"""The file `etc_project.yml` as models: the project's name, folders and variables, and where its jobs run."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, JsonValue, StrictBool, StrictInt, StrictStr, model_validator

from etc_policy.policy.notify_schema import Notify
from etc_policy.policy.quantities import DEFAULT_JOBS, MAX_JOBS
from etc_policy.policy.schema_values import (
    Declared,
    DurationMs,
    FormatVersion,
    IntervalMs,
    Name,
    Option,
    Region,
    ServerUrl,
    Text,
    require_server,
)


class SparkSettings(Declared):
    """Where Spark runs, and with which settings."""

    master: Text | None = Field(None, description="Spark master.", examples=["local[2]", "yarn"])
    confs: dict[StrictStr, Option] = Field(
        default_factory=dict,
        description="Spark settings (`spark.*`); `--conf` on the command line wins over them.",
        examples=[{"spark.executor.memory": "4g"}],
    )
    packages: list[Text] = Field(
        default_factory=list,
        description="Maven coordinates of what Spark needs besides the Hudi bundle, such as a client of an object store.",
        examples=[["org.apache.hadoop:hadoop-aws:3.3.4"]],
    )
    timeout: IntervalMs = Field(
        "5m",
        validate_default=True,
        description="How long a cluster may take to answer, and then to give an executor; also how long a run waits when it "
        "has lost all of them.",
        examples=["2m"],
    )


class CatalogSettings(Declared):
    """The catalog that `db.table` names are looked up in."""

    type: Literal["hive", "in_memory", "glue"] = Field(
        "hive",
        description="`hive` is a Hive metastore; `in_memory` is Spark's own, which ends with the run; `glue` is AWS Glue's Data "
        "Catalog, which is asked without Spark.",
        examples=["hive"],
    )
    uri: Text | None = Field(
        None,
        description="The metastore's address, or URL of Glue's where it is not Amazon's.",
        examples=["thrift://metastore:9083"],
    )
    database: Text | None = Field(None, description="Database for tools that ask for one.", examples=["lake"])

    @model_validator(mode="after")
    def _glue_has_a_url(self) -> Self:
        if self.type == "glue" and self.uri is not None:
            require_server(self.uri)
        return self


class StorageSettings(Declared):
    """How object stores are reached; `timeout` is HDFS's too. No keys here: they come from the environment or profile files."""

    endpoint: ServerUrl | None = Field(
        None,
        description="URL of an S3 server other than Amazon's; wins over `AWS_ENDPOINT_URL_S3`.",
        examples=["https://minio.example.com:9000"],
    )
    region: Region | None = Field(None, description="Region; wins over `AWS_REGION`.", examples=["eu-central-1"])
    path_style: StrictBool | None = Field(
        None,
        description="Whether the bucket is in the path of a URL, not in its host; if not given, it is.",
        examples=[True],
    )
    anonymous: StrictBool = Field(False, description="Requests are not signed, for public buckets.", examples=[True])
    instance_role: StrictBool = Field(
        False,
        description="Without keys, ask the cloud for those of the machine's or container's role.",
        examples=[True],
    )
    timeout: DurationMs = Field(
        "30s", validate_default=True, description="How long a store is tried that does not answer.", examples=["1m"]
    )


class TargetDeclaration(Declared):
    """One place to run: what differs between a laptop and production."""

    spark: SparkSettings = Field(
        SparkSettings(), description="Spark of this target: its master and settings.", examples=[{"master": "local[2]"}]
    )
    bundle: Text | None = Field(
        None,
        description="Hudi's Spark bundle: path of a jar, or Maven coordinates. `ETC_HUDI_BUNDLE` wins over it.",
        examples=["org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0"],
    )
    catalog: CatalogSettings | None = Field(
        None,
        description="The catalog that `db.table` names are looked up in.",
        examples=[{"type": "hive", "uri": "thrift://metastore:9083"}],
    )
    lock: dict[StrictStr, Option] = Field(
        default_factory=dict,
        description="`writer.lock` of every policy that has none of its own.",
        examples=[{"hoodie.write.lock.zookeeper.url": "{{ env_var('ZK_URL') }}"}],
    )
    storage: StorageSettings = Field(
        StorageSettings(),
        description="How object stores are reached, for tables at `s3://`, `gs://` and `abfs://`.",
        examples=[{"endpoint": "https://minio.example.com:9000", "region": "eu-central-1"}],
    )
    table_root: Text | None = Field(
        None,
        description="Folder or URI that relative paths of tables start from; the project's folder if not given.",
        examples=["/mnt/lake"],
    )
    jobs: StrictInt = Field(
        DEFAULT_JOBS,
        ge=1,
        le=MAX_JOBS,
        description="So many tables are read at once and, where it is given, compacted at once; `--jobs` wins over it. More "
        "pay where the file system is far away.",
        examples=[16],
    )


class Profile(Declared):
    """Targets by name, one of them the default."""

    target: Name = Field(description="Target that is used without `--target` and `ETC_TARGET`.", examples=["dev"])
    targets: dict[Name, TargetDeclaration] = Field(
        description="The targets by name.", min_length=1, examples=[{"dev": {"spark": {"master": "local[2]"}}}]
    )


class Folders(Declared):
    """Folders of the project, relative to it."""

    policies: Text = Field("policies", description="Policy files, in any depth.", examples=["compaction/policies"])
    templates: Text = Field(
        "templates", description="Templates that policies extend.", examples=["compaction/templates"]
    )


class ProjectFile(Declared):
    """The optional file `etc_project.yml`."""

    version: FormatVersion = Field(1, description="Version of this file format.", examples=[1])
    name: Name | None = Field(None, description="Name of the project.", examples=["warehouse"])
    require_etc: Text | None = Field(
        None, description="Versions of etc that the project works with.", examples=[">=0.1,<1"]
    )
    folders: Folders = Field(
        Folders(), description="Where the project's files are.", examples=[{"policies": "compaction/policies"}]
    )
    vars: dict[StrictStr, JsonValue] = Field(
        default_factory=dict,
        description="Values for `{{ var('name') }}` in every file.",
        examples=[{"lake": "/mnt/lake"}],
    )
    policies: dict[StrictStr, Any] = Field(
        default_factory=dict,
        description="Defaults of policies: `+key: value` for all, and folders below `policies/` with the same inside.",
        examples=[{"+data_latency": "30m", "sales": {"+tags": ["sales"]}}],
    )
    profile: Name | None = Field(
        None, description="Profile that is used; not needed where there is only one.", examples=["warehouse"]
    )
    profiles: dict[Name, Profile] = Field(
        default_factory=dict,
        description="Profiles by name: each has targets such as `dev` and `prod`.",
        examples=[{"warehouse": {"target": "dev", "targets": {"dev": {"spark": {"master": "local[2]"}}}}}],
    )
    notify: Notify | None = Field(
        None,
        description="Where messages about problems are sent.",
        examples=[{"slack": {"url_variable": "SLACK_WEBHOOK_URL"}, "every": "1h"}],
    )
