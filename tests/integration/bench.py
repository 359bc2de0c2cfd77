"""A real table with a policy on it, and the product's own steps without the command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from etc_policy.hudi.log_times import fill_from_logs
from etc_policy.hudi.table import FileTableReader
from etc_policy.plan.builder import build_table_plan
from etc_policy.plan.commit_metadata import extra_metadata
from etc_policy.plan.model import make_plan
from etc_policy.policy.manifest import EventTime, Policy, Strategy, Writer
from etc_policy.run.file_lease import FileLease
from etc_policy.run.ports import Job
from etc_policy.run.runner import Runner
from etc_policy.run.table_files import HudiFiles
from etc_policy.spark.column_stats import fill_event_times
from etc_policy.spark.compactor import HudiCompactor
from etc_policy.table.state import TableState
from etc_policy.wiring import clock_ms
from tests.integration.history import EPOCH_MS, HISTORY, STRADDLING, Oracle, Views

ORACLE = Oracle.of(HISTORY)
#: The threshold of these tests, in seconds of event time: commits 1 to 3 and 5 hold events at or below it, 6 does not.
SECOND = 210
#: Views of the commits from this one on tell whether the cut is right.
AT_THE_CUT = STRADDLING.start


@dataclass
class Bench:
    """A table, its policy, and the product's own steps on it."""

    spark: object
    base: Path
    granularity: str = "log_file"
    index: str | None = None
    read_stats: bool = False

    @property
    def location(self) -> str:
        """Where the table lies, as a policy says it."""
        return str(self.base)

    def views(self) -> Views:
        return Views(self.spark, self.base)

    @property
    def policy(self) -> Policy:
        return Policy(
            name="t",
            table=self.location,
            event_time=EventTime(column="ts", unit="ms"),
            data_latency_ms=10_000,
            strategy=Strategy(granularity=self.granularity),
            writer=Writer(index=self.index),
        )

    @property
    def runner(self) -> Runner:
        return Runner(FileTableReader(), HudiFiles(), lambda: HudiCompactor(self.spark), FileLease, lambda _: None)

    def state(self) -> TableState:
        state = FileTableReader().read(self.location, self.policy.event_time)
        return fill_event_times(self.spark, self.policy, state) if self.read_stats else state

    def plan(self, second=SECOND, *, reads_logs=False):
        """A plan with threshold T at the given second; `etc plan` also reads log files of which commits have no times."""
        state = fill_from_logs(self.state(), self.policy, None) if reads_logs else self.state()
        now_ms = EPOCH_MS + second * 1000 + self.policy.data_latency_ms
        return make_plan(
            "2026-01-01T00:00:00Z", (build_table_plan(self.policy, state, now_ms=now_ms, clock_ms=clock_ms()),)
        )

    def apply(self, plan):
        return self.runner.apply(self.policy, plan.tables[0], plan.plan_id, None)

    def finish(self):
        """What `etc finish` does."""
        return list(self.runner.finish_others(self.policy, self.location))

    def publish(self, plan):
        table = plan.tables[0]
        extra = extra_metadata(table, plan.plan_id, None)
        state = self.state()
        job = Job(
            self.policy,
            self.location,
            state.table_version,
            state.metadata_partitions,
            table.instant,
            table.operations,
            extra,
        )
        job = HudiFiles().split(job, state) if job.splits else job
        HudiCompactor(self.spark).publish(job, lambda: None, lambda: None)

    def names_in(self, folder: str) -> list[str]:
        """What is below a folder of the table."""
        return [str(path) for path in (self.base / folder).rglob("*")]

    def properties_text(self) -> str:
        return (self.base / ".hoodie" / "hoodie.properties").read_text()

    def properties(self) -> list[str]:
        lines = self.properties_text().splitlines()
        return sorted(line for line in lines if not line.startswith("#"))


def check_views(views: Views, commits: list[str], since: int = 0) -> None:
    """RT, incremental and time travel as the oracle says, by Spark with and without the metadata table, and hudi-rs.

    Incremental and time travel are looked at for the commits since that number.
    """
    assert views.rt() == ORACLE.rt()
    assert views.rt_without_mdt() == ORACLE.rt()
    assert views.rust() == ORACLE.rt()
    for number, completed in enumerate(commits[since:], start=since):
        assert views.as_of(completed) == ORACLE.as_of(number), f"time travel to commit {number}"
        after = commits[number - 1] if number else "000"
        assert views.incremental(after, completed) == ORACLE.incremental(number), f"incremental of commit {number}"
