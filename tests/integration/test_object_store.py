"""`etc apply` on tables in a bucket of a real S3 server: every view of one kind, all of which `bucket_cut.py` plays as a command;
and killed, with a run that mends them, as `random_kills.py --where moto` plays it any number of times."""

import itertools
import json
import re
import threading
import time

import pytest

from tests.command_blocks import REPOSITORY, Shell, command_blocks_of
from tests.faulty_proxy import faulty_proxy
from tests.integration import bucket_cut
from tests.integration.bench import AT_THE_CUT
from tests.integration.history import STRADDLING
from tests.integration.kill_settings import InBucket
from tests.integration.random_kills import play
from tests.integration.session import stop_spark
from tests.s3_servers import S3Server

pytestmark = pytest.mark.spark
#: Both processes die after the commit to the metadata table, the network at `locked`, and Python at `begun`.
SEEDS = (4, 20, 39)


@pytest.mark.extended
def test_every_view_is_right_at_each_step(no_spark, s3_variables, moto_server, tmp_path, monkeypatch):
    for name, value in bucket_cut.variables(moto_server).items():
        monkeypatch.setenv(name, value)
    spark = bucket_cut.start(tmp_path)
    try:
        bucket_cut.play(spark, moto_server, bucket_cut.Kind(mdt=False), since=AT_THE_CUT)
    finally:
        stop_spark(spark)


@pytest.mark.extended
def test_runs_are_killed_or_cut_off_and_one_mends_their_tables(
    no_spark, s3_variables, moto_server, written_table, tmp_path, monkeypatch
):
    """Each at the moment that its seed draws; of some the network is cut for a while, and no process dies."""
    with faulty_proxy(moto_server.endpoint) as proxy:
        for name, value in bucket_cut.variables(S3Server(proxy.endpoint)).items():
            monkeypatch.setenv(name, value)
        setting = InBucket(moto_server, tmp_path, proxy)
        # The rows are compared by this test; etc compares those of a bucket in the soak.
        setting.level, setting.numbers, setting.variants = "metadata", STRADDLING[:1], {"metadata table": {}}
        (tmp_path / "sources").mkdir()
        (tmp_path / "sources" / "metadata_table").symlink_to(written_table)
        killed, _, failures = play(setting, tmp_path, tmp_path / "sources", SEEDS)
    assert not failures, "\n".join(failures)
    assert len(killed) == len(SEEDS)


COLUMNS = "id int, v string, updated_at long, _hoodie_is_deleted boolean"
PAGE = REPOSITORY / "docs" / "how-to" / "stream-in-bucket.md"


class Arriving:
    """Files of changes for a stream; `rows` are what is left of them: id -> (v, event time in ms)."""

    def __init__(self, folder):
        self.folder, self.rows, self.numbers, self.now_ms = folder, {}, itertools.count(), int(time.time() * 1000)
        folder.mkdir()

    def add(self, *changes, deleted=False):
        """Changes of (id, v, minutes ago); a file gets its name when it is whole."""
        lines = [
            {"id": key, "v": v, "updated_at": self.now_ms - minutes * 60_000, "_hoodie_is_deleted": deleted}
            for key, v, minutes in changes
        ]
        number = next(self.numbers)
        draft = self.folder.parent / f"{number}.json"
        draft.write_text("\n".join(map(json.dumps, lines)) + "\n")
        draft.rename(self.folder / draft.name)
        for line in lines:
            self.rows.pop(line["id"], None)
            if not deleted:
                self.rows[line["id"]] = (line["v"], line["updated_at"])


@pytest.mark.extended
def test_a_stream_with_deletes_in_a_bucket(no_spark, s3_variables, moto_server, tmp_path, monkeypatch):
    """The page as its reader types it, beside the page's query, to which changes keep coming."""
    for name, value in bucket_cut.variables(moto_server).items():
        monkeypatch.setenv(name, value)
    moto_server.client.create_bucket(Bucket="lake")
    changes, ended = Arriving(tmp_path / "arriving"), threading.Event()
    changes.add(*((key, "v0", 120) for key in range(40)))
    spark = bucket_cut.start(tmp_path)
    try:
        names = {
            "changes": spark.readStream.schema(COLUMNS).json(str(changes.folder)),
            "checkpoint": str(tmp_path / "c"),
        }
        exec(re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[1], names)
        query = names["query"]
        query.processAllAvailable()
        changes.add(*((key, "v1", 90) for key in range(0, 40, 2)))
        changes.add((4, "", 60), (5, "", 60), deleted=True)
        query.processAllAvailable()

        def go_on():
            for number in itertools.count(100):
                if ended.wait(2):
                    return
                changes.add((number % 30 + 10, f"v{number}", 0), (number % 40 + 200, "new", 0))
                changes.add((number % 40 + 199, "", 0), deleted=True)

        writer = threading.Thread(target=go_on)
        writer.start()
        start, compact, look = command_blocks_of("test_a_stream_with_deletes_in_a_bucket")
        shell = Shell(tmp_path)
        assert "1 policy OK" in shell.succeeds(start)
        printed = shell.succeeds(compact, timeout=600)
        assert "verified      PASS" in printed, printed
        (table,) = json.loads((tmp_path / "compaction" / "target" / "run_results.json").read_text())["tables"]
        assert "orders" in shell.succeeds(look)
        ended.set()
        writer.join()
        query.processAllAvailable()
        assert query.exception() is None
        query.stop()
        views = [
            {row.id: row.v for row in spark.read.format("hudi").option(*option).load("s3a://lake/orders").collect()}
            for option in (("hoodie.query.as.ro.table", "false"), ("hoodie.query.as.ro.table", "true"))
        ]
    finally:
        ended.set()
        stop_spark(spark)
    assert views[0] == {key: v for key, (v, _) in changes.rows.items()}
    promised = {key: v for key, (v, at_ms) in changes.rows.items() if at_ms <= table["threshold_ms"]}
    assert {*range(10)} - {4, 5} <= promised.keys()
    assert {key: views[1].get(key) for key in promised} == promised
    assert not {4, 5} & views[1].keys()
