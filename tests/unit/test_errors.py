"""Errors of several tables as one exception: no single one speaks for the others."""

import ast
import json
import sys
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import pytest

import etc_policy
from etc_policy.errors import (
    EngineError,
    ExitCode,
    Issue,
    RetryableError,
    SeveralErrors,
    TableError,
    Where,
    install_hint,
)
from etc_policy.errors.codes import Code

PLACE = Where("policies/a.yml", 3, 5, "orders_ro")


def test_one_error_is_the_group_s_own():
    one = EngineError("ETC304", "Hudi failed", where=PLACE, hint="run it again", cause="java.lang.Error")
    group = SeveralErrors([one], ExitCode.ENGINE)
    assert (group.code, group.message, group.where, group.hint) == ("ETC304", "Hudi failed", PLACE, "run it again")
    assert str(group) == "Hudi failed\njava.lang.Error"


def test_of_one_code_the_code_is_kept_and_each_is_named():
    group = SeveralErrors(
        [
            EngineError("ETC304", "`a` failed", where=PLACE, hint="again"),
            EngineError("ETC304", "`b` failed", hint="again"),
        ],
        ExitCode.ENGINE,
    )
    assert (group.code, group.where, group.hint) == ("ETC304", None, "again")
    assert str(group) == "`a` failed; `b` failed"


def test_of_different_codes_none_is_taken_for_all():
    found = [RetryableError("ETC405", "`a` waits", hint="wait"), EngineError("ETC304", "`b` failed")]
    group = SeveralErrors(found, ExitCode.ENGINE)
    assert (group.code, group.hint) == (Code.SEVERAL, None)
    assert str(group) == "ETC405: `a` waits; ETC304: `b` failed"
    assert [issue.code for issue in group.issues] == ["ETC405", "ETC304"]


def test_each_cause_is_said_below_its_own_error():
    group = SeveralErrors(
        [EngineError("ETC304", "`a` failed", cause="java.lang.Error"), EngineError("ETC305", "`b`")], ExitCode.ENGINE
    )
    assert group.in_full == "error[ETC304]: `a` failed\njava.lang.Error\nerror[ETC305]: `b`"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cannot read `s3://user:hunter2@lake/orders`", "cannot read `s3://***@lake/orders`"),
        ("jdbc:mysql://u:hun/ter2@db:3306/hive fails", "jdbc:mysql://***@db:3306/hive fails"),
        ("hdfs://nn:8020/a@b", "hdfs://nn:8020/a@b"),
        ("abfs://files@account.dfs.core.windows.net/x", "abfs://files@account.dfs.core.windows.net/x"),
    ],
)
def test_no_message_shows_the_password_of_a_url(text, shown):
    error = TableError("ETC207", text, hint=text, cause=text)
    assert (error.message, error.hint, error.cause, str(error)) == (shown, shown, shown, f"{shown}\n{shown}")
    issue = Issue("ETC207", text, hint=text)
    assert (issue.message, issue.hint) == (shown, shown)
    where = Where("a.yml", 1, 8, excerpt=f"table: {text}")
    assert bool(where.shown()) == (text == shown)


@pytest.mark.parametrize(
    "code", [one for one in Code if one.ends.exit_code == 1 and one.ends.mended_by == "policy's author"]
)
def test_what_a_policy_s_author_can_mend_ends_with_1_as_the_page_says(code):
    assert TableError(code, "wrong").exit_code == ExitCode.FAILED


def levels_by_code():
    """The level of each issue in the sources that names its code."""
    found = defaultdict(set)
    for file in Path(etc_policy.__file__).parent.rglob("*.py"):
        for call in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(call, ast.Call) and call.args and ast.unparse(call.args[0]).startswith("Code."):
                levels = [ast.unparse(one.value) for one in call.keywords if one.arg == "level"]
                found[ast.unparse(call.args[0]).removeprefix("Code.")].add("'warning'" in levels)
    return found


def test_what_only_warns_is_said_to():
    """No page gives an exit code to what ends no command."""
    warnings = [Code[name] for name, levels in levels_by_code().items() if levels == {True}]
    assert len(warnings) > 5
    assert [code for code in warnings if not code.ends.text.startswith("A warning")] == []


@pytest.mark.parametrize(
    ("came", "what"),
    [
        (None, '"etc-policy[mcp]"'),
        ({"url": "file:///srv/my%20wheels/etc.whl", "archive_info": {}}, '"/srv/my wheels/etc.whl[mcp]"'),
        ({"url": "file:///srv/etc", "dir_info": {}}, '"/srv/etc[mcp]"'),
        ({"url": "file:///srv/etc", "dir_info": {"editable": True}}, '--editable "/srv/etc[mcp]"'),
        ({"url": "https://x.org/etc.whl", "archive_info": {}}, '"etc-policy[mcp] @ https://x.org/etc.whl"'),
        (
            {"url": "https://x.org/etc.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            '"etc-policy[mcp] @ git+https://x.org/etc.git@abc"',
        ),
    ],
)
def test_an_extra_comes_from_where_etc_came(monkeypatch, came, what):
    read = SimpleNamespace(read_text=lambda name: came and json.dumps(came))
    monkeypatch.setattr("importlib.metadata.distribution", lambda name: read)
    assert install_hint("mcp") == f"run `{sys.executable} -m pip install {what}`"
