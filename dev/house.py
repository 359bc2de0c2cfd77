"""How large `etc_policy` is, and how far a reader walks in it.

    python -m dev.house

Counts lines, files, classes and functions, and follows two commands: `etc plan` of a small table on disk, and `etc apply` of one
in memory, without Spark. A change of file is a call of a function in another file than that of the function called before it.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import io
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from unittest.mock import patch

import etc_policy
from etc_policy.cli.main import main as etc

HOUSE = Path(etc_policy.__file__).parent
NOON, EVENT_MS = "2026-01-01T12:00:00Z", 1_767_250_800_000
POLICY = (
    "  - {{name: orders_ro, table: {table}, event_time_column: ts, data_latency: 1h, verify: {{level: metadata}}}}\n"
)


def size() -> dict[str, int]:
    """Lines, files, classes and functions."""
    texts = [path.read_text("utf-8") for path in HOUSE.rglob("*.py")]
    nodes = [type(node) for text in texts for node in ast.walk(ast.parse(text))]
    lines, functions = sum(len(text.splitlines()) for text in texts), nodes.count(ast.FunctionDef)
    return {"lines": lines, "files": len(texts), "classes": nodes.count(ast.ClassDef), "functions": functions}


@dataclass
class Walk:
    """What a command calls of `etc_policy`; `port` is a function outside, the way to whose first call is kept."""

    port: CodeType | None
    functions: set[tuple[str, str]] = field(default_factory=set)
    changes_of_file: int = 0
    depth: int = 0
    frames_to_port: int = 0
    _file: str = ""

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """As `sys.setprofile` wants it."""
        if event != "call":
            return
        if frame.f_code is self.port and not self.frames_to_port:
            self.frames_to_port = _frames(frame)
        if _is_of_house(frame):
            file = frame.f_code.co_filename
            self.functions.add((file, frame.f_code.co_qualname))
            self.changes_of_file += file != self._file
            self.depth = max(self.depth, _frames(frame))
            self._file = file

    def figures(self) -> dict[str, int]:
        """By their names."""
        files = len({file for file, _ in self.functions})
        found = {"files": files, "functions": len(self.functions), "changes of file": self.changes_of_file}
        found["frames at the deepest"] = self.depth
        return found | ({"frames to the compactor's port": self.frames_to_port} if self.port else {})


def _is_of_house(frame: FrameType) -> bool:
    """Whether it is a function of `etc_policy`; what a module does when it is imported does not count."""
    return frame.f_code.co_filename.startswith(f"{HOUSE}{os.sep}") and frame.f_code.co_name != "<module>"


def _frames(frame: FrameType | None) -> int:
    count = 0
    while frame is not None:
        count += _is_of_house(frame)
        frame = frame.f_back
    return count


def walk(arguments: Callable[[], tuple[str, ...]], port: CodeType | None = None) -> Walk:
    """The walk of a command that has run before, so that all it needs is imported."""
    found = Walk(port)
    for profile in (None, found):
        given = arguments()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
            sys.setprofile(profile)
            code = etc(given)
            sys.setprofile(None)
        if code:
            raise SystemExit(f"etc {' '.join(given)} ended with {code}: {said.getvalue()}")
    return found


@contextlib.contextmanager
def project(table: str) -> Iterator[Path]:
    """A project with one policy, for a table at this path."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "policies").mkdir()
        (folder / "policies" / "orders.yml").write_text(f"version: 1\npolicies:\n{POLICY.format(table=table)}")
        yield folder


def plan() -> Walk:
    """`etc plan` of a table of one file group with three log files, as a writer left them."""
    folders = importlib.import_module("tests.unit.hudi.table_folder")
    with project("lake/orders") as folder:
        table = folders.TableFolder(folder / "lake" / "orders")
        for hour, file in enumerate((folders.base("f"), *[folders.log("f", min_event=EVENT_MS)] * 3), 7):
            table.commit(folders.at(f"{hour:02}:00:00"), folders.at(f"{hour:02}:00:05"), file)
        return walk(lambda: ("plan", "--project-dir", str(folder), "--at", NOON))


def apply() -> Walk:
    """`etc apply` of a table in memory, with the compactor of the tests in place of Spark."""
    fakes, tests = map(importlib.import_module, ("tests.fakes", "tests.unit.cli.test_apply"))
    states, verbs = map(importlib.import_module, ("tests.unit.plan.states", "etc_policy.api.project"))

    with project("/t") as folder:
        outside = tests.Outside(folder)

        def arguments() -> tuple[str, ...]:
            outside.tables = {"orders_ro": fakes.MemoryTable(states.STATE)}
            return "apply", "--yes", "--project-dir", str(folder), "--at", NOON

        with patch.object(verbs.Project, "environment", outside):
            return walk(arguments, port=fakes.MemoryCompactor.publish.__code__)


def main() -> None:
    """Print all of it."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    for name, figures in {"etc_policy": size(), "etc plan": plan().figures(), "etc apply": apply().figures()}.items():
        print(f"{name:10}", ", ".join(f"{what} {count:,}" for what, count in figures.items()))


if __name__ == "__main__":
    main()
