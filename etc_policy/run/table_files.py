"""What apply reads from a table's files besides its state, and removes of them: pending plans, planned files, commits."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from math import inf

from etc_policy.errors import EngineError, EtcError, RetryableError, TableError
from etc_policy.errors.codes import Code
from etc_policy.hudi.completed_writes import commit_of, completed_write, plan_extra, records_added
from etc_policy.hudi.completion_times import metadata_timeline
from etc_policy.hudi.file_slices import MARKER
from etc_policy.hudi.layout import METADATA_NOTE, METADATA_TABLE, parse_data_file
from etc_policy.hudi.metadata_values import pairs_of
from etc_policy.hudi.pending_plan import require_own, require_own_in_metadata_table, rollback_plans
from etc_policy.hudi.pending_writes import marker_files, open_in_metadata_table, writes_in_flight
from etc_policy.hudi.plan_file import decode_operations, require_full
from etc_policy.hudi.properties import metadata_partitions, read_properties
from etc_policy.hudi.schemas import lacking_at
from etc_policy.hudi.stable_reading import read_until_stable, table_errors
from etc_policy.hudi.timeline import CUT_OFF_HINT, Timeline, file_ids_in, read_timeline
from etc_policy.hudi.writer_options import STREAMING
from etc_policy.plan.commit_metadata import compaction_record
from etc_policy.plan.model import Operation
from etc_policy.plan.split import SPLIT_FOLDER
from etc_policy.policy.manifest import Policy
from etc_policy.run.ports import AtCommit, Job
from etc_policy.run.splitting import discard, discard_extracts, split_files, split_slices
from etc_policy.storage.clocks import time_at
from etc_policy.storage.open_storage import open_reader, open_storage
from etc_policy.storage.port import OWN_FOLDER, TableReader
from etc_policy.table.history import WITHDRAWN, Commit
from etc_policy.table.state import TableState, newest_base_file

#: How long is waited for a writer that has a commit to the metadata table open.
_WRITER_WAIT_SECONDS, _POLL_SECONDS = 10.0, 0.25


class HudiFiles:
    """Plans and commits of a table as its files say them, and the files that a plan by record is made of."""

    def pending_job(self, policy: Policy, state: TableState, instant: str | None = None) -> Job:
        """Our pending plan, or that of others at the instant, as a job, with the metadata that its plan file carries.

        Raises:
            TableError: it cannot be read, or is of no form that etc and Hudi write.

        """
        with table_errors(state.base_path):
            timeline = timeline_of(state.base_path)
            planned = instant or state.own_pending or ""
            job = _job(policy, timeline, planned, state.table_version, state.metadata_partitions)
            return replace(job, base_file=newest_base_file(state.slices), in_changelog_mode=state.in_changelog_mode)

    def missing_files(self, job: Job) -> tuple[str, ...]:
        """Planned base and log files that are gone, and what a split made that is not as it was, as paths below the table."""
        storage = open_reader(job.base_path)
        with table_errors(job.base_path):
            gone = [path for path in (*job.base_paths, *job.log_paths) if storage.info(path) is None]
            made = ((path, size, storage.info(path)) for path, size in split_files(job))
            return (*gone, *(path for path, size, found in made if found is None or found.size_bytes != size))

    def bytes_read(self, job: Job) -> int:
        """What a job reads by its files: what a plan on the timeline says of it, any writer of the table may change."""
        storage = open_reader(job.base_path)
        with table_errors(job.base_path):
            found = map(storage.info, (*job.base_paths, *job.log_paths))
            return sum(one.size_bytes for one in found if one is not None)

    def remove_orphans(self, state: TableState) -> None:
        """Remove carried log files whose compaction is not on the timeline: their rows are in the slice that they came from."""
        storage, pending = open_storage(state.base_path), timeline_of(state.base_path).files
        with table_errors(state.base_path):
            for path in state.orphans:
                name = parse_data_file(path.rpartition("/")[2])
                if name is not None and name.instant not in pending and not storage.is_linked(path):
                    storage.remove(path)

    def split(self, job: Job, state: TableState) -> Job:
        """The job with its log files split by record.

        Raises:
            EngineError: one cannot be split, or lies behind a link, or a file not be written, or another run has published a plan
            at the job's instant. What was made is removed.

        """
        require_no_links(job)
        with table_errors(job.base_path):
            try:
                return split_slices(job, state.event_time_type, partial(_require_unpublished, job))
            except BaseException:
                with suppress(EtcError, OSError):  # the next run removes it
                    self.discard_split(job)
                raise

    def has_left_split(self, base_path: str) -> bool:
        """Whether there are extracts of log files; a run that ends removes its own."""
        with table_errors(base_path), suppress(FileNotFoundError):
            return bool(open_reader(base_path).names(SPLIT_FOLDER))
        return False

    def discard_left(self, base_path: str) -> None:
        """Remove the extracts of all runs, which were killed: there must be no pending plan of etc."""
        with table_errors(base_path):
            open_storage(base_path).remove_tree(SPLIT_FOLDER)

    def discard_split(self, job: Job) -> None:
        """Remove what a split has made: all where the job's plan is not on the timeline, or is withdrawn; else its extracts, once
        it is done.
        """
        timeline, storage = timeline_of(job.base_path), open_storage(job.base_path)
        is_done = job.instant in timeline.completions
        if job.instant not in timeline.files or (is_done and WITHDRAWN in timeline.commit(job.instant).extra):
            discard(storage, job)
        elif is_done:
            discard_extracts(storage, job)

    def completed_commit(self, base_path: str, instant: str) -> Commit | None:
        """The compaction at an instant; None when it has not completed."""
        with table_errors(base_path):
            timeline = timeline_of(base_path)
            return commit_of(completed_write(timeline, instant)) if instant in timeline.completions else None

    def has_added(self, job: Job) -> bool:
        """Whether the completed compaction at the job's instant records the log files that its plan carries, or has split off."""
        with table_errors(job.base_path):
            return records_added(completed_write(timeline_of(job.base_path), job.instant))

    def wrong_schema(self, base_path: str, instant: str) -> str | None:
        """Why Hudi would not merge by the table's schema at an instant, as a clause; None where it would.

        See facts: schema-of-the-cut.
        """
        return read_until_stable(base_path, lambda: _wrong_schema(timeline_of(base_path), instant))

    def read_at_commit(self, job: Job) -> AtCommit:
        """What stands against the commit of the compaction, from one listing of the timeline."""

        def look() -> AtCommit:
            properties = read_properties(storage)
            timeline = read_timeline(storage, properties)
            if job.instant in timeline.completions:
                return AtCommit(is_completed=True)
            plan = timeline.plan_of(job.instant) or {}  # somebody else's, where the job has no operations
            taken = _rolled_back(timeline, job.instant, job.operations or decode_operations(plan))
            wrong_schema = _wrong_schema(timeline, job.instant)
            begun = (one for one in timeline.files if one not in timeline.completions)
            restore = next((one for one in begun if timeline.latest(one).action == "restore"), None)
            for_good = next((_takes_back(at, of) for at, of in taken if not _leaves_out(timeline, of)), None)
            rollbacks = frozenset(at for at, of in taken if _leaves_out(timeline, of))
            others = _changed_table(storage, properties, job)
            return AtCommit(False, wrong_schema, for_good, restore, rollbacks, others)

        storage = open_reader(job.base_path)
        return read_until_stable(job.base_path, look)

    def writes_in_flight(self, base_path: str, heartbeat_expiry_ms: int) -> frozenset[str]:
        """The instants of writes that have begun, and neither completed nor died, and of rollbacks of others."""
        storage = open_reader(base_path)

        def look() -> frozenset[str]:
            timeline = timeline_of(base_path)
            latest = map(timeline.latest, timeline.files)
            rollbacks = (one.requested for one in latest if one.state != "completed" and one.action == "rollback")
            writes = writes_in_flight(storage, timeline, heartbeat_expiry_ms)
            return frozenset((*(write.requested for write in writes if write.may_live), *rollbacks))

        return read_until_stable(base_path, look)

    def seconds_since_files(self, base_path: str, writes: Iterable[str]) -> tuple[float | None, ...]:
        """How long ago each of these writes made a file; None for one that has made none.

        It is infinite for a rollback, and for a write that was rolled back.
        """
        storage = open_reader(base_path)
        timeline = read_until_stable(base_path, lambda: timeline_of(base_path))
        now = time_at(storage.location)

        def since(write: str) -> float | None:
            if write not in timeline.files or timeline.latest(write).action == "rollback":
                return inf
            found = map(storage.info, marker_files(storage, write))
            made = [marker.modified_ns / 1e9 for marker in found if marker is not None]
            return now - max(made) if made else None

        return tuple(map(since, writes))

    def cut_off_job(self, policy: Policy, base_path: str) -> Job | None:
        """The compaction of etc whose commit has a file, and nothing in it; None without one.

        Hudi 0.x writes the file of a commit in place: one that is killed in that moment leaves it empty
        (facts: empty-commit-file).

        Raises:
            TableError: the table cannot be read, or etc has not written the plan.

        """
        storage = open_reader(base_path)
        with table_errors(base_path):
            properties = read_properties(storage)
            timeline = read_timeline(storage, properties)
            version, partitions = int(properties["hoodie.table.version"]), metadata_partitions(properties)
            for instant in filter(lambda one: _is_cut_off(timeline, one), timeline.completions):
                if compaction_record(instant, instant, plan_extra(timeline, instant) or {}) is not None:
                    return _job(policy, timeline, instant, version, partitions)
        return None

    def reopen(self, job: Job) -> None:
        """Remove the empty file of the job's commit; the compaction is inflight again, and is rolled back by whoever runs it.

        Raises:
            TableError: what it compacted was cleaned since, or may be at any moment.

        """
        storage, timeline = open_storage(job.base_path), timeline_of(job.base_path)
        later = (instant for instant in timeline.files if instant > job.instant)
        cleaning = next((one for one in later if any(f.action == "clean" for f in timeline.files[one])), None)
        missing = "".join(self.missing_files(job)[:1])
        if cleaning or missing:
            why = (
                f"the file `{missing}` that it compacted is gone"
                if missing
                else f"a clean began after it, at {cleaning}"
            )
            message = f"the commit of the compaction at {job.instant} of `{job.base_path}` is empty, and {why}"
            raise TableError(Code.DAMAGED_TIMELINE, message, hint=CUT_OFF_HINT)
        if _is_cut_off(timeline, job.instant):
            name = timeline.latest(job.instant).name
            storage.remove(f"{timeline.folder}/{name}")
            storage.remove(f"{timeline.folder}/.{name}.crc")


