import os
import re
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from etc_policy.spark import ivy_jars, java_runtime, machine
from etc_policy.spark.machine import machine_findings
from etc_policy.storage.object_cache import ObjectCache


def look(check, bundle=None, confs=None, **variables):
    found = {f.check: f for f in machine_findings(bundle, confs or {}, {"PATH": "", **variables})}
    return found[check]


def java(folder, text):
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").write_text("")
    (folder / "release").write_text(text)
    return str(folder)


class TestSparkHome:
    def spark(self, folder, version):
        (folder / "bin").mkdir(parents=True)
        (folder / "bin" / "spark-submit").write_text("")
        (folder / "jars").mkdir()
        (folder / "jars" / f"spark-core_2.12-{version}.jar").write_text("")
        return str(folder)

    def test_one_that_is_no_spark(self, tmp_path):
        found = look("spark", SPARK_HOME=str(tmp_path / "nosuch"))
        assert (found.status, "which has no bin/spark-submit" in found.message) == ("error", True)
        assert "unset it" in found.hint

    def test_versions(self, tmp_path):
        for version, status in (("3.5.1", "ok"), ("3.4.2", "error"), ("4.0.0", "error")):
            found = look("spark", SPARK_HOME=self.spark(tmp_path / version, version))
            assert (found.status, version in found.message) == (status, status == "error")


def test_variables_that_decide_how_spark_starts():
    assert look("variables").message == "none is set that decides how Spark starts"
    found = look("variables", HADOOP_CONF_DIR="/etc/hadoop", PYSPARK_SUBMIT_ARGS="--conf a=secret pyspark-shell")
    assert (found.status, found.message.endswith(": PYSPARK_SUBMIT_ARGS, HADOOP_CONF_DIR")) == ("ok", True)
    assert look("variables", PYSPARK_SUBMIT_ARGS="--master yarn").status == "error"


def test_what_is_kept_in_the_home_is_said(tmp_path):
    ObjectCache(tmp_path).put("a", b"content")
    assert re.search(r"[\d.]+ (B|KiB) in 1 file", look("cache", ETC_CACHE=str(tmp_path)).message)
    assert look("cache", ETC_CACHE="off").message == "nothing is kept in your home"


