import os

import pytest

from etc_policy.errors import PolicyError
from etc_policy.policy import files
from etc_policy.policy.files import MAX_FILE_BYTES, read_suite, shipped_suite_names, suite_names
from etc_policy.policy.manifest import Policy, policy_values
from etc_policy.policy.reading import read_project
from etc_policy.policy.resolve import compile_project
from etc_policy.verify.suites import parse_suite


def test_the_shipped_suite_is_found_and_parses(tmp_path):
    path, text = read_suite("ro_complete", tmp_path)
    suite = parse_suite(text, path)
    assert path.endswith("templates/suites/ro_complete.yml")
    assert [expectation["type"] for expectation in suite] == [
        "expect_ro_to_contain_rt_up_to", "expect_no_key_twice", "expect_no_deleted_rows", "expect_rows_of_their_base_file",
        "expect_event_times_within_bounds", "expect_event_times_within_bounds", "expect_freshness_within",
    ]  # fmt: skip


def test_the_wheel_has_the_suites_inside_the_package(tmp_path, monkeypatch):
    package = tmp_path / "site-packages" / "etc_policy"
    for folder, text in ((package, "wheel"), (package.parent, "stranger")):
        (folder / "templates" / "suites").mkdir(parents=True)
        (folder / "templates" / "suites" / "ro_complete.yml").write_text(text)
    monkeypatch.setattr(files, "_PACKAGE", package)
    assert read_suite("ro_complete", tmp_path)[1] == "wheel"


def test_the_projects_own_suite_wins(tmp_path):
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "ro_complete.yml").write_text("mine")
    (tmp_path / "suites" / "extra.yml").write_text("extra")
    assert read_suite("ro_complete", tmp_path) == (str(tmp_path / "suites" / "ro_complete.yml"), "mine")
    assert {"ro_complete", "extra"} <= set(suite_names(tmp_path))


@pytest.mark.parametrize(("name", "hint"), [("ro_complet", "did you mean `ro_complete`?"), ("../x", "known suites: ")])
def test_an_unknown_suite_is_an_error_with_a_hint(tmp_path, name, hint):
    (tmp_path / "x.yml").write_text("not reachable by `..`")
    with pytest.raises(PolicyError) as raised:
        read_suite(name, tmp_path)
    (issue,) = raised.value.issues
    assert f"`{name}`" in issue.message
    assert issue.hint.startswith(hint)


def test_a_suite_may_end_in_yaml(tmp_path):
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "extra.yaml").write_text("extra")
    assert read_suite("extra", tmp_path) == (str(tmp_path / "suites" / "extra.yaml"), "extra")
    assert "extra" in suite_names(tmp_path)
    (tmp_path / "suites" / "extra.yml").write_text("other")
    with pytest.raises(PolicyError, match=r"`extra.yml` and `extra.yaml` are both there") as raised:
        read_suite("extra", tmp_path)
    assert raised.value.code == "ETC109"


@pytest.fixture
def own(tmp_path):
    """A project with a folder of suites, beside a file and a folder that are not its."""
    (tmp_path / "project" / "suites").mkdir(parents=True)
    (tmp_path / "secret.yml").write_text("name: x")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.yml").write_text("name: x")
    return tmp_path / "project"


def _code(project, name):
    with pytest.raises(PolicyError) as raised:
        read_suite(name, project)
    (issue,) = raised.value.issues
    assert issue.where.path == str(project / "suites" / f"{name}.yml")
    return issue.code


def test_a_suite_that_is_not_text_is_an_error(own):
    (own / "suites" / "bad.yml").write_bytes(b"\xff\xfe")
    assert _code(own, "bad") == "ETC105"


def test_links_within_the_project_are_read_and_others_refused(own):
    (own / "shared.yml").write_text("name: mine")
    (own / "suites" / "a.yml").symlink_to("../shared.yml")
    (own / "suites" / "b.yml").symlink_to("../../secret.yml")
    (own / "suites" / "c.yml").symlink_to("nowhere.yml")
    assert read_suite("a", own)[1] == "name: mine"
    assert [_code(own, name) for name in "bc"] == ["ETC103", "ETC102"]


def test_a_linked_folder_of_suites_that_leaves_the_project_is_not_read(own):
    (own / "suites").rmdir()
    (own.parent / "other").mkdir(exist_ok=True)
    (own.parent / "other" / "a.yml").write_text("name: a")
    (own / "suites").symlink_to("../other")
    said = []
    for name in ("a", "b", "ro_complete"):  # there, not there, and shipped
        with pytest.raises(PolicyError) as raised:
            read_suite(name, own)
        said += raised.value.issues
    assert {(str(one.code), one.message, one.where.path) for one in said} == {
        ("ETC103", "the folder is a link that leads out of the project", str(own / "suites"))
    }


def test_what_is_no_file_is_not_read(own):
    os.mkfifo(own / "suites" / "a.yml")
    (own / "suites" / "b.yml").mkdir()
    assert [_code(own, name) for name in "ab"] == ["ETC102", "ETC102"]


def test_a_suite_is_as_big_as_other_files_at_most(own):
    with (own / "suites" / "a.yml").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    assert _code(own, "a") == "ETC104"


@pytest.mark.parametrize(
    ("lines", "suite"),
    [
        ("", "ro_complete"),
        ("strategy: {granularity: log_file}", "ro_complete"),
        ("strategy: {granularity: record}", "ro_as_of"),
        ("strategy: {granularity: record}, verify: {level: logs}", "ro_as_of"),
        ("strategy: {granularity: record}, verify: {suite: ro_complete}", "ro_complete"),
    ],
)
def test_a_policy_that_names_none_is_proved_by_what_its_granularity_promises(tmp_path, lines, suite):
    (tmp_path / "policies").mkdir()
    policy = f"{{name: a, table: /t, event_time_column: ts, data_latency: 1h, {lines}}}"
    (tmp_path / "policies" / "a.yml").write_text(f"version: 1\npolicies: [{policy}]\n")
    (found,) = compile_project(read_project(str(tmp_path), {}), shipped_suite_names()).policies
    assert found.verify.suite == suite
    assert policy_values(found)["verify.suite"] == suite
    assert Policy.model_validate_json(found.model_dump_json()).verify.suite == suite
