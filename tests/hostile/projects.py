"""Projects that hurt: their policies, templates and suites, the files of their target folder, and where they write."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

from tests.hostile.avro import damaged
from tests.hostile.plans import replaced
from tests.hostile.tables import VALUES
from tests.property.bad_input import FILES, HOSTILE, LINKS, write

SUITE_OF_BAD = "latency: 30m, verify: {suite: mine}"
_SUITE = b"""name: mine
expectations:
  - type: expect_ro_to_contain_rt_up_to
    kwargs: {threshold_ms: {$PARAMETER: threshold_ms}}
  - type: expect_column_values_to_not_be_null
    kwargs: {column: id, mostly: 0.9}
    on: both
  - type: expect_column_max_to_be_between
    kwargs: {column: ts, max_value: {$PARAMETER: now}}
    severity: warning
"""
_WORDS = tuple(sorted({word for content in (*FILES.values(), _SUITE) for word in content.split()}))
_PARSING = (
    "parse",
    "compile",
    "compile --explain",
    "ls --output json",
    "plan --output json",
    "parse --output json",
    "debug",
)
_RUNS = (
    "history good --output json", "docs generate", "metrics write target/m.prom", "compile", "plan --output json",
    "freshness --output json --archived", "verify --level metadata --output json", "ls --select state:modified --state target",
    "history bad", "plan", "debug --output json",
)  # fmt: skip
_OUTPUTS = (
    "plan --out {}", "verify --level metadata --junit-xml {}", "verify --level metadata --summary {}", "metrics write {}",
    "docs generate --out {}", "schema --out {}", "compile --target-dir {}", "init {}", "plan --target-dir {}",
)  # fmt: skip


def _spliced(random: Random, good: bytes) -> bytes:
    """A good file that was cut, spliced or broken."""
    data = good
    for _ in range(random.choice([1, 1, 2, 3])):
        place = random.randrange(len(data) + 1)
        end = min(len(data), place + random.choice([0, 0, 1, 3, 10, 40]))
        piece = random.choice(
            [random.choice(HOSTILE), random.choice(_WORDS), b"\xe2\x80\xae", b"\x1b[2J", b"\n::warning::x\n"]
        )
        data = data[:place] + piece + data[end:]
    return data


def _policies(root: Path, random: Random) -> tuple[str, str]:
    """Policies, templates and the project's own file."""
    project, said = root / "project", []
    files: dict[str, bytes | str] = dict(FILES)
    for name in random.sample(sorted(FILES), random.choice([1, 1, 2])):
        files[name] = _spliced(random, FILES[name])
        said.append(name)
    if random.random() < 0.25:
        where = random.choice(["policies/l.yml", "templates/l.yml", "policies/l", "etc_project.yml"])
        files[where] = random.choice(LINKS)
        said.append(f"{where} -> {files[where]}")
    write(files, project)
    if random.random() < 0.15:
        name = random.choice(["policies/a.yml", "templates/base.yml", "templates", "etc_project.yml", "policies"])
        said.append(f"{name}: {replaced(project / name, random)}")
    return ", ".join(said), random.choice(_PARSING)


def _suites(root: Path, random: Random) -> tuple[str, str]:
    path = root / "project" / "suites" / "mine.yml"
    path.parent.mkdir()
    path.write_bytes(_spliced(random, _SUITE))
    said = replaced(path if random.random() < 0.7 else path.parent, random) if random.random() < 0.3 else "spliced"
    return said, random.choice([*_PARSING, "verify --level metadata", "apply --yes --output json"])


def _runs(root: Path, random: Random) -> tuple[str, str]:
    """A file of the target folder that commands have left is another one."""
    target, said = root / "project" / "target", []
    paths = sorted(path for path in target.rglob("*") if path.suffix != ".html")
    for path in random.sample(paths, random.choice([1, 1, 3])):
        if not os.path.lexists(path):
            continue  # below one that was replaced
        if path.is_file() and random.random() < 0.6:
            path.write_bytes(_other_content(path.read_bytes(), random))
            said.append(f"{path.name} changed")
        else:
            said.append(f"{path.name}: {replaced(path, random)}")
    return ", ".join(said), random.choice(_RUNS)


def _other_content(content: bytes, random: Random) -> bytes:
    if random.random() < 0.4 or not content:
        return damaged(random, content or b"x")
    pieces = content.split(b'"')
    place = random.randrange(len(pieces))
    value = random.choice([*VALUES, "../../outside/secret.yml", "\x1b[2J", "a\n::warning::b"])
    pieces[place] = (
        value.encode("utf-8", "surrogatepass") if random.random() < 0.5 else json.dumps(value)[1:-1].encode()
    )
    return b'"'.join(pieces)


def _outputs(root: Path, random: Random) -> tuple[str, str]:
    """Files that commands write to: named on the command line, or by themselves."""
    project = root / "project"
    command = random.choice(_OUTPUTS)
    if random.random() < 0.5:
        path = project / random.choice(["out", "out", "folder/out", "out\x1b[2J", "out\u202e", "x" * 200])
        path.parent.mkdir(exist_ok=True)
        said = _with_reader(path, replaced(path, random))
        return said, command.format(path.relative_to(project)) if said not in ("outside", "up") else "plan"
    names = ("", "/manifest.json", "/plan.json", "/compiled", "/runs", "/cache", "/site", "/site/index.html", "/writers",
             "/site/tables", "/run_results.json", "/spark.log")  # fmt: skip
    path = project / f"target{random.choice(names)}"
    path.parent.mkdir(parents=True, exist_ok=True)
    if random.random() < 0.5:
        path.symlink_to(root / "outside", target_is_directory=True)
        said = f"{path.name} -> outside"
    else:
        said = f"{path.name}: {_with_reader(path, replaced(path, random))}"
    return said, random.choice(
        ["plan", "compile", "docs generate", "verify --level metadata", "apply --yes", "freshness"]
    )


_READERS: list[int] = []


def _with_reader(path: Path, said: str) -> str:
    """A pipe that the user names is waited for, as by every program: somebody reads it."""
    while _READERS:
        os.close(_READERS.pop())
    with suppress(OSError):
        if path.is_fifo():
            _READERS.append(os.open(path, os.O_RDWR | os.O_NONBLOCK))
    return said


KINDS: dict[str, Callable[[Path, Random], tuple[str, str]]] = {
    "policies": _policies,
    "suites": _suites,
    "runs": _runs,
    "outputs": _outputs,
}