def test_a_time_zone_that_is_not_known(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlni")
    found = look("time zone")
    assert (found.status, found.hint) == ("warn", "did you mean `Europe/Berlin`?")
    monkeypatch.setenv("TZ", "Europe/Berlin")
    assert (look("time zone").status, look("time zone").message) == ("ok", "Europe/Berlin")


class TestJava:
    def test_versions(self, tmp_path):
        numbers = (
            ("17.0.9", "ok"),
            ("11.0.2", "ok"),
            ("1.8.0_292", "error"),
            ("17-ea", "ok"),
            ("1.8", "error"),
            ("25-ea+3", "error"),
        )
        for number, status in numbers:
            home = java(tmp_path / number, f'IMPLEMENTOR="x"\nJAVA_VERSION="{number}"\n')
            found = look("java", JAVA_HOME=home)
            assert (found.status, f"Java {number}" in found.message) == (status, True)

    def test_a_version_that_is_no_number_is_unknown(self, tmp_path):
        found = look("java", JAVA_HOME=java(tmp_path / "own", 'JAVA_VERSION="internal"\n'))
        assert (found.status, "Java of unknown version" in found.message) == ("ok", True)

    def test_a_home_without_java(self, tmp_path):
        assert look("java", JAVA_HOME=str(tmp_path)).status == "error"

    def test_that_of_the_path_is_found_through_links(self, tmp_path):
        home = java(tmp_path / "jvm", 'JAVA_VERSION="11.0.2"\n')
        os.chmod(f"{home}/bin/java", 0o755)
        (tmp_path / "usr").mkdir()
        (tmp_path / "usr" / "java").symlink_to(f"{home}/bin/java")
        found = look("java", PATH=str(tmp_path / "usr"))
        assert (found.status, "Java 11.0.2 from the PATH" in found.message) == ("ok", True)

    def test_none(self, monkeypatch):
        monkeypatch.setattr(java_runtime.importlib.util, "find_spec", lambda name: None)
        found = look("java")
        assert (found.status, "pip install" in found.hint) == ("error", True)


@pytest.mark.parametrize(
    ("bundle", "status", "said"),
    [
        ("org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0", "ok", "Hudi 1.2.0 for Spark 3.5"),
        ("org.apache.hudi:hudi-spark3.4-bundle_2.12:1.2.0", "error", "for Spark 3.4, PySpark is 3.5."),
        ("/nowhere/hudi-spark3.5-bundle_2.12-1.0.2.jar", "error", "there is no file"),
        ("org.example:other:1", "warn", "not named as a Hudi bundle"),
    ],
)
def test_bundle(bundle, status, said):
    found = look("bundle", bundle)
    assert (found.status, said in found.message) == (status, True)


def test_the_environment_s_bundle_wins(tmp_path):
    jar = tmp_path / "org.apache.hudi_hudi-spark3.5-bundle_2.12-1.0.2.jar"
    jar.write_bytes(b"")
    assert "Hudi 1.0.2" in look("bundle", "org.example:other:1", ETC_HUDI_BUNDLE=str(jar)).message


def cached(folder):
    """The default bundle, in a folder as Spark keeps it."""
    (folder / "jars").mkdir(parents=True)
    (folder / "jars" / "org.apache.hudi_hudi-spark3.5-bundle_2.12-1.2.0.jar").write_bytes(b"")
    return folder


class TestFetchedBundle:
    """Java takes its home from the system's list of users, not from HOME."""

    @pytest.fixture(autouse=True)
    def user(self, tmp_path, monkeypatch):
        monkeypatch.setattr(ivy_jars.pwd, "getpwuid", lambda _: SimpleNamespace(pw_dir=str(tmp_path / "user")))

    def test_in_the_user_s_home_whatever_home_says(self, tmp_path):
        cached(tmp_path / "user" / ".ivy2")
        assert "(fetched before)" in look("bundle", HOME=str(tmp_path / "other")).message

    def test_in_home_alone_it_is_not_found(self, tmp_path):
        cached(tmp_path / "other" / ".ivy2")
        assert "fetched from Maven Central" in look("bundle", HOME=str(tmp_path / "other")).message

    @pytest.mark.parametrize("known", ["", "/"])
    def test_in_home_where_the_system_knows_no_home(self, tmp_path, monkeypatch, known):
        monkeypatch.setattr(ivy_jars.pwd, "getpwuid", lambda _: SimpleNamespace(pw_dir=known))
        cached(tmp_path / "other" / ".ivy2")
        assert "(fetched before)" in look("bundle", HOME=str(tmp_path / "other")).message

    def test_in_home_where_the_system_does_not_know_the_user(self, tmp_path, monkeypatch):
        def unknown(_):
            raise KeyError

        monkeypatch.setattr(ivy_jars.pwd, "getpwuid", unknown)
        cached(tmp_path / "other" / ".ivy2")
        assert "(fetched before)" in look("bundle", HOME=str(tmp_path / "other")).message

    def test_where_the_target_keeps_ivy_s_files(self, tmp_path):
        confs = {"spark.jars.ivy": str(cached(tmp_path / "ivy"))}
        assert "(fetched before)" in look("bundle", confs=confs).message


@pytest.mark.parametrize(("version", "status"), [("3.5.9", "ok"), ("4.0.1", "error"), (None, "error")])
def test_spark(monkeypatch, version, status):
    monkeypatch.setattr(machine, "installed", lambda name: version)
    assert look("spark").status == status
    assert look("gx").status == ("warn" if version is None else "ok")


def test_the_extra_that_the_hints_name_installs_what_is_looked_for():
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert "etc-policy[spark]" in extras["local"]
    for name in ("pyspark", "great-expectations", "pyarrow"):
        assert any(requirement.startswith(f"{name}>=") for requirement in extras["spark"]), name
