"""Events of partitions are sent: on the folder of a table, by a real HTTP server, by programs, by runs that are killed."""

import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from etc_policy.api.partitions import send_partition_events
from etc_policy.api.project import Project
from etc_policy.errors import RetryableError, TableError
from etc_policy.errors.codes import Code
from etc_policy.policy.manifest import EventTime, Policy
from etc_policy.report.sync import no_partition
from etc_policy.run import sending
from etc_policy.run.done_store import RECORD, DoneStore
from etc_policy.table.done import DoneEvent
from tests.nightly import nightly
from tests.unit.api.hourly import HOURLY, hour
from tests.unit.hudi.table_folder import COMMIT_SCHEMA, TableFolder, at, base, commit_metadata, log
from tests.unit.plan.plan_cases import epoch_ms

TEN, ELEVEN = map(hour, (10, 11))


class Endpoint(ThreadingHTTPServer):
    """Keeps what is posted; `answers` are the next statuses, None hangs, and then it takes all."""

    def __init__(self, port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.posted, self.answers, self.headers = [], [], []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/etc"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = self.server.answers.pop(0) if self.server.answers else 204
        self.server.posted.append((answer, body))
        self.server.headers.append(dict(self.headers))
        if answer is None:
            time.sleep(2)
        self.send_response(answer or 204)
        self.end_headers()

    def log_message(self, *_):
        pass


def drip(server):
    """Answers each request with a byte each 100 ms, without an end."""

    def answer(connection):
        with connection, suppress(OSError):
            for byte in itertools.cycle(b"HTTP/1.1 100 Continue\r\n\r\n"):
                connection.sendall(bytes([byte]))
                time.sleep(0.1)

    with suppress(OSError):
        while True:
            threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()


@pytest.fixture
def endpoint():
    with Endpoint() as server:
        yield server
        server.shutdown()


@pytest.fixture
def orders(tmp_path, monkeypatch):
    """Hour ten is done, and eleven is open; it is noon."""
    monkeypatch.setattr(sending, "PAUSES_SECONDS", (0.05, 0.05))
    table = TableFolder(tmp_path / "lake" / "orders")
    table.commit(at("11:00:00"), at("11:00:05"), base("f10", partition=TEN), base("f11", partition=ELEVEN))
    return table


@pytest.fixture
def run(tmp_path, orders):
    """What a run sends, as `etc apply` does it after its verification."""
    (tmp_path / "policies").mkdir()

    def send(done, now="12:00:00"):
        (tmp_path / "policies" / "a.yml").write_text(f"{HOURLY}    done: {done}\n")
        with Project(tmp_path) as project:
            (policy,) = project.policies()
            sent = send_partition_events(project.environment, policy, epoch_ms(now))
        return sent and (sent.done, sent.reopened)

    return send


def be_late(table, clock="11:30:00"):
    table.commit(
        at(clock), at(clock.replace(":00", ":05", 1)), log("f10", partition=TEN, min_event=epoch_ms("10:05:00"), rows=3)
    )


def compact(table):
    table.compaction(at("11:45:00"), at("11:45:05"), base("f10", partition=TEN, merged=1))


@pytest.mark.parametrize("version", [6, 9])
def test_what_may_have_come_in_a_commit_that_nobody_can_read_any_more_reopens(tmp_path, run, orders, version):
    """The archive of table version 6 is not read, and any other's may be gone."""
    done = "{success_file: _SUCCESS}"
    if version == 6:
        shutil.rmtree(orders.base)
        orders = TableFolder(orders.base, version=6)
        ended(orders.commit(at("11:00:00"), "", base("f10", partition=TEN), base("f11", partition=ELEVEN)), "11:00:05")
    assert run(done, "11:20:00") == (1, 0)
    late = orders.commit(at("11:30:00"), at("11:30:05"), base("late", partition=TEN))
    ended(late, "11:30:05")
    for path in [*orders.timeline.glob("2026010111[03]0*")]:
        path.unlink()
    ended(orders.commit(at("11:50:00"), at("11:50:05"), base("f12", partition=hour(12))), "11:50:05")
    assert run(done) == (1, 1)
    assert run(done) == (0, 0)


def ended(path, clock):
    """A commit of layout 1 says by its file's time when it completed."""
    os.utime(path, (epoch_ms(clock) / 1000,) * 2)


class TestSince:
    """Partitions from before that are not sent, unless their first event was."""

    ELEVEN = '{success_file: _SUCCESS, since: "h=2026-01-01-11"}'

    def test_earlier_ones_are_passed_over(self, run, orders):
        assert run(self.ELEVEN) == (0, 0)
        assert run(self.ELEVEN, "13:00:00") == (1, 0)
        assert [path.parent.name for path in orders.base.glob("h=*/_SUCCESS")] == [ELEVEN]

    def test_also_by_an_action_that_is_new(self, run, orders, tmp_path):
        run("{success_file: _SUCCESS}")
        both = f'{{success_file: _SUCCESS, command: [touch, {tmp_path}/run], since: "h=2026-01-01-11"}}'
        assert run(both) == (0, 0)
        assert not (tmp_path / "run").exists()

    def test_what_was_sent_is_taken_back_all_the_same(self, run, orders):
        run("{success_file: _SUCCESS}")
        be_late(orders)
        assert run(self.ELEVEN) == (0, 1)

    def test_they_do_not_count_as_unsent(self, run, orders, tmp_path):
        run(self.ELEVEN)
        with Project(tmp_path) as project:
            (table,) = project.freshness(at=epoch_ms("12:00:00"), partitions=["*"]).tables
        assert table.partitions.unsent == {"success_file": 0}


class TestOlderCompletions:
    """A write may show itself after a later one: writers' clocks differ, a store is slow, an hour comes twice in autumn."""

    DONE = "{success_file: _SUCCESS}"

    def test_one_that_shows_itself_later_reopens_once(self, run, orders):
        orders.commit(at("11:50:00"), at("11:50:05"), base("f12", partition=hour(12)))
        assert run(self.DONE) == (1, 0)
        orders.commit(at("11:01:00"), at("11:01:05"), base("late", partition=TEN))
        assert run(self.DONE) == (1, 1)
        assert run(self.DONE) == (0, 0)
        orders.commit(at("12:20:00"), at("12:20:05"), base("g12", partition=hour(12)))
        assert run(self.DONE) == (0, 0)

    def test_one_that_took_long_and_was_archived_at_once_reopens(self, run, orders):
        """Commits that began after it and completed before the last reading are still there."""
        began = at("10:50:00")
        orders.file(began, ".deltacommit.requested")
        orders.commit(at("11:20:00"), at("11:20:05"), base("f12", partition=hour(12)))
        assert run(self.DONE) == (1, 0)
        orders.commit(began, at("11:52:00"), base("late", partition=TEN))
        orders.commit(at("11:55:00"), at("11:55:05"), base("g12", partition=hour(12)))
        for path in [*orders.timeline.glob(f"{began}*"), *orders.timeline.glob("202601011100*")]:
            path.unlink()
        assert run(self.DONE) == (1, 1)
        assert run(self.DONE) == (0, 0)

    @pytest.mark.parametrize("version", [6, 9])
    def test_one_that_was_at_work_for_hours_reopens(self, tmp_path, run, version):
        """On table version 6 no commit says when it ended."""
        shutil.rmtree(tmp_path / "lake")
        orders, began, late = (
            TableFolder(tmp_path / "lake" / "orders", version=version),
            at("11:10:00"),
            base("late", partition=TEN),
        )
        orders.commit(at("11:00:00"), at("11:00:05"), base("f10", partition=TEN))
        orders.start(began, late)
        orders.commit(at("14:00:00"), at("14:00:05"), base("f14", partition=hour(14)))
        assert run(self.DONE, "14:05:00") == (1, 0)
        orders.complete(began, at("14:10:00"), "deltacommit", COMMIT_SCHEMA, commit_metadata(began, (late,)))
        assert run(self.DONE, "14:15:00") == (1, 1)
        assert run(self.DONE, "14:16:00") == (0, 0)

    def test_what_was_seen_and_archived_since_does_not(self, run, orders):
        orders.commit(at("11:50:00"), at("11:50:05"), base("f12", partition=hour(12)))
        run(self.DONE)
        orders.commit(at("11:51:00"), at("11:51:05"), base("late", partition=TEN))
        assert run(self.DONE) == (1, 1)
        for path in orders.timeline.glob("2026010111[05]*"):
            path.unlink()
        orders.commit(at("11:55:00"), at("11:55:05"), base("g12", partition=hour(12)))
        assert run(self.DONE) == (0, 0)


class TestDropped:
    """Its rows have left the table: what was done is taken back, and done again once rows have come anew."""

    DONE = "{success_file: _SUCCESS}"

    @staticmethod
    def drop(table):
        table.replace(at("11:30:00"), at("11:30:05"), replaced={TEN: ["f10"]}, kind="DELETE_PARTITION")

    def test_it_is_reopened_and_loses_its_success_file(self, run, orders):
        assert run(self.DONE) == (1, 0)
        self.drop(orders)
        assert (run(self.DONE), run(self.DONE)) == ((0, 1), (0, 0))
        assert not (orders.base / TEN / "_SUCCESS").exists()
        kept = DoneStore(str(orders.base)).read().partitions[TEN]
        assert (kept.last.why, kept.last.late_writes, kept.reopened) == ("dropped", None, 0)

    @pytest.mark.parametrize("runs_between", [True, False])
    def test_what_is_written_to_it_again_is_done_again(self, run, orders, runs_between):
        run(self.DONE)
        self.drop(orders)
        if runs_between:
            assert run(self.DONE) == (0, 1)
        orders.commit(at("11:40:00"), at("11:40:05"), base("anew", partition=TEN))
        assert run(self.DONE) == (1, 0 if runs_between else 1)

    def test_what_was_not_sent_of_it_never_is(self, run, orders, tmp_path):
        """An action may never take it: the catalog has no such partition any more."""
        fails = "{command: ['false']}"
        with pytest.raises(RetryableError):
            run(fails)
        self.drop(orders)
        with pytest.raises(RetryableError):
            run(fails)  # `reopened`, as it may have taken `done`
        assert run("{command: ['true']}") == (0, 1)
        with Project(tmp_path) as project:
            (table,) = project.freshness(at=epoch_ms("12:00:00"), partitions=["*"]).tables
        assert table.partitions.unsent == {"command": 0}
        orders.commit(at("11:40:00"), at("11:40:05"), base("anew", partition=TEN))
        assert run("{command: [touch, sent]}") == (1, 0)


class Catalog:
    """What the partitions of its tables say; some tables are gone, others give no answer."""

    def __init__(self):
        self.status, self.gone, self.out, self.asked = {}, set(), set(), []

    def read(self, table):
        self.asked.append(table)
        if table in self.gone:
            raise TableError(Code.NO_RO_TABLE, "it lies elsewhere")
        if table in self.out:
            raise RetryableError(Code.CATALOG_FAILED, "no answer")

    def write_partition(self, table, partition, properties):
        self.asked.append(table)
        if table in self.gone:
            raise no_partition(table, partition, "/lake")
        if table in self.out:
            raise RetryableError(Code.CATALOG_FAILED, "no answer")
        self.status[table, partition] = properties["etc.partition.status"]


def forge(table, **values):
    """Whoever may write the table's folder changes the record."""
    path = table.base / RECORD
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


class TestPartitionProperty:
    @pytest.fixture
    def catalog(self, monkeypatch):
        catalog = Catalog()
        monkeypatch.setattr("etc_policy.wiring.Environment.property_store", lambda *_: catalog)
        return catalog

    DONE = "{partition_property: lake.orders_ro}"

    def test_the_catalog_may_have_dropped_what_the_table_has(self, run, orders, monkeypatch):
        """It failed in every run, as there is nothing that could take it."""
        written = []

        class Catalog:
            def write_partition(self, table, partition, properties):
                if partition in gone:
                    raise no_partition(table, partition, "/lake")
                written.append((partition, properties["etc.partition.status"]))

        gone = set()
        monkeypatch.setattr("etc_policy.wiring.Environment.property_store", lambda *_: Catalog())
        assert run(self.DONE) == (1, 0)
        be_late(orders)
        gone.add(TEN)
        with pytest.raises(RetryableError, match="has no partition"):
            run(self.DONE)
        compact(orders)
        gone.clear()
        assert run(self.DONE) == (1, 1)
        gone.add(TEN)
        orders.replace(at("11:50:00"), at("11:50:05"), replaced={TEN: ["f10"]}, kind="DELETE_PARTITION")
        assert (run(self.DONE), run(self.DONE)) == ((0, 1), (0, 0))
        assert written == [(TEN, "done"), (TEN, "reopened"), (TEN, "done")]

    @pytest.mark.parametrize(
        ("then", "sent"), [("{partition_property: lake.new}", (1, 0)), ("{command: ['true']}", (1, 0))]
    )
    def test_a_table_of_a_former_name_says_no_more_that_a_partition_is_done(self, run, orders, catalog, then, sent):
        """Nobody would take it back there when late data come, and the table of the new name had none that is done."""
        run(self.DONE)
        assert run(then) == sent
        assert catalog.status == {("lake.orders_ro", TEN): "reopened"} | (
            {("lake.new", TEN): "done"} if "new" in then else {}
        )
        assert run(then) == (0, 0)
        assert run(self.DONE) == (1, 0)
        assert catalog.status[("lake.orders_ro", TEN)] == "done"
        assert catalog.status.get(("lake.new", TEN)) != "done"

    def test_a_former_table_that_is_gone_holds_nothing_back(self, run, orders, catalog):
        run(self.DONE)
        catalog.gone.add("lake.orders_ro")
        assert run("{partition_property: lake.new}") == (1, 0)

    def test_a_former_table_that_somebody_else_wrote_into_the_record_is_left_alone(self, run, orders, catalog):
        """Whoever writes this table's folder had etc take back what another one says, with its own rights."""
        run(self.DONE)
        forge(orders, partition_property="victim.orders")
        catalog.status["victim.orders", TEN] = "done"
        catalog.gone.add("victim.orders")
        kept = json.dumps(json.loads((orders.base / RECORD).read_text())["partitions"][TEN])
        forge(orders, partitions={one: json.loads(kept.replace(TEN, one)) for one in (TEN, f"{TEN}a", f"{TEN}b")})
        catalog.asked.clear()
        assert run(self.DONE) == (1, 0)
        assert catalog.status == {("lake.orders_ro", TEN): "done", ("victim.orders", TEN): "done"}
        assert catalog.asked.count("victim.orders") == 1
        assert run(self.DONE) == (0, 0)

    def test_one_that_cannot_be_reached_holds_back_no_other_action(self, run, orders, catalog, endpoint):
        run(self.DONE)
        catalog.out.add("lake.orders_ro")
        for posted in (1, 1):
            with pytest.raises(RetryableError, match=r"partition_property of `lake.orders_ro`: .*no answer"):
                run(f"{{partition_property: lake.new, http: {{url: '{endpoint.url}'}}}}")
            assert len(endpoint.posted) == posted
        catalog.out.clear()
        assert run(f"{{partition_property: lake.new, http: {{url: '{endpoint.url}'}}}}") == (1, 0)
        assert catalog.status == {("lake.orders_ro", TEN): "reopened", ("lake.new", TEN): "done"}


class TestEdits:
    """What is sent holds by the policy of now: a partition that is closed by it is not said to be done."""

    def test_another_proof(self, run, orders, tmp_path):
        assert run("{success_file: _SUCCESS}") == (1, 0)
        both = f"{{success_file: _SUCCESS, command: [touch, {tmp_path}/run], proof: data}}"
        assert run(both) == (0, 0)
        assert not (tmp_path / "run").exists()
        with Project(tmp_path) as project:
            (table,) = project.freshness(at=epoch_ms("12:00:00"), partitions=["*"]).tables
        assert table.partitions.unsent == {"success_file": 0, "command": 0}
        assert run(both.replace(", proof: data", "")) == (1, 0)
        assert (tmp_path / "run").exists()

    def test_a_longer_latency(self, run, orders, tmp_path, monkeypatch):
        """By it the hour is open: there may be more to come."""
        done = "{success_file: _SUCCESS}"
        assert run(done) == (1, 0)
        monkeypatch.setitem(globals(), "HOURLY", HOURLY.replace("10m", "3h"))
        assert [run(done), run(done)] == [(0, 1), (0, 0)]
        assert not (orders.base / TEN / "_SUCCESS").exists()
        assert run(done, "14:30:00") == (1, 0)

    def test_an_earlier_since(self, run, orders):
        since = '{success_file: _SUCCESS, proof: data, since: "h=2026-01-01-11"}'
        assert run(since) == (0, 0)
        assert run("{success_file: _SUCCESS, proof: data}") == (0, 0)
        assert not (orders.base / TEN / "_SUCCESS").exists()

    def test_all_rows_where_those_before_the_end_counted(self, run, orders, endpoint):
        orders.commit(at("11:50:00"), at("11:50:05"), log("f10", partition=TEN, min_event=epoch_ms("11:49:00")))
        ended = f"{{http: {{url: '{endpoint.url}'}}, rows: until_end}}"
        assert run(ended) == (1, 0)
        assert run(ended.replace(", rows: until_end", "")) == (0, 1)
        (_, done), (_, reopened) = endpoint.posted
        assert (done["data"]["rows"], done["data"]["why"]) == ("until_end", None)
        assert (reopened["data"]["rows"], reopened["data"]["why"]) == ("all", "policy")


class TestRollbacks:
    """Rows that were there are gone: by a restore, or as the table was put back to an older copy."""

    DONE = "{success_file: _SUCCESS}"

    @pytest.fixture
    def late(self, run, orders, tmp_path):
        """Hour ten is done, with rows that came after a copy was made."""
        shutil.copytree(orders.base / ".hoodie", tmp_path / "copy")
        orders.commit(at("11:30:00"), at("11:30:05"), base("late", partition=TEN))
        assert run(self.DONE) == (1, 0)
        return orders

    @staticmethod
    def put_back(orders, tmp_path, *, with_record):
        record = orders.base / RECORD
        kept = None if with_record else record.read_bytes()
        shutil.rmtree(orders.base / ".hoodie")
        shutil.copytree(tmp_path / "copy", orders.base / ".hoodie")
        if kept is not None:
            record.parent.mkdir(exist_ok=True)
            record.write_bytes(kept)

    def test_a_restore_reopens(self, run, late):
        for path in late.timeline.glob("20260101113000*"):
            path.unlink()
        next((late.base / TEN).glob("late*")).unlink()
        late.file(at("11:40:00"), ".restore.requested")
        late.commit(at("11:50:00"), at("11:50:05"), base("g11", partition=ELEVEN))
        assert run(self.DONE) == (1, 1)  # RO holds what is there
        assert run(self.DONE) == (0, 0)

    def test_an_older_copy_reopens_with_the_next_write(self, run, late, tmp_path):
        self.put_back(late, tmp_path, with_record=False)
        assert run(self.DONE) is None
        assert (late.base / TEN / "_SUCCESS").exists()
        late.commit(at("11:50:00"), at("11:50:05"), base("g11", partition=ELEVEN))
        assert run(self.DONE) == (1, 1)
        assert DoneStore(str(late.base)).read().partitions[TEN].reopened == 0

    def test_or_after_an_hour(self, run, late, tmp_path, monkeypatch):
        self.put_back(late, tmp_path, with_record=False)
        later_ms = int(time.time() * 1000) + 3_600_000
        monkeypatch.setattr("etc_policy.api.partitions.clock_ms", lambda: later_ms)
        assert run(self.DONE) == (1, 1)

    def test_what_was_not_sent_before_is_not_sent_of_an_older_copy(self, run, orders, tmp_path):
        shutil.copytree(orders.base / ".hoodie", tmp_path / "copy")
        orders.commit(at("11:30:00"), at("11:30:05"), base("late", partition=TEN))
        with pytest.raises(RetryableError):
            run("{command: ['false']}")
        self.put_back(orders, tmp_path, with_record=False)
        assert run("{command: [touch, sent]}") is None
        assert not (tmp_path / "sent").exists()

    def test_a_success_file_of_which_the_record_says_nothing_goes(self, run, orders, tmp_path):
        """The record was put back with the table, and the partition is not done there."""
        be_late(orders)
        shutil.copytree(orders.base / ".hoodie", tmp_path / "copy")
        compact(orders)
        assert run(self.DONE) == (1, 0)
        self.put_back(orders, tmp_path, with_record=True)
        assert run("{success_file: _SUCCESS, on_late: report}") == (0, 0)
        assert (orders.base / TEN / "_SUCCESS").exists()
        assert run(self.DONE) == (0, 0)
        assert not (orders.base / TEN / "_SUCCESS").exists()

    def test_that_of_somebody_else_stays(self, run, orders):
        be_late(orders)
        (orders.base / TEN / "_SUCCESS").write_text("{}")
        assert run(self.DONE) == (0, 0)
        assert (orders.base / TEN / "_SUCCESS").exists()


class TestRecordsOfSomebodyElse:
    """Whoever may write the table's folder can forge each field; nothing outside of the table is touched."""

    OUTSIDE = ("../victim", "../../lake/victim", "/lake/victim", "file:/lake/victim", "", ".", "a//b")

    @pytest.fixture
    def outside(self, tmp_path, monkeypatch, orders):
        """All else in the lake, and what the catalog was asked."""
        victim = TableFolder(tmp_path / "lake" / "victim")
        (victim.base / TEN).mkdir(parents=True)
        for name in ("_SUCCESS", "_READY"):
            (victim.base / TEN / name).write_text('{"etc": {}}')
        asked = []

        class Catalog:
            def __init__(self, base_path):
                self.base_path = base_path

            def read(self, table):
                asked.append((table, self.base_path))

            def write_partition(self, table, partition, properties):
                asked.append((table, self.base_path))

        monkeypatch.setattr("etc_policy.wiring.Environment.property_store", lambda _, base_path: Catalog(base_path))

        def seen():
            lake = tmp_path / "lake"
            files = [path for path in lake.rglob("*") if path.is_file() and not path.is_relative_to(orders.base)]
            return {str(path): path.read_bytes() for path in files}, list(asked)

        return seen

    @pytest.mark.parametrize(
        "values",
        [
            *(
                {"success_file": name}
                for name in ("../victim/x", f"../../victim/{TEN}/_SUCCESS", "/etc/passwd", "file:/x", "x")
            ),
            *({"partition_property": name} for name in ("orders", "a.b.c", "../x", "a.b; drop table c", "`a`", ".")),
        ],
    )
    def test_a_name_that_no_policy_can_have_is_an_error(self, run, orders, outside, values):
        run("{success_file: _SUCCESS}")
        before = outside()
        forge(orders, **values)
        with pytest.raises(TableError, match="cannot be read"):
            run("{success_file: _READY}")
        assert outside() == before

    @pytest.mark.parametrize("partition", OUTSIDE)
    @pytest.mark.parametrize("place", ["key", "event"])
    def test_a_partition_that_lies_elsewhere_is_an_error(self, run, orders, outside, partition, place):
        run("{success_file: _SUCCESS}")
        kept = json.loads((orders.base / RECORD).read_text())["partitions"][TEN]
        kept["events"][0]["partition"] = f"{partition}/{TEN}" if partition != "" else f"/{TEN}"
        forge(orders, partitions={TEN if place == "event" else kept["events"][0]["partition"]: kept})
        before = outside()
        with pytest.raises(TableError, match="cannot be read"):
            run("{success_file: _READY}")
        assert outside() == before

    def test_of_a_former_table_only_what_lies_in_this_one_is_asked_for(self, run, orders, outside):
        run("{success_file: _SUCCESS}")
        kept = json.loads((orders.base / RECORD).read_text())["partitions"][TEN]
        kept["sent"] = kept["begun"] = {"partition_property": 1}
        forge(orders, partition_property="victim.orders", partitions={TEN: kept})
        run("{success_file: _SUCCESS}")
        assert set(outside()[1]) == {("victim.orders", str(orders.base))}


def leaves(value, path=()):
    """The way to each value of a document that holds no others, and to each key."""
    found = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in found:
        yield from leaves(below, (*path, key))
    if not found:
        yield path


def replaced(document, path, value):
    changed = json.loads(json.dumps(document))
    *above, last = path
    place = changed
    for key in above:
        place = place[key]
    place[last] = value
    return changed


FORGED = ("../victim", "victim.orders", 2**62, *nightly("http://127.0.0.1:1/x", "touch ../victim/x", -1, None, [], {}))


@pytest.mark.parametrize("forged", FORGED, ids=repr)
def test_no_field_of_the_record_leads_elsewhere(run, orders, endpoint, tmp_path, monkeypatch, forged):
    """Each is replaced in turn, and the policy goes to other names: what it names itself is asked, and nothing else."""
    asked = set()

    class Catalog:
        def __init__(self, base_path):
            self.base_path = base_path

        def read(self, table):
            asked.add((table, self.base_path))

        def write_partition(self, table, partition, properties):
            asked.add((table, self.base_path))

    monkeypatch.setattr("etc_policy.wiring.Environment.property_store", lambda _, base_path: Catalog(base_path))
    monkeypatch.setattr("etc_policy.run.done_store._WAIT_SECONDS", 0.2)
    (tmp_path / "lake" / "victim").mkdir()
    more = f"http: {{url: '{endpoint.url}'}}, command: [touch, '{tmp_path}/run'], timeout: 1s}}"
    run(f"{{success_file: _SUCCESS, partition_property: lake.orders_ro, {more}")
    asked.clear()
    be_late(orders)
    kept = json.loads((orders.base / RECORD).read_text())
    before = {path for path in tmp_path.rglob("*") if orders.base not in path.parents}
    for path in leaves(kept):
        (orders.base / RECORD).write_text(json.dumps(replaced(kept, path, forged)))
        with suppress(TableError, RetryableError):
            run(f"{{success_file: _READY, partition_property: lake.new, {more}")
    assert asked <= {(name, str(orders.base)) for name in ("lake.new", "lake.orders_ro", "victim.orders")}
    assert {path for path in tmp_path.rglob("*") if orders.base not in path.parents} == before
    assert {event["source"] for _, event in endpoint.posted} == {str(orders.base)}


class TestRecordsOfATimeToCome:
    """Every look would leave such a record as it is, and nothing of it would be right."""

    @pytest.mark.parametrize("values", [{"instant": "20990101000000000"}, {"read_at_ms": 4_070_908_800_000}])
    def test_they_are_an_error(self, run, orders, values):
        run("{command: ['true']}")
        path = orders.base / RECORD
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
        with pytest.raises(TableError, match=r"is of a time to come.*done\.json") as error:
            run("{command: ['true']}")
        assert (error.value.code, "remove the file" in error.value.hint) == ("ETC246", True)

    @pytest.mark.parametrize("values", [{"instant": "tomorrow"}, {"partitions": {"p": {"events": []}}}])
    def test_so_is_what_means_nothing(self, run, orders, values):
        (orders.base / RECORD).parent.mkdir(exist_ok=True)
        (orders.base / RECORD).write_text(json.dumps(values))
        with pytest.raises(TableError, match="cannot be read"):
            run("{command: ['true']}")


class TestSuccessFile:
    DONE = "{success_file: _SUCCESS}"

    def test_it_is_there_while_the_partition_is_done(self, run, orders):
        marker = orders.base / TEN / "_SUCCESS"
        assert (run(self.DONE), marker.exists()) == ((1, 0), True)
        assert not (orders.base / ELEVEN / "_SUCCESS").exists()
        assert run(self.DONE) == (0, 0)
        be_late(orders)
        assert (run(self.DONE), marker.exists()) == ((0, 1), False)
        compact(orders)
        assert (run(self.DONE), marker.exists()) == ((1, 0), True)

    def test_late_data_that_was_compacted_between_two_runs_is_told_too(self, run, orders):
        run(self.DONE)
        be_late(orders)
        compact(orders)
        assert run(self.DONE) == (1, 1)
        event = DoneStore(str(orders.base)).read().partitions[TEN]
        assert (event.reopened, event.last.number, event.last.kind) == (1, 3, "done")

    @pytest.mark.parametrize(("then", "sent"), [("{success_file: _READY}", (1, 0)), ("{command: ['true']}", (1, 0))])
    def test_one_of_a_former_name_goes(self, run, orders, then, sent):
        """Nobody would take it away when late data come; the partition has the new one, and has the former once it is back."""
        marker, ready = (orders.base / TEN / name for name in ("_SUCCESS", "_READY"))
        run(self.DONE)
        assert (run(then), marker.exists(), ready.exists()) == (sent, False, "_READY" in then)
        assert run(then) == (0, 0)
        assert (run(self.DONE), marker.exists(), ready.exists()) == ((1, 0), True, False)

    def test_one_of_a_former_name_stays_where_none_is_taken_away(self, run, orders):
        run("{success_file: _SUCCESS, on_late: report}")
        assert run("{success_file: _READY, on_late: report}") == (1, 0)
        assert {one.name for one in (orders.base / TEN).glob("_*")} == {"_SUCCESS", "_READY"}

    def test_a_former_one_of_somebody_else_stays(self, run, orders):
        marker = orders.base / TEN / "_SUCCESS"
        marker.write_text("{}")
        run(self.DONE)
        run("{success_file: _READY}")
        assert marker.read_text() == "{}"

    def test_it_may_stay(self, run, orders):
        keep = "{success_file: _SUCCESS, on_late: report}"
        run(keep)
        be_late(orders)
        assert run(keep) == (0, 1)
        assert (orders.base / TEN / "_SUCCESS").exists()

    @pytest.mark.parametrize("content", [b"", b"{}", b"[" * 2_000, b"a manifest" * 10_000])
    def test_that_of_somebody_else_is_never_touched(self, run, orders, content):
        marker = orders.base / TEN / "_SUCCESS"
        marker.write_bytes(content)
        assert run(self.DONE) == (1, 0)
        be_late(orders)
        assert run(self.DONE) == (0, 1)
        assert marker.read_bytes() == content

    def test_readers_of_metadata_pass_over_it(self, run, orders, tmp_path):
        def read():
            with Project(tmp_path) as project:
                return project.environment.read_state(project.policies()[0])

        run(self.DONE)
        with_it = read()
        (orders.base / TEN / "_SUCCESS").unlink()
        assert read() == with_it

    def test_nothing_is_told_while_nobody_knows(self, run, orders, tmp_path):
        run(self.DONE)
        (orders.base / TEN / next(f.name for f in (orders.base / TEN).glob("*.parquet"))).unlink()
        (tmp_path / "policies" / "a.yml").write_text(f"{HOURLY}    done: {self.DONE}\n")
        with Project(tmp_path) as project:
            assert send_partition_events(project.environment, project.policies()[0], epoch_ms("14:00:00")) is None

    def test_a_record_that_means_nothing_is_an_error(self, run, orders):
        run(self.DONE)
        (orders.base / RECORD).write_text("{")
        with pytest.raises(TableError, match="cannot be read"):
            run(self.DONE)


class TestHttp:
    @pytest.fixture
    def done(self, endpoint):
        return f"{{http: {{url: '{endpoint.url}', secret_headers: {{Authorization: ETC_TEST_TOKEN}}}}, timeout: 500ms}}"

    @pytest.fixture(autouse=True)
    def _token(self, monkeypatch):
        monkeypatch.setenv("ETC_TEST_TOKEN", "Bearer s3cret")

    def test_a_cloud_event_is_posted_once(self, run, done, endpoint, orders):
        assert run(done) == (1, 0)
        assert run(done) == (0, 0)
        ((_, event),) = endpoint.posted
        assert {key: event[key] for key in ("specversion", "type", "subject")} == {
            "specversion": "1.0",
            "type": "etc.partition.done",
            "subject": TEN,
        }
        assert event["data"]["ends_ms"] == epoch_ms("11:00:00")
        headers = endpoint.headers[0]
        assert (headers["Authorization"], headers["Idempotency-Key"]) == ("Bearer s3cret", event["id"])
        assert "s3cret" not in (orders.base / RECORD).read_text()

    def test_late_data_are_counted(self, run, done, endpoint, orders):
        run(done)
        be_late(orders)
        compact(orders)
        assert run(done) == (1, 1)
        kinds = [event["type"].rpartition(".")[2] for _, event in endpoint.posted]
        assert kinds == ["done", "reopened", "done"]
        data = endpoint.posted[1][1]["data"]
        assert (data["late_writes"], data["late_rows_at_most"], data["late_event_ms"]) == (1, 3, epoch_ms("10:05:00"))

    @pytest.mark.parametrize("kind", ["INSERT_OVERWRITE", "INSERT_OVERWRITE_TABLE"])
    @pytest.mark.parametrize(("late", "said"), [((), ("dropped", None, None)), ((3,), ("late_data", 1, 3))])
    def test_an_overwrite_is_no_late_data(self, run, done, endpoint, orders, kind, late, said):
        """What others wrote before is."""
        run(done)
        for rows in late:
            orders.commit(at("11:20:00"), at("11:20:05"), base("late", partition=TEN, rows=rows))
        orders.replace(
            at("11:30:00"), at("11:30:05"), base("n", partition=TEN, rows=5), replaced={TEN: ["f10"]}, kind=kind
        )
        assert run(done) == (1, 1)
        data = endpoint.posted[1][1]["data"]
        assert (data["why"], data["late_writes"], data["late_rows_at_most"]) == said
        assert DoneStore(str(orders.base)).read().partitions[TEN].reopened == len(late)

    def test_what_an_overwrite_of_other_partitions_adds_is(self, run, done, endpoint, orders):
        run(done)
        written, replaced = base("n", partition=TEN, rows=5), {ELEVEN: ["f11"]}
        orders.replace(at("11:30:00"), at("11:30:05"), written, replaced=replaced, kind="INSERT_OVERWRITE")
        assert run(done) == (1, 1)
        data = endpoint.posted[1][1]["data"]
        assert (data["why"], data["late_writes"], data["late_rows_at_most"]) == ("late_data", 1, 5)

    @pytest.mark.parametrize("answers", [[503, 429], [None], [503, None]])
    def test_what_may_pass_is_tried_again_with_the_same_key(self, run, done, endpoint, answers):
        endpoint.answers = list(answers)
        assert run(done) == (1, 0)
        assert len(endpoint.posted) == len(answers) + 1
        assert len({event["id"] for _, event in endpoint.posted}) == 1

    @pytest.mark.parametrize("status", [400, 401, 302])
    def test_what_is_refused_is_kept_and_told_by_the_next_run(self, run, done, endpoint, status):
        endpoint.answers = [status]
        with pytest.raises(RetryableError, match=f"answered with status {status}") as error:
            run(done)
        assert (error.value.exit_code, error.value.code, len(endpoint.posted)) == (4, "ETC424", 1)
        assert run(done) == (1, 0)

    def test_one_that_is_away_and_comes_back_is_told(self, run, orders):
        away = Endpoint()
        done = f"{{http: {{url: '{away.url}'}}, timeout: 500ms}}"
        port = away.server_address[1]
        away.shutdown()
        away.server_close()
        with pytest.raises(RetryableError, match="does not answer"):
            run(done)
        with Endpoint(port) as back:
            assert run(done) == (1, 0)
            assert len(back.posted) == 1
            back.shutdown()

    def test_an_answer_that_drips_takes_no_longer_than_its_time(self, run):
        """A byte now and then kept a run for ever, with its lock of who sends."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            threading.Thread(target=drip, args=(server,), daemon=True).start()
            done = f"{{http: {{url: 'http://127.0.0.1:{server.getsockname()[1]}'}}, timeout: 500ms}}"
            began = time.monotonic()
            with pytest.raises(RetryableError, match=r"gave no whole answer within 0\.5 s"):
                run(done)
            assert time.monotonic() - began < 5

    def test_without_its_secret_nothing_is_posted(self, run, done, endpoint, monkeypatch):
        monkeypatch.delenv("ETC_TEST_TOKEN")
        with pytest.raises(RetryableError, match="`ETC_TEST_TOKEN` is not set"):
            run("{command: ['true'], " + done[1:])
        assert endpoint.posted == []

    def test_another_action_is_told_all_the_same(self, run, done, endpoint, orders):
        endpoint.answers = [400]
        with pytest.raises(RetryableError):
            run("{success_file: _SUCCESS, " + done[1:])
        assert (orders.base / TEN / "_SUCCESS").exists()


class TestCommand:
    def test_it_has_the_facts_in_its_environment_and_as_json(self, run, tmp_path):
        run("{command: [sh, -c, 'echo $ETC_EVENT_KIND $ETC_EVENT_PARTITION >> sent; cat > sent.json']}")
        assert (tmp_path / "sent").read_text() == f"done {TEN}\n"
        assert json.loads((tmp_path / "sent.json").read_text())["subject"] == TEN

    @pytest.mark.parametrize(
        ("command", "says"),
        [
            ("[sh, -c, 'echo why >&2; exit 3']", "exit code 3: why"),
            ("[sleep, '5']", "took longer than 0.5 s"),
            ("[/nowhere]", "cannot be run"),
        ],
    )
    def test_one_that_fails_is_run_again_by_the_next_run(self, run, command, says, tmp_path):
        with pytest.raises(RetryableError, match=says):
            run(f"{{command: {command}, timeout: 500ms}}")
        assert run("{command: [touch, sent], timeout: 500ms}") == (1, 0)
        assert (tmp_path / "sent").exists()

    def test_one_that_takes_too_long_ends_with_all_that_it_has_started(self, run, tmp_path):
        with pytest.raises(RetryableError, match="took longer"):
            run("{command: [sh, -c, 'sleep 300 & echo $! > started; wait'], timeout: 500ms}")
        started = int((tmp_path / "started").read_text())
        deadline = time.monotonic() + 10
        while Path(f"/proc/{started}").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not Path(f"/proc/{started}").exists() or "Z" in Path(f"/proc/{started}/stat").read_text().split()[2]

    def test_one_that_has_started_something_and_returned_has_taken_it(self, run, tmp_path):
        """What it has started may write to its standard error as long as it likes."""
        started = "[sh, -c, 'echo $ETC_EVENT_PARTITION >> sent; sleep 3 & exit 0']"
        assert run(f"{{command: {started}, timeout: 500ms}}") == (1, 0)
        assert run(f"{{command: {started}, timeout: 500ms}}") == (0, 0)
        assert (tmp_path / "sent").read_text() == f"{TEN}\n"


#: The process kills itself right before it changes the record for the so-manieth time, from 0.
KILLED = """
import os, signal, sys
from etc_policy.api.project import Project
from etc_policy.run.done_store import DoneStore
step, kills = [0], int(sys.argv[1])
real = DoneStore.update
def update(self, change, **how):
    if step[0] == kills:
        os.kill(os.getpid(), signal.SIGKILL)
    step[0] += 1
    return real(self, change, **how)
DoneStore.update = update
"""
SEND = """
from etc_policy.api import partitions
with Project(".") as project:
    partitions.send_partition_events(project.environment, project.policies()[0], int(sys.argv[2]))
"""


def send_in_a_process(folder, kills, now):
    return subprocess.Popen([sys.executable, "-c", KILLED + SEND, str(kills), str(epoch_ms(now))], cwd=folder)


@pytest.mark.parametrize("kills", [3, *nightly(0, 1, 2)])
def test_a_run_that_is_killed_anywhere_is_made_up_for(orders, endpoint, tmp_path, kills):
    """Before an event is recorded, before the turn is taken, before it is sent, and after it and before that is recorded."""
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "a.yml").write_text(f"{HOURLY}    done: {{http: {{url: '{endpoint.url}'}}}}\n")
    killed = send_in_a_process(tmp_path, kills, "12:00:00")
    assert killed.wait(60) == -signal.SIGKILL
    assert len(endpoint.posted) == (1 if kills == 3 else 0)
    assert send_in_a_process(tmp_path, 99, "12:00:00").wait(60) == 0
    assert len({event["id"] for _, event in endpoint.posted}) == 1
    before = len(endpoint.posted)
    assert send_in_a_process(tmp_path, 99, "12:00:00").wait(60) == 0
    assert len(endpoint.posted) == before


def test_two_runs_at_once_tell_once(orders, tmp_path):
    (tmp_path / "policies").mkdir()
    slow = "{command: [sh, -c, 'sleep 0.5; echo $ETC_EVENT_PARTITION >> sent']}"
    (tmp_path / "policies" / "a.yml").write_text(f"{HOURLY}    done: {slow}\n")
    runs = [send_in_a_process(tmp_path, 99, "13:00:00") for _ in range(3)]
    assert [one.wait(60) for one in runs] == [0, 0, 0]
    assert sorted((tmp_path / "sent").read_text().split()) == [TEN, ELEVEN]


def test_a_table_whose_name_is_not_utf_8_is_the_source_of_its_events():
    policy = Policy(name="o", table="lake/o", event_time=EventTime(column="ts"), data_latency_ms=0)
    policy = policy.model_copy(update={"table": os.fsdecode(b"lake/bad\xff")})  # as a namespace finds it
    event = DoneEvent(key="k", kind="done", partition="p", number=1, found_at_ms=2, instant=at("10:00:00"))
    assert sending.cloud_event(policy, event)["source"] == "lake/bad%FF"
