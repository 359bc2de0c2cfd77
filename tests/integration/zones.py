"""Real tables whose writers, `etc`, Spark's session and timeline are in different zones. `python -m tests.integration.zones`

runs the whole matrix (see `--help`); test_zones.py runs some of its cases. The writers' zone is the default zone of their
Java; `etc` runs as a process with its own `TZ`, over all tables of a case's environment in one run.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby, product
from pathlib import Path
from zoneinfo import ZoneInfo

from etc_policy.spark.session import start_spark
from tests.integration.history import EPOCH_MS, QUICK, SCHEMA, WRITER, Views

REPOSITORY = Path(__file__).resolve().parents[2]
ZONES = ("UTC", "America/Los_Angeles", "Asia/Tokyo", "Asia/Kolkata", "Europe/Paris")
VERSIONS = (6, 8, 9)
NOW_MS = EPOCH_MS + 400_000
_COMMITS = (((1, 100), (2, 10), (3, 20)), ((2, 60),), ((2, 900),))
#: A metadata table that was compacted at a late instant misses what completes before that one.
_COMPACTING = {"hoodie.metadata.compact.max.delta.commits": "1"}
_GENERATOR = "org.apache.hudi.common.table.timeline.HoodieInstantTimeGenerator"


@dataclass(frozen=True, order=True)
class Case:
    """Who is where; `timeline` is the table's own declaration."""

    etc: str
    session: str
    timeline: str
    writer: str
    version: int

    @property
    def name(self) -> str:
        return f"{self.timeline}_{self.writer.replace('/', '_')}_{self.version}".lower()

    @property
    def is_readable(self) -> bool:
        """Whether `etc` can know in which zone the instants are."""
        now = datetime.now(UTC)
        return self.timeline == "UTC" or _offset(self.etc, now) == _offset(self.writer, now)


def _offset(zone, moment):
    return moment.astimezone(ZoneInfo(zone)).utcoffset()


def write_tables(spark, folder: Path, cases: Iterable[Case]) -> None:
    """The table of each case, once for all environments that look at it."""
    for case in sorted(cases, key=lambda case: (case.timeline, case.writer)):
        if not (folder / case.name).exists():
            with_zone(spark, case.writer)
            _write(spark, folder / case.name, case)
    with_zone(spark, "UTC")


def with_zone(spark, zone: str) -> None:
    """Java goes on as one that was started in another zone: there it has made no instant yet."""
    jvm = spark._jvm
    jvm.java.util.TimeZone.setDefault(jvm.java.util.TimeZone.getTimeZone(zone))
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    last = jvm.java.lang.Class.forName(_GENERATOR, True, loader).getDeclaredField("LAST_INSTANT_TIME")
    last.setAccessible(True)
    last.get(None).set("0")


def _write(spark, base: Path, case: Case) -> None:
    options = {**WRITER, **QUICK, **_COMPACTING, "hoodie.table.timeline.timezone": case.timeline}
    options |= {"hoodie.write.table.version": str(case.version), "hoodie.write.auto.upgrade": "false"}
    for number, rows in enumerate(_COMMITS):
        found = [(key, "a", f"v{number}", EPOCH_MS + second * 1000) for key, second in rows]
        frame = spark.createDataFrame(found, SCHEMA).coalesce(1)
        mode = "append" if number else "overwrite"
        frame.write.format("hudi").options(**options).mode(mode).save(str(base))


def run_cases(spark, written: Path, folder: Path, cases: Iterable[Case]) -> Iterator[tuple[Case, list[str]]]:
    """What is wrong in each case, nothing where all is right; one run of `etc` for each of its environments."""
    for (zone, session), together in groupby(sorted(cases), key=lambda case: (case.etc, case.session)):
        several, project = list(together), folder / f"{zone}_{session}".replace("/", "_")
        _make_project(project, written, several)
        applied = etc(project, zone, "apply", "--yes", "--conf", f"spark.sql.session.timeZone={session}")
        planned = etc(project, zone, "plan")
        for case in several:
            yield case, list(_wrong(spark, project / "lake" / case.name, case, applied[case.name], planned[case.name]))
        shutil.rmtree(project)


