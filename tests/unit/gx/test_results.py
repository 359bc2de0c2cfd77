import pytest

from etc_policy.gx.results import read_result
from etc_policy.verify.suites import SuiteExpectation

NO_EXCEPTION = {"raised_exception": False, "exception_message": None, "exception_traceback": None}
RAISED = {"raised_exception": True, "exception_message": "\n[UNRESOLVED] no `x`\n  at y", "exception_traceback": "t"}


def read(result, **expectation):
    return read_result(SuiteExpectation(type="expect_x", **expectation), {"exception_info": NO_EXCEPTION, **result})


@pytest.mark.parametrize("info", [RAISED, {"('column.max', 'a', ())": RAISED}])
def test_an_exception_of_either_shape_is_an_error_and_not_a_failure(info):
    found = read({"success": False, "exception_info": info, "result": {}})
    assert (found.status, found.message) == ("error", "[UNRESOLVED] no `x`")


def test_the_cause_of_an_exception_in_java_is_told():
    message = "An error occurred while calling o7.first.\n: a.Failed: no\n\tat x.y(Z.java:1)\nCaused by: a.Root: it\n\t... 4 more"
    found = read({"success": False, "exception_info": {"raised_exception": True, "exception_message": message}})
    assert found.message == "a.Root: it which led to: a.Failed: no"


def test_an_exception_without_a_message_still_has_one():
    assert read({"success": False, "exception_info": {"raised_exception": True}}).message


@pytest.mark.parametrize(("severity", "status"), [("critical", "fail"), ("warning", "warn"), ("info", "warn")])
def test_the_severity_decides_what_a_failure_means(severity, status):
    outcome = {"unexpected_count": 3, "element_count": 9, "observed_value": None, "partial_unexpected_list": [1] * 30}
    found = read({"success": False, "result": outcome}, severity=severity)
    assert (found.status, found.message) == (status, "3 of 9 unexpected, such as `1`")
    assert found.observed == {"unexpected_count": 3, "element_count": 9, "partial_unexpected_list": [1] * 20}


def test_the_columns_that_were_asked_about_are_told():
    asked = [{"column": "status"}, {"column_A": "a", "column_B": "b"}, {"column_list": ["a", "b"]}, {"min_value": 1}]
    found = [read({"success": True, "result": {}}, kwargs=kwargs).columns for kwargs in asked]
    assert found == [("status",), ("a", "b"), ("a", "b"), ()]


def test_a_success_passes_without_a_message():
    found = read({"success": True, "result": {"observed_value": 4}})
    assert (found.status, found.message, found.observed) == ("pass", None, {"observed_value": 4})


def test_a_failure_names_its_counts_and_the_first_key():
    details = {"missing": 2, "different": 0, "samples": {"missing": [{"partition": "p", "key": "k"}]}}
    found = read({"success": False, "result": {"details": details}})
    assert found.message == "2 missing; for example key `k` in partition `p`"


def test_a_key_that_is_there_twice_may_be_so_on_purpose():
    key = {"partition": "p", "key": "k"}
    samples = {"duplicate_keys": [key], "duplicate_keys_in_rt": [{**key, "file_groups": ["p/f"]}]}
    details = {"duplicate_keys": 1, "duplicate_keys_in_rt": 1, "samples": samples}
    assert read({"success": False, "result": {"details": details}}).message == (
        "1 duplicate keys, 1 duplicate keys in rt; for example key `k` in partition `p`, in the file group p/f; if writers "
        "keep copies of a key on purpose, declare `writer.keys: repeated`, else `etc explain deletes` removes them"
    )


def test_the_view_is_told_only_where_one_view_was_looked_at():
    assert read({"success": True, "result": {}}).on == "ro"
    assert read({"success": True, "result": {}}, on="rt").on == "rt"
    compared = read_result(SuiteExpectation(type="expect_no_key_twice"), {"success": True, "result": {}})
    assert compared.on is None


def test_a_fault_that_is_no_count_is_told_in_words():
    found = read(
        {"success": False, "result": {"details": {"fault": "an event time lies after now"}}}, severity="warning"
    )
    assert (found.status, found.message) == ("warn", "an event time lies after now")
