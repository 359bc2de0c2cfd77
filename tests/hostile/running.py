"""Runs a command over a good and a hostile table in a process of its own, within limits, and judges what came of it."""

from __future__ import annotations

import json
import os
import re
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.hostile.tables import good_table, hostile_table

#: Beyond what the honest run takes.
MEMORY_BYTES = 512 << 20
#: Of the processor, and of the clock on a busy machine.
SECONDS, PATIENCE_SECONDS = 10, 60.0
COMMANDS = (
    "plan --output json",
    "freshness --output json --archived",
    "verify --level metadata --output json",
    "debug --output json",
    "docs generate",
    "metrics write target/m.prom",
    "history bad --output json",
    "history good --output json",
    "ls --output json",
    "repair bad",
    "plan",
    "freshness",
    "debug",
    "history bad",
    "verify --level metadata",
)
_POLICIES = """version: 1
policies:
  - {{name: bad, table: {folder}/bad, event_time_column: ts, data_latency: 30m}}
  - {{name: good, table: {folder}/good, event_time_column: ts, data_latency: 30m}}
"""
_ERROR = re.compile(r"^(?:error|warning)\[(ETC\d+)\]: (.*)$", re.MULTILINE)
_ENDS = (0, 1, 3, 4)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = frozenset({"os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "shutil.rmtree"})


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended: its exit code, None where it was killed; what it printed, and what it wrote elsewhere."""

    command: str
    code: int | None
    signal: int | None
    out: str
    err: str
    written: str
    seconds: float
    good: Any

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of the errors and warnings that were printed."""
        return tuple(code for code, _ in _ERROR.findall(self.err))


def run_case(seed: int, command: str, kind: str | None = None) -> tuple[str, Ended, str | None]:
    """What is wrong with the table of a seed, how the command ended over it, and the promise that it broke, if any."""
    with tempfile.TemporaryDirectory(dir=scratch()) as folder:
        root = Path(os.path.realpath(folder))
        (root / "outside").mkdir()
        (root / "outside" / "canary").write_text("canary")
        said = hostile_table(root / "tables" / "bad", seed, kind)
        good_table(root / "tables" / "good")
        ended = run_prepared(root, command)
        broken = broken_promise(ended, _honest(command))
        if broken is None and [*(root / "outside").iterdir()] != [root / "outside" / "canary"]:
            broken = "something was written outside"
        return said, ended, broken


def run_prepared(root: Path, command: str) -> Ended:
    """The command, within limits, over the tables `bad` and `good` below `root / "tables"`."""
    return _run(root, command, _honest_bytes() + MEMORY_BYTES)


def broken_promise(ended: Ended, honest: Ended) -> str | None:
    """The promise that is broken; None where all are kept."""
    text = ended.out + ended.err
    wrong = [(code, message) for code, message in _ERROR.findall(ended.err) if "bad" not in _of(message, ended.err)]
    checks = (
        (ended.signal is not None, f"killed by signal {ended.signal} after {ended.seconds:.1f} s"),
        (ended.code not in _ENDS, f"exit code {ended.code}"),
        ("Traceback" in text, "a traceback"),
        ("ETC009" in text, "an unexpected error"),
        (bool(ended.written), f"written outside the project: {ended.written}"),
        (len(ended.err) > 20_000, f"{len(ended.err):,} characters of errors"),
        (len(_errors(ended.err)) > 1, "more than one error for one table"),
        (bool(wrong), f"an error that names neither table nor policy: {wrong[:1]}"),
        (ended.good != honest.good, "the good table's result is another one"),
    )
    return next((message for is_broken, message in checks if is_broken), None)


def _errors(err: str) -> list[str]:
    return re.findall(r"^error\[(ETC\d+)\]", err, re.MULTILINE)


def _of(message: str, err: str) -> str:
    """A message with the lines that say where it is."""
    start = err.index(message)
    return err[start : start + len(message) + 200]


def scratch() -> str | None:
    """A folder in memory, where there is one."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@cache
def _honest(command: str) -> Ended:
    """The command over two good tables."""
    with tempfile.TemporaryDirectory(dir=scratch()) as folder:
        root = Path(os.path.realpath(folder))
        for name in ("bad", "good"):
            good_table(root / "tables" / name)
        return _run(root, command, None)


@cache
def _honest_bytes() -> int:
    """What the honest run of any command takes of address space, with all that it imports."""
    _warm()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        with tempfile.TemporaryDirectory(dir=scratch()) as folder:
            root = Path(os.path.realpath(folder))
            for name in ("bad", "good"):
                good_table(root / "tables" / name)
            for command in COMMANDS:
                _in_project(root, command, Path(os.devnull), Path(os.devnull))
        os.write(writing, re.search(r"VmPeak:\s+(\d+) kB", Path("/proc/self/status").read_text())[1].encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        peak = int(pipe.read()) * 1024
    os.waitpid(child, 0)
    return peak


@cache
def _warm() -> None:
    """Import what the commands import, so that a child need not."""
    import importlib
    import pkgutil

    import pyarrow.parquet  # noqa: F401

    import etc_policy

    for package in (
        "api",
        "cli",
        "adapters.hudi",
        "adapters.logs",
        "adapters.storage",
        "adapters.outputs",
        "publish",
        "verify",
    ):
        path = Path(etc_policy.__file__).parent.joinpath(*package.split("."))
        for module in pkgutil.iter_modules([str(path)]):
            importlib.import_module(f"etc_policy.{package}.{module.name}")


def _run(root: Path, command: str, memory_bytes: int | None) -> Ended:
    """A command in a child of this process, which has everything imported already."""
    _warm()
    (root / "project" / "policies").mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    out, err, seen = root / "out", root / "err", root / "seen"
    child = os.fork()
    if not child:
        _as_child(root, command, memory_bytes, (out, err, seen))
    status = _wait(child)
    ended = time.monotonic() - began
    code = os.waitstatus_to_exitcode(status)
    texts = [path.read_text("utf-8", errors="replace") if path.exists() else "" for path in (out, err, seen)]
    good = _result_of_good(root, command, texts[0], texts[1])
    return Ended(command, code if code >= 0 else None, -code if code < 0 else None, *texts, ended, good)


def _wait(child: int) -> int:
    """The child's status; it is killed when its time is over."""
    handle = os.pidfd_open(child)
    try:
        if not select.select([handle], [], [], PATIENCE_SECONDS)[0]:
            os.kill(child, signal.SIGKILL)
        return os.waitpid(child, 0)[1]
    finally:
        os.close(handle)


def _as_child(root: Path, command: str, memory_bytes: int | None, files: tuple[Path, Path, Path]) -> None:
    code = 99
    try:
        out, err, seen = files
        with seen.open("w", buffering=1) as stream:
            if memory_bytes is not None:
                resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            _watch(root, stream.write)
            code = _in_project(root, command, out, err)
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
    finally:
        os._exit(code)


def _in_project(root: Path, command: str, out: Path, err: Path) -> int:
    from etc_policy.cli.main import main

    project = root / "project"
    (project / "policies").mkdir(parents=True, exist_ok=True)
    (project / "policies" / "a.yml").write_text(_POLICIES.format(folder=root / "tables"))
    os.chdir(project)
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), number)
    os.environ["COLUMNS"] = "120"
    streams = ((1, "strict"), (2, "backslashreplace"))
    sys.stdout, sys.stderr = (open(n, "w", encoding="utf-8", errors=how, closefd=False) for n, how in streams)  # noqa: SIM115
    code = main(command.split())
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def _watch(root: Path, say: Callable[[str], object]) -> None:
    """Say what Python writes, removes or starts outside the project and the tables."""
    allowed = tuple(f"{root}/{name}" for name in ("project", "tables", "out", "err", "seen"))

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str | bytes) and arguments[2] & _WRITING:
            path = os.fsdecode(arguments[0])
            if path.startswith("/") and not os.path.realpath(path).startswith(allowed) and path != os.devnull:
                say(f"{event} {path!r}\n")
        elif event in _CHANGES and isinstance(arguments[0], str | bytes):
            path = os.fsdecode(arguments[0])
            if path.startswith("/") and not os.path.realpath(os.path.dirname(path)).startswith(allowed):
                say(f"{event} {path!r}\n")

    sys.addaudithook(hook)


