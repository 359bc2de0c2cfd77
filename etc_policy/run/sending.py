"""Sends documents to where users want them: over HTTP, to Slack, by e-mail, to a program, as a file or a property of a partition.

What may pass by itself is tried a few times; what was not taken is a `NotSentError`. A receiver may get a document twice, with
the same `id`, as a run may die before it has recorded that it sent it.
"""

from __future__ import annotations

import json
import os
import signal
import smtplib
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final, Generic, NamedTuple, TypeVar
from urllib.parse import quote

from etc_policy.errors import EtcError, RetryableError
from etc_policy.errors.codes import Code
from etc_policy.policy.bounded_json import load_json
from etc_policy.policy.manifest import Policy
from etc_policy.policy.project_schema import Email, Notify
from etc_policy.policy.schema import HttpEndpoint
from etc_policy.policy.schema_values import is_in_clear, is_on_this_machine
from etc_policy.storage.port import Requests, T, TableStorage
from etc_policy.table.done import DoneEvent
from etc_policy.table.formats import iso_time
from etc_policy.table.state import path_below

#: Seconds before the second try and those after it, where nobody answered or the answer may be another one soon.
PAUSES_SECONDS = (1.0, 3.0)
_MAY_PASS = frozenset({408, 425, 429})
#: A server may send a byte now and then, for ever.
_REQUESTS = defaultdict[str, Requests](Requests)
#: The actions that create files in partitions, and set properties of them in the catalog.
SUCCESS_FILE: Final = "success_file"
PARTITION_PROPERTY: Final = "partition_property"
#: Of what a program says, the end is read, and so much of its last line shown.
_READ, _SHOWN = 8192, 200
_LARGEST_OF_OURS = 1 << 16
#: What Slack's text means something by.
_SLACK = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_JSON = {"Content-Type": "application/json"}

Document = Mapping[str, Any]
Variables = Mapping[str, str]
#: Sets properties of a partition of `db.table`, by its path. Raises EtcError.
PutProperties = Callable[[str, str, Mapping[str, str]], None]


def message_seconds(timeout_ms: int) -> float:
    """How long a message takes at most that is tried as often as it may be."""
    return (len(PAUSES_SECONDS) + 1) * timeout_ms / 1000 + sum(PAUSES_SECONDS)


class NotSentError(Exception):
    """It was not sent; `is_out` says that nobody answers, so that the others need not be tried now."""

    def __init__(self, reason: str, *, is_out: bool = False) -> None:
        super().__init__(reason)
        self.is_out = is_out


M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Receiver(Generic[M]):
    """Who is sent messages: the key in the user's file, and what sends one; it raises NotSentError."""

    name: str
    send: Callable[[M], None]


def channels_of(notify: Notify, variables: Variables) -> Iterator[Receiver[Document]]:
    """Where people hear of problems, as the project declares it; `variables` have the secrets."""
    seconds = notify.timeout_ms / 1000
    if (declared := notify.slack) is not None:
        yield Receiver("slack", lambda document: _slack(declared.url_variable, document, variables, seconds))
    if (http := notify.http) is not None:
        yield Receiver(
            "http",
            lambda document: post(http, document, {**_JSON, "Idempotency-Key": document["id"]}, variables, seconds),
        )
    if (email := notify.email) is not None:
        yield Receiver("email", lambda document: _mail(email, document, variables, seconds))


def _slack(variable: str, document: Document, variables: Variables, seconds: float) -> None:
    """Post the text to an incoming webhook, whose URL is a secret."""
    try:
        endpoint = HttpEndpoint(url=secret_of(variable, variables))
    except ValueError:
        raise NotSentError(f"the environment variable `{variable}` holds no URL", is_out=True) from None
    if is_in_clear(endpoint.url):
        reason = f"the URL in the environment variable `{variable}` is a secret, not sent in clear: it begins with `https://`"
        raise NotSentError(reason, is_out=True)
    text = f"*etc: {document['title']}*\n{document['text']}".translate(_SLACK)
    post(endpoint, {"text": text}, _JSON, {}, seconds)


def _mail(email: Email, document: Document, variables: Variables, seconds: float) -> None:
    """Send the text by SMTP; a message that is sent again has the same id."""
    message = EmailMessage()
    message["Subject"] = f"etc: {document['title']}"
    message["From"], message["To"] = email.sender, ", ".join(email.to)
    message["Message-ID"] = f"<{document['id']}@{email.sender.partition('@')[2]}>"
    message.set_content(f"{document['text']}\n")
    password = secret_of(email.password_variable, variables) if email.password_variable else None

    def send() -> None:
        with _connection(email, seconds) as connection:
            if email.user is not None and password is not None:
                connection.login(email.user, password)
            connection.send_message(message)

    tried(lambda: in_time(email.server, lambda: _by_smtp(email.server, send), seconds))


