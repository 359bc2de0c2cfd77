"""Packages that Ivy cannot fetch: its own Java runs here, a repository on this machine is asked, and no session is started."""

import http.server
import os
import subprocess
import sys
import threading
import zipfile
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from etc_policy.errors import EngineError
from etc_policy.spark.fetching import jars_lacking, not_fetched, require_jars

_PACKAGE = "org.example:one:1.0"
_FOLDER = Path("org/example/one/1.0")
_POM = (
    "<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId>"
    "<artifactId>one</artifactId><version>1.0</version></project>"
)
#: Java with the packages, and no session: what `start_spark` does before it has one.
_LAUNCH = """
import sys
from contextlib import nullcontext
from pathlib import Path
from etc_policy.errors import EngineError
from etc_policy.spark import session
session.use_java()
session._session = lambda confs: "session"
ivy, log, *more = sys.argv[1:]
confs = {"spark.master": "local[1]", "spark.jars.packages": "org.example:one:1.0", "spark.jars.ivy": ivy}
try:
    print(session._start({**confs, **dict(one.split("=", 1) for one in more)}, Path(log), 60, print))
except EngineError as error:
    print(error.code, error, "hint:", error.hint, sep="\\n")
"""


@pytest.fixture
def repository(tmp_path):
    """A Maven repository with the package, as it answers over HTTP."""
    folder = tmp_path / "repository" / _FOLDER
    folder.mkdir(parents=True)
    (folder / "one-1.0.pom").write_text(_POM)
    with zipfile.ZipFile(folder / "one-1.0.jar", "w") as jar:
        jar.writestr("A.txt", "x")
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path / "repository"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture
def start(tmp_path):
    """What a start says whose user has a home below the test's folder."""

    def run(repository, *confs, **variables):
        environ = {key: value for key, value in os.environ.items() if "proxy" not in key.lower()}
        environ |= {
            "HOME": str(tmp_path / "home"),
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
            "JAVA_TOOL_OPTIONS": f"-Duser.home={tmp_path / 'home'}",
            "DEFAULT_ARTIFACT_REPOSITORY": repository,
            **variables,
        }
        command = [sys.executable, "-c", _LAUNCH, str(tmp_path / "ivy"), str(tmp_path / "spark.log"), *confs]
        return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=True).stdout

    return run


@pytest.fixture
def pom_alone(tmp_path):
    """The user's own Maven repository, with the POM of the package and not its jar."""
    folder = tmp_path / "home" / ".m2" / "repository" / _FOLDER
    folder.mkdir(parents=True)
    (folder / "one-1.0.pom").write_text(_POM)
    return folder


@pytest.mark.extended
def test_a_local_repository_with_the_pom_alone_is_passed_over(repository, start, pom_alone, tmp_path):
    said = start(repository)
    assert "one-1.0.jar` is missing, though its POM is there: fetching from the remote repository alone" in said
    assert said.splitlines()[-1] == "session"
    assert zipfile.is_zipfile(tmp_path / "ivy" / "jars" / "org.example_one-1.0.jar")
    assert start(repository) == "session\n"


@pytest.mark.extended
def test_so_is_what_ivy_remembers_of_one_that_is_gone(repository, start, pom_alone, tmp_path):
    nobody = "http://127.0.0.1:9/"
    said = start(nobody)
    assert f"`{pom_alone}` has its POM without the jar, which `{tmp_path / 'ivy' / 'cache'}` remembers" in said
    (pom_alone / "one-1.0.pom").unlink()
    assert start(repository).splitlines()[-1] == "session"


@pytest.mark.extended
def test_who_has_ivy_settings_is_told_what_to_remove(repository, start, pom_alone, tmp_path):
    settings = tmp_path / "ivy.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="local-m2-cache"/><resolvers><ibiblio name="local-m2-cache" '
        f'm2compatible="true" root="file:{tmp_path}/home/.m2/repository"/></resolvers></ivysettings>'
    )
    said = start(repository, f"spark.jars.ivySettings={settings}")
    assert "ETC303\nSpark could not fetch `org.example:one:1.0`" in said
    assert "hint:\nremove the package's folder in both" in said


@pytest.mark.extended
def test_a_mirror_in_sparks_settings_is_asked(repository, start):
    assert start("http://127.0.0.1:9/", f"spark.jars.repositories={repository}") == "session\n"