def _require_unpublished(job: Job) -> None:
    if job.instant in timeline_of(job.base_path).files:
        message = f"another run has published the compaction at {job.instant} of `{job.policy.name}`"
        hint = "this run stalled, and that one took over; run `etc apply` again"
        raise EngineError(Code.RUN_TAKEN_OVER, message, hint=hint)


def _wrong_schema(timeline: Timeline, instant: str) -> str | None:
    lacking = lacking_at(timeline, instant)
    return lacking.why if lacking is not None else None


def _rolled_back(timeline: Timeline, instant: str, operations: tuple[Operation, ...]) -> list[tuple[str, str]]:
    """The rollbacks since a plan of what it compacts, or that are about to be, each with the write that it takes back.

    See facts: planned-file-rolled-back. Before table version 8 a log file does not bear the instant of its write, and a rollback
    names the file groups that it takes rows from; one that names none takes them from any.
    """
    files = ((one.base_file, *one.log_files_compacted) for one in operations)
    names = (parse_data_file(name) for name in chain.from_iterable(files) if name)
    written, chosen = {name.instant for name in names if name is not None}, {one.file_id for one in operations}
    found = []
    for rollback, of, plan in rollback_plans(timeline, (one for one in timeline.files if one > instant)):
        if timeline.layout < 2 and (of or "") < instant:
            named = frozenset(file_ids_in(plan))
            is_taken = bool(chosen) and (not named or not chosen.isdisjoint(named))
        else:
            is_taken = of in written
        if is_taken:
            found.append((rollback, of or "?"))
    return found


