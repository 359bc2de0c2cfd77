from pathlib import Path

import pytest

from etc_policy.api.verifying import broken_verification, require_verifiable, verify
from etc_policy.errors import EngineError, ExitCode, RetryableError
from etc_policy.gx import verifier
from etc_policy.policy.manifest import Verify
from etc_policy.verify.evidence import Evidence
from etc_policy.verify.metadata_checks import FILES
from etc_policy.verify.ports import ExpectationResult, Verification
from etc_policy.verify.prover import claim_of
from etc_policy.wiring import Environment
from tests.past import history_of
from tests.unit.plan.states import NOW, POLICY, STATE, slice_of, with_slice


def test_what_kept_the_rows_from_being_read_is_one_sentence():
    error = EngineError("ETC303", "Spark did not start", hint="the log is in spark.log", cause="no memory\nat all\n")
    (broken,) = broken_verification("data", None, error).expectations
    assert broken.message == "Spark did not start: no memory at all (the log is in spark.log)"
    (broken,) = broken_verification("data", None, EngineError("ETC303", "Spark did not start")).expectations
    assert broken.message == "Spark did not start"


def test_a_store_that_does_not_answer_is_worth_another_try():
    error = RetryableError("ETC450", "the object store of `s3a://b/t` does not answer")
    assert broken_verification("logs", None, error).exit_code is ExitCode.RETRY


def verification(status, *failed):
    found = tuple(ExpectationResult(expectation=name, status=how) for name, how in failed)
    return Verification(level="data", status=status, threshold_ms=0, expectations=found)


def test_what_did_not_pass_is_said_the_gravest_first():
    """Messages and reports cut off what is long."""
    found = verification("fail", ("late", "warn"), ("rows", "fail"), ("fine", "pass"), ("read", "error"))
    assert found.failures == "rows: fail; read: error; late: warn"


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (verification("pass"), ExitCode.DONE),
        (verification("warn", ("a", "warn")), ExitCode.DONE),
        (verification("fail", ("a", "fail")), ExitCode.FAILED),
        (verification("error", ("data_can_be_read", "error")), ExitCode.ENGINE),
        (verification("error", ("table_can_be_read", "error")), ExitCode.ENGINE),
        (verification("error", ("suite_fits_the_table", "error")), ExitCode.FAILED),
        (verification("error", ("a", "pass"), ("table_unchanged_while_read", "error")), ExitCode.RETRY),
        (verification("error", ("a", "pass"), ("table_can_be_reached", "error")), ExitCode.RETRY),
        (verification("error", ("a", "error"), ("table_unchanged_while_read", "error")), ExitCode.ENGINE),
        (verification("fail", ("a", "fail"), ("table_unchanged_while_read", "error")), ExitCode.FAILED),
    ],
)
def test_only_busy_writers_are_worth_another_try(found, code):
    assert found.exit_code is code


class NoSpark:
    """An environment whose data engine fails on the table's files, or on their store."""

    project_dir = Path("no-such-project")

    def __init__(self, kind=EngineError):
        self.kind = kind

    def running_verifier(self):
        return None

    def file_versions(self, *_):
        return {}

    def data_verifier(self):
        raise self.kind("ETC332", "no expectation could be checked", cause="Exception when reading log file")


@pytest.mark.parametrize(
    ("kind", "cut", "status", "code"),
    [
        (EngineError, 0, "error", ExitCode.ENGINE),
        (RetryableError, 0, "error", ExitCode.RETRY),
        (EngineError, 1, "fail", ExitCode.FAILED),
        (RetryableError, 1, "fail", ExitCode.FAILED),
    ],
)
def test_metadata_says_which_file_is_broken_where_no_row_can_be_read(kind, cut, status, code):
    state = with_slice(STATE, "f1", base_file_bytes=slice_of(STATE, "f1").base_file_bytes - cut)
    evidence = Evidence(POLICY, state, history_of(), claim_of(POLICY, state, NOW), NOW)
    found, judged = verify(NoSpark(kind), evidence, "data", lambda: evidence)
    assert judged is evidence
    assert (found.status, found.exit_code) == (status, code)
    assert "Exception when reading log file" in found.expectations[-1].message
    files = next(one for one in found.expectations if one.expectation == FILES)
    assert (files.status == "fail", slice_of(STATE, "f1").base_file in str(files.observed)) == (cut > 0, cut > 0)


def test_what_verifies_rows_is_there_before_anything_is_done(tmp_path, monkeypatch):
    environment = Environment(tmp_path, lambda _: None)
    require_verifiable(environment, (POLICY,))
    monkeypatch.setattr(verifier.importlib.util, "find_spec", lambda _: None)
    without_rows = POLICY.model_copy(update={"verify": Verify(level="logs")})
    require_verifiable(environment, (without_rows,))
    in_bucket = POLICY.model_copy(update={"table": "s3a://lake/t"})
    with pytest.raises(EngineError, match="Great Expectations is not installed") as raised:
        require_verifiable(environment, (without_rows, POLICY, in_bucket))
    assert raised.value.code == "ETC333"
    assert ",object-stores]" in raised.value.hint
