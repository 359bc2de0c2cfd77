"""Java's archive of classes: what a run is told, and that Java takes what is made."""

import os
import subprocess
import time
from types import SimpleNamespace

import pytest

from etc_policy.adapters.spark import class_archive
from etc_policy.adapters.spark.class_archive import JAVA_OPTIONS, note_class_path, with_archive
from etc_policy.adapters.spark.java_runtime import use_java

CONFS = {JAVA_OPTIONS: "-Da=b", "spark.master": "local[2]"}
LISTS, USES = "-XX:DumpLoadedClassList=", "-XX:SharedArchiveFile="


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A Spark of one jar, a cache of its own, and the Java of this machine."""
    use_java()
    jars = tmp_path / "spark" / "jars"
    jars.mkdir(parents=True)
    (jars / "a.jar").write_bytes(b"a")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("SPARK_DIST_CLASSPATH", "ETC_CACHE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "cache" / "etc-policy"


@pytest.fixture
def begun(monkeypatch):
    """What was begun in processes of their own."""
    commands = []
    monkeypatch.setattr(class_archive.subprocess, "Popen", lambda command, **_: commands.append(command))
    return commands


def option():
    """What Java is told beside what it was told before."""
    before, _, added = with_archive(CONFS)[JAVA_OPTIONS].partition(" ")
    assert before == CONFS[JAVA_OPTIONS]
    return added


def path_in(told):
    return class_archive.Path(told.partition("=")[2])


def listed(content="java/lang/Object id: 0\n", class_path="", age=60):
    """A run that lists its classes, and has ended some seconds ago."""
    told = option()
    assert told.startswith(LISTS)
    java = SimpleNamespace(lang=SimpleNamespace(System=SimpleNamespace(getProperty=lambda _: class_path)))
    note_class_path({JAVA_OPTIONS: f"-Da=b {told} -Dc=d"}, SimpleNamespace(_jvm=SimpleNamespace(java=java)))
    path_in(told).write_text(content)
    os.utime(path_in(told), (time.time() - age,) * 2)
    return path_in(told)


def test_the_first_run_lists_its_classes_and_the_next_has_the_archive_made_once(cache, begun):
    listed()
    assert option() == ""
    assert option() == ""
    ((_, flag, module, folder, key, java),) = begun
    assert (flag, module, folder) == ("-m", "etc_policy.adapters.spark.class_archive", str(cache))
    assert (cache / f"classes-{key}.tried").exists()
    assert os.access(java, os.X_OK)


def test_an_archive_that_could_not_be_made_is_tried_again_a_day_later(cache, begun):
    listed()
    option()
    (tried,) = cache.glob("*.tried")
    os.utime(tried, (time.time() - 25 * 3600,) * 2)
    option()
    assert len(begun) == 2


def test_a_run_that_may_still_list_is_waited_for(cache, begun):
    listed(age=0)
    assert option().startswith(LISTS)
    assert not begun


def test_an_archive_that_is_there_is_used_and_one_that_nobody_uses_goes(cache, begun):
    path = listed()
    archive = cache / f"{path.stem.rpartition('-')[0]}.jsa"
    archive.write_bytes(b"classes")
    assert option() == f"{USES}{archive}"
    assert not begun
    archive.rename(cache / "classes-other.jsa")
    os.utime(cache / "classes-other.jsa", (time.time() - 31 * 24 * 3600,) * 2)
    option()
    assert not list(cache.glob("*.jsa"))


def test_other_jars_need_another_archive(cache, tmp_path, monkeypatch):
    names = {path_in(option()).name}
    monkeypatch.setenv("SPARK_DIST_CLASSPATH", str(tmp_path / "spark" / "jars" / "a.jar"))
    names.add(path_in(option()).name)
    (tmp_path / "spark" / "jars" / "b.jar").write_bytes(b"b")
    names.add(path_in(option()).name)
    assert len(names) == 3


@pytest.mark.parametrize("release", ['JAVA_VERSION="11.0.2"', 'JAVA_VERSION="17.0.1"\nJVM_VARIANT="OpenJ9"', "", None])
def test_a_java_that_makes_none_is_told_nothing(cache, tmp_path, monkeypatch, release):
    (tmp_path / "java" / "bin").mkdir(parents=True)
    (tmp_path / "java" / "bin" / "java").touch()
    if release is not None:
        (tmp_path / "java" / "release").write_text(release)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    assert with_archive(CONFS) == CONFS


def test_a_cache_that_cannot_be_written_to_is_done_without(cache):
    cache.parent.mkdir()
    cache.write_text("not a folder")
    assert with_archive(CONFS) == CONFS


def test_whoever_keeps_nothing_has_no_archive(cache, monkeypatch):
    monkeypatch.setenv("ETC_CACHE", "off")
    assert with_archive(CONFS) == CONFS


def test_a_cache_whose_path_java_would_split_is_done_without(tmp_path, cache, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "my cache"))
    assert with_archive(CONFS) == CONFS


def archive_of(path):
    return class_archive.ClassArchive(path.parent, path.stem.split("-")[1], class_archive._java())


def test_java_takes_what_is_made(cache, tmp_path, monkeypatch):
    """By the list of a Java that does next to nothing; `-Xshare:on` fails where the archive does not fit."""
    java, jar = class_archive._java(), tmp_path / "b.jar"
    jar.write_bytes(bytes.fromhex("504b0506") + bytes(18))
    content = tmp_path / "classes"
    subprocess.run([java, f"{LISTS}{content}", "-cp", jar, "-version"], check=True, capture_output=True)
    path = listed(content.read_text(), str(jar))
    archive_of(path).tried.touch()
    assert not archive_of(path).make()  # too short a list
    assert not path.exists() and not archive_of(path).tried.exists()
    path = listed(content.read_text(), str(jar))
    monkeypatch.setattr(class_archive, "_LEAST_CLASSES", 100)
    assert archive_of(path).make()
    assert [one.suffix for one in sorted(cache.iterdir())] == [".jsa", ".path"]
    used = [java, option(), "-Xshare:on", "-cp", jar, "-version"]
    assert subprocess.run(used, capture_output=True).returncode == 0


def test_a_list_that_java_does_not_take_leaves_no_archive(cache, monkeypatch):
    path = listed("no class\n" * 3)
    monkeypatch.setattr(class_archive, "_LEAST_CLASSES", 1)
    monkeypatch.setattr(class_archive, "_MAKE", ("-Xshare:no-such-thing",))
    assert not archive_of(path).make()
    assert not list(cache.glob("*.jsa")) + list(cache.glob("*.draft"))
