"""Errors of several tables as one exception: no single one speaks for the others."""

from etc_policy.codes.registry import Code
from etc_policy.errors import EngineError, ExitCode, RetryableError, SeveralErrors, Where

PLACE = Where("policies/a.yml", 3, 5, "orders_ro")


def test_one_error_is_the_group_s_own():
    one = EngineError("ETC304", "Hudi failed", where=PLACE, hint="run it again", cause="java.lang.Error")
    group = SeveralErrors([one], ExitCode.ENGINE)
    assert (group.code, group.message, group.where, group.hint) == ("ETC304", "Hudi failed", PLACE, "run it again")
    assert str(group) == "Hudi failed\njava.lang.Error"


def test_of_one_code_the_code_is_kept_and_each_is_named():
    group = SeveralErrors(
        [
            EngineError("ETC304", "`a` failed", where=PLACE, hint="again"),
            EngineError("ETC304", "`b` failed", hint="again"),
        ],
        ExitCode.ENGINE,
    )
    assert (group.code, group.where, group.hint) == ("ETC304", None, "again")
    assert str(group) == "`a` failed; `b` failed"


def test_of_different_codes_none_is_taken_for_all():
    found = [RetryableError("ETC405", "`a` waits", hint="wait"), EngineError("ETC304", "`b` failed")]
    group = SeveralErrors(found, ExitCode.ENGINE)
    assert (group.code, group.hint) == (Code.SEVERAL, None)
    assert str(group) == "ETC405: `a` waits; ETC304: `b` failed"
    assert [issue.code for issue in group.issues] == ["ETC405", "ETC304"]
