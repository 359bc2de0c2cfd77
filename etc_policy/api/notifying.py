"""Keeps the problems that were found in a record, and sends what is new to the channels of `notify:`."""

from __future__ import annotations

import os
from pathlib import Path

from etc_policy.errors import EtcError, RetryableError
from etc_policy.errors.codes import Code
from etc_policy.policy.project_schema import Notify
from etc_policy.report.problems import Findings, ProblemRecord, document_of
from etc_policy.run.done_store import RecordStore
from etc_policy.run.sending import NotSentError, channels_of, message_seconds
from etc_policy.storage.open_storage import is_remote
from etc_policy.wiring import Environment, clock_ms


class _ProblemStore(RecordStore[ProblemRecord]):
    """The record of a project and a target. One that cannot be read is begun anew: all that lasts is then sent once more."""

    def parsed(self, kept: bytes | None) -> ProblemRecord:
        try:
            return ProblemRecord() if kept is None else ProblemRecord.of_json(kept)
        except ValueError:
            return ProblemRecord()


def send_news(
    environment: Environment, notify: Notify, project: str | None, target_dir: Path, findings: Findings
) -> tuple[EtcError, ...]:
    """Send what is new since the last message; what is not sent is an error, and the next run sends it."""
    location, target = notify.record or str(target_dir), environment.target
    of_target = (target.profile, target.name) if target.profile else ()
    names = (*((project,) if notify.record else ()), *of_target)  # problems of two have the same keys
    try:
        if not is_remote(location):
            location = os.path.realpath(environment.project_dir / location)
            Path(location).mkdir(parents=True, exist_ok=True)
        store = _ProblemStore(location, ".".join(("notified", *filter(None, names), "json")))
        store.update(lambda kept: kept.after_check(findings))
        faults = _send(notify, store, project, ".".join(of_target))
    except RetryableError as error:
        return (error,)
    except OSError as error:
        faults = [f"their record in `{location}` cannot be kept: {error.strerror or error}"]
    if not faults:
        return ()
    message = f"messages about problems were not sent: {'; '.join(faults)}"
    return (RetryableError(Code.NOT_SENT, message, hint="what was not sent the next run sends"),)


def _send(notify: Notify, store: _ProblemStore, project: str | None, target: str) -> list[str]:
    faults: list[str] = []
    channels, every_ms = tuple(channels_of(notify, os.environ)), notify.every_ms
    if not any(store.read().message_to(one.name, clock_ms(), every_ms) for one in channels):
        return faults
    with store.turn(message_seconds(notify.timeout_ms)) as update:
        for channel in channels:
            now_ms = clock_ms()
            message = update(lambda kept: kept).message_to(channel.name, now_ms, every_ms)
            if message is None:
                continue
            try:
                channel.send(document_of(message, project, target))
            except NotSentError as error:
                faults.append(f"{channel.name}: {error}")
            else:
                sent = channel.name, now_ms, message
                store.update(lambda kept, sent=sent: kept.after_message(*sent))  # type: ignore[misc]
    return faults
