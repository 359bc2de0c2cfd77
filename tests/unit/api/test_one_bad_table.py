"""A table that hurts whoever reads it beside a good one: each command has one error for it, and the good one's result."""

import json
import os
from random import Random

import pytest

from tests.hostile.avro import array, container, record, recursive
from tests.hostile.judging import broken_promise
from tests.hostile.running import COMMANDS, _honest, run_case, run_prepared
from tests.hostile.tables import Case, good_table
from tests.nightly import nightly
from tests.unit.hudi import log_file
from tests.unit.hudi.log_file import zigzag
from tests.unit.hudi.table_folder import at, base


def _json(case, text, action="deltacommit"):
    case.table.file(at("12:00:00"), f"_{at('12:00:01')}.{action}", text.encode("utf-8", "surrogatepass"))


def _stat(case, value):
    _json(
        case, '{"partitionToWriteStats": {"p": [{"fileId": "f1", "fileSizeInBytes": VALUE}]}}'.replace("VALUE", value)
    )


def _instead(path, make):
    path.unlink()
    make(path)


def _sparse(path):
    path.touch()
    os.truncate(path, 6 << 30)


def _version(case, digits):
    with (case.table.meta / "hoodie.properties").open("a") as file:
        file.write(f"hoodie.table.version={digits}\n")


def _not_utf8(case):
    case.table.data(at("11:00:00"), base("f9"))
    folder = os.fsencode(case.table.base) + b"/p/"
    os.rename(folder + base("f9").name(at("11:00:00")).encode(), folder + b"f\xff_0-1-0_20260101110000000.parquet")


BAD = {
    "an impossible date": lambda c: c.table.file("20260230100000000", ".deltacommit.requested"),
    "a name that is not UTF-8": _not_utf8,
    "a version of 5,000 digits": lambda c: _version(c, "9" * 5_000),
    "10**400": lambda c: _stat(c, "1" + "0" * 400),
    "1.5": lambda c: _stat(c, "1.5"),
    "Infinity": lambda c: _stat(c, "Infinity"),
    "a text where a number is": lambda c: _stat(c, '"many"'),
    "1,500 nested lists": lambda c: _json(c, '{"successDeleteFiles": ' + "[" * 1_500 + "]" * 1_500 + "}", "rollback"),
    "a lone surrogate": lambda c: _json(c, '{"partitionToWriteStats": {"\\ud800": [{"fileId": "f1"}]}}'),
    "a recursive schema": lambda c: c.commits[1].write_bytes(container(recursive(Random(1)), b"\x02" * 5_000)),
    "2**29 nulls": lambda c: c.commits[1].write_bytes(container(record("r", array("null")), zigzag(2**29) + b"\0")),
    "a pipe as hoodie.properties": lambda c: _instead(c.table.meta / "hoodie.properties", os.mkfifo),
    "a pipe as a commit": lambda c: _instead(c.commits[1], os.mkfifo),
    "a commit of 6 GiB": lambda c: _instead(c.commits[1], _sparse),
    "properties of 6 GiB": lambda c: _instead(c.table.meta / "hoodie.properties", _sparse),
    "a timeline outside": lambda c: _version(c, "9\nhoodie.timeline.path=../../../outside"),
}
#: One of each sort: a bad name, a bad number, a schema that contains itself, a pipe for a file, a path that leads outside.
AT_EACH_PUSH = ("a name that is not UTF-8", "10**400", "a recursive schema", "a pipe as a commit", "a timeline outside")
#: Commands whose good table is another one than the bad one.
EACH = [command for command in COMMANDS if "good" not in command and not command.startswith("ls")]


def _case(tmp_path, make):
    (tmp_path / "outside").mkdir()
    case = Case(tmp_path / "tables" / "bad", Random(0))
    make(case)
    good_table(tmp_path / "tables" / "good")
    return case


@pytest.mark.parametrize("name", [*AT_EACH_PUSH, *nightly(*(name for name in BAD if name not in AT_EACH_PUSH))])
def test_each_command_over_a_good_and_a_bad_table(tmp_path, name):
    _case(tmp_path, BAD[name])
    for command in EACH:
        ended = run_prepared(tmp_path, command)
        assert broken_promise(ended, _honest(command)) is None, (command, ended.err[-2000:])
        if command.startswith(("freshness", "verify", "metrics", "docs")):  # history reads compactions alone
            assert len(ended.codes) == 1, (command, ended.err)


LOGS = {
    "a recursive schema": lambda path: path.write_bytes(
        log_file.block(
            log_file.AVRO, b"\0\0\0\3\0\0\0\1\0\0\0\4" + b"\2" * 4, {log_file.SCHEMA: json.dumps(recursive(Random(1)))}
        )
    ),
    "a pipe": lambda path: _instead(path, os.mkfifo),
    "6 GiB of nothing": lambda path: _instead(path, _sparse),
}


@pytest.mark.parametrize("name", LOGS)
def test_a_log_file_that_cannot_be_read_has_unknown_times(tmp_path, name):
    LOGS[name](_case(tmp_path, lambda _: None).log_file)
    ended = run_prepared(tmp_path, "plan --output json")
    assert (ended.signal, ended.code in (0, 3)) == (None, True), ended.err
    assert json.loads(ended.out)["tables"][0]["policy"] == "bad"


@pytest.mark.parametrize("place", ["run_results.json", "runs/20260101T000000000Z-apply-1.json", "site/site.json"])
def test_a_pipe_in_the_target_folder_is_not_waited_for(tmp_path, place):
    _case(tmp_path, lambda _: None)
    path = tmp_path / "project" / "target" / place
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    for command in ("metrics write target/m.prom", "history good --output json", "docs generate"):
        ended = run_prepared(tmp_path, command)
        assert (ended.signal, "Traceback" in ended.err) == (None, False), (command, ended.err)
        assert ended.code == 0 or "ETC003" in ended.err, command


@pytest.mark.parametrize("count", [20, *nightly(400)])
def test_hostile_tables_and_projects(count):
    """`python -m tests.hostile` plays any number."""
    for seed in range(count):
        said, ended, broken = run_case(seed)
        assert broken is None, (seed, ended.command, said, broken, ended.err[-2000:])


def test_a_broken_promise_is_noticed(tmp_path):
    """The promise is only as good as what looks for it."""
    _case(tmp_path, BAD["1.5"])
    honest, ended = _honest("plan --output json"), run_prepared(tmp_path, "plan --output json")
    assert broken_promise(ended, honest) is None
    changes = (
        {"signal": 11},
        {"code": 99},
        {"err": "Traceback (most recent call last):"},
        {"err": "error[ETC009]: unexpected"},
        {"err": "error[ETC216]: of a table that nobody names"},
        {"err": "error[ETC216]: bad\nerror[ETC213]: bad"},
        {"written": "open '/elsewhere'"},
        {"good": None},
    )
    for change in changes:
        assert broken_promise(ended.__class__(**{**_fields(ended), **change}), honest) is not None, change


def test_what_is_written_elsewhere_is_noticed(tmp_path):
    _case(tmp_path, lambda _: None)
    ended = run_prepared(tmp_path, f"metrics write {tmp_path / 'outside' / 'm.prom'}")
    assert f"{tmp_path}/outside" in ended.written


def _fields(ended):
    return {name: getattr(ended, name) for name in ended.__slots__}
