"""Checks in the forms of GitHub and JUnit, down to the letters that would break them."""

import html
import re
import xml.etree.ElementTree as ET

from etc_policy.errors import Issue, Where
from etc_policy.report.checks import github_annotations, junit_xml, markdown_summary

PLACE = Where("policies/a,b.yml", 3, 11, "orders_ro")
CHECKS = (
    Issue("apply", "compacted", PLACE, level="pass", seconds=7.5),
    Issue("expect_no_key_twice", "2 keys: 100 % twice\n<b>a|b</b> ]]>", PLACE, "look", "fail"),
    Issue("freshness", "lag 3h", level="warning", policy="orders_ro"),
    Issue("ETC102", "bad \x00 \x1b[31m key"),
)


def test_annotations():
    assert github_annotations(CHECKS, lambda path: f"sub/{path}").splitlines() == [
        "::error file=sub/policies/a%2Cb.yml,line=3,col=11,title=orders_ro%3A expect_no_key_twice"
        "::2 keys: 100 %25 twice%0A<b>a|b</b> ]]>%0Ahint: look",
        "::warning title=orders_ro%3A freshness::lag 3h",
        "::error title=project%3A ETC102::bad \\x00 \\x1b[31m key",
    ]


def test_a_message_cannot_begin_a_command_of_its_own():
    forged = Issue("b", "x\n::add-mask::y\r\n::stop-commands::z", level="fail", policy="a")
    (line,) = github_annotations([forged]).splitlines()
    assert line == "::error title=a%3A b::x%0A::add-mask::y%0A::stop-commands::z"


def test_summary():
    lines = markdown_summary("etc apply", CHECKS).splitlines()
    assert lines[:4] == [
        "### `etc apply`: 1 error, 1 fail, 1 warn, 1 pass",
        "",
        "| | policy | check | |",
        "|---|---|---|---|",
    ]
    assert [line.split("|")[1].strip() for line in lines[4:8]] == ["❌ error", "❌ fail", "⚠️ warn", "✅ pass"]
    (failed,) = (line for line in lines if "fail |" in line)
    assert failed.count("|") == 5
    assert "<b>" not in failed
    assert failed.endswith("<br>hint: look |")


def test_a_summary_of_nothing():
    assert markdown_summary("etc apply", ()) == "### `etc apply`: nothing to check\n\n"


def test_junit():
    root = ET.fromstring(junit_xml("etc apply", CHECKS))
    found = {suite.get("name"): suite for suite in root}
    totals = {name: (s.get("tests"), s.get("failures"), s.get("errors")) for name, s in found.items()}
    assert totals == {"orders_ro": ("3", "1", "0"), "project": ("1", "0", "1")}
    done, failed, warned = found["orders_ro"].findall("testcase")
    assert (done.get("classname"), done.get("name"), float(done.get("time"))) == ("orders_ro", "apply", 7.5)
    assert (done.get("file"), done.get("line")) == ("policies/a,b.yml", "3")
    assert done.find("failure") is None
    failure = failed.find("failure")
    assert failure.text == "2 keys: 100 % twice\n<b>a|b</b> ]]>\nhint: look"
    assert (warned.find("failure"), warned.find("system-out").text) == (None, "warn: lag 3h")
    assert found["project"].find("testcase/error").text == "bad � �[31m key"


def test_markdown_shows_text_as_it_is():
    text = r"a_ro & <b>*x*</b> [1](2) `c` #3 ~d~ !e a|b \f &amp;"
    (line,) = (
        line
        for line in markdown_summary("t", [Issue("c", "", level="pass", policy=text)]).splitlines()
        if "pass |" in line
    )
    cell = line.split(" | ")[1]
    assert html.unescape(cell) == text
    assert "a&#95;ro &#38; &#60;b&#62;" in cell
    assert set(re.sub(r"&#\d+;", "", cell)).isdisjoint("\\`*_[]<>|#~&!")
