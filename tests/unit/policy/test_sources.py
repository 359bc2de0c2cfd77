import os

import pytest

from etc_policy.errors import PolicyError
from etc_policy.policy import files
from etc_policy.policy.files import MAX_FILE_BYTES, read_project_file, read_sources


@pytest.fixture
def project(tmp_path):
    (tmp_path / "project" / "policies").mkdir(parents=True)
    return tmp_path / "project"


def _codes(sources):
    return [str(issue.code) for issue in sources.issues]


def test_files_are_found_in_depth_and_in_a_stable_order(project):
    for name in ("b.yml", "a/z.yaml", "a/y.YML", "notes.txt", "a/b/c.yml"):
        file = project / "policies" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    sources = read_sources(str(project))
    assert [file.relative for file in sources.policy_files] == [
        "policies/a/b/c.yml",
        "policies/a/y.YML",
        "policies/a/z.yaml",
        "policies/b.yml",
    ]
    assert sources.policy_files[0].text == "a/b/c.yml"
    assert sources.policy_files[0].path == str(project / "policies/a/b/c.yml")
    assert sources.project_dir == str(project.resolve())
    assert sources.issues == ()


def test_a_project_without_the_folder_says_what_to_do(tmp_path):
    with pytest.raises(PolicyError) as error:
        read_sources(str(tmp_path))
    assert error.value.code == "ETC101"
    assert "etc init" in error.value.issues[0].hint
    assert error.value.issues[0].message.endswith(f"`{tmp_path}`")
    with pytest.raises(PolicyError, match=r"no folder `policies` in `.*/gone`: there is no `.*/gone`"):
        read_sources(str(tmp_path / "gone"))


def test_a_folder_without_policy_files(project):
    (project / "policies" / "readme.md").write_text("x")
    with pytest.raises(PolicyError, match="no policy file"):
        read_sources(str(project))


def test_a_byte_order_mark_is_no_part_of_the_text(project):
    (project / "policies" / "a.yml").write_bytes(b"\xef\xbb\xbfversion: 1\n")
    assert read_sources(str(project)).policy_files[0].text == "version: 1\n"


def test_a_file_that_is_not_utf_8_names_the_line(project):
    (project / "policies" / "a.yml").write_bytes(b"version: 1\nname: caf\xe9\n")
    sources = read_sources(str(project))
    assert _codes(sources) == ["ETC105"]
    assert sources.issues[0].where.line == 2
    assert "0xE9" in sources.issues[0].message


def test_the_size_of_a_file_is_bounded(project):
    (project / "policies" / "a.yml").write_bytes(b"#" * MAX_FILE_BYTES)
    (project / "policies" / "b.yml").write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    sources = read_sources(str(project))
    assert _codes(sources) == ["ETC104"]
    assert [file.relative for file in sources.policy_files] == ["policies/a.yml"]


def test_links_within_the_project_are_read_and_others_refused(project):
    (project / "shared.yml").write_text("inside")
    (project.parent / "secret.yml").write_text("outside")
    (project.parent / "folder").mkdir()
    (project / "policies" / "a.yml").symlink_to("../shared.yml")
    (project / "policies" / "b.yml").symlink_to(project.parent / "secret.yml")
    (project / "policies" / "c.yml").symlink_to("nowhere.yml")
    (project / "policies" / "d.yml").symlink_to("d.yml")
    (project / "policies" / "e").symlink_to(project.parent / "folder")
    sources = read_sources(str(project))
    assert [file.text for file in sources.policy_files] == ["inside"]
    assert sorted(_codes(sources)) == ["ETC102", "ETC102", "ETC103", "ETC103"]


@pytest.mark.parametrize("name", ["a.yml", "a"])
@pytest.mark.parametrize("place", ["policies", "templates"])
def test_a_link_does_not_say_what_is_there(project, place, name):
    """A file, a folder, nothing, a link to itself, or what nobody may look at: the words are the same."""
    outside = project.parent / "outside"
    (outside / "folder").mkdir(parents=True)
    (outside / "file").touch()
    (outside / "loop").symlink_to("loop")
    (project / place).mkdir(exist_ok=True)
    (project / "policies" / "good.yml").write_text("x")
    said = []
    for leads_to in ("folder", "file", "nothing", "loop", "file/below"):
        (project / place / name).symlink_to(outside / leads_to)
        said.append(read_sources(str(project)).issues)
        (project / place / name).unlink()
    assert len({str(one) for one in said}) == 1
    assert [str(issue.code) for issue in said[0]] == ([] if (place, name) == ("templates", "a") else ["ETC103"])


def test_what_is_no_regular_file_is_not_read(project):
    os.mkfifo(project / "policies" / "a.yml")
    (project / "policies" / "b.yml").mkdir()
    assert _codes(read_sources(str(project))) == ["ETC102"]


def test_the_project_file_is_read_under_the_same_rules(project):
    issues = []
    assert read_project_file(str(project), issues) is None
    (project.parent / "other.yml").write_text("vars: {}")
    (project / "etc_project.yml").symlink_to(project.parent / "other.yml")
    assert read_project_file(str(project), issues) is None
    assert [str(issue.code) for issue in issues] == ["ETC103"]
    (project / "etc_project.yml").unlink()
    (project / "etc_project.yml").write_text("vars: {}")
    assert read_project_file(str(project), issues).text == "vars: {}"


def test_templates_are_the_yaml_files_of_their_folder(project):
    (project / "policies" / "a.yml").write_text("x")
    (project / "templates" / "deeper").mkdir(parents=True)
    for name in ("hourly.yml", "names.jinja", "more.j2", "README.md", "deeper/other.yml"):
        (project / "templates" / name).write_text(name)
    (project / "templates" / "bad.yml").symlink_to("/etc/hostname")
    sources = read_sources(str(project))
    assert [file.relative for file in sources.template_files] == ["templates/hourly.yml"]
    assert _codes(sources) == ["ETC103"]


def test_a_linked_folder_of_templates_that_leaves_the_project_is_not_read(project):
    (project / "policies" / "a.yml").write_text("x")
    (project.parent / "outside").mkdir()
    (project.parent / "outside" / "hourly.yml").write_text("x")
    (project / "templates").symlink_to(project.parent / "outside")
    with pytest.raises(PolicyError, match="not in the project"):
        read_sources(str(project))


@pytest.mark.parametrize("target", ["folder", "file", "nothing"])
def test_a_folder_whose_hoodie_is_a_link_is_no_table(tmp_path, target):
    """Else what a glob finds would say whether a folder is there."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / ".hoodie").symlink_to(tmp_path / target)
    assert not files._is_table(str(tmp_path / "t"), lambda _: True)
