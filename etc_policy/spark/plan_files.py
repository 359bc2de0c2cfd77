"""The files of a compaction of etc itself that has not completed: found, and removed in an order that may be cut short."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from etc_policy.errors import PLAN_AGAIN, EngineError, RetryableError, StalePlanError
from etc_policy.errors.codes import Code
from etc_policy.hudi.file_slices import partitions_of
from etc_policy.hudi.layout import HEARTBEATS, METADATA_TABLE, parse_data_file, timeline_folder
from etc_policy.hudi.pending_plan import pending_rollbacks
from etc_policy.hudi.pending_writes import writes_in_flight
from etc_policy.hudi.plan_file import encode_plan
from etc_policy.hudi.properties import read_properties
from etc_policy.hudi.stable_reading import table_errors
from etc_policy.plan.cut import archive_passed
from etc_policy.run.carrying import ADDED_TO, carried_drafts, carried_paths, untouched_carried
from etc_policy.run.ports import Job
from etc_policy.run.splitting import discard_extracts, split_files
from etc_policy.run.table_files import timeline_of
from etc_policy.storage.open_storage import open_reader, open_storage
from etc_policy.storage.port import FileInfo, TableStorage
from etc_policy.table.state import CUT_VERSIONS, path_below


def create_plan(job: Job) -> None:
    """Write the plan's file where there is none.

    Raises:
        StalePlanError: somebody else has published a plan at this instant.

    """
    content = encode_plan(job.operations, job.extra_metadata, job.partitions_with_logs)
    try:
        open_storage(job.base_path).create(_timeline_file(job, "requested"), content)
    except FileExistsError as error:
        message = f"there is a plan at {job.instant} already, which somebody else has published"
        raise StalePlanError(Code.STALE_PLAN, message, hint=PLAN_AGAIN) from error


def remove_plan(job: Job) -> None:
    """Remove all that was written for the plan, then the plan, then its markers."""
    remove_written(job)
    storage = open_storage(job.base_path)
    for state in ("inflight", "requested"):
        _remove(storage, _timeline_file(job, state))
    with suppress(OSError):
        storage.remove_tree(f".hoodie/.temp/{job.instant}")


def remove_written(job: Job) -> None:
    """Remove base files of C first: one that outlives its plan would hide later log files (facts: archive-passed-published).

    Then rollbacks of C that were begun and did not end: without the plan nobody would ever take them up, and a pending
    rollback forbids to plan. Then carried log files, which without the plan would be attached to another slice
    (facts: carried-after-plan).

    Raises:
        RetryableError: another writer has begun the compaction.
        EngineError: a file lies behind a link; or, before table version 8, the plan cannot be taken back.

    """
    storage, begun = open_storage(job.base_path), _inflight(job)
    gone = [path for path, is_log in _files_of(job) if not is_log]
    gone += _rollbacks_begun(job)
    added = (*untouched_carried(job), *carried_drafts(job), *dict(split_files(job)))
    gone += (path for path in added if storage.info(path) is not None)
    require_unwritten(job)
    if _inflight(job) not in (None, begun):  # to look for the files takes long on a large table
        message = f"another writer has begun the compaction at {job.instant}: it is not taken back"
        raise RetryableError(Code.RUN_IS_ALIVE, message, hint="wait for it to end, then run this again")
    _require_no_links(storage, gone)
    for path in gone:
        _remove(storage, path)
    if job.splits:
        discard_extracts(storage, job)


def must_be_removed(job: Job) -> bool:
    """Whether the plan may not stay on the timeline as a commit that wrote nothing.

    Before table version 8 a plan begins file slices, which must not stay behind. One that archiving has passed would hide
    the commits that were archived after it.
    """
    return job.table_version not in CUT_VERSIONS or archive_passed(timeline_of(job.base_path).instants(), job.instant)


def _require_no_links(storage: TableStorage, paths: list[str]) -> None:
    """Before the first file goes: the plan must not be left behind without some of what it made.

    Raises:
        EngineError: one lies behind a link.

    """
    linked = next((path for path in paths if storage.is_linked(path)), None)
    if linked is not None:
        message = f"`{linked}` of `{storage.location}` lies behind a link, through which nothing is removed"
        hint = "nothing was removed; replace the link by the folder that it leads to, then run this again"
        raise EngineError(Code.BEHIND_A_LINK, message, hint=hint)


def _timeline_folder(job: Job) -> tuple[str, int]:
    storage = open_reader(job.base_path)
    return timeline_folder(read_properties(storage), storage.location)


def _timeline_file(job: Job, state: str) -> str:
    return f"{_timeline_folder(job)[0]}/{job.instant}.compaction.{state}"


def is_inflight(job: Job) -> bool:
    """Whether somebody has begun to carry the plan out."""
    return _inflight(job) is not None


def _inflight(job: Job) -> FileInfo | None:
    return open_reader(job.base_path).info(_timeline_file(job, "inflight"))


def _files_of(job: Job) -> Iterator[tuple[str, bool]]:
    """Data files that bear the job's instant in their names, and whether each is a log file."""
    with table_errors(job.base_path), open_reader(job.base_path).tree() as tree:
        partitions = partitions_of(tree.read())
    for partition, files in partitions.items():
        for name in files:
            parsed = parse_data_file(name)
            if parsed is not None and parsed.instant == job.instant:
                yield path_below(partition, name), parsed.is_log


