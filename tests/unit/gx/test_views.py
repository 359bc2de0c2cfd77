"""What is said where a plain read of a view fails; `test_gx_verifier.py` has it of a real table."""

from types import SimpleNamespace

import pytest

from etc_policy.errors import EngineError, ExitCode
from etc_policy.gx.views import require_stock_readers
from etc_policy.verify.ports import DataCheck
from tests.unit.plan.states import POLICY

BEFORE = "20260101100000000"


def java_error(words):
    from py4j.protocol import Py4JJavaError

    java = SimpleNamespace(send_command=lambda _: f"ys{words}")
    thrown = SimpleNamespace(toString=lambda: words, getCause=lambda: None, _target_id="", _gateway_client=java)
    return Py4JJavaError("it failed", thrown)


class Reader:
    """Spark whose plain reads fail by `now`, and those of the past by `earlier`."""

    def __init__(self, now, earlier=None):
        self.errors, self.options_given = {False: now, True: earlier}, {}

    read = property(lambda self: self)
    write = property(lambda self: self)

    def itself(self, _):
        return self

    format = mode = load = itself

    def options(self, **given):
        self.options_given = given
        return self

    def save(self):
        error = self.errors["as.of.instant" in self.options_given]
        if error is not None:
            raise error


def fault(spark, before):
    request = DataCheck(POLICY, "/t", (), 0, 0, None, None, frozenset(), "", frozenset(), before_etc=before)
    with pytest.raises(EngineError) as raised:
        require_stock_readers(spark, request)
    assert (raised.value.code, raised.value.exit_code) == ("ETC331", ExitCode.ENGINE)
    assert "verify.level: logs" in raised.value.hint
    assert raised.value.cause.startswith("java.lang.NullPointerException")
    return raised.value.message.partition(": a plain read fails too")[2]


NULL = java_error("java.lang.NullPointerException")


@pytest.mark.parametrize(
    ("earlier", "before", "since"),
    [
        (None, None, "; its timeline has no compaction by etc"),
        (None, BEFORE, f"; it can as of {BEFORE}, before the last compaction by etc"),
        (NULL, BEFORE, f"; nor can it as of {BEFORE}, before the last compaction by etc"),
        (java_error("java.io.FileNotFoundException: cleaned"), BEFORE, ""),
    ],
)
def test_it_says_whether_the_view_could_be_read_before_etc_compacted(earlier, before, since):
    assert fault(Reader(NULL, earlier), before) == since


@pytest.mark.parametrize("error", [None, ConnectionRefusedError("Java has died")])
def test_a_view_that_can_be_read_and_a_java_that_has_died_say_nothing(error):
    request = DataCheck(POLICY, "/t", (), 0, 0, None, None, frozenset(), "", frozenset())
    require_stock_readers(Reader(error), request)
