"""Which release of Hudi was run on which table version with which granularity: played by etc itself on real tables.

python -m tests.integration.release_matrix [--releases 1.0.2 1.2.0]    (one Spark after the other; prints a table)

Each release writes tables of each version that it can write. Policies with each granularity then plan, apply and verify them
(`level: data`) under the same release, and a stock write of the same release follows. An oracle that shares no code with etc says
what each view holds.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from etc_policy.api.project import Project
from etc_policy.errors import SeveralErrors
from tests.integration.bench import SECOND
from tests.integration.history import EPOCH_MS, HISTORY, QUICK, Oracle, Views, Write, write_history
from tests.integration.payloads.tables import BUNDLES
from tests.integration.session import run_under_bundle

VERSIONS = (6, 8, 9)
WAYS = {
    "file_slice": "{granularity: file_slice}",
    "log_file": "{granularity: log_file}",
    "carry": "{granularity: log_file, carry: auto}",
}
RIGHT = "run"
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
    cells = [Cell(number, way) for number in BUNDLES[release] for way in WAYS]
    (root / "policies").mkdir()
    (root / "policies/all.yml").write_text("version: 1\npolicies:\n" + "".join(map(_policy, cells)))
    at = datetime.fromtimestamp(EPOCH_MS / 1000 + SECOND, UTC) + timedelta(seconds=LATENCY_S)
    with Project(root) as project:
        spark = project.environment.spark
        for cell in cells:
            written = root / str(cell.version)
            if not written.exists():
                write_history(spark, written, HISTORY, writer_options(release, cell.version))
            shutil.copytree(written, root / "lake" / cell.name)
        plan = project.plan(at=at)
        refused = {one.policy: one for one in plan.tables if one.action == "refused"}
        try:
            results = project.apply(plan, at=at)
        except SeveralErrors as error:
            results = error.report
        done = {one.policy: one for one in results.tables}
        found = {}
        for cell in cells:
            if cell.name in refused:
                found[cell.name] = f"refused, {refused[cell.name].reason_code}: {refused[cell.name].reason}"
                continue
            result = done[cell.name]
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


def play(releases: Sequence[str]) -> dict[str, dict[str, str]]:
    """The results of releases, each in a process of its own."""
    found = {}
    for release in releases:
        print(f"{release} ...", file=sys.stderr, flush=True)
        said = run_under_bundle(release, "tests.integration.release_matrix", "--release", release, timeout_seconds=1800)
        found[release] = json.loads(said.splitlines()[-1])
    return found


def table_rows(found: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """A Markdown table of the results, the newest release first."""
    yield f"| Hudi on Spark 3.5 | {' | '.join(f'table version {number}' for number in VERSIONS)} |"
    yield "|---|" + "---|" * len(VERSIONS)
    for release, cells in reversed(found.items()):
        yield f"| {release} | {' | '.join(_cell_text(cells, number) for number in VERSIONS)} |"


def _cell_text(cells: Mapping[str, str], number: int) -> str:
    found = {way: cells.get(Cell(number, way).name) for way in WAYS}
    if not any(found.values()):
        return "not written by it"
    run = [f"`{way}`" for way, said in found.items() if said == RIGHT]
    other: dict[str, list[str]] = {}
    for way, said in found.items():
        if said != RIGHT:
            other.setdefault(str(said).partition(":")[0], []).append(f"`{way}`")
    parts = [f"run: {', '.join(run)}"] if run else []
    return "; ".join(parts + [f"{why}: {', '.join(ways)}" for why, ways in other.items()])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--releases", nargs="+", choices=list(BUNDLES), default=list(BUNDLES))
    parser.add_argument("--release", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.release:
        with tempfile.TemporaryDirectory() as root:
            print(json.dumps(play_release(options.release, Path(root))))
        return 0
    found = play(options.releases)
    print("\n".join(table_rows(found)))
    return int(any(said.startswith(("wrong", "fails")) for cells in found.values() for said in cells.values()))


if __name__ == "__main__":
    sys.exit(main())
