"""What a release hands out: the wheel and the sdist, installed in an empty environment, and the workflow that publishes them."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from etc_policy import __version__

REPOSITORY = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))


def run(*command, folder, **environment):
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The sdist of a clone with one commit, and the wheel that is made of the sdist, as the workflow makes them."""
    clone, dist = tmp_path_factory.mktemp("clone"), tmp_path_factory.mktemp("dist")
    include = PYPROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    for name in (*include, "pyproject.toml", "LICENSE"):
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, clone / name)
    git = ("git", "-c", "user.name=n", "-c", "user.email=n@example.com")
    run("git", "init", "-q", ".", folder=clone)
    run("git", "add", ".", folder=clone)
    run(*git, "commit", "-qm", "n", folder=clone)
    commit = run("git", "rev-parse", "HEAD", folder=clone).strip()
    tools = tmp_path_factory.mktemp("tools")
    run(sys.executable, "-m", "venv", tools, folder=dist)
    run(tools / "bin" / "pip", "install", "--quiet", "build", folder=dist)
    run(tools / "bin" / "python", "-m", "build", "--outdir", dist, clone, folder=dist)
    return dist, commit


@pytest.mark.extended
def test_wheel_and_sdist_have_what_they_should(built):
    dist, commit = built
    assert sorted(path.name.replace(f"etc_policy-{__version__}", "X") for path in dist.iterdir()) == [
        "X-py3-none-any.whl",
        "X.tar.gz",
    ]
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as opened:
        files = set(opened.namelist())
        (info,) = {name.split("/")[0] for name in files if ".dist-info/" in name}
        assert opened.read("etc_policy/commit.txt").decode().strip() == commit
        notice = opened.read(f"{info}/licenses/NOTICE").decode()
    assert {name.split("/")[0] for name in files} == {"etc_policy", info}
    assert [name for name in files if re.search(r"(^|/)(tests?|conftest|test_[^/]*)(/|\.py$)", name)] == []
    for folder, target in (("templates", "etc_policy/templates"), ("etc_policy/schemas", "etc_policy/schemas")):
        source = REPOSITORY / folder
        shipped = {f"{target}/{path.relative_to(source).as_posix()}" for path in source.rglob("*") if path.is_file()}
        assert shipped - files == set()
    bundled = {name for name in files if name.endswith((".js", ".avsc"))}
    assert {name.rsplit("/", 1)[1] for name in bundled} == {"uPlot.iife.min.js", "site.js", "compaction_plan.avsc"}
    assert "uPlot" in notice
    assert "compaction_plan.avsc" in notice
    with tarfile.open(sdist) as opened:
        names = {name.split("/", 1)[1] for name in opened.getnames() if "/" in name}
    assert {"LICENSE", "NOTICE", "hatch_build.py", "etc_policy/commit.txt", "templates/site/base.html"} <= names


def installers(folder):
    """Every way that this machine has to install a command: name -> command for a file, and where `etc` is then."""
    environment = folder / "environment"
    yield "pip", (environment / "bin" / "pip", "install", "--quiet"), environment / "bin"
    for name, command in (("uv", ("uv", "tool", "install", "--quiet")), ("pipx", ("pipx", "install", "--quiet"))):
        if shutil.which(name):
            yield name, (*command, "--python", sys.executable), folder / f"{name}-bin"


@pytest.mark.extended
@pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"])
def test_each_installs_in_an_empty_environment(built, kind, tmp_path):
    dist, commit = built
    (file,) = dist.glob(kind)
    run(sys.executable, "-m", "venv", tmp_path / "environment", folder=tmp_path)
    own = {
        "UV_TOOL_DIR": str(tmp_path / "uv-tools"),
        "UV_TOOL_BIN_DIR": str(tmp_path / "uv-bin"),
        "PIPX_HOME": str(tmp_path / "pipx-home"),
        "PIPX_BIN_DIR": str(tmp_path / "pipx-bin"),
    }
    for name, install, where in installers(tmp_path):
        run(*install, file, folder=tmp_path, **own)
        etc = where / "etc"
        assert run(etc, "--version", folder=tmp_path) == f"etc {__version__} ({commit[:12]})\n"
        run(etc, "init", name, folder=tmp_path)
        run(etc, "parse", "--project-dir", name, folder=tmp_path)
        run(etc, "schema", "plan", folder=tmp_path)


def test_the_workflow_publishes_a_tag_of_this_version_without_a_stored_secret():
    workflow = (REPOSITORY / ".github/workflows/release.yml").read_text("utf-8")
    assert "id-token: write" in workflow
    assert "secrets." not in workflow
    assert 'tags: ["v*"]' in workflow
