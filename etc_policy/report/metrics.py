"""What Prometheus is given about each table: gauges named by its conventions, times in seconds since 1970 (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import get_args

from etc_policy.policy.manifest import Level, Policy
from etc_policy.policy.selection import FreshnessStatus
from etc_policy.report.results import TableFreshness
from etc_policy.run.results import SyncStatus, TableResult, TableStatus
from etc_policy.table.partitions import PartitionsFreshness
from etc_policy.verify.ports import CheckStatus

#: Every sample has these labels; a gauge of states has `status` after them, one of steps `step`.
LABELS = ("policy", "table", "target")

_THOUSAND = 1000
#: So many partitions of a table have a sample of their own.
WORST_PARTITIONS = 10


@dataclass(frozen=True, slots=True)
class Gauge:
    """A gauge: its name, its help text and the label it has beyond LABELS."""

    name: str
    documentation: str
    extra_label: str | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """All its label names, in the order of its samples' values."""
        return LABELS if self.extra_label is None else (*LABELS, self.extra_label)


@dataclass(frozen=True, slots=True)
class MetricSample:
    """One value of a gauge; `extra` is the value of its extra label."""

    gauge: Gauge
    value: float
    extra: str | None = None


@dataclass(frozen=True, slots=True)
class TableObservation:
    """What is known of one table now: its policy, its freshness at `observed_at_ms`, and its last run where one is known."""

    policy: Policy
    target: str
    observed_at_ms: int
    freshness: TableFreshness
    last_run: TableResult | None = None

    @property
    def label_values(self) -> tuple[str, str, str]:
        """The values of LABELS."""
        return (self.policy.name, self.policy.table, self.target)


OBSERVED = Gauge("etc_observed_timestamp_seconds", "When the table was last read.")
READABLE = Gauge("etc_table_readable", "1 when the table's metadata could be read, else 0.")
FRESHNESS = Gauge("etc_freshness_status", "1 for the table's freshness status now, 0 for the others.", "status")
COMPLETE_UNTIL = Gauge(
    "etc_complete_until_timestamp_seconds",
    "RO holds every row with event time up to here, if no data are later than data_latency.",
)
COMPLETE_UNTIL_PROOF = Gauge(
    "etc_complete_until_proof", "1 for the level of verification that proves complete_until, 0 for the others.", "level"
)
COMPLETE_UNTIL_PROVED = Gauge("etc_complete_until_proved_timestamp_seconds", "When complete_until was proved.")
LAG = Gauge("etc_completeness_lag_seconds", "How far the completeness of RO is behind now.")
TARGET = Gauge("etc_freshness_target_seconds", "The lag that the policy promises.")
WARN_AFTER = Gauge("etc_freshness_warn_after_seconds", "The lag from which on the policy warns.")
ERROR_AFTER = Gauge("etc_freshness_error_after_seconds", "The lag from which on the policy fails.")
THRESHOLD = Gauge("etc_threshold_timestamp_seconds", "Event-time threshold of the last completed compaction by etc.")
WATERMARK = Gauge(
    "etc_watermark_timestamp_seconds",
    "A millisecond before the smallest event time in log files that are not compacted; absent when none is left.",
)
MIN_EVENT_TIME = Gauge(
    "etc_log_files_min_event_timestamp_seconds",
    "Smallest event time in log files that are not compacted; bounded by when a file was written where unknown.",
)
LOG_FILES = Gauge("etc_log_files", "Log files that are not compacted.")
LOG_BYTES = Gauge("etc_log_files_bytes", "Size of the log files that are not compacted.")
FILE_SLICES = Gauge("etc_log_file_slices", "File slices that have log files which are not compacted.")
UNKNOWN_FILES = Gauge("etc_log_files_unknown", "Log files that are not compacted and whose event times are unknown.")
LAST_COMMIT = Gauge("etc_last_commit_timestamp_seconds", "When the writers last completed a commit.")
LATE_WRITES = Gauge(
    "etc_late_writes", "Writes to file groups with events at or below the threshold that its plan had not seen."
)
LATE_ROWS = Gauge("etc_late_rows_upper_bound", "All rows of the late writes: late rows are at most as many.")
REGRESSION = Gauge(
    "etc_completeness_regression_seconds", "How far late data set the completeness of RO back from the threshold."
)
LATENCY = Gauge("etc_data_latency_seconds", "The policy's data_latency.")
LATENCY_P99 = Gauge("etc_observed_latency_p99_seconds", "From event to commit: 99 % of the writes took at most this.")
LATENCY_MAX = Gauge("etc_observed_latency_max_seconds", "From event to commit: the most that any write took.")
PARTITIONS = Gauge(
    "etc_partitions",
    "Partitions that are open, closed (all of it has arrived; RO lacks some, or that is not proved) and done (RO holds all of it "
    "that counts).",
    "status",
)
PARTITIONS_UNPARSED = Gauge("etc_partitions_unparsed", "Partitions whose paths do not fit the policy's partition_time.")
PARTITION_REOPENINGS = Gauge(
    "etc_partition_reopenings", "How often late data reached partitions that were done, in all."
)
PARTITION_EVENTS_UNSENT = Gauge(
    "etc_partition_events_unsent", "Events of partitions that an action of the policy has not taken yet.", "action"
)
PARTITION_COMPLETE_UNTIL = Gauge(
    "etc_partition_complete_until_timestamp_seconds",
    "How far RO is complete in the worst ten partitions that have log files which are not compacted.",
    "partition",
)
RUN_TIME = Gauge("etc_last_run_timestamp_seconds", "When the last run of etc apply ended.")
RUN_STATUS = Gauge("etc_last_run_status", "1 for the status of the last run of etc apply, 0 for the others.", "status")
RUN_READ = Gauge("etc_last_run_read_bytes", "Bytes that the last run read to compact.")
RUN_WRITTEN = Gauge("etc_last_run_written_bytes", "Bytes of the base files that the last run wrote.")
RUN_FILES = Gauge("etc_last_run_log_files", "Log files that the last run compacted.")
RUN_SECONDS = Gauge("etc_last_run_duration_seconds", "Wall-clock time of each step of the last run.", "step")
RUN_VERIFICATION = Gauge(
    "etc_last_run_verification_status", "1 for the verdict over the last run, 0 for the others.", "status"
)
RUN_SYNC = Gauge(
    "etc_last_run_sync_status", "1 for what became of the RO table's properties in the last run, 0 else.", "status"
)
RUN_LATE_ROWS = Gauge("etc_last_run_late_rows", "Rows at or below the threshold that came after the plan was made.")

