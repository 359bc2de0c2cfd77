"""What commands write: where it may go, what is left alone, and what is removed."""

import json
import os
import shlex
import stat
import threading

import pytest

from etc_policy.cli.ci_forms import CheckedCommand
from etc_policy.cli.main import COMMANDS, cli
from etc_policy.errors import EngineError
from etc_policy.spark.local_catalog import local_catalog_confs, spark_sql_command

LISTED = "compiled.json"
#: The commands whose checks go to files.
CHECKED = ("apply", "freshness", "parse", "plan", "retry", "sync", "verify")


def test_compile_removes_only_what_its_own_list_names(etc, project):
    (project / "compiled").mkdir()
    foreign = {name: project / "compiled" / name for name in ("docker-compose.yml", "payments.yml", "notes.yml")}
    for path in foreign.values():
        path.write_text("services: {}\n")
    assert etc("compile", "--target-dir", ".")[0] == 0
    assert (project / "compiled" / "payments_ro.yml").exists()
    policies = project / "policies" / "a.yml"
    policies.write_text("".join(line for line in policies.read_text().splitlines(True) if "payments" not in line))
    assert etc("compile", "--target-dir", ".")[0] == 0
    assert not (project / "compiled" / "payments_ro.yml").exists()
    assert not list((project / "writers").glob("payments_ro.*"))
    assert (project / "compiled" / "orders_ro.yml").exists()
    assert [path.read_text() for path in foreign.values()] == ["services: {}\n"] * 3


def test_compile_of_a_selection_keeps_the_files_of_the_others(etc, project):
    etc("compile")
    before = json.loads((project / "target" / LISTED).read_text())["files"]
    etc("compile", "--select", "orders_ro")
    assert json.loads((project / "target" / LISTED).read_text())["files"] == before
    assert (project / "target" / "compiled" / "payments_ro.yml").exists()


@pytest.mark.parametrize(
    "name", ["../policies/a.yml", "policies/a.yml", "compiled/../../f.yml", "compiled/sub/f.yml", "manifest.json", 7]
)
def test_a_list_that_somebody_else_wrote_removes_nothing_else(etc, project, name):
    etc("compile")
    (project / "target" / LISTED).write_text(json.dumps({"files": [name]}))
    before = {path for path in project.rglob("*") if path.is_file()}
    assert etc("compile")[0] == 0
    assert {path for path in project.rglob("*") if path.is_file()} == before


def test_compile_removes_nothing_through_a_link(etc, project):
    outside = project / "outside"
    outside.mkdir()
    (outside / "gone.yml").write_text("precious")
    (project / "target").mkdir()
    (project / "target" / "compiled").symlink_to(outside)
    (project / "target" / LISTED).write_text(json.dumps({"files": ["compiled/gone.yml"]}))
    code, _, err = etc("compile")
    assert (code, "error[ETC003]" in err) == (3, True)
    assert os.listdir(outside) == ["gone.yml"]


def test_a_link_in_the_target_folder_is_replaced_and_not_what_it_leads_to(etc, project):
    (project / "precious").write_text("precious")
    (project / "target").mkdir()
    (project / "target" / "manifest.json").symlink_to(project / "precious")
    assert etc("compile")[0] == 0
    assert (project / "precious").read_text() == "precious"
    assert json.loads((project / "target" / "manifest.json").read_text())["policies"]


def test_a_target_folder_that_is_a_link_to_itself_is_one_clear_error(etc, project):
    (project / "target").symlink_to("target")
    code, _, err = etc("compile")
    assert (code, "error[ETC003]" in err) == (3, True)


