"""Airflow 3: an operator that runs `etc apply`, a sensor that waits for a table or a partition, and triggers.

`etc apply` is a process of its own, so that Spark and Airflow need no common environment. The sensor and the triggers read
metadata in Airflow's own, without Spark (a `db.table` is looked up in Spark's catalog).
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shlex
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from etc_policy.api.arguments import iso_time
from etc_policy.api.project import Project
from etc_policy.errors import EtcError, ExitCode, RetryableError, UsageError, install_hint
from etc_policy.errors.codes import Code

try:
    from airflow.sdk import BaseOperator, BaseSensorOperator
    from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
    from airflow.triggers.base import BaseEventTrigger, BaseTrigger, TriggerEvent
except ImportError as error:
    message = f"Airflow 3.3 or later is not here: {install_hint('airflow')}"
    raise ImportError(message, name=error.name, path=error.path) from error

if TYPE_CHECKING:
    from airflow.sdk import Context

_LOG = logging.getLogger(__name__)
#: The same command fails again. After any other code, and after a signal, Airflow's own `retries` apply.
_FOR_GOOD = (ExitCode.FAILED, ExitCode.USAGE)
_NOT_RUN = ("nothing_due", "already_applied")


def _failure(exit_code: int, text: str) -> AirflowException:
    return (AirflowFailException if exit_code in _FOR_GOOD else AirflowException)(text)


def _complete_until_ms(project_dir: str, target: str | None, report_of: Callable[[Project], Any]) -> int | None:
    """Up to when (epoch ms) RO is complete in every table of the report; None where it is not so far, or not known now.

    Raises:
        EtcError: no reading is possible, or none that comes later helps.

    """
    try:
        with Project(project_dir, target=target) as project:
            times = [table.complete_until_ms for table in report_of(project).tables]
    except RetryableError as error:
        _LOG.info("%s", error)
        return None
    known = [time for time in times if time is not None]
    return min(known) if known and len(known) == len(times) else None


class EtcApplyOperator(BaseOperator):
    """Runs `etc apply` for a project: makes a plan, or takes the reviewed one of the file `plan`, carries it out and verifies.

    Exit codes 1 and 64, and a program that cannot be run, fail the task for good. Other codes fail it so that Airflow's `retries`
    run it again. With `skip_if_nothing_due` a run that compacts nothing skips what follows. `etc` is the program; `env` is
    added to its environment. The XCom has `plan_id`, and `policy`, `status`, `threshold_ms` and `instant` of each table.
    """

    template_fields: Sequence[str] = ("project_dir", "target", "select", "exclude", "plan", "env")

    def __init__(
        self,
        *,
        project_dir: str,
        target: str | None = None,
        select: str | None = None,
        exclude: str | None = None,
        plan: str | None = None,
        etc: str = "etc",
        env: Mapping[str, str] | None = None,
        skip_if_nothing_due: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.project_dir, self.target, self.select, self.exclude = project_dir, target, select, exclude
        self.plan, self.etc, self.env, self.skip_if_nothing_due = plan, etc, env, skip_if_nothing_due
        self._process: subprocess.Popen[str] | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Run it; its messages go to the task's log."""
        exit_code, output = self._run()
        if exit_code:
            raise _failure(
                exit_code, f"`etc apply` ended with exit code {exit_code}; its messages are in the log above"
            )
        report = json.loads(output)
        if self.skip_if_nothing_due and all(table["status"] in _NOT_RUN for table in report["tables"]):
            raise AirflowSkipException("nothing is due")
        keys = ("policy", "status", "threshold_ms", "instant")
        return {
            "plan_id": report["plan_id"],
            "tables": [{key: table[key] for key in keys} for table in report["tables"]],
        }

    def on_kill(self) -> None:
        """End the program; the next run finishes or withdraws what it had begun."""
        if self._process is not None:
            self._process.terminate()

    def _run(self) -> tuple[int, str]:
        """Its exit code, and what it wrote to stdout."""
        command, environment = self._command(), {**os.environ, **(self.env or {})}
        self.log.info("running %s", shlex.join(command))
        with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
            try:
                self._process = subprocess.Popen(
                    command, stdout=output, stderr=subprocess.PIPE, encoding="utf-8", errors="replace", env=environment
                )
            except OSError as error:
                message = f"cannot run `{self.etc}`: {error}; name the program of the environment that has etc-policy by `etc=`"
                raise AirflowFailException(message) from error
            with self._process as process:
                for line in process.stderr or ():
                    self.log.info("%s", line.rstrip())
            output.seek(0)
            return process.returncode, output.read()

    def _command(self) -> list[str]:
        options = {"--project-dir": self.project_dir, "--target": self.target}
        options |= {"--select": self.select, "--exclude": self.exclude}
        given = [word for name, value in options.items() if value is not None for word in (name, value)]
        plan = ["--", self.plan] if self.plan else []  # whoever may trigger a run may give it: never an option
        return [self.etc, "apply", "--yes", "--output", "json", *given, *plan]


