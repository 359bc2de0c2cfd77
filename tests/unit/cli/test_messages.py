import json
import os
import pty
import subprocess
import sys
from dataclasses import replace

import pytest

from etc_policy.cli import messages
from etc_policy.cli.messages import SETTINGS, configure, show_error, show_issues, show_note, show_step, show_warning
from etc_policy.cli.printing import say
from etc_policy.errors import EngineError, ExitCode, Issue, SeveralErrors, TableError, Where

ERROR = Issue("ETC110", "unknown key `x`", Where("policies/a.yml", 3, 5, "orders_ro"), "remove it")
WARNING = Issue("ETC140", "no time to compact", level="warning")


@pytest.fixture(autouse=True)
def defaults():
    yield
    configure([], {})


@pytest.mark.parametrize("arguments", [["--log-format", "json"], ["plan", "--log-format=json"]])
def test_json_is_an_object_a_line(capsys, arguments):
    configure(arguments, {})
    show_note("a note")
    show_step("a step", 1.23)
    show_issues([WARNING, ERROR], cause="Spark says no")
    out, err = capsys.readouterr()
    note, step, warning, error = map(json.loads, err.splitlines())
    assert out == ""
    assert (note["level"], note["message"]) == ("info", "a note")
    assert (step["message"], step["elapsed_seconds"]) == ("a step", 1.2)
    assert (warning["level"], warning["code"], "cause" in warning) == ("warning", "ETC140", False)
    assert {key: error[key] for key in error if key != "time"} == {
        "level": "error",
        "message": "unknown key `x`",
        "code": "ETC110",
        "path": "policies/a.yml",
        "line": 3,
        "column": 5,
        "policy": "orders_ro",
        "hint": "remove it",
        "cause": "Spark says no",
    }


def test_a_reason_that_the_report_above_has_is_not_said_again(capsys, monkeypatch):
    reason = "a compaction at 20260101103000000 is pending (requested)"
    refused = Issue("ETC405", f"`orders_ro` cannot be compacted now (pending_service): {reason}", hint="finish it")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    say(f"orders_ro  lake/orders\n  refused       (pending_service) {reason[:15]}\n                {reason[16:]}")
    show_issues([refused, ERROR])
    said = " ".join(capsys.readouterr().err.split())
    head = "error[ETC405]: `orders_ro` cannot be compacted now (pending_service), as said above hint: finish it error[ETC110]"
    assert said.startswith(head)
    say("orders_ro  lake/orders\n  hint          finish\n                it")
    show_issues([refused])
    assert "hint:" not in capsys.readouterr().err
    configure([], {"NO_COLOR": "1"})
    show_issues([refused])
    assert " ".join(str(refused).split()) == " ".join(capsys.readouterr().err.split())


def test_a_warning_is_said_once_and_of_many_alike_the_places(capsys):
    configure([], {})
    tables = [replace(WARNING, where=Where(f"policies/{name}.yml", 3, 5, name)) for name in "abcde"]
    said = [show_warning(one) for one in [*tables, *tables]]
    assert said == [True] * 5 + [False] * 5
    whole, short = capsys.readouterr().err.split("warning[ETC140] too: ", 1)
    assert whole == "".join(f"{one}\n\n" for one in tables[:3])
    assert short == "policies/d.yml:3:5 (policy `d`)\nwarning[ETC140] too: policies/e.yml:3:5 (policy `e`)\n"
    for name in "fg":  # of one place, such as a default of all policies
        assert show_warning(replace(WARNING, where=Where("etc_project.yml", 3, 5, name)))
    assert capsys.readouterr().err.count("etc_project.yml") == 1
    configure(["--log-format=json"], {})
    assert [show_warning(one) for one in tables] == [True] * 5
    assert len(capsys.readouterr().err.splitlines()) == 5


DEAD, CUT, OLD = (
    EngineError("ETC303", "no Spark for `a`", cause="no java"),
    TableError("ETC208", "cannot read `b`", cause="it is empty"),
    TableError("ETC205", "`c` is of version 99"),
)


