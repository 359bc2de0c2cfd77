import re
from pathlib import Path

import etc_policy
from etc_policy.declare.codes import Code
from etc_policy.declare.explanations import EXPLANATIONS, explain

SOURCES = Path(etc_policy.__file__).parent


def test_every_code_of_a_file_has_an_explanation():
    assert [code for code in Code if code not in EXPLANATIONS] == []


def test_every_code_that_is_printed_is_known():
    texts = (file.read_text() for file in SOURCES.rglob("*.py"))
    codes = {code for text in texts for code in re.findall(r'"(ETC[0-9]{3})"', text)}
    assert len(codes) > 50
    assert [code for code in sorted(codes) if explain(code) is None] == []


def test_one_code(etc):
    code, out, err = etc("explain", "etc102")
    assert (code, err) == (0, "")
    assert out.startswith("ETC102  A file cannot be read\n\n")
    assert etc("explain", "ETC303")[1].startswith("ETC303\n\nSpark, Hudi, Java or the file system failed")


def test_the_text_is_folded_at_the_terminal(etc, monkeypatch):
    monkeypatch.setattr("etc_policy.cli.explain.text_width", lambda: 60)
    lines = etc("explain", "ETC102")[1].splitlines()
    assert max(map(len, lines)) <= 60
    assert min(map(len, lines[2:-1])) > 40


def test_all_codes(etc):
    assert len(etc("explain")[1].splitlines()) == len(Code)


def test_no_code(etc):
    code, out, err = etc("explain", "ETC199")
    assert (code, out) == (64, "")
    assert "did you mean `ETC1" in err
    assert etc("explain", "nonsense")[0] == 64


def test_codes_of_suites_are_told_from_those_of_tables(etc):
    assert etc("explain", "ETC225")[1].startswith("ETC225\n\nA suite of expectations")
    assert etc("explain", "ETC232")[1].startswith("ETC232\n\nThe table is missing")
