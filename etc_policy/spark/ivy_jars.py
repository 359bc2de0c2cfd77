"""Jars that Spark's Ivy fetched before: on this machine they go on Java's own class path.

Given as packages they are looked up by Ivy and copied to a scratch folder each time that Spark starts, which takes seconds.
Only a Hudi bundle is looked for, as it needs no other jar: what other packages need, Ivy alone knows.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from etc_policy.spark.java_runtime import spark_defaults, user_cache
from etc_policy.storage.safe_files import folder_of, open_regular

_JARS, _PACKAGES = "spark.jars", "spark.jars.packages"
#: What `spark-submit` puts at the end of Java's class path.
LAST_JARS = "SPARK_DIST_CLASSPATH"
_BUNDLE = re.compile(r"org\.apache\.hudi:hudi-spark[\d.]+-bundle_[\d.]+:(?!.*SNAPSHOT)[\w.-]+")


def ivy_folder(confs: Mapping[str, str], environ: Mapping[str, str]) -> Path:
    """Where Spark keeps what it has fetched: below the home that Java knows, which is the system's and not HOME."""
    if "spark.jars.ivy" in confs:
        return Path(confs["spark.jars.ivy"])
    home = ""
    with suppress(KeyError):  # a container may run as a user that the system does not know
        home = pwd.getpwuid(os.getuid()).pw_dir
    return Path(home if len(home) > 1 else environ.get("HOME", "/")) / ".ivy2"


def kept_jar(coordinates: str, ivy: Path) -> Path:
    """Where Ivy keeps the jar of a package that it has fetched."""
    return ivy / "jars" / f"{coordinates.replace(':', '_', 1).replace(':', '-')}.jar"


@contextmanager
def on_class_path(confs: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    """Settings for a Java that starts meanwhile: jars that are there are on its class path, after Spark's own.

    So it is where Spark runs in the driver alone. Whoever has defaults for all of Spark's sessions, or settings of Ivy's,
    gets what Spark makes of them.
    """
    jars = _jars_of(confs)
    if not jars:
        yield confs
        return
    before = os.environ.get(LAST_JARS)
    os.environ[LAST_JARS] = os.pathsep.join([*([before] if before else []), *jars])
    try:
        yield {key: value for key, value in confs.items() if not key.startswith(_JARS)}
    finally:
        if before is None:
            del os.environ[LAST_JARS]
        else:
            os.environ[LAST_JARS] = before


def _jars_of(confs: Mapping[str, str]) -> list[str]:
    """The user's own jars and the bundle; none where one of them is not a whole jar on this machine, or may not be all."""
    master, bundle = confs["spark.master"], confs.get(_PACKAGES, "")
    in_driver_alone = master == "local" or master.startswith("local[")
    if not in_driver_alone or "spark.jars.ivySettings" in confs or spark_defaults().exists():
        return []
    jars = [jar for jar in confs.get(_JARS, "").split(",") if jar]
    if bundle:
        jars.append(str(kept_jar(bundle, ivy_folder(confs, os.environ))) if _BUNDLE.fullmatch(bundle) else "")
    return jars if all(map(zipfile.is_zipfile, jars)) else []  # one that is being copied has no end yet


@contextmanager
def fetching_alone(confs: Mapping[str, str], progress: Callable[[str], None] = lambda _: None) -> Iterator[None]:
    """Meanwhile no other process of this user fetches packages: Ivy fails where two download the same jar at once."""
    with ExitStack() as stack:
        cache = user_cache()
        if confs.get(_PACKAGES) and cache is not None:
            with suppress(OSError):  # where nothing can be kept or locked, there is no turn either
                cache.mkdir(parents=True, exist_ok=True)
                with folder_of(cache, "packages.lock", make=False) as (folder, name):
                    handle = open_regular(folder, name, os.O_RDWR | os.O_CREAT)
                stack.callback(os.close, handle)
                _lock(handle, progress)
        yield


def _lock(handle: int, progress: Callable[[str], None]) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        progress("waiting for another process of this user, which fetches Spark's packages")
        fcntl.flock(handle, fcntl.LOCK_EX)
