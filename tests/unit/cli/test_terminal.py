"""What is printed: nothing that a terminal or a CI system obeys, JSON exactly, and streams that are closed or full."""

import ast
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import etc_policy
from etc_policy.errors import Issue, Where
from etc_policy.errors.plain_text import clean, clean_json, one_line
from tests.nightly import nightly
from tests.unit.hudi.table_folder import TableFolder, at, base, log
from tests.unit.plan.plan_cases import epoch_ms

ESCAPES = ["\x1b[2J", "\x9b2J", "\x07", "\b", "\u202e", "\u2066", "\u200b", "\u2028", "\x85", "\r", "\x7f", "\udcff"]
PACKAGE = Path(etc_policy.__file__).parent


@pytest.mark.parametrize("escape", ESCAPES)
def test_what_a_terminal_obeys_is_escaped_and_json_means_the_same(escape):
    text = f"a{escape}b"
    assert clean(text).isprintable()
    assert clean(text).encode().decode("unicode_escape") == text
    shown = clean_json(json.dumps({"k": text}, ensure_ascii=False))
    assert shown.isprintable()
    assert json.loads(shown) == {"k": text}


def test_what_people_write_stays_as_it_is():
    text = "Größe 表 😀 – “a”\n\tb\\n ⚠️ https://h::80/ a::b # c ## d"
    assert clean(text) == text


@pytest.mark.parametrize(
    "command",
    ["::warning::x", "  ::add-mask::x", "##[error]x", "a ##vso[task.complete]", "##teamcity[x]", "\t::group::x"],
)
def test_no_line_is_a_command_of_ci(command):
    shown = clean(f"a\n{command}\nb").split("\n")[1]
    assert not shown.strip().startswith("::")
    assert "##" not in shown
    assert shown.replace("\\", "") == command


def test_a_value_with_newlines_begins_no_line():
    hostile = "x\n::warning::y\r\n\x1b[31mz"
    issue = Issue("ETC101", hostile, Where(f"policies/{hostile}.yml", 1, 2, hostile, hostile), hostile)
    labels = [line[:4] for line in str(issue).split("\n")]
    assert labels == ["erro", "  --", "  |", "1 | ", "  | ", "", "hint"]
    assert "\x1b" not in str(issue)
    assert one_line(hostile).count("\n") == 0


def test_nothing_is_printed_beside_the_one_place():
    found = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and path.relative_to(PACKAGE).as_posix() != "cli/terminal.py":
                name = ast.unparse(node.func)
                if name in ("print", "click.echo", "click.secho") or name.startswith(("sys.stdout.w", "sys.stderr.w")):
                    found.append(f"{path.name}: {name}")
    assert found == []


HOSTILE = "\\e[2J\\u202e\\n::warning::pwned\\n\\x9b31m"
NAME = "a\n::error::\x1b[31m\u202e.yml"
VERBS = ["parse", "ls", "plan", "freshness", "verify", "debug", "compile", "compile --explain", "history orders_ro"]


@pytest.fixture
def hostile(project):
    """A project whose table, description and file names hold all of it; a file of the two is wrong."""
    (project / "policies" / "a.yml").unlink()
    (project / "policies" / NAME).write_text(
        f'version: 1\npolicies:\n  - {{name: orders_ro, description: "{HOSTILE}", table: "lake/\\u202e",'
        " event_time_column: ts, data_latency: 30m}\n"
    )
    (project / "policies" / f"b{NAME}").write_text("version: 1\nunknown: 1\n")
    return project


def _is_clean(text):
    return all(line.isprintable() and not line.strip().startswith("::") for line in text.replace("\t", " ").split("\n"))


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("good", [True, False])
def test_hostile_values_and_names_in_every_command(etc, hostile, verb, good):
    if good:
        next((hostile / "policies").glob("b*")).unlink()
    _, out, err = etc(*verb.split())
    assert out + err
    assert _is_clean(out)
    assert _is_clean(err)


def test_json_has_the_exact_value(etc, hostile):
    next((hostile / "policies").glob("b*")).unlink()
    _, out, _ = etc("parse", "--output", "json")
    (policy,) = json.loads(out)["policies"]
    assert policy["table"].endswith("lake/\u202e")
    assert NAME in policy["source"]
    assert _is_clean(out)


RUN = [sys.executable, "-m", "etc_policy.cli.main"]


def _shell(command, folder):
    """A command with `etc` in place of its name; its exit code and what is on standard error."""
    line = command.replace("ETC", " ".join(RUN))
    done = subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("verb", ["ls", "--help", *nightly("ls --output json", "--version", "parse", "metrics rules")])
