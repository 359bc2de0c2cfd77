"""Failures of Spark that only mean that an object store or HDFS did not answer for a while: the same command may then succeed."""

from __future__ import annotations

import re

from etc_policy.errors import RetryableError
from etc_policy.errors.codes import Code
from etc_policy.storage.open_storage import is_on_hdfs, is_remote

#: Who asks a store in Java: Hadoop's and Google's file systems for S3, Azure and Google Cloud Storage.
_ASKED = re.compile(r"org\.apache\.hadoop\.fs\.(s3a|azurebfs)\.|com\.google\.cloud\.hadoop\.")
#: And HDFS's client; the same asks YARN, of which a table on an object store is not a part.
_ASKED_ON_HDFS = re.compile(r"org\.apache\.hadoop\.(hdfs|ipc)\.")
_NO_ANSWER = re.compile(
    r"\b(ConnectException|SocketException|SocketTimeoutException|ConnectTimeoutException|NoHttpResponseException"
    r"|UnknownHostException|ConnectionClosedException|SSLException|AWSNoResponseException|AWSApiCallTimeoutException"
    r"|AWSServiceThrottledException|AWSStatus500Exception)\b"
    r"|\b(NoRouteToHostException|StandbyException|RetriableException|SafeModeException|BlockMissingException)\b"
    r"|End of File Exception between"
    r"|Unable to execute HTTP request|Premature end of Content-Length|Connection pool shut down"
    r"|Status Code: (429|500|502|503|504)\b|\bHTTP (429|500|502|503|504)\b"
)
#: Hudi's data source logs why it could not look, and says that the table is not there (`DataSourceUtils.getTablePath`).
_NOT_FOUND = re.compile(r"TableNotFoundException(?s:.)*\bDataSourceUtils\.getTablePath\b")


def store_outage(base_path: str, text: str) -> RetryableError | None:
    """The error to raise where Java's words, stack included, say that the table's store did not answer; else None.

    The table is one that etc has just read: where Hudi's data source does not find it, the store did not answer, or not to Spark.
    """
    if not is_remote(base_path):
        return None
    on_hdfs = is_on_hdfs(base_path)
    code = Code.HDFS_UNREACHABLE if on_hdfs else Code.STORE_UNREACHABLE
    if missing := _NOT_FOUND.search(text):
        elsewhere = (
            "HADOOP_CONF_DIR leads Spark to another cluster than etc"
            if on_hdfs
            else "Spark's `fs.s3a.*` settings lead to another endpoint or account than the target's `storage`"
        )
        hint = f"nothing is lost: run the same command again; if it goes on, {elsewhere}"
        message = (
            f"Spark did not find `{base_path}`, which etc has just read: its store did not answer, or not to Spark"
        )
        return RetryableError(code, message, hint=hint, cause=_line_at(text, missing.start()))
    asked = _ASKED_ON_HDFS if on_hdfs else _ASKED
    found = _NO_ANSWER.search(text) if asked.search(text) else None
    if found is None:
        return None
    check = "that the NameNode and its DataNodes live" if on_hdfs else "`storage.endpoint` of the target"
    hint = f"nothing is lost: run the same command again; if it goes on, check {check}"
    message = f"the {'HDFS cluster' if on_hdfs else 'object store'} of `{base_path}` did not answer Spark"
    return RetryableError(code, message, hint=hint, cause=_line_at(text, found.start()))


def _line_at(text: str, place: int) -> str:
    return text[text.rfind("\n", 0, place) + 1 :].splitlines()[0].strip()[:500]


def raise_store_outage(base_path: str, error: Exception) -> None:
    """Raise what `store_outage` finds in an exception of py4j or PySpark; returns where it finds nothing."""
    outage = store_outage(base_path, str(error))
    if outage is not None:
        raise outage from error
