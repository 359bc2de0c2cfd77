"""The pages under docs/ say what is so."""

import ast
import html
import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from dev.made import MADE
from dev.options_page import leaf_commands, rows_of
from etc_policy.api.project import Project
from etc_policy.cli.main import COMMANDS, load_command, main
from etc_policy.errors import ExitCode
from etc_policy.errors.codes import Code
from etc_policy.report.metrics import GAUGES
from tests.integration.release_matrix import kept, with_table

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"
ALL_PAGES = sorted(DOCS.rglob("*.md"))
#: Pages for users, without the record of what was measured and the reports to Hudi.
PAGES = [page for page in ALL_PAGES if page.parent.name not in ("facts", "upstream")]
IN_THE_ROOT = [
    REPOSITORY / name
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "changelog.d/README.md")
]
COMMAND_PAGE = (DOCS / "reference" / "commands.md").read_text("utf-8")


def page_name(page):
    return page.relative_to(REPOSITORY).as_posix()


def blocks(page, language):
    return [
        "\n".join(line.removeprefix("   ") if indent else line for line in body.splitlines()) + "\n"
        for indent, body in re.findall(rf"^( *)```{language}\n(.*?)^ *```$", page.read_text(), re.DOTALL | re.MULTILINE)
    ]


def as_built(page):
    name = page.resolve().with_suffix("")
    made = MADE.get(name.relative_to(DOCS).as_posix()) if name.is_relative_to(DOCS) else None
    return page.read_text("utf-8") + (made() if made else "")


def anchors(page):
    headings = re.findall(r"^#{1,4} (.*)$", as_built(page), re.MULTILINE)
    return [re.sub(r"[^\w -]", "", heading).replace(" ", "-").lower() for heading in headings]


@pytest.mark.parametrize("page", [*ALL_PAGES, *IN_THE_ROOT], ids=page_name)
def test_links_lead_somewhere(page):
    for path, anchor in re.findall(r"\]\(([\w./-]*)(?:#([\w-]+))?\)", as_built(page)):
        target = page.parent / path if path else page
        assert target.exists(), path
        assert not anchor or anchor in anchors(target), f"{path}#{anchor}"


@pytest.mark.parametrize("page", [*ALL_PAGES, *IN_THE_ROOT], ids=page_name)
def test_the_tests_and_benchmarks_it_names_exist(page):
    text = as_built(page)
    paths = re.findall(r"\b((?:tests|benchmarks)/[\w/.-]*\w)", text)
    modules = re.findall(r"python -m ((?:tests|benchmarks|dev)[\w.]+)", text)
    for place in (module.replace(".", "/") for module in modules):
        paths.append(f"{place}/__main__.py" if (REPOSITORY / place).is_dir() else f"{place}.py")
    assert [path for path in paths if not (REPOSITORY / path).exists()] == []


COMMAND_LINES = [
    (page_name(page), line)
    for page in PAGES
    for block in blocks(page, "sh")
    for line in block.splitlines()
    if line.strip().startswith("etc ")
]


def commands_of(line):
    """The command that a line means, None if it is missing of this name or an option is not its own."""
    _, name, *arguments = shlex.split(line, comments=True)
    if name not in COMMANDS:
        return None
    for end in (">", "&&", "|"):
        arguments = arguments[: arguments.index(end)] if end in arguments else arguments
    command = load_command(name)
    if isinstance(command, click.Group) and arguments:
        command = command.commands[arguments.pop(0)]
    known = {option for parameter in command.params for option in parameter.opts}
    flags = {argument.partition("=")[0] for argument in arguments if argument.startswith("--")}
    return command if flags <= known | {"--help"} else None


@pytest.mark.parametrize(("page", "line"), COMMAND_LINES, ids=lambda value: str(value)[:40])
def test_commands_are_understood(page, line):
    assert isinstance(commands_of(line), click.Command)


#: What Airflow or Dagster is needed for is run by their tests in tests/integration.
PYTHON_PAGES = [page for page in PAGES if page.name not in ("airflow.md", "dagster.md")]


