"""What Java says of a store that does not answer, as the drills on an S3 server showed it, and what it says of other faults."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from etc_policy.errors import EngineError, ExitCode, RetryableError
from etc_policy.gx.views import read_view
from etc_policy.run.ports import Job
from etc_policy.spark.hudi_client import hudi_client
from etc_policy.spark.metadata_listing import wrongly_listed
from etc_policy.spark.store_outage import raise_store_outage, store_outage
from etc_policy.verify.ports import DataCheck
from tests.unit.plan.states import POLICY, STATE

TABLE = "s3a://bucket/t"
IN_A_TASK = """An error occurred while calling o1.compact.
: org.apache.spark.SparkException: Job aborted due to stage failure: Lost task 2.0 in stage 0.0 (TID 2)
\tat org.apache.hudi.io.HoodieMergeHandleFactory.instantiateMergeHandle(HoodieMergeHandleFactory.java:159)
Caused by: org.apache.hadoop.fs.s3a.AWSClientIOException: getFileStatus on s3a://bucket/t/c/f.parquet: \
com.amazonaws.SdkClientException: Unable to execute HTTP request: The target server failed to respond
\tat org.apache.hadoop.fs.s3a.S3AUtils.translateException(S3AUtils.java:214)
"""
OUTAGES = {
    "a task": IN_A_TASK,
    "an error of the server": "org.apache.hadoop.fs.s3a.AWSStatus500Exception: getFileStatus on s3a://b/t: Status Code: 500; x",
    "throttling": "org.apache.hadoop.fs.s3a.AWSServiceThrottledException: Status Code: 503; Error Code: SlowDown",
    "a later client": "org.apache.hadoop.fs.s3a.AWSClientIOException: software.amazon.awssdk.core.exception: "
    "Unable to execute HTTP request: Connect timed out",
    "a body cut short": "at org.apache.hadoop.fs.s3a.S3AInputStream.read\nCaused by: Premature end of Content-Length delimited",
    "Azure": "org.apache.hadoop.fs.azurebfs.services.AbfsRestOperation\nCaused by: java.net.UnknownHostException: x",
    "Google": "at com.google.cloud.hadoop.gcsio.Storage\nCaused by: java.net.SocketTimeoutException: Read timed out",
}
OTHERS = {
    "no right": "org.apache.hadoop.fs.s3a.S3AUtils: java.nio.file.AccessDeniedException: Status Code: 403; AccessDenied",
    "no such file": "org.apache.hadoop.fs.s3a.S3AFileSystem: java.io.FileNotFoundException: No such file",
    "no keys": "org.apache.hadoop.fs.s3a.auth.NoAuthWithAWSException: No AWS Credentials provided",
    "a broken file": "org.apache.hadoop.fs.s3a.S3AInputStream\nCaused by: java.lang.RuntimeException: not a Parquet file",
    "an executor that does not answer": "at org.apache.spark.network.client\nCaused by: java.net.ConnectException: refused",
    "a ResourceManager": "java.net.ConnectException: Call From a/b to c:8032 failed\n\tat org.apache.hadoop.ipc.Client.call",
}


@pytest.mark.parametrize("text", OUTAGES.values(), ids=list(OUTAGES))
def test_a_store_that_does_not_answer_is_worth_another_try(text):
    error = store_outage(TABLE, text)
    assert (error.code, error.exit_code) == ("ETC450", ExitCode.RETRY)
    assert error.message == "the object store of `s3a://bucket/t` did not answer Spark"
    assert store_outage("/disk/t", text) is None


@pytest.mark.parametrize("text", OTHERS.values(), ids=list(OTHERS))
def test_other_failures_stay_what_they_are(text):
    assert store_outage(TABLE, text) is None
    raise_store_outage(TABLE, ValueError(text))


ON_HDFS = {
    "refused": "at org.apache.hadoop.ipc.Client.call\nCaused by: java.net.ConnectException: Call From a/b to c:8020 failed",
    "cut off": "java.io.EOFException: End of File Exception between local host is: a\n\tat org.apache.hadoop.ipc.Client.call",
    "starting": "org.apache.hadoop.hdfs.server.namenode.SafeModeException: Cannot create file. Name node is in safe mode.",
    "no DataNode": "org.apache.hadoop.hdfs.BlockMissingException: Could not obtain block: BP-1:blk_1 file=/t/c/f.parquet",
}
NOT_ON_HDFS = {
    "no right": "at org.apache.hadoop.ipc.Client\nCaused by: org.apache.hadoop.security.AccessControlException: Permission",
    "a file cut short": "java.io.EOFException: Reached the end of stream\n\tat org.apache.hadoop.hdfs.DFSInputStream.readFully",
}


@pytest.mark.parametrize("text", ON_HDFS.values(), ids=list(ON_HDFS))
def test_nor_is_a_cluster_of_hdfs_that_does_not_answer_lost(text):
    error = store_outage("hdfs://n:1/t", text)
    assert (error.code, error.exit_code) == ("ETC456", ExitCode.RETRY)
    assert error.message == "the HDFS cluster of `hdfs://n:1/t` did not answer Spark"


@pytest.mark.parametrize("text", NOT_ON_HDFS.values(), ids=list(NOT_ON_HDFS))
def test_other_failures_on_hdfs_stay_what_they_are(text):
    assert store_outage("hdfs://n:1/t", text) is None


def test_a_table_that_only_spark_does_not_find_is_worth_another_try():
    """Hudi's data source swallows what its look at the store met (seen in a drill that answered 500 to all of Spark)."""
    text = (
        "An error occurred while calling o380.load.\n"
        ": org.apache.hudi.exception.TableNotFoundException: Hoodie table not found in path s3a://bucket/t\n"
        "\tat org.apache.hudi.DataSourceUtils.getTablePath(DataSourceUtils.java:90)\n"
        "\tat org.apache.hudi.DefaultSource.createRelation(DefaultSource.scala:123)\n"
    )
    error = store_outage(TABLE, text)
    assert (error.code, error.exit_code) == ("ETC450", ExitCode.RETRY)
    assert error.message.startswith("Spark did not find `s3a://bucket/t`, which etc has just read")
    assert (
        error.cause
        == ": org.apache.hudi.exception.TableNotFoundException: Hoodie table not found in path s3a://bucket/t"
    )
    assert "fs.s3a" in error.hint
    assert store_outage("/disk/t", text) is None
    assert store_outage(TABLE, text.replace("DataSourceUtils.getTablePath", "HoodieTableMetaClient.build")) is None


