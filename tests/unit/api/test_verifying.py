import pytest

from etc_policy.api.verifying import broken_verification, exit_code_of
from etc_policy.errors import EngineError, ExitCode
from etc_policy.verify.ports import ExpectationResult, Verification


def test_what_kept_the_rows_from_being_read_is_one_sentence():
    error = EngineError("ETC303", "Spark did not start", hint="the log is in spark.log", cause="no memory\nat all\n")
    (broken,) = broken_verification("data", None, error).expectations
    assert broken.message == "Spark did not start: no memory at all (the log is in spark.log)"
    (broken,) = broken_verification("data", None, EngineError("ETC303", "Spark did not start")).expectations
    assert broken.message == "Spark did not start"


def verification(status, *failed):
    found = tuple(ExpectationResult(expectation=name, status=how) for name, how in failed)
    return Verification(level="data", status=status, threshold_ms=0, expectations=found)


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (verification("pass"), None),
        (verification("warn", ("a", "warn")), None),
        (verification("fail", ("a", "fail")), ExitCode.FAILED),
        (verification("error", ("data_can_be_read", "error")), ExitCode.ENGINE),
        (verification("error", ("a", "pass"), ("table_unchanged_while_read", "error")), ExitCode.RETRY),
        (verification("error", ("a", "error"), ("table_unchanged_while_read", "error")), ExitCode.ENGINE),
        (verification("fail", ("a", "fail"), ("table_unchanged_while_read", "error")), ExitCode.FAILED),
    ],
)
def test_only_busy_writers_are_worth_another_try(found, code):
    assert exit_code_of(found) is code
