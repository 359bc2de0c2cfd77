"""Where messages about problems are sent: `notify:` in etc_project.yml."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StrictInt, model_validator

from etc_policy.policy.schema import HttpEndpoint
from etc_policy.policy.schema_values import Declared, IntervalMs, Text, VariableName


def _require_address(text: str) -> str:
    if not re.fullmatch(r"[!-~]+@[!-~]+", text) or set("<>,;") & set(text) or text.count("@") > 1:
        raise ValueError(f"`{text[:60]}` is not an address such as `data@example.com`")
    return text


Address = Annotated[Text, AfterValidator(_require_address)]


class Slack(Declared):
    """A channel of Slack."""

    url_variable: VariableName = Field(
        description="Environment variable that holds the URL of the incoming webhook, which is a secret.",
        examples=["SLACK_WEBHOOK_URL"],
    )


class Email(Declared):
    """A mail server, from whom it sends, and to whom."""

    server: Text = Field(description="Host of the SMTP server.", examples=["smtp.example.com"])
    port: StrictInt = Field(587, ge=1, le=65535, description="Its port.", examples=[465])
    tls: Literal["starttls", "tls", "none"] = Field(
        "starttls",
        description="`tls` from the first byte on, `starttls` after a greeting; `none` sends in clear, without a password.",
        examples=["tls"],
    )
    sender: Address = Field(alias="from", description="Address of the sender.", examples=["etc@example.com"])
    to: tuple[Address, ...] = Field(description="Addresses.", min_length=1, examples=[["data@example.com"]])
    user: Text | None = Field(None, description="User of the SMTP server.", examples=["etc"])
    password_variable: VariableName | None = Field(
        None, description="Environment variable that holds the user's password.", examples=["SMTP_PASSWORD"]
    )

    @model_validator(mode="after")
    def _password_is_safe(self) -> Self:
        if (self.user is None) != (self.password_variable is None):
            raise ValueError("`user` and `password_variable` of `notify.email` need each other")
        if self.user is not None and self.tls == "none":
            raise ValueError("`notify.email` sends no password in clear: use `tls: starttls`, or leave out `user`")
        return self


class Notify(Declared):
    """Sends a message when a table or partition breaks its limit or recovers, or when a run or verification fails."""

    slack: Slack | None = Field(
        None, description="A channel of Slack.", examples=[{"url_variable": "SLACK_WEBHOOK_URL"}]
    )
    http: HttpEndpoint | None = Field(
        None, description="Gets plain JSON.", examples=[{"url": "https://alerts.example.com/etc"}]
    )
    email: Email | None = Field(
        None,
        description="E-mail by SMTP.",
        examples=[{"server": "smtp.example.com", "from": "etc@example.com", "to": ["data@example.com"]}],
    )
    every_ms: IntervalMs = Field(
        "15m",
        alias="every",
        validate_default=True,
        description="Each of them gets at most one message in this time, with all that is new.",
        examples=["1h"],
    )
    timeout_ms: IntervalMs = Field(
        "30s", alias="timeout", validate_default=True, description="How long an answer may take.", examples=["10s"]
    )
    record: Text | None = Field(
        None,
        description="Folder or URI of the record of what was sent, which runs on several machines share; the target folder "
        "if not given.",
        examples=["s3a://lake/etc"],
    )

    @model_validator(mode="after")
    def _has_somebody(self) -> Self:
        if self.slack is None and self.http is None and self.email is None:
            raise ValueError("`notify` needs `slack`, `http` or `email`")
        return self
