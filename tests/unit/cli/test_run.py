"""`etc run` over tables in memory: rounds, what fails in them, and how it ends."""

import json
import os
import signal
import threading

import pytest

from tests.unit.cli.test_apply import outside  # noqa: F401 - a fixture


@pytest.fixture
def rounds(etc, outside, monkeypatch):  # noqa: F811
    """Runs that many rounds: exit code, what each said, and stderr."""
    monkeypatch.setattr("etc_policy.wiring.time.time_ns", lambda: 1_767_268_800_000 * 1_000_000)
    before = signal.getsignal(signal.SIGTERM)

    def run(count, *arguments):
        code, out, err = etc("run", "--every", "10ms", *(("--rounds", str(count)) if count else ()), *arguments)
        return code, out.splitlines(), err

    yield run
    signal.signal(signal.SIGTERM, before)


def test_a_second_round_has_nothing_left_to_do(rounds):
    code, said, _ = rounds(2)
    assert code == 0
    assert [line.partition("UTC  ")[2] for line in said] == ["2 compacted", "2 nothing due"]


def test_each_round_is_one_line_of_json(rounds):
    _, said, _ = rounds(2, "--output", "json")
    assert [[table["status"] for table in json.loads(line)["tables"]] for line in said] == [
        ["compacted"] * 2,
        ["nothing_due"] * 2,
    ]


def test_what_fails_is_shown_and_the_next_round_comes(rounds, outside):  # noqa: F811
    outside.lost.add("orders_ro")
    code, said, err = rounds(2)
    assert code == 1
    assert [line.partition("UTC  ")[2] for line in said] == ["1 compacted, 1 failed", "1 failed, 1 nothing due"]
    assert err.count("ETC211") == 2


def test_files_are_read_for_each_round(rounds, outside, monkeypatch):  # noqa: F811
    """An error in them ends the first round's process; later it is shown, and mended files are taken."""
    file = outside.project_dir / "policies" / "a.yml"
    right, texts = file.read_text(), []
    monkeypatch.setattr(type(outside), "close", lambda _: None)
    waits = iter([lambda: file.write_text("version: 2"), lambda: file.write_text(right)])
    monkeypatch.setattr(threading.Event, "wait", lambda *_: texts.append(next(waits)()))
    code, said, err = rounds(3)
    assert (code, len(said), len(texts)) == (0, 2, 2)
    assert "error[" in err
    file.write_text("version: 2")
    assert rounds(1)[0] == 1


def test_sigterm_ends_it_after_its_round(rounds):
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    code, said, err = rounds(None)
    assert code == 0
    assert len(said) > 1
    assert "ended by SIGTERM" in err


def test_an_interval_is_longer_than_nothing(etc):
    assert etc("run", "--every", "0s")[0] == 64
