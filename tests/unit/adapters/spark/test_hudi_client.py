"""What of a Java exception is shown below an error of etc."""

from types import SimpleNamespace

from etc_policy.adapters.spark.hudi_client import java_causes

ABORTED = """org.apache.spark.SparkException: Job aborted due to stage failure: java.lang.RuntimeException: f2.parquet is
not a Parquet file
\tat org.apache.parquet.hadoop.ParquetFileReader.readFooter(ParquetFileReader.java:565)
\tat java.base/java.lang.Thread.run(Thread.java:840)

Driver stacktrace:"""


def failed(*messages):
    """An error of py4j whose Java exceptions have these messages, outermost first."""
    exception = None
    for message in reversed(messages):
        exception = SimpleNamespace(toString=lambda text=message: text, getCause=lambda cause=exception: cause)
    error = RuntimeError("An error occurred while calling o1.compact.")
    error.java_exception = exception
    return error


def test_spark_puts_whole_stacks_into_messages():
    first = ABORTED.partition("\n\tat")[0]
    assert java_causes(failed("java.lang.X: outer", ABORTED)) == f"java.lang.X: outer\ncaused by: {first}"


def test_a_message_that_is_a_stack_alone_has_its_first_line():
    assert java_causes(failed("\tat a.B.c(D.java:1)\n\tat a.B.d(D.java:2)")) == "\tat a.B.c(D.java:1)"


def test_an_error_without_java_has_its_own_words():
    assert java_causes(OSError("connection refused\nmore")) == "connection refused"
