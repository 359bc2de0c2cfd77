"""Saved plans that somebody else has changed, and whose id they have computed again; and files that are no plans."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from random import Random
from typing import Any

from etc_policy.policy.manifest import digest
from tests.hostile.avro import damaged
from tests.hostile.tables import SPARSE_BYTES, VALUES
from tests.unit.hudi.table_folder import at

_COMMANDS = (
    "apply plan.json",
    "apply plan.json --output json",
    "apply plan.json --yes",
    "apply plan.json --select bad",
)
#: Values that etc would write elsewhere, or that name files.
_OTHERS: tuple[Any, ...] = (
    "../../outside/secret.yml", ".../../pwn", "/etc", "", 253402300799000, -1, 0, 10**400, 1.5, None, True, [], {}, "compact",
    at("12:00:00"), "99991231235959999", "\x1b[2J", "a\n::warning::b", "\u202e", "\ud800", "x" * 100_000, ["a"] * 5_000,
)  # fmt: skip


def signed(content: Any) -> Any:
    """The content of a plan with the checksum that it should have."""
    if isinstance(content, dict):
        content = {key: value for key, value in content.items() if key != "checksum"}
        try:
            return {**content, "checksum": digest(content)}
        except (ValueError, RecursionError):
            return {**content, "checksum": "0" * 64}
    return content


def plans(root: Path, random: Random) -> tuple[str, str]:
    """A hostile `plan.json`."""
    path = root / "project" / "plan.json"
    plan = json.loads(path.read_text())
    make = random.choice([_changed, _changed, _changed, _targeted, _targeted, _text, _bytes, _not_a_file])
    said = make(path, plan, random)
    return f"{make.__name__} {said}", random.choice(_COMMANDS)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """All containers in a value, with each of their keys."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = []
    for key, item in items:
        found += [(value, key), *_places(item)]
    return found


def _changed(path: Path, plan: Any, random: Random) -> str:
    """Any value is another."""
    said = []
    for _ in range(random.choice([1, 1, 2, 5])):
        inner, key = random.choice(_places(plan))
        inner[key] = random.choice(_OTHERS)
        said.append(f"{key}={str(inner[key])[:30]!r}")
    path.write_text(json.dumps(signed(plan) if random.random() < 0.8 else plan))
    return ", ".join(said)


def _targeted(path: Path, plan: Any, random: Random) -> str:
    """What would decide otherwise, or do it often."""
    table = random.choice(plan["tables"])
    case = random.randrange(8)
    if case == 0:
        table["operations"] = table["operations"][1:]
    elif case == 1:
        table["operations"] = table["operations"] * random.choice([2, 500])
    elif case == 2:
        table["threshold_ms"] = random.choice([253402300799000, 4102444800000, 1, -(2**63), 2**63])
    elif case == 3:
        table["seen"]["instants_completed"] = random.choice([[], [at("12:00:00")] * 50_000, ["../x"]])
    elif case == 4:
        table["base_path"] = random.choice(
            [str(path.parents[1] / "outside"), "/", "..", "s3://b/t", str(path.parents[1] / "tables" / "good")]
        )
    elif case == 5:
        plan["tables"] = [copy.deepcopy(table) for _ in range(random.choice([2, 200]))]
    elif case == 6:
        table["instant"] = random.choice([at("23:00:00"), "99991231235959999", ".../../pwn", "1" * 17, at("11:00:00")])
    else:
        plan["created_at"] = random.choice(
            ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "2026-01-01", "x", "2026-01-01T00:00:00+99:99"]
        )
    path.write_text(json.dumps(signed(plan)))
    return str(case)


def _text(path: Path, plan: Any, random: Random) -> str:
    """A value that no serializer writes, and depth without end."""
    inner, key = random.choice(_places(plan))
    inner[key] = "@@here@@"
    value = random.choice([*VALUES, "[" * 100_000, '{"a":' * 100_000, "[" * 900_000 + "]" * 900_000])
    path.write_bytes(json.dumps(signed(plan)).replace('"@@here@@"', value).encode("utf-8", "surrogatepass"))
    return f"{key}={value[:30]!r}"


def _bytes(path: Path, plan: Any, random: Random) -> str:
    path.write_bytes(damaged(random, path.read_bytes()))
    return ""


def _not_a_file(path: Path, plan: Any, random: Random) -> str:
    return replaced(path, random)


def replaced(path: Path, random: Random) -> str:
    """Something else than a regular file in its place; returns what."""
    if path.is_dir() and not path.is_symlink():
        path.rename(path.with_name(f"{path.name}-was"))
    else:
        path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    how = random.choice(
        ["pipe", "folder", "loop", "sparse", "nowhere", "empty", "up", "zeros", "outside", "deep", "device"]
    )
    match how:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "loop" | "nowhere" | "up":
            path.symlink_to({"loop": path.name, "nowhere": "nowhere", "up": ".."}[how])
        case "outside":
            path.symlink_to(_outside(path))
        case "empty" | "zeros":
            path.write_bytes(bytes(0 if how == "empty" else 3_000_000))
        case "deep":
            path.write_text("[" * random.choice([990, 200_000]))
        case "device":
            _make_device(path)
        case _:
            path.touch()
            os.truncate(path, SPARSE_BYTES)
    return how


def _outside(path: Path) -> Path:
    root = next(parent for parent in path.parents if (parent / "outside").is_dir())
    return root / "outside" / "secret.yml"


def _make_device(path: Path) -> None:
    """One that gives zeros without end and takes all; a pipe where this user may not make a device."""
    try:
        os.mknod(path, 0o20666, os.makedev(1, 5))
    except OSError:
        os.mkfifo(path)
