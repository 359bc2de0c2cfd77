"""Runs a command over a good and a hostile table in a process of its own, within limits, and judges what came of it."""

from __future__ import annotations

import atexit
import os
import re
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from tests.hostile.judging import CANARY, Ended, broken_project_promise, broken_promise, contents, result_of_good
from tests.hostile.kinds import PROJECT_KINDS, TABLE_KINDS, hostile_table
from tests.hostile.projects import SUITE_OF_BAD
from tests.hostile.tables import good_table

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
    "apply --yes --output json",
    "apply --yes",
    "sync",
    "undo",
    "undo --output json",
    "wait bad --until 2026-01-01T12:00:00Z --timeout 0s",
    "plan",
    "freshness",
    "debug",
    "history bad",
    "verify --level metadata",
)
_POLICIES = """version: 1
policies:
  - {{name: bad, table: {folder}/bad, event_time_column: ts, data_latency: 30m, sync: {{ro_table: lake.bad_ro}}}}
  - {{name: good, table: {folder}/good, event_time_column: ts, data_latency: 30m, sync: {{ro_table: lake.good_ro}}}}
"""
#: All of them, each as often as another.
KINDS = (*TABLE_KINDS, *PROJECT_KINDS)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
#: Where an event of Python's audit has each path that it changes, and the open folder that this one is below.
_CHANGES = {
    "os.remove": ((0, 1),),
    "os.rename": ((0, 2), (1, 3)),
    "os.mkdir": ((0, 2),),
    "os.rmdir": ((0, 1),),
    "os.link": ((1, 3),),
    "os.symlink": ((1, 2),),
    "shutil.rmtree": ((0, 1),),
}


