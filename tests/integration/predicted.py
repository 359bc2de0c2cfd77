"""Are real runs what a replay predicts? Each compaction of a table beside what the planner makes of the same moment, by names.

How base files grow is learned from the first three compactions alone.
How long a run takes is not predicted: each ends when it did.

python -m tests.integration.predicted PROJECT POLICY      (such as a folder with the demo, and flights_ro)
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from etc_policy.api.project import Project
from etc_policy.plan.simulation import Schedule, SimulatedRun, actual_runs, figures_of, replay
from etc_policy.table.formats import format_bytes, format_duration
from etc_policy.table.history import TableReading
from etc_policy.table.instants import instant_to_ms
from etc_policy.table.past import Arrival, Past, past_of

_LEARNED_FROM = 3


@dataclass(frozen=True)
class AtTimes(Schedule):
    """Runs at the moments that are given; one that lasts goes on beside the next."""

    times_ms: tuple[int, ...] = field(default=())

    def next_ms(self, past, time_ms, free_ms):
        """The next of them."""
        return next((one for one in self.times_ms if one > time_ms), past.end_ms + 1)


class Compared(NamedTuple):
    """Bytes and lags of real runs and of predicted ones; `moved` are writes that another run than predicted took to RO."""

    real: object
    predicted: object
    moved: int
    worst_share: float

    @property
    def bytes_off(self):
        """How far off the bytes written are, as a share."""
        return abs(self.predicted.bytes_written / self.real.bytes_written - 1)

    def __str__(self):
        rows = [
            f"{name}: {one.compactions} runs, read {format_bytes(one.bytes_read)}, written {format_bytes(one.bytes_written)}, "
            f"RO lag p50 {format_duration(one.lag_p50_ms)}, p99 {format_duration(one.lag_p99_ms)}, "
            f"worst {format_duration(one.lag_max_ms)}"
            for name, one in (("real", self.real), ("predicted", self.predicted))
        ]
        off = f"bytes written {self.bytes_off:.2%} off, of one run {self.worst_share:.2%} at most"
        return "\n".join((*rows, f"{off}; {self.moved} writes reached RO by another run"))


def reached(runs: Iterable[SimulatedRun]) -> dict[tuple[object, str], int]:
    """The number of the run that took each write to RO."""
    return {_key(one): number for number, run in enumerate(runs) for one in run.merged}


def _key(one: Arrival) -> tuple[object, str]:
    return one.group, one.log_file.requested


def compare(policy, whole: TableReading) -> Compared:
    """The table's own compactions, and what would have been predicted of each."""
    past = past_of(known_early(whole), whole.history)
    assert isinstance(past, Past)
    records = [one.record for one in whole.history.commits if one.record is not None]
    assert len(records) == len(past.compactions), "somebody else compacted too"
    moments = [record.threshold_ms + policy.data_latency_ms for record in records]
    ends = [instant_to_ms(record.completed, past.zone) for record in records]
    lengths = iter([end - moment for moment, end in zip(moments, ends, strict=True)])
    schedule = AtTimes(policy, 1, paced=False, times_ms=tuple(moments))
    predicted, real = (
        [run._replace(ended_ms=end) for run, end in zip(runs, ends, strict=True)]
        for runs in (replay(past, schedule, length_ms=lambda: next(lengths)), actual_runs(past))
    )
    by_real, by_prediction = reached(real), reached(predicted)
    shares = [abs(one.bytes_written / other.bytes_written - 1) for one, other in zip(predicted, real, strict=True)]
    moved = sum(by_real.get(key) != by_prediction.get(key) for key in by_real.keys() | by_prediction.keys())
    return Compared(figures_of(past, policy, real), figures_of(past, policy, predicted), moved, max(shares))


def known_early(whole: TableReading):
    """The state, which knows of growth what the first compactions say."""
    state, commits = replace(whole.state, write_growth=None), whole.history.commits
    third = [number for number, one in enumerate(commits) if one.is_compaction][_LEARNED_FROM - 1]
    early = past_of(state, replace(whole.history, commits=commits[: third + 1]))
    return early.state


def main() -> None:
    """The command."""
    folder, name = sys.argv[1:]
    with Project(Path(folder)) as project:
        (policy,) = project.policies(name)
        print(compare(policy, project.environment.read_whole(policy)))


if __name__ == "__main__":
    main()