def _result_of_good(root: Path, command: str, out: str, err: str) -> Any:
    """What the command says of the good table, without times of the clock."""
    project = root / "project"
    match command.split():
        case ["metrics", *_]:
            text = (project / "target" / "m.prom").read_text() if (project / "target" / "m.prom").exists() else ""
            return re.findall(r'^etc_table_readable{policy="good".*} (.*)', text, re.MULTILINE)
        case ["history" | "repair", *_]:
            return None
        case ["docs", *_]:
            return (project / "target" / "site" / "tables" / "good.html").exists()
        case [*_, "--output", "json"] | [_, "--output", "json", *_] if out:
            try:
                return _outline(json.loads(out))
            except ValueError:
                return "no JSON"
        case [verb, *_] if verb in ("plan", "freshness", "debug", "verify"):
            return "good" in out
    return None


def _outline(content: Any) -> Any:
    if isinstance(content, list):
        return ["good" in json.dumps(content)]
    tables = [table for table in content.get("tables", ()) if table.get("policy") == "good"]
    findings = [(f["check"], f["status"]) for f in content.get("findings", ()) if f["subject"] == "good"]
    keys = ("action", "reason_code", "status", "operations")
    found = [{key: table.get(key) for key in keys} for table in tables]
    return [found, [table["verification"]["status"] for table in tables if table.get("verification")], findings]
