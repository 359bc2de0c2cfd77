"""The pages for maintainers name what is there. `ETC_REWRITE_GOLDEN=1` corrects the file of a name that has moved."""

import ast
import os
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
DOCS, CONTRIBUTING = REPOSITORY / "docs", REPOSITORY / "CONTRIBUTING.md"
PAGES = [DOCS / "architecture.md", DOCS / "rules.md", CONTRIBUTING]
SECURITY = REPOSITORY / "docs" / "security.md"
#: `one`, `Another.method` (`plan/cut.py`)
REFERENCE = re.compile(r"((?:`[\w.]+`,\s+)*`[\w.]+`)(\s+)\(`([\w/]+\.py)`\)")


def names_in(body):
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        if isinstance(node, ast.ClassDef):
            yield from (f"{node.name}.{name}" for name in names_in(node.body))
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        yield from (target.id for target in targets if isinstance(target, ast.Name))


@cache
def definitions():
    """Files by the name of what they define: those of the package from there on, those of the tests with their folder."""
    found = defaultdict(set)
    for root, base in ((REPOSITORY / "etc_policy", REPOSITORY / "etc_policy"), (REPOSITORY / "tests", REPOSITORY)):
        for file in root.rglob("*.py"):
            for name in names_in(ast.parse(file.read_text("utf-8")).body):
                found[name].add(file.relative_to(base).as_posix())
    return found


def corrected(found):
    """The reference with the one file that defines all its names; as it is where there is not just one."""
    names = re.findall(r"[\w.]+", found[1])
    files = set.intersection(*(definitions()[name] for name in names))
    path = found[3] if found[3] in files or len(files) != 1 else files.pop()
    return f"{found[1]}{found[2]}(`{path}`)"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_are_where_the_pages_say(page):
    text = page.read_text("utf-8")
    if os.environ.get("ETC_REWRITE_GOLDEN") == "1":
        text = REFERENCE.sub(corrected, text)
        page.write_text(text, encoding="utf-8")
    places = [(name, path) for names, _, path in REFERENCE.findall(text) for name in re.findall(r"[\w.]+", names)]
    assert len(places) > 15
    assert [(name, path) for name, path in places if path not in definitions()[name]] == []


@pytest.mark.parametrize("page", [*PAGES, SECURITY], ids=lambda page: page.name)
def test_the_tests_and_cases_that_the_pages_name_exist(page):
    text = page.read_text("utf-8")
    tests = re.findall(r"`(test_\w+)`", text)
    assert [name for name in tests if name not in definitions()] == []
    cases = [case for cell in re.findall(r"golden: ((?:`\w+`(?:, )?)+)", text) for case in re.findall(r"\w+", cell)]
    assert [case for case in cases if not (REPOSITORY / "tests" / "golden" / "plans" / case).is_dir()] == []
