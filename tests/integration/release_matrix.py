"""Which release of Hudi was run on which table version with which granularity: played by etc itself on real tables.

python -m tests.integration.release_matrix [--releases 1.0.2 1.2.0]    (one Spark after the other; prints a table)
python -m tests.integration.release_matrix --keep    (writes release_results.json, and the table of it in docs/concepts/tested.md)
python -m tests.integration.release_matrix --keep --pythons .venv/bin/python ../py312/bin/python    (that have what etc needs)

Each release writes tables of each version that it can write. Policies with each granularity then plan, apply and verify them
(`level: data`) under the same release, and a stock write of the same release follows. An oracle that shares no code with etc says
what each view holds.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from etc_policy.api.project import Project
from etc_policy.errors import SeveralErrors
from etc_policy.errors.codes import Code
from tests.integration.bench import SECOND
from tests.integration.history import EPOCH_MS, HISTORY, QUICK, Oracle, Views, Write, write_history
from tests.integration.payloads.tables import BUNDLES
from tests.integration.session import run_under_bundle

RESULTS = Path(__file__).with_name("release_results.json")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "concepts" / "tested.md"
_FIRST_CELL = "Hudi on Spark 3.5"
_TABLE = re.compile(rf"^\| {_FIRST_CELL} \|.*\n(?:\|.*\n)*", re.MULTILINE)
VERSIONS = (6, 8, 9)
#: With one whose jar no repository had on 2026-11-27, though its POM was there.
RELEASES = {**BUNDLES, "1.2.1": (6, 8, 9)}
WAYS = {
    "file_slice": "{granularity: file_slice}",
    "log_file": "{granularity: log_file}",
    "carry": "{granularity: log_file, carry: auto}",
}
RIGHT = "run"
NOT_SERVED = "not served here"
LATENCY_S = 10
#: A stock write after the compaction: one key anew, an update that wins, and a late one that loses.
LATER = Write(((12, "v7", 600), (2, "v7", 601), (3, "lost", 150)))


class Cell(NamedTuple):
    """A table of a release, and the way in which it is compacted."""

    version: int
    way: str

    @property
    def name(self) -> str:
        return f"t{self.version}_{self.way}"


def cells_of(release: str) -> list[Cell]:
    """Those of the table versions that a release writes."""
    return [Cell(number, way) for number in RELEASES[release] for way in WAYS]


def writer_options(release: str, number: int) -> dict[str, str]:
    """Event-time ordering as each release takes it."""
    payload = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
    options = {
        **QUICK,
        "hoodie.index.type": "SIMPLE",
        "hoodie.datasource.write.payload.class": payload,
        "hoodie.compaction.payload.class": payload,
    }
    if not release.startswith("0."):
        options |= {"hoodie.write.table.version": str(number), "hoodie.write.auto.upgrade": "false"}
    return options


def play_release(release: str, root: Path) -> dict[str, str]:
    """What became of each cell, by the name of its table; runs in a process of its own under the bundle."""
    cells = cells_of(release)
    (root / "policies").mkdir()
    (root / "policies/all.yml").write_text("version: 1\npolicies:\n" + "".join(map(_policy, cells)))
    at = datetime.fromtimestamp(EPOCH_MS / 1000 + SECOND, UTC) + timedelta(seconds=LATENCY_S)
    with Project(root, spark_log=root / "spark.log") as project:
        spark = project.environment.spark
        for cell in cells:
            written = root / str(cell.version)
            if not written.exists():
                write_history(spark, written, HISTORY, writer_options(release, cell.version))
            shutil.copytree(written, root / "lake" / cell.name)
        plan = project.plan(at=at)
        refused = {one.policy: one for one in plan.tables if one.action == "refused"}
        by_bundle: set[str | None] = set()
        try:
            results = project.apply(plan, at=at)
        except SeveralErrors as error:
            results = error.report
            by_bundle = {one.where.object_name for one in error.errors if one.where and one.code == Code.CANNOT_CARRY}
        done = {one.policy: one for one in results.tables}
        found = {}
        for cell in cells:
            if cell.name in refused:
                found[cell.name] = f"refused, {refused[cell.name].reason_code}: {refused[cell.name].reason}"
                continue
            result = done[cell.name]
            if cell.name in by_bundle:
                found[cell.name] = f"refused, {Code.CANNOT_CARRY}: {result.reason}"
                continue
            passed = result.verification is not None and result.verification.status == "pass"
            if result.status != "compacted" or not passed:
                found[cell.name] = f"fails: {result.status} {result.reason or result.verification}"[:600]
                continue
            fault = _fault(spark, root / "lake" / cell.name, writer_options(release, cell.version))
            found[cell.name] = fault or RIGHT
    return found


def _policy(cell: Cell) -> str:
    return (
        f"  - {{name: {cell.name}, table: lake/{cell.name}, event_time_column: {{column: ts, unit: ms}},\n"
        f"    data_latency: {LATENCY_S}s, strategy: {WAYS[cell.way]}, verify: {{level: data}},\n"
        "    writer: {index: simple, compaction: none}}\n"
    )


def _fault(spark: object, base: Path, options: Mapping[str, str]) -> str | None:
    """What a view shows wrongly, now and after a stock write."""
    views, oracle = Views(spark, base), Oracle.of(HISTORY)
    if views.rt() != oracle.rt():
        return f"wrong: RT is {views.rt()}"
    ro = views.ro()
    if wrong := {key: ro.get(key) for key, value in oracle.rt_up_to(SECOND).items() if ro.get(key) != value}:
        return f"wrong: RO has {wrong}"
    write_history(spark, base, (LATER,), dict(options), len(HISTORY))
    if views.rt() != Oracle.of((*HISTORY, LATER)).rt():
        return f"wrong: RT after a stock write is {views.rt()}"
    return None


def play(python: str, release: str) -> dict[str, str]:
    """The results of a release, in a process of its own by an interpreter."""
    print(f"{python} {release} ...", file=sys.stderr, flush=True)
    arguments = ("tests.integration.release_matrix", "--release", release)
    try:
        said = run_under_bundle(release, *arguments, timeout_seconds=1800, python=python)
    except AssertionError as error:
        if "Spark could not fetch" not in str(error):
            raise
        return {cell.name: NOT_SERVED for cell in cells_of(release)}
    found: dict[str, str] = json.loads(said.splitlines()[-1])
    return found


def kept() -> dict[str, Any]:
    """The results that are kept, by Python and release: its day, and what became of each cell."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def keep(python: str, release: str, cells: Mapping[str, str]) -> None:
    """Put the results of a release into the file, and the table of all that is there into the page."""
    results, today = kept(), f"{datetime.now(UTC):%Y-%m-%d}"
    ask = "import sys; print('.'.join(map(str, sys.version_info[:2])))"
    version = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.strip()
    results.setdefault(version, {})[release] = {"day": today, "cells": cells}
    RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    PAGE.write_text(with_table(PAGE.read_text("utf-8"), results), "utf-8")


