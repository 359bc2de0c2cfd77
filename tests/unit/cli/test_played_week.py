"""`etc run` for a day of rounds, at speed, where all goes wrong that can without Spark: nothing grows."""

import json
import socket
import subprocess
import sys
import threading

import pytest

from tests.unit.api.test_partition_events import drip
from tests.unit.hudi.table_folder import TableFolder, at, base, log
from tests.unit.plan.plan_cases import epoch_ms

pytestmark = pytest.mark.extended

#: As many as of ten minutes are in a day.
ROUNDS = 144
POLICIES = """version: 1
policies:
  - {{name: hangs, table: "hdfs://{hung}/t", event_time_column: ts, data_latency: 1h, verify: {{level: metadata}}}}
  - name: "{{{{ each }}}}"
    table: "lake/{{{{ each }}}}"
    for_each: [{tables}]
    event_time_column: ts
    data_latency: 1h
    freshness: {{target: 2h}}
    verify: {{level: metadata}}
    partition_time: {{from: "h=%Y-%m-%d-%H"}}
    done: {{http: {{url: "http://{drips}"}}, timeout: 100ms}}
"""
NOTIFY = "notify: {{http: {{url: 'http://{drips}/n'}}, timeout: 100ms, every: 1s, record: {record}}}\n"
RUN = """
import json, os, sys, time
from etc_policy import wiring
from etc_policy.api import running
from etc_policy.cli import main, run
from etc_policy.run import sending
running.LONGEST_WAIT_MS, sending.PAUSES_SECONDS = 300, (0.01, 0.01)
began, now_ns, step_ns, rounds = time.monotonic_ns(), NOW * 1_000_000, [0], [0]
class Clock:  # `wiring` alone tells the time of rounds
    monotonic, sleep = time.monotonic, time.sleep
    @staticmethod
    def time_ns():
        return now_ns + step_ns[0] + time.monotonic_ns() - began
wiring.time = Clock
plain_round, samples = run._round, []
def stats():
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return {"threads": int(status["Threads"]), "kib": int(status["VmRSS"].split()[0]), "files": len(os.listdir("/proc/self/fd"))}
def counted(*given, **named):
    rounds[0] += 1
    if rounds[0] in (50, 100):  # an hour ahead, then two back
        step_ns[0] += (3600 if rounds[0] == 50 else -7200) * 10**9
    if rounds[0] == 75:
        filler = os.open("record/filler", os.O_CREAT | os.O_WRONLY)
        try:
            while os.write(filler, b"x" * 4096): pass
        except OSError: pass
        os.close(filler)
    if rounds[0] % 4 == 0:
        samples.append(stats())
    return plain_round(*given, **named)
run._round = counted
code = main.main(["run", "--every", "100ms", "--rounds", "ROUNDS", "--listen", "127.0.0.1:0"])
json.dump({"code": code, "rounds": rounds[0], "samples": samples}, open("found.json", "w"))
os._exit(0)
"""


@pytest.fixture
def small_disk(tmp_path):
    """A folder with room for 128 KiB."""
    folder = tmp_path / "record"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_day_of_rounds_is_flat(tmp_path, small_disk):
    names = [f"t{number}" for number in range(2)]
    for name in names:
        table = TableFolder(tmp_path / "lake" / name)
        table.commit(at("09:00:00"), at("09:00:05"), base("f9", partition="h=2026-01-01-09"))
        table.commit(
            at("11:20:00"), at("11:20:05"), log("f9", partition="h=2026-01-01-11", min_event=epoch_ms("11:10:00"))
        )
    with socket.create_server(("127.0.0.1", 0)) as drips, socket.create_server(("127.0.0.1", 0), backlog=512) as hung:
        threading.Thread(target=drip, args=(drips,), daemon=True).start()  # `hung` accepts and never answers
        addresses = {"drips": f"127.0.0.1:{drips.getsockname()[1]}", "hung": f"127.0.0.1:{hung.getsockname()[1]}"}
        (tmp_path / "policies").mkdir()
        (tmp_path / "policies" / "a.yml").write_text(POLICIES.format(tables=", ".join(names), **addresses))
        target = "profiles: {p: {target: t, targets: {t: {storage: {timeout: 200ms}}}}}\n"
        (tmp_path / "etc_project.yml").write_text(NOTIFY.format(record=small_disk, **addresses) + target)
        script = RUN.replace("NOW", str(epoch_ms("12:00:00"))).replace("ROUNDS", str(ROUNDS))
        (tmp_path / "play.py").write_text(script)
        with open(tmp_path / "said", "wb") as said:
            subprocess.run([sys.executable, "play.py"], cwd=tmp_path, stdout=said, stderr=said, timeout=900, check=True)
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["rounds"] == ROUNDS, (tmp_path / "said").read_text()[-3000:]
    third, last = found["samples"][len(found["samples"]) // 3], found["samples"][-1]
    print(third, last)
    assert last["threads"] <= third["threads"] + 4
    assert last["files"] <= third["files"] + 8
    assert last["kib"] <= third["kib"] + 8 * 1024
    text = (tmp_path / "said").read_text()
    assert "ETC009" not in text
    assert "cannot be kept" in text
