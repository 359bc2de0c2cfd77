"""What starting Spark costs `etc apply` on a small table, with what earlier runs have kept and without.

    python -m benchmarks.start_up [--runs 3]

The table is the demo's; each run compacts what is left to do in a copy of it, verifies it row by row and syncs the catalog.
*Before* has nothing of earlier runs: Spark resolves and copies its jars, Java loads and checks its classes one by one, and
compiles as it does for long work. *Now* has known jars, Java's archive of classes, and its quick compiler. The two take
turns. Seconds of the processor are those of the whole tree of processes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
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
AT = "2013-01-03T12:00:00Z"
_ETC = "import sys; from etc_policy.cli.main import main; sys.exit(main())"
_TICKS = os.sysconf("SC_CLK_TCK")
_POLL_SECONDS = 0.1
#: After this a list of classes counts as whole; and how long the archive may take, behind all other work.
_QUIET_SECONDS, _MAKE_SECONDS = 11, 900


def etc(project: Path, *arguments: str, cache: Path | None = None) -> tuple[float, float]:
    """Seconds and the processor's seconds of a run."""
    environment = {**os.environ, **COMPILED_ONCE, **({"XDG_CACHE_HOME": str(cache)} if cache else {})}
    command = [sys.executable, "-c", _ETC, *arguments, "--project-dir", str(project), "--quiet"]
    began, used = time.perf_counter(), 0.0
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            used = max(used, _used_seconds(process.pid))
            time.sleep(_POLL_SECONDS)
    if process.returncode:
        raise SystemExit(f"etc {' '.join(arguments)} ended with {process.returncode}")
    return time.perf_counter() - began, used


def _used_seconds(root: int) -> float:
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


def _keep(built: Path, cache: Path) -> None:
    """Run until all is kept that later runs start by: the jars, then a list of classes, then the archive of them."""
    for number in range(3):
        project = cache.with_name(f"keep-{number}")
        shutil.copytree(built, project)
        etc(project, "apply", "--yes", "--at", AT, cache=cache)
        time.sleep(_QUIET_SECONDS)
    until = time.monotonic() + _MAKE_SECONDS
    while not list(cache.glob("etc-policy/classes-*.jsa")):
        if time.monotonic() > until:
            raise SystemExit("Java's archive of classes was not made")
        time.sleep(1)


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
        kept = Path(name) / "kept"
        _keep(built, kept)
        ways: dict[str, list[tuple[float, float]]] = {"before": [], "now": []}
        for number in range(2 * runs):
            way = list(ways)[number % 2]
            project, cache = Path(name) / f"{number}", Path(name) / f"cache-{number}"
            shutil.copytree(built, project)
            arguments = ("apply", "--yes", "--at", AT, "--target", way)
            ways[way].append(etc(project, *arguments, cache=cache if way == "before" else kept))
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
