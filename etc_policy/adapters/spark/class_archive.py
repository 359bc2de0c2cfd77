"""The classes of Spark and Hudi as Java has loaded and checked them once, in an archive that later runs map into memory.

Some 15,000 classes are loaded for the smallest run, which is half of what it takes of the processor. So one run lists
the classes that it loads, the next has the archive made of them in a process of its own, beside its work and behind all
other work of the machine, and every later one uses it (Java's class-data sharing). Java itself does without an archive
that does not fit it or its jars.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from etc_policy.adapters.outputs.files import write_below
from etc_policy.adapters.spark.ivy_jars import LAST_JARS
from etc_policy.adapters.spark.java_runtime import spark_home
from etc_policy.adapters.storage.object_cache import cache_folder

#: What Java is given, as `spark.driver.extraJavaOptions` names it.
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
#: From this version on Java makes archives of classes that are not its own without being unlocked.
_LEAST_JAVA = 17
#: A shorter list is of a run that ended before it did anything.
_LEAST_CLASSES = 10_000
#: A list that was written to lately may be of a Java that runs.
_QUIET_SECONDS = 10
#: An archive that could not be made is tried again after so long, and one that nobody used goes after so long.
_AGAIN_SECONDS, _UNUSED_SECONDS = 24 * 3600, 30 * 24 * 3600
_MAKE = ("-Xshare:dump", "-XX:+UseSerialGC", "-Xmx1g")


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive of a Java and its class path, and what it is made of; `java` is the program."""

    folder: Path
    key: str
    java: Path

    @property
    def path(self) -> Path:
        """The archive."""
        return self._named(".jsa")

    @property
    def class_path(self) -> Path:
        """A file with the class path as Java itself says it: the archive holds for this one alone."""
        return self._named(".path")

    @property
    def tried(self) -> Path:
        """Since when somebody makes the archive."""
        return self._named(".tried")

    def lists(self) -> Iterator[Path]:
        """What runs have listed that have ended."""
        for path in sorted(self.folder.glob(f"classes-{self.key}-*.list")):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > _QUIET_SECONDS:
                    yield path

    def new_list(self) -> Path:
        """Where this run's Java lists its classes."""
        return self._named(f"-{os.getpid()}.list")

    def make(self) -> bool:
        """Make the archive of the longest list, and remove the lists; whether there is one now."""
        lists = sorted(self.lists(), key=lambda path: path.stat().st_size)
        if not lists or lists[-1].read_bytes().count(b"\n") < _LEAST_CLASSES:
            self._remove([*lists, self.tried])
            return False
        draft = self._named(f"-{os.getpid()}.draft")
        files = (f"-XX:SharedClassListFile={lists[-1]}", f"-XX:SharedArchiveFile={draft}")
        command = [str(self.java), *_MAKE, *files, "-cp", self.class_path.read_text(encoding="utf-8")]
        quiet = subprocess.DEVNULL
        done = subprocess.run(command, stdin=quiet, stdout=quiet, stderr=quiet, check=False).returncode == 0
        if done and draft.exists():
            draft.replace(self.path)
            self._remove([*lists, self.tried])
        self._remove([draft])
        return self.path.exists()

    def _named(self, ending: str) -> Path:
        return self.folder / f"classes-{self.key}{ending}"

    @staticmethod
    def _remove(paths: list[Path]) -> None:
        for path in paths:
            path.unlink(missing_ok=True)


def with_archive(confs: Mapping[str, str]) -> Mapping[str, str]:
    """The settings with which a Java that has all jars on its class path uses the archive, or lists its classes for one.

    They are as they were where Java can do neither.
    """
    option, folder = None, cache_folder(os.environ)
    with suppress(OSError):  # the cache cannot be used
        archive = None if folder is None else _archive_of(spark_home(), os.environ.get(LAST_JARS, ""), folder)
        option = None if archive is None else _option(archive)
    return confs if option is None else {**confs, JAVA_OPTIONS: f"{confs[JAVA_OPTIONS]} {option}"}


def note_class_path(confs: Mapping[str, str], session: Any) -> None:  # noqa: ANN401 - a SparkSession
    """Keep Java's class path beside the list of classes that it writes, if it writes one."""
    _, found, rest = confs.get(JAVA_OPTIONS, "").partition("-XX:DumpLoadedClassList=")
    if found:
        path = Path(rest.split(" ")[0])
        known = session._jvm.java.lang.System.getProperty("java.class.path")
        with suppress(OSError):
            write_below(path.parent, f"{path.stem.rpartition('-')[0]}.path", known.encode("utf-8"))


def _option(archive: ClassArchive) -> str | None:
    if archive.path.is_file():
        os.utime(archive.path)
        return f"-XX:SharedArchiveFile={archive.path}"
    if archive.class_path.is_file() and any(archive.lists()):
        _begin_to_make(archive)
        return None
    archive.folder.mkdir(parents=True, exist_ok=True)
    return f"-XX:DumpLoadedClassList={archive.new_list()}"


def _begin_to_make(archive: ClassArchive) -> None:
    """In a process of its own, which goes on when this one ends; once a day at most, so that no two do."""
    with suppress(FileExistsError):
        if archive.tried.exists() and time.time() - archive.tried.stat().st_mtime > _AGAIN_SECONDS:
            archive.tried.unlink()
        archive.tried.touch(exist_ok=False)
        for old in archive.folder.glob("classes-*.jsa"):
            if time.time() - old.stat().st_mtime > _UNUSED_SECONDS:
                old.unlink()
        command = [sys.executable, "-m", __name__, str(archive.folder), archive.key, str(archive.java)]
        quiet = subprocess.DEVNULL
        subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True, cwd="/")


def _archive_of(home: Path, jars: str, folder: Path) -> ClassArchive | None:
    """Whatever decides which classes there are is in the key; None where Java cannot have an archive, or not by such a name."""
    java = _java()
    version = "" if java is None else _version_of(java)
    if java is None or not version or any(one in str(folder) for one in " \t\"'\\"):
        return None
    own = sorted((one.name, one.stat().st_size, one.stat().st_mtime_ns) for one in (home / "jars").iterdir())
    others = [(one, Path(one).stat().st_mtime_ns) for one in jars.split(os.pathsep) if one]
    decisive = repr((str(java), version, str(home), own, others))
    return ClassArchive(folder, hashlib.sha256(decisive.encode()).hexdigest()[:16], java)


def _java() -> Path | None:
    """The program that Spark starts."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    return Path(found).resolve() if found else None


def _version_of(java: Path) -> str:
    """What Java says about itself in its own folder; empty where it makes no such archives."""
    try:
        release = (java.parents[1] / "release").read_text(encoding="utf-8", errors="replace")
    except (OSError, IndexError):
        return ""
    pairs = dict(line.split("=", 1) for line in release.splitlines() if "=" in line)
    major = pairs.get("JAVA_VERSION", "").strip('"').split(".")[0].split("-")[0]
    return release if major.isdigit() and int(major) >= _LEAST_JAVA and "openj9" not in release.lower() else ""


if __name__ == "__main__":
    os.nice(19)
    ClassArchive(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])).make()
