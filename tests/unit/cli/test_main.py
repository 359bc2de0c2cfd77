import json
import re
import subprocess
import sys
import types

import click
import pytest

from etc_policy import __version__
from etc_policy.cli import main as module
from etc_policy.cli.messages import message_options
from etc_policy.cli.version import version_line
from etc_policy.errors import (
    EngineError,
    ExitCode,
    Issue,
    PolicyError,
    RetryableError,
    SeveralErrors,
    TableError,
    UsageError,
    Where,
)


@pytest.fixture
def command(monkeypatch):
    """Puts a command `plan` whose body is the given function in the place of the real one."""

    def put(body):
        fake = types.ModuleType("fake_command")
        fake.command = message_options(click.Command("plan", callback=body))
        monkeypatch.setitem(sys.modules, "fake_command", fake)
        monkeypatch.setitem(module.COMMANDS, "plan", ("fake_command:command", "Fake"))

    return put


def _raise(error):
    def body():
        raise error

    return body


def test_help_and_version_are_data(etc):
    code, out, err = etc("--help")
    assert (code, err) == (0, "")
    listed = out[out.index("Commands:") :].splitlines()[1 : 1 + len(module.COMMANDS)]
    assert [line.split()[0] for line in listed] == list(module.COMMANDS)
    code, out, err = etc("--version")
    assert (code, err) == (0, "")
    assert re.fullmatch(rf"etc {re.escape(__version__)}( \([0-9a-f]{{12}}\))?\n", out)


def test_the_version_has_the_commit_of_the_build_or_of_the_clone(tmp_path):
    package = tmp_path / "etc_policy"
    package.mkdir()
    assert version_line(package) == f"etc {__version__}"
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=n@example.com"]
    subprocess.run([*git, "init", "-q"], check=True)
    assert version_line(package) == f"etc {__version__}"  # no commit yet
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "n"], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout
    assert version_line(package) == f"etc {__version__} ({head[:12]})"
    (package / "commit.txt").write_text("0123456789abcdef\n")
    assert version_line(package) == f"etc {__version__} (0123456789ab)"


def test_without_a_command_the_help_is_an_error(etc):
    code, out, err = etc()
    assert (code, out) == (64, "")
    assert "Commands:" in err


@pytest.mark.parametrize("group", ["docs", "metrics"])
def test_a_group_without_a_command_shows_its_help(etc, group):
    code, out, err = etc(group)
    assert (code, out) == (64, "")
    assert err.startswith(f"Usage: etc {group} ")
    assert "error[" not in err


@pytest.mark.parametrize("arguments", [(), ("docs",)])
def test_help_on_standard_error_is_an_object_where_that_is_asked_for(etc, arguments):
    code, _, err = etc("--log-format=json", *arguments)
    assert code == 64
    assert all("message" in json.loads(line) for line in err.splitlines())


def test_an_interruption_is_an_object_too(etc, command):
    command(_raise(KeyboardInterrupt()))
    code, _, err = etc("plan", "--log-format=json")
    assert (code, [json.loads(line)["message"] for line in err.splitlines()]) == (130, ["interrupted"])


