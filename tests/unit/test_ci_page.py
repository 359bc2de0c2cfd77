"""The workflow of docs/how-to/ci.md: a whole one, of which each step runs, and what it does with exit codes."""

from __future__ import annotations

import re
import shutil

import pytest
import yaml

from tests.command_blocks import REPOSITORY, Shell
from tests.unit.test_command_blocks import make_table

PAGE = (REPOSITORY / "docs" / "how-to" / "ci.md").read_text("utf-8")
WORKFLOW = yaml.safe_load(re.search(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)[1])
INSTALL = "Install"
TARGETS = ("dev", "prod")
PROJECT = """name: warehouse
profiles:
  warehouse:
    target: dev
    targets:
      dev: {table_root: dev}
      prod: {table_root: prod}
"""
POLICIES = """version: 1
policies:
  - {name: orders_ro, table: orders, event_time_column: {column: ts, unit: ms}, data_latency: 30m, freshness: {target: 1h}}
  - {name: refunds_ro, table: refunds, event_time_column: {column: ts, unit: ms}, data_latency: 30m}
"""
#: What stands in for GitHub's own program: the artifacts of the main branch's last run lie in a folder.
GH = """case "$1 $2" in
"run list") if test -d "$ARTIFACTS"; then echo 42; fi ;;
"run download") test "$3" = 42 && mkdir -p "$7" && cp "$ARTIFACTS/$5/manifest.json" "$7/" ;;
*) exit 9 ;;
esac
"""
#: An `etc` that ends with one exit code after the other; what pauses does not pause.
PLANNED = {
    "etc": 'set -- $(cat codes)\necho "$1" >> seen\nshift\necho "$*" > codes\nexit $(tail -1 seen)\n',
    "sleep": ":\n",
}


def steps(job):
    return [step for step in WORKFLOW["jobs"][job]["steps"] if "run" in step and step["name"] != INSTALL]


def script(step, target="prod"):
    """What the runner hands to bash, for one target."""
    return step["run"].replace("${{ matrix.target }}", target)


@pytest.fixture
def project(tmp_path):
    (tmp_path / "policies").mkdir()
    (tmp_path / "etc_project.yml").write_text(PROJECT)
    (tmp_path / "policies" / "sales.yml").write_text(POLICIES)
    for target in TARGETS:
        for name in ("orders", "refunds"):
            make_table(tmp_path / target / name, due=False)
    return tmp_path


def shell_for(project, target):
    environment = {"ETC_TARGET": target, "GH_TOKEN": "", "ARTIFACTS": str(project / "artifacts")}
    return Shell(project, {"gh": GH}, GITHUB_STEP_SUMMARY=str(project / "summary.md"), **environment)


@pytest.mark.extended
def test_the_manifest_of_each_target_is_kept_and_compared_with(project):
    uploads = [
        step["with"] for step in WORKFLOW["jobs"]["manifest"]["steps"] if "upload-artifact" in step.get("uses", "")
    ]
    (upload,) = uploads
    for target in WORKFLOW["jobs"]["manifest"]["strategy"]["matrix"]["target"]:
        for step in steps("manifest"):
            shell_for(project, target).succeeds(script(step, target))
        kept = project / "artifacts" / upload["name"].replace("${{ matrix.target }}", target)
        kept.mkdir(parents=True)
        shutil.copy(project / upload["path"], kept)
    policies = project / "policies" / "sales.yml"
    policies.write_text(policies.read_text().replace("data_latency: 30m, freshness", "data_latency: 20m, freshness"))
    for target in WORKFLOW["jobs"]["check"]["strategy"]["matrix"]["target"]:
        said = [shell_for(project, target).succeeds(script(step, target)) for step in steps("check")]
        assert "orders_ro" in said[1]
        assert "refunds_ro" not in said[1]
        shutil.rmtree(project / "main")
    assert "| refunds&#95;ro | plan |" in (project / "summary.md").read_text()


def test_the_first_pull_request_has_nothing_to_compare_with(project):
    said = shell_for(project, "dev").succeeds(script(steps("check")[1]))
    assert said == "no manifest of the main branch yet\n"


def test_the_hourly_job_on_tables_of_which_nothing_is_due(project):
    """So it needs no Spark; the commands are those that tests/integration runs with something to do."""
    shell = shell_for(project, "prod")
    said = [shell.succeeds(script(step)) for step in steps("compact")]
    assert said[0].count("result        nothing due") == 2
    assert "PASS    orders_ro" in said[1]
    assert {path.name for path in (project / "target").glob("*.xml")} == {"apply.xml", "freshness.xml"}


@pytest.mark.parametrize(
    ("codes", "ends_with", "warns"),
    [((0,), 0, False), ((2,), 0, False), ((4,), 0, True), ((1,), 1, False), ((3,), 3, False), ((64,), 64, False)],
)
def test_exit_codes_of_plan_on_a_pull_request(tmp_path, codes, ends_with, warns):
    assert run_with(tmp_path, steps("check")[2], codes) == (ends_with, list(codes), warns)


@pytest.mark.parametrize(
    ("codes", "ends_with", "seen", "warns"),
    [
        ((0,), 0, 1, False),
        ((1,), 1, 1, False),
        ((64,), 64, 1, False),
        ((3, 0), 0, 2, False),
        ((3, 3), 3, 2, False),
        ((4, 0), 0, 2, False),
        ((4, 4), 0, 2, True),
        ((3, 4), 0, 2, True),
        ((4, 1), 1, 2, False),
    ],
)
def test_exit_codes_of_apply(tmp_path, codes, ends_with, seen, warns):
    assert run_with(tmp_path, steps("compact")[0], codes) == (ends_with, list(codes)[:seen], warns)


def run_with(folder, step, codes):
    """The step's exit code, the codes that its commands ended with, and whether it warned."""
    (folder / "codes").write_text(" ".join(map(str, codes)))
    done = Shell(folder, PLANNED).run(script(step))
    return done.returncode, [int(code) for code in (folder / "seen").read_text().split()], "::warning::" in done.stdout