def test_a_cause_is_said_of_its_own_error(capsys):
    """And once where several have it."""
    configure([], {})
    again = EngineError("ETC303", "no Spark for `d`", cause="no java")
    show_error(SeveralErrors([DEAD, CUT, OLD, again], ExitCode.ENGINE))
    assert capsys.readouterr().err == (
        "error[ETC205]: `c` is of version 99\n\n"
        "error[ETC303]: no Spark for `a`\n\nerror[ETC303]: no Spark for `d`\n\ncause: no java\n\n"
        "error[ETC208]: cannot read `b`\n\ncause: it is empty\n\n4 errors\n"
    )


def test_a_cause_is_in_the_object_of_its_own_error(capsys):
    configure(["--log-format", "json"], {})
    show_error(SeveralErrors([DEAD, CUT, OLD], ExitCode.ENGINE))
    found = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert {one["code"]: one.get("cause") for one in found} == {
        "ETC205": None,
        "ETC303": "no java",
        "ETC208": "it is empty",
    }


@pytest.mark.parametrize("option", ["--quiet", "-q"])
def test_quiet_leaves_errors(capsys, option):
    configure([option], {})
    show_note("a note")
    show_step("a step", 1.0)
    show_issues([WARNING])
    assert capsys.readouterr().err == ""
    show_issues([WARNING, ERROR])
    assert capsys.readouterr().err == f"{ERROR}\n"


def test_a_log_of_text_has_no_colour(capsys):
    configure([], {})
    show_step("a step", 1.0)
    show_issues([ERROR])
    assert capsys.readouterr().err == f"[  1.0 s] a step\n{ERROR}\n"


@pytest.mark.parametrize(
    ("environ", "colour", "plain"),
    [
        ({}, True, False),
        ({"NO_COLOR": "1"}, False, False),
        ({"TERM": "dumb"}, False, True),
        ({"CI": "true"}, True, True),
    ],
)
def test_terminals(monkeypatch, environ, colour, plain):
    monkeypatch.setattr(messages.sys.stderr, "isatty", lambda: True, raising=False)
    configure([], environ)
    assert (SETTINGS.colour, SETTINGS.plain) == (colour, plain)


def test_long_messages_are_folded_on_a_terminal_and_places_are_not(monkeypatch):
    monkeypatch.setattr(messages.sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    configure([], {"NO_COLOR": "1"})
    long = Issue("ETC1", "word " * 30, Where("p/" + "x" * 90, 1, 1), "word " * 30)
    lines = messages._folded(str(long)).splitlines()
    assert max(len(line) for line in lines if not line.startswith("  -->")) <= 80
    assert f"  --> {long.where}" in lines


SCRIPT = """
import sys, time
from etc_policy.cli.messages import configure
from etc_policy.cli.opening import Progress
configure([], {{"TERM": "xterm", **{environ}}})
progress = Progress()
progress("reading [the] table")
time.sleep(0.3)
progress("compacting")
from etc_policy.cli.printing import say
say("the plan", err=True)
assert progress._spinner is None
print("DATA")
"""


@pytest.mark.parametrize(("environ", "moves"), [({}, True), ({"CI": "1"}, False)])
def test_progress_on_a_terminal_leaves_stdout_alone(tmp_path, environ, moves):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(environ=environ))
    master, slave = pty.openpty()
    done = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=slave,
        text=True,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(slave)
    seen = b""
    try:
        while chunk := os.read(master, 65536):
            seen += chunk
    except OSError:  # the other end of a terminal is closed
        pass
    os.close(master)
    assert done.communicate(timeout=30)[0] == "DATA\n"
    assert done.returncode == 0
    text = seen.decode()
    assert "reading [the] table" in text
    assert text.count("compacting") >= 1
    assert text.rstrip().endswith("the plan")
    assert (text.count("\r\x1b[K") == 2) == moves  # each moving line is cleared
    assert (text.count("reading [the] table") > 2) == moves


def test_reports_have_colour_on_a_terminal_only(monkeypatch, capsys):
    from etc_policy.cli.printing import say

    checks = "                pass  no key twice\n                fail  x"
    report = f"orders_ro  /lake/orders\n  verified      PASS up to now\n{checks}"
    say(report)
    assert capsys.readouterr().out == f"{report}\n"
    monkeypatch.setattr(messages.sys.stdout, "isatty", lambda: True, raising=False)
    configure([], {"NO_COLOR": "1"})
    say(report)
    assert capsys.readouterr().out == f"{report}\n"
    monkeypatch.setattr(messages.sys.stdout, "isatty", lambda: True, raising=False)
    configure([], {})
    say(report)
    out = capsys.readouterr().out
    assert "\x1b[1morders_ro  /lake/orders\x1b[0m" in out
    assert "pass  no key twice\n\x1b[31m\x1b[1m                fail\x1b[0m  x" in out


