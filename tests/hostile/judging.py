"""How a command ended over hostile input, and which promise that breaks."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from etc_policy.errors.plain_text import clean

_ERROR = re.compile(r"^(?:error|warning)\[(ETC\d+)\]: (.*)$", re.MULTILINE)
_ENDS = (0, 1, 2, 3, 4, 64)
#: What commands that need Spark say on the base install.
NO_SPARK = "ETC302"
#: The content of the file outside the project.
CANARY = "canary-outside-the-project"


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


def broken_promise(ended: Ended, honest: Ended) -> str | None:
    """The promise that a command over a hostile table breaks; None where all are kept."""
    found = [(code, message) for code, message in _ERROR.findall(ended.err) if code != NO_SPARK]
    wrong = [(code, message) for code, message in found if "bad" not in _of(message, ended.err)]
    checks = (
        (len([code for code in _errors(ended.err) if code != NO_SPARK]) > 1, "more than one error for one table"),
        (bool(wrong), f"an error that names neither table nor policy: {wrong[:1]}"),
        (ended.good != honest.good, "the good table's result is another one"),
    )
    return _broken_everywhere(ended) or next((message for is_broken, message in checks if is_broken), None)


def broken_project_promise(ended: Ended, honest: Ended | None = None) -> str | None:
    """The same of a command in a hostile project; `honest` is its end in a good one, where it should make no difference."""
    failed = ended.code not in (0, 1, 2)
    checks = (
        (failed and not _errors(ended.err), f"exit code {ended.code} without an error"),
        (honest is not None and not failed and ended.good != honest.good, "the good table's result is another one"),
    )
    return _broken_everywhere(ended) or next((message for is_broken, message in checks if is_broken), None)


def _broken_everywhere(ended: Ended) -> str | None:
    text = ended.out + ended.err
    shown = ended.err if ended.command.startswith("schema") else text
    checks = (
        (ended.signal is not None, f"killed by signal {ended.signal} after {ended.seconds:.1f} s"),
        (ended.code not in _ENDS, f"exit code {ended.code}"),
        ("Traceback" in text, "a traceback"),
        ("ETC009" in text, "an unexpected error"),
        (bool(ended.written), f"written outside the project: {ended.written}"),
        (len(ended.err) > 20_000, f"{len(ended.err):,} characters of errors"),
        (CANARY in text, "what lies outside the project is shown"),
        (clean(shown) != shown, "a terminal or CI would obey what is printed"),
    )
    return next((message for is_broken, message in checks if is_broken), None)


def _errors(err: str) -> list[str]:
    return re.findall(r"^error\[(ETC\d+)\]", err, re.MULTILINE)


def _of(message: str, err: str) -> str:
    """A message with the lines that say where it is."""
    start = err.index(message)
    return err[start : start + len(message) + 200]


def contents(folder: Path) -> dict[str, object]:
    """What is below a folder, less what etc keeps in tables."""
    found: dict[str, object] = {}
    for path in folder.rglob("*"):
        if not {".etc", ".heartbeat"} & set(path.parts):
            found[str(path)] = path.read_bytes() if path.is_file() and not path.is_symlink() else path.lstat().st_mode
    return found


def result_of_good(root: Path, command: str, out: str, err: str) -> Any:
    """What the command says of the good table, without times of the clock."""
    project = root / "project"
    match command.split():
        case ["metrics", *_]:
            text = (project / "target" / "m.prom").read_text() if (project / "target" / "m.prom").exists() else ""
            return re.findall(r'^etc_table_readable{policy="good".*} (.*)', text, re.MULTILINE)
        case ["history" | "undo" | "sync", *_]:
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