def test_the_cause_is_the_line_that_says_it():
    cause = store_outage(TABLE, IN_A_TASK).cause
    assert cause.startswith("Caused by: org.apache.hadoop.fs.s3a.AWSClientIOException: getFileStatus on s3a://")
    assert "\n" not in cause


@pytest.mark.parametrize(("table", "raised"), [(TABLE, RetryableError), ("/disk/t", EngineError)])
def test_a_compaction_that_met_it(monkeypatch, table, raised):
    def fails(*_):
        raise OSError(IN_A_TASK)

    monkeypatch.setattr("etc_policy.spark.hudi_client._create", fails)
    job = Job(POLICY, table, 9, (), "20260101000000000")
    with (
        pytest.raises(raised),
        hudi_client(None, job, EngineError("ETC304", "no luck")),
    ):
        pass


class _Failing:
    """Whatever is asked of it fails as a store's outage does."""

    def __getattr__(self, name):
        raise OSError(IN_A_TASK)


def test_a_view_and_a_listing_that_met_it():
    request = DataCheck(POLICY, TABLE, (), 0, 0, None, None, frozenset(), "", frozenset())
    spark = SimpleNamespace(read=SimpleNamespace(format=lambda _: SimpleNamespace(option=lambda *_: _Failing())))
    with pytest.raises(RetryableError, match="did not answer Spark"):
        read_view(spark, request, "ro")
    state = replace(STATE, base_path=TABLE)
    with pytest.raises(RetryableError, match="did not answer Spark"):
        wrongly_listed(SimpleNamespace(_jvm=_Failing()), state)