def _by_smtp(server: str, send: Callable[[], None]) -> None:
    try:
        send()
    except smtplib.SMTPResponseException as error:
        code = error.smtp_code
        raise NotSentError(f"`{server}` answered with code {code}", is_out=code < 500) from None
    except smtplib.SMTPRecipientsRefused as error:
        code = min(code for code, _ in error.recipients.values())
        raise NotSentError(f"`{server}` refused the recipients with code {code}", is_out=code < 500) from None
    except (OSError, smtplib.SMTPException) as error:
        raise NotSentError(f"`{server}` does not answer: {type(error).__name__}", is_out=True) from None


def _connection(email: Email, seconds: float) -> smtplib.SMTP:
    if email.tls == "tls":
        return smtplib.SMTP_SSL(email.server, email.port, timeout=seconds, context=ssl.create_default_context())
    connection = smtplib.SMTP(email.server, email.port, timeout=seconds)
    if email.tls == "starttls":
        connection.starttls(context=ssl.create_default_context())
    return connection


def actions_of(
    policy: Policy, files: SuccessFile | None, project_dir: Path, put: PutProperties
) -> Iterator[Receiver[DoneEvent]]:
    """What is done when a partition is done or reopened, as the policy lists it, in the order in which events are sent."""
    done = policy.done
    if done is None:
        return
    seconds, table, http = done.timeout_ms / 1000, done.partition_property, done.http
    if files is not None:
        yield Receiver(SUCCESS_FILE, files.send)
    if table is not None:
        yield Receiver(PARTITION_PROPERTY, lambda event: put_property(put, table, event))
    if done.command:
        yield Receiver("command", lambda event: _run(done.command, project_dir, seconds, cloud_event(policy, event)))
    if http is not None:
        kind = "application/cloudevents+json"

        def posted(event: DoneEvent) -> None:
            headers = {"Content-Type": kind, "Idempotency-Key": event.key}
            post(http, cloud_event(policy, event), headers, os.environ, seconds)

        yield Receiver("http", posted)


def cloud_event(policy: Policy, event: DoneEvent) -> dict[str, Any]:
    """The event as CloudEvents 1.0 has it; it has the same `id` whenever it is sent."""
    return {
        "specversion": "1.0",
        "id": event.key,
        "source": quote(policy.table.encode(errors="surrogateescape"), safe="/:"),
        "type": f"etc.partition.{event.kind}",
        "subject": event.partition,
        "time": iso_time(event.found_at_ms),
        "datacontenttype": "application/json",
        "data": {"policy": policy.name, "table": policy.table, **event.model_dump(mode="json", exclude={"key"})},
    }


class SuccessFile(NamedTuple):
    """A file in the partition. One that somebody else has put there stays as it is, and is never taken away."""

    files: TableStorage
    file_name: str
    removes: bool
    policy: Policy

    def send(self, event: DoneEvent) -> None:
        """Create the file if it is missing, or take away our own."""
        path = path_below(event.partition, self.file_name)
        try:
            if event.kind == "done":
                self.files.create(path, json.dumps({"etc": cloud_event(self.policy, event)}).encode())
            elif self.removes and self._is_ours(path):
                self.files.remove(path)
        except FileExistsError:
            return
        except OSError as error:
            raise NotSentError(f"`{path}`: {error.strerror or error}") from error

    def left_in(self, partitions: Iterable[str]) -> list[str]:
        """The paths of our own files in partitions that are not to have one; none where they may stay.

        Raises:
            OSError: the table's files cannot be reached.

        """
        paths = (path_below(one, self.file_name) for one in partitions)
        return [path for path in paths if self._is_ours(path)] if self.removes else []

    def _is_ours(self, path: str) -> bool:
        info = self.files.info(path)
        if info is None or info.size_bytes > _LARGEST_OF_OURS:
            return False
        try:
            content = load_json(self.files.read(path, _LARGEST_OF_OURS))
        except (FileNotFoundError, ValueError, RecursionError):
            return False
        return isinstance(content, dict) and set(content) == {"etc"}


def put_property(put: PutProperties, table: str, event: DoneEvent) -> None:
    """Set properties of the partition in the catalog.

    Raises:
        NotSentError: the catalog did not take them.

    """
    values = {"status": event.kind, "event": event.key, "instant": event.instant, "proof": event.proof or ""}
    try:
        put(table, event.partition, {f"etc.partition.{key}": value for key, value in values.items()})
    except EtcError as error:
        if event.why == "dropped" and error.code == Code.NO_RO_TABLE:
            return  # the catalog has dropped the partition too
        raise NotSentError(error.with_cause, is_out=isinstance(error, RetryableError)) from error