def _leaves_out(timeline: Timeline, of: str) -> bool:
    """Whether Hudi leaves out the rows of a write that was rolled back, as it merges the log files that hold them.

    Only before table version 8 such files stay; there it takes whatever is before its active timeline for committed.
    """
    return timeline.layout < 2 and of >= (timeline.first_active or "")


def _changed_table(storage: TableReader, properties: Mapping[str, str], job: Job) -> str | None:
    """What the table has become that the job's client does not mirror; etc itself may be building its metadata table."""
    version, now = properties["hoodie.table.version"], metadata_partitions(properties)
    if version != str(job.table_version):
        return f"it is of table version {version} now, and was of {job.table_version}"
    if {*now} == {*job.metadata_partitions} or storage.info(METADATA_NOTE) is not None:
        return None
    return f"its metadata table has {_named(now)} now, and had {_named(job.metadata_partitions)}"


def _named(partitions: tuple[str, ...]) -> str:
    return ", ".join(sorted(partitions)) or "nothing"


def _takes_back(rollback: str, of: str) -> str:
    return f"the rollback at {rollback} takes back the write at {of}, which it compacts"


def _is_cut_off(timeline: Timeline, instant: str) -> bool:
    """Whether a `commit` has a file, and nothing in it."""
    last = timeline.latest(instant)
    info = timeline.storage.info(f"{timeline.folder}/{last.name}") if last.action == "commit" else None
    return info is not None and info.size_bytes == 0


