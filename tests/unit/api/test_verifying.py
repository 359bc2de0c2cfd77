from etc_policy.api.verifying import broken_verification
from etc_policy.errors import EngineError


def test_what_kept_the_rows_from_being_read_is_one_sentence():
    error = EngineError("ETC303", "Spark did not start", hint="the log is in spark.log", cause="no memory\nat all\n")
    (broken,) = broken_verification("data", None, error).expectations
    assert broken.message == "Spark did not start: no memory at all (the log is in spark.log)"
    (broken,) = broken_verification("data", None, EngineError("ETC303", "Spark did not start")).expectations
    assert broken.message == "Spark did not start"
