"""S3 servers for tests: on 127.0.0.1 alone, started once for each worker, with keys that are always set."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from uuid import uuid4

import pytest

KEY, SECRET, REGION = "test", "testtest", "us-east-1"
VARIABLES = {
    "AWS_ACCESS_KEY_ID": KEY,
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/nonexistent/config",
    "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent/credentials",
}
_START_SECONDS = 30
#: Keys that an answer lists; moto's are as many as it is given.
PAGES = {"moto": 100, "versitygw": 1_000}
#: By itself moto lets two of eight conditional puts win in one round of a hundred: it looks, and then it writes.
_MOTO = """
import sys, threading
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

inner, lock = DomainDispatcherApplication(create_backend_app), threading.Lock()

def one_put_at_a_time(environ, start_response):
    if environ["REQUEST_METHOD"] != "PUT":
        return inner(environ, start_response)
    with lock:
        return inner(environ, start_response)

run_simple("127.0.0.1", int(sys.argv[1]), one_put_at_a_time, threaded=True)
"""


@dataclass(frozen=True)
class S3Server:
    """A running server."""

    endpoint: str
    page: int = 1_000

    @cached_property
    def client(self):
        import boto3

        keys = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET}
        return boto3.client("s3", endpoint_url=self.endpoint, region_name=REGION, **keys)

    def storage_options(self) -> dict[str, str]:
        """How hudi-rs reaches it."""
        keys = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET}
        return {"aws_endpoint": self.endpoint, **keys, "aws_region": REGION, "aws_allow_http": "true"}

    def make_bucket(self) -> str:
        name = f"test-{uuid4().hex[:12]}"
        self.client.create_bucket(Bucket=name)
        return name

    def upload(self, folder: Path, bucket: str, prefix: str) -> str:
        """A local folder copied into a bucket; its location there."""
        client = self.client
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                client.put_object(
                    Bucket=bucket, Key=f"{prefix}/{path.relative_to(folder).as_posix()}", Body=path.read_bytes()
                )
        return f"s3a://{bucket}/{prefix}"

    def keys(self, bucket: str, prefix: str = "") -> list[str]:
        """The keys of a bucket that begin so."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return [one["Key"] for page in pages for one in page.get("Contents", ())]

    def content(self, bucket: str, key: str) -> bytes:
        return self.client.get_object(Bucket=bucket, Key=key)["Body"].read()

    def download(self, bucket: str, prefix: str, folder: Path) -> Path:
        """The files of a table in a bucket, copied into a local folder."""
        for key in self.keys(bucket, f"{prefix}/"):
            if not key.endswith((".crc", "/")):
                (folder / key).parent.mkdir(parents=True, exist_ok=True)
                self.client.download_file(bucket, key, str(folder / key))
        return folder / prefix


@pytest.fixture
def s3_variables(monkeypatch, tmp_path):
    """The environment of who works with a test server: its keys, and nothing of this machine's own."""
    monkeypatch.setenv("ETC_CACHE", str(tmp_path / "user's cache"))
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    return VARIABLES


@pytest.fixture(scope="session")
def moto_server(tmp_path_factory):
    with running("moto", tmp_path_factory.mktemp("moto")) as server:
        yield server


@pytest.fixture(scope="session")
def versity_server(tmp_path_factory):
    if shutil.which("versitygw") is None:
        pytest.skip("versitygw is not installed")
    with running("versitygw", tmp_path_factory.mktemp("versity")) as server:
        yield server


@pytest.fixture(params=["moto_server", "versity_server"])
def s3_server(request, s3_variables):
    """Each of the servers; keys are in the environment."""
    return request.getfixturevalue(request.param)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def running(name: str, folder: Path) -> Iterator[S3Server]:
    """A server of that name, ended afterwards; `folder` is for what it keeps."""
    port = free_port()
    command = {
        "moto": [sys.executable, "-c", _MOTO, str(port)],
        "versitygw": ["versitygw", "--port", f"127.0.0.1:{port}", "--region", REGION, "--quiet", "posix", str(folder)],
    }[name]
    variables = {
        **os.environ,
        **VARIABLES,
        "MOTO_S3_DEFAULT_MAX_KEYS": str(PAGES["moto"]),
        "ROOT_ACCESS_KEY": KEY,
        "ROOT_SECRET_KEY": SECRET,
    }
    process = subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(process, port)
        yield S3Server(f"http://127.0.0.1:{port}", PAGES[name])
    finally:
        process.terminate()
        process.wait()


def wait_for(process, port):
    end = time.monotonic() + _START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert process.poll() is None, "the server has ended"
            assert time.monotonic() < end, "the server does not answer"
            time.sleep(0.05)
