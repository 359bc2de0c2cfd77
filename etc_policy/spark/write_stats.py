"""Write stats of a compaction: what it has written, without what grows with its rows, and those of carried log files.

With a record index each `WriteStatus` carries every record's key and place. The driver wants the stats alone, as the stock
client itself does when it commits: by a class of its own that leaves the records on the executors. Without the stats of
carried log files readers of the metadata table lose rows (facts: carried-write-stats).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from etc_policy.errors import EngineError
from etc_policy.errors.codes import Code
from etc_policy.errors.lacking import lacks_something
from etc_policy.plan.model import Operation
from etc_policy.run.ports import Job
from etc_policy.spark.bundles import release_of, require_fitting, require_mergers, require_streaming
from etc_policy.spark.java_causes import throwable_causes
from etc_policy.spark.store_outage import raise_store_outage
from etc_policy.table.formats import count_of
from etc_policy.table.state import path_below

#: The releases with which it was tried, by how their version begins.
_TRIED = ("0.15.", "1.0.2", "1.1.1", "1.2.")
_SPLIT_TRIED = ("1.2.",)
_SLIM = "org.apache.hudi.client.SparkRDDWriteClient$SlimWriteStats"


def require_bundle(jvm: Any, job: Job) -> None:
    """Return if the loaded bundle is known to merge the table's rows as its readers do, to commit what is carried, and to leave
    alone what writers have begun in the metadata table; and if the classes of a merger are there that the policy names.

    Raises:
        EngineError: it does not, or was not tried; or one is not.

    """
    require_fitting(jvm, job)
    require_streaming(jvm, job)
    require_mergers(jvm, job)
    version = release_of(jvm) or "" if job.carries else _TRIED[0]
    if job.splits and not version.startswith(_SPLIT_TRIED):
        message = f"splitting by record was not tried with this bundle of Hudi ({version or 'unknown'})"
        hint = "name a bundle of Hudi 1.2 in the target, or set `granularity: log_file`"
        raise EngineError(Code.CANNOT_CARRY, message, hint=hint)
    if not version.startswith(_TRIED):
        message = f"committing carried log files was not tried with this bundle of Hudi ({version or 'unknown'})"
        hint = "name a bundle of Hudi 1.2, 1.1.1, 1.0.2 or 0.15 in the target, or set `granularity: file_slice`"
        raise EngineError(Code.CANNOT_CARRY, message, hint=hint)


def add_stats(spark: Any, job: Job, result: Any, statuses: Any) -> None:
    """Adds a write stat for each carried file to a compaction's write metadata; `statuses` are those of its base files."""
    jvm = spark._jvm
    all_of_them = jvm.java.util.ArrayList(statuses)
    for operation in job.operations:
        for added in operation.added_log_files:
            all_of_them.add(_status(jvm, operation, *added))
    result.setWriteStatuses(spark._jsc.parallelize(all_of_them))


def add_stats_to_commit(jvm: Any, job: Job, metadata: Any) -> None:
    """The same where Hudi has made the commit's metadata already, as bundles before 1.1 do."""
    for operation in job.operations:
        for added in operation.added_log_files:
            metadata.addWriteStat(operation.partition, _stat(jvm, operation, *added))


def _status(jvm: Any, operation: Operation, name: str, size_bytes: int) -> Any:
    status = jvm.org.apache.hudi.client.WriteStatus(False, 0.0)
    status.setFileId(operation.file_id)
    status.setPartitionPath(operation.partition)
    status.setStat(_stat(jvm, operation, name, size_bytes))
    return status


def _stat(jvm: Any, operation: Operation, name: str, size_bytes: int) -> Any:
    stat = jvm.org.apache.hudi.common.model.HoodieDeltaWriteStat()
    stat.setFileId(operation.file_id)
    stat.setPartitionPath(operation.partition)
    stat.setPath(path_below(operation.partition, name))
    stat.setPrevCommit(operation.base_instant)
    stat.setBaseFile(operation.base_file or "")
    stat.setFileSizeInBytes(size_bytes)
    stat.setLogVersion(0)
    stat.setLogOffset(0)
    for setter in ("TotalWriteBytes", "NumWrites", "NumUpdateWrites", "NumInserts", "NumDeletes"):
        getattr(stat, f"set{setter}")(0)
    names = jvm.java.util.ArrayList()
    names.add(name)
    stat.setLogFiles(names)
    return stat


def written_stats(spark: Any, result: Any) -> list[Any]:
    """The write stats of a compaction's base files; the work, which is lazy, is done here."""
    from py4j.protocol import Py4JJavaError

    jvm, statuses = spark._jvm, result.getWriteStatuses()
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        slim = jvm.java.lang.Class.forName(_SLIM, True, loader)
    except Py4JJavaError:  # a bundle that does not have it
        return [status.getStat() for status in statuses.collect()]
    collected = _call(spark, _method(slim, "from"), None, statuses)
    stat = _method(slim, "getWriteStat")
    return [_call(spark, stat, one) for one in collected]


def require_all_records(spark: Any, job: Job, result: Any, stats: Iterable[Any]) -> None:
    """Return if every record was written. Hudi counts those that were not, goes on, and refuses the commit without a reason.

    Raises:
        EngineError: some were not; why the first one was not is in the write status of its file alone.
        RetryableError: the table's store did not answer.

    """
    failed = [stat for stat in stats if stat.getTotalWriteErrors() > 0]
    if not failed:
        return
    why = _first_error(result.getWriteStatuses())
    if why is not None:
        raise_store_outage(
            job.base_path, Exception(spark._jvm.org.apache.hadoop.util.StringUtils.stringifyException(why))
        )
    count = sum(stat.getTotalWriteErrors() for stat in failed)
    message = (
        f"Hudi could not write {count_of(count, 'record')} of {count_of(len(failed), 'new base file')} of "
        f"`{job.base_path}` at {job.instant}, "
        f"for example of {failed[0].getPath()}"
    )
    hint = (
        "mend the cause and run the same command again. The reason of each record is in the logs of Spark's executors (on one "
        "machine in target/spark.log): search them for `Error writing record`"
    )
    cause = None if why is None else throwable_causes(why)
    code = Code.HUDI_FAILED if lacks_something(cause) else Code.NOT_WORKABLE
    raise EngineError(code, message, hint=hint, cause=cause)


def _first_error(statuses: Any) -> Any | None:
    """Why a record was not written, or a whole file; one partition after the other, as statuses grow with the rows."""
    for status in statuses.toLocalIterator():
        if status.hasErrors():
            return next(iter(status.getErrors().values()), status.getGlobalError())
    return None


def _method(of_class: Any, name: str) -> Any:
    """A method of a class that is not public itself."""
    (found,) = (method for method in of_class.getDeclaredMethods() if method.getName() == name)
    found.setAccessible(True)
    return found


def _call(spark: Any, method: Any, target: Any, *arguments: Any) -> Any:
    given = spark.sparkContext._gateway.new_array(spark._jvm.java.lang.Object, len(arguments))
    for place, argument in enumerate(arguments):
        given[place] = argument
    return method.invoke(target, given)
