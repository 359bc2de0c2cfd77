"""An installed wheel works outside the checkout: it carries the templates, the suites, the demo's policy and the pages."""

import os
import re
import subprocess
import sys
import zipfile
from email import message_from_string
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from etc_policy.cli.explain import pages
from etc_policy.cli.main import main

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with what the wheel of this clone has."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(REPOSITORY)]
    subprocess.run(pip, check=True, timeout=300, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "installed")
    return folder / "installed"


def test_wheel_outside_the_checkout(installed, tmp_path):
    for shipped in ("demo/flights.yml", "site/base.html", "site/assets/uplot/LICENSE"):
        assert (installed / "etc_policy/templates" / shipped).is_file()
    (info,) = installed.glob("*.dist-info")
    assert {"LICENSE", "NOTICE"} <= {path.name for path in (info / "licenses").iterdir()}
    assert not (installed / "dev").exists()

    def etc(*arguments):
        script = tmp_path / "run.py"
        script.write_text("import sys\nfrom etc_policy.cli.main import main\nsys.exit(main())\n")
        return subprocess.run(
            [sys.executable, "-P", str(script), *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(installed)},
        )

    assert etc("init", "project").returncode == 0
    assert '"$id": "urn:etc-policy:schema:plan:1"' in etc("schema", "plan").stdout
    assert etc("explain", "locks").stdout.startswith("# Locks and other writers\n")
    parsed = etc("parse", "--project-dir", "project")
    assert parsed.returncode == 0, parsed.stderr
    where = subprocess.run(
        [sys.executable, "-P", "-c", "import etc_policy; print(etc_policy.__file__)"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(installed)},
    )
    assert where.stdout.startswith(str(installed))


@pytest.fixture
def explained(installed, monkeypatch, capsys):
    """What `etc explain WORD` prints where only the wheel is; None where it fails."""
    monkeypatch.setattr("etc_policy.cli.explain._PACKAGE", installed / "etc_policy")

    def explained(word):
        code = main(["explain", word])
        return None if code else capsys.readouterr().out

    return explained


#: A file of the repository that pages name, by its first folder; a file of this name in an installation is somebody's own.
NAMED = re.compile(r"(?<![\w/.-])(?:(tests|benchmarks|dev|changelog\.d)/\w|python -m (tests|benchmarks|dev)\b)")
ROOT_FILES = re.compile(r"`(SECURITY\.md|NOTICE|Makefile|\.ci/run|templates/(?:site|suites|integrations)/[\w.]+)`")


def test_pages_link_and_name_what_a_wheel_has(installed, explained):
    """What it lacks is said to be of the repository, by each page that names it."""
    known = {page.relative_to(installed).as_posix(): name for name, page in pages().items() if page.is_file()}
    source = {page.relative_to(REPOSITORY).as_posix() for page in (REPOSITORY / "docs").rglob("*.md")}
    assert {name.removeprefix("etc_policy/") for name in known} == source
    for name in known.values():
        said = explained(name)
        page = pages()[name]
        folder = installed / "etc_policy" if page.stem in ("changelog", "contributing") else page.parent
        for link in re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", said):
            assert (folder / link).is_file(), (name, link)
            assert explained(link) if link.endswith(".md") else f"begin in {folder}.\n" in said, (name, link)
        lacking = said.partition("\n\nAn installation lacks ")[2]
        assert [
            place for found in NAMED.findall(said) for place in found if f"`{place}`" not in lacking and place
        ] == []
        assert page.stem == "contributing" or ROOT_FILES.findall(said) == [], name


def test_the_description_of_the_package_leads_nowhere_else(installed, explained):
    (metadata,) = installed.glob("*.dist-info/METADATA")
    text = message_from_string(metadata.read_text("utf-8")).get_payload()
    assert text.startswith("# etc: ")
    assert re.findall(r"\]\((?!https://)", text) == []
    named = set(re.findall(r"`etc explain ([a-z/-]+)`", text))
    assert {"how-to/install", "docs/tutorial", "docs/contributing", "docs/changelog", "docs/index"} <= named
    assert [name for name in named if not (explained(name) or "").startswith("# ")] == []


def needed(name, extra, known):
    """The distributions that one needs, and those that they need, with the extras of each."""
    for text in distribution(name).requires or ():
        one = Requirement(text)
        if one.marker is None or one.marker.evaluate({"extra": extra}):
            for extra_of_it in one.extras or {""}:
                if (one.name, extra_of_it) not in known:
                    known.add((one.name, extra_of_it))
                    needed(one.name, extra_of_it, known)
    return known


def files_of(name):
    """The files of a distribution, and those of its packages: where pip has built it the old way, it records but some."""
    found = distribution(name)
    recorded = {Path(one.locate()) for one in found.files or ()}
    tops = (Path(found.locate_file(top)) for top in (found.read_text("top_level.txt") or "").split())
    return [one for one in recorded.union(*(top.rglob("*") for top in tops)) if one.is_file()]


def test_readme_says_what_an_installation_takes(installed):
    readme = (REPOSITORY / "README.md").read_text()
    said = re.search(r"\*\*What it costs\.\*\*.* (\d+) MiB, no Spark\. To compact: (\d+) MiB \(`\[spark\]`\)", readme)
    own = sum(path.stat().st_size for path in installed.rglob("*") if path.is_file())
    for extra, figure in zip(("", "spark"), said.groups(), strict=True):
        names = {name for known in (needed("etc-policy", one, set()) for one in {"", extra}) for name, _ in known}
        size = (own + sum(file.stat().st_size for name in names for file in files_of(name))) / (1 << 20)
        assert 0.7 * size <= int(figure) <= 1.5 * size, (extra, size, figure)
