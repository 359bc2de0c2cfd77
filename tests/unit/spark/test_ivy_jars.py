"""Which jars go on Java's class path; Spark itself is not started here."""

import os
import threading
import zipfile
from pathlib import Path

import pytest

from etc_policy.spark.ivy_jars import fetching_alone, on_class_path

LAST = "SPARK_DIST_CLASSPATH"
BUNDLE = "org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0"


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    monkeypatch.delenv(LAST, raising=False)


def jar_at(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("A.class", "x" * 100)
    return path


@pytest.fixture
def bundle(tmp_path):
    """The bundle as Ivy keeps it."""
    return jar_at(tmp_path / "ivy" / "jars" / "org.apache.hudi_hudi-spark3.5-bundle_2.12-1.2.0.jar")


@pytest.fixture
def confs(tmp_path):
    return {
        "spark.master": "local[2]",
        "spark.jars.packages": BUNDLE,
        "spark.jars.excludes": "c:d",
        "spark.jars.ivy": str(tmp_path / "ivy"),
        "spark.app.name": "etc",
    }


def class_path(confs):
    """The class path that Java would get at its end, None where Spark resolves the packages."""
    with on_class_path(confs) as launched:
        found = os.environ.get(LAST)
        assert (launched == confs) == (found is None)
        assert found is None or not any(key.startswith("spark.jars") for key in launched)
        assert launched["spark.app.name"] == "etc"
    return found


def test_a_bundle_that_was_fetched_before_is_not_resolved_again(bundle, confs):
    assert class_path(confs) == str(bundle)
    assert LAST not in os.environ
    assert class_path({**confs, "spark.jars.packages": BUNDLE.replace("1.2.0", "1.1.1")}) is None


def test_jars_of_the_users_come_before_it(bundle, confs, tmp_path):
    mine = jar_at(tmp_path / "mine.jar")
    assert class_path({**confs, "spark.jars": str(mine)}) == os.pathsep.join(map(str, [mine, bundle]))


def test_a_class_path_of_the_users_comes_first(bundle, confs, monkeypatch):
    monkeypatch.setenv(LAST, "/mine/*")
    with on_class_path(confs):
        assert os.environ[LAST] == os.pathsep.join(["/mine/*", str(bundle)])
    assert os.environ[LAST] == "/mine/*"


@pytest.mark.parametrize("master", ["local-cluster[2,1,1024]", "yarn", "spark://127.0.0.1:7077"])
def test_executors_elsewhere_fetch_it(bundle, confs, master):
    assert class_path({**confs, "spark.master": master}) is None


def test_defaults_for_all_of_sparks_sessions_are_left_to_spark(bundle, confs, tmp_path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.jars /mine.jar\n")
    assert class_path(confs) is None


def test_settings_of_ivy_are_left_to_ivy(bundle, confs):
    assert class_path({**confs, "spark.jars.ivySettings": "/ivy.xml"}) is None


@pytest.mark.parametrize("damage", ["gone", "not all copied yet", "of equal size"])
def test_a_file_that_is_no_whole_jar_is_resolved(bundle, confs, damage):
    match damage:
        case "gone":
            bundle.unlink()
        case "not all copied yet":
            bundle.write_bytes(bundle.read_bytes()[:-30])
        case _:
            bundle.write_bytes(bytes(bundle.stat().st_size))
    assert class_path(confs) is None


@pytest.mark.parametrize("more", [",org.apache.hadoop:hadoop-aws:3.3.4", ",", "-SNAPSHOT"])
def test_ivy_alone_knows_what_other_packages_need_and_whether_a_version_changed(bundle, confs, more):
    name = f"{BUNDLE}{more}"
    jar_at(bundle.with_name(f"{name.replace(':', '_', 1).replace(':', '-')}.jar"))
    assert class_path({**confs, "spark.jars.packages": name}) is None


def test_a_package_that_is_no_bundle_of_hudi(bundle, confs):
    jar_at(bundle.with_name("org.apache.hadoop_hadoop-aws-3.3.4.jar"))
    assert class_path({**confs, "spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.3.4"}) is None


def test_a_jar_that_the_user_names_needs_no_ivy(bundle):
    confs = {"spark.master": "local", "spark.jars": str(bundle), "spark.app.name": "etc"}
    assert class_path(confs) == str(bundle)
    assert class_path({**confs, "spark.jars": "hdfs://host/b.jar"}) is None
    assert class_path({**confs, "spark.jars": "/missing.jar"}) is None
    assert class_path({**confs, "spark.jars.packages": "a:b:9"}) is None


def begun_beside(confs, other, seconds=0.6, progress=lambda _: None):
    """Whether another fetch begins while one is under way, and whether it does afterwards."""
    begun = threading.Event()

    def fetch():
        with fetching_alone(other, progress):
            begun.set()

    thread = threading.Thread(target=fetch)
    with fetching_alone(confs):
        thread.start()
        meanwhile = begun.wait(seconds)
    thread.join(10)
    return meanwhile, begun.is_set()


def test_packages_are_fetched_by_one_process_at_a_time(confs):
    said = []
    assert begun_beside(confs, {**confs, "spark.jars.packages": "d:e:1"}, progress=said.append) == (False, True)
    assert said == ["waiting for another process of this user, which fetches Spark's packages"]


def test_who_fetches_nothing_waits_for_nobody(confs):
    assert begun_beside(confs, {"spark.master": "local[2]"}) == (True, True)


def test_where_nothing_can_be_kept_nobody_waits(confs, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert begun_beside(confs, confs) == (True, True)


def test_a_user_without_a_home_waits_for_nobody(confs, monkeypatch):
    """As in a container under a number that no user has."""

    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    assert begun_beside(confs, confs) == (True, True)