@pytest.mark.parametrize(
    ("arguments", "said", "hint"),
    [
        (["pase"], "there is no command `pase`", "did you mean `parse`?"),
        (["xyz"], "there is no command `xyz`", "the commands are init, import, parse, compile"),
        (["--nope"], "no such option", "run `etc --help`"),
        (["parse", "--nope"], "no such option", "run `etc parse --help`"),
        (["parse", "--output", "xml"], "invalid value for `--output`: `xml` is not one of", "run `etc parse --help`"),
        (["plan", "--explian"], "no such option `--explian`\n", "did you mean `--explain`?"),
        (["undo", "orders"], "unexpected extra argument (orders)", "policies are named by `--select NAME`"),
        (["init", "here", "there"], "unexpected extra argument (there)", "run `etc init --help`"),
        (["history", "orders", "--json"], "no such option `--json`", "`--output json` prints JSON"),
        (["explain", "--json"], "no such option `--json`", "run `etc explain --help`"),
        (
            ["forget", "--select", "orders"],
            "no such option `--select`",
            "here a policy is named without it: `etc forget NAME`",
        ),
        (["init", "--select", "orders"], "no such option `--select`", "run `etc init --help`"),
        (["completion"], "missing argument `{bash|zsh|fish}`. Choose from: bash, zsh, fish\n", "run `etc completion"),
        (
            ["verify", "--select", "a", "b"],
            "got unexpected extra argument",
            "policies are named by `--select NAME`, several by `--select A --select B`",
        ),
        (["init"], "missing argument", "run `etc init --help`"),
    ],
)
def test_usage_errors(etc, arguments, said, hint):
    code, out, err = etc(*arguments)
    assert (code, out) == (64, "")
    assert err.startswith("error[ETC001]: ")
    assert said in err
    assert f"hint: {hint}" in err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PolicyError([Issue("ETC1", "m")]), 1),
        (TableError("ETC1", "m"), 3),
        (EngineError("ETC1", "m"), 3),
        (RetryableError("ETC1", "m"), 4),
        (UsageError("ETC1", "m"), 64),
        (KeyboardInterrupt(), 130),
        (click.Abort(), 130),
        (ValueError("m"), 3),
        (SystemError(), 3),
    ],
)
def test_exit_codes_of_errors(etc, command, error, code):
    command(_raise(error))
    found, out, err = etc("plan")
    assert (found, out) == (code, "")
    assert "Traceback" not in err


@pytest.mark.parametrize(("returned", "code"), [(None, 0), (ExitCode.CHANGES, 2), (ExitCode.FAILED, 1)])
def test_a_command_returns_its_exit_code(etc, command, returned, code):
    command(lambda: returned)
    assert etc("plan")[0] == code


def test_every_issue_is_printed_then_the_cause(etc, command):
    error = TableError("ETC301", "no table", where=Where("a.yml", 1, 2, "p"), hint="look", cause="line 1\nline 2\n")
    command(_raise(error))
    assert etc("plan")[2] == (
        "error[ETC301]: no table\n  --> a.yml:1:2 (policy `p`)\n\nhint: look\n\ncause: line 1\nline 2\n"
    )
    command(_raise(PolicyError([Issue("ETC1", "one"), Issue("ETC2", "two")])))
    assert etc("plan")[2] == "error[ETC1]: one\n\nerror[ETC2]: two\n\n2 errors\n"


@pytest.mark.parametrize("arguments", [["--debug", "plan"], ["plan", "--debug"]])
@pytest.mark.parametrize("error", [EngineError("ETC1", "m"), ValueError("m")])
def test_debug_shows_the_stack(etc, command, arguments, error):
    command(_raise(error))
    _, out, err = etc(*arguments)
    assert out == ""
    assert "Traceback (most recent call last)" in err
    assert "in body" in err


def test_debug_shows_where_each_of_several_errors_arose(etc, command):
    def body():
        try:
            _raise(EngineError("ETC1", "m"))()
        except EngineError as error:
            raise SeveralErrors([error], ExitCode.ENGINE) from None

    command(body)
    assert "in test_debug" not in etc("plan")[2]
    assert etc("plan", "--debug")[2].count("EngineError: m") == 1
    assert "SeveralErrors" not in etc("plan", "--debug")[2]


def test_an_unexpected_error_is_one_line(etc, command):
    command(_raise(ValueError("first\nsecond " + "x" * 2000)))
    _, _, err = etc("plan")
    assert err.startswith("error[ETC009]: unexpected ValueError: first second xxx")
    assert len(err.splitlines()[0]) < 600
    assert "--debug" in err


def test_a_panic_of_a_library_in_rust_is_one_line_too(etc, command):
    """PyO3 raises it beside `Exception`, so that Python shows its own stack and ends with 1."""
    panic = type("PanicException", (BaseException,), {})
    command(_raise(panic("request valid: InvalidUri")))
    code, _, err = etc("plan")
    assert (code, err.splitlines()[0]) == (3, "error[ETC009]: unexpected PanicException: request valid: InvalidUri")


def test_completion_imports_no_command():
    group = module.cli
    context = click.Context(group)
    before = set(sys.modules)
    items = {item.value: item.help for item in group.shell_complete(context, "p")}
    assert items == {"parse": "Check the project's files", "plan": "Show what would be compacted, and save it"}
    assert not {name for name in set(sys.modules) - before if name.startswith("etc_policy")}
    assert [item.value for item in group.shell_complete(context, "--ver")] == ["--version"]
