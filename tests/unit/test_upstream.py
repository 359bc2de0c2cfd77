"""The reports on stock Hudi: each has a reproducer without etc, what it printed, and its place in the lists."""

import ast
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
UPSTREAM = REPOSITORY / "docs" / "upstream"
REPORTS = sorted(page for page in UPSTREAM.glob("*.md") if page.name != "README.md")
SCRIPTS = sorted(script for script in UPSTREAM.glob("*.py") if script.name != "stock.py")


def script_of(report):
    return report.with_name(f"{report.stem.replace('-', '_')}.py")


def test_each_report_has_its_reproducer():
    assert [script_of(report) for report in REPORTS] == SCRIPTS


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.stem)
def test_a_report_has_its_parts_and_what_was_printed(report):
    text = report.read_text("utf-8")
    assert f"]({script_of(report).name})" in text
    assert [part for part in ("Steps", "Seen", "What users of plain Hudi can do") if f"\n## {part}\n" not in text] == []
    assert re.search(r"\nExpected: .*\bSeen:\s", text, re.DOTALL)
    assert re.search(r"^```text\nSpark [\d.]+, Hudi [\d.]+$", text, re.MULTILINE)


@pytest.mark.parametrize("script", [*SCRIPTS, UPSTREAM / "stock.py"], ids=lambda script: script.stem)
def test_a_reproducer_needs_stock_hudi_alone(script):
    imported = set()
    for node in ast.walk(ast.parse(script.read_text("utf-8"))):
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        imported |= {name.partition(".")[0] for name in names}
    assert imported <= {"stock", "pyspark", "datetime", "os", "pathlib", "subprocess", "sys", "tempfile"}


def test_the_lists_have_each_report():
    rows = re.findall(r"^\| \[[^]]+\]\(([\w-]+)\.md\)", (UPSTREAM / "README.md").read_text("utf-8"), re.MULTILINE)
    listed = re.findall(
        r"^[^<\n]+<upstream/([\w-]+)>$", (REPOSITORY / "docs" / "inside.md").read_text("utf-8"), re.MULTILINE
    )
    assert sorted(rows) == sorted(set(listed) - {"README"}) == [report.stem for report in REPORTS]