class EtcCompletenessSensor(BaseSensorOperator):
    """Waits until RO of a policy's table is complete up to `until` (ISO 8601; UTC without a zone), or its `partition` is done.

    Unless `deferrable` is false it waits in the triggerer, without a slot of a worker. Each asset in `outlets` gets an event that
    has the partition as its key: Airflow gives it to DAGs with a `PartitionedAssetTimetable` and to no others.
    """

    template_fields: Sequence[str] = ("project_dir", "target", "policy", "until", "partition")

    def __init__(
        self,
        *,
        project_dir: str,
        policy: str,
        until: str | None = None,
        partition: str | None = None,
        target: str | None = None,
        deferrable: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if (until is None) == (partition is None):
            raise ValueError("give either `until` or `partition`")
        self.project_dir, self.policy, self.target = project_dir, policy, target
        self.until, self.partition, self.deferrable = until, partition, deferrable

    def execute(self, context: Context) -> None:
        """Return when RO is complete so far."""
        super().execute(context)
        self._add_partition(context)

    def poke(self, context: Context) -> bool:
        """Whether RO is complete so far; where it is not, a deferrable sensor goes on in the triggerer."""
        trigger = EtcCompletenessTrigger(
            self.project_dir, self.policy, self.until, self.partition, self.target, self.poke_interval
        )
        try:
            is_reached = trigger.complete_until_ms() is not None
        except EtcError as error:
            raise _failure(error.exit_code, error.in_full) from error
        if self.deferrable and not is_reached:
            timeout = timedelta(seconds=self.timeout)
            self.defer(trigger=trigger, timeout=timeout, method_name=self.execute_complete.__name__)
        return is_reached

    def execute_complete(self, context: Context, event: dict[str, Any]) -> None:
        """End as the trigger did."""
        if "error" in event:
            raise _failure(event["exit_code"], event["error"])
        reached = f"partition `{self.partition}` is done; " if self.partition else ""
        self.log.info("%sRO of `%s` is complete until %s", reached, self.policy, event["complete_until"])
        self._add_partition(context)

    def _add_partition(self, context: Context) -> None:
        if self.partition is not None:
            for asset in self.outlets or ():
                context["outlet_events"][asset].add_partitions(self.partition)


def _serialized(trigger: EtcCompletenessTrigger | EtcFreshnessTrigger) -> tuple[str, dict[str, Any]]:
    """The class, and what it is made with again."""
    return f"{__name__}.{type(trigger).__name__}", {one.name: getattr(trigger, one.name) for one in fields(trigger)}


@dataclass(eq=False, repr=False)
class EtcCompletenessTrigger(BaseTrigger):
    """Waits for the sensor in the triggerer: gives one event, when RO is complete up to `until` or the `partition` is done.

    The event has `complete_until` (ISO 8601), or the `error` and its `exit_code` where `etc wait` would end with one but 4.
    """

    project_dir: str
    policy: str
    until: str | None = None
    partition: str | None = None
    target: str | None = None
    poll_seconds: float = 60.0

    serialize = _serialized

    def __post_init__(self) -> None:
        """Make it a trigger."""
        super().__init__()

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Read the metadata each `poll_seconds`, in a thread."""
        try:
            while (reached_ms := await asyncio.to_thread(self.complete_until_ms)) is None:
                await asyncio.sleep(self.poll_seconds)
        except EtcError as error:
            yield TriggerEvent({"error": error.in_full, "exit_code": int(error.exit_code)})
        else:
            yield TriggerEvent({"complete_until": iso_time(reached_ms)})

    def complete_until_ms(self) -> int | None:
        """Up to when (epoch ms) RO is complete; None before `until` is reached, or the `partition` done.

        Raises:
            EtcError: as for `etc wait`; UsageError where `until` is not a time.

        """
        try:
            until = None if self.until is None else datetime.fromisoformat(self.until)
        except (TypeError, ValueError) as error:
            shown = f"`until` is not a time in ISO 8601, such as 2013-01-01T18:30:00Z: {self.until!r}"
            raise UsageError(Code.USAGE, shown) from error
        now = timedelta(0)
        wait = partial(Project.wait, select=self.policy, until=until, partition=self.partition, timeout=now)
        return _complete_until_ms(self.project_dir, self.target, wait)


@dataclass(eq=False, repr=False)
class EtcFreshnessTrigger(BaseEventTrigger):
    """For an `AssetWatcher`: gives an event whenever RO is complete up to the end of another `every_seconds`, by default an hour.

    An event has `policy` and `complete_until` (ISO 8601), the last millisecond of that hour. The first one comes at once; a
    triggerer that starts again gives the last one again. What cannot be read gives no event, but an error in the triggerer's log.
    """

    project_dir: str
    policy: str
    target: str | None = None
    every_seconds: int = 3600
    poll_seconds: float = 60.0

    serialize = _serialized

    def __post_init__(self) -> None:
        """Make it a trigger."""
        super().__init__()

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Read the metadata each `poll_seconds`, in a thread."""
        last_ms = None
        while True:
            end_ms = await asyncio.to_thread(self._end_ms)
            if end_ms is not None and (last_ms is None or end_ms > last_ms):
                last_ms = end_ms
                yield TriggerEvent({"policy": self.policy, "complete_until": iso_time(end_ms - 1)})
            await asyncio.sleep(self.poll_seconds)

    def _end_ms(self) -> int | None:
        """The end of the last `every_seconds` that RO is complete in."""
        try:
            freshness = partial(Project.freshness, select=self.policy, check=True)
            reached_ms = _complete_until_ms(self.project_dir, self.target, freshness)
        except EtcError as error:
            self.log.error("%s", error.in_full)  # an event would start what waits for the asset
            return None
        step_ms = self.every_seconds * 1000
        return None if reached_ms is None else (reached_ms + 1) // step_ms * step_ms
