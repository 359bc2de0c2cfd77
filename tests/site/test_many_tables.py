"""The first page of a site over 150 tables: worst first, search, filters and pages, by a folder's file alone."""

import json

import pytest

from benchmarks.fleet_tables import write_fleet
from etc_policy.cli.main import main

TABLES, PAGE = 150, 50
FITS = "width => document.documentElement.scrollWidth <= width"
ROWS = """() => [...document.querySelectorAll("[data-find] tbody tr")].filter((row) => row.offsetParent !== null)
  .map((row) => [row.querySelector("th a").textContent, row.querySelector(".chip").textContent])"""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """The folder of the site, the freshness of each table, and one table that cannot be read."""
    project = tmp_path_factory.mktemp("fleet") / "project"
    write_fleet(project, TABLES, commits=3)
    (project / "lake" / "table_007" / ".hoodie" / "hoodie.properties").unlink()
    assert main(["docs", "generate", "--project-dir", str(project)]) == 0
    main(["freshness", "--project-dir", str(project)])
    found = json.loads((project / "target" / "freshness.json").read_text())["tables"]
    return project / "target" / "site", {table["policy"]: table["status"] for table in found}


@pytest.fixture
def index(fleet, page):
    page.goto((fleet[0] / "index.html").as_uri())
    yield page
    assert page.complaints == []


def said(page):
    return page.locator(".finder output").first.text_content()


def test_the_worst_come_first_fifty_at_a_time(fleet, index):
    words = {"error": "Too late", "unknown": "Unknown", "warn": "Late", "pass": "Fresh"}
    seen = []
    for number in range(TABLES // PAGE):
        rows = index.evaluate(ROWS)
        assert len(rows) == PAGE
        assert said(index) == f"{number * PAGE + 1} to {(number + 1) * PAGE} of {TABLES}"
        seen += rows
        next_page = index.locator(".finder button[data-step='1']").first
        assert next_page.is_disabled() == (number == TABLES // PAGE - 1)
        if next_page.is_enabled():
            next_page.click()
    assert dict(seen) == {name: words[status] for name, status in fleet[1].items()}
    order = [list(words.values()).index(word) for _, word in seen]
    assert order == sorted(order)


def test_what_is_searched_for_is_found_by_name_and_by_tag(index):
    index.locator("input[name=find]").fill("TABLE_01 hourly")
    assert {name for name, _ in index.evaluate(ROWS)} == {"table_012_ro", "table_015_ro", "table_018_ro"}
    assert said(index) == "1 to 3 of 3"
    assert not index.locator(".below").is_visible()
    index.locator("input[name=find]").fill("nothing of that name")
    assert index.get_by_text("No table is like that.").is_visible()
    assert said(index) == "0"


def test_tags_and_statuses_filter_and_the_address_keeps_them(index):
    index.locator("select[name=tag]").select_option("team_03")
    assert said(index) == "1 to 8 of 8"
    index.locator("select[name=status]").select_option("Unknown")
    assert said(index) == "0"
    index.locator("select[name=tag]").select_option("")
    assert index.evaluate(ROWS) == [["table_007_ro", "Unknown"]]
    index.get_by_role("link", name="table_007_ro").first.click()
    assert index.locator("h1 .chip").text_content() == "Unknown"
    index.go_back()
    assert index.evaluate(ROWS) == [["table_007_ro", "Unknown"]]


@pytest.mark.extended
def test_a_page_further_down_is_kept_too(index):
    index.locator(".below button[data-step='1']").click()
    assert said(index) == "51 to 100 of 150"
    index.reload()
    assert said(index) == "51 to 100 of 150"
    index.locator("input[name=find]").fill("table")
    assert said(index) == "1 to 50 of 150"


def test_it_fits(index):
    for width in (1280, 390):
        index.set_viewport_size({"width": width, "height": 900})
        index.wait_for_function(FITS, arg=width)
        for control in index.locator(".finder input, .finder select, .finder button").all():
            assert control.is_visible()


@pytest.mark.extended
def test_without_scripts_all_tables_are_there(fleet, chromium):
    with chromium.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto((fleet[0] / "index.html").as_uri())
        assert page.locator("[data-find] tbody tr").count() == TABLES
        assert page.locator("[data-find] tbody tr").last.is_visible()
        assert not page.locator(".finder").first.is_visible()
