"""What the verbs of `Project` take, and that they take nothing else."""

import inspect
from datetime import UTC, datetime, timedelta

import pytest

from etc_policy.api.arguments import selected_terms
from etc_policy.api.project import Project
from etc_policy.errors import PolicyError, UsageError
from etc_policy.policy.quantities import MAX_JOBS


def test_what_is_not_given_is_every_policy():
    assert selected_terms(()) == ()


@pytest.mark.parametrize("empty", ["", " , ", [], [""], ("",), set()])
def test_what_is_given_and_empty_is_not(empty):
    """A list of the tables that are due may be empty: all of them would be compacted."""
    with pytest.raises(UsageError) as error:
        selected_terms(empty)
    assert error.value.code == "ETC006"


_TEXTS = ((None, "text"), (3, "text"), ([1], "text"), ({"a": 1}, "text"), (b"a", "text"))
_PATHS = ((3, "path"), ("", "empty"), (b"a", "path"))
_SPANS = (("5m", "timedelta"), (300, "timedelta"), (timedelta(-1), "from"), (timedelta.max, "from"))
_MOMENTS = (
    (
        1767240000,
        "ambiguous: 1970-01-21T10:54:00.000Z in epoch milliseconds, or 2026-01-01T04:00:00.000Z in epoch seconds",
    ),
    (20260101, "ambiguous"),
    (1.5, "datetime or epoch milliseconds"),
    (True, "datetime or epoch milliseconds"),
    ("2026-01-01T00:00:00Z", "datetime or epoch milliseconds"),
    (timedelta(0), "datetime or epoch milliseconds"),
    (10**15, "between the years 1000 and 8999"),
    (datetime(9999, 1, 1, tzinfo=UTC), "between the years 1000 and 8999"),
)
_FLAGS = ("read_stats", "check", "archived", "remove", "spark", "metadata_only", "read_once", "ends_java_on_interrupt")
_JOBS = f"from 1 to {MAX_JOBS:,}"
#: What no argument of that name takes, and a word of the message.
WRONG = {
    **dict.fromkeys(("select", "exclude"), _TEXTS),
    "name": ((3, "text"), (["a"], "text")),
    "target": ((3, "text"), (["a"], "text"), ("", "empty")),
    **dict.fromkeys(("project_dir", "target_dir", "state", "spark_log", "out"), _PATHS),
    **dict.fromkeys(_FLAGS, (("no", "True or False"), (1, "True or False"))),
    **dict.fromkeys(("confirm", "progress", "warn", "note"), (("yes", "function"), (True, "function"))),
    **dict.fromkeys(("timeout", "poll", "every"), _SPANS),
    **dict.fromkeys(("at", "until"), _MOMENTS),
    "plan": (({"a": 1}, "plan"), (3, "plan"), ("", "empty")),
    "level": (("x", "`metadata`"), ("dat", "did you mean `data`?"), (1, "`metadata`")),
    "form": (("x", "`properties`"), (["flink"], "`properties`")),
    "runs": ((0, "from 1"), ("7", "from 1"), (True, "from 1")),
    "jobs": ((0, _JOBS), (MAX_JOBS + 1, _JOBS), ("2", _JOBS), (True, _JOBS)),
    "variables": (([], "mapping"), ({1: 2}, "mapping"), ("{lake: x}", "mapping")),
    "spark_confs": (({"a": "b"}, "`spark.`"), ({"spark.a": 1}, "texts"), ("spark.a=b", "texts")),
}
#: What the other arguments are while one is wrong.
NEEDED = {"name": "orders_ro", "form": "properties", "until": 0}
VERBS = {
    name: member
    for name, member in inspect.getmembers(Project, inspect.isfunction)
    if name == "__init__" or not name.startswith("_")
}
ARGUMENTS = [
    (verb, name) for verb, member in VERBS.items() for name in inspect.signature(member).parameters if name != "self"
]


@pytest.mark.parametrize(("verb", "argument"), ARGUMENTS)
def test_no_verb_takes_an_argument_that_it_cannot_use(verb, argument):
    """Nothing is touched before: not even that there is no such project is said."""
    project = Project("/nowhere")
    needed = {name: value for name, value in NEEDED.items() if name in inspect.signature(VERBS[verb]).parameters}
    for wrong, word in WRONG[argument]:
        with pytest.raises(UsageError) as error:
            VERBS[verb](project, **{**needed, argument: wrong})
        assert (error.value.code, error.value.message.startswith(f"`{argument}` ")) == ("ETC001", True)
        assert word in error.value.message


@pytest.mark.parametrize("verb", [verb for verb, argument in ARGUMENTS if argument == "at"])
def test_no_verb_takes_a_time_to_come_for_now(verb):
    with pytest.raises(UsageError, match="lies in the future"):
        VERBS[verb](Project("/nowhere"), at=datetime(2900, 1, 1, tzinfo=UTC))


def test_a_time_to_come_can_be_waited_for():
    with pytest.raises(PolicyError, match="no folder `policies`"):
        Project("/nowhere").wait(until=datetime(2900, 1, 1, tzinfo=UTC))


def test_all_wrong_arguments_are_named_at_once():
    with pytest.raises(UsageError) as error:
        Project("/nowhere").plan(None, at="now", every=5)
    assert error.value.message == (
        "`select` must be a text or a list of texts, got a NoneType; `at` must be a datetime or epoch milliseconds, "
        "got `now` (str); `every` must be a timedelta, got `5` (int)"
    )


@pytest.mark.parametrize("verb", ["writer_options", "flink_options", "history", "repair"])
def test_a_verb_on_one_policy_takes_no_pattern_that_means_more(verb, tmp_path):
    (tmp_path / "policies").mkdir()
    policy = "  - {name: %s, table: lake/%s, event_time_column: ts, data_latency: 1h}\n"
    (tmp_path / "policies" / "a.yml").write_text("version: 1\npolicies:\n" + policy % ("a", "a") + policy % ("b", "b"))
    with pytest.raises(UsageError, match=f"`\\*` selects 2 policies, and `{verb}` takes a single one"):
        getattr(Project(tmp_path), verb)("*")