def with_table(page: str, results: Mapping[str, Any]) -> str:
    """The page with the table of the results in place of the one that it has."""
    return _TABLE.sub(lambda _: "\n".join(table_rows(results)) + "\n", page, count=1)


def table_rows(results: Mapping[str, Any]) -> Iterator[str]:
    """A Markdown table of the results, the newest release first; a cell has what every Python found there."""
    yield f"| {_FIRST_CELL} | {' | '.join(f'table version {number}' for number in VERSIONS)} | Python |"
    yield "|---|" + "---|" * (len(VERSIONS) + 1)
    for release in reversed(RELEASES):
        pythons = [python for python in results if release in results[python]]
        cells = [results[python][release]["cells"] for python in pythons]
        if cells:
            found = (_cell_text(cells, number) for number in VERSIONS)
            yield f"| {release} | {' | '.join(found)} | {', '.join(pythons)} |"


def _cell_text(cells: Sequence[Mapping[str, str]], number: int) -> str:
    ways: dict[str, list[str]] = {}
    for way in WAYS:
        found = {one[name].partition(":")[0] for one in cells if (name := Cell(number, way).name) in one}
        if found:
            ways.setdefault(" and ".join(sorted(found)), []).append(f"`{way}`")
    if len(ways) == 1:
        return next(iter(ways))
    return "; ".join(f"{what}: {', '.join(names)}" for what, names in ways.items()) or "not written by it"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--releases", nargs="+", choices=list(RELEASES), default=list(RELEASES))
    parser.add_argument("--pythons", nargs="+", default=[sys.executable])
    parser.add_argument("--keep", action="store_true", help="keep the results, and make the page's table")
    parser.add_argument("--release", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.release:
        with tempfile.TemporaryDirectory() as root:
            print(json.dumps(play_release(options.release, Path(root))))
        return 0
    wrong = False
    for python, release in product(options.pythons, options.releases):
        cells = play(python, release)
        print(json.dumps({release: cells}, indent=1), flush=True)
        wrong = wrong or any(said.startswith(("wrong", "fails")) for said in cells.values())
        if options.keep:
            keep(python, release, cells)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
