"""A job for spark-submit: its files, its command, and how it ended.

Settings go by a file that only its owner can read, never as arguments of a process: some of them are keys. It begins with
what the cluster's own `spark-defaults.conf` says, which Spark does not read where it is given another file.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import mkdtemp

from etc_policy.errors import EngineError, ExitCode, UsageError
from etc_policy.errors.codes import Code
from etc_policy.hudi.properties import parse_properties, write_properties
from etc_policy.policy.secrets import is_secret_setting
from etc_policy.spark.cluster import is_local
from etc_policy.spark.java_runtime import spark_defaults, spark_home
from etc_policy.spark.session import SOFT_DEFAULTS
from etc_policy.storage.files import write_below

ENTRY, JOB, PROPERTIES, OUTCOME = "etc_job.py", "etc_job.json", "spark.properties", "outcome.json"
_ENTRY_TEXT = '''"""The job of `etc apply --submit`: carries out the plan in etc_job.json."""

from etc_policy.cli.submitted import run

run()
'''
_END_SECONDS = 30


@dataclass(frozen=True)
class SubmissionResult:
    """How a job ended.

    Where its driver was on this machine, `report` is what it has to say on standard output, and `results` are those of its
    tables as JSON, if it came so far.
    """

    exit_code: int
    report: str | None = None
    results: str | None = None


@dataclass(frozen=True)
class Submission:
    """A job with Spark's settings. `hidden` are settings that hold values of the environment."""

    job: str
    confs: Mapping[str, str] = field(repr=False)
    deploy_mode: str = "client"
    hidden: Collection[str] = ()

    def __post_init__(self) -> None:
        if self.deploy_mode == "cluster" and self.master.startswith("spark://"):
            message = "Spark runs no Python driver inside a standalone cluster"
            raise UsageError(Code.USAGE, message, hint="leave `deploy_mode` of the target at `client`")
        if self.deploy_mode == "cluster" and is_local(self.master):
            message = f"`{self.master}` is not a cluster that can run the driver"
            raise UsageError(Code.USAGE, message, hint="give the target a `spark.master`, or `deploy_mode: client`")

    @property
    def master(self) -> str:
        """Where Spark runs."""
        return self.confs["spark.master"]

    @cached_property
    def settings(self) -> dict[str, str]:
        """All settings of the job's Spark, the cluster's own defaults among them."""
        return {**SOFT_DEFAULTS, **_cluster_defaults(), **self.confs}

    @property
    def left_out(self) -> tuple[str, ...]:
        """The settings that `save` does not write, of the cluster's defaults too."""
        settings = self.settings.items()
        return tuple(sorted(key for key, value in settings if key in self.hidden or is_secret_setting(key, value)))

    def save(self, folder: Path) -> list[str]:
        """Write the job's files, without what could be a secret; returns the command."""
        plain = {key: value for key, value in self.settings.items() if key not in self.left_out}
        command = self.command(folder)
        self._write(folder, plain)
        return command

    def command(self, folder: Path, *arguments: str) -> list[str]:
        """The command over the files of a folder."""
        job = folder / JOB
        is_client = self.deploy_mode == "client"
        files = [] if is_client else ["--files", str(job)]
        name = str(job) if is_client else JOB
        own = [
            "--master",
            self.master,
            "--deploy-mode",
            self.deploy_mode,
            "--name",
            self.confs.get("spark.app.name", "etc"),
        ]
        properties = ["--properties-file", str(folder / PROPERTIES)]
        return [str(_program()), *own, *properties, *files, str(folder / ENTRY), name, *arguments]

    def run(self, *arguments: str) -> SubmissionResult:
        """Run the job and wait for it; all that it prints goes to standard error, as it comes.

        Raises:
            EngineError: it ended before it could say how.

        """
        with _ended_in_order():
            folder = Path(mkdtemp(prefix="etc-submit-"))
            try:
                self._write(folder, self.settings)
                outcome = ["--outcome", str(folder / OUTCOME)] if self.deploy_mode == "client" else []
                code = _run(self.command(folder, *outcome, *arguments))
                return self._outcome(folder / OUTCOME, code)
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    def _outcome(self, path: Path, code: int) -> SubmissionResult:
        reported = _reported(path)
        if reported is not None:
            return reported
        if code == 0 and self.deploy_mode == "cluster":
            return SubmissionResult(ExitCode.DONE)
        where = " before the job could report" if self.deploy_mode == "client" else ""
        hint = (
            "spark-submit's own messages are above"
            if self.deploy_mode == "client"
            else "the driver's log in the cluster has the job's report; `etc verify` says what the table holds"
        )
        raise EngineError(Code.NOT_SUBMITTED, f"spark-submit ended with exit code {code}{where}", hint=hint)

    def _write(self, folder: Path, settings: Mapping[str, str]) -> None:
        for name, text in ((ENTRY, _ENTRY_TEXT), (JOB, self.job), (PROPERTIES, write_properties(settings))):
            write_below(folder, name, text.encode("utf-8"))
            (folder / name).chmod(0o600)


def _reported(path: Path) -> SubmissionResult | None:
    """What a job has said of itself; None where it did not come so far."""
    try:
        match json.loads(path.read_text("utf-8")):
            case {"exit_code": int(code), "report": str(report), **more}:
                results = more.get("results")
                return SubmissionResult(code, report, results if isinstance(results, str) else None)
    except (OSError, ValueError):
        pass
    return None


def _run(command: list[str]) -> int:
    environment = {**os.environ, "SPARK_HOME": str(spark_home())}
    try:
        process = subprocess.Popen(command, stdout=sys.stderr.fileno(), env=environment)
    except OSError as error:
        message, hint = f"`{command[0]}` cannot be run", "set SPARK_HOME to the folder of a Spark 3.5"
        raise EngineError(Code.NOT_SUBMITTED, message, hint=hint, cause=str(error)) from error
    try:
        return process.wait()
    except BaseException as error:
        if not isinstance(error, KeyboardInterrupt):  # Ctrl-C reaches the job too
            process.terminate()
        _await_end(process)
        raise


def _await_end(process: subprocess.Popen[bytes]) -> None:
    """Return when the process has ended, of itself or not."""
    for harder in (process.terminate, process.kill):
        try:
            process.wait(timeout=_END_SECONDS)
        except subprocess.TimeoutExpired:
            harder()
        else:
            return
    process.wait()


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """What would end this process at once, as a scheduler does, ends it after the block's own `finally`."""

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    kept = {}
    if threading.current_thread() is threading.main_thread():
        fatal = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is signal.SIG_DFL]
        kept = {one: signal.signal(one, end) for one in fatal}
    try:
        yield
    finally:
        for number, before in kept.items():
            signal.signal(number, before)


def _program() -> Path:
    program = spark_home() / "bin" / "spark-submit"
    if not program.is_file():
        raise EngineError(
            Code.NOT_SUBMITTED, f"there is no `{program}`", hint="set SPARK_HOME to the folder of a Spark 3.5"
        )
    return program


def _cluster_defaults() -> dict[str, str]:
    file = spark_defaults()
    try:
        return parse_properties(file.read_text("utf-8", errors="replace")) if file.is_file() else {}
    except OSError as error:
        message, hint = f"cannot read `{file}`", "SPARK_CONF_DIR names the folder of the cluster's settings"
        raise EngineError(Code.NOT_SUBMITTED, message, hint=hint, cause=str(error)) from error
