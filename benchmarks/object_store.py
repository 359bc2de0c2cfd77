"""What planning a table on an S3 server costs: seconds, requests and bytes, cold and with the copies of the last command.

    python -m benchmarks.object_store
    python -m benchmarks.object_store --commits 1000 --file-groups 100 --server versitygw

The table is that of `benchmarks.metadata_verification`, copied into a bucket of a server on this machine: moto, or
versitygw where it is installed. Seconds are the best of some runs of `etc plan` as a process of its own, at the server;
requests and bytes are counted by a proxy in other runs. Beside them the same plan on local disk, and at last, once, stock Hudi's
`run_compaction(op => 'schedule')` on the same server, a process with its JVM.
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
from pathlib import Path
from typing import Any

from benchmarks.figures import add_json, write_figures
from benchmarks.metadata_verification import write_table
from benchmarks.variables import COMPILED_ONCE

_PROJECT = """name: bench
profiles:
  bench:
    target: store
    targets:
      disk: {{table_root: "{folder}"}}
      store: {{table_root: "{root}", storage: {{endpoint: "{endpoint}"}}}}
"""
_POLICY = (
    "version: 1\npolicies:\n  - {name: t, table: t, event_time_column: {column: ts, unit: ms}, data_latency: 1h}\n"
)
_THREADS = 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=100)
    parser.add_argument("--file-groups", type=int, default=100)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--server", choices=("moto", "versitygw"), default="moto")
    parser.add_argument("--no-stock", action="store_true")
    add_json(parser)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, running(given.server, Path(name) / "server") as server:
        folder = Path(name) / "lake"
        folder.mkdir()
        write_table(folder / "t", given.commits, given.file_groups)
        began = time.perf_counter()
        root = upload(server, folder)
        print(f"{given.commits * given.file_groups:,} log files copied in {time.perf_counter() - began:.0f} s")
        found = measure(Path(name), folder, server, root, given.runs)
        if not given.no_stock:
            seconds = found["stock"] = schedule(server, f"{root}/t")
            ratios = [seconds / found[name] for name in ("cold", "cached")]
            print(f"stock      {seconds:6.2f} s  ({ratios[0]:.1f} times cold, {ratios[1]:.1f} times cached)")
        write_figures(given.json, found)


def measure(scratch: Path, folder: Path, server: Any, root: str, runs: int) -> dict[str, Any]:  # noqa: ANN401 - of the tests
    """The seconds of each way, with its requests and bytes; printed."""
    from tests.faulty_proxy import faulty_proxy

    project = scratch / "project"
    (project / "policies").mkdir(parents=True)
    (project / "policies" / "t.yml").write_text(_POLICY)
    settings = project / "etc_project.yml"
    settings.write_text(_PROJECT.format(folder=folder, root=root, endpoint=server.endpoint))
    disk = min(plan(project, scratch / "none", "disk") for _ in range(runs))
    cold = min(plan(project, scratch / f"cache{number}", "store") for number in range(runs))
    warm = min(plan(project, scratch / "cache0", "store") for _ in range(runs))
    with faulty_proxy(server.endpoint) as proxy:
        settings.write_text(_PROJECT.format(folder=folder, root=root, endpoint=proxy.endpoint))
        counted = []
        for _ in ("cold", "warm"):
            proxy.requests.clear()
            proxy.sent_bytes = 0
            plan(project, scratch / "counted", "store")
            counted.append((len(proxy.requests), dict(proxy.counts), proxy.sent_bytes))
    print(f"local disk {disk:6.2f} s")
    for title, seconds, (requests, kinds, sent) in zip(("cold", "cached"), (cold, warm), counted, strict=True):
        print(
            f"{title:<10} {seconds:6.2f} s  {requests:,} requests {kinds}  {sent:,} bytes  ({seconds / disk:.1f} times local)"
        )
    traffic = {
        name: {"requests": requests, "kinds": kinds, "bytes": sent}
        for name, (requests, kinds, sent) in zip(("cold", "cached"), counted, strict=True)
    }
    return {"disk": disk, "cold": cold, "cached": warm, "traffic": traffic}


def schedule(server: Any, table: str) -> float:  # noqa: ANN401 - of the tests
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


def upload(server: Any, folder: Path) -> str:  # noqa: ANN401 - of the tests
    """The table in a bucket, side by side; its files hold nothing, but for those of its metadata."""
    bucket, client = server.make_bucket(), server.client

    def put(path: Path) -> None:
        with path.open("rb") as file:
            client.put_object(Bucket=bucket, Key=path.relative_to(folder).as_posix(), Body=file)

    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(put, (path for path in sorted(folder.rglob("*")) if path.is_file())))
    return f"s3a://{bucket}"


if __name__ == "__main__":
    main()
