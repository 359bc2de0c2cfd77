"""Where people hear of problems: Slack, plain JSON over HTTP, e-mail."""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from typing import Any, Protocol

from etc_policy.policy.notify_schema import Email, Notify
from etc_policy.policy.schema import HttpEndpoint
from etc_policy.run.sending import NotSentError, in_time, post, secret_of, tried

#: What Slack's text means something by.
_SLACK = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class Channel(Protocol):
    """One who is sent messages."""

    @property
    def name(self) -> str:
        """Its key in the project file."""

    def send(self, document: Mapping[str, Any]) -> None:
        """Send a message: its `id`, `title` and `text`, and what programs read.

        Raises:
            NotSentError: it was not taken.

        """


def channels_of(notify: Notify, variables: Mapping[str, str]) -> Iterator[Channel]:
    """Those that the project declares; `variables` have their secrets."""
    seconds = notify.timeout_ms / 1000
    if notify.slack is not None:
        yield SlackChannel(notify.slack.url_variable, variables, seconds)
    if notify.http is not None:
        yield HttpChannel(notify.http, variables, seconds)
    if notify.email is not None:
        yield EmailChannel(notify.email, variables, seconds)


@dataclass(frozen=True, slots=True)
class SlackChannel:
    """An incoming webhook, whose URL is a secret."""

    url_variable: str
    variables: Mapping[str, str]
    timeout_seconds: float
    name: str = "slack"

    def send(self, document: Mapping[str, Any]) -> None:
        """Post the text."""
        try:
            endpoint = HttpEndpoint(url=secret_of(self.url_variable, self.variables))
        except ValueError:
            raise NotSentError(f"the environment variable `{self.url_variable}` holds no URL", is_out=True) from None
        text = f"*etc: {document['title']}*\n{document['text']}".translate(_SLACK)
        post(endpoint, {"text": text}, {"Content-Type": "application/json"}, {}, self.timeout_seconds)


@dataclass(frozen=True, slots=True)
class HttpChannel:
    """A POST of the whole document."""

    http: HttpEndpoint
    variables: Mapping[str, str]
    timeout_seconds: float
    name: str = "http"

    def send(self, document: Mapping[str, Any]) -> None:
        """Post it."""
        headers = {"Content-Type": "application/json", "Idempotency-Key": str(document["id"])}
        post(self.http, document, headers, self.variables, self.timeout_seconds)


@dataclass(frozen=True, slots=True)
class EmailChannel:
    """A mail by SMTP."""

    email: Email
    variables: Mapping[str, str]
    timeout_seconds: float
    name: str = "email"

    def send(self, document: Mapping[str, Any]) -> None:
        """Send the text; a message that is sent again has the same id."""
        declared, message = self.email, EmailMessage()
        message["Subject"] = f"etc: {document['title']}"
        message["From"], message["To"] = declared.sender, ", ".join(declared.to)
        message["Message-ID"] = f"<{document['id']}@{declared.sender.partition('@')[2]}>"
        message.set_content(f"{document['text']}\n")
        variable = declared.password_variable
        password = secret_of(variable, self.variables) if variable else None
        tried(lambda: in_time(declared.server, lambda: self._send(message, password), self.timeout_seconds))

    def _send(self, message: EmailMessage, password: str | None) -> None:
        try:
            with self._connection() as connection:
                if self.email.user is not None and password is not None:
                    connection.login(self.email.user, password)
                connection.send_message(message)
        except smtplib.SMTPResponseException as error:
            reason = f"`{self.email.server}` answered with code {error.smtp_code}"
            raise NotSentError(reason, is_out=error.smtp_code < 500) from None
        except smtplib.SMTPRecipientsRefused as error:
            codes = sorted({code for code, _ in error.recipients.values()})
            reason = f"`{self.email.server}` refused the recipients with code {codes[0]}"
            raise NotSentError(reason, is_out=codes[0] < 500) from None
        except (OSError, smtplib.SMTPException) as error:
            reason = f"`{self.email.server}` does not answer: {type(error).__name__}"
            raise NotSentError(reason, is_out=True) from None

    def _connection(self) -> smtplib.SMTP:
        server, port, seconds = self.email.server, self.email.port, self.timeout_seconds
        if self.email.tls == "tls":
            return smtplib.SMTP_SSL(server, port, timeout=seconds, context=ssl.create_default_context())
        connection = smtplib.SMTP(server, port, timeout=seconds)
        if self.email.tls == "starttls":
            connection.starttls(context=ssl.create_default_context())
        return connection