def _run(arguments: tuple[str, ...], folder: Path, seconds: float, document: Document) -> None:
    """Run a program of the user's: the document is its input, and `ETC_EVENT_ID`, `ETC_EVENT_KIND` and so on."""
    values = {"id": document["id"], "time": document["time"], **document["data"]}
    own = {f"ETC_EVENT_{name.upper()}": "" if value is None else str(value) for name, value in values.items()}
    try:
        code, said = _ended(arguments, folder, {**os.environ, **own}, json.dumps(document).encode(), seconds)
    except subprocess.TimeoutExpired as error:
        raise NotSentError(f"`{arguments[0]}` took longer than {seconds:g} s") from error
    except (OSError, ValueError) as error:
        raise NotSentError(f"`{arguments[0]}` cannot be run: {error}", is_out=True) from error
    if code:
        raise NotSentError(f"`{arguments[0]}` ended with exit code {code}{f': {said}' if said else ''}")


def _ended(arguments: tuple[str, ...], folder: Path, env: Variables, given: bytes, seconds: float) -> tuple[int, str]:
    """The exit code, and the last line that was said: to a file, as what a program has started would hold a pipe open."""
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    with (
        TemporaryFile() as output,
        subprocess.Popen(
            arguments, cwd=folder, env=env, stdin=pipe, stdout=null, stderr=output, start_new_session=True
        ) as process,
    ):
        try:
            process.communicate(given, seconds)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)  # with all that it has started
            raise
        output.seek(max(0, output.seek(0, os.SEEK_END) - _READ))
        lines = output.read().decode(errors="replace").strip().splitlines()
        return process.returncode, lines[-1][:_SHOWN] if lines else ""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect is an answer like others: secrets go to the declared URL alone."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """None."""
        return


def tried(send: Callable[[], None]) -> None:
    """Send, a few times where nobody answers.

    Raises:
        NotSentError: it was not taken.

    """
    for pause in PAUSES_SECONDS:
        try:
            return send()
        except NotSentError as error:
            if not error.is_out:
                raise
        time.sleep(pause)
    return send()


def in_time(host: str, request: Callable[[], T], seconds: float) -> T:
    """What a request to a server returns or raises.

    Raises:
        NotSentError: it took longer.

    """
    try:
        return _REQUESTS[host].in_time(request, seconds)
    except TimeoutError:
        raise NotSentError(f"`{host}` gave no whole answer within {seconds:g} s", is_out=True) from None


def secret_of(variable: str, variables: Mapping[str, str]) -> str:
    """The secret that a variable of the environment holds.

    Raises:
        NotSentError: it is not set, or cannot be part of a message.

    """
    value = variables.get(variable)
    if value is None:
        raise NotSentError(f"the environment variable `{variable}` is not set", is_out=True)
    if not value.isprintable() or not value.isascii():
        raise NotSentError(f"what the environment variable `{variable}` holds is not printable ASCII", is_out=True)
    return value


def post(
    endpoint: HttpEndpoint,
    document: Mapping[str, Any],
    headers: Mapping[str, str],
    variables: Mapping[str, str],
    timeout_seconds: float,
) -> None:
    """Post the document as JSON.

    Raises:
        NotSentError: it was not taken, or a secret is missing.

    """
    secrets = {header: secret_of(variable, variables) for header, variable in endpoint.secret_headers.items()}
    request = urllib.request.Request(  # noqa: S310 - http or https
        endpoint.url,
        json.dumps(document).encode(),
        {"User-Agent": "etc", **headers, **secrets},
        method="POST",
    )
    tried(lambda: in_time(request.host, lambda: _post(request, timeout_seconds), timeout_seconds))


def _post(request: urllib.request.Request, timeout_seconds: float) -> None:
    # No proxy reads what is sent to this machine in clear.
    direct = [urllib.request.ProxyHandler({})] if is_on_this_machine(request.full_url) else []
    opener = urllib.request.build_opener(_NoRedirects, *direct)
    host = request.host
    try:
        with opener.open(request, timeout=timeout_seconds):
            return
    except urllib.error.HTTPError as error:
        with error:
            is_out = error.code in _MAY_PASS or error.code >= 500
            raise NotSentError(f"`{host}` answered with status {error.code}", is_out=is_out) from None
    except (OSError, HTTPException, ValueError) as error:
        why = getattr(error, "reason", None) or error
        raise NotSentError(f"`{host}` does not answer: {type(why).__name__}", is_out=True) from None
