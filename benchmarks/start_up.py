"""What starting Spark costs `etc apply` on a small table, by Ivy and by the jar that it keeps.

    python -m benchmarks.start_up [--runs 3]

The table is the demo's; each run compacts what is left to do in a copy of it, verifies it row by row and syncs the catalog.
*Before* knows no jar of earlier runs: Spark resolves and copies them, and Java compiles as it does for long work. *Now* has the
bundle on its class path, and its quick compiler. The two take turns. Seconds of the processor are those of the whole tree of
processes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.figures import add_json, write_figures
from benchmarks.variables import COMPILED_ONCE

PROJECT = """name: start_up
profiles:
  start_up:
    target: now
    targets:
      now: {}
      before: {spark: {confs: {spark.driver.extraJavaOptions: "-Djdk.attach.allowAttachSelf=true"}}}
"""
ETC = "import sys; from etc_policy.cli.main import main; sys.exit(main())"
_TICKS = os.sysconf("SC_CLK_TCK")
_POLL_SECONDS = 0.1


def etc(project: Path, *arguments: str, defaults: Path | None = None) -> tuple[float, float]:
    """Seconds and the processor's seconds of a run; where Spark has a folder of defaults, it resolves its jars."""
    command = ["-c", ETC, *arguments, "--project-dir", str(project), "--quiet"]
    return measured(command, **({"SPARK_CONF_DIR": str(defaults)} if defaults else {}))


def measured(arguments: Sequence[str], **variables: str) -> tuple[float, float]:
    """Seconds and the processor's seconds of a run of Python, with all below it."""
    environment, used = {**os.environ, **COMPILED_ONCE, **variables}, 0.0
    began = time.perf_counter()
    with subprocess.Popen([sys.executable, *arguments], env=environment, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            used = max(used, used_seconds(process.pid))
            time.sleep(_POLL_SECONDS)
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)} ended with {process.returncode}")
    return time.perf_counter() - began, used


def used_seconds(root: int) -> float:
    """What a process and all below it, dead ones too, have used of the processor so far."""
    found: dict[int, tuple[int, int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        found[int(entry.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    tree = {root}
    while more := {pid for pid, (parent, _) in found.items() if parent in tree} - tree:
        tree |= more
    return sum(found[pid][1] for pid in tree if pid in found) / _TICKS


def main() -> None:
    """Build the demo's table, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="so often each of the two (default: 3)")
    add_json(parser)
    given = parser.parse_args()
    runs = given.runs
    with tempfile.TemporaryDirectory(prefix="etc-start-up-") as name:
        built = Path(name) / "built"
        shutil.copytree(Path(__file__).resolve().parents[1] / "policies", built / "policies")
        (built / "etc_project.yml").write_text(PROJECT)
        etc(built, "demo")
        policy = built / "policies" / "flights.yml"  # what the demo has left is due by a shorter promise
        policy.write_text(
            policy.read_text().replace("data_latency: 6h", "data_latency: 1h").replace("level: logs", "level: data")
        )
        defaults = Path(name) / "defaults"
        defaults.mkdir()
        (defaults / "spark-defaults.conf").touch()
        ways: dict[str, list[tuple[float, float]]] = {"before": [], "now": []}
        for number in range(2 * runs):
            way = list(ways)[number % 2]
            project = Path(name) / f"{number}"
            shutil.copytree(built, project)
            arguments = ("apply", "--yes", "--target", way)
            ways[way].append(etc(project, *arguments, defaults=defaults if way == "before" else None))
    before, now = ([median(column) for column in zip(*ways[way], strict=True)] for way in ways)
    print(f"{'':20}{'wall':>8}{'CPU':>8}")
    for what, (wall, used) in (("etc apply, before", before), ("etc apply", now)):
        print(f"{what:20}{wall:6.1f} s{used:6.1f} s")
    print(f"{'ratio':20}{now[0] / before[0]:8.2f}{now[1] / before[1]:8.2f}")
    figures = {
        name: {"wall_seconds": wall, "cpu_seconds": used}
        for name, (wall, used) in zip(ways, (before, now), strict=True)
    }
    write_figures(given.json, figures)


if __name__ == "__main__":
    main()