def _job(policy: Policy, timeline: Timeline, instant: str, table_version: int, partitions: tuple[str, ...]) -> Job:
    plan = timeline.plan_of(instant) or {}
    require_full(plan, f"`{instant}` in `{timeline.storage.location}`")
    operations = decode_operations(plan)
    require_own(timeline, instant, operations)
    return Job(
        policy=policy,
        base_path=timeline.storage.location,
        table_version=table_version,
        metadata_partitions=partitions,
        instant=instant,
        operations=operations,
        extra_metadata=pairs_of(plan),
    )


def wait_for_metadata_commits(job: Job) -> None:
    """Wait for a while until no other writer has a commit to the metadata table open."""
    deadline = time.monotonic() + _WRITER_WAIT_SECONDS
    while _other_metadata_commits(job) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def require_no_metadata_commits(job: Job) -> None:
    """Return if no other writer has a commit to the metadata table open, which a client that does not stream would roll back.

    Raises:
        RetryableError: one has (facts: streaming-writers).

    """
    begun = next(iter(_other_metadata_commits(job)), None)
    if begun is not None:
        message = (
            f"the writer that began at {begun} is at work on the metadata table of `{job.policy.name}`, and other writers do not "
            "stream to it: a commit beside it would end that of the writer"
        )
        hint = f"run `etc apply` again; give all writers the same `{STREAMING}`, and set it in `hudi_options`"
        raise RetryableError(Code.CANNOT_COMPACT_NOW, message, hint=hint)


def _other_metadata_commits(job: Job) -> tuple[str, ...]:
    storage, expiry_ms = open_reader(job.base_path), job.policy.writer.heartbeat_expiry_ms
    found = read_until_stable(
        job.base_path, lambda: open_in_metadata_table(storage, timeline_of(job.base_path), expiry_ms)
    )
    return tuple(one for one in found if one != job.instant)


