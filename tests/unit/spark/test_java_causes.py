"""What of Java's exceptions is shown below an error of etc."""

import locale
from types import SimpleNamespace

import pytest

from etc_policy.errors.lacking import lacks_something
from etc_policy.spark.java_causes import causes_in, is_caused_by, is_denied, java_causes
from etc_policy.spark.java_runtime import STARTED_BY_SUBMIT

ABORTED = """org.apache.spark.SparkException: Job aborted due to stage failure: Lost task 1.0 (driver): java.lang.X: no f2
\tat org.apache.parquet.hadoop.ParquetFileReader.readFooter(ParquetFileReader.java:565)
\tat java.base/java.lang.Thread.run(Thread.java:840)
Caused by: a.Upgrade: two
lines
\tat a.B.c(D.java:1)
\t... 40 more

Driver stacktrace:"""
REFLECTION = "java.lang.reflect.InvocationTargetException"
SAID = (
    "a.Upgrade: two\nlines\n"
    "which led to: java.lang.X: no f2\n"
    "which led to: org.apache.spark.SparkException: Job aborted due to stage failure: Lost task 1.0 (driver)"
)


def failed(*messages):
    """An error of py4j whose Java exceptions have these messages, outermost first."""
    exception = None
    for message in reversed(messages):
        exception = SimpleNamespace(toString=lambda text=message: text, getCause=lambda cause=exception: cause)
    error = RuntimeError("An error occurred while calling o1.compact.")
    error.java_exception = exception
    return error


def test_the_root_comes_first_and_nothing_is_said_twice():
    whole = failed(REFLECTION, ABORTED, "java.lang.X: no f2", "a.Upgrade: two\nlines")
    assert java_causes(whole) == SAID


def test_spark_puts_whole_stacks_into_messages_which_may_be_all_that_there_is():
    said = java_causes(failed(ABORTED))
    assert said.startswith("a.Upgrade: two\nlines\nwhich led to: org.apache.spark.SparkException")
    assert causes_in(f"An error occurred while calling o1.collect.\n: {ABORTED}") == said


def test_a_name_alone_says_nothing_unless_it_is_the_root():
    assert java_causes(failed("a.Wrapped: a.Root", REFLECTION, "a.Root")) == "a.Root"
    assert java_causes(failed("a.Failed: to read f", "java.io.EOFException")) == (
        "java.io.EOFException\nwhich led to: a.Failed: to read f"
    )


def test_of_many_the_root_and_the_outermost_are_shown():
    many = [f"a.E{number}: {number}" for number in range(9)]
    assert java_causes(failed(*many)).split("\nwhich led to: ") == [many[8], many[7], many[6], many[0]]


def test_a_long_message_is_cut():
    assert java_causes(failed("a.E: " + "x" * 9_000)) == "a.E: " + "x" * 595 + "..."


def test_a_message_that_is_a_stack_alone_has_its_first_line():
    assert java_causes(failed("\tat a.B.c(D.java:1)\n\tat a.B.d(D.java:2)")) == "\tat a.B.c(D.java:1)"


def test_an_error_without_java_has_its_own_words():
    assert java_causes(OSError("connection refused\nmore")) == "connection refused"
    assert causes_in("[UNRESOLVED] no `x`\n  at y") is None
    assert not is_caused_by(OSError("HoodieLockException"), "HoodieLockException")


@pytest.mark.parametrize(
    ("said", "denied"),
    [
        ("[Errno 13] Permission denied: '/t/.hoodie/timeline/1.compaction.requested'", True),
        ("java.nio.file.AccessDeniedException: /t/p/f1.parquet", True),
        ("java.io.FileNotFoundException: /t/p/f1.parquet", False),
    ],
)
def test_what_the_system_denies_is_known(said, denied):
    assert is_denied(java_causes(OSError(said))) is denied


def test_a_name_is_found_in_every_cause():
    many = failed("a.A: 1", "a.B: 2", "a.C: 3", "a.HoodieLockException: 4", "a.D: 5", "a.E: 6", "a.F: 7")
    assert is_caused_by(many, "HoodieLockException")
    assert not is_caused_by(many, "a.G")


def test_variables_that_can_be_the_reason_are_named_where_they_are_set(monkeypatch):
    for name in (
        "HADOOP_CONF_DIR",
        "SPARK_CONF_DIR",
        "SPARK_HOME",
        "PYSPARK_SUBMIT_ARGS",
        "SPARK_SUBMIT_OPTS",
        "JAVA_TOOL_OPTIONS",
    ):
        monkeypatch.delenv(name, raising=False)
    unknown, other = failed("java.net.UnknownHostException: namenode"), failed("a.E: e")
    assert java_causes(unknown) == "java.net.UnknownHostException: namenode"
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert java_causes(unknown).endswith("maybe the reason: HADOOP_CONF_DIR")
    assert java_causes(failed("java.lang.NoSuchMethodError: a.B")).endswith("maybe the reason: SPARK_HOME")
    assert java_causes(other) == "a.E: e"


@pytest.mark.parametrize(
    ("said", "lacks"),
    [
        ("java.io.IOException: No space left on device", True),
        ("java.lang.OutOfMemoryError: Java heap space", True),
        ("ExecutorLostFailure (executor 3 exited caused by one of the running tasks)", True),
        ("org.apache.spark.SparkException: Job 4 cancelled because SparkContext was shut down", True),
        ("java.net.ConnectException: Connection refused", True),
        ("org.apache.hadoop.security.AccessControlException: Permission denied: user=etc", True),
        ("Answer from Java side is empty", True),
        ("[Errno 111] Connection refused", True),
        ("An error occurred while trying to connect to the Java server (127.0.0.1:40001)", True),
        ("Error while obtaining a new communication channel", True),
        ("org.apache.hudi.common does not exist in the JVM", True),
        ("java.lang.UnsupportedOperationException: HFile log blocks", False),
        ("java.lang.IllegalArgumentException: Unsupported type VARIANT", False),
        ("is not a Parquet file. Expected magic number at tail", False),
        (None, False),
    ],
)
def test_what_may_pass_is_told_from_what_is_in_the_data(said, lacks):
    assert lacks_something(said) is lacks


@pytest.mark.parametrize(("name", "is_said"), [("größe", True), ("sizes", False)])
def test_a_name_that_spark_submits_java_has_no_bytes_for_is_explained(monkeypatch, name, is_said):
    monkeypatch.setattr(locale, "getencoding", lambda: "ANSI_X3.4-1968")
    missing = failed(f"o.a.h.TableNotFoundException: Hoodie table not found in path /lake/{name}/.hoodie")
    assert "LC_ALL" not in java_causes(missing)
    monkeypatch.setenv(STARTED_BY_SUBMIT, "1")
    assert ("set LC_ALL=C.UTF-8" in java_causes(missing)) is is_said
    monkeypatch.setattr(locale, "getencoding", lambda: "UTF-8")
    assert "LC_ALL" not in java_causes(missing)
