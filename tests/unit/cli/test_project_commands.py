import json
import os
import re
import shlex
from types import SimpleNamespace
from typing import get_args

import pytest
import yaml

from etc_policy import __version__
from etc_policy.policy.manifest import Manifest, VerifyLevel
from etc_policy.policy.writers import FORMS
from tests.unit.hudi.test_git import git

POLICY_THAT_IS_OFF = """version: 1
policies: [{name: parked, table: lake/parked, event_time_column: ts, data_latency: 30m, enabled: false}]
"""


def test_parse_counts_policies(etc, project):
    assert etc("parse") == (0, "2 policies OK, 1 disabled\n", "")
    assert etc("parse", "--select", "orders_ro") == (0, "1 policy OK\n", "")


def test_parse_of_another_folder_names_places_from_here(etc, project, monkeypatch):
    (project / "policies" / "b.yml").write_text("version: 1\npolicies: []\nextra: 1\n")
    monkeypatch.chdir(project.parent)
    code, out, err = etc("parse", "--project-dir", project.name)
    assert (code, out) == (1, "")
    assert f"  --> {project.name}/policies/b.yml:3:1" in err


def test_parse_as_json_gives_issues_as_data(etc, project):
    code, out, err = etc("parse", "--output", "json")
    assert (code, err) == (0, "")
    assert [policy["policy"] for policy in json.loads(out)["policies"]] == ["orders_ro", "payments_ro"]
    (project / "policies" / "b.yml").write_text("version: 1\npolicies:\n  - nme: x\n")
    code, out, err = etc("parse", "--output", "json")
    assert (code, err) == (1, "")
    answer = json.loads(out)
    assert answer["policies"] == []
    assert {
        "level": "error",
        "code": "ETC110",
        "message": "unknown key `nme`",
        "path": "policies/b.yml",
        "line": 3,
        "column": 5,
        "policy": None,
        "hint": "did you mean `name`?",
    } in answer["issues"]


def test_warnings_go_to_stderr_and_do_not_fail(etc, project):
    text = (project / "policies" / "a.yml").read_text()
    (project / "policies" / "a.yml").write_text(
        text.replace("latency: 30m,", "latency: 30m, freshness: {target: 30m},", 1)
    )
    code, out, err = etc("parse")
    assert (code, out) == (0, "2 policies OK, 1 disabled\n")
    assert err.startswith("warning[ETC140]")


@pytest.mark.parametrize("command", ["parse", "compile"])
def test_a_folder_that_is_no_project(etc, tmp_path, command):
    code, out, err = etc(command, "--project-dir", str(tmp_path))
    assert (code, out) == (1, "")
    assert "error[ETC101]" in err


def test_compile_writes_the_manifest_and_the_options(etc, project):
    code, out, err = etc("compile")
    assert (code, err) == (0, "")
    manifest = Manifest.model_validate_json((project / "target" / "manifest.json").read_text())
    assert [policy.name for policy in manifest.policies] == ["orders_ro", "parked", "payments_ro"]
    written = sorted(path.name for path in (project / "target" / "writers").iterdir())
    assert written == sorted(f"{name}{form.suffix}" for name in ("orders_ro", "payments_ro") for form in FORMS.values())
    assert [line.split()[0] for line in out.splitlines()] == [
        "target/manifest.json",
        "target/writers/",
        *(f"NAME{form.suffix}" for form in FORMS.values()),
    ]
    assert "hoodie.logfile.max.size=1048576" in (project / "target/writers/orders_ro.properties").read_text()


@pytest.mark.parametrize("unread", ["x" * 300, "loop"])
def test_a_table_that_may_not_be_read_is_a_warning_of_compile(etc, project, unread):
    """A path that cannot be looked at stands for one without permission: the superuser may read all."""
    (project / "loop").symlink_to("loop")
    path = project / "policies" / "a.yml"
    table = re.search(r"name: orders_ro, table: ([^,]+)", path.read_text())[1]
    path.write_text(path.read_text().replace(f"table: {table},", f"table: {project / unread},", 1))
    code, out, err = etc("compile")
    assert (code, err.count("warning[ETC213]: cannot read the table at")) == (0, 1), err
    assert "(policy `orders_ro`)" in err
    assert (project / "target" / "writers" / "orders_ro.properties").exists()
    assert out.startswith("target/manifest.json")


