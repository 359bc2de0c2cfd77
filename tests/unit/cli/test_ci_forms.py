"""`--junit-xml`, `--github`, `--summary` and `--fail-on` of the commands, over tables of files."""

import json
import xml.etree.ElementTree as ET

import pytest

from tests.unit.hudi.table_folder import TableFolder, at, base, log
from tests.unit.plan.plan_cases import epoch_ms

NOON = "2026-01-01T12:00:00Z"
POLICIES = """version: 1
policies:
  - name: orders_ro
    table: lake/orders
    event_time_column: ts
    data_latency: 1h
    freshness: {target: 2h, warn_after: 90m, error_after: 3h}
"""
GONE = "  - {name: gone, table: lake/gone, event_time_column: ts, data_latency: 1h}\n"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project in `sub` of a repository, whose table is beyond its target at noon; the current folder is the root."""
    folder = tmp_path / "sub"
    (folder / "policies").mkdir(parents=True)
    (folder / "policies" / "a.yml").write_text(POLICIES)
    orders = TableFolder(folder / "lake" / "orders")
    orders.commit(at("08:00:00"), at("08:00:05"), base("f1"))
    orders.commit(at("11:00:00"), at("11:00:05"), log("f1", min_event=epoch_ms("10:15:00")))
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    return folder


def annotations(err):
    return [line for line in err.splitlines() if line.startswith("::")]


class TestFailOn:
    @pytest.mark.parametrize(("arguments", "code"), [((), 0), (("--fail-on", "error"), 0), (("--fail-on", "warn"), 1)])
    def test_a_table_beyond_its_target(self, etc, project, arguments, code):
        assert etc("freshness", "--project-dir", "sub", "--at", NOON, *arguments)[0] == code

    def test_a_table_within_it(self, etc, project):
        assert etc("freshness", "--project-dir", "sub", "--at", "2026-01-01T11:30:00Z", "--fail-on", "warn")[0] == 0

    def test_an_unknown_table(self, etc, project):
        with (project / "policies" / "a.yml").open("a") as file:
            file.write(GONE)
        assert etc("freshness", "--project-dir", "sub", "--at", NOON)[0] == 1


def test_a_table_without_a_target_neither_passes_nor_fails(etc, project):
    path = project / "policies" / "a.yml"
    path.write_text("".join(line for line in path.read_text().splitlines(True) if "freshness" not in line))
    forms = ("--summary", "s.md", "--junit-xml", "x.xml")
    code, out, _ = etc("freshness", "--project-dir", "sub", "--at", NOON, "--fail-on", "warn", *forms)
    assert (code, out.startswith("no target orders_ro  ")) == (0, True), out
    assert json.loads((project / "target" / "freshness.json").read_text())["tables"][0]["status"] == "no_target"
    summary = (project.parent / "s.md").read_text()
    assert summary.startswith("### `etc freshness`: 1 no target\n") and "\n| no target | orders" in summary
    (case,) = ET.parse("x.xml").iter("testcase")
    assert case.find("skipped") is not None
    assert etc("docs", "generate", "--project-dir", "sub", "--at", NOON)[0] == 0
    page = (project / "target" / "site" / "index.html").read_text("utf-8")
    assert '<span class="chip none">No target</span>' in page
    assert "<b>0</b> fresh" in page and "<b>1</b> without a target" in page


def test_all_forms_of_freshness(etc, project, monkeypatch):
    with (project / "policies" / "a.yml").open("a") as file:
        file.write(GONE)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    forms = ("--github", "--summary", "own.md", "--junit-xml", "checks.xml")
    code, out, err = etc("freshness", "--project-dir", "sub", "--at", NOON, *forms)
    assert (code, out.count("::")) == (1, 0)
    gone, warned = sorted(annotations(err))
    assert warned == (
        "::warning file=sub/policies/a.yml,line=3,col=11,title=orders_ro%3A freshness"
        "::RO is complete until 2026-01-01 10:14:59.999 UTC, 1h45m ago (proof: metadata, 2026-01-01 12:00:00 UTC)"
    )
    assert gone.startswith("::error file=sub/policies/a.yml,line=8,")
    cases = {case.get("classname"): case for case in ET.parse("checks.xml").iter("testcase")}
    assert cases["gone"].find("error") is not None
    assert cases["orders_ro"].find("failure") is None
    summary = (project.parent / "summary.md").read_text()
    assert summary == (project.parent / "own.md").read_text()
    assert summary.startswith("### `etc freshness`: 1 error, 1 warn")


FORMS = ("--summary", "sub/policies/a.yml/form", "--junit-xml", "sub/policies/a.yml/form.xml")


def test_a_form_that_cannot_be_written_hides_neither_errors_nor_the_exit_code(etc, project):
    """Here a file is in the place of their folder."""
    with (project / "policies" / "a.yml").open("a") as file:
        file.write(GONE)
    code, _, err = etc("freshness", "--project-dir", "sub", "--at", NOON, *FORMS)
    assert code == 1
    assert [one in err for one in ("error[ETC201]", "error[ETC003]", "error[ETC345]")] == [True] * 3


@pytest.mark.parametrize(("fail_on", "code"), [("warn", 1), ("error", 3)])
def test_nor_a_verdict(etc, project, fail_on, code):
    given = ("freshness", "--project-dir", "sub", "--at", NOON, "--fail-on", fail_on)
    ended, out, err = etc(*given, *FORMS)
    assert (ended, "orders_ro" in out, err.count("cannot write `sub/policies/a.yml/form")) == (code, True, 2)


def test_the_summary_is_appended(etc, project):
    for _ in range(2):
        etc("freshness", "--project-dir", "sub", "--at", NOON, "--summary", "s.md")
    assert (project.parent / "s.md").read_text().count("### `etc freshness`") == 2


def test_without_the_options_nothing_is_written(etc, project, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    _, _, err = etc("freshness", "--project-dir", "sub", "--at", NOON)
    assert annotations(err) == []
    assert not (project.parent / "summary.md").exists()


def test_errors_of_the_files(etc, project):
    (project / "policies" / "a.yml").write_text(POLICIES.replace("data_latency", "data_latncy").replace("2h", "2x"))
    code, _, err = etc("parse", "--project-dir", "sub", "--github", "--junit-xml", "checks.xml")
    assert code == 1
    found = annotations(err)
    assert len(found) >= 2
    assert all(line.startswith("::error file=sub/policies/a.yml,line=") for line in found)
    assert len(list(ET.parse("checks.xml").iter("error"))) == len(found)


def test_the_path_of_a_line_begins_at_its_repository_wherever_that_was_checked_out(etc, project, monkeypatch):
    """A workflow may check out below the work folder, and GitHub knows nothing of that folder's name."""
    monkeypatch.setenv("GITHUB_WORKSPACE", str(project.parent))
    (project / ".git").mkdir()
    (project / "policies" / "a.yml").write_text(POLICIES.replace("data_latency", "data_latncy"))
    monkeypatch.chdir(project)
    err = etc("parse", "--github")[2]
    assert {line.partition(",")[0] for line in annotations(err)} == {"::error file=policies/a.yml"}