@pytest.mark.parametrize("page", PYTHON_PAGES, ids=page_name)
def test_python_is_python(page):
    for block in blocks(page, "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom):
                module = importlib.import_module(node.module)
                assert all(hasattr(module, alias.name) for alias in node.names)


def test_the_yaml_of_many_tables_is_a_project(capsys, tmp_path):
    def etc(*arguments):
        code = main(arguments)
        return code, *capsys.readouterr()

    defaults, template, extending, loop, namespaces, targets = blocks(DOCS / "how-to" / "many-tables.md", "yaml")
    files = {
        "etc_project.yml": defaults + targets,
        "templates/hourly.yml": template,
        "policies/sales/orders.yml": extending,
        "policies/payments.yml": loop,
        "policies/lake.yml": namespaces,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    code, out, err = etc("parse", "--project-dir", str(tmp_path))
    assert (code, out[:31], err) == (0, "3 policies OK, and 2 namespaces", "")
    manifest = Project(tmp_path, looks_up=False).manifest()
    assert {one.name: one.verify.level for one in manifest.policies} == {
        "orders_ro": "metadata",
        "payments_ro": "data",
        "refunds_ro": "data",
    }, "every default on the page has an effect"
    assert {one.tags for one in manifest.policies} == {("hourly",)}


def test_the_page_of_metrics_names_every_metric():
    page = (DOCS / "how-to" / "monitor.md").read_text()
    rows = re.findall(r"^\| (`etc_.*?) \|", page, re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`(etc_\w+(?:\{\w+\})?)`", row)]
    assert sorted(named) == sorted(g.name + (f"{{{g.extra_label}}}" if g.extra_label else "") for g in GAUGES)


def test_the_page_of_commands_names_every_command():
    assert re.findall(r"^\| `etc (\w+)", COMMAND_PAGE, re.MULTILINE) == list(COMMANDS)


def test_its_exit_codes_are_all():
    assert re.findall(r"^\| (\d+) \|", COMMAND_PAGE, re.MULTILINE) == [str(int(code)) for code in ExitCode]


def test_the_yaml_of_the_configuration_is_a_project(capsys, tmp_path):
    project, loop = blocks(DOCS / "reference" / "configuration.md", "yaml")
    files = {
        "etc_project.yml": project,
        "templates/hourly.yml": "version: 1\ntemplate: {event_time_column: ts, data_latency: 30m}\n",
        "policies/sales/orders.yml": "version: 1\nvars: {tables: [{name: orders}]}\n" + loop,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert main(("parse", "--project-dir", str(tmp_path))) == 0
    assert capsys.readouterr().out == "1 policy OK\n"


def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path):
    build = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", str(DOCS), str(tmp_path)]
    done = subprocess.run(build, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    index = re.findall(r"<li><a href=[^>]*>([^<]+)", (tmp_path / "genindex.html").read_text("utf-8"))
    glossary = re.findall(r"^\| \*\*([^*]+)\*\*", (DOCS / "concepts" / "glossary.md").read_text("utf-8"), re.MULTILINE)
    options = {row.name for _, command in leaf_commands() for row in rows_of(command)}
    wanted = {*glossary, *Code, *(f"{name} (option)" for name in options), "data_latency (key)", "etc plan (command)"}
    assert sorted(wanted - set(map(html.unescape, index))) == []
    made = sorted(path for path in tmp_path.rglob("*.html") if "_static" not in path.parts)
    pages = {page.relative_to(DOCS).with_suffix(".html") for page in ALL_PAGES}
    assert pages <= {path.relative_to(tmp_path) for path in made}
    listed = re.findall(r"^- \[.+\]\((.+)\)$", (tmp_path / "llms.txt").read_text("utf-8"), re.MULTILINE)
    assert {*listed, "_sources/index.md.txt"} == {f"_sources/{page.relative_to(DOCS)}.txt" for page in ALL_PAGES}
    assert all((tmp_path / name).is_file() for name in listed)
    errors = (tmp_path / "_sources" / "reference" / "errors.md.txt").read_text("utf-8")
    assert "### ETC101" in errors, "what is made is missing of the pages for assistants"
    loaded = [
        tag
        for path in made
        for tag in re.findall(r"<(?:script|link|img|iframe|source)\b[^>]*>", path.read_text("utf-8"))
        if re.search(r"(?:src|href)=\"(?:https?:)?//", tag)
    ]
    assert loaded == []


def test_the_releases_on_the_page_are_those_that_were_played():
    page = (DOCS / "concepts" / "tested.md").read_text("utf-8")
    assert with_table(page, kept()) == page, "run python -m tests.integration.release_matrix --keep"


def test_the_front_door_is_short():
    assert len(IN_THE_ROOT[0].read_text("utf-8").splitlines()) <= 120