def _rollbacks_begun(job: Job) -> Iterator[str]:
    """The timeline files of pending rollbacks of the job's instant, the plan of each last."""
    timeline = timeline_of(job.base_path)
    for requested, _ in pending_rollbacks(timeline, job.instant):
        yield from (f"{timeline.folder}/{f.name}" for f in sorted(timeline.files[requested], key=lambda f: f.state))


def remove_rollbacks(job: Job) -> None:
    """Remove pending rollbacks of the job's instant, which stays inflight: whoever takes it up rolls it back anew."""
    storage = open_storage(job.base_path)
    for path in list(_rollbacks_begun(job)):
        _remove(storage, path)


def prepare_rollback(job: Job) -> None:
    """Remove what a killed run has left in the metadata table, and by which Hudi would not roll it back, or wrongly.

    Hudi rolls nothing back while the heartbeat of an earlier try looks fresh; who holds the lease knows that nobody tries. A
    commit file that 0.x had begun to write is empty; it counts as complete, and Hudi would leave what it wrote
    (facts: empty-commit-file).
    """
    storage = open_storage(job.base_path)
    for requested, _ in pending_rollbacks(timeline_of(job.base_path), job.instant):
        _remove(storage, f"{METADATA_TABLE}/{HEARTBEATS}/{requested}")
    commit = f"{METADATA_TABLE}/.hoodie/{job.instant}.deltacommit"
    info = storage.info(commit)
    if info is not None and info.size_bytes == 0:
        _remove(storage, commit)


def require_unwritten(job: Job) -> None:
    """Before table version 8 a log file belongs to the slice that it names: without the plan that slice would lose its base.

    Raises:
        EngineError: a writer has written such a file.
        RetryableError: a writer that began since may be about to.

    """
    if _timeline_folder(job)[1] > 1:
        return
    carried = untouched_carried(job)
    written = next((path for path, is_log in _files_of(job) if is_log and path not in carried), None)
    if written is not None:
        message = f"the log file {written.rpartition('/')[2]} was written since the plan at {job.instant} was published"
        added_to = written in {path for path, _, _ in carried_paths(job)}
        hint = ADDED_TO if added_to else "run `etc apply`: it finishes the plan"
        raise EngineError(Code.LOG_FILES_ADDED, f"{message}: it cannot be withdrawn", hint=hint)
    expiry_ms = job.policy.writer.heartbeat_expiry_ms
    writes = writes_in_flight(open_reader(job.base_path), timeline_of(job.base_path), expiry_ms)
    began = next((one.requested for one in writes if one.may_live and one.requested > job.instant), None)
    if began is not None:
        message = f"the writer that began at {began} may add to the slices that the plan at {job.instant} begins"
        hint = "run this again when it has ended; if it is dead, the next commit of a writer rolls it back"
        raise RetryableError(Code.RUN_IS_ALIVE, f"{message}: it cannot be withdrawn now", hint=hint)


def _remove(storage: TableStorage, path: str) -> None:
    """Remove a file, and the checksum that Hadoop keeps beside it on local disk."""
    folder, _, name = path.rpartition("/")
    storage.remove(path)
    storage.remove(f"{folder}/.{name}.crc".lstrip("/"))
