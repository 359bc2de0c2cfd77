"""File slices that a writer keeps adding to while they are compacted hold back no others: `etc apply` on a real table, no lock.

In each file group a delete is to be compacted. Whenever a run has compacted one of partition `a`, the writer adds to it, so that
the run may not commit that.
"""

import time

import pytest

from etc_policy.api.applying import Applier
from etc_policy.plan.clock import MAX_CLOCK_SKEW_MS
from etc_policy.wiring import clock_ms
from tests.integration.interleavings import LATENCY_MS, Case, HeldEnvironment, write
from tests.integration.kills import Table
from tests.integration.writer_on_command import Writer

pytestmark = [pytest.mark.spark, pytest.mark.extended]
CASE = Case("simple", False, "ours compacted", "metadata")
KEYS = {"a": (1, 2), "b": (3, 4)}


@pytest.fixture
def writer(tmp_path):
    writer = Writer(tmp_path)
    yield writer
    writer.close()


class Busy:
    """A table of which partition `a` is busy while `is_busy`."""

    def __init__(self, folder, spark, writer):
        self.folder, self.spark, self.writer = folder, spark, writer
        self.table, self.is_busy, self.rows = Table(folder / "t"), True, {}

    def write(self, partition, key, value, operation="upsert"):
        rows = [(key, partition, value, clock_ms() - LATENCY_MS)]
        self.writer.begin(self.table.base, rows, CASE.options, operation)
        assert (answer := self.writer.answer()) == "done", answer
        self.rows[key] = value
        if operation == "delete":
            del self.rows[key]

    def delete(self):
        """A row of each partition is deleted, of another key each time."""
        for partition, (kept, gone) in KEYS.items():
            self.write(partition, gone, "there")
            self.write(partition, gone, "", "delete")
            self.write(partition, kept, f"kept {len(self.table.done('deltacommit'))}")
        time.sleep(MAX_CLOCK_SKEW_MS / 1000)

    def apply(self):
        """The run's result, what it said, and how many file slices of each partition each of its compactions took."""
        said, before = [], set(self.table.done("commit"))
        environment = HeldEnvironment(self.folder, said.append)
        environment.session, environment.hook = self.spark, self._added_to
        applier = Applier(environment, clock_ms())
        applier.run([CASE.policy(self.table.base)])
        assert not applier.errors, said
        (result,) = applier.results
        commits = sorted(set(self.table.done("commit")) - before, key=lambda path: path.stem.split("_")[1])
        taken = [{partition: len(stats) for partition, stats in self.table.write_stats(one).items()} for one in commits]
        return result, said, [one for one in taken if one]

    def _added_to(self, step):
        if not self.is_busy or step != "compacted":
            return
        (plan,) = self.table.incomplete("compaction", "commit")
        if self.table.glob(f"a/*_{plan}.parquet"):
            self.write("a", 1, f"beside {plan}")

    def view(self, **options):
        frame = self.spark.read.format("hudi").options(**options).load(str(self.table.base))
        rows = [(row.id, row.v) for row in frame.select("id", "v").collect()]
        assert len(rows) == len(dict(rows)), sorted(rows)
        return dict(rows)


@pytest.fixture
def busy(tmp_path, spark, writer):
    made = Busy(tmp_path, spark, writer)
    now = clock_ms() - 120_000
    rows = [(key, partition, "first", now) for partition, keys in KEYS.items() for key in keys]
    write(spark, str(made.table.base), rows, "insert", CASE.options)
    made.rows = {key: "first" for keys in KEYS.values() for key in keys}
    return made


def test_a_busy_slice_holds_no_other_back(busy):
    busy.delete()
    result, said, commits = busy.apply()
    assert (result.status, commits) == ("compacted", [{"b": 1}]), said
    assert sum(line.endswith("planning again") for line in said) == 2, said

    busy.delete()
    result, said, commits = busy.apply()
    # the key that was deleted there has come back, in a file group of its own
    assert (result.status, commits) == ("compacted", [{"b": 2}]), said
    assert any(line.endswith("planning again, with what writers kept adding to") for line in said), said

    busy.is_busy = False
    busy.delete()
    result, said, commits = busy.apply()
    assert (result.status, commits) == ("compacted", [{"b": 2}, {"a": 1}]), said
    assert result.file_slices == 3
    assert busy.view() == busy.rows
    assert busy.view(**{"hoodie.query.as.ro.table": "true"}) == busy.rows
