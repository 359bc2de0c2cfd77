"""An installed wheel works outside the checkout: it carries the templates, the suites and the demo's policy."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def test_wheel_outside_the_checkout(tmp_path):
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(REPOSITORY)]
    subprocess.run(pip, check=True, timeout=300, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    installed = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(installed)
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
    assert etc("explain", "changelog").stdout.startswith("# Changelog\n")
    assert (etc("explain", "contributing").returncode, "contributing " in etc("explain").stdout) == (64, False)
    assert {page.relative_to(REPOSITORY) for page in (REPOSITORY / "docs").rglob("*.md")} == {
        page.relative_to(installed / "etc_policy") for page in (installed / "etc_policy" / "docs").rglob("*.*")
    }
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
