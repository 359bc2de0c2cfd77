"""The Spark session of a command: started late, with the target's settings, and with a catalog only where one is asked."""

from __future__ import annotations

import os
import shlex
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from etc_policy.errors import EngineError, EtcError, RetryableError, TableError
from etc_policy.errors.codes import Code
from etc_policy.plan.bundles import DEFAULT_RELEASE, best_release, bundle_of, release_for
from etc_policy.policy.locations import S3_SCHEMES, Allowed, is_local
from etc_policy.policy.project_schema import Folders, Target
from etc_policy.policy.secrets import with_hidden, with_values

if TYPE_CHECKING:
    from etc_policy.policy.manifest import Policy
    from etc_policy.table.state import TableState

_CATALOG = "spark.sql.catalogImplementation"
#: Up to so much data Java's quick compiler alone is faster in all, measured (benchmarks/README.md).
_BRIEF_BYTES = 64 * 2**20
#: So large Spark's log may grow before `etc run` empties it.
MAX_LOG_BYTES = 64 << 20
#: So long Spark is not started again with a bundle by which it did not start.
_FAILED_SECONDS = 30.0


class _FailedStart(NamedTuple):
    """Why Spark did not start, which holds for a while; of any bundle where the cluster did not answer."""

    until: float
    bundle: str
    error: EngineError | RetryableError

    def again(self, bundle: str) -> EtcError | None:
        """The error of a start with a bundle now; None where it may be tried."""
        holds = isinstance(self.error, RetryableError) or bundle == self.bundle
        return _copy(self.error) if holds and time.monotonic() < self.until else None


def _copy(error: EngineError | RetryableError) -> EngineError | RetryableError:
    """The same error of no table, which holds nothing of the start."""
    return type(error)(error.code, error.message, hint=error.hint, cause=error.cause)


