import os
import subprocess
import sys

import pytest


def complete(project, *words):
    """What the shell is offered for the last word."""
    script = project / "script.py"
    script.write_text("import sys\nfrom etc_policy.cli.main import main\nsys.exit(main())\n")
    environ = {"_ETC_COMPLETE": "bash_complete", "COMP_WORDS": "etc " + " ".join(words), "COMP_CWORD": str(len(words))}
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, cwd=project, env={**os.environ, **environ}
    )
    assert done.stderr == ""
    return [line.split(",")[1] for line in done.stdout.splitlines() if line]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("fre",), ["freshness"]),
        (("plan", "--det"), ["--detailed-exitcode"]),
        (("plan", "--select", "o"), ["orders_ro"]),
        (("plan", "--exclude", "pa"), ["payments_ro"]),
        (("wait", ""), ["orders_ro", "payments_ro"]),
        (("completion", ""), ["bash", "zsh", "fish"]),
    ],
)
def test_offers(project, words, offered):
    assert complete(project, *words) == offered


def test_a_project_with_errors_offers_nothing(project):
    (project / "policies" / "a.yml").write_text("version: 1\npolicies: [{nam: x}]\n")
    assert complete(project, "plan", "--select", "") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts(etc, shell):
    code, out, _ = etc("completion", shell)
    assert code == 0
    assert f"_ETC_COMPLETE={shell}_complete" in out