def run_case(seed: int, kind: str | None = None, command: str | None = None) -> tuple[str, Ended, str | None]:
    """What is wrong in the case of a seed, how the command ended over it, and the promise that it broke, if any."""
    kind = kind or KINDS[seed % len(KINDS)]
    with tempfile.TemporaryDirectory(dir=scratch()) as folder:
        root = Path(os.path.realpath(folder))
        (root / "outside").mkdir()
        (root / "outside" / "secret.yml").write_text(f"version: 1\n{CANARY}: 1\n")
        outside = contents(root / "outside")
        if kind in PROJECT_KINDS:
            said, ended, broken = _run_project(root, Random(seed), kind, command)
        else:
            command = command or COMMANDS[seed // len(KINDS) % len(COMMANDS)]
            said = hostile_table(root / "tables" / "bad", seed, kind)
            good_table(root / "tables" / "good")
            ended = run_prepared(root, command)
            broken = broken_promise(ended, _honest(command))
        if broken is None and contents(root / "outside") != outside:
            broken = "something was written outside"
        return said, ended, broken


def _run_project(root: Path, random: Random, kind: str, command: str | None) -> tuple[str, Ended, str | None]:
    """A command in a hostile project over good tables, which it leaves as they are."""
    for name in ("bad", "good"):
        good_table(root / "tables" / name)
    make = PROJECT_KINDS[kind]
    prepare_project(root, suite=kind == "suites")
    if kind == "runs":
        copy_project(honest_project(), root)
    if kind == "plans":
        _run(root, "plan --out plan.json", None)  # it holds the policies' fingerprints, and so the tables' paths
    said, chosen = make(root, random)
    before = contents(root / "tables")
    ended = _run(root, command or chosen, _honest_bytes() + MEMORY_BYTES)
    broken = broken_project_promise(ended, _honest(ended.command) if kind == "runs" else None)
    if broken is None and contents(root / "tables") != before:
        broken = "a table was changed"
    return f"{kind}, {said}", ended, broken


@cache
def honest_project() -> Path:
    """A project over good tables in which the commands have run that leave files."""
    root = Path(tempfile.mkdtemp(dir=scratch(), prefix="honest-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    for name in ("bad", "good"):
        good_table(root / "tables" / name)
    for command in ("compile", "plan --out plan.json", "verify --level metadata", "apply plan.json", "docs generate"):
        _run(root, command, None)
    return root


def copy_project(source: Path, root: Path) -> None:
    """What commands have left in another project, as if they had run here."""
    for path in (source / "project").rglob("*"):
        place = root / path.relative_to(source)
        if path.is_file() and not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(path.read_bytes().replace(os.fsencode(source), os.fsencode(root)))


def prepare_project(root: Path, *, suite: bool = False) -> None:
    """The policies of the tables `bad` and `good`, where there is no project yet."""
    project = root / "project"
    if not os.path.lexists(project / "policies"):
        (project / "policies").mkdir(parents=True)
        text = _POLICIES.format(folder=root / "tables")
        (project / "policies" / "a.yml").write_text(text.replace("latency: 30m", SUITE_OF_BAD, 1) if suite else text)


def run_prepared(root: Path, command: str) -> Ended:
    """The command, within limits, over the tables `bad` and `good` below `root / "tables"`."""
    return _run(root, command, _honest_bytes() + MEMORY_BYTES)


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
            prepare_project(root)
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

    for package in ("api", "cli", "hudi", "storage", "report", "verify"):
        path = Path(etc_policy.__file__).parent.joinpath(*package.split("."))
        for module in pkgutil.iter_modules([str(path)]):
            importlib.import_module(f"etc_policy.{package}.{module.name}")


def _run(root: Path, command: str, memory_bytes: int | None) -> Ended:
    """A command in a child of this process, which has everything imported already."""
    _warm()
    prepare_project(root)
    began = time.monotonic()
    out, err, seen = root / "out", root / "err", root / "seen"
    child = os.fork()
    if not child:
        _as_child(root, command, memory_bytes, (out, err, seen))
    status = _wait(child)
    ended = time.monotonic() - began
    code = os.waitstatus_to_exitcode(status)
    texts = [path.read_text("utf-8", errors="replace") if path.exists() else "" for path in (out, err, seen)]
    good = result_of_good(root, command, texts[0], texts[1])
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
            (root / "cache").mkdir(exist_ok=True)
            sys.dont_write_bytecode = True  # what Python keeps of the modules that it imports is no file of etc's
            _watch(root, stream.write)
            code = _in_project(root, command, out, err)
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
    finally:
        os._exit(code)


def _in_project(root: Path, command: str, out: Path, err: Path) -> int:
    from etc_policy.cli.main import main

    project = root / "project"
    os.chdir(project)
    sys.modules["pyspark"] = None  # type: ignore[assignment] - the base install
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), number)
    os.environ["COLUMNS"] = "120"
    os.environ["ETC_CACHE"] = str(root / "cache")
    streams = ((1, "strict"), (2, "backslashreplace"))
    sys.stdout, sys.stderr = (open(n, "w", encoding="utf-8", errors=how, closefd=False) for n, how in streams)  # noqa: SIM115
    code = main(command.split())
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def _watch(root: Path, say: Callable[[str], object]) -> None:
    """Say what Python writes, removes or starts outside the project, the tables and the user's folder for what is kept."""
    allowed = tuple(f"{root}/{name}/" for name in ("project", "tables", "cache", "out", "err", "seen"))

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str | bytes) and arguments[2] & _WRITING:
            path = os.fsdecode(arguments[0])
            if path.startswith("/") and not _below(path, allowed) and path != os.devnull:
                say(f"{event} {path!r}\n")
        for path_at, folder_at in _CHANGES.get(event, ()):
            path = _place(arguments[path_at], arguments[folder_at])
            is_there = event == "os.mkdir" and os.path.lexists(path)  # which fails, and is how Python makes sure of it
            if path.startswith("/") and not is_there and not _below(os.path.dirname(path), allowed):
                say(f"{event} {path!r}\n")

    sys.addaudithook(hook)


def _place(path: object, folder: object) -> str:
    """A path by the number of the open folder that it is below, if there is one."""
    if not isinstance(path, str | bytes):
        return ""
    named = os.fsdecode(path)
    is_below = isinstance(folder, int) and folder >= 0
    return os.path.join(os.readlink(f"/proc/self/fd/{folder}"), named) if is_below else named


def _below(path: str, allowed: tuple[str, ...]) -> bool:
    return f"{os.path.realpath(path)}/".startswith(allowed)