RUNS_IN_A_ROW = Gauge(
    "etc_runs_without_progress",
    "The last runs of etc apply in a row that brought RO no further, though something was due.",
)
RUNS_OF_DAY = Gauge("etc_runs_of_day", "Runs of etc apply that ended in the last 24 hours.")
RUNS_STARVED = Gauge(
    "etc_runs_of_day_without_progress", "Of the runs of the last 24 hours those that brought RO no further."
)
HELD_BACK = Gauge("etc_held_back_file_slices", "File slices that earlier runs left out and that hold RO back now.")

#: In the order of their definitions.
GAUGES = tuple(one for one in vars().values() if isinstance(one, Gauge))


def table_samples(observation: TableObservation) -> tuple[MetricSample, ...]:
    """Every sample of one table; what is not known has none."""
    run = () if observation.last_run is None else tuple(_run_samples(observation.last_run))
    partitions = observation.freshness.partitions
    of_partitions = () if partitions is None else tuple(_partition_samples(partitions))
    return (*_freshness_samples(observation), *of_partitions, *_late_samples(observation), *run)


def _freshness_samples(observation: TableObservation) -> Iterator[MetricSample]:
    found, limits = observation.freshness, observation.policy.freshness
    yield MetricSample(OBSERVED, observation.observed_at_ms / _THOUSAND)
    yield MetricSample(READABLE, float(found.error_code is None))
    yield from _states(FRESHNESS, get_args(FreshnessStatus), found.status)
    yield from _known(COMPLETE_UNTIL, _seconds(found.complete_until_ms))
    if found.complete_until_proof is not None:
        yield from _states(COMPLETE_UNTIL_PROOF, tuple(Level.__members__), found.complete_until_proof.level)
        yield from _known(COMPLETE_UNTIL_PROVED, _seconds(found.complete_until_proof.proved_at_ms))
    yield from _known(LAG, found.lag_seconds)
    yield from _known(TARGET, _seconds(limits.target_ms))
    yield from _known(WARN_AFTER, _seconds(limits.warn_after_ms))
    yield from _known(ERROR_AFTER, _seconds(limits.error_after_ms))
    yield from _known(THRESHOLD, _seconds(found.threshold_ms))
    yield from _known(WATERMARK, _seconds(found.watermark_ms))
    yield from _known(MIN_EVENT_TIME, None if found.watermark_ms is None else (found.watermark_ms + 1) / _THOUSAND)
    yield from _known(LOG_FILES, found.remaining_log_files)
    yield from _known(LOG_BYTES, found.remaining_log_bytes)
    yield from _known(FILE_SLICES, found.remaining_file_slices)
    yield from _known(UNKNOWN_FILES, found.unknown_log_files)
    if found.remaining_log_files is not None:
        yield MetricSample(HELD_BACK, found.held_back_file_slices)
        yield MetricSample(RUNS_IN_A_ROW, found.runs_without_progress)
        yield MetricSample(RUNS_OF_DAY, found.runs_of_day)
        yield MetricSample(RUNS_STARVED, found.runs_of_day_without_progress)
    if found.last_commit_age_seconds is not None:
        yield MetricSample(LAST_COMMIT, observation.observed_at_ms / _THOUSAND - found.last_commit_age_seconds)