def test_compile_prints_one_form(etc, project):
    code, out, err = etc("compile", "--form", "streamer", "--select", "orders_ro")
    assert (code, err) == (0, "")
    assert out == "--table-type MERGE_ON_READ\n--disable-compaction\n--props orders_ro.properties\n"


def test_compile_as_json_prints_the_manifest(etc, project):
    _, out, _ = etc("compile", "--output", "json", "--target-dir", "build", "--select", "orders_ro")
    assert out == (project / "build" / "manifest.json").read_text()
    assert {path.name.split(".")[0] for path in (project / "build" / "writers").iterdir()} == {"orders_ro"}


def test_compile_twice_writes_the_same_bytes(etc, project):
    etc("compile")
    before = {path: path.read_bytes() for path in (project / "target").rglob("*.*")}
    etc("compile")
    assert {path: path.read_bytes() for path in (project / "target").rglob("*.*")} == before


def test_compile_with_errors_writes_nothing(etc, project):
    (project / "policies" / "b.yml").write_text("version: 2\npolicies: []\n")
    assert etc("compile")[0] == 1
    assert not (project / "target").exists()


def test_compile_to_a_place_that_cannot_be_written(etc, project):
    (project / "file").write_text("x")
    code, out, err = etc("compile", "--target-dir", "file/deeper")
    assert (code, out) == (3, "")
    assert "error[ETC003]: cannot write `file/deeper/manifest.json`" in err
    assert "cause: " in err


INIT_FILES = ("policies/orders.yml", "README.md", ".gitignore")


def test_init_makes_a_project_that_parses(etc, tmp_path, monkeypatch):
    monkeypatch.delenv("LAKE", raising=False)
    code, out, err = etc("init", str(tmp_path / "new" / "project"))
    assert code == 0
    root = tmp_path / "new" / "project"
    assert out.splitlines() == [str(root / name) for name in (*INIT_FILES, ".etc/policy.v1.json")]
    policies = root / "policies"
    modeline = (policies / "orders.yml").read_text().splitlines()[0]
    assert modeline.startswith("# yaml-language-server: $schema=")
    named = (policies / modeline.partition("=")[2]).resolve()
    assert json.loads(named.read_text())["$id"] == "urn:etc-policy:schema:policy:1"
    assert f"etc parse --project-dir {root}" in err
    assert etc("parse", "--project-dir", str(root)) == (0, "1 policy OK\n", "")
    assert etc("compile", "--project-dir", str(root))[0] == 0


def test_init_begins_a_project_in_a_repository(etc, tmp_path):
    """Its README and .gitignore stay as they are."""
    for name in ("README.md", ".gitignore"):
        (tmp_path / name).write_text("mine\n")
    code, out, err = etc("init", str(tmp_path))
    assert (code, out.splitlines()) == (0, [f"{tmp_path}/policies/orders.yml", f"{tmp_path}/.etc/policy.v1.json"])
    assert "left as they are: README.md, .gitignore; `target/`" in err
    assert [(tmp_path / name).read_text() for name in ("README.md", ".gitignore")] == ["mine\n"] * 2
    assert etc("parse", "--project-dir", str(tmp_path))[0] == 0
    assert etc("init", str(tmp_path))[0] == 64


