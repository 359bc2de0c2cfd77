"""The files round the package say the same: Makefile, CI, hooks, change notes, licence."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
CI_RUN = (REPOSITORY / ".ci" / "run").read_text("utf-8")
PYPROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))
MAKEFILE = (REPOSITORY / "Makefile").read_text("utf-8")
LINTERS = [line.strip() for line in CI_RUN.splitlines() if line.strip().startswith(".venv/bin/")]


def test_make_lint_is_what_ci_runs():
    recipe = MAKEFILE.split("\nlint:")[1].split("\n\n")[0].splitlines()[1:]
    assert [line.strip().replace("$(BIN)", ".venv/bin") for line in recipe] == LINTERS


def test_hooks_run_the_same_linters():
    (local,) = yaml.safe_load((REPOSITORY / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    tools = {hook["entry"].split()[0] for hook in local["hooks"] if hook["entry"].startswith(".venv")}
    assert tools == {line.split()[0] for line in LINTERS}


def test_change_notes_are_of_a_kind_that_exists():
    kinds = {kind["directory"] for kind in PYPROJECT["tool"]["towncrier"]["type"]}
    notes = [path.name for path in (REPOSITORY / "changelog.d").iterdir() if path.name != "README.md"]
    assert [name for name in notes if not re.fullmatch(rf"\+[a-z0-9-]+\.({'|'.join(kinds)})\.md", name)] == []
    table = re.findall(r"^\| `(\w+)` \|", (REPOSITORY / "changelog.d" / "README.md").read_text("utf-8"), re.MULTILINE)
    assert set(table) == kinds


def test_the_changelog_can_be_made():
    draft = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "9.9.9", "--date", "2026-01-01"]
    done = subprocess.run(draft, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("## 9.9.9 (2026-01-01)\n")


def test_the_notice_names_the_bundled_script():
    (script,) = (path for root in ("templates", "etc_policy") for path in (REPOSITORY / root).rglob("uplot/*.js"))
    (version,) = re.findall(r"uPlot \(v([\d.]+)\)", script.read_text("utf-8")[:200])
    notice = (REPOSITORY / "NOTICE").read_text("utf-8")
    assert f"uPlot {version}\n" in notice
    copyright_line = next(line for line in (script.parent / "LICENSE").read_text().splitlines() if "(c)" in line)
    assert copyright_line in notice
    assert PYPROJECT["project"]["license-files"] == ["LICENSE", "NOTICE"]
    assert "Apache License\n                           Version 2.0" in (REPOSITORY / "LICENSE").read_text("utf-8")
