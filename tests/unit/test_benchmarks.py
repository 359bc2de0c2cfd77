"""The benchmarks' command knows all of them, and keeps what each of them finds."""

import json
import re
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import BENCHMARKS, main
from benchmarks.figures import read_figures

REPOSITORY = Path(__file__).parents[2]
NAMES = [one.name for one in BENCHMARKS]


def test_all_that_the_readme_lists_are_run_but_the_large_table():
    listed = re.findall(
        r"^\| `python -m benchmarks\.(\w+)`", (REPOSITORY / "benchmarks/README.md").read_text("utf-8"), re.M
    )
    assert sorted(listed) == sorted([*NAMES, "large_table"])


@pytest.mark.extended
def test_one_by_its_name_with_its_figures_and_its_words(tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "metadata_verification", "--quick", "--folder", str(tmp_path)])
    assert main() == 0
    (run,) = read_figures(tmp_path / "metadata_verification.json")
    assert run["log_files"] == 10_000
    assert json.loads((tmp_path / "metadata_verification.json").read_text())["processors"]
    words = (tmp_path / "metadata_verification.txt").read_text()
    assert "10,000 log files" in words
    assert words in capfd.readouterr().out


def test_a_name_that_is_none_of_them(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "plannning"])
    with pytest.raises(SystemExit) as error:
        main()
    assert error.value.code == 2
    assert "no benchmark is named plannning" in capsys.readouterr().err
