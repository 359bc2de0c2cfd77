"""What planning a table on an S3 server costs: seconds, requests and bytes, cold and with the copies of the last command.

    python -m benchmarks.object_store
    python -m benchmarks.object_store --commits 1000 --file-groups 100 --server versitygw
    python -m benchmarks.object_store --table-version 8 --rows 100 --no-stock    # as Hudi 1.0 writes on EMR and Glue
    python -m benchmarks.object_store --table-version 6 --rows 100 --no-stock    # and Hudi 0.15

The table is that of `benchmarks.metadata_verification`, copied into a bucket of a server on this machine: moto, or
versitygw where it is installed. Seconds are the best of some runs of `etc plan` as a process of its own, at the server;
requests and bytes are counted by a proxy in other runs. Beside them the same plan on local disk, one after another commit, and
at last, once, stock Hudi's `run_compaction(op => 'schedule')` on the same server, a process with its JVM.

With `--rows` commits record no event times, as those of Hudi before 1.1: they are read from the log files, each of which
has so many rows of some 200 bytes.

The runs that are counted take `--delay` milliseconds more for each request, as requests to a store that is far away do; their
seconds are printed too.
"""

from __future__ import annotations

import argparse
import os
import resource
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
from benchmarks.log_reading import log_block
from benchmarks.metadata_verification import FIRST, PARTITIONS, Layout, write_commit, write_table
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
  - {{name: t, table: t, event_time_column: {{column: ts, unit: ms}}, data_latency: 1h,
    strategy: {{granularity: {granularity}}}}}
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
    parser.add_argument("--table-version", type=int, choices=(6, 8, 9), default=9)
    parser.add_argument("--rows", type=int, default=0, help="of each log file")
    parser.add_argument("--delay", type=int, default=0, help="milliseconds")
    add_json(parser)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, running(given.server, Path(name) / "server") as server:
        table = Table(server, Path(name) / "lake", given)
        began = time.perf_counter()
        table.upload()
        print(f"{given.commits * given.file_groups:,} log files copied in {time.perf_counter() - began:.0f} s")
        found = Bench(Path(name), server, table, given).measure()
        if not given.no_stock:
            seconds = found["stock"] = schedule(server, f"{table.root}/t")
            ratios = [seconds / found[name] for name in ("cold", "cached")]
            print(f"stock      {seconds:6.2f} s  ({ratios[0]:.1f} times cold, {ratios[1]:.1f} times cached)")
        write_figures(given.json, found)


class Table:
    """The table in a folder of this machine, and in a bucket."""

    def __init__(self, server: Any, folder: Path, given: argparse.Namespace) -> None:
        self.folder, self._given, self._commits = folder, given, given.commits
        self._layout = Layout(given.table_version, partial(_content, given.rows) if given.rows else None)
        self._client, self._bucket = server.client, server.make_bucket()
        self._uploaded: set[Path] = set()
        write_table(folder / "t", given.commits, given.file_groups, given.partitions, self._layout)

    @property
    def root(self) -> str:
        """Where the bucket's is below."""
        return f"s3a://{self._bucket}"

    def commit(self) -> None:
        """Once more to every file group, in both."""
        self._commits += 1
        write_commit(self.folder / "t", self._commits, self._given.file_groups, self._given.partitions, self._layout)
        self.upload()

    def upload(self) -> None:
        """What the bucket lacks, side by side."""
        files = {path for path in self.folder.rglob("*") if path.is_file() and path.suffix != ".crc"} - self._uploaded
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(self._put, sorted(files)))
        self._uploaded |= files

    def _put(self, path: Path) -> None:
        with path.open("rb") as file:
            self._client.put_object(Bucket=self._bucket, Key=path.relative_to(self.folder).as_posix(), Body=file)


def _content(rows: int, number: int) -> bytes:
    """A log file of a commit, whose events are of its minute."""
    return log_block(rows, int(FIRST.timestamp() * 1000) + number * 60_000)


class Bench:
    """`etc plan` of the table on local disk and in its bucket."""

    def __init__(self, scratch: Path, server: Any, table: Table, given: argparse.Namespace) -> None:
        self._scratch, self._server, self._table = scratch, server, table
        self._runs, self._delay_ms = given.runs, given.delay
        self._project = scratch / "project"
        self._settings = partial(_PROJECT.format, folder=table.folder, root=table.root)
        (self._project / "policies").mkdir(parents=True)
        granularity = "log_file" if given.table_version >= 8 else "file_slice"
        (self._project / "policies" / "t.yml").write_text(_POLICY.format(granularity=granularity))

    def measure(self) -> dict[str, Any]:
        """The seconds of each way, with its requests and bytes; printed."""
        runs, caches = range(self._runs), self._scratch / "caches"
        self._reach(self._server.endpoint)
        disk = min(self._cold(self._scratch / "none", "disk") for _ in runs)
        seconds = {
            "cold": min(self._cold(caches / str(number)) for number in runs),
            "cached": min(plan(self._project, caches / str(self._runs - 1), "store") for _ in runs),
        }
        self._table.commit()
        seconds["grown"] = plan(self._project, caches / str(self._runs - 1), "store")
        print(f"local disk {disk:6.2f} s")
        traffic = self._traffic(caches / "counted")
        for name, counted in traffic.items():
            kinds = f"{counted['requests']:,} requests {counted['kinds']}  {counted['bytes']:,} bytes"
            late = f"{counted['late']:.2f} s at {self._delay_ms} ms a request"
            print(f"{name:<10} {seconds[name]:6.2f} s  {kinds}  {late}  ({seconds[name] / disk:.1f} times local)")
            print(f"           {counted['processor']:6.2f} s of the processor")
        return {"disk": disk, **seconds, "traffic": traffic}

    def _cold(self, cache: Path, target: str = "store") -> float:
        """A plan without anything that earlier ones have kept."""
        shutil.rmtree(cache, ignore_errors=True)
        shutil.rmtree(self._project / "target", ignore_errors=True)
        return plan(self._project, cache, target)

    def _traffic(self, cache: Path) -> dict[str, dict[str, Any]]:
        """What plans ask for, and their seconds at a store that answers late.

        The second has the copies of the first, and what it has read; another commit comes before the third.
        """
        from tests.faulty_proxy import faulty_proxy

        found = {}
        shutil.rmtree(self._project / "target")
        with faulty_proxy(self._server.endpoint) as proxy:
            proxy.spoil = self._late
            self._reach(proxy.endpoint)
            for name in ("cold", "cached", "grown"):
                if name == "grown":
                    self._table.commit()
                proxy.requests.clear()
                proxy.sent_bytes = 0
                before = processor_seconds()
                seconds = plan(self._project, cache, "store")
                kinds = {"requests": len(proxy.requests), "kinds": dict(proxy.counts), "bytes": proxy.sent_bytes}
                found[name] = {**kinds, "late": seconds, "processor": processor_seconds() - before}
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


def processor_seconds() -> float:
    """Those of the commands that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


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


if __name__ == "__main__":
    main()
