"""`etc apply --submit`: a saved plan as a job for spark-submit, and that job itself.

What the job must know is one document: the plan, its policies as they were resolved, their suites, and how the target reaches
tables. So the driver needs this package and no file of the project; executors need Hudi's bundle alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, ValidationError

from etc_policy import __version__
from etc_policy.api.applying import apply_and_record
from etc_policy.api.derived_plans import require_form
from etc_policy.api.loading import read_given
from etc_policy.api.planning import match_policies, require_unedited
from etc_policy.errors import UsageError, Where
from etc_policy.errors.codes import Code
from etc_policy.plan.model import Plan
from etc_policy.policy.files import read_suite
from etc_policy.policy.locations import S3_SCHEMES, is_catalog_name
from etc_policy.policy.manifest import Frozen, GitState, Policy
from etc_policy.policy.project_schema import CatalogSettings, StorageSettings
from etc_policy.policy.targets import Target, catalog_confs
from etc_policy.report.results import RunResults
from etc_policy.wiring import Environment, clock_ms

if TYPE_CHECKING:
    from etc_policy.wiring import Submission


class SubmittedJob(Frozen):
    """All that a job needs besides this package; no value of the environment is in it."""

    schema_version: Literal[1] = 1
    etc_version: str = __version__
    plan: Plan
    policies: tuple[Policy, ...]
    suites: dict[str, str] = Field(default_factory=dict)
    git: GitState | None = None
    at_ms: int | None = None
    metadata_only: bool = False
    jobs: int = 1
    compaction_jobs: int = 1
    target: str
    cluster_timeout_ms: int
    storage: dict[str, Any] = Field(default_factory=dict)
    catalog: CatalogSettings | None = None
    target_dir: str = "target"


class _JobEnvironment(Environment):
    """The outside world of a job: git is where the project is."""

    git: GitState | None = None

    def git_state(self) -> GitState | None:
        return self.git


def prepare_submission(
    environment: Environment, plan: Plan, policies: tuple[Policy, ...], at_ms: int | None, target_dir: Path
) -> Submission:
    """A plan with its policies as a job.

    Raises:
        UsageError: the job could not find a table, or run at all.

    """
    if environment.target.deploy_mode == "cluster":
        _require_reachable(policies)
    job = _job(environment, plan, policies, at_ms, str(target_dir.resolve()))
    environment.reaches_s3 = environment.reaches_s3 or any(
        table.base_path.startswith(S3_SCHEMES) for table in plan.tables
    )
    releases = {table.release for table in plan.tables if table.action == "compact"}
    with environment.with_release(releases.pop() if len(releases) == 1 else None):
        return environment.submission(job.as_json())


def _job(
    environment: Environment, plan: Plan, policies: tuple[Policy, ...], at_ms: int | None, target_dir: str
) -> SubmittedJob:
    target = environment.target
    suites = {one.verify.suite: read_suite(one.verify.suite, environment.project_dir)[1] for one in policies}
    return SubmittedJob(
        plan=plan,
        policies=policies,
        suites=suites,
        git=environment.git_state(),
        at_ms=at_ms,
        metadata_only=environment.metadata_only,
        jobs=environment.jobs,
        compaction_jobs=environment.compaction_jobs,
        target=target.name,
        cluster_timeout_ms=target.cluster_timeout_ms,
        storage={**target.storage.model_dump(), "timeout": f"{target.storage.timeout}ms"},
        # its address is one of Spark's settings, and may be secret
        catalog=target.catalog and target.catalog.model_copy(update={"uri": None}),
        target_dir=target_dir if target.deploy_mode == "client" else "target",
    )


def _require_reachable(policies: tuple[Policy, ...]) -> None:
    """Return if no table's path begins in the current folder, where a driver in the cluster is not."""
    lost = [one for one in policies if "://" not in one.table and not is_catalog_name(one.table)]
    relative = next((one for one in lost if not Path(one.table).is_absolute()), None)
    if relative is not None:
        message = f"`{relative.table}` is relative to this folder, and the driver would run in the cluster"
        hint = "give the target a `table_root` that the cluster sees, or `deploy_mode: client`"
        raise UsageError(Code.USAGE, message, hint=hint)


def run_job(path: Path, progress: Callable[[str], None]) -> RunResults:
    """Carry out the job of a file in the Spark that has started this process.

    Raises:
        UsageError: it is no job of this version of etc.

    """
    job = _load(path)
    with TemporaryDirectory(prefix="etc-job-") as folder:
        (Path(folder) / "suites").mkdir()
        for name, text in job.suites.items():
            (Path(folder) / "suites" / f"{name}.yml").write_text(text, "utf-8")
        environment = _environment(job, Path(folder), progress)
        try:
            now_ms = job.at_ms if job.at_ms is not None else clock_ms()
            return apply_and_record(
                environment,
                now_ms,
                Path(job.target_dir),
                _policies(job),
                job.plan,
                lambda _: True,
                warn=lambda issue: progress(issue.message),
            )
        finally:
            environment.close()


def _policies(job: SubmittedJob) -> tuple[Policy, ...]:
    """The job's policies, which may be some of the plan's, if they and the plan are as they were submitted.

    Raises:
        UsageError: the plan is not.
        StalePlanError: a policy is not.

    """
    names = {policy.name for policy in job.policies}
    selected = tuple(table for table in job.plan.tables if table.policy in names)
    require_unedited(job.plan)
    require_form(job.plan)
    return tuple(match_policies(job.plan.model_copy(update={"tables": selected}), job.policies).values())


def _environment(job: SubmittedJob, folder: Path, progress: Callable[[str], None]) -> Environment:
    target = Target(
        name=job.target,
        spark_confs=catalog_confs(job.catalog),
        catalog=job.catalog,
        storage=StorageSettings.model_validate(job.storage),
        cluster_timeout_ms=job.cluster_timeout_ms,
    )
    environment = _JobEnvironment(
        folder,
        progress,
        target=target,
        catalog_dir=Path(job.target_dir) / "catalog",
        metadata_only=job.metadata_only,
        ends_java_on_interrupt=True,
        jobs=job.jobs,
        compaction_jobs=job.compaction_jobs,
    )
    environment.git = job.git
    return environment


def _load(path: Path) -> SubmittedJob:
    hint = "submit the plan again, with the same version of etc here and where the driver runs"
    try:
        content: Any = read_given(path)
        job = SubmittedJob.model_validate_json(content)
    except OSError as error:
        message = f"the job cannot be read: {os.strerror(error.errno or 0)}"
        raise UsageError(Code.CANNOT_READ_PLAN, message, where=Where(str(path)), hint=hint) from error
    except ValidationError as error:
        message = "this is not a job of this version of etc"
        raise UsageError(Code.NOT_A_PLAN, message, where=Where(str(path)), hint=hint) from error
    if job.etc_version != __version__:
        message = f"the job was submitted by etc {job.etc_version}, and this is {__version__}"
        raise UsageError(Code.NOT_A_PLAN, message, where=Where(str(path)), hint=hint)
    return job
