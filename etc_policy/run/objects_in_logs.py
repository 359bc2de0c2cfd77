"""No log file that Java is about to read makes objects of any class, or keeps it reading: its writer could run code, or stop etc.

See facts: objects-of-a-delete-block, blocks-that-lead-back. It is looked at right before; a change in between is not noticed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from etc_policy.errors import TableError
from etc_policy.errors.codes import Code
from etc_policy.hudi.completion_times import metadata_timeline
from etc_policy.hudi.layout import METADATA_NOTE, METADATA_TABLE
from etc_policy.hudi.object_blocks import may_do_harm
from etc_policy.hudi.properties import read_properties
from etc_policy.hudi.stable_reading import read_until_stable, table_errors
from etc_policy.hudi.writer_options import index_definitions
from etc_policy.plan.split import SPLIT_FOLDER
from etc_policy.policy.bounded_json import load_json
from etc_policy.run.ports import Job
from etc_policy.run.table_files import index_marks
from etc_policy.storage.object_cache import Cache
from etc_policy.storage.open_storage import open_reader
from etc_policy.storage.port import TableReader

#: Raised when the same bytes may give another answer.
_RULES = 2
#: What a commit adds to these parts of the metadata table it knows from what was written, and from that table itself
#: (facts: indexes-of-what-is-written).
_OF_WHAT_IS_WRITTEN = {"files", "column_stats", "partition_stats", "bloom_filters", "record_index"}
#: Files that are looked at side by side.
_THREADS = 8


def require_no_objects(base_path: str, kept: Cache | None, *folders: str) -> None:
    """Return if no log file in these folders of a table, and behind their links, does harm; each version is read once.

    What was looked at is kept in `kept` for the next time; without one nothing is.

    Raises:
        TableError: one may, or cannot be read.

    """
    storage = open_reader(base_path)
    key = "\0".join(("no objects in log files", str(_RULES), base_path, *folders))
    before = _unpacked(kept.get(key)) if kept is not None else {}
    with table_errors(base_path):
        found = {path: version for one in folders for path, version in storage.find(one, _is_log)}
        new = [path for path, version in found.items() if not version or before.get(path) != version]
        bad = next(_harmful(storage, new), None)
    if bad is not None:
        raise _refusal(base_path, bad)
    if kept is not None and (new or len(found) < len(before)):
        kept.put(key, json.dumps({path: version for path, version in found.items() if version}).encode())


def require_no_objects_for(job: Job, kept: Cache | None) -> None:
    """Return if no log file does harm that Hudi may read as it works for a job.

    It reads those of the metadata table, of the partitions that are compacted, and what a split has made of them; any that the
    metadata table lists for an index of rows, and all where it makes the metadata table anew.

    Raises:
        TableError: one may.

    """
    partitions = sorted({one.partition for one in job.operations})
    is_all = makes_metadata_anew(job) or indexes_read_rows(job)
    folders = ("",) if is_all else (METADATA_TABLE, SPLIT_FOLDER, *partitions)
    require_no_objects(job.base_path, kept, *folders)


def indexes_read_rows(job: Job) -> bool:
    """Whether a client reads log files for the metadata table, as that lists them, for an index that it keeps or makes.

    It makes each that is defined and not there yet.
    """
    storage = open_reader(job.base_path)
    with table_errors(job.base_path):
        defined = index_definitions(storage, read_properties(storage)) if job.metadata_partitions else ()
    return not _OF_WHAT_IS_WRITTEN.issuperset(job.metadata_partitions) or not {*defined} <= {*job.metadata_partitions}


def makes_metadata_anew(job: Job) -> bool:
    """Whether Hudi makes the metadata table, or a part of it, as it begins to work for a job: it reads all of the table then."""
    storage = open_reader(job.base_path)
    with table_errors(job.base_path):
        is_noted = storage.info(METADATA_NOTE) is not None
    if is_noted or b"" in index_marks(job).values():
        return True
    timeline = read_until_stable(job.base_path, lambda: metadata_timeline(storage))
    return bool(job.metadata_partitions) and (timeline is None or not timeline.completions)


def _is_log(name: str) -> bool:
    """Whether any release takes a file of this name for a log file."""
    return name.startswith(".") and (".log." in name or ".archive." in name)


def _harmful(storage: TableReader, paths: list[str]) -> Iterator[str]:
    """The files that may do harm."""

    def look(path: str) -> bool:
        with suppress(FileNotFoundError), storage.open(path) as stream:
            return may_do_harm(stream)
        return False

    with ThreadPoolExecutor(_THREADS, thread_name_prefix="log files") as threads:
        yield from (path for path, makes in zip(paths, threads.map(look, paths), strict=True) if makes)


def _refusal(base_path: str, path: str) -> TableError:
    message = f"Hudi would make Java objects of any class of the log file `{path}` of `{base_path}`, or read it without an end"
    hint = (
        "its delete blocks are of Hudi before 0.14, or it is broken: if you trust its writers, have one of them compact "
        "the table and clean that file away; else find out who wrote it, as it runs code in whoever reads the table by Hudi"
    )
    return TableError(Code.OBJECTS_IN_LOG, message, hint=hint)


def _unpacked(content: bytes | None) -> Mapping[str, str]:
    with suppress(ValueError, RecursionError):
        kept = load_json(content or b"{}")
        return kept if isinstance(kept, Mapping) else {}
    return {}
