"""`etc simulate` predicts what real runs do: which write reaches RO by which run, and the bytes that they write."""

import random
import time

import pytest

from etc_policy.api.project import Project
from etc_policy.wiring import SparkSessions
from tests.command_blocks import Shell
from tests.integration.hudi_tables import StockTable
from tests.integration.predicted import compare

pytestmark = [pytest.mark.spark, pytest.mark.extended]
POLICY = """version: 1
policies:
  - name: orders_ro
    table: orders
    event_time_column: {column: ts, unit: ms}
    data_latency: 4s
    strategy: {granularity: GRANULARITY}
    verify: {level: metadata}
    writer: {index: simple, compaction: none}
"""
SCHEMA = "id int, p string, v string, ts long"
MOST_OFF = 0.05


def judged(project_dir, name):
    with Project(project_dir) as project:
        (policy,) = project.policies(name)
        found = compare(policy, project.environment.read_whole(policy))
    print(found)
    assert found.moved == 0
    assert found.bytes_off < MOST_OFF
    assert (found.real.lag_p50_ms, found.real.lag_p99_ms, found.real.lag_max_ms) == (
        found.predicted.lag_p50_ms,
        found.predicted.lag_p99_ms,
        found.predicted.lag_max_ms,
    )
    return found


@pytest.mark.parametrize("granularity", ["file_slice", "log_file"])
def test_uniform_updates(spark, tmp_path, monkeypatch, granularity):
    monkeypatch.setattr(SparkSessions, "_start_spark", lambda *_: spark)
    monkeypatch.setattr(SparkSessions, "close", lambda _: None)
    chance = random.Random(1)

    def rows(keys):
        now_ms = time.time_ns() // 1_000_000
        return [(key, f"p{key % 4}", f"{chance.getrandbits(800):x}", now_ms - chance.randrange(3_000)) for key in keys]

    options = {"hoodie.write.track.event.time.watermark": "true", "hoodie.index.type": "SIMPLE"}
    table = StockTable(spark, str(tmp_path / "orders"), SCHEMA, options=options)
    table.write(rows(range(2_000)), "bulk_insert")
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "orders.yml").write_text(POLICY.replace("GRANULARITY", granularity))
    with Project(tmp_path) as project:
        for number in range(18):
            table.write(rows(chance.sample(range(2_000), 100)))
            if number % 3 == 2:
                project.apply()
    assert judged(tmp_path, "orders_ro").real.compactions == 6


def test_flights(no_spark, tmp_path):
    Shell(tmp_path).succeeds("etc demo --days 1", timeout=1200)
    judged(tmp_path, "flights_ro")
