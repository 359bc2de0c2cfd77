"""Jars that Spark fetched before: on this machine they go on Java's own class path.

Given as packages they are looked up by Ivy and copied to a scratch folder each time that Spark starts: seconds for jars of
hundreds of megabytes. So what a first run resolved is kept, and trusted as long as each file is as it was.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from etc_policy.adapters.outputs.files import write_below
from etc_policy.adapters.spark.java_runtime import spark_defaults, user_cache
from etc_policy.adapters.storage.below import folder_of, open_regular

_JARS, _PACKAGES = "spark.jars", "spark.jars.packages"
#: What `spark-submit` puts at the end of Java's class path.
LAST_JARS = "SPARK_DIST_CLASSPATH"
#: What decides which jars the packages are, beside the packages themselves.
_DECIDE = (_PACKAGES, "spark.jars.excludes", "spark.jars.ivy", "spark.jars.ivySettings", "spark.jars.repositories")
#: Who fetches packages has so long; then others begin too.
_FETCH_SECONDS, _POLL_SECONDS = 600, 0.2


@contextmanager
def on_class_path(confs: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    """Settings for a Java that starts meanwhile: known jars are on its class path, after Spark's own, as Spark would look.

    They are known where Spark runs in the driver alone and each file is as it was; a version that may change (`SNAPSHOT`)
    never is. Whoever has defaults for all of Spark's sessions gets what Spark makes of them.
    """
    jars = _jars_of(confs) if _may_be_known(confs) else None
    if jars is None:
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


@contextmanager
def fetching_alone(confs: Mapping[str, str], progress: Callable[[str], None] = lambda _: None) -> Iterator[None]:
    """Meanwhile no other process of this user fetches packages: Ivy fails where two download the same jar at once."""
    if not confs.get(_PACKAGES):
        yield
        return
    handle = None
    with suppress(OSError):  # where nothing can be kept, there is no turn either
        folder, _ = _place(confs)
        folder.mkdir(parents=True, exist_ok=True)
        with folder_of(folder, "packages.lock", make=False) as (opened, name):
            handle = open_regular(opened, name, os.O_RDWR | os.O_CREAT)
    try:
        if handle is not None:
            _wait_for(handle, progress)
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _wait_for(handle: int, progress: Callable[[str], None]) -> None:
    end, is_said = time.monotonic() + _FETCH_SECONDS, False
    while time.monotonic() < end:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not is_said:
                progress("waiting for another process of this user, which fetches Spark's packages")
                is_said = True
            time.sleep(_POLL_SECONDS)
        except OSError:  # a file system without locks
            return
        else:
            return


def remember_jars(confs: Mapping[str, str], session: Any) -> None:  # noqa: ANN401 - a SparkSession
    """Keep which jars the packages of these settings are, by what Java has loaded beside the user's own jars.

    The session's `spark.jars` does not say: PySpark puts the user's own jars there again, and the fetched ones are lost.
    """
    if not _may_be_known(confs) or not confs.get(_PACKAGES):
        return
    own = set(confs.get(_JARS, "").split(","))
    with suppress(OSError):  # then the next session resolves them again
        sizes = {jar: Path(jar).stat().st_size for jar in _loaded(session) if jar not in own}
        folder, name = _place(confs)
        write_below(folder, name, json.dumps(sizes).encode("utf-8"))


def _loaded(session: Any) -> list[str]:  # noqa: ANN401
    loader = session.sparkContext._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return [unquote(urlsplit(url.toString()).path) for url in loader.getURLs()]


def _may_be_known(confs: Mapping[str, str]) -> bool:
    master = confs["spark.master"]
    in_driver_alone = master == "local" or master.startswith("local[")
    return in_driver_alone and "SNAPSHOT" not in confs.get(_PACKAGES, "") and not spark_defaults().exists()


def _jars_of(confs: Mapping[str, str]) -> list[str] | None:
    own = [jar for jar in confs.get(_JARS, "").split(",") if jar]
    if any("://" in jar or not Path(jar).is_file() for jar in own):
        return None
    if not confs.get(_PACKAGES):
        return own or None
    try:
        folder, name = _place(confs)
        sizes: dict[str, int] = json.loads((folder / name).read_bytes())
        is_same = bool(sizes) and all(Path(jar).stat().st_size == size for jar, size in sizes.items())
    except (OSError, ValueError, AttributeError):
        return None
    return [*own, *sizes] if is_same and all(map(zipfile.is_zipfile, sizes)) else None


def _place(confs: Mapping[str, str]) -> tuple[Path, str]:
    """Where the jars of these settings are kept: a folder of this user, and a file's name in it.

    Raises:
        OSError: the user has no home.

    """
    decisive = json.dumps([confs.get(key) for key in _DECIDE])
    folder = user_cache()
    if folder is None:
        raise OSError("the user has no home")
    return folder, f"packages-{hashlib.sha256(decisive.encode()).hexdigest()[:16]}.json"
