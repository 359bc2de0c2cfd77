import re
import tomllib
from pathlib import Path

import pytest

import etc_policy
from etc_policy import errors
from etc_policy.cli.explain import _folded
from etc_policy.errors.codes import Code, explain
from etc_policy.report.schemas import explain_key, keys

SOURCES = Path(etc_policy.__file__).parent
DOCS = SOURCES.parent / "docs"


def test_a_code_is_defined_once_and_has_one_name():
    text = (SOURCES / "errors" / "codes.py").read_text()
    defined = re.findall(r'^    (\w+) = \("(ETC\d{3})"', text, re.MULTILINE)
    assert len(defined) == len(Code) == len({code for _, code in defined}) == len({name for name, _ in defined})
    said = tomllib.loads((SOURCES / "errors" / "codes.toml").read_text())
    assert (list(said), {key for entry in said.values() for key in entry}) == (list(Code), {"summary", "text"})


def test_every_code_is_used_and_none_is_written_out():
    texts = [file.read_text() for file in SOURCES.rglob("*.py") if file.name != "codes.py"]
    used = {name for text in texts for name in re.findall(r"\bCode\.([A-Z0-9_]+)\b", text)}
    assert [code.name for code in Code if code.name not in used] == []
    examples = (SOURCES / "cli" / "explain.py").read_text()
    assert [code for text in texts if text != examples for code in re.findall(r"ETC[0-9]{3}", text)] == []


#: The classes whose exit code is always their own.
RAISED = ("UsageError", "EngineError", "TableError", "RetryableError", "StalePlanError")


def test_the_exit_code_that_is_explained_is_that_of_the_error_that_is_raised():
    raised = {}
    for file in SOURCES.rglob("*.py"):
        for kind, name in re.findall(r"\b(\w+)\(\s*Code\.(\w+)\b", file.read_text()):
            raised.setdefault(Code[name], set()).add(kind)
    certain = {code: kinds.copy().pop() for code, kinds in raised.items() if len(kinds) == 1 and kinds <= {*RAISED}}
    assert len(certain) > 60
    told = {code: explain(code).replace("\n", " ").rpartition("xit code")[2] for code in certain}
    assert [
        code for code, kind in certain.items() if f" {int(getattr(errors, kind)(code, '').exit_code)}" not in told[code]
    ] == []


def test_an_exit_code_is_explained_once():
    assert [code for code in Code if len(re.findall("[Ee]xit code", explain(code))) != 1] == []


def test_one_code(etc):
    code, out, err = etc("explain", "etc102")
    assert (code, err) == (0, "")
    assert out.startswith("ETC102  A file cannot be read\n\n")
    assert etc("explain", "ETC303")[1].startswith(
        "ETC303  Spark did not start, or without Hudi\n\nSpark's first messages"
    )


def test_the_text_is_folded_at_the_terminal(etc, monkeypatch):
    monkeypatch.setattr("etc_policy.cli.explain.text_width", lambda: 60)
    lines = etc("explain", "ETC102")[1].splitlines()
    assert max(map(len, lines)) <= 60
    assert min(map(len, lines[2:-1])) > 40


def test_all_codes_and_pages(etc):
    codes, listed = etc("explain")[1].split("\n\nPages:\n")
    assert [line.split()[0] for line in codes.splitlines()] == sorted(Code)
    names = {line.split()[0]: line.split("  ", 1)[1].strip() for line in listed.splitlines()}
    assert {path.stem for path in (DOCS / "how-to").glob("*.md") if path.stem != "index"} <= {
        name.rpartition("/")[2] for name in names
    }
    assert names["locks"] == "Locks and other writers"


@pytest.mark.parametrize("name", ["locks", "how-to/locks", "docs/how-to/locks.md"])
def test_a_page(etc, name):
    assert etc("explain", name)[:2] == (0, (DOCS / "how-to" / "locks.md").read_text())


def test_a_key_that_a_page_is_named_as_names_the_page(etc):
    out = etc("explain", "verify")[1]
    assert out.startswith("verify  (a policy file")
    assert out.endswith("`etc explain how-to/verify` prints the page of this name.\n")
    assert etc("explain", "how-to/verify")[1] == (DOCS / "how-to" / "verify.md").read_text()


def test_every_page_opens_by_its_name_and_by_each_link_to_it(etc):
    """Also where a key has its name: that one says the other."""
    for path in sorted(DOCS.rglob("*.md")):
        code, out, err = etc("explain", path.stem)
        assert (code, err) == (0, ""), path
        assert out.startswith("# ") or "prints the page of this name.\n" in out, path
        assert etc("explain", f"{path.parent.name}/{path.stem}")[1].startswith("# "), path
    links = {link for path in DOCS.rglob("*.md") for link in re.findall(r"\]\(([\w./-]+\.md)[#)]", path.read_text())}
    assert {"../facts/table-kinds.md", "late-data.md"} <= links
    outside = re.compile(r"(\.\./)+(benchmarks|tests|[A-Z]+\.md)")
    assert [link for link in links if not outside.match(link) and etc("explain", link)[0]] == []
    anchors = {
        found for path in DOCS.rglob("*.md") for found in re.findall(r"\]\(([\w./-]+\.md)#([\w-]+)\)", path.read_text())
    }
    assert [found for found in sorted(anchors) if not has_heading(etc("explain", found[0])[1], found[1])] == []


def has_heading(page, anchor):
    heads = re.sub(r"\]\([^)]*\)", "", "\n".join(re.findall(r"^#+ (.*)$", page, re.MULTILINE))).lower()
    return anchor in [re.sub(r"[^\w -]", "", head).strip().replace(" ", "-") for head in heads.splitlines()]


