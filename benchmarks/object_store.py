"""What planning a table on an S3 server costs: seconds, requests and bytes, cold and with the copies of the last command.

    python -m benchmarks.object_store
    python -m benchmarks.object_store --commits 1000 --file-groups 100 --server versitygw

The table is that of `benchmarks.metadata_verification`, copied into a bucket of a server on this machine: moto, or
versitygw where it is installed. Seconds are the best of some runs of `etc plan` as a process of its own, at the server;
requests and bytes are counted by a proxy in other runs. Beside them the same plan on local disk, and at last, once, stock Hudi's
`run_compaction(op => 'schedule')` on the same server, a process with its JVM.

The runs that are counted take `--delay` milliseconds more for each request, as requests to a store that is far away do; their
seconds are printed too.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.figures import add_json, write_figures
from benchmarks.metadata_verification import PARTITIONS, write_table
from benchmarks.variables import COMPILED_ONCE

_PROJECT = """name: bench
profiles:
  bench:
    target: store
    targets:
      disk: {{table_root: "{folder}"}}
      store: {{table_root: "{root}", storage: {{endpoint: "{endpoint}"}}}}
"""
_POLICY = """version: 1
policies:
  - {name: t, table: t, event_time_column: {column: ts, unit: ms}, data_latency: 1h,
    strategy: {granularity: log_file}}
"""
_THREADS = 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=100)
    parser.add_argument("--file-groups", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=PARTITIONS)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--server", choices=("moto", "versitygw"), default="moto")
    parser.add_argument("--no-stock", action="store_true")
    parser.add_argument("--delay", type=int, default=0, help="milliseconds")
    add_json(parser)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, running(given.server, Path(name) / "server") as server:
        folder = Path(name) / "lake"
        folder.mkdir()
        write_table(folder / "t", given.commits, given.file_groups, given.partitions)
        began = time.perf_counter()
        root = upload(server, folder)
        print(f"{given.commits * given.file_groups:,} log files copied in {time.perf_counter() - began:.0f} s")
        bench = Bench(Path(name), folder, server, root, given.runs, given.delay)
        found = bench.measure()
        if not given.no_stock:
            seconds = found["stock"] = schedule(server, f"{root}/t")
            ratios = [seconds / found[name] for name in ("cold", "cached")]
            print(f"stock      {seconds:6.2f} s  ({ratios[0]:.1f} times cold, {ratios[1]:.1f} times cached)")
        write_figures(given.json, found)


class Bench:
    """`etc plan` of the table on local disk and in its bucket."""

    def __init__(self, scratch: Path, folder: Path, server: Any, root: str, runs: int, delay_ms: int) -> None:
        self._scratch, self._server, self._runs, self._delay_ms = scratch, server, runs, delay_ms
        self._project = scratch / "project"
        self._settings = partial(_PROJECT.format, folder=folder, root=root)
        (self._project / "policies").mkdir(parents=True)
        (self._project / "policies" / "t.yml").write_text(_POLICY)

    def measure(self) -> dict[str, Any]:
        """The seconds of each way, with its requests and bytes; printed."""
        runs, caches = range(self._runs), self._scratch / "caches"
        self._reach(self._server.endpoint)
        disk = min(plan(self._project, self._scratch / "none", "disk") for _ in runs)
        cold = min(plan(self._project, caches / str(number), "store") for number in runs)
        warm = min(plan(self._project, caches / "0", "store") for _ in runs)
        print(f"local disk {disk:6.2f} s")
        traffic = self._traffic(caches / "counted")
        for (name, counted), seconds in zip(traffic.items(), (cold, warm), strict=True):
            kinds = f"{counted['requests']:,} requests {counted['kinds']}  {counted['bytes']:,} bytes"
            late = f"{counted['late']:.2f} s at {self._delay_ms} ms a request"
            print(f"{name:<10} {seconds:6.2f} s  {kinds}  {late}  ({seconds / disk:.1f} times local)")
        return {"disk": disk, "cold": cold, "cached": warm, "traffic": traffic}

    def _traffic(self, cache: Path) -> dict[str, dict[str, Any]]:
        """What two plans ask for, the second with the copies of the first, and their seconds at a store that answers late."""
        from tests.faulty_proxy import faulty_proxy

        found = {}
        with faulty_proxy(self._server.endpoint) as proxy:
            proxy.spoil = self._late
            self._reach(proxy.endpoint)
            for name in ("cold", "cached"):
                proxy.requests.clear()
                proxy.sent_bytes = 0
                seconds = plan(self._project, cache, "store")
                kinds = {"requests": len(proxy.requests), "kinds": dict(proxy.counts), "bytes": proxy.sent_bytes}
                found[name] = {**kinds, "late": seconds}
        return found

    def _late(self, method: str, path: str) -> str:
        """Answers later, and spoils nothing."""
        time.sleep(self._delay_ms / 1000)
        return ""

    def _reach(self, endpoint: str) -> None:
        (self._project / "etc_project.yml").write_text(self._settings(endpoint=endpoint))


def schedule(server: Any, table: str) -> float:
    """Seconds of stock Hudi's scheduling, which has to leave a plan."""
    variables = {**os.environ, "AWS_ENDPOINT_URL_S3": server.endpoint, "AWS_REGION": "us-east-1"}
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "benchmarks.planning", "--schedule", table], env=variables, check=True)
    seconds = time.perf_counter() - began
    bucket = table.removeprefix("s3a://").partition("/")[0]
    if not any(key.endswith(".compaction.requested") for key in server.keys(bucket, "t/.hoodie/timeline/")):
        raise RuntimeError("stock Hudi scheduled nothing")
    return seconds


def plan(project: Path, cache: Path, target: str) -> float:
    """Seconds of `etc plan`."""
    variables = {**os.environ, **COMPILED_ONCE, "ETC_CACHE": str(cache)}
    command = [sys.executable, "-m", "etc_policy.cli.main", "plan", "--project-dir", str(project), "--target", target]
    began = time.perf_counter()
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if done.returncode or "refused" in done.stdout.splitlines()[1]:
        raise RuntimeError(done.stdout + done.stderr)
    return time.perf_counter() - began


@contextmanager
def running(name: str, folder: Path) -> Iterator[Any]:
    """A server of the tests, with its keys in the environment."""
    from tests import s3_servers

    os.environ |= s3_servers.VARIABLES
    folder.mkdir()
    if name == "versitygw" and shutil.which(name) is None:
        raise SystemExit("versitygw is not installed")
    with s3_servers.running(name, folder) as server:
        yield server


def upload(server: Any, folder: Path) -> str:
    """The table in a bucket, side by side; its files hold nothing, but for those of its metadata."""
    bucket, client = server.make_bucket(), server.client

    def put(path: Path) -> None:
        with path.open("rb") as file:
            client.put_object(Bucket=bucket, Key=path.relative_to(folder).as_posix(), Body=file)

    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(put, (path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".crc")))
    return f"s3a://{bucket}"


if __name__ == "__main__":
    main()