def test_a_closed_or_full_standard_output_is_one_error(project, verb):
    full = project / "full"
    for redirect in (">&-", ">full"):
        # a file that may not grow fails a write as a full disk does
        code, out, err = _shell(f"trap '' XFSZ; : >full; ulimit -f 0; ETC {verb} {redirect}", project)
        assert (code, out, err.count("error[")) == (3, "", 1), err
        assert "error[ETC351]: cannot write to standard output" in err
        assert "Traceback" not in err
    assert full.read_text() == ""


@pytest.mark.parametrize("closed", ["<&- 2>&-", *nightly("2>&-", "<&-")])
def test_other_closed_streams_change_nothing(project, closed):
    code, out, err = _shell(f"ETC ls --output names {closed}", project)
    assert (code, out, err) == (0, "orders_ro\npayments_ro\n", "")


@pytest.mark.parametrize("verb", ["plan", "freshness --github", *nightly("explain etc102", "ls")])
def test_a_current_folder_that_was_removed_is_no_crash(project, verb):
    command = f"mkdir gone && cd gone && rmdir ../gone && ETC {verb}"
    _, out, err = _shell(command + f" --project-dir {project}" * ("explain" not in verb), project)
    assert out
    assert "ETC009" not in err
    assert "::error file=" in err or "--github" not in verb


def test_all_streams_closed_and_an_error_keep_the_exit_code(project):
    assert _shell("ETC no-such-command <&- >&- 2>&-", project) == (64, "", "")
    assert _shell("ETC ls <&- >&- 2>&-", project) == (3, "", "")


def test_a_reader_that_wants_no_more_is_no_error(project):
    _, out, err = _shell("ETC explain | head -1 >first; cat first", project)
    assert (err, out.startswith("ETC001")) == ("", True)


@pytest.mark.parametrize(
    ("verb", "code"),
    [
        ("ls", 0),
        ("plan --help", 0),
        ("freshness --junit-xml report.xml", 1),
        *nightly(*((verb, 0) for verb in ("explain", "--help", "--version", "schema policy", "completion bash"))),
        *nightly(("ls --output json", 0), ("plan --output json", 1)),
        *nightly(("wait orders_ro --until 2999-01-01 --output json", 4)),
    ],
)
def test_a_reader_that_has_gone_changes_no_exit_code(project, verb, code):
    """As `etc verify | head -1`; what else the command writes is written."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run([*RUN, *verb.split()], cwd=project, stdout=write_end, stderr=subprocess.PIPE, check=False)
    os.close(write_end)
    assert (done.returncode, done.stderr if code == 0 else b"") == (code, b"")
    assert ("report.xml" in verb) == (project / "report.xml").exists()


def test_an_encoding_without_the_letter_escapes_it(project):
    (project / "policies" / "a.yml").write_text(
        (project / "policies" / "a.yml").read_text().replace("lake/orders", "lake/größe")
    )
    code, out, err = _shell("PYTHONIOENCODING=ascii ETC ls", project)
    assert (code, err, "lake/gr\\xf6\\xdfe" in out) == (0, "", True)


def test_data_is_exact_in_a_file_and_clean_on_a_terminal(project):
    policies = project / "policies" / "a.yml"
    policies.write_text(
        "version: 1\npolicies:\n  - {name: orders_ro, table: lake/o, data_latency: 30m,"
        ' event_time_column: "a\\u202eb"}\n'
    )
    _, out, _ = _shell("ETC compile --form spark-conf", project)
    assert "a\u202eb" in out
    master, terminal = pty.openpty()
    subprocess.run([*RUN, "compile", "--form", "spark-conf"], cwd=project, stdout=terminal, timeout=60, check=False)
    os.close(terminal)
    shown = os.read(master, 100_000).decode()
    os.close(master)
    assert "a\\u202eb" in shown


TABLE_VERBS = ["plan --explain", "freshness", "verify --level metadata", "debug", "history orders_ro"]


@pytest.mark.parametrize("verb", TABLE_VERBS)
def test_hostile_names_in_a_table(etc, project, verb):
    """The partition and the file groups bear all that a terminal or a CI system obeys."""
    table = TableFolder(project / "lake" / "orders")
    hostile = "x\n::warning::y\n\x1b[2J\u202e\x9b31m"
    table.commit(at("08:00:00"), at("08:00:05"), base(f"f{hostile}", partition=f"p{hostile}"))
    table.commit(at("10:35:00"), at("10:35:05"), log(f"f{hostile}", epoch_ms("10:30:00"), partition=f"p{hostile}"))
    _, out, err = etc(*verb.split(), "--select", "orders_ro") if "history" not in verb else etc(*verb.split())
    assert out + err
    assert _is_clean(out)
    assert _is_clean(err)
