"""The one Spark session: stock Spark, stock Hudi bundle, on this machine or on the cluster that the options name."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from etc_policy.errors import EngineError, RetryableError, TableError
from etc_policy.errors.codes import Code
from etc_policy.hudi.zones import local_zone
from etc_policy.plan.bundles import DEFAULT_RELEASE, bundle_of
from etc_policy.policy.quantities import DEFAULT_CLUSTER_TIMEOUT_MS
from etc_policy.policy.secrets import REDACTION, SECRET_SETTING, is_secret_setting
from etc_policy.spark.cluster import (
    answered_within,
    is_local,
    is_loopback,
    require_executor,
    require_master,
    watch_executors,
)
from etc_policy.spark.fetching import SETTINGS, jars_lacking, not_fetched, repositories_alone, require_jars
from etc_policy.spark.interrupts import end_java_when_stuck, why_java_ended
from etc_policy.spark.ivy_jars import fetching_alone, on_class_path
from etc_policy.spark.java_runtime import (
    STARTED_BY_SUBMIT,
    naming_all_files,
    pyspark_folder,
    spark_variables,
    use_java,
)
from etc_policy.spark.pinned_settings import pin_settings
from etc_policy.storage.safe_files import folder_of, open_regular

DEFAULT_BUNDLE = bundle_of(DEFAULT_RELEASE)

_LOG_LINES_SHOWN = 12
#: So long Java has to end by itself.
_END_SECONDS = 30
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_WAREHOUSE = "spark.sql.warehouse.dir"
#: Java's quick compiler alone: its other one keeps a core busy for longer than a small table takes.
_QUICK_COMPILER = "-XX:TieredStopAtLevel=1"
#: The collector of garbage that takes least of the processor; Java does not start with two of them.
_COLLECTOR, _COLLECTS = "-XX:+UseParallelGC", re.compile(r"-XX:\+Use\w*GC")
#: Where else Java and Spark look for options.
_JAVA_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
#: Lines of the JVM's log that name no cause: stack frames, and what it also says when all goes well.
_NOISE = re.compile(
    r"\tat |[\d/]+ [\d:]+ (WARN|INFO) |\\?:: |\t(\||---|confs: |found |\d+ artifacts)|Setting default log level|To adjust log"
)

#: Where jars are fetched from, and Java's own options.
_AT_START = (
    *("spark.jars", "spark.jars.packages", "spark.jars.repositories", "spark.jars.ivySettings"),
    *("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions", "spark.driver.extraClassPath"),
)

#: On one machine nothing of Spark listens on the network; Hudi does for some indexes (facts: timeline-server-needed).
_LOCAL = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}

#: Hudi 1.2 makes no client else (facts: speculation-refused).
_NO_SPECULATION = {"spark.speculation": "false"}
_DEFAULTS = {
    "spark.app.name": "etc",
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "4",
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    "spark.sql.session.timeZone": "UTC",
    **_NO_SPECULATION,
    REDACTION: SECRET_SETTING,
}


def start_spark(
    options: Mapping[str, str] | None = None,
    log: Path | None = None,
    bundle: str | None = None,
    packages: Sequence[str] = (),
    cluster_seconds: float = DEFAULT_CLUSTER_TIMEOUT_MS / 1000,
    *,
    is_brief: bool = False,
    progress: Callable[[str], None] = lambda _: None,
    step: str = "",
) -> Any:
    """A SparkSession with the Hudi bundle; `options` are Spark confs that win over the defaults.

    The bundle is `ETC_HUDI_BUNDLE` (a jar's path or Maven coordinates), else `bundle` (the same), else version 1.2.0
    from Maven Central; `packages` are Maven coordinates of what is loaded beside it. All that the JVM prints goes to the
    file `log`, or to standard error without one; never to standard output. Options whose names mark them as secrets are
    not arguments of the JVM's process. A cluster has `cluster_seconds` to answer, and again as long to give an executor.
    Where `is_brief` says that little is to be done, Java on this machine does not spend its time on making code fast.
    `progress` hears what is waited for, at first a `step`, once all is there that Spark needs of this machine.

    Raises:
        EngineError: PySpark or Java is missing, the log cannot be written, or Spark did not start.
        RetryableError: the cluster does not answer, or gives no executor in time.

    """
    pyspark_folder()
    confs = _confs(options or {}, use_java(), bundle, packages)
    if is_brief:
        confs = _brief(confs, options or {})
    if STARTED_BY_SUBMIT in os.environ:
        confs = _within_submit(confs)
    else:
        require_jars(confs.get("spark.jars", ""))
    master = confs["spark.master"]
    require_master(master)
    if step:
        progress(step)
    session = _start(confs, log, cluster_seconds, progress)
    pin_settings(session)
    session.sparkContext.setLogLevel(os.environ.get("ETC_SPARK_LOG_LEVEL", "ERROR"))
    _load_hudi(session)
    if not is_local(master):
        require_executor(session, master, cluster_seconds)
        watch_executors(session, cluster_seconds)
    _end_own_java_when_stuck(session.sparkContext)
    return session


class _OwnJava:
    """The Java that this process has started, and the jars with which it began: it has no others as long as it lives."""

    gateway: ClassVar[Any] = None
    jars: ClassVar[tuple[str | None, ...]] = ()


def may_start_java() -> bool:
    """Whether this process may have a Java with other jars: not where spark-submit or somebody's PySpark has started one."""
    return _gateway() in (None, _OwnJava.gateway) and STARTED_BY_SUBMIT not in os.environ


def _end_own_java_when_stuck(context: Any) -> None:
    if may_start_java():  # one that somebody else has started may idle, and no other is started in its place
        end_java_when_stuck(context)


def java_has_died() -> bool:
    """Whether the Java that this process has started is gone, so that its session fails at whatever it is asked."""
    gateway = _gateway()
    if gateway is None or gateway is not _OwnJava.gateway:
        return False
    if why_java_ended() is not None:  # it was killed a moment ago
        gateway.proc.wait()
    return gateway.proc.poll() is not None


def _gateway() -> Any:
    """PySpark's way to its Java; None before there is one."""
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    return None if context is None else context._gateway


def _jars_in(confs: Mapping[str, str]) -> tuple[str | None, ...]:
    return confs.get("spark.jars"), confs.get("spark.jars.packages")


def _end_unfit_java(confs: Mapping[str, str]) -> bool:
    """Whether this process's own Java was ended, which has died, or has other jars and no session any more."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None or gateway is not _OwnJava.gateway:
        return False
    is_idle = SparkContext._active_spark_context is None
    if gateway.proc.poll() is None and not (is_idle and _OwnJava.jars != _jars_in(confs)):
        return False
    with suppress(Exception):  # it may have died
        gateway.shutdown()
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()
    # a context whose Java has died cannot be stopped, and stays the active one
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    return True


def _start(
    confs: Mapping[str, str],
    log: Path | None,
    cluster_seconds: float,
    progress: Callable[[str], None],
) -> Any:
    from pyspark import SparkContext

    has_ended = _end_unfit_java(confs)
    is_first = SparkContext._gateway is None
    # Before Spark starts: a log that cannot be opened holds the words of an earlier run.
    output = _open_log(log, fresh=is_first and not has_ended) if log else os.dup(2)
    try:
        with on_class_path(confs) if is_first else nullcontext(confs) as launched:
            with fetching_alone(launched, progress):
                _launch_past_lacking(launched, output, log, progress)
            if is_first:
                _OwnJava.gateway, _OwnJava.jars = SparkContext._gateway, _jars_in(confs)
            with _jvm_output_to(output), answered_within(confs["spark.master"], cluster_seconds):
                return _session(launched)
    except RetryableError:
        raise
    except Exception as error:
        if refused := not_fetched(_text_of(log), confs):
            raise refused from error
        hint = f"the whole log is in {log}" if log else "the lines above are Spark's"
        if variables := spark_variables(os.environ):
            hint += f"; {' and '.join(variables)} decide how Spark starts: unset what is not meant for it"
        cause = "\n".join(_last_lines(log)) or str(error)
        raise EngineError(Code.SPARK_DID_NOT_START, "Spark did not start", hint=hint, cause=cause) from error
    finally:
        os.close(output)


def _launch_past_lacking(
    confs: Mapping[str, str], output: int, log: Path | None, progress: Callable[[str], None]
) -> None:
    """Start the JVM; where a local Maven repository has a package's POM without its jar, again without that repository."""
    try:
        with _jvm_output_to(output):
            _launch(confs)
    except Exception:
        lacking = jars_lacking(_text_of(log))
        if not lacking or SETTINGS in confs:
            raise
        progress(f"`{lacking[0]}` is missing, though its POM is there: fetching from the remote repository alone")
        with repositories_alone(confs) as remote, _jvm_output_to(output):
            _launch(remote)


def _session(confs: Mapping[str, str]) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for key, value in confs.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _brief(confs: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The settings for little work; Java's options that are given stay as they are."""
    if not is_local(confs["spark.master"]) or JAVA_OPTIONS in given:
        return dict(confs)
    return {**confs, JAVA_OPTIONS: f"{confs[JAVA_OPTIONS]} {_QUICK_COMPILER}"}


def _launch(confs: Mapping[str, str]) -> None:
    """Start the JVM without secrets: PySpark makes every option an argument, which any user of the machine can list."""
    from pyspark import SparkConf, SparkContext

    if SparkContext._gateway is None:
        plain = SparkConf(loadDefaults=False)
        plain.setAll(list(_without_secrets(confs).items()))
        with naming_all_files():
            SparkContext._ensure_initialized(conf=plain)


def _without_secrets(confs: Mapping[str, str]) -> dict[str, str]:
    """The settings less secrets; of those that the JVM needs as it starts the name alone decides: later comes too late."""
    judged = ((key, value, "" if key in _AT_START else value) for key, value in confs.items())
    plain = {key: value for key, value, looked_at in judged if not is_secret_setting(key, looked_at)}
    with suppress(re.error):  # Java's form of a user's own
        hidden = re.compile(confs.get(REDACTION, SECRET_SETTING))
        return {key: value for key, value in plain.items() if key in _AT_START or not hidden.search(key)}
    return plain


@cache
def submitted_confs() -> Mapping[str, str]:
    """The settings of the spark-submit that has started this process, its jars on YARN as elsewhere; none without one."""
    if STARTED_BY_SUBMIT not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    submitted = dict(SparkConf().getAll())
    jars = {"spark.jars": jars} if (jars := submitted.get("spark.yarn.dist.jars")) else {}
    return {**jars, **submitted}


def _within_submit(confs: Mapping[str, str]) -> dict[str, str]:
    """The settings that spark-submit, which started this process, does not have; its own win, and its jars are loaded.

    But for speculation: a cluster's defaults turn it on for all jobs, and the session is only made here.
    """
    submitted = submitted_confs()
    kept = {key: value for key, value in confs.items() if key not in submitted and not key.startswith("spark.jars")}
    return {**kept, **_NO_SPECULATION, "spark.master": submitted.get("spark.master", confs["spark.master"])}


def _load_hudi(session: Any) -> None:
    """Load a class of Hudi 1.2 before anything else is: it compares schemas by identity, and the first one seen counts.

    If a write handle of the metadata table comes first, every write to any metadata table fails as long as this Java
    process lives (`ArrayIndexOutOfBoundsException: Index 9 out of bounds for length 7`).

    Raises:
        EngineError: there is no Hudi among the jars of Spark, which says so in its log alone.

    """
    from py4j.protocol import Py4JError

    jvm = session._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    with suppress(Py4JError):  # Java that has died says so later
        try:
            jvm.java.lang.Class.forName("org.apache.hudi.metadata.HoodieMetadataPayload", True, loader)
        except Py4JError as error:
            if "ClassNotFoundException" not in str(error):
                raise
            message = "Spark has started without Hudi: no bundle is among its jars"
            raise EngineError(Code.SPARK_DID_NOT_START, message, hint=_bundle_hint()) from error


def _bundle_hint() -> str:
    if STARTED_BY_SUBMIT in os.environ:
        return f"submit with `--packages {DEFAULT_BUNDLE}`, or with its jar among `--jars`"
    return (
        "the Spark confs spark.jars and spark.jars.packages name the bundle too where one of them is given: add it there; else "
        "correct ETC_HUDI_BUNDLE or the target's `bundle`"
    )


def session_confs(given: Mapping[str, str], scratch: Path | None = None) -> dict[str, str]:
    """All of Spark's settings as `start_spark` makes them of those that are given; `scratch` is for what Spark writes unasked."""
    return _confs(given, use_java(), None, scratch=scratch)


def _confs(
    given: Mapping[str, str],
    trust_store: str | None,
    bundle: str | None = None,
    packages: Sequence[str] = (),
    scratch: Path | None = None,
) -> dict[str, str]:
    """Spark's settings: what is given wins; a cluster gets no loopback address, and a given bundle stays alone."""
    confs = {**_DEFAULTS, **_driver_options(trust_store, scratch or _own_scratch())}
    master = given.get("spark.master", confs["spark.master"])
    if is_local(master) or is_loopback(master):
        confs |= _LOCAL
    if not is_local(master):
        del confs["spark.sql.shuffle.partitions"]  # Spark's own, which it makes fewer where rows are few
    is_given = not {"spark.jars", "spark.jars.packages"}.isdisjoint(given)
    confs |= _jars("" if is_given else os.environ.get("ETC_HUDI_BUNDLE") or bundle or DEFAULT_BUNDLE, packages)
    return {**confs, **given}


@contextmanager
def _jvm_output_to(target: int) -> Iterator[None]:
    """While open, children inherit this file as their output: the JVM prints warnings there (facts: jvm-prints-to-stdout)."""
    kept = (os.dup(1), os.dup(2))
    try:
        os.dup2(target, 1)
        os.dup2(target, 2)
        yield
    finally:
        for number, descriptor in enumerate(kept, start=1):
            os.dup2(descriptor, number)
            os.close(descriptor)


def _open_log(log: Path, *, fresh: bool) -> int:
    """The log, empty if `fresh`: a second session writes on in the log of its JVM. It is not a link to another file.

    Raises:
        EngineError: it cannot be written.

    """
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with folder_of(log.parent, log.name, make=False) as (folder, name):
            handle = open_regular(folder, name, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        if fresh:
            os.ftruncate(handle, 0)
    except OSError as error:
        message, hint = f"cannot write Spark's log `{log}`", "name another place by `--target-dir`"
        raise EngineError(Code.CANNOT_WRITE, message, hint=hint, cause=str(error)) from error
    return handle


def _last_lines(log: Path | None) -> list[str]:
    """The end of the JVM's log, less the stack frames and what is no more than a warning."""
    return [line for line in _text_of(log).splitlines() if line.strip() and not _NOISE.match(line)][-_LOG_LINES_SHOWN:]


def _text_of(log: Path | None) -> str:
    """The JVM's log; nothing where it has none, or a link is in its place."""
    if log is None or log.is_symlink() or not log.is_file():
        return ""
    return log.read_text("utf-8", errors="replace")


def _jars(bundle: str, packages: Sequence[str]) -> dict[str, str]:
    """What Spark loads: a bundle, by its path or its coordinates, and packages beside it."""
    jar = {"spark.jars": bundle} if bundle.endswith(".jar") else {}
    coordinates = [*([bundle] if bundle and not jar else []), *packages]
    if not coordinates:
        return jar
    excluded = "org.apache.hive:hive-storage-api,org.slf4j:slf4j-api"
    return {**jar, "spark.jars.packages": ",".join(coordinates), "spark.jars.excludes": excluded}


@cache
def _own_scratch() -> Path:
    """A folder of this process alone, which goes with it: others may make what has a known name in a folder that all share."""
    folder, process = tempfile.mkdtemp(prefix="etc-spark-"), os.getpid()

    def remove() -> None:
        if os.getpid() == process:  # not a copy of it
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return Path(folder)


def _quoted(option: str) -> str:
    """An option of Java as Spark reads it among others."""
    return f'"{option}"' if " " in option else option


def _driver_options(trust_store: str | None, scratch: Path) -> dict[str, str]:
    java = ["-Djdk.attach.allowAttachSelf=true", _quoted(f"-Dderby.system.home={scratch}")]
    with suppress(TableError):  # a machine that does not name its zone: Java may find one
        # else Java may take another than the planner (facts: local-is-java-zone)
        java.append(f"-Duser.timezone={local_zone()}")
    if not any(_COLLECTS.search(os.environ.get(name, "")) for name in _JAVA_VARIABLES):
        java.append(_COLLECTOR)
    if trust_store:
        java += [f"-Djavax.net.ssl.trustStore={trust_store}", "-Djavax.net.ssl.trustStorePassword=changeit"]
    return {JAVA_OPTIONS: " ".join(java), _WAREHOUSE: str(scratch / "warehouse")}