def _partition_samples(found: PartitionsFreshness) -> Iterator[MetricSample]:
    """Counts, and the worst few by name: a label for each of many partitions would be too much for Prometheus."""
    counts = found.counts()
    if found.unparsed or any(counts.values()):  # else the policy does not say when partitions are done
        yield from (MetricSample(PARTITIONS, count, status) for status, count in counts.items())
        yield MetricSample(PARTITIONS_UNPARSED, found.unparsed)
    counted = [one.reopened for one in found.partitions if one.reopened is not None]
    if counted:
        yield MetricSample(PARTITION_REOPENINGS, sum(counted))
    yield from (MetricSample(PARTITION_EVENTS_UNSENT, count, action) for action, count in found.unsent.items())
    for one in [one for one in found.partitions if one.log_files][:WORST_PARTITIONS]:
        yield MetricSample(PARTITION_COMPLETE_UNTIL, one.complete_until_ms / _THOUSAND, one.partition)


def _late_samples(observation: TableObservation) -> Iterator[MetricSample]:
    late, latency = observation.freshness.late_data, observation.freshness.data_latency
    if late is not None:
        yield MetricSample(LATE_WRITES, late.writes)
        yield MetricSample(LATE_ROWS, late.rows_at_most)
        yield MetricSample(REGRESSION, late.regression_ms / _THOUSAND)
    yield MetricSample(LATENCY, observation.policy.data_latency_ms / _THOUSAND)
    if latency is not None and latency.judged is not None:
        yield MetricSample(LATENCY_P99, latency.judged.p99_ms / _THOUSAND)
        yield MetricSample(LATENCY_MAX, latency.judged.max_ms / _THOUSAND)


def _run_samples(run: TableResult) -> Iterator[MetricSample]:
    yield MetricSample(RUN_TIME, datetime.fromisoformat(run.completed_at).timestamp())
    yield from _states(RUN_STATUS, get_args(TableStatus), run.status)
    yield MetricSample(RUN_READ, run.bytes_read)
    yield MetricSample(RUN_WRITTEN, run.bytes_written)
    yield MetricSample(RUN_FILES, run.log_files)
    for step, seconds in run.step_seconds.items():
        yield MetricSample(RUN_SECONDS, seconds, step)
    if run.verification is not None:
        yield from _states(RUN_VERIFICATION, get_args(CheckStatus), run.verification.status)
        yield from _known(RUN_LATE_ROWS, run.verification.late_rows)
    if run.sync is not None:
        yield from _states(RUN_SYNC, get_args(SyncStatus), run.sync.status)


def _known(gauge: Gauge, value: float | None) -> Iterable[MetricSample]:
    return () if value is None else (MetricSample(gauge, value),)


def _states(gauge: Gauge, states: Iterable[str], current: str) -> Iterator[MetricSample]:
    return (MetricSample(gauge, float(state == current), state) for state in states)


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / _THOUSAND