def test_listed_names_open_pages(etc):
    listed = etc("explain")[1].split("\n\nPages:\n")[1].splitlines()
    assert [line for line in listed if not etc("explain", line.split()[0])[1].startswith("# ")] == []
    assert not any("include}" in line for line in listed)


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("refused", "\npending_service  "),
        ("errors", "\nETC101  "),
        ("reference", " granularity, "),
        ("bundles", ": right by "),
    ],
)
def test_what_the_site_makes_of_the_code_is_there_without_it(etc, page, said):
    assert said in etc("explain", page)[1]


def test_no_message_and_no_generated_file_names_a_page_that_a_wheel_lacks(etc):
    """What is to be read is named by `etc explain`."""
    lacking = re.compile(r"(?<![\w/.-])(docs/[\w/-]+\.md|(tests|benchmarks|dev)/\w)")
    shipped = [*SOURCES.rglob("*.py"), *SOURCES.rglob("*.toml"), *(DOCS.parent / "templates").rglob("*.*")]
    text = {path: path.read_text("utf-8") for path in shipped if path.suffix not in (".js", ".css", ".svg", ".woff2")}
    comments = re.compile(r'^ *#.*$|"{3}.*?"{3}', re.MULTILINE | re.DOTALL)
    plain = {path: comments.sub("", said) if path.suffix == ".py" else said for path, said in text.items()}
    assert [str(path) for path, said in plain.items() if lacking.search(said)] == []
    named = {name for said in text.values() for name in re.findall(r"`etc explain ([\w/-]+)`", said)}
    assert len(named) > 12
    assert [name for name in named - {"WORD"} if etc("explain", name)[0]] == []


def test_no_code(etc):
    code, out, err = etc("explain", "ETC199")
    assert (code, out) == (64, "")
    assert "hint: `etc explain` lists all codes and pages\n" in err, "no number is near another one"
    assert etc("explain", "nonsense")[0] == 64


def test_codes_of_suites_are_told_from_those_of_tables(etc):
    assert etc("explain", "ETC225")[1].endswith("need the table.\n")
    assert etc("explain", "ETC232")[1].endswith("counts as not verified.\n")


def test_a_refusal_that_does_not_pass_by_itself_is_not_said_to():
    words = " ".join(explain(Code.CANNOT_COMPACT_NOW).split())
    assert "A pending compaction passes when somebody carries it out" in words
    assert "A table version, a damaged file, a wrong clock or a write that hides the schema does not pass." in words


def test_the_word_of_a_refusal(etc):
    code, out, err = etc("explain", "Too_Young")
    assert (code, err) == (0, "")
    assert out.startswith("ETC405 (too_young)  The table cannot be compacted now\n\n")
    assert "did you mean `too_young`?" in etc("explain", "to_young")[2]


@pytest.mark.parametrize("code", ["ETC402", "ETC406", "ETC407", "ETC408", "ETC415", "ETC441"])
def test_a_plan_that_does_not_fit_any_more_is_not_retried_as_it_is(code):
    assert explain(code).endswith("A retry with the same plan does not help.")


def test_a_key_is_explained_in_each_place_that_has_it(etc):
    code, out, err = etc("explain", "strategy.granularity")
    assert (code, err) == (0, "")
    assert out.startswith("granularity  (a policy file, policies/*.yml: Strategy)\n\n")
    assert '"record"' in out
    assert 'Default: "file_slice".' in out.replace("\n", " ")
    assert [line for line in etc("explain", "timeout")[1].splitlines() if line.startswith("timeout  ")] == [
        "timeout  (a policy file, policies/*.yml: Done)",
        *(f"timeout  (etc_project.yml: {part})" for part in ("Notify", "SparkSettings", "StorageSettings")),
    ]
    assert "did you mean `granularity`?" in etc("explain", "granulrity")[2]


def test_every_key_of_the_files_that_people_write_says_what_it_means():
    assert [key for key in keys() if explain_key(key).rstrip().endswith(")")] == []


def test_a_page_is_folded_at_the_terminal_but_for_code():
    for path in sorted(DOCS.rglob("*.md")):
        page = path.read_text()
        text, code = "\n".join(_folded(page, 60)), re.findall(r"^ *```.*?^ *```$", page, re.DOTALL | re.MULTILINE)
        assert all(block in text for block in code), path
        rows = re.findall(r"^ *\|.*$", re.sub(r"^.*\n *\|---.*$", "", page, flags=re.MULTILINE), re.MULTILINE)
        cells = [cell for row in rows for cell in re.split(r"(?<!\\)\|", row)]
        said = [line for line in page.splitlines() if not line.lstrip().startswith("|")]
        squeezed = "".join(text.split())
        assert [part for part in (*said, *cells) if "".join(part.split()) not in squeezed] == [], path
        wide = (line for line in text.splitlines() if len(line) > 60 and not any(line in block for block in code))
        assert [line for line in wide if len(line.split("](")) == 1 and line.lstrip().startswith("|")] == [], path
    table = ["| key | means |", "|---|---|", "| `a` | what it means at some length |"]
    assert [*_folded("\n".join(table), 20)] == ["`a`", "  means: what it", "    means at some", "    length", ""]
    assert [*_folded("\n".join(table), 60)] == [*table, ""]
    folded = [*_folded("# A page\n\nSome words of a\nparagraph.\n\n- an item that is\n  long\n- another one\n", 20)]
    assert folded == [
        "# A page",
        "",
        "Some words of a",
        "paragraph.",
        "",
        "- an item that is",
        "  long",
        "- another one",
        "",
        "",
    ]