def test_an_error_keeps_away_from_the_report_above_it(monkeypatch, capsys):
    from etc_policy.cli.printing import say

    for terminal in (False, True):
        monkeypatch.setattr(messages.sys.stdout, "isatty", lambda terminal=terminal: terminal, raising=False)
        monkeypatch.setattr(messages.sys.stderr, "isatty", lambda terminal=terminal: terminal, raising=False)
        configure([], {"NO_COLOR": "1"})
        say("the report")
        show_issues([Issue("ETC1", "wrong")])
        assert capsys.readouterr().err == "\n" * terminal + "error[ETC1]: wrong\n"


def refused(number):
    place = Where("policies/a.yml", number + 1, 5, f"t{number}")
    return Issue("ETC405", f"`t{number}` cannot be compacted now: table `/lake/t{number}` is gone", place, "plan again")


def test_a_few_errors_of_one_kind_are_shown_whole(capsys):
    show_issues([refused(number) for number in range(3)])
    assert capsys.readouterr().err.count("error[ETC405]") == 3


def test_of_many_errors_of_one_kind_the_first_is_shown_and_the_places_of_others(capsys):
    show_issues([refused(0), ERROR, *(refused(number) for number in range(1, 14))])
    err = capsys.readouterr().err
    assert err.count("error[ETC405]") == err.count("hint: plan again") == 1
    assert "13 more like it:\n  --> policies/a.yml:2:5 (policy `t1`)\n" in err
    assert "--> policies/a.yml:11:5 (policy `t10`)\n  and 3 more\n" in err
    assert "(policy `t11`)" not in err
    assert err.count("error[ETC110]") == 1


def test_json_has_each_of_many(capsys):
    configure(["--log-format", "json"], {})
    show_issues([refused(number) for number in range(14)])
    assert len(capsys.readouterr().err.splitlines()) == 14


def test_wrong_keys_of_different_names_are_all_named(capsys):
    show_issues([Issue("ETC110", f"unknown key `x{n}`", Where("policies/a.yml", n, 5, "orders_ro")) for n in range(6)])
    assert capsys.readouterr().err.count("error[ETC110]") == 6


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders_ro  HERE/lake/orders", "orders_ro  lake/orders"),
        ("`HERE/a.yml` (HERE/b.yml)", "`a.yml` (b.yml)"),
        ("orders_ro  /mntHERE/lake/orders", None),
        ("file://HERE/lake/orders", None),
        ("`run table => 'HERE/lake/orders'`", None),
        ("tables below HERE/", None),
    ],
)
def test_paths_are_shortened_at_their_beginning_alone(capsys, tmp_path, monkeypatch, text, shown):
    from etc_policy.cli.printing import say

    monkeypatch.chdir(tmp_path)
    text = text.replace("HERE", str(tmp_path))
    say(text)
    assert capsys.readouterr().out == f"{shown or text}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ls", "-qs", "state:modified"], ""),
        (["ls", "--log-format", "json", "--log-format", "text"], "no policy is selected\n"),
        (["--log-format", "json", "ls", "--log-format", "text"], "no policy is selected\n"),
        (["ls", "--target-dir", "-q"], "no policy is selected\n"),
    ],
)
def test_what_click_has_understood_counts(etc, project, arguments, said):
    etc("compile", "--target-dir", "before")
    assert etc(*arguments, "--select", "state:modified", "--state", "before")[2] == said
    for wrong in (["--log-format", "json", "ls", "--nope"], ["ls", "--nope", "--log-format", "json"]):
        assert json.loads(etc(*wrong)[2])["message"] == "no such option `--nope`"


def test_of_a_message_that_nobody_reads_to_its_end_the_middle_is_left_out(capsys):
    show_issues([Issue("ETC001", f"there is no `{'x' * 900_000}`", hint="the end")])
    said = capsys.readouterr().err
    assert len(said) < 21_000
    assert said.startswith("error[ETC001]: there is no `xxx")
    assert "x ... 88" in said
    assert said.endswith("hint: the end\n")
