import click
import pytest

from etc_policy.api import workspace
from etc_policy.api.project import Project
from etc_policy.cli.main import COMMANDS, cli
from etc_policy.errors import UsageError
from etc_policy.wiring import Environment


@pytest.mark.parametrize("command", ["plan", "freshness", "verify"])
def test_settings_for_spark_reach_the_session(etc, project, monkeypatch, command):
    """A `db.table` is asked of the catalog and statistics are read with Spark, also by commands that mostly need none."""
    opened = []
    monkeypatch.setattr(workspace, "Environment", lambda *a, **o: opened.append(Environment(*a, **o)) or opened[-1])
    monkeypatch.setattr(Environment, "locate", lambda self, policy: str(project / "none"))
    etc(command, "--conf", "spark.master=yarn")
    assert [environment.spark_options for environment in opened] == [{"spark.master": "yarn"}]


@pytest.mark.parametrize("key", ["spark.hoodie.metadata.enable", "spark.hoodie.write.lock.provider"])
def test_a_setting_of_spark_is_no_way_round_what_a_policy_may_not_set(etc, project, key):
    code, out, err = etc("plan", "--conf", f"{key}=false")
    assert (code, out) == (64, "")
    assert f"error[ETC137]: the option `{key}`" in err


def test_other_options_of_hudi_are_passed_on(etc, project):
    assert "ETC137" not in etc("plan", "--conf", "spark.hoodie.memory.merge.max.size=1")[2]


@pytest.mark.parametrize("value", ["", " ", " , "])
@pytest.mark.parametrize(
    "command",
    [
        "ls --select",
        "retry --yes --select",
        "plan --exclude parked --select",
        "wait --exclude parked --until 1 --select",
        "forget",
    ],
)
def test_an_empty_selection_is_not_every_policy(etc, project, command, value):
    """`--select "$POLICY"`, where POLICY is not set."""
    code, out, err = etc(*command.split(), value)
    assert (code, out) == (64, "")
    assert "error[ETC006]: the selection is empty" in err


def test_an_empty_name_is_no_policy(etc, project):
    assert "the selection is empty" in etc("history", "", "--exclude", "parked")[2]


def test_an_empty_target_is_not_the_default_one(etc, project):
    code, _, err = etc("ls", "--target", "")
    assert (code, "invalid value for `--target`: the name is empty" in err) == (64, True)


UNTIL = ("--until", "2020-01-01T00:00:00Z", "--timeout", "0s")
#: Every command that takes a selection.
SELECTING = {
    command: (command.split(), UNTIL if command == "wait" else ())
    for command in (
        *("apply --yes", "compile", "cuts", "debug", "docs generate", "finish", "freshness", "history", "ls"),
        *("metrics write a.prom", "metrics serve", "parse", "plan", "run --rounds 1", "simulate"),
        *("retry --yes", "sync", "undo", "verify", "wait"),
    )
}


def test_every_command_with_a_selection_is_known():
    taking = set()
    for name in COMMANDS:
        command = cli.get_command(None, name)
        for one in command.commands.values() if isinstance(command, click.Group) else [command]:
            if any(parameter.name == "select" for parameter in one.params):
                taking.add(one.name if one is command else f"{name} {one.name}")
    besides = ("--yes", "a.prom", "--rounds", "1")
    assert {" ".join(word for word in words if word not in besides) for words, _ in SELECTING.values()} == taking


@pytest.mark.parametrize(
    "terms", [("--select", "orders_ro,payments_ro"), ("-s", "orders_ro", "--exclude", "orders_ro")]
)
@pytest.mark.parametrize("command", [one for one in SELECTING if "retry" not in one])  # of which no run is there
def test_a_selection_of_nothing_is_never_carried_out(etc, project, command, terms):
    words, more = SELECTING[command]
    code, out, err = etc(*words, *terms, *more)
    assert (code, out) == (64, "")
    assert "error[ETC006]: `orders_ro" in err
    assert "selects no policy" in err


def test_a_name_with_a_comma_opens_no_gate(etc, project):
    """It is an intersection, which no list of names means."""
    code, out, err = etc("wait", "orders_ro,payments_ro", *UNTIL)
    assert (code, out) == (64, "")
    assert "hint: a comma keeps what all of its parts select; to select each of them put spaces between them\n" in err


@pytest.mark.parametrize("select", ["orders_ro,payments_ro", "*"])
def test_python_selects_as_the_command_line_does(project, select):
    with pytest.raises(UsageError, match="selects no policy") as error:
        Project(project).wait(select, exclude="orders_ro payments_ro", until=0)
    assert error.value.exit_code == 64


def test_a_gate_never_opens_where_no_policy_is_enabled(project):
    (project / "policies" / "a.yml").write_text("version: 1\npolicies: []\n")
    assert Project(project).freshness().tables == ()
    with pytest.raises(UsageError, match="no policy is enabled, so none is selected"):
        Project(project).wait(until=0)


@pytest.mark.parametrize("command", ["apply --yes", "freshness", "verify", "wait"])
def test_that_nothing_has_changed_is_done_at_once(etc, project, command):
    words, more = SELECTING[command]
    etc("compile", "--target-dir", "before")
    code, _, err = etc(*words, "--select", "state:modified", "--state", "before", *more)
    assert (code, err) == (0, "no policy is selected\n")
