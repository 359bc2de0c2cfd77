"""Bad policy files and what is said about them, as text: see tests/golden/errors. `ETC_REWRITE_GOLDEN=1` rewrites it."""

import os
import shutil
from pathlib import Path

import pytest

from etc_policy.policy.reading import read_project
from etc_policy.policy.resolve import check_project

CASES = Path(__file__).parents[2] / "golden" / "errors"
SUITES = ("ro_as_of", "ro_complete", "ro_metadata")


@pytest.mark.parametrize("case", sorted(folder.name for folder in CASES.iterdir()))
def test_error_text(case, tmp_path, monkeypatch):
    shutil.copytree(CASES / case, tmp_path, dirs_exist_ok=True)
    (tmp_path / "expected.txt").unlink(missing_ok=True)
    (tmp_path / "policies").mkdir(exist_ok=True)
    if (tmp_path / "policy.yml").exists():
        (tmp_path / "policy.yml").rename(tmp_path / "policies" / "policy.yml")
    monkeypatch.chdir(tmp_path)

    issues = check_project(read_project(".", {"ETC_TEST_TOKEN": "hunter2"}), SUITES)

    text = "\n\n".join(str(issue) for issue in issues) + "\n"
    assert "hunter2" not in text
    expected = CASES / case / "expected.txt"
    if os.environ.get("ETC_REWRITE_GOLDEN") == "1":
        expected.write_text(text, encoding="utf-8")
    assert text.strip(), "the case is bad input, so something must be said about it"
    assert text == expected.read_text(encoding="utf-8")


def test_every_code_of_a_value_has_a_case():
    """Codes of files and folders have tests of their own; every other code is shown in a golden case."""
    from etc_policy.errors.codes import Code

    shown = "".join((folder / "expected.txt").read_text(encoding="utf-8") for folder in CASES.iterdir())
    elsewhere = {
        Code.NO_POLICIES,
        Code.EMPTY_NAMESPACE,
        Code.UNREADABLE,
        Code.LEAVES_PROJECT,
        Code.TOO_BIG,
        Code.NOT_UTF8,
    }
    of_values = [code for code in Code if code.startswith("ETC1") and code not in elsewhere]
    assert [code for code in of_values if f"[{code}]" not in shown] == []