def test_a_site_s_folder_that_is_a_link_must_be_named(etc, project, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (project / "target").mkdir()
    (project / "target" / "site").symlink_to(outside)
    code, _, err = etc("docs", "generate")
    assert (code, "error[ETC350]" in err, os.listdir(outside)) == (3, True, [])
    assert "--out" in err
    etc("docs", "generate", "--out", "target/site")
    assert "index.html" in os.listdir(outside)


def test_folders_are_quoted_in_what_is_to_be_run(etc, tmp_path, monkeypatch):
    (tmp_path / "my java" / "bin").mkdir(parents=True)
    (tmp_path / "my java" / "bin" / "java").touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "my java"))
    words = shlex.split(spark_sql_command(tmp_path / "my target" / "catalog", "SELECT 1"))
    assert words[0] == f"JAVA_HOME={tmp_path}/my java"
    assert words[2:4] == ["--properties-file", str(tmp_path / "my target" / "catalog" / "spark.conf")]
    project = tmp_path / "my project"
    (project / "policies").mkdir(parents=True)
    (project / "target").symlink_to("/nowhere")
    assert f"`--target-dir '{project}/target'`" in etc("ls", "--project-dir", str(project))[2]


def test_a_target_folder_that_leads_out_of_the_project_must_be_named(etc, project, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (project / "target").symlink_to(outside)
    code, _, err = etc("compile")
    assert (code, "error[ETC350]" in err, os.listdir(outside)) == (3, True, [])
    assert "--target-dir" in err
    assert etc("compile", "--target-dir", "target")[0] == 0
    assert "manifest.json" in os.listdir(outside)


@pytest.mark.parametrize(
    "arguments",
    [
        "plan --out",
        "plan --target-dir",
        "docs generate --out",
        "schema --out",
        "metrics write",
        "verify --junit-xml",
        "init",
    ],
)
def test_an_empty_path_is_a_usage_error(etc, project, arguments):
    code, _, err = etc(*arguments.split(), "")
    assert (code, "error[ETC001]" in err, "empty" in err) == (64, True, True)
    assert sorted(os.listdir(project)) == ["policies"]


@pytest.mark.parametrize("long", ["x" * 300, "x/" * 2500])
@pytest.mark.parametrize(
    "arguments",
    ["ls --project-dir", "ls --state", "docs serve --out", "plan --out", "verify --junit-xml", "apply", "init"],
)
def test_a_path_that_is_too_long_is_a_usage_error(etc, project, arguments, long):
    code, _, err = etc(*arguments.split(), long)
    assert (code, "error[ETC001]" in err, "the path is too long" in err) == (64, True, True)


@pytest.mark.parametrize("option", [["verify", "--junit-xml"], ["verify", "--summary"], ["metrics", "write"]])
def test_a_pipe_gets_what_is_written_and_stays_a_pipe(etc, project, option):
    os.mkfifo(project / "pipe")
    found = []
    reader = threading.Thread(target=lambda: found.append((project / "pipe").read_text()))
    reader.start()
    etc(*option, "pipe")
    reader.join(10)
    assert "payments" in found[0]
    assert stat.S_ISFIFO((project / "pipe").stat().st_mode)


@pytest.mark.parametrize(
    "name", ["policies", "README.md", ".gitignore", "policies/orders.yml", ".etc", ".etc/policy.v1.json"]
)
@pytest.mark.parametrize("leads_to", ["a folder", "nothing"])
def test_init_writes_through_no_link(etc, tmp_path, name, leads_to):
    outside, new = tmp_path / "outside", tmp_path / "new"
    (new / name).parent.mkdir(parents=True)
    (new / name).symlink_to(outside)
    if leads_to == "a folder":
        outside.mkdir()
    code, _, err = etc("init", str(new))
    assert not outside.exists() or not os.listdir(outside)
    if name == ".etc/policy.v1.json":  # etc's own, which is replaced
        assert (code, (new / name).is_symlink()) == (0, False)
        return
    if name in ("README.md", ".gitignore"):  # which stay as they are
        assert (code, (new / name).is_symlink()) == (0, True)
        return
    assert (code, err.count("error[")) in ((3, 1), (64, 1))
    assert "ETC009" not in err


def test_init_follows_the_link_that_the_user_names(etc, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "new").symlink_to("real")
    assert etc("init", str(tmp_path / "new"))[0] == 0
    assert (tmp_path / "real" / "policies" / "orders.yml").exists()


def test_the_catalog_of_this_machine_lies_behind_no_link(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "catalog").symlink_to(tmp_path / "outside")
    with pytest.raises(EngineError, match="is a link"):
        local_catalog_confs(tmp_path / "target" / "catalog")
    with pytest.raises((EngineError, OSError)):
        spark_sql_command(tmp_path / "target" / "catalog", "SELECT 1")
    assert os.listdir(tmp_path / "outside") == []


@pytest.mark.parametrize("linked", ["demo", "demo/flights"])
def test_the_demo_replaces_no_table_behind_a_link(etc, project, tmp_path_factory, linked):
    outside = tmp_path_factory.mktemp("outside")
    (project / "policies" / "a.yml").unlink()
    (project / linked).parent.mkdir(exist_ok=True)
    (project / linked).symlink_to(outside)
    code, _, err = etc("demo")
    assert (code, "error[ETC605]" in err, os.listdir(outside)) == (64, True, [])


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (("plan", "--out", "X", "--junit-xml", "X"), ("--out", "--junit-xml")),
        (("plan", "--out", "X", "--summary", "./X"), ("--out", "--summary")),
        (("plan", "--junit-xml", "sub/../X", "--summary", "X"), ("--junit-xml", "--summary")),
        (("apply", "X", "--junit-xml", "link"), ("PLAN_FILE", "--junit-xml")),
        *(((verb, "--junit-xml", "X", "--summary", "X"), ("--junit-xml", "--summary")) for verb in CHECKED),
    ],
)
def test_two_outputs_never_go_to_one_file(etc, project, arguments, options):
    (project / "sub").mkdir()
    (project / "X").write_text("mine")
    (project / "link").symlink_to("X")
    code, out, err = etc(*arguments)
    assert (code, out, (project / "X").read_text()) == (64, "", "mine")
    assert f"`{options[0]}` and `{options[1]}` name one file, `" in err
    assert f"hint: run `etc {arguments[0]} --help`" in err
    assert not (project / "target").exists()