def test_what_init_and_plan_say_to_run_can_be_run(etc, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = etc("init", "my project")[2].splitlines()[-1]
    assert etc(*shlex.split(said)[1:])[0] == 0
    monkeypatch.chdir("my project")
    said = etc("plan", "--out", "my plan.json")[2].partition("Saved: ")[2].splitlines()[0]
    assert shlex.split(said) == ["etc", "apply", "my plan.json"]


@pytest.mark.parametrize("changed", ["rules/a.yml", "shared [*]/new.txt", "etc_project.yml", "suites/own.yml"])
def test_files_in_folders_of_other_names_are_the_project_s_too(etc, project, changed):
    (project / "policies").rename(project / "rules")
    for folder in ("shared [*]", "suites"):
        (project / folder).mkdir()
    (project / "etc_project.yml").write_text("folders: {policies: rules, templates: 'shared [*]'}\n")
    git(project, "init", "-q")
    git(project, "add", ".")
    git(project, "commit", "-qm", "one")
    (project / "policies").mkdir()
    (project / "policies" / "other.yml").write_text("of nobody")
    assert json.loads(etc("compile", "--output", "json")[1])["git"]["dirty"] is False
    with (project / changed).open("a") as file:
        file.write("# changed\n")
    assert json.loads(etc("compile", "--output", "json")[1])["git"]["dirty"] is True


def test_every_example_that_init_comments_out_is_a_policy_too(etc, tmp_path):
    etc("init", str(tmp_path))
    file = tmp_path / "policies" / "orders.yml"
    head, tail = file.read_text().split("    # --- Everything below")
    lines = [line for line in tail.splitlines()[1:] if not line.strip().startswith("# ") or _is_yaml(line)]
    shown = [line.replace("# ", "", 1) if line.strip().startswith("# ") else line for line in lines]
    file.write_text(head + "\n".join(shown) + "\n")
    answer = etc("compile", "--project-dir", str(tmp_path), "--output", "json")
    assert (answer[0], "warning" in answer[2]) == (0, False), answer[2]
    (policy,) = json.loads(answer[1])["policies"]
    assert policy["log_file_max_bytes"] == 134_217_728
    assert policy["freshness"] == {
        "target_ms": 3_600_000,
        "warn_after_ms": 2_700_000,
        "error_after_ms": 10_800_000,
        "proof": "logs",
    }
    assert policy["writer"]["index"] == "bloom"
    assert policy["writer"]["lock"] == {
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
        "hoodie.write.lock.filesystem.expire": "5",
    }
    assert policy["hudi_options"] == {"hoodie.memory.merge.max.size": "1073741824"}
    assert policy["tags"] == ["orders", "hourly"]


def test_the_comments_of_init_name_every_level_of_verification(etc, tmp_path):
    etc("init", str(tmp_path))
    text = (tmp_path / "policies" / "orders.yml").read_text()
    said = text[text.index("# verify:") : text.index("# What the table does not record")]
    assert [level for level in get_args(VerifyLevel) if not re.search(rf"\b{level}\b", said)] == []


def _is_yaml(line):
    word = line.strip().removeprefix("# ").strip().split(" ")[0]
    return word.endswith(":") and word == word.lower()


def test_init_overwrites_nothing(etc, tmp_path):
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "orders.yml").write_text("mine")
    code, out, err = etc("init", str(tmp_path))
    assert (code, out) == (64, "")
    assert "error[ETC004]" in err
    assert (tmp_path / "policies" / "orders.yml").read_text() == "mine"
    assert [one.name for one in tmp_path.iterdir()] == ["policies"]


def test_init_where_nothing_can_be_made(etc, tmp_path):
    (tmp_path / "file").write_text("x")
    code, out, err = etc("init", str(tmp_path / "file"))
    assert (code, out) == (64, "")
    assert "error[ETC001]: invalid value for `DIR`" in err
    assert "is a file" in err
    code, out, err = etc("init", str(tmp_path / "file" / "below"))
    assert (code, out) == (3, "")
    assert "error[ETC003]" in err