def _make_project(project: Path, written: Path, cases: list[Case]) -> None:
    (project / "policies").mkdir(parents=True)
    policies = []
    for case in cases:
        table = shutil.copytree(written / case.name, project / "lake" / case.name)
        granularity = "file_slice" if case.version == 6 else "log_file"
        policies.append(
            f"{{name: {case.name}, table: {table}, event_time_column: ts, data_latency: 3m, "
            f"strategy: {{type: event_time, granularity: {granularity}}}, verify: {{suite: ro_complete, level: data}}}}"
        )
    lines = "".join(f"  - {policy}\n" for policy in policies)
    (project / "policies" / "zones.yml").write_text(f"version: 1\npolicies:\n{lines}")


def etc(project: Path, zone: str, *arguments: str) -> dict[str, dict]:
    """The tables in the output of a command of `etc` in a zone."""
    command = [sys.executable, "-m", "etc_policy.cli.main", *arguments, "--project-dir", str(project)]
    command += ["--at", str(NOW_MS), "--output", "json"]
    environment = {**os.environ, "TZ": zone}
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, cwd=REPOSITORY, env=environment)
    assert done.stdout, done.stderr[-4000:]
    return {table["policy"]: table for table in json.loads(done.stdout)["tables"]}


def _wrong(spark, base: Path, case: Case, applied: dict, planned: dict) -> Iterable[str]:
    if not case.is_readable:
        if (planned["action"], planned["reason_code"]) != ("refused", "writers_zone") or applied["status"] != "refused":
            yield f"not refused: {applied['status']}, {planned['reason']}"
        if [*base.glob(".hoodie/*.compaction.*"), *base.glob(".hoodie/timeline/*.compaction.*")]:
            yield "a compaction was planned"
        return
    verdict = (applied["verification"] or {}).get("status")
    if (applied["status"], verdict) != ("compacted", "pass"):
        yield f"{applied['status']}, verification {verdict}: {applied['reason']}"
    if (planned["action"], planned["warnings"]) != ("nothing_due", []):
        yield f"the next plan: {planned['action']}, {planned['reason']}, {planned['warnings']}"
    yield from _wrong_views(spark, base)
    if case.version > 6:
        (done,) = (base / ".hoodie" / "timeline").glob("*.commit")
        requested, completed = done.stem.split("_")
        if not 0 < int(completed) - int(requested) < 10**8:
            yield f"requested at {requested}, completed at {completed}"


def _wrong_views(spark, base: Path) -> Iterable[str]:
    views = Views(spark, base)
    read_optimized = {
        "Spark": views.ro(),
        "Spark without the metadata table": views.read(
            hoodie__query__as__ro__table="true", hoodie__metadata__enable="false"
        ),
        "hudi-rs": views.rust(read_optimized=True),
    }
    for reader, rows in read_optimized.items():
        if rows not in ({1: "v0", 2: "v1", 3: "v0"}, {1: "v0", 2: "v2", 3: "v0"}):
            yield f"RO by {reader}: {rows}"
    if views.rt() != {1: "v0", 2: "v2", 3: "v0"}:
        yield f"RT: {views.rt()}"


def all_cases(etc_zones=ZONES, sessions=ZONES) -> list[Case]:
    """Every writer on every kind of table, in every environment."""
    tables = list(product(("UTC", "LOCAL"), ZONES, VERSIONS))
    return [Case(zone, session, *table) for zone in etc_zones for session in sessions for table in tables]


def main() -> None:
    parser = argparse.ArgumentParser(description="the matrix of zones on real tables")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--etc", action="append", choices=ZONES, help="only these zones of etc (default: all)")
    parser.add_argument("--session", action="append", choices=ZONES, help="only these zones of Spark's session")
    chosen = parser.parse_args()
    cases = all_cases(chosen.etc or ZONES, chosen.session or ZONES)
    spark = start_spark({"spark.sql.shuffle.partitions": "1"}, chosen.folder / "spark.log")
    write_tables(spark, chosen.folder / "written", cases)
    counts: Counter[str] = Counter()
    for case, wrong in run_cases(spark, chosen.folder / "written", chosen.folder / "runs", cases):
        counts[outcome := "WRONG" if wrong else "right" if case.is_readable else "refused"] += 1
        print(outcome, case, *wrong, flush=True)
    spark.stop()
    print(f"{counts.total()} cases: {', '.join(f'{count} {outcome}' for outcome, count in sorted(counts.items()))}")
    sys.exit(counts["WRONG"] > 0)


if __name__ == "__main__":
    main()
