"""Which jars go on Java's class path; Spark itself is not started here."""

import json
import os
import threading
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from etc_policy.adapters.spark.known_jars import fetching_alone, on_class_path, remember_jars

LAST = "SPARK_DIST_CLASSPATH"
CONFS = {
    "spark.master": "local[2]",
    "spark.jars.packages": "a:b:1",
    "spark.jars.excludes": "c:d",
    "spark.app.name": "etc",
}


class Session:
    """What Spark has made of packages: its settings name the user's own jars alone, where there are some."""

    def __init__(self, jars):
        urls = [SimpleNamespace(toString=f"file:{jar}".__str__) for jar in jars]
        thread = SimpleNamespace(getContextClassLoader=lambda: SimpleNamespace(getURLs=lambda: urls))
        threads = SimpleNamespace(currentThread=lambda: thread)
        self.sparkContext = SimpleNamespace(
            _jvm=SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(Thread=threads)))
        )


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    monkeypatch.delenv(LAST, raising=False)


def jar_at(path):
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("A.class", "x" * 100)
    return path


@pytest.fixture
def jars(tmp_path):
    """Two jars that a first session has resolved."""
    found = [jar_at(tmp_path / "a b.jar"), jar_at(tmp_path / "c.jar")]
    remember_jars(CONFS, Session([str(found[0]).replace(" ", "%20"), found[1]]))
    return found


def class_path(confs):
    """The class path that Java would get at its end, None where Spark resolves the packages."""
    with on_class_path(confs) as launched:
        found = os.environ.get(LAST)
        assert (launched == confs) == (found is None)
        assert found is None or not any(key.startswith("spark.jars") for key in launched)
        assert launched["spark.app.name"] == "etc"
    return found


def test_the_first_session_resolves_and_the_next_one_does_not(jars):
    assert class_path(CONFS) == os.pathsep.join(map(str, jars))
    assert LAST not in os.environ
    assert class_path({**CONFS, "spark.jars.packages": "a:b:2"}) is None


def test_jars_of_the_users_are_loaded_beside_what_was_fetched(jars, tmp_path):
    mine, other = jar_at(tmp_path / "mine.jar"), jar_at(tmp_path / "other.jar")
    confs = {**CONFS, "spark.jars": str(mine), "spark.jars.packages": "a:b:3"}
    remember_jars(confs, Session([mine, *(str(jar).replace(" ", "%20") for jar in jars)]))
    assert class_path(confs) == os.pathsep.join(map(str, [mine, *jars]))
    assert class_path({**confs, "spark.jars": str(other)}) == os.pathsep.join(map(str, [other, *jars]))


def test_a_class_path_of_the_users_comes_first(jars, monkeypatch):
    monkeypatch.setenv(LAST, "/mine/*")
    with on_class_path(CONFS):
        assert os.environ[LAST] == os.pathsep.join(["/mine/*", *map(str, jars)])
    assert os.environ[LAST] == "/mine/*"


@pytest.mark.parametrize("master", ["local-cluster[2,1,1024]", "yarn", "spark://127.0.0.1:7077"])
def test_executors_elsewhere_fetch_them(jars, master):
    assert class_path({**CONFS, "spark.master": master}) is None


def test_defaults_for_all_of_sparks_sessions_are_left_to_spark(jars, tmp_path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.jars /mine.jar\n")
    assert class_path(CONFS) is None


@pytest.mark.parametrize("damage", ["gone", "truncated", "of equal size"])
def test_a_file_that_is_not_as_it_was_is_resolved_again(jars, damage):
    match damage:
        case "gone":
            jars[1].unlink()
        case "truncated":
            jars[1].write_bytes(jars[1].read_bytes()[:-30])
        case _:
            jars[1].write_bytes(bytes(jars[1].stat().st_size))
    assert class_path(CONFS) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"/a": null}', "\udcff"])
def test_a_damaged_note_of_them_is_made_anew(jars, tmp_path, text):
    (note,) = (tmp_path / "cache" / "etc-policy").iterdir()
    note.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert class_path(CONFS) is None
    remember_jars(CONFS, Session(jars))
    assert json.loads(note.read_text()) == {str(jar): jar.stat().st_size for jar in jars}


def test_a_version_that_may_change_is_never_known(jars):
    confs = {**CONFS, "spark.jars.packages": "a:b:1-SNAPSHOT"}
    remember_jars(confs, Session(jars))
    assert class_path(confs) is None


def test_a_jar_that_the_user_names_needs_no_session_before(jars):
    confs = {"spark.master": "local", "spark.jars": str(jars[0]), "spark.app.name": "etc"}
    assert class_path(confs) == str(jars[0])
    assert class_path({**confs, "spark.jars": "hdfs://host/b.jar"}) is None
    assert class_path({**confs, "spark.jars": "/missing.jar"}) is None
    assert class_path({**confs, "spark.jars.packages": "a:b:9"}) is None


def test_where_nothing_can_be_kept_each_session_resolves(tmp_path):
    (tmp_path / "cache").write_text("a file")
    remember_jars(CONFS, Session([jar_at(tmp_path / "a.jar")]))
    assert class_path(CONFS) is None


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


def test_packages_are_fetched_by_one_process_at_a_time():
    said = []
    assert begun_beside(CONFS, {**CONFS, "spark.jars.packages": "d:e:1"}, progress=said.append) == (False, True)
    assert said == ["waiting for another process of this user, which fetches Spark's packages"]


def test_who_fetches_nothing_waits_for_nobody():
    assert begun_beside(CONFS, {"spark.master": "local[2]"}) == (True, True)


def test_where_nothing_can_be_kept_nobody_waits(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert begun_beside(CONFS, CONFS) == (True, True)


def test_who_takes_too_long_is_not_waited_for(monkeypatch):
    monkeypatch.setattr("etc_policy.adapters.spark.known_jars._FETCH_SECONDS", 0.2)
    assert begun_beside(CONFS, CONFS) == (True, True)


def test_a_user_without_a_home_resolves_each_time_and_waits_for_nobody(tmp_path, monkeypatch):
    """As in a container under a number that no user has."""

    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    remember_jars(CONFS, Session([jar_at(tmp_path / "a.jar")]))
    assert class_path(CONFS) is None
    assert begun_beside(CONFS, CONFS) == (True, True)