def test_init_as_json(etc, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, out, err = etc("init", ".", "--output", "json")
    assert (json.loads(out)["files"][0], err) == (os.path.join("policies", "orders.yml"), "")


INTEGRATIONS = ("github", "gitlab", "pre-commit", "cron", "systemd", "docker", "kubernetes")


def files_below(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


ABOUT = "event_time_column: ts, data_latency: 1h"
LAKE = f"""version: 1
policies:
  - {{name: a, table: /lake/a, {ABOUT}}}
  - {{name: b, table: /lake/b, {ABOUT}}}
  - {{name: c, table: "s3a://bucket/c", {ABOUT}}}
  - {{name: d, table: d, {ABOUT}}}
"""
TWO_TARGETS = """name: p
profiles:
  p:
    target: dev
    targets:
      dev: {}
      prod: {table_root: "hdfs://n:8020/lake", storage: {endpoint: "https://s3.example.com", instance_role: true}}
"""


@pytest.fixture
def bare(monkeypatch):
    """An installation without the packages for tables on other machines."""
    monkeypatch.setattr("etc_policy.cli.init.has_extra", lambda _: False)


@pytest.mark.usefixtures("bare")
class TestInitWith:
    def test_a_new_project_gets_them_too(self, etc, tmp_path):
        options = [word for name in INTEGRATIONS for word in ("--with", name)]
        code, out, _ = etc("init", str(tmp_path), *options)
        assert (code, sorted(out.splitlines())) == (0, [f"{tmp_path}/{name}" for name in files_below(tmp_path)])
        assert set(INIT_FILES) < set(files_below(tmp_path))
        assert (tmp_path / "requirements.txt").read_text().count("\netc-policy[spark]") == 1
        for name in (".github/workflows/compaction.yml", ".gitlab/compaction.yml", "deploy/crontab"):
            text = (tmp_path / name).read_text()
            assert "prod" not in text and "default" in text
        kubernetes = tmp_path / "deploy" / "kubernetes"
        assert "--target, default," in (kubernetes / "instead" / "run.yml").read_text()
        assert sorted(one.stem for one in kubernetes.glob("*.yml")) == [
            "cronjob",
            "target",
        ]  # as `kubectl apply -f` takes them
        assert "ETC_TARGET=default" in (tmp_path / "deploy" / "systemd" / "etc-apply.service").read_text()
        assert etc("parse", "--project-dir", str(tmp_path))[0] == 0

    @pytest.mark.parametrize("name", INTEGRATIONS)
    def test_a_project_that_is_there_gets_them_alone(self, etc, project, name):
        before = files_below(project)
        code, out, _ = etc("init", ".", "--with", name)
        assert (code, sorted([*before, *out.splitlines()])) == (0, files_below(project))
        assert out

    @pytest.mark.parametrize(("names", "compacting"), [(("dev", "prod"), "prod"), (("here", "there"), "there")])
    def test_the_targets_are_those_of_the_project(self, etc, project, names, compacting):
        targets = ", ".join(f"{name}: {{table_root: x}}" for name in names)
        profiles = f"profiles: {{p: {{target: {names[1]}, targets: {{{targets}}}}}}}"
        (project / "etc_project.yml").write_text(f"name: p\n{profiles}\n")
        etc("init", ".", "--with", "github")
        jobs = yaml.safe_load((project / ".github" / "workflows" / "compaction.yml").read_text())["jobs"]
        assert jobs["check"]["strategy"]["matrix"]["target"] == list(names)
        assert jobs["compact"]["env"]["ETC_TARGET"] == compacting

    @pytest.mark.parametrize(
        ("came", "requirement"),
        [
            (None, f"etc-policy[spark]=={__version__}"),
            ({"url": "file:///a%20b/e.whl", "archive_info": {}}, "etc-policy[spark] @ file:///a%20b/e.whl"),
            ({"url": "file:///clone", "dir_info": {"editable": True}}, "etc-policy[spark] @ file:///clone"),
            ({"url": "https://x/e.whl", "archive_info": {}}, "etc-policy[spark] @ https://x/e.whl"),
            (
                {"url": "https://x/e.git", "vcs_info": {"vcs": "git", "commit_id": "c0"}},
                "etc-policy[spark] @ git+https://x/e.git@c0",
            ),
        ],
    )
    def test_requirements_name_what_pip_can_install(self, etc, tmp_path, monkeypatch, came, requirement):
        found = SimpleNamespace(read_text=lambda _: came and json.dumps(came))
        monkeypatch.setattr("importlib.metadata.distribution", lambda _: found)
        etc("init", str(tmp_path), "--with", "docker")
        lines = (tmp_path / "requirements.txt").read_text().splitlines()
        assert [line for line in lines if not line.startswith("#")] == [requirement]

    def test_what_pull_requests_may_reach_and_is_installed_is_what_tables_and_targets_need(self, etc, tmp_path):
        (tmp_path / "policies").mkdir()
        (tmp_path / "policies" / "all.yml").write_text(LAKE)
        (tmp_path / "etc_project.yml").write_text(TWO_TARGETS)
        _, _, err = etc("init", str(tmp_path), "--with", "github", "--with", "gitlab")
        jobs = yaml.safe_load((tmp_path / ".github" / "workflows" / "compaction.yml").read_text())["jobs"]
        allowed = jobs["check"]["env"]["ETC_ALLOW"]
        assert allowed.split() == [
            "/lake",
            "hdfs://n:8020/lake/d",
            "s3a://bucket/c",
            "https://s3.example.com",
            "instance_role",
        ]
        check = yaml.safe_load((tmp_path / ".gitlab" / "compaction.yml").read_text())["etc-check"]
        assert check["variables"]["ETC_ALLOW"] == allowed
        assert "\netc-policy[spark,hdfs,object-stores]" in (tmp_path / "requirements.txt").read_text()
        assert "ETC_ALLOW has no variable" not in err

    def test_values_of_variables_are_for_whoever_reviews_to_show(self, etc, project):
        (project / "policies" / "orders.yml").write_text(
            f"version: 1\npolicies:\n  - {{name: a, table: \"{{{{ env_var('LAKE', '/x y') }}}}/a\", {ABOUT}}}\n"
        )
        _, _, err = etc("init", ".", "--with", "github")
        assert "add those whose values a pull request may see, of LAKE" in err
        assert 'ETC_ALLOW: ""' in (project / ".github" / "workflows" / "compaction.yml").read_text()

    def test_no_value_of_the_environment_is_written_into_the_files(self, etc, project, monkeypatch):
        """They are committed: a bucket or a server that a variable names was in them, in clear."""
        monkeypatch.setenv("ETC_TEST_TOKEN", "hunter2")
        (project / "policies" / "a.yml").write_text(
            "version: 1\npolicies:\n"
            f"  - {{name: a, table: \"s3://{{{{ env_var('ETC_TEST_TOKEN') | upper }}}}/a\", {ABOUT}}}\n"
            f"  - {{name: b, table: /mnt/b, {ABOUT}}}\n"
        )
        server = "https://{{ env_var('ETC_TEST_TOKEN') }}.example.com"
        (project / "etc_project.yml").write_text(
            f'profiles: {{p: {{target: t, targets: {{t: {{storage: {{endpoint: "{server}"}}}}}}}}}}\n'
        )
        etc("init", ".", "--with", "github", "--with", "gitlab")
        for name in (".github/workflows/compaction.yml", ".gitlab/compaction.yml"):
            text = (project / name).read_text()
            assert 'ETC_ALLOW: "/mnt/b"' in text
            assert "hunter2" not in text.lower()

    def test_an_installation_that_reaches_buckets_is_made_again(self, etc, tmp_path, monkeypatch):
        monkeypatch.setattr("etc_policy.cli.init.has_extra", lambda extra: extra == "object-stores")
        etc("init", str(tmp_path), "--with", "docker")
        assert "\netc-policy[spark,object-stores]" in (tmp_path / "requirements.txt").read_text()

    @pytest.mark.parametrize(
        ("ignored", "is_said"), [("target/\n", False), ("a\n/target\n", False), ("targets\n", True)]
    )
    def test_what_is_ignored_already_is_not_asked_for(self, etc, project, ignored, is_said):
        (project / ".gitignore").write_text(ignored)
        (project / "requirements.txt").write_text("mine")
        assert ("belongs in .gitignore" in etc("init", ".", "--with", "github")[2]) == is_said

    def test_an_existing_file_is_never_overwritten(self, etc, project):
        """All that are there are named, and nothing is written; requirements.txt stays as it is."""
        (project / "Dockerfile").write_text("mine")
        (project / "requirements.txt").write_text("mine")
        assert etc("init", ".", "--with", "cron")[0] == 0
        before = files_below(project)
        code, out, err = etc("init", ".", "--with", "docker", "--with", "cron", "--with", "github")
        assert (code, out, files_below(project)) == (64, "", before)
        assert "error[ETC004]: already there: `Dockerfile`, `deploy/crontab`" in err
        _, out, err = etc("init", ".", "--with", "github")
        assert out == ".github/workflows/compaction.yml\n"
        assert "left as they are: requirements.txt" in err
        assert [(project / name).read_text() for name in ("Dockerfile", "requirements.txt")] == ["mine"] * 2

    def test_an_unknown_name(self, etc, project):
        code, _, err = etc("init", ".", "--with", "jenkins")
        assert code == 64
        assert [name for name in INTEGRATIONS if f"`{name}`" not in err] == []


class TestStaleWriterOptions:
    def test_those_that_were_only_not_selected_stay(self, etc, project):
        etc("compile")
        before = sorted((project / "target" / "writers").iterdir())
        assert etc("compile", "--select", "orders_ro")[0] == 0
        assert sorted((project / "target" / "writers").iterdir()) == before


def test_parse_checks_the_projects_suites(etc, project):
    """Whether a policy names one or not, and without Great Expectations."""
    (project / "suites").mkdir()
    (project / "suites" / "mine.yml").write_text(
        "name: mine\nexpectations:\n  - type: expect_column_to_exits\n    kwargs: {column: v}\n"
    )
    code, out, err = etc("parse")
    assert (code, out) == (1, "")
    assert "error[ETC225]: unknown expectation `expect_column_to_exits`\n  --> suites/mine.yml:3:5" in err
    assert "hint: did you mean `expect_column_to_exist`?" in err
    (issue,) = json.loads(etc("parse", "--output", "json")[1])["issues"]
    assert (issue["code"], issue["line"], issue["column"]) == ("ETC225", 3, 5)


@pytest.mark.parametrize("text", ["version: 1\npolicies: []\n", POLICY_THAT_IS_OFF], ids=["none", "disabled"])
@pytest.mark.parametrize(
    "command",
    ["ls", "plan", "apply --yes", "verify", "freshness", "sync", "undo", "docs generate", "metrics write a.prom"],
)
def test_a_project_without_policies_says_so(etc, project, text, command):
    (project / "policies" / "a.yml").write_text(text)
    code, out, err = etc(*command.split())
    told = "no policy is selected" if "name" in text else "the project has no policies"
    assert (code, told in err) == (0, True), err
    assert out != "\n"
    assert "Traceback" not in err


def test_compile_lists_no_options_for_writers_where_there_are_none(etc, project):
    (project / "policies" / "a.yml").write_text(POLICY_THAT_IS_OFF)
    assert etc("compile")[:2] == (0, "target/manifest.json  1 policy\ntarget/writers/  no options for writers\n")


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("plan --out file/plan.json", "--out"),
        ("plan --target-dir file/deeper", "--target-dir"),
        ("docs generate --out file/site", "--out"),
        ("docs generate --target-dir file/deeper", "--target-dir"),
        ("schema --out file/schemas", "--out"),
        ("compile --target-dir file/deeper", "--target-dir"),
    ],
)
def test_a_place_that_cannot_be_written_is_named_by_its_option(etc, project, command, option):
    (project / "file").write_text("x")
    code, _, err = etc(*command.split())
    assert (code, "error[ETC003]: cannot write" in err) == (1 if command.startswith("plan --target-dir") else 3, True)
    assert f"hint: name another place by `{option}`\n" in err
