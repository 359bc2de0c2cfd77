"""The bundle of Hudi: which one is asked for, which release it is, and whether it may compact a table."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from etc_policy.errors import EngineError
from etc_policy.errors.codes import Code
from etc_policy.hudi.log_forms import Changelog
from etc_policy.hudi.properties import merging_of, names_in, read_properties
from etc_policy.hudi.stable_reading import read_until_stable
from etc_policy.hudi.writer_options import STREAMING, option_of_metadata_commits
from etc_policy.plan.bundles import DEFAULT_RELEASE, bundle_of, why_unfit
from etc_policy.policy.secrets import with_values
from etc_policy.run.ports import Job
from etc_policy.spark.java_causes import java_causes
from etc_policy.storage.open_storage import open_reader

#: How Hudi names its bundles for Spark, as jars and as coordinates.
BUNDLE_NAME = re.compile(r"hudi-spark(?P<spark>\d+\.\d+)-bundle_[\d.]+[-:](?P<hudi>[\w.-]+?)(?:\.jar)?(?:,|$)")
_RELEASE = re.compile(r"\d+(\.\d+){1,3}([.-]\w{1,16}){0,4}")
#: Releases whose clients do not stream to metadata tables.
_BEFORE_STREAMING = ("0.", "1.0.")
_IN_SPARKS_SETTINGS = ("spark.jars", "spark.jars.packages")
#: Where the classes of a merger of one's own are named, by releases from 1.0 on and before: no table names them.
_CLASSES_OF_MERGERS = (
    "hoodie.write.record.merge.custom.implementation.classes",
    "hoodie.datasource.write.record.merger.impls",
)


def named_bundle(environ: Mapping[str, str], bundle: str | None, confs: Mapping[str, str]) -> str | None:
    """What names a bundle: Spark's own settings, else `ETC_HUDI_BUNDLE`, else the target's; None where nothing does."""
    given = [confs[key] for key in _IN_SPARKS_SETTINGS if key in confs]
    return ",".join(given) if given else environ.get("ETC_HUDI_BUNDLE") or bundle


def release_in(name: str) -> str | None:
    """The release that a bundle's coordinates or file say; None for another name, and for what is no release."""
    found = BUNDLE_NAME.search(name)
    return found["hudi"] if found and _RELEASE.fullmatch(found["hudi"]) else None


def release_of(jvm: Any) -> str | None:
    """The release that the loaded bundle has in its manifest; before 1.0 no class of Hudi's says it."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    of_bundle = jvm.java.lang.Class.forName("org.apache.hudi.common.model.HoodieRecord", True, loader).getPackage()
    return str(of_bundle.getImplementationVersion() or "") or None


def require_fitting(jvm: Any, job: Job) -> None:
    """Return if the loaded bundle is known to merge rows as the readers of the job's table do.

    Raises:
        EngineError: it merges them otherwise, or nobody has tried it.

    """
    changelog = Changelog.YES if job.in_changelog_mode else Changelog.NO
    merging = merging_of(read_properties(open_reader(job.base_path)), changelog)
    unfit = why_unfit(merging, release_of(jvm), job.policy.writer.merges_tested_with)
    if unfit:
        raise EngineError(Code.UNFIT_BUNDLE, f"`{job.policy.name}` is not compacted: {unfit[0]}", hint=unfit[1])


def require_streaming(jvm: Any, job: Job) -> None:
    """Return if the loaded bundle can commit to the metadata table beside the table's writers.

    Raises:
        EngineError: they stream to it and the bundle cannot, so that it would roll their open commits back there.

    """
    release = release_of(jvm) or _BEFORE_STREAMING[0]
    if release.startswith(_BEFORE_STREAMING) and job.metadata_partitions and _writers_stream(job):
        name = "before 1.0" if release == _BEFORE_STREAMING[0] else release
        begun = f"would end what writers of `{job.policy.name}` have begun there"
        message = f"Hudi {name} cannot stream to the metadata table as the last writes did, and {begun}"
        hint = (
            f"set ETC_HUDI_BUNDLE={bundle_of(DEFAULT_RELEASE)}, or `bundle` of the target; or set `{STREAMING}: 'false'` for all "
            "writers and in `hudi_options`"
        )
        raise EngineError(Code.BUNDLE_ENDS_WRITES, message, hint=hint)


def require_mergers(jvm: Any, job: Job) -> None:
    """Return if the session has the classes of a merger that the policy names: Hudi looks for them when the plan is carried out.

    Raises:
        EngineError: it lacks one.

    """
    from py4j.protocol import Py4JJavaError

    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    named = with_values({key: job.policy.hudi_options.get(key, "") for key in _CLASSES_OF_MERGERS}, os.environ)
    for option, name in ((option, name) for option, names in named.items() for name in names_in(names)):
        try:
            jvm.java.lang.Class.forName(name, False, loader)
        except Py4JJavaError as error:
            message = f"`{option}` of `{job.policy.name}` names `{name}`, a class that Spark's session does not have"
            hint = "name what has it in `packages` of the target, or its jar in the Spark conf spark.jars; or correct the name"
            raise EngineError(Code.HUDI_FAILED, message, hint=hint, cause=java_causes(error)) from error


def _writers_stream(job: Job) -> bool:
    declared = job.policy.hudi_options.get(STREAMING)
    if declared is not None:
        return declared.strip().lower() == "true"
    storage = open_reader(job.base_path)
    shown = read_until_stable(
        job.base_path, lambda: tuple(option_of_metadata_commits(storage, read_properties(storage)))
    )
    return any(one.value == "true" for one in shown)
