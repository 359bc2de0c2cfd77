"""A project with two days of history for the site: tables on disk as stock Hudi lays them out, planned by the planner.

`python -m tests.site.made_up DIR` writes it; then `etc docs generate --project-dir DIR --at 2024-03-04T12:00:00Z`.
"""

from __future__ import annotations

import json
import random
import sys
from datetime import UTC
from pathlib import Path

from etc_policy.hudi.table import FileTableReader
from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.commit_metadata import extra_metadata
from etc_policy.plan.model import make_plan
from etc_policy.policy.files import suite_names
from etc_policy.policy.reading import read_project
from etc_policy.policy.resolve import compile_project
from etc_policy.report.results import RunResults, TableVerification, VerificationReport
from etc_policy.report.run_files import RunFile, run_file_name
from etc_policy.run.results import TableResult, timed
from etc_policy.table.formats import iso_time
from etc_policy.table.instants import instant_from_ms
from etc_policy.verify.evidence import Evidence
from etc_policy.verify.ports import Coverage, ExpectationResult, Verification
from etc_policy.verify.prover import claim_of, verify_table
from tests.unit.hudi.table_folder import TableFolder, Written

NOW = "2024-03-04T12:00:00Z"
NOW_MS = 1_709_553_600_000
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
MARKUP = '<script>document.title = "taken"</script><b onclick="x()">&amp; "quoted"</b>'

POLICIES = """version: 1
policies:
  - name: orders_ro
    description: Orders of all shops, by the time at which they were placed
    table: lake/orders
    event_time_column: {column: ts, unit: ms}
    data_latency: 2h
    freshness: {target: 5h, warn_after: 5h, error_after: 8h}
  - name: payments_ro
    description: 'Payments and refunds. MARKUP'
    table: lake/payments
    event_time_column: {column: ts, unit: ms}
    data_latency: 1h
    freshness: {target: 4h, error_after: 12h}
  - name: clicks_ro
    table: lake/clicks
    event_time_column: {column: ts, unit: ms}
    data_latency: 30m
    freshness: {target: 3h, error_after: 6h}
  - name: returns_ro
    table: lake/not_there
    event_time_column: {column: ts, unit: ms}
    data_latency: 1h
""".replace("MARKUP", MARKUP.replace("'", "''"))

#: What a data verification of a table with lost rows brings.
LOST = (
    ExpectationResult(
        expectation="no_uncompacted_log_file_at_or_below_threshold",
        status="pass",
        observed={"log_files": 14, "log_files_at_or_below_threshold": 0, "late_log_files": 0, "examples": []},
    ),
    ExpectationResult(
        expectation="expect_ro_to_contain_rt_up_to",
        status="fail",
        observed={
            "promised_rows": 184_220,
            "missing": 3,
            "different": 1,
            "late_rows": 12,
            "rt_rows": 201_004,
            "null_event_times": 0,
            "samples": {
                "missing": [{"partition": "dt=2024-03-04", "key": f"pay-{n}"} for n in (88_120, 88_131, 90_007)],
                "different": [{"partition": MARKUP, "key": "pay-71002", "columns": ["amount", "currency"]}],
            },
        },
        message="3 missing, 1 different; for example key `pay-88120` in partition `dt=2024-03-04`",
    ),
    ExpectationResult(
        expectation="expect_no_key_twice", status="pass", observed={"ro_rows": 201_000, "duplicate_keys": 0}
    ),
    ExpectationResult(
        expectation="expect_freshness_within",
        status="warn",
        observed={"lag_ms": 4 * HOUR_MS + 7 * MINUTE_MS, "target_ms": 4 * HOUR_MS, "verdict": "warn"},
        message="RO lags 4h7m behind now",
    ),
    ExpectationResult(
        expectation="expect_column_values_to_not_be_null",
        status="error",
        message="[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `amuont` cannot be resolved",
    ),
)