@pytest.mark.extended
def test_a_proxy_that_java_was_given_is_asked(repository, start, tmp_path):
    """The host has no address: the proxy alone finds it."""
    proxied = tmp_path / "repository" / "http:" / "maven.invalid"
    proxied.mkdir(parents=True)
    (tmp_path / "repository" / "org").rename(proxied / "org")
    port = urlsplit(repository).port
    options = f"-Duser.home={tmp_path / 'home'} -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort={port}"
    assert start("http://maven.invalid/", JAVA_TOOL_OPTIONS=options) == "session\n"


@pytest.mark.extended
@pytest.mark.parametrize("master", ["local[1]", "local-cluster[1,1,1024]"])
def test_without_a_network_a_jar_that_is_given_is_enough(start, tmp_path, master):
    """On a cluster Spark sends it to executors."""
    jar = tmp_path / "one.jar"
    with zipfile.ZipFile(jar, "w") as written:
        written.writestr("A.txt", "x")
    given = (f"spark.master={master}", "spark.jars.packages=", f"spark.jars={jar}")
    assert start("http://127.0.0.1:9/", *given) == "session\n"


def test_where_nobody_answers_one_error_says_so(start):
    said = start("http://127.0.0.1:9/")
    assert said.splitlines()[0] == "ETC303"
    assert "Spark could not fetch `org.example:one:1.0`\n" in said
    assert "Server access error" in said
    assert "127.0.0.1:9" in said
    assert "name one by the Spark conf spark.jars.repositories" in said


LOG = ":: resolving dependencies :: x\n[unresolved dependency: org.example#one;1.0: not found]\n"


def refused(monkeypatch, tmp_path, confs=None, **variables):
    for name in (
        "HTTPS_PROXY",
        "https_proxy",
        "HTTP_PROXY",
        "http_proxy",
        "ALL_PROXY",
        "all_proxy",
        "JAVA_TOOL_OPTIONS",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return not_fetched(LOG, confs or {})


def test_a_proxy_that_java_does_not_read(monkeypatch, tmp_path):
    error = refused(monkeypatch, tmp_path, HTTPS_PROXY="http://u:hunter2@proxy:3128")
    assert error.message == f"Spark could not fetch `{_PACKAGE}`"
    assert error.hint.startswith('Java does not read HTTPS_PROXY: export JAVA_TOOL_OPTIONS="-Dhttps.proxyHost=HOST')
    assert "hunter2" not in error.hint


def test_a_proxy_that_java_was_given(monkeypatch, tmp_path):
    given = {"HTTPS_PROXY": "http://proxy:3128", "JAVA_TOOL_OPTIONS": "-Dhttps.proxyHost=proxy"}
    assert refused(monkeypatch, tmp_path, **given).hint.startswith("let this machine reach a Maven repository")


def test_a_mirror_in_mavens_settings_is_not_read_by_spark(monkeypatch, tmp_path):
    (tmp_path / ".m2").mkdir()
    (tmp_path / ".m2" / "settings.xml").write_text(
        "<settings><mirrors><mirror><url>x</url></mirror></mirrors></settings>"
    )
    assert refused(monkeypatch, tmp_path).hint.startswith("Spark does not read Maven's settings: name the mirror by")


def test_another_failure_is_not_of_packages():
    assert not_fetched('Exception in thread "main" org.apache.spark.SparkException: Master must be yarn', {}) is None
    assert jars_lacking("\t\t[NOT FOUND  ] a#b;1!b.jar (3ms)\n\n\t==== central: tried\n\n\t  http://x/b.jar") == ()


def test_a_jar_that_is_given_must_be_there_and_whole(tmp_path):
    (tmp_path / "half.jar").write_bytes(b"PK\x03\x04")
    with zipfile.ZipFile(tmp_path / "whole.jar", "w") as jar:
        jar.writestr("A.txt", "x")
    whole = tmp_path / "whole.jar"
    require_jars(f"{whole},file:{whole},file://{whole},hdfs://nn/b.jar,local:/opt/b.jar,/opt/*.jar,")
    for name, fault in (("half.jar", "is not a whole jar"), ("none.jar", "is not there")):
        with pytest.raises(EngineError, match=f"{name}` {fault}"):
            require_jars(f"{whole},{tmp_path / name}")