def index_marks(job: Job) -> Mapping[str, bytes]:
    """What tells each partition of the table's metadata table from one of its name that is made later: Hudi's mark in it."""
    storage = open_reader(job.base_path)
    with table_errors(job.base_path):
        return {one: _mark(storage, one) for one in job.metadata_partitions}


def _mark(storage: TableReader, partition: str) -> bytes:
    with suppress(FileNotFoundError, NotADirectoryError):
        return storage.read(f"{METADATA_TABLE}/{partition}/{MARKER}")
    return b""


def require_same_indexes(job: Job, marks: Mapping[str, bytes]) -> None:
    """Return if the metadata table has the partitions with these marks yet; etc itself may be building it anew.

    A client commits by the columns and kinds of the indexes that it was made for (facts: index-made-anew).

    Raises:
        RetryableError: one was dropped and made anew.

    """
    now = index_marks(job)
    anew = next((one for one in job.metadata_partitions if now[one] != marks[one]), None)
    if anew is not None and open_reader(job.base_path).info(METADATA_NOTE) is None:
        message = (
            f"`{job.policy.name}` changed since its compaction began: `{anew}` in its metadata table was made anew"
        )
        hint = "nothing was committed; run the same command again: it begins anew, by the table as it is now"
        raise RetryableError(Code.CANNOT_COMPACT_NOW, message, hint=hint)


def require_regular(base_path: str, *folders: str) -> None:
    """Return if what Java is to read or write in these folders of a table are files and folders.

    Raises:
        EngineError: one is a link, or lies behind one, by which Java would read and write elsewhere.
        TableError: one is a pipe, a socket or a device: Java waits without an end for a pipe that nobody writes to.

    """
    storage = open_storage(base_path)
    behind = ((folder, "link") for folder in folders if folder and storage.is_linked(f"{folder}/file"))
    with table_errors(base_path):
        found = chain.from_iterable(storage.irregular(folder) for folder in folders)
        path, kind = next(chain(behind, found), (None, None))
    if kind == "link":
        message = f"`{path}` of `{base_path}` lies behind a link, through which Hudi would read and write elsewhere"
        hint = "put the file or folder itself there, or mount the folder, if you know the link; then run this again"
        raise EngineError(Code.BEHIND_A_LINK, message, hint=hint)
    if path is not None:
        cause, hint = f"`{path}` is a pipe, a socket or a device", "remove it: a table has only files and folders"
        raise TableError(Code.CANNOT_READ_TABLE, f"cannot read the table at `{base_path}`", hint=hint, cause=cause)


def require_no_links(job: Job) -> None:
    """Return if what Hudi reads or writes for the job are files and folders: the whole table where it lists all of it anew.

    Raises:
        EngineError: it would write where a link leads to, or into the table what its writers may not read.
        TableError: it would wait for a pipe.

    """
    require_regular(job.base_path, OWN_FOLDER, *{one.partition for one in job.operations})
    if open_reader(job.base_path).info(METADATA_NOTE) is not None:
        require_regular(job.base_path, "")


def require_own_plan(job: Job) -> None:
    """Return if the job's plan as it is now, which Hudi is about to read, has a form that etc and Hudi give it.

    Raises:
        TableError: somebody has changed it since.

    """
    with table_errors(job.base_path):
        _job(job.policy, timeline_of(job.base_path), job.instant, job.table_version, job.metadata_partitions)


def require_own_services(job: Job) -> None:
    """Return if what pends in the metadata table names files below it alone: Hudi may carry that out with the job.

    Raises:
        TableError: so it is not.

    """
    storage = open_reader(job.base_path)
    timeline = read_until_stable(job.base_path, lambda: metadata_timeline(storage))
    if timeline is not None:
        with table_errors(job.base_path):
            require_own_in_metadata_table(timeline)


def timeline_of(base_path: str) -> Timeline:
    """The active timeline of the table at a base path, as listed now."""
    storage = open_reader(base_path)
    return read_timeline(storage, read_properties(storage))
