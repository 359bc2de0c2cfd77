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


_SPANS = ("5m", 300, timedelta(-1), timedelta.max)
_MOMENTS = (
    *(1767240000, 20260101, 1.5, True, "2026-01-01T00:00:00Z", timedelta(0)),
    *(10**15, datetime(9999, 1, 1, tzinfo=UTC)),
)
_FLAGS = (
    "read_stats",
    "check",
    "archived",
    "diff",
    "guesses",
    "notify",
    "remove",
    "spark",
    "metadata_only",
    "read_once",
    "keeps_files",
    "looks_up",
    "ends_java_on_interrupt",
    "untrusted",
    "full",
)
#: What no argument of that name takes.
WRONG = {
    **dict.fromkeys(("select", "exclude", "paths", "buckets", "catalogs", "allow"), (None, 3, [1], {"a": 1}, b"a")),
    "name": (3, ["a"]),
    "target": (3, ["a"], ""),
    **dict.fromkeys(("project_dir", "target_dir", "state", "spark_log", "out"), (3, "", b"a")),
    **dict.fromkeys(_FLAGS, ("no", 1)),
    **dict.fromkeys(("confirm", "goes_on", "progress", "warn", "note"), ("yes", True)),
    **dict.fromkeys(("timeout", "poll", "every", "last"), _SPANS),
    **dict.fromkeys(("at", "until"), _MOMENTS),
    "settings": ([], {1: "2h"}, "data_latency=2h"),
    "price": ([], {1: 2}, "core_hour=1"),
    "partition": (3, "", b"a"),
    "partitions": ("dt=x", [3], [""], 3),
    "first": ("orders_ro", [3], [""], 3),
    "plan": ({"a": 1}, 3, ""),
    "level": ("x", "dat", 1),
    "form": ("x", ["flink"]),
    "runs": (0, "7", True),
    "jobs": (0, MAX_JOBS + 1, "2", True),
    "variables": ([], {1: 2}, "{lake: x}", {"lake": None}),
    "spark_confs": ({"a": "b"}, {"spark.a": 1}, "spark.a=b"),
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
    for wrong in WRONG[argument]:
        with pytest.raises(UsageError) as error:
            VERBS[verb](project, **{**needed, argument: wrong})
        assert (error.value.code, error.value.message.startswith(f"`{argument}`: ")) == ("ETC001", True)


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
    named = {fault.split("`")[1] for fault in error.value.message.split("; ")}
    assert named == {"select", "at", "every"}


def test_a_number_that_may_be_seconds_is_said_in_both_readings():
    with pytest.raises(UsageError) as error:
        Project("/nowhere").plan(at=1767240000)
    assert error.value.message.startswith(
        "`at`: is ambiguous: 1970-01-21T10:54:00.000Z in epoch milliseconds, or 2026-01-01T04:00:00.000Z in epoch seconds"
    )


@pytest.mark.parametrize("terms", ["a", ["a"], ("a",), {"a"}, frozenset("a")])
def test_terms_come_in_any_collection(terms):
    with pytest.raises(PolicyError, match="no folder `policies`"):
        Project("/nowhere").policies(terms)


def test_an_argument_that_is_missing_or_unknown_is_named():
    with pytest.raises(UsageError, match="`until`: "):
        Project("/nowhere").wait()
    with pytest.raises(UsageError, match="`untl`: "):
        Project("/nowhere").wait(until=0, untl=1)


@pytest.mark.parametrize("verb", ["writer_options", "flink_options", "history"])
def test_a_verb_on_one_policy_takes_no_pattern_that_means_more(verb, tmp_path):
    (tmp_path / "policies").mkdir()
    policy = "  - {name: %s, table: lake/%s, event_time_column: ts, data_latency: 1h}\n"
    (tmp_path / "policies" / "a.yml").write_text("version: 1\npolicies:\n" + policy % ("a", "a") + policy % ("b", "b"))
    with pytest.raises(UsageError, match=f"`\\*` selects 2 policies, and `{verb}` takes a single one"):
        getattr(Project(tmp_path), verb)("*")