def test_files_without_errors(etc, project):
    for output in ("text", "json"):
        code, _, err = etc(
            "parse", "--project-dir", "sub", "--output", output, "--github", "--junit-xml", f"{output}.xml"
        )
        assert (code, annotations(err)) == (0, [])
        (case,) = ET.parse(f"{output}.xml").iter("testcase")
        assert (case.get("classname"), case.get("name")) == ("orders_ro", "parse")


def test_errors_as_json_are_in_the_forms_too(etc, project):
    (project / "policies" / "a.yml").write_text(POLICIES.replace("1h", "1x"))
    code, _, err = etc("parse", "--project-dir", "sub", "--output", "json", "--github")
    assert (code, len(annotations(err))) == (1, 1)


def test_a_refused_table_is_told_once_with_its_place_and_hint(etc, project):
    (project / "lake" / "orders" / ".hoodie" / "timeline" / f"{at('11:30:00')}.clustering.requested").touch()
    code, _, err = etc("plan", "--project-dir", "sub", "--at", NOON, "--github")
    assert code == 4
    (line,) = annotations(err)
    assert line.startswith("::error file=sub/policies/a.yml,line=3,")
    assert "%0Ahint: " in line


def test_a_verdict_of_verify(etc, project):
    code, _, err = etc(
        "verify",
        "--project-dir",
        "sub",
        "--level",
        "metadata",
        "--at",
        "2026-01-01T11:30:00Z",
        "--github",
        "--junit-xml",
        "v.xml",
    )
    assert (code, annotations(err)) == (0, [])
    cases = list(ET.parse("v.xml").iter("testcase"))
    assert [case.get("name") for case in cases if case.find("skipped") is None] == [
        "verification",
        "no_uncompacted_log_file_at_or_below_threshold",
        "files_are_what_their_commits_wrote",
        "expect_freshness_within",
    ]


def test_annotations_do_not_stand_among_messages_that_are_json(etc, project):
    code, out, err = etc("parse", "--github", "--log-format", "json")
    assert (code, out, len(err.splitlines())) == (64, "", 1)
    assert json.loads(err)["code"] == "ETC001"
