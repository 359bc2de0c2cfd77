"""The file `etc_project.yml` as models: the project's name, folders and variables, where its jobs run, where messages go.

A run is for one target of it.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, StrictBool, StrictInt, StrictStr, model_validator

from etc_policy.errors import UsageError
from etc_policy.errors.codes import Code
from etc_policy.policy.quantities import DEFAULT_CLUSTER_TIMEOUT_MS, DEFAULT_JOBS, MAX_JOBS
from etc_policy.policy.schema import HttpEndpoint
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
    VariableName,
    require_server,
)
from etc_policy.policy.secrets import has_reference
from etc_policy.policy.suggestions import did_you_mean

DEFAULT_TARGET = "default"
#: The setting of Spark that `catalog.uri` becomes.
METASTORE_URIS = "spark.hadoop.hive.metastore.uris"


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


def _require_address(text: str) -> str:
    if not re.fullmatch(r"[!-~]+@[!-~]+", text) or set("<>,;") & set(text) or text.count("@") > 1:
        raise ValueError(f"`{text[:60]}` is not an address such as `data@example.com`")
    return text


Address = Annotated[Text, AfterValidator(_require_address)]


class Slack(Declared):
    """A channel of Slack."""

    url_variable: VariableName = Field(
        description="Environment variable that holds the URL of the incoming webhook, which is a secret.",
        examples=["SLACK_WEBHOOK_URL"],
    )


class Email(Declared):
    """A mail server, from whom it sends, and to whom."""

    server: Text = Field(description="Host of the SMTP server.", examples=["smtp.example.com"])
    port: StrictInt = Field(587, ge=1, le=65535, description="Its port.", examples=[465])
    tls: Literal["starttls", "tls", "none"] = Field(
        "starttls",
        description="`tls` from the first byte on, `starttls` after a greeting; `none` sends in clear, without a password.",
        examples=["tls"],
    )
    sender: Address = Field(alias="from", description="Address of the sender.", examples=["etc@example.com"])
    to: tuple[Address, ...] = Field(description="Addresses.", min_length=1, examples=[["data@example.com"]])
    user: Text | None = Field(None, description="User of the SMTP server.", examples=["etc"])
    password_variable: VariableName | None = Field(
        None, description="Environment variable that holds the user's password.", examples=["SMTP_PASSWORD"]
    )

    @model_validator(mode="after")
    def _password_is_safe(self) -> Self:
        if (self.user is None) != (self.password_variable is None):
            raise ValueError("`user` and `password_variable` of `notify.email` need each other")
        if self.user is not None and self.tls == "none":
            raise ValueError("`notify.email` sends no password in clear: use `tls: starttls`, or leave out `user`")
        return self


class Notify(Declared):
    """Sends a message when a table or partition breaks its limit or recovers, or when a run or verification fails."""

    slack: Slack | None = Field(
        None, description="A channel of Slack.", examples=[{"url_variable": "SLACK_WEBHOOK_URL"}]
    )
    http: HttpEndpoint | None = Field(
        None, description="Gets plain JSON.", examples=[{"url": "https://alerts.example.com/etc"}]
    )
    email: Email | None = Field(
        None,
        description="E-mail by SMTP.",
        examples=[{"server": "smtp.example.com", "from": "etc@example.com", "to": ["data@example.com"]}],
    )
    every_ms: IntervalMs = Field(
        "15m",
        alias="every",
        validate_default=True,
        description="Each of them gets at most one message in this time, with all that is new.",
        examples=["1h"],
    )
    timeout_ms: IntervalMs = Field(
        "30s", alias="timeout", validate_default=True, description="How long an answer may take.", examples=["10s"]
    )
    record: Text | None = Field(
        None,
        description="Folder or URI of the record of what was sent, which runs on several machines share; the target folder "
        "if not given.",
        examples=["s3a://lake/etc"],
    )

    @model_validator(mode="after")
    def _has_somebody(self) -> Self:
        if self.slack is None and self.http is None and self.email is None:
            raise ValueError("`notify` needs `slack`, `http` or `email`")
        return self


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


@dataclass(frozen=True, slots=True)
class Target:
    """A target, resolved. A project without profiles has one named `default` that leaves everything as it is.

    `spark_confs` and `lock` hold references to variables of the environment, which are filled in when the engine starts;
    `hidden_confs` are the settings of Spark that have one, and `has_hidden_root` says whether `table_root` came from there.
    `bundle` is a jar's path or Maven coordinates, `packages` are what is loaded beside it; `table_root` is as
    declared, perhaps relative to the project.
    """

    name: str = DEFAULT_TARGET
    profile: str | None = None
    spark_confs: Mapping[str, str] = field(default_factory=dict, repr=False)
    bundle: str | None = None
    packages: tuple[str, ...] = ()
    catalog: CatalogSettings | None = None
    lock: Mapping[str, str] = field(default_factory=dict)
    table_root: str | None = None
    storage: StorageSettings = field(default_factory=StorageSettings)
    jobs: int = DEFAULT_JOBS
    compaction_jobs: int = 1
    cluster_timeout_ms: int = DEFAULT_CLUSTER_TIMEOUT_MS
    hidden_confs: frozenset[str] = frozenset()
    has_hidden_root: bool = False


def choose_target(project: ProjectFile, name: str | None) -> tuple[str, str] | None:
    """The profile and target that are meant; `name` is what `--target` says. None for a project without profiles.

    The project is one whose file was checked: its profile is there, with its default target.

    Raises:
        UsageError: there is no such target.

    """
    if not project.profiles:
        if name is not None and name != DEFAULT_TARGET:
            hint = "declare targets under `profiles:` in etc_project.yml, or run without `--target` and ETC_TARGET"
            raise UsageError(
                Code.NO_SUCH_TARGET, f"there is no target `{name[:60]}`: the project has no profiles", hint=hint
            )
        return None
    names = list(project.profiles)
    profile = project.profile or (names[0] if len(names) == 1 else str(project.name))
    known = project.profiles[profile].targets
    wanted = name or project.profiles[profile].target
    if wanted not in known:
        hint = did_you_mean(wanted, known) or f"the targets are {', '.join(known)}"
        raise UsageError(Code.NO_SUCH_TARGET, f"there is no target `{wanted[:60]}`", hint=hint)
    return profile, wanted


def target_of(chosen: tuple[str, str], project: ProjectFile, hidden_keys: Container[str]) -> Target:
    """The chosen profile's and target's target; `uri` and `table_root` are hidden that came from the environment."""
    declared: TargetDeclaration = project.profiles[chosen[0]].targets[chosen[1]]
    master = {"spark.master": declared.spark.master} if declared.spark.master else {}
    confs = declared.spark.confs
    hidden = {key for key, value in confs.items() if has_reference(value)}
    return Target(
        name=chosen[1],
        profile=chosen[0],
        spark_confs={**catalog_confs(declared.catalog), **master, **confs},
        bundle=declared.bundle,
        packages=tuple(declared.spark.packages),
        catalog=declared.catalog,
        lock=declared.lock,
        table_root=declared.table_root,
        storage=declared.storage,
        jobs=declared.jobs,
        compaction_jobs=declared.jobs if "jobs" in declared.model_fields_set else 1,
        cluster_timeout_ms=declared.spark.timeout,
        hidden_confs=frozenset(hidden | ({METASTORE_URIS} if "uri" in hidden_keys else set())),
        has_hidden_root="table_root" in hidden_keys,
    )


def catalog_confs(catalog: CatalogSettings | None) -> dict[str, str]:
    """Spark's settings for a catalog; that of Glue is asked without Spark."""
    if catalog is None or catalog.type == "glue":
        return {}
    confs = {"spark.sql.catalogImplementation": catalog.type.replace("_", "-")}
    return confs | ({METASTORE_URIS: catalog.uri} if catalog.uri else {})
