"""The pages under docs/ say what is so. `ETC_REWRITE_GOLDEN=1` rewrites the reference."""

import ast
import importlib
import os
import re
import shlex
from pathlib import Path

import click
import pytest

from etc_policy.cli.main import COMMANDS, main
from etc_policy.publish.reference import render_reference

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = [
    *(DOCS / name for name in ("tutorial.md", "promise.md", "lies.md")),
    *(DOCS / "how-to" / name for name in ("existing-table.md", "many-tables.md", "ci.md", "monitor.md", "verify.md")),
]


def blocks(page, language):
    return [
        "\n".join(line.removeprefix("   ") if indent else line for line in body.splitlines()) + "\n"
        for indent, body in re.findall(rf"^( *)```{language}\n(.*?)^ *```$", page.read_text(), re.DOTALL | re.MULTILINE)
    ]


def test_the_reference_is_fresh():
    path = DOCS / "reference.md"
    if os.environ.get("ETC_REWRITE_GOLDEN") == "1":
        path.write_text(render_reference(), encoding="utf-8")
    assert path.read_text("utf-8") == render_reference(), "run this test with ETC_REWRITE_GOLDEN=1"


@pytest.mark.parametrize("page", [*PAGES, DOCS / "reference.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    text = page.read_text("utf-8")
    for path, anchor in re.findall(r"\]\(([\w./-]*)(?:#([\w-]+))?\)", text):
        assert not path or (page.parent / path).exists(), path
        if anchor and not path:
            headings = [
                re.sub(r"[^\w -]", "", line.lstrip("# ")).replace(" ", "-").lower() for line in text.splitlines()
            ]
            assert anchor in headings


COMMAND_LINES = [
    (page.name, line)
    for page in PAGES
    for block in blocks(page, "sh")
    for line in block.splitlines()
    if line.strip().startswith("etc ")
]


@pytest.mark.parametrize(("page", "line"), COMMAND_LINES, ids=lambda value: str(value)[:40])
def test_commands_are_understood(page, line):
    _, name, *arguments = shlex.split(line, comments=True)
    if ">" in arguments:
        arguments = arguments[: arguments.index(">")]
    module, attribute = COMMANDS[name][0].split(":")
    command = getattr(importlib.import_module(module), attribute)
    if isinstance(command, click.Group):
        command = command.commands[arguments.pop(0)]
    known = {option for parameter in command.params for option in parameter.opts}
    assert [a for a in arguments if a.startswith("--") and a.partition("=")[0] not in known] == []
    assert isinstance(command, click.Command)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
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

    defaults, template, extending, loop, targets = blocks(DOCS / "how-to" / "many-tables.md", "yaml")
    files = {
        "etc_project.yml": defaults + targets,
        "templates/hourly.yml": template,
        "policies/sales/orders.yml": extending,
        "policies/payments.yml": loop,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert etc("parse", "--project-dir", str(tmp_path)) == (0, "3 policies OK\n", "")