def make_project(folder: Path, hours: int = 48) -> Path:
    """Write the project, its tables and its run files."""
    (folder / "policies").mkdir(parents=True)
    (folder / "policies" / "lake.yml").write_text(POLICIES)
    names = suite_names(folder)
    manifest = compile_project(read_project(str(folder), {}), names)
    orders, payments, clicks = (
        next(p for p in manifest.policies if p.name == f"{n}_ro") for n in ("orders", "payments", "clicks")
    )
    Maker(folder, orders, groups=6, every_ms=20 * MINUTE_MS, compact_every=9, hours=hours, late=0.012).make()
    Maker(
        folder, payments, groups=4, every_ms=30 * MINUTE_MS, compact_every=8, hours=hours, late=0.02, lost=True
    ).make()
    Maker(folder, clicks, groups=3, every_ms=HOUR_MS, compact_every=10_000, hours=min(hours, 15), tracked=False).make()
    return folder


class Maker:
    """Writes one table's past commit by commit, compacted as the planner says."""

    def __init__(self, folder, policy, *, groups, every_ms, compact_every, hours, late=0.0, lost=False, tracked=True):
        self.policy, self.every_ms, self.compact_every = policy, every_ms, compact_every
        self.late, self.lost, self.tracked = late, lost, tracked
        self.runs = folder / "target" / "runs"
        self.runs.mkdir(parents=True, exist_ok=True)
        self.table = TableFolder(Path(policy.table))
        self.random = random.Random(policy.name)
        self.start_ms, self.writes = NOW_MS - hours * HOUR_MS, hours * HOUR_MS // every_ms
        self.groups = [f"{self.random.getrandbits(64):016x}-{self.random.getrandbits(32):08x}-0" for _ in range(groups)]
        self.sizes = {group: self.random.randint(40, 90) * 1_000 for group in self.groups}
        self.compacted = 0

    def partition(self, group):
        return f"dt=2024-03-0{2 + self.groups.index(group) % 3}"

    def make(self):
        bases = tuple(self.written(group, log=False) for group in self.groups)
        self.table.commit(stamp(self.start_ms), stamp(self.start_ms + 40_000), *bases)
        for number in range(1, self.writes):
            at_ms = self.start_ms + number * self.every_ms
            self.write(at_ms)
            if number % self.compact_every == 0:
                self.apply(at_ms + 5 * MINUTE_MS)

    def written(self, group, *, log, event=None, **rest):
        self.sizes[group] += 0 if log else self.random.randint(0, 40) * 1_000
        size = self.random.randint(2, 9) * 1_000 if log else self.sizes[group]
        return Written(
            group, log=log, partition=self.partition(group), min_event=event, size=size, rows=size // 50, **rest
        )

    def write(self, at_ms):
        chosen = self.random.sample(self.groups, max(1, len(self.groups) * 2 // 3))
        logs = tuple(self.written(group, log=True, event=self.event(at_ms)) for group in sorted(chosen))
        self.table.commit(stamp(at_ms), stamp(at_ms + self.random.randint(8, 50) * 1000), *logs)

    def event(self, at_ms):
        delay = self.random.randint(2, 50) * MINUTE_MS
        if self.random.random() < self.late:
            delay = self.policy.data_latency_ms + self.random.randint(60, 300) * MINUTE_MS
        return at_ms - delay if self.tracked else None

    def apply(self, at_ms):
        state = self.state()
        planned = build_table_plan(self.policy, state, now_ms=at_ms, clock_ms=at_ms)
        plan = make_plan(iso_time(at_ms), (planned,))
        sha = f"{(at_ms // (12 * HOUR_MS)) * 2_654_435_761 % 2**64:016x}" * 2
        outcome = TableResult(
            policy=self.policy.name,
            base_path=str(self.table.base),
            status="refused",
            threshold_ms=planned.threshold_ms,
            reason=planned.reason,
            **timed(at_ms, at_ms + 70_400),
        )
        if planned.action == "compact":
            outcome = self.compact(planned, plan.plan_id, sha, at_ms)
        self.record(plan, sha, at_ms, outcome)

    def compact(self, planned, plan_id, sha, at_ms):
        merged = tuple(
            self.written(o.file_id, log=False, merged=len(o.log_files_compacted), previous=o.base_instant)
            for o in planned.operations
        )
        extra = extra_metadata(planned, plan_id, sha)
        self.table.compaction(planned.instant, stamp(at_ms + 70_000), *merged, extra=extra, plan_extra=extra)
        self.compacted += 1
        operations = planned.operations
        return TableResult(
            policy=self.policy.name,
            base_path=str(self.table.base),
            status="compacted",
            threshold_ms=planned.threshold_ms,
            instant=planned.instant,
            file_slices=len(operations),
            log_files=sum(len(o.log_files_compacted) for o in operations),
            bytes_read=sum(o.bytes_read for o in operations),
            bytes_written=sum(file.size for file in merged),
            watermark_predicted_ms=planned.watermark_after_ms,
            **timed(at_ms, at_ms + 70_400),
        )

    def record(self, plan, sha, at_ms, outcome):
        verification = self.verification(at_ms, outcome) if outcome.status == "compacted" else None
        known = {
            "completed_at": iso_time(at_ms + 90_000),
            "step_seconds": {"compact": 70.4, "verify": 14.2},
            "watermark_measured_ms": outcome.watermark_predicted_ms,
            "verification": verification,
        }
        result = outcome.model_copy(update=known)
        results = RunResults(plan_id=plan.plan_id, tables=(result,))
        self.save(RunFile(kind="apply", recorded_at=iso_time(at_ms + 90_000), git_sha=sha, plan=plan, results=results))

    def verification(self, at_ms, outcome):
        """The real verdict from metadata, and for a table that lost rows what the rows would say."""
        if self.lost and self.compacted >= self.writes // self.compact_every - 1:
            return Verification(
                level="sample",
                status="error",
                threshold_ms=outcome.threshold_ms,
                late_rows=12,
                expectations=LOST,
                coverage=Coverage(file_groups=4, file_groups_read=2, seed=7),
                not_checked=("expect_rows_to_be_fresh",),
            )
        state, history = FileTableReader().read_with_history(self.policy.table, self.policy.event_time)[:2]
        evidence = Evidence(self.policy, state, history, claim_of(self.policy, state, at_ms), at_ms)
        return verify_table(evidence, (), "metadata", no_spark)

    def save(self, run):
        (self.runs / run_file_name(run, len(self.groups))).write_text(run.model_dump_json())

    def state(self):
        return FileTableReader().read(self.policy.table, self.policy.event_time)


def no_spark():
    raise AssertionError("metadata alone")


def stamp(epoch_ms):
    return instant_from_ms(epoch_ms, UTC)


def add_odd_runs(folder: Path) -> None:
    """Runs that completed nothing, one of a newer version, one with markup wherever a text may stand."""
    runs = folder / "target" / "runs"
    orders, clicks = (str(folder.absolute() / "lake" / name) for name in ("orders", "clicks"))
    at_ms = NOW_MS - 90 * MINUTE_MS
    at = iso_time(at_ms)
    result = TableResult(
        policy="orders_ro",
        base_path=orders,
        status="stale",
        reason=f"the table changed {MARKUP}",
        hints=(MARKUP,),
        **timed(at_ms, at_ms + 200),
    )
    stale = RunFile(kind="apply", recorded_at=at, git_sha=MARKUP, results=RunResults(plan_id=MARKUP, tables=(result,)))
    later = iso_time(NOW_MS - 40 * MINUTE_MS)
    odd = ExpectationResult(expectation=MARKUP, status="fail", observed={MARKUP: MARKUP}, message=MARKUP)
    verification = Verification(level="data", status="fail", threshold_ms=1, expectations=(odd,))
    table = TableVerification(policy="clicks_ro", base_path=clicks, verification=verification)
    failed = RunFile(
        kind="verify", recorded_at=later, verifications=VerificationReport(observed_at=later, tables=(table,))
    )
    no_time = failed.model_copy(update={"recorded_at": MARKUP})
    for run in (stale, failed, no_time):
        (runs / run_file_name(run, 2)).write_text(run.model_dump_json())
    (runs / "20240304T110000000Z-apply-3.json").write_text(json.dumps({"schema_version": 99, "all": "new"}))


if __name__ == "__main__":
    make_project(Path(sys.argv[1]))
    add_odd_runs(Path(sys.argv[1]))