@pytest.mark.parametrize("verb", CHECKED)
@pytest.mark.parametrize("name", ["plan.json", "freshness.json", "run_results.json", "manifest.json"])
def test_no_report_goes_to_a_file_that_etc_keeps(etc, project, verb, name):
    code, out, err = etc(verb, "--junit-xml", f"target/{name}")
    assert (code, out) == (64, "")
    assert f"`--junit-xml` names `target/{name}`, which etc writes itself" in err


def test_a_plan_may_be_saved_where_etc_keeps_it_anyway(etc, project):
    assert etc("plan", "--out", "target/plan.json", "--summary", "/dev/null", "--junit-xml", "/dev/null")[0] == 1
    assert "ETC201" in etc("plan", "--out", "target/plan.json")[2]


def test_every_command_with_reports_is_known():
    assert sorted(name for name in COMMANDS if isinstance(cli.get_command(None, name), CheckedCommand)) == list(CHECKED)


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        ("compile --form properties --output json", "`--form` and `--output json`"),
        ("compile --explain --output json", "`--explain` and `--output json`"),
        ("compile --explain --form properties", "`--form` and `--explain`"),
        ("plan --explain --output json", "`--explain` and `--output json`"),
        ("plan --long --output json", "`--long` and `--output json`"),
        ("plan --long --explain --output json", "`--explain`, `--long` and `--output json`"),
        ("freshness --long --output json", "`--long` and `--output json`"),
    ],
)
def test_options_that_exclude_each_other_are_a_usage_error(etc, project, arguments, given):
    code, out, err = etc(*arguments.split())
    assert (code, out) == (64, "")
    assert f"{given} exclude each other: leave one of them out" in err
    assert not (project / "target").exists()
