"""What this machine has for running Spark with Hudi: versions and paths, without starting anything."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from etc_policy.errors import TableError, install_hint
from etc_policy.hudi.zones import local_zone
from etc_policy.spark.bundles import BUNDLE_NAME
from etc_policy.spark.ivy_jars import ivy_folder, kept_jar
from etc_policy.spark.java_runtime import find_java, java_fault, spark_extra, spark_variables
from etc_policy.spark.session import DEFAULT_BUNDLE
from etc_policy.storage.object_cache import cache_folder, kept_in
from etc_policy.table.formats import count_of, format_bytes
from etc_policy.verify.diagnosis import Finding, finding

_finding = partial(finding, "machine")


def machine_findings(bundle: str | None, confs: Mapping[str, str], environ: Mapping[str, str]) -> tuple[Finding, ...]:
    """Python, Java, Spark, Great Expectations and the Hudi bundle; `bundle` and Spark's `confs` are those of the target."""
    found = installed("pyspark")
    return (
        _finding("python", "ok", f"Python {platform.python_version()}"),
        _java(environ),
        _spark(found, environ.get("SPARK_HOME")),
        _zone(),
        _package("gx", "great-expectations", "verification at level `data`"),
        _package("pyarrow", "pyarrow", "archived commits and Parquet log blocks"),
        _bundle(environ.get("ETC_HUDI_BUNDLE") or bundle or DEFAULT_BUNDLE, found, ivy_folder(confs, environ)),
        _variables(environ),
        _cache(environ),
    )


def installed(package: str) -> str | None:
    """The version of an installed package."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _java(environ: Mapping[str, str]) -> Finding:
    java = find_java(environ)
    if (fault := java_fault(java)) is not None:
        return _finding("java", "error", *fault)
    if java is None or java.major is None:
        return _finding(
            "java", "ok", "Java of unknown version" + (f" from {java.source} ({java.home})" if java else "")
        )
    return _finding("java", "ok", f"Java {java.version} from {java.source}")


def _zone() -> Finding:
    try:
        return _finding("time zone", "ok", local_zone())
    except TableError as error:
        message = f"{error.message}: no table whose instants are in local time can be read"
        return _finding("time zone", "warn", message, error.hint)


def _spark(found: str | None, home: str | None) -> Finding:
    if home and not _is_file(Path(home) / "bin" / "spark-submit"):
        message = f"SPARK_HOME names `{home}`, which has no bin/spark-submit"
        return _finding("spark", "error", message, "correct SPARK_HOME, or unset it and take PySpark's own")
    if home and (version := _version_of(Path(home))) and not version.startswith("3.5."):
        message = f"SPARK_HOME names Spark {version}: there is a Hudi bundle for 3.5 only"
        return _finding("spark", "error", message, "name a Spark 3.5, or unset SPARK_HOME and take PySpark's own")
    if found is None:
        return _finding("spark", "error", "PySpark is not installed", install_hint(spark_extra()))
    if not found.startswith("3.5."):
        hint = 'run `pip install "pyspark>=3.5,<4"`'
        return _finding("spark", "error", f"PySpark {found}: there is a Hudi bundle for 3.5 only", hint)
    return _finding("spark", "ok", f"PySpark {found}")


def _version_of(home: Path) -> str | None:
    """The version of a Spark, by the name of its core's jar; None where it does not show."""
    jars = sorted((home / "jars").glob("spark-core_*.jar"))
    return jars[0].stem.partition("-")[2].rpartition("-")[2] if jars else None


def _package(check: str, name: str, need: str) -> Finding:
    found = installed(name)
    if found is None:
        return _finding(check, "warn", f"{name} is not installed: {need} will not work", install_hint(spark_extra()))
    return _finding(check, "ok", f"{name} {found}, for {need}")


def _bundle(bundle: str, spark: str | None, ivy: Path) -> Finding:
    named = BUNDLE_NAME.search(bundle)
    if bundle.endswith(".jar") and not _is_file(Path(bundle)):
        return _finding(
            "bundle", "error", f"there is no file `{bundle}`", "correct ETC_HUDI_BUNDLE or the target's `bundle`"
        )
    if named is None:
        return _finding(
            "bundle", "warn", f"`{bundle}` is not named as a Hudi bundle for Spark", "is it one for Spark 3.5?"
        )
    if spark is not None and not spark.startswith(f"{named['spark']}."):
        hint = f"take the bundle for Spark {'.'.join(spark.split('.')[:2])}"
        return _finding("bundle", "error", f"the bundle is for Spark {named['spark']}, PySpark is {spark}", hint)
    is_kept = _is_file(kept_jar(bundle, ivy))
    fetched = "fetched before" if is_kept else "fetched from Maven Central when Spark first starts"
    place = bundle if bundle.endswith(".jar") else fetched
    return _finding("bundle", "ok", f"Hudi {named['hudi']} for Spark {named['spark']} ({place})")


def _variables(environ: Mapping[str, str]) -> Finding:
    """What decides how Spark starts without being in any file of the project; values may hold secrets."""
    found = spark_variables(environ)
    arguments = environ.get("PYSPARK_SUBMIT_ARGS", "")
    if arguments and arguments.split()[-1:] != ["pyspark-shell"]:
        hint = "end it with `pyspark-shell`, or unset it"
        return _finding(
            "variables", "error", "PYSPARK_SUBMIT_ARGS does not end with `pyspark-shell`: Spark will not start", hint
        )
    if not found:
        return _finding("variables", "ok", "none is set that decides how Spark starts")
    return _finding("variables", "ok", f"set, and decide how Spark starts: {', '.join(found)}")


def _cache(environ: Mapping[str, str]) -> Finding:
    folder = cache_folder(environ)
    if folder is None:
        return _finding("cache", "ok", "nothing is kept in your home")
    kept = kept_in(folder)
    size, files = sum(one.size_bytes for one in kept), sum(len(one.files) for one in kept)
    return _finding(
        "cache", "ok", f"{folder}: {format_bytes(size)} in {count_of(files, 'file')} (`etc cache clear` removes them)"
    )


def _is_file(path: Path) -> bool:
    """Whether there is a file that this user may look at."""
    with suppress(OSError):
        return path.is_file()
    return False
