"""Splits log files by record before a compaction's plan is published, in this process and through the table's own storage.

Until the plan is committed no reader sees what is made here: a remainder bears C in its name, and extracts are in a folder
of etc. So what a killed run leaves is removed whenever its plan is not on the timeline (`TableState.orphans`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import chain
from tempfile import TemporaryFile

from etc_policy.errors import EngineError
from etc_policy.errors.codes import Code
from etc_policy.hudi import log_split
from etc_policy.hudi.block_times import TimesWanted
from etc_policy.hudi.log_split import NotSplittable, Part, RepeatsOthers, instants_in, split_log_file
from etc_policy.plan.commit_metadata import compaction_record
from etc_policy.plan.model import Operation, SplitInput, SplitSlice
from etc_policy.plan.split import SPLIT, SPLIT_FOLDER, extract_path, made_files, split_text
from etc_policy.run.ports import Job
from etc_policy.storage.open_storage import open_storage
from etc_policy.storage.port import TableStorage, os_errors_as
from etc_policy.table.state import path_below


def split_slices(job: Job, column_type: str | None, require_unpublished: Callable[[], None]) -> Job:
    """The job with its slices split at its threshold; `column_type` is the Avro type of the table's event-time column.

    `require_unpublished` raises where a plan is published at the job's instant, whose files may be of the same names.

    Raises:
        EngineError: a log file cannot be split, or a file not be written.
        RetryableError: the table's store does not answer.

    """
    record = compaction_record(job.instant, job.instant, job.extra_metadata)
    if record is None:
        raise ValueError(f"the job at {job.instant} has no threshold")
    event_time = job.policy.event_time
    wanted = TimesWanted(event_time, column_type, (event_time.column,))
    storage = open_storage(job.base_path)
    require_unpublished()
    storage.remove_tree(SPLIT_FOLDER)  # nothing is pending, so that nobody needs what is there
    splitter = _Splitter(storage, wanted, record.threshold_ms, require_unpublished)
    operations = tuple(splitter.split(one) if one.remainder else one for one in job.operations)
    require_unpublished()  # nor withdrawn meanwhile, by which C is completed
    return replace(job, operations=operations, extra_metadata={**job.extra_metadata, SPLIT: split_text(operations)})


def discard(storage: TableStorage, job: Job) -> None:
    """Remove all that the split of a job has made, or may have."""
    for operation in job.operations:
        if operation.remainder:
            storage.remove(path_below(operation.partition, operation.remainder))
    discard_extracts(storage, job)


def discard_extracts(storage: TableStorage, job: Job) -> None:
    """Remove the extracts of a job that nobody carries out any more."""
    storage.remove_tree(f"{SPLIT_FOLDER}/{job.instant}")


def split_files(job: Job) -> Iterator[tuple[str, int]]:
    """The paths below the table of what a split has made, and their sizes in bytes."""
    return chain.from_iterable(map(made_files, job.operations))


class _Splitter:
    """Splits slices at one threshold."""

    def __init__(
        self, storage: TableStorage, wanted: TimesWanted, threshold_ms: int, require_unpublished: Callable[[], None]
    ) -> None:
        self._storage, self._wanted, self._threshold_ms = storage, wanted, threshold_ms
        self._require_unpublished = require_unpublished

    def split(self, operation: Operation) -> Operation:
        """The operation with its extracts and its remainder written; a log file with no row after T is merged as it is."""
        inputs: list[SplitInput] = []
        with TemporaryFile() as stream:
            late = Part(stream)
            for name in operation.log_files_compacted:
                is_split = name in operation.straddling
                inputs += self._split_file(operation, name, late) if is_split else [SplitInput(name=name)]
            if not inputs:  # nothing is at or before T; Hudi reads an empty log file as one without blocks
                inputs = [SplitInput(name=operation.log_files_compacted[0], extract_bytes=0)]
                with TemporaryFile() as nothing:
                    self._write(extract_path(operation, inputs[0].name), Part(nothing))
            if late.size_bytes > log_split.MAX_LOG_BYTES:  # the next run would refuse to split it
                file_group = path_below(*operation.group)
                why = f"its rows after T take more than {log_split.MAX_LOG_BYTES >> 30} GiB, which no log file may"
                raise self._refused(f"file group `{file_group}`", why)
            if late.rows:
                self._write(path_below(operation.partition, operation.remainder or ""), late)
            split = SplitSlice(inputs=tuple(inputs), remainder_bytes=late.size_bytes)
        return operation.model_copy(update={"split": split})

    def _split_file(self, operation: Operation, name: str, late: Part) -> list[SplitInput]:
        """What of a log file is merged: all of it, an extract or nothing; its rows after T are added to `late`."""
        path, before = path_below(operation.partition, name), late.rows
        with TemporaryFile() as stream:
            early = Part(stream)
            try:
                with self._failing(path, "read"), self._storage.open(path) as content:
                    size = content.seek(0, os.SEEK_END)
                    content.seek(0)
                    split_log_file(content, size, self._wanted, self._threshold_ms, early, late)
            except RepeatsOthers as found:
                is_all = late.rows == before and not early.rows
                if is_all and found.instants <= self._instants_beside(operation, name):
                    return []  # the rows are merged from there
                raise self._refused(f"log file `{path}`", str(found)) from found
            except NotSplittable as why:
                raise self._refused(f"log file `{path}`", str(why)) from why
            if late.rows == before:
                return [SplitInput(name=name)]
            if not early.rows:
                return []
            self._write(extract_path(operation, name), early)
            return [SplitInput(name=name, extract_bytes=early.size_bytes)]

    def _instants_beside(self, operation: Operation, name: str) -> frozenset[str]:
        """Those of the blocks of the other log files that are merged."""
        found: set[str] = set()
        for other in operation.log_files_compacted:
            path = path_below(operation.partition, other)
            if other != name:
                with self._failing(path, "read"), self._storage.open(path) as content:
                    size = content.seek(0, os.SEEK_END)
                    content.seek(0)
                    found |= instants_in(content, size)
        return frozenset(found)

    def _write(self, path: str, part: Part) -> None:
        part.stream.seek(0)
        with self._failing(path, "written"):
            if self._storage.info(path) is not None:  # of a run that was killed, or that has taken this one over
                self._require_unpublished()
                self._storage.remove(path)
            self._storage.create_from(path, part.stream, f"{SPLIT_FOLDER}/draft")

    def _refused(self, what: str, why: str) -> EngineError:
        hint = "nothing was published; set `granularity: log_file`, which merges log files whole"
        message = f"the {what} of `{self._storage.location}` cannot be split by record: {why}"
        return EngineError(Code.NOT_SPLIT, message, hint=hint)

    def _failing(self, path: str, what: str) -> AbstractContextManager[None]:
        hint = "nothing was published: mend the cause, then run `etc apply` again"
        message = f"`{path}` of `{self._storage.location}` could not be {what} to split log files by record"
        return os_errors_as(Code.NOT_SPLIT, message, hint)
