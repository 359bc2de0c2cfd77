"""Facts about Hudi have one name each, and what comments and pages cite by name exists."""

import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
FACTS = REPOSITORY / "docs" / "facts"
_NAME = r"[a-z0-9]+(?:-[a-z0-9]+)+"
FACT = re.compile(rf"^- \*\*\[({_NAME})\]\*\* (.*(?:\n  .*)*)", re.MULTILINE)
CITED = re.compile(rf"\bfacts: ({_NAME}(?:, {_NAME})*)")


def facts():
    return [found for page in sorted(FACTS.glob("*.md")) for found in FACT.findall(page.read_text("utf-8"))]


def sources():
    for folder in ("etc_policy", "tests", "dev", "benchmarks", "docs"):
        for ending in ("py", "md"):
            yield from (REPOSITORY / folder).rglob(f"*.{ending}")
    yield from REPOSITORY.glob("*.md")


def test_each_fact_has_a_name_of_its_own_and_is_short():
    names = [name for name, _ in facts()]
    bullets = sum(page.read_text("utf-8").count("\n- **[") for page in FACTS.glob("*.md"))
    assert len(names) == len(set(names)) == bullets, "a name is two words or more, by hyphens, and there once"
    assert [name for name, text in facts() if len(text.split()) > 80] == []


def test_cited_facts_exist():
    known = {name for name, _ in facts()}
    texts = {page.relative_to(REPOSITORY).as_posix(): page.read_text("utf-8") for page in sources()}
    cited = [(page, name) for page, text in texts.items() for all_ in CITED.findall(text) for name in all_.split(", ")]
    rules = texts["docs/rules.md"].split("| fact |")[1].split("\n\n")[0]
    cited += [
        ("docs/rules.md", name)
        for row in re.findall(rf"^\| ({_NAME}.*?) \|", rules, re.MULTILINE)
        for name in row.split(", ")
    ]
    assert len(cited) > 200
    assert [(page, name) for page, name in cited if name not in known] == []
