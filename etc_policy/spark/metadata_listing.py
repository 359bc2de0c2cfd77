"""The file listing of a table's metadata table, taken as Hudi's own readers take it, beside the files themselves.

Where both differ, readers fail, or miss rows, though every file of the table is right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

from etc_policy.errors import EngineError, TableError
from etc_policy.errors.codes import Code
from etc_policy.hudi.layout import parse_data_file
from etc_policy.plan.carry import is_carried_name
from etc_policy.spark.java_causes import java_causes
from etc_policy.spark.store_outage import raise_store_outage
from etc_policy.storage.open_storage import open_reader
from etc_policy.table.state import AT_THE_END, TableState, path_below

#: A file as Java prints it: one call for a whole listing instead of some for each file.
_FILE = re.compile(r"StoragePathInfo\{path=(?P<path>.*?), length=(?P<size>\d+), isDirectory=")
#: How Java prints what is before the path of a local file.
_LOCAL = "(?:file:(?://)?)?"
#: So many partitions are listed at once: the text of a million files is more than Java has memory for.
_AT_ONCE = 200


def wrongly_listed(spark: Any, state: TableState) -> tuple[str, ...]:
    """What the listing says wrongly of the latest file slices, a sentence each.

    What writers and cleaners have done since `state` was read is no fault. Sizes of log files are not compared: before
    table version 8 they grow after their commit.

    Raises:
        EngineError: the metadata table cannot be read.
        RetryableError: its store did not answer.

    """
    listed = _listed_files(spark, state)
    storage = open_reader(state.base_path)
    named = ((path, fault) for path, fault in _unlike(state, listed) if storage.info(path) is not None)
    gone = ((path, "listed, not there") for path in _unknown(state, listed) if storage.info(path) is None)
    return tuple(sorted(f"{path}: {fault}" for path, fault in (*named, *gone)))


def _unlike(state: TableState, listed: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Files of the latest slices that are not listed, or with another size."""
    for path, size in _files(state).items():
        if path not in listed:
            yield path, "not listed"
        elif size is not None and listed[path] != size:
            yield path, f"listed with {listed[path]} bytes, has {size}"


def _unknown(state: TableState, listed: Mapping[str, int]) -> Iterator[str]:
    """Files that are listed, would be in the latest slices or after them, and were not seen there.

    A log file belongs to a slice by when its write completed; before table version 8 that is its instant.
    """
    begun = {one.group: one.base_instant for one in state.slices}
    ends = {one.requested: one.completed or one.requested for one in state.instants}
    for path in listed.keys() - _files(state).keys():
        partition, _, name = path.rpartition("/")
        parsed = parse_data_file(name)
        if parsed is not None:
            counts = ends.get(parsed.instant, parsed.instant) if parsed.is_log else parsed.instant
            if counts >= begun.get((partition, parsed.file_id), AT_THE_END):
                yield path


def _files(state: TableState) -> dict[str, int | None]:
    """The size of each file of the latest slices, by its path; None for log files.

    What a pending compaction carries is listed with its commit.
    """
    logs = {
        path_below(one.partition, log_file.name): None
        for one, log_file in state.log_files
        if not _is_carried_yet(log_file.name, state)
    }
    bases = {path_below(one.partition, one.base_file): one.base_file_bytes for one in state.slices if one.base_file}
    return {**logs, **bases}


def _is_carried_yet(name: str, state: TableState) -> bool:
    """Whether a log file was carried for the compaction that is pending."""
    parsed = parse_data_file(name)
    return parsed is not None and parsed.instant == state.own_pending and is_carried_name(name)


@contextmanager
def opened_metadata(spark: Any, base_path: str) -> Iterator[Any]:
    """The table's metadata table, opened as Hudi's own readers open it."""
    jvm = spark._jvm
    conf = jvm.org.apache.hudi.hadoop.fs.HadoopFSUtils.getStorageConf(spark._jsc.hadoopConfiguration())
    table = jvm.org.apache.hudi.metadata.HoodieBackedTableMetadata(
        jvm.org.apache.hudi.common.engine.HoodieLocalEngineContext(conf),
        jvm.org.apache.hudi.storage.HoodieStorageUtils.getStorage(base_path, conf),
        jvm.org.apache.hudi.common.config.HoodieMetadataConfig.newBuilder().enable(True).build(),
        base_path,
    )
    try:
        yield table
    finally:
        table.close()


def require_listed_below(spark: Any, base_path: str, among: Iterable[str] = ()) -> None:
    """Return if all files that the metadata table lists lie in its table: Spark reads any, and nobody has looked at others.

    Hudi asks for partitions by name too, whether or not they are among all that are listed: `among` are such.

    Raises:
        TableError: one lies elsewhere.
        EngineError: the metadata table cannot be read.
        RetryableError: its store did not answer.

    """
    pattern = _elsewhere(base_path)
    with _reading(spark, base_path) as table:
        partitions = table.getAllPartitionPaths()
        names = spark._jvm.java.lang.String.join("\0", partitions).split("\0")
        texts = _listings(spark, table, base_path, [*dict.fromkeys((*names, *among))])
        shown = next((text[found.start() :][:200] for text in texts if (found := pattern.search(text))), None)
    if shown is not None or len(names) != max(1, partitions.size()):
        message = f"the metadata table of `{base_path}` lists what does not lie in the table"
        cause = f"it lists `{shown}`" if shown is not None else None
        hint = "find out who wrote that; a metadata table that is removed, with its name in the table's properties, is made anew"
        raise TableError(Code.CANNOT_READ_TABLE, message, hint=hint, cause=cause)


def _elsewhere(base_path: str) -> re.Pattern[str]:
    """A file of a listing that is printed, where it is not below a base path; and a path that leads upwards."""
    scheme, is_remote, rest = base_path.rstrip("/").rpartition("://")
    authority, slash, path = rest.partition("/") if is_remote else ("", "", rest)
    server = (re.escape(f"{scheme}://{authority}") if authority else f"{scheme}:(?://[^/]*)?") if is_remote else _LOCAL
    return re.compile(rf"StoragePathInfo\{{path=(?!{server}{re.escape(slash + path)}/)|/\.\./")


@contextmanager
def _reading(spark: Any, base_path: str) -> Iterator[Any]:
    try:
        with opened_metadata(spark, base_path) as table:
            yield table
    except Exception as error:
        raise_store_outage(base_path, error)
        message = f"cannot read the metadata table of `{base_path}`"
        raise EngineError(Code.CANNOT_READ_VIEW, message, cause=java_causes(error)) from error


def _listed_files(spark: Any, state: TableState) -> dict[str, int]:
    """The size of each file that the metadata table lists in the partitions of the state, by its path below the table."""
    base_path, partitions = state.base_path, sorted({one.partition for one in state.slices})
    root = base_path.rpartition("://")[2].rstrip("/") + "/"
    with _reading(spark, base_path) as table:
        found = map(_FILE.finditer, _listings(spark, table, base_path, partitions))
        return {one["path"].partition(root)[2]: int(one["size"]) for one in chain.from_iterable(found)}


def _listings(spark: Any, table: Any, base_path: str, partitions: Sequence[str]) -> Iterator[str]:
    """What the metadata table lists in the partitions, as Java prints it, some of them at a time."""
    for first in range(0, len(partitions), _AT_ONCE):
        paths = spark._jvm.java.util.ArrayList()
        for partition in partitions[first : first + _AT_ONCE]:
            paths.add(f"{base_path}/{partition}".rstrip("/"))
        yield table.getAllFilesInPartitions(paths).toString()
