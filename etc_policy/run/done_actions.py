"""What is done when a partition is done or reopened: a file in it, a property of it in the catalog, a program, a POST."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Protocol
from urllib.parse import quote

from etc_policy.errors import EtcError, RetryableError
from etc_policy.errors.codes import Code
from etc_policy.policy.manifest import Policy
from etc_policy.policy.schema import Done, HttpEndpoint
from etc_policy.run.sending import NotSentError, post
from etc_policy.storage.port import TableStorage
from etc_policy.table.done import DoneEvent
from etc_policy.table.formats import iso_time
from etc_policy.table.state import path_below

#: Of what a program says, the end is read, and so much of its last line shown.
_READ, _SHOWN = 8192, 200
_LARGEST_OF_OURS = 1 << 16


class Action(Protocol):
    """Sends events to one receiver; one may be sent twice, as a run may die before it has recorded that it sent it."""

    @property
    def name(self) -> str:
        """Its key in the policy."""

    def send(self, event: DoneEvent) -> None:
        """Send it.

        Raises:
            NotSentError: it was not sent, and is to be sent again.

        """


#: Sets properties of a partition of `db.table`, by its path. Raises EtcError.
PutProperties = Callable[[str, str, Mapping[str, str]], None]


def actions_of(
    policy: Policy, files: TableStorage, project_dir: Path, put_properties: PutProperties
) -> tuple[Action, ...]:
    """What the policy lists, in the order in which events are sent."""
    return tuple(_actions(policy, policy.done, files, project_dir, put_properties)) if policy.done else ()


def _actions(
    policy: Policy, done: Done, files: TableStorage, project_dir: Path, put_properties: PutProperties
) -> Iterator[Action]:
    if done.success_file is not None:
        yield SuccessFile(files, done.success_file, removes=done.on_late == "reopen", policy=policy)
    if done.partition_property is not None:
        yield PartitionProperty(done.partition_property, put_properties)
    if done.command:
        yield Command(done.command, project_dir, done.timeout_ms / 1000, policy)
    if done.http is not None:
        yield Http(done.http, done.timeout_ms / 1000, os.environ, policy)


def cloud_event(policy: Policy, event: DoneEvent) -> dict[str, Any]:
    """The event as CloudEvents 1.0 has it; it has the same `id` whenever it is sent."""
    return {
        "specversion": "1.0",
        "id": event.key,
        "source": quote(policy.table, safe="/:"),
        "type": f"etc.partition.{event.kind}",
        "subject": event.partition,
        "time": iso_time(event.found_at_ms),
        "datacontenttype": "application/json",
        "data": {"policy": policy.name, "table": policy.table, **event.model_dump(mode="json", exclude={"key"})},
    }


@dataclass(frozen=True, slots=True)
class SuccessFile:
    """A file in the partition. One that somebody else has put there stays as it is, and is never taken away."""

    files: TableStorage
    file_name: str
    removes: bool
    policy: Policy
    name: str = "success_file"

    def send(self, event: DoneEvent) -> None:
        """Create the file if it is missing, or take away our own."""
        path = path_below(event.partition, self.file_name)
        try:
            if event.kind == "done":
                self._create(path, event)
            elif self.removes and self._is_ours(path):
                self.files.remove(path)
        except OSError as error:
            raise NotSentError(f"`{path}`: {error.strerror or error}") from error

    def left_in(self, partitions: Iterable[str]) -> list[str]:
        """The paths of our own files in partitions that are not to have one; none where they may stay.

        Raises:
            OSError: the table's files cannot be reached.

        """
        paths = (path_below(one, self.file_name) for one in partitions)
        return [path for path in paths if self._is_ours(path)] if self.removes else []

    def _create(self, path: str, event: DoneEvent) -> None:
        try:
            self.files.create(path, json.dumps({"etc": cloud_event(self.policy, event)}).encode())
        except FileExistsError:
            return

    def _is_ours(self, path: str) -> bool:
        info = self.files.info(path)
        if info is None or info.size_bytes > _LARGEST_OF_OURS:
            return False
        try:
            found = json.loads(self.files.read(path, _LARGEST_OF_OURS))
        except (FileNotFoundError, ValueError, RecursionError):
            return False
        return isinstance(found, dict) and set(found) == {"etc"}


@dataclass(frozen=True, slots=True)
class PartitionProperty:
    """Properties of the partition in the catalog."""

    table: str
    put: PutProperties
    name: str = "partition_property"

    def send(self, event: DoneEvent) -> None:
        """Set them."""
        values = {"status": event.kind, "event": event.key, "instant": event.instant, "proof": event.proof or ""}
        try:
            self.put(self.table, event.partition, {f"etc.partition.{key}": value for key, value in values.items()})
        except EtcError as error:
            if event.why == "dropped" and error.code == Code.NO_RO_TABLE:
                return  # the catalog has dropped the partition too
            raise NotSentError(error.with_cause, is_out=isinstance(error, RetryableError)) from error


@dataclass(frozen=True, slots=True)
class Command:
    """A program of the user's."""

    arguments: tuple[str, ...]
    folder: Path
    timeout_seconds: float
    policy: Policy
    name: str = "command"

    def send(self, event: DoneEvent) -> None:
        """Run it."""
        code, said = self._run(cloud_event(self.policy, event))
        if code:
            raise NotSentError(f"`{self.arguments[0]}` ended with exit code {code}{f': {said}' if said else ''}")

    def _run(self, document: Mapping[str, Any]) -> tuple[int, str]:
        """Its exit code, and what it said last: to a file, as a program that it has started would hold a pipe open."""
        try:
            with TemporaryFile() as output, self._started(document, output) as process:
                try:
                    process.communicate(json.dumps(document).encode(), self.timeout_seconds)
                except BaseException:
                    os.killpg(process.pid, signal.SIGKILL)  # with all that it has started
                    raise
                return process.returncode, _last_line(output)
        except subprocess.TimeoutExpired as error:
            raise NotSentError(f"`{self.arguments[0]}` took longer than {self.timeout_seconds:g} s") from error
        except (OSError, ValueError) as error:
            raise NotSentError(f"`{self.arguments[0]}` cannot be run: {error}", is_out=True) from error

    def _started(self, document: Mapping[str, Any], output: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.arguments,
            cwd=self.folder,
            env={**os.environ, **_variables(document)},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=output,
            start_new_session=True,
        )


def _last_line(output: IO[bytes]) -> str:
    output.seek(max(0, output.seek(0, os.SEEK_END) - _READ))
    lines = output.read().decode(errors="replace").strip().splitlines()
    return lines[-1][:_SHOWN] if lines else ""


def _variables(document: Mapping[str, Any]) -> dict[str, str]:
    """`ETC_EVENT_ID`, `ETC_EVENT_KIND`, `ETC_EVENT_PARTITION` and so on; what is not known is empty."""
    values = {"id": document["id"], "time": document["time"], **document["data"]}
    return {f"ETC_EVENT_{name.upper()}": "" if value is None else str(value) for name, value in values.items()}


@dataclass(frozen=True, slots=True)
class Http:
    """A POST of the event."""

    http: HttpEndpoint
    timeout_seconds: float
    variables: Mapping[str, str]
    policy: Policy
    name: str = "http"

    def send(self, event: DoneEvent) -> None:
        """Post it."""
        headers = {"Content-Type": "application/cloudevents+json", "Idempotency-Key": event.key}
        document = cloud_event(self.policy, event)
        post(self.http, document, headers, self.variables, self.timeout_seconds)
