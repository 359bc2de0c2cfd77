import pytest

from etc_policy.declare import suites
from etc_policy.declare.suites import read_suite, suite_names
from etc_policy.errors import PolicyError, Where
from etc_policy.verify.suites import parse_suite


def test_the_shipped_suite_is_found_and_parses(tmp_path):
    path, text = read_suite("ro_complete", tmp_path)
    suite = parse_suite(text, path)
    assert path.endswith("templates/suites/ro_complete.yml")
    assert suite.suite.name == "ro_complete"
    assert [expectation.type for expectation in suite.expectations] == [
        "expect_ro_to_contain_rt_up_to", "expect_no_key_twice", "expect_no_deleted_rows", "expect_rows_of_their_base_file",
        "expect_event_times_within_bounds", "expect_event_times_within_bounds", "expect_freshness_within",
    ]  # fmt: skip


def test_the_wheel_has_the_suites_inside_the_package(tmp_path, monkeypatch):
    package = tmp_path / "site-packages" / "etc_policy"
    for folder, text in ((package, "wheel"), (package.parent, "stranger")):
        (folder / "templates" / "suites").mkdir(parents=True)
        (folder / "templates" / "suites" / "ro_complete.yml").write_text(text)
    monkeypatch.setattr(suites, "_PACKAGE", package)
    assert read_suite("ro_complete", tmp_path)[1] == "wheel"


def test_the_projects_own_suite_wins(tmp_path):
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "ro_complete.yml").write_text("mine")
    (tmp_path / "suites" / "extra.yml").write_text("extra")
    assert read_suite("ro_complete", tmp_path) == (str(tmp_path / "suites" / "ro_complete.yml"), "mine")
    assert {"ro_complete", "extra"} <= set(suite_names(tmp_path))


@pytest.mark.parametrize(("name", "hint"), [("ro_complet", "did you mean `ro_complete`?"), ("../x", "known suites: ")])
def test_an_unknown_suite_is_an_error_at_the_place_that_asks(tmp_path, name, hint):
    (tmp_path / "x.yml").write_text("not reachable by `..`")
    with pytest.raises(PolicyError) as raised:
        read_suite(name, tmp_path, Where("policies/a.yml", 3, 5))
    (issue,) = raised.value.issues
    assert f"`{name}`" in issue.message
    assert issue.hint.startswith(hint)
    assert str(issue.where) == "policies/a.yml:3:5"


def test_a_suite_that_is_not_text_is_an_error(tmp_path):
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "bad.yml").write_bytes(b"\xff\xfe")
    with pytest.raises(PolicyError, match="cannot read suite"):
        read_suite("bad", tmp_path)
