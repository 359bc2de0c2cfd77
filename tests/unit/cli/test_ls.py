import json

import pytest

from tests.unit.cli.conftest import POLICY


def test_the_three_forms(etc, project):
    code, out, err = etc("ls")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "policy       table          latency  target  granularity  tags",
        "orders_ro    lake/orders    30m      -       log_file",
        "payments_ro  lake/payments  30m      -       log_file",
    ]
    assert etc("ls", "--output", "names")[1] == "orders_ro\npayments_ro\n"
    (first, _) = json.loads(etc("ls", "--output", "json")[1])["policies"]
    assert first["source"] == "policies/a.yml:3:12"
    assert first["table"] == f"{project}/lake/orders"


def test_what_changed_since_an_earlier_manifest(etc, project, monkeypatch):
    assert etc("compile", "--target-dir", "before")[0] == 0
    text = (project / "policies" / "a.yml").read_text()
    (project / "policies" / "a.yml").write_text(text.replace("data_latency: 30m", "data_latency: 31m", 1))
    assert etc("ls", "-s", "state:modified", "--state", "before", "--output", "names")[1] == "orders_ro\n"
    monkeypatch.setenv("ETC_STATE", "before")
    assert etc("ls", "--select", "state:modified", "--output", "names")[1] == "orders_ro\n"
    assert etc("ls", "--select", "state:new", "--output", "names") == (0, "", "no policy is selected\n")
    _, out, _ = etc("compile", "--select", "state:modified", "--state", "before")
    assert "orders_ro.properties" in out
    assert "payments_ro.properties" not in out


def test_a_changed_suite_of_the_project_is_a_change_of_the_policies_that_name_it(etc, project):
    """Its contents count and not its text; suites that are shipped are as they are in that version of etc."""
    file, suite = project / "policies" / "a.yml", project / "suites" / "strict.yml"
    file.write_text(file.read_text().replace("lake/orders,", "lake/orders, verify: {suite: strict},"))
    suite.parent.mkdir()
    suite.write_text("name: strict\nexpectations:\n  - {type: expect_event_times_tracked, severity: info}\n")
    assert etc("compile", "--target-dir", "before")[0] == 0
    changed = ("ls", "-s", "state:modified", "--state", "before", "--output", "names")
    suite.write_text(f"# said better\ndescription: What we promise.\n{suite.read_text()}")
    assert etc(*changed)[1] == ""
    suite.write_text(suite.read_text().replace(", severity: info", ""))
    assert etc(*changed)[1] == "orders_ro\n"
    policies = json.loads(etc("compile", "--output", "json")[1])["policies"]
    assert [one["name"] for one in policies if one["suite_digest"]] == ["orders_ro"]
    suite.write_text("no suite")
    assert etc(*changed)[1] == "orders_ro\n"


def test_the_earlier_manifest_is_read_before_it_is_overwritten(etc, project):
    etc("compile")
    text = (project / "policies" / "a.yml").read_text()
    (project / "policies" / "a.yml").write_text(text.replace("data_latency: 30m", "data_latency: 31m", 1))
    assert "orders_ro.properties" in etc("compile", "--select", "state:modified", "--state", "target")[1]


@pytest.mark.parametrize("content", [None, "", "{}", '{"schema_version": 99, "policies": []}', "\x00"])
def test_a_state_that_is_none(etc, project, content):
    if content is not None:
        (project / "manifest.json").write_text(content)
    code, out, err = etc("ls", "--select", "state:new", "--state", str(project))
    assert (code, out) == (64, "")
    assert err.startswith("error[ETC007]")
    assert ("the manifest is empty" in err) == (content == "")


def test_exclude_reaches_every_command(etc, project):
    assert etc("parse", "--exclude", "orders_ro")[1] == "1 policy OK\n"
    assert etc("plan", "--exclude", "orders_*", "payments_ro")[0] == 64


@pytest.mark.parametrize("here", ["/", "elsewhere"])
def test_columns_line_up_where_paths_are_shown_from_here(etc, project, monkeypatch, here):
    (project / "elsewhere").mkdir()
    policies = project / "policies" / "a.yml"
    text = policies.read_text().replace("lake/orders", "s3://lake/orders")
    policies.write_text(text.replace("lake/payments", f"{project}/elsewhere/payments"))
    (project / "etc_project.yml").write_text(
        "name: p\nprofiles: {p: {target: d, targets: {d: {table_root: /nowhere}}}}\n"
    )
    monkeypatch.chdir(here)
    code, out, err = etc("ls", "--project-dir", str(project))
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert len({line.index(word) for line, word in zip(lines, ("latency", "30m", "30m"), strict=True)}) == 1
    shown = f"{project}/elsewhere/payments" if here == "/" else "payments"
    assert ["s3://lake/orders", shown] == [line.split()[1] for line in lines[1:]]


def test_at_a_narrow_terminal_each_policy_is_folded_below_its_name(etc, project, monkeypatch):
    (project / "policies" / "a.yml").write_text(POLICY.replace("lake/orders", "lake/of/many/folders/and/more/orders"))
    assert "\norders_ro    lake/of/many/folders/and/more/orders  " in etc("ls")[1]
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    lines = etc("ls")[1].splitlines()
    assert [line for line in lines if not line.startswith("    ")] == ["  orders_ro", "  payments_ro"]
    assert max(map(len, lines)) <= 60
