"""Spark's packages that were not fetched: again, past a local Maven repository that lacks their jars, or the cause."""

from __future__ import annotations

import os
import re
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from xml.sax.saxutils import quoteattr

from etc_policy.errors import EngineError
from etc_policy.errors.codes import Code
from etc_policy.spark.ivy_jars import ivy_folder

SETTINGS = "spark.jars.ivySettings"
#: A repository on this machine described a package, so that Ivy asks it alone for the jar, which it has not.
_LACKING = re.compile(r"\[NOT FOUND  \] \S+ \(\d+ms\)\s+==== local-(?:m2|ivy)-cache: tried\s+(?:file:)?(\S+)")
#: Ivy's words for a package that nobody described, and for one whose jar did not arrive.
_NOT_FETCHED = re.compile(r"(?:unresolved dependency|download failed): ([^#\s\]]+)#([^;\s\]]+);([^!:\s\],]+)")
_TRY_BEGINS = ":: resolving dependencies ::"
_NO_ANSWER = "Server access error"
_PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
_BY_HAND = "give jars that were fetched elsewhere: ETC_HUDI_BUNDLE names the bundle's, the Spark conf spark.jars others"


def jars_lacking(log: str) -> tuple[str, ...]:
    """The jars that a local repository was found to lack, though it has their POMs, in what Ivy printed."""
    return tuple(dict.fromkeys(_LACKING.findall(log)))


@contextmanager
def repositories_alone(confs: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    """Settings by which Ivy asks no repository of this machine.

    What its cache remembers of such a one counts no more either: its resolvers have other names. What it fetches then is
    remembered in its place, so that later starts, those of any Spark too, find the jar.
    """
    root = os.environ.get("DEFAULT_ARTIFACT_REPOSITORY")  # as Spark's own settings read it
    place = f" root={quoteattr(root)}" if root else ""
    with tempfile.NamedTemporaryFile("w", suffix=".xml", encoding="utf-8") as settings:
        settings.write(
            '<ivysettings><settings defaultResolver="repositories"/><resolvers><chain name="repositories">'
            f'<ibiblio name="repository" m2compatible="true"{place}/></chain></resolvers></ivysettings>\n'
        )
        settings.flush()
        yield {**confs, SETTINGS: settings.name}


def not_fetched(log: str, confs: Mapping[str, str]) -> EngineError | None:
    """Why packages could not be fetched, by what Ivy printed; None where that is not why Spark did not start."""
    last_try = log.rpartition(_TRY_BEGINS)[2]
    packages = dict.fromkeys(":".join(found) for found in _NOT_FETCHED.findall(last_try))
    if not packages:
        return None
    message = f"Spark could not fetch {', '.join(f'`{package}`' for package in packages)}"
    if lacking := jars_lacking(log):
        cache = ivy_folder(confs, os.environ) / "cache"
        message += f": `{Path(lacking[0]).parent}` has its POM without the jar, which `{cache}` remembers"
    cause = next((line.strip() for line in last_try.splitlines() if _NO_ANSWER in line), None)
    return EngineError(Code.SPARK_DID_NOT_START, message, hint=_hint(confs, has_pom_alone=bool(lacking)), cause=cause)


def _hint(confs: Mapping[str, str], *, has_pom_alone: bool) -> str:
    if has_pom_alone and SETTINGS in confs:
        return "remove the package's folder in both, or let the Ivy settings name no repository of this machine"
    java_options = os.environ.get("JAVA_TOOL_OPTIONS", "") + confs.get("spark.driver.extraJavaOptions", "")
    proxy = next((name for name in _PROXIES if os.environ.get(name)), None)
    if proxy and "proxyHost" not in java_options:
        options = "-Dhttps.proxyHost=HOST -Dhttps.proxyPort=PORT"
        return f'Java does not read {proxy}: export JAVA_TOOL_OPTIONS="{options}", or {_BY_HAND}'
    if _has_maven_mirror():
        return f"Spark does not read Maven's settings: name the mirror by the Spark conf spark.jars.repositories, or {_BY_HAND}"
    return (
        f"let this machine reach a Maven repository, name one by the Spark conf spark.jars.repositories, or {_BY_HAND}"
    )


def _has_maven_mirror() -> bool:
    try:
        return "<mirror>" in (Path.home() / ".m2" / "settings.xml").read_text("utf-8", errors="replace")
    except (OSError, RuntimeError):
        return False


def require_jars(jars: str) -> None:
    """Check the jars on this machine among those of `spark.jars`: Spark itself goes on without one that is not there.

    Raises:
        EngineError: one is not there, or is not a whole jar.

    """
    for jar in jars.split(","):
        path = Path(jar.removeprefix("file://").removeprefix("file:"))
        if not jar or re.match(r"[a-z][\w+.-]+:", str(path)) or "*" in jar or zipfile.is_zipfile(path):
            continue
        fault = "is not a whole jar" if path.exists() else "is not there"
        hint = "correct ETC_HUDI_BUNDLE, the target's `bundle`, or the Spark conf spark.jars"
        raise EngineError(Code.SPARK_DID_NOT_START, f"the jar `{jar}` {fault}", hint=hint)
