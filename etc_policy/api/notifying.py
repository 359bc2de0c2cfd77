"""Keeps the problems that were found in a record, and sends what is new to the channels of `notify:`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from etc_policy.errors import EtcError, RetryableError
from etc_policy.errors.codes import Code
from etc_policy.policy.notify_schema import Notify
from etc_policy.report.problems import Findings, ProblemRecord, document_of
from etc_policy.run.channels import Channel, channels_of
from etc_policy.run.send_lock import SendLock
from etc_policy.run.sending import NotSentError
from etc_policy.storage.open_storage import is_remote
from etc_policy.storage.shared_file import change_shared, read_shared
from etc_policy.wiring import Environment, clock_ms

RECORD, LOCK = "notified.json", "notified.lock"


def send_news(
    environment: Environment, notify: Notify, project: str | None, target_dir: Path, findings: Findings
) -> tuple[EtcError, ...]:
    """Send what is new since the last message; what is not sent is an error, and the next run sends it."""
    location = notify.record or str(target_dir)
    try:
        if not is_remote(location):
            location = os.path.realpath(environment.project_dir / location)
            Path(location).mkdir(parents=True, exist_ok=True)
        change_shared(location, RECORD, lambda kept: _json(_parsed(kept).after_check(findings)))
        faults = _send(tuple(channels_of(notify, os.environ)), location, project, notify.every_ms)
    except RetryableError as error:
        return (error,)
    except OSError as error:
        faults = [f"their record in `{location}` cannot be kept: {error.strerror or error}"]
    if not faults:
        return ()
    message = f"messages about problems were not sent: {'; '.join(faults)}"
    return (RetryableError(Code.NOT_SENT, message, hint="what was not sent the next run sends"),)


def _send(channels: Sequence[Channel], location: str, project: str | None, every_ms: int) -> list[str]:
    faults: list[str] = []
    if not any(_read(location).message_to(one.name, clock_ms(), every_ms) for one in channels):
        return faults
    with SendLock(location, LOCK).held() as renew:
        for channel in channels:
            now_ms = clock_ms()
            message = _read(location).message_to(channel.name, now_ms, every_ms)
            if message is None:
                continue
            renew()
            try:
                channel.send(document_of(message, project))
            except NotSentError as error:
                faults.append(f"{channel.name}: {error}")
            else:
                sent = channel.name, now_ms, message
                change_shared(location, RECORD, lambda kept, sent=sent: _json(_parsed(kept).after_message(*sent)))  # type: ignore[misc]
    return faults


def _read(location: str) -> ProblemRecord:
    return _parsed(read_shared(location, RECORD))


def _parsed(kept: bytes | None) -> ProblemRecord:
    """What is kept; a record that cannot be read is begun anew: all that lasts is then sent once more."""
    try:
        return ProblemRecord() if kept is None else ProblemRecord.of_json(kept)
    except ValueError:
        return ProblemRecord()


def _json(record: ProblemRecord) -> bytes:
    return record.as_json(exclude_defaults=True).encode()