@dataclass
class SparkSessions:
    """One Spark session at most, started when first asked for, with one release of Hudi.

    Its settings are those of `target`, over which `spark_options` win. Up to `jobs` tables are read at once, without Spark,
    and up to `compaction_jobs` are compacted at once, in this one session. `reaches_s3` says that a table lies there: then
    the session gets a client for it, and the target's way to reach it. `folders` are the project's own, in `project_dir`.
    """

    project_dir: Path
    progress: Callable[[str], None]
    spark_options: Mapping[str, str] = field(default_factory=dict)
    spark_log: Path | None = None
    metadata_only: bool = False
    target: Target = field(default_factory=Target)
    folders: Folders = field(default_factory=Folders)
    catalog_dir: Path | None = None
    ends_java_on_interrupt: bool = False
    jobs: int = 1
    compaction_jobs: int = 1
    reaches_s3: bool = False
    #: What the files of a stranger may reach; None where they are trusted.
    allowed: Allowed | None = None
    #: Why no verb takes a table that a namespace found, or may find, by its location.
    refused: dict[str, EtcError] = field(default_factory=dict)
    #: The running session; None before it is asked for.
    session: Any = field(default=None, repr=False, compare=False)
    _failed_start: _FailedStart | None = field(init=False, default=None, repr=False, compare=False)
    _data_bytes: dict[str, int] = field(init=False, default_factory=dict, repr=False, compare=False)
    _mergings: dict[str, str] = field(init=False, default_factory=dict, repr=False, compare=False)
    _releases: dict[str, str | None] = field(init=False, default_factory=dict, repr=False, compare=False)
    _release: str | None = field(init=False, default=None, repr=False, compare=False)
    _loaded: str | None = field(init=False, default=None, repr=False, compare=False)
    _unread_is_new: threading.Lock = field(init=False, default_factory=threading.Lock, repr=False, compare=False)
    _starting: threading.RLock = field(init=False, default_factory=threading.RLock, repr=False, compare=False)

    @property
    def spark(self) -> Any:  # noqa: ANN401 - a SparkSession, imported late
        """The Spark session; starting it takes seconds, so it is announced. Threads share it, each with jobs of its own."""
        self._require_trust("Spark is needed")
        with self._starting:
            if self.session is not None and (self._is_of_another_release() or self._has_lost_java()):
                self.close()
            if self.session is None:
                self.session = self._start_spark("starting Spark", self._spark_confs(catalog=False))
        from etc_policy.spark.pools import in_pool

        return in_pool(self.session)

    def _require_trust(self, what: str) -> None:
        """Return if the project's settings may run something.

        Raises:
            TableError: they are a stranger's.

        """
        if self.allowed is not None:
            hint = "check it where the files are trusted, without `--untrusted`"
            raise TableError(Code.NOT_TRUSTED, f"{what}, which files that are not trusted do not get", hint=hint)

    def require_allowed(self, place: str) -> None:
        """Return if the project's files may reach a table or a folder, by the server that they name.

        Raises:
            TableError: they are a stranger's, and it is not allowed.

        """
        if self.allowed is None:
            return
        storage = self.target.storage
        server = None if is_local(place) else storage.endpoint
        for asked in (place, server):
            if asked and not self.may_look(asked):
                hint = f"allow it by `--allow {shlex.quote(asked)}` or in ETC_ALLOW, where you know it"
                raise TableError(Code.NOT_TRUSTED, f"files that are not trusted may not reach `{asked}`", hint=hint)
        if not is_local(place) and storage.instance_role and "instance_role" not in self.allowed.terms:
            hint = "allow it by `--allow instance_role` or in ETC_ALLOW, where its target is to have the machine's role"
            raise TableError(Code.NOT_TRUSTED, "files that are not trusted may not use `instance_role`", hint=hint)
        if place.startswith(S3_SCHEMES) and self.allowed.has_server and not self._has_endpoint():
            hint = "name the server that is allowed as `storage.endpoint`, or in AWS_ENDPOINT_URL_S3"
            message = f"files that are not trusted may reach `{place}` by the server that is allowed alone"
            raise TableError(Code.NOT_TRUSTED, message, hint=hint)

    def _has_endpoint(self) -> bool:
        from etc_policy.storage.store_keys import endpoint_of

        return endpoint_of(self.target.storage, os.environ) is not None

    def may_look(self, place: str) -> bool:
        """Whether the project's files may reach a place; a folder of this machine as the one that links lead to."""
        if self.allowed is None:
            return True
        from etc_policy.storage.open_storage import real_path

        return self.allowed.reaches(real_path(place) if is_local(place) else place)

    @property
    def has_spark(self) -> bool:
        """Whether a Spark session runs, with the release of Hudi that is wanted."""
        return self.session is not None and not self._is_of_another_release()

    @contextmanager
    def with_release(self, release: str | None) -> Iterator[None]:
        """Spark has this release of Hudi meanwhile, once it is asked for; no thread uses one of another then.

        A bundle that is named stays, and so does a Java that was not started here.
        """
        before = self._release
        if self.may_choose_release:
            self._release = release
        try:
            yield
        finally:
            self._release = before

    @property
    def is_submitted(self) -> bool:
        """Whether spark-submit has started this process."""
        from etc_policy.spark.java_runtime import STARTED_BY_SUBMIT

        return STARTED_BY_SUBMIT in os.environ

    @property
    def may_choose_release(self) -> bool:
        """Whether Spark can have another release than it has: no bundle is named, and its Java is started here."""
        from etc_policy.spark.session import may_start_java

        is_given = self.session is not None and self._loaded is None
        return self._named_bundle is None and may_start_java() and not is_given

    def _has_lost_java(self) -> bool:
        """Whether the session's Java is gone, say by what one table took of memory: the next table gets another."""
        from etc_policy.spark.session import java_has_died

        return java_has_died()

    def _is_of_another_release(self) -> bool:
        return self._release is not None and self._release != self._loaded

    def prepare_for_threads(self) -> None:
        """Threads may start Spark from now on: what an interrupt does to Java can be set by the main thread alone."""
        if self.ends_java_on_interrupt and self.session is None:
            from etc_policy.spark.interrupts import end_java_on_interrupt

            end_java_on_interrupt()

    def own_pool(self, name: str) -> AbstractContextManager[None]:
        """Spark's jobs of this thread share the cores fairly with those of other pools meanwhile."""
        from etc_policy.spark.pools import own_pool

        return own_pool(name)

    @property
    def catalog_spark(self) -> Any:  # noqa: ANN401 - as above
        """The Spark session with the target's catalog; where it names none, a local one in `catalog_dir`.

        A session without it is ended first. Compactions and their verification run without a catalog, so that one that
        does not answer cannot hold them up.
        """
        self._require_trust("a catalog is needed")
        confs = self._spark_confs(catalog=True)
        if self.session is not None and (
            self._is_of_another_release() or self._has_lost_java() or self._catalog_of_session() != confs[_CATALOG]
        ):
            self.close()
        if self.session is None:
            self.session = self._start_spark("starting Spark with the catalog", confs)
        return self.spark

    def _start_spark(self, step: str, confs: Mapping[str, str]) -> Any:  # noqa: ANN401 - as above
        from etc_policy.spark.bundles import release_in
        from etc_policy.spark.interrupts import end_java_on_interrupt
        from etc_policy.spark.session import start_spark

        seconds = self.target.cluster_timeout_ms / 1000
        if self._failed_start is not None and (known := self._failed_start.again(self._bundle)):
            raise known  # the other tables of a run do not wait as long again
        other = f" with Hudi {self._release}" if self._release not in (None, DEFAULT_RELEASE) else ""
        self._loaded = release_in(self._bundle)
        try:
            packages = self._packages(confs)
            session = start_spark(
                confs,
                self.spark_log,
                self._bundle,
                packages,
                seconds,
                is_brief=self._has_little_to_do,
                progress=self.progress,
                step=f"{step}{other}{f' (its log: {self.spark_log})' if self.spark_log else ''}",
            )
        except (EngineError, RetryableError) as error:
            if error.code not in (Code.NO_JAVA, Code.NO_PYSPARK):  # these are seen at once, and soon installed
                holds = seconds if isinstance(error, RetryableError) else _FAILED_SECONDS
                self._failed_start = _FailedStart(time.monotonic() + holds, self._bundle, _copy(error))
            raise
        if self.ends_java_on_interrupt and threading.current_thread() is threading.main_thread():
            end_java_on_interrupt()  # PySpark has just set its own; from another thread it does not
        return session

    def bound_log(self) -> None:
        """Empty the log of Spark's Java where it has grown large: one process may go on for weeks. Java adds to its end."""
        if self.spark_log is None:
            return
        from etc_policy.storage.files import empty_below

        with suppress(OSError):
            empty_below(self.spark_log.parent, self.spark_log.name, MAX_LOG_BYTES)

    def note_state(self, state: TableState) -> None:
        """Remember how large a table is that this command works on, and how it merges its rows."""
        self._data_bytes[state.base_path] = state.data_bytes
        self._mergings[state.base_path] = state.merging

    def release_for(self, policy: Policy, state: TableState) -> str | None:
        """The release of Hudi's bundle that is to compact a table; None where the name of the bundle does not say it."""
        from etc_policy.spark.bundles import release_in

        named = self._named_bundle
        self._releases[policy.name] = release_in(named) if named else release_for(policy, state)
        return self._releases[policy.name]

    @property
    def _named_bundle(self) -> str | None:
        from etc_policy.spark.bundles import named_bundle

        return named_bundle(os.environ, self.target.bundle, self._given_confs())

    @property
    def _bundle(self) -> str:
        """The bundle of the session: named, or of the wanted release, or right for the most of the tables that were read."""
        return self._named_bundle or bundle_of(self._release or best_release(self._mergings.values()))

    @property
    def _has_little_to_do(self) -> bool:
        sizes = list(self._data_bytes.values())
        return bool(sizes) and sum(sizes) <= _BRIEF_BYTES

    def _catalog_of_session(self) -> str | None:
        with suppress(Exception):  # its Java has died
            return str(self.spark.conf.get(_CATALOG, "in-memory"))
        return None

    def close(self) -> None:
        """Stop Spark if it was started; one whose Java has died needs no stopping, which is no error of what was done."""
        session, self.session = self.session, None
        if session is not None:
            with suppress(Exception):
                session.stop()

    def _spark_confs(self, *, catalog: bool) -> dict[str, str]:
        confs = self._with_s3({**self._shared(), **self._given_confs()})
        confs = with_hidden(confs, self.target.hidden_confs)
        if _CATALOG in self.spark_options:
            return confs
        if not catalog:
            return {**confs, _CATALOG: "in-memory"}
        from etc_policy.spark.local_catalog import CLIENT_CONFS, local_catalog_confs

        return {**CLIENT_CONFS, **({} if _CATALOG in confs else local_catalog_confs(self.local_catalog)), **confs}

    def _given_confs(self) -> dict[str, str]:
        """Those of the target, of the command, and of the spark-submit that has started it, which win in this order."""
        from etc_policy.spark.session import submitted_confs

        confs = self.target.spark_confs
        if self.allowed is None:
            confs = with_values(confs, os.environ)
        else:  # nobody else's files learn what a variable holds, nor whether it is set
            confs = with_values(confs, self.allowed.environment(os.environ), keeps_unset=True)
        return {**confs, **self.spark_options, **submitted_confs()}

    def _shared(self) -> Mapping[str, str]:
        from etc_policy.spark.pools import FAIR

        return FAIR if self.compaction_jobs > 1 else {}

    def _with_s3(self, confs: dict[str, str]) -> dict[str, str]:
        if not self.reaches_s3:
            return confs
        from etc_policy.spark.store_confs import s3a_confs

        return s3a_confs(self.target.storage, os.environ, confs)

    def _packages(self, confs: Mapping[str, str]) -> tuple[str, ...]:
        if not self.reaches_s3:
            return self.target.packages
        from etc_policy.spark.store_confs import s3_packages

        return (*self.target.packages, *s3_packages(confs, self.target.packages))

    @property
    def local_catalog(self) -> Path:
        """The folder of the catalog of this machine, for a target without one of its own."""
        return self.catalog_dir or self.project_dir / "target" / "catalog"
