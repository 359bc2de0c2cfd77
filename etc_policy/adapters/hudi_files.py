"""TableFiles and Lease over a table's folder: pending plans, commits, heartbeats, one `etc apply` at a time."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from types import TracebackType

from etc_policy.adapters.hudi_layout import local_path, timeline_folder
from etc_policy.adapters.hudi_options import HEARTBEAT_INTERVAL_MS, HEARTBEAT_MISSES, lock_folder
from etc_policy.adapters.hudi_plan_file import decode_operations
from etc_policy.adapters.hudi_table import WRITER_HEARTBEAT_TOLERANCE_SECONDS, read_properties
from etc_policy.adapters.hudi_timeline import Timeline, read_timeline, write_stats
from etc_policy.compile.manifest import Policy
from etc_policy.errors import EngineError, RetryableError
from etc_policy.execute.ports import CommitSummary, Job
from etc_policy.plan.commit_metadata import PLAN_ID
from etc_policy.plan.table_state import TableState

_POLL_SECONDS = 0.5
_MARK_BYTES = 32
_HEARTBEAT_TOLERANCE_SECONDS = HEARTBEAT_INTERVAL_MS * HEARTBEAT_MISSES / 1000


class HudiFiles:
    """Reads plans and commits from the timeline."""

    def pending_job(self, policy: Policy, state: TableState) -> Job:
        """Our pending plan as a job, with the metadata that its plan file carries."""
        instant = state.own_pending or ""
        plan = _timeline(state.base_path).plan_of(instant) or {}
        return Job(
            policy=policy,
            base_path=state.base_path,
            table_version=state.table_version,
            metadata_partitions=state.metadata_partitions,
            instant=instant,
            operations=decode_operations(plan),
            extra_metadata=plan.get("extraMetadata") or {},
        )

    def missing_files(self, job: Job) -> tuple[str, ...]:
        """Planned base and log files that are gone, as paths below the table."""
        planned = (
            f"{operation.partition}/{name}".lstrip("/")
            for operation in job.operations
            for name in (operation.base_file, *operation.log_files_compacted)
            if name
        )
        base = local_path(job.base_path)
        return tuple(path for path in planned if not (base / path).is_file())

    def commit_summary(self, base_path: str, instant: str) -> CommitSummary | None:
        """Completion time and bytes written of the compaction at an instant; None when it has not completed."""
        timeline = _timeline(base_path)
        if instant not in timeline.completions:
            return None
        metadata = timeline.metadata(timeline.latest(instant))
        written = sum(stat.get("fileSizeInBytes") or 0 for _, stat in write_stats(metadata))
        extra = {
            **((timeline.plan_of(instant) or {}).get("extraMetadata") or {}),
            **(metadata.get("extraMetadata") or {}),
        }
        return CommitSummary(timeline.completions[instant], written, extra.get(PLAN_ID))


class FileLease:
    """An advisory lock on a file of the table: the kernel gives it back when its process dies, however it dies."""

    def __init__(self, base_path: str) -> None:
        self._base = local_path(base_path)
        self._handle = -1
        self._dead_run = ""

    def __enter__(self) -> FileLease:
        """Take the lease, and clear the table lock that a killed run of ours may have left in our own folder.

        Raises:
            RetryableError: another `etc apply` works on this table.

        """
        folder = lock_folder(self._base)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(folder / "apply.lease", os.O_CREAT | os.O_RDWR, 0o644)
        except OSError as error:
            raise EngineError("ETC309", f"cannot write to `{folder}`", cause=str(error)) from error
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._handle)
            message = f"another `etc apply` is working on `{self._base}`"
            raise RetryableError("ETC403", message, hint="wait for it to end, then run this again") from error
        self._dead_run = os.pread(self._handle, _MARK_BYTES, 0).decode(errors="replace")
        (folder / "lock").unlink(missing_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the lease back."""
        os.close(self._handle)

    def mark(self, instant: str) -> None:
        """Write the instant into the lease: should this process die, the next holder knows whose heartbeat it finds."""
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, instant.encode(), 0)

    def wait_for_dead_run(self, instant: str) -> None:
        """Return once the heartbeat of a run of `instant` has expired; a beat that advances is a living run.

        A run of ours beats often, and its lease is free, so it is dead: a short wait will do. A stock writer that has
        taken the plan beats once a minute.

        Raises:
            RetryableError: the run is alive.

        """
        heartbeat = self._heartbeat(instant)
        first = _beat(heartbeat)
        tolerance = _HEARTBEAT_TOLERANCE_SECONDS if self._dead_run == instant else WRITER_HEARTBEAT_TOLERANCE_SECONDS
        while (beat := _beat(heartbeat)) is not None and time.time() - beat <= tolerance:
            if beat != first:
                message = f"a run of the compaction at {instant} is alive: its heartbeat advances"
                raise RetryableError("ETC404", message, hint="wait for it to end, then run this again")
            time.sleep(_POLL_SECONDS)

    def require_alive(self, instant: str) -> None:
        """Return while our heartbeat is fresh, or where the engine keeps none (bundles before 1.2).

        Raises:
            EngineError: it expired, so another run may have taken over.

        """
        beat = _beat(self._heartbeat(instant))
        if beat is not None and time.time() - beat > _HEARTBEAT_TOLERANCE_SECONDS:
            hint = "the machine stalled for too long; run `etc apply` again"
            raise EngineError("ETC307", f"our heartbeat at {instant} has expired; nothing was committed", hint=hint)

    def _heartbeat(self, instant: str) -> Path:
        return self._base / ".hoodie" / ".heartbeat" / instant


def _beat(heartbeat: Path) -> float | None:
    try:
        return heartbeat.stat().st_mtime
    except FileNotFoundError:
        return None


def _timeline(base_path: str) -> Timeline:
    base = local_path(base_path)
    return read_timeline(*timeline_folder(base, read_properties(base)))
