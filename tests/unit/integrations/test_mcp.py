"""`etc mcp` without its SDK: what its tools answer, that nothing is written, and that the missing package is one line."""

import sys

import pytest

from etc_policy.cli.options import Flags
from etc_policy.errors import install_hint
from etc_policy.integrations import mcp
from tests.unit.cli.conftest import etc, project  # noqa: F401 - fixtures
from tests.unit.test_command_blocks import make_table


def answer_of(tool):
    """What a tool answers. It waits for nothing, so it needs no event loop: a browser's test may have left one running."""
    with pytest.raises(StopIteration) as answered:
        tool.send(None)
    return answered.value.value


def test_a_missing_sdk_is_one_line_with_the_command(etc, monkeypatch):  # noqa: F811
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    code, out, err = etc("mcp")
    assert (code, out, err.count("error[ETC358]"), err.count(install_hint("mcp"))) == (64, "", 1, 1)


def test_an_installation_that_does_not_register_it_says_so(etc, monkeypatch):  # noqa: F811
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: ())
    code, _, err = etc("mcp")
    assert (code, err.count("has no command `mcp`"), err.count("install the package etc-policy again")) == (64, 1, 1)


def test_a_plan_is_answered_and_not_saved(project):  # noqa: F811
    make_table(project / "lake" / "orders")
    tools = mcp.Tools(Flags(project, target_dir=project / "target"))
    assert "compact       2 of 2 log files" in answer_of(tools.plan("orders_ro", explain=True))
    assert "orders_ro  " in answer_of(tools.freshness("orders_ro"))
    assert not (project / "target").exists()


def test_an_answer_is_clean_and_has_its_bounds(project, monkeypatch):  # noqa: F811
    monkeypatch.setattr(mcp, "MOST", 40)
    tools = mcp.Tools(Flags(project, target_dir=project / "target"))
    monkeypatch.setattr(mcp, "list_policies", lambda *_: ["\x1b]0;s3://name:secret@bucket", "x" * 100])
    text = answer_of(tools.ls())
    assert text.startswith("\\x1b]0;s3://***@bucket\nxxx")
    assert text.splitlines()[-1].startswith("... cut after 40 of ")
