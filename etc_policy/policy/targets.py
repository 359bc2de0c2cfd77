"""The target that a run is for: where Spark runs and where tables lie, from `profiles:` in etc_project.yml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from etc_policy.errors import UsageError
from etc_policy.errors.codes import Code
from etc_policy.policy.project_schema import CatalogSettings, ProjectFile, StorageSettings, TargetDeclaration
from etc_policy.policy.quantities import DEFAULT_CLUSTER_TIMEOUT_MS, DEFAULT_JOBS
from etc_policy.policy.secrets import has_reference
from etc_policy.policy.suggestions import did_you_mean

DEFAULT_TARGET = "default"
#: The setting of Spark that `catalog.uri` becomes.
METASTORE_URIS = "spark.hadoop.hive.metastore.uris"


@dataclass(frozen=True, slots=True)
class Target:
    """A target, resolved. A project without profiles has one named `default` that leaves everything as it is.

    `spark_confs` and `lock` hold references to variables of the environment, which are filled in when the engine starts;
    `hidden_confs` are the settings of Spark that have one.
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


def target_of(chosen: tuple[str, str], project: ProjectFile, is_catalog_hidden: bool) -> Target:
    """The chosen profile's and target's target; whether the catalog's address came from the environment is known by its file."""
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
        hidden_confs=frozenset(hidden | ({METASTORE_URIS} if is_catalog_hidden else set())),
    )


def catalog_confs(catalog: CatalogSettings | None) -> dict[str, str]:
    """Spark's settings for a catalog; that of Glue is asked without Spark."""
    if catalog is None or catalog.type == "glue":
        return {}
    confs = {"spark.sql.catalogImplementation": catalog.type.replace("_", "-")}
    return confs | ({METASTORE_URIS: catalog.uri} if catalog.uri else {})
