"""Servers of Azure's and Google's object stores for tests, where they are installed: on 127.0.0.1 alone."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import formatdate
from urllib.parse import quote, urlencode
from uuid import uuid4

import pytest
from obstore.store import AzureStore, GCSStore

from etc_policy.storage import object_stores
from tests.faulty_proxy import LocalHandler, LocalServer
from tests.s3_servers import free_port, wait_for

#: Azurite's account and its key, which are public.
ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@contextmanager
def _running(program: str, *arguments: str) -> Iterator[int]:
    """The port of a server, which is ended afterwards."""
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    port = free_port()
    command = [program, *(argument.format(port=port) for argument in arguments)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(process, port)
        yield port
    finally:
        process.terminate()
        process.wait()


def ask(port: int, method: str, url: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    try:
        connection.request(method, url, body, dict(headers))
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


@pytest.fixture(scope="session")
def azurite():
    """The port of Azurite."""
    quiet = ("--inMemoryPersistence", "--disableTelemetry", "--silent")
    with _running("azurite-blob", "--blobHost", "127.0.0.1", "--blobPort", "{port}", *quiet) as port:
        yield port


@pytest.fixture
def azure_container(azurite, monkeypatch):
    """The location of a new container, which obstore reaches without encryption; its key is in the environment."""
    name = f"test-{uuid4().hex[:12]}"
    assert ask_azurite(azurite, "PUT", f"/{ACCOUNT}/{name}", {"restype": "container"})[0] == 201
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", f"http://127.0.0.1:{azurite}/{ACCOUNT}")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", _KEY)
    monkeypatch.setattr(object_stores, "AzureStore", unencrypted(AzureStore))
    return f"abfss://{name}@{ACCOUNT}.dfs.core.windows.net"


def ask_azurite(port: int, method: str, path: str, query: Mapping[str, str], body: bytes = b"") -> tuple[int, bytes]:
    """Status and content of the answer to a request that the account's key signs."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2023-11-03"}
    headers |= {} if query else {"x-ms-blob-type": "BlockBlob"}
    signed = [method, "", "", str(len(body) or ""), *[""] * 8]
    signed += [f"{key}:{value}" for key, value in sorted(headers.items())]
    signed += [f"/{ACCOUNT}{path}", *(f"{key}:{value}" for key, value in sorted(query.items()))]
    digest = hmac.digest(base64.b64decode(_KEY), "\n".join(signed).encode(), hashlib.sha256)
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
    status, _, content = ask(port, method, f"{path}?{urlencode(query)}".rstrip("?"), body, headers)
    return status, content


def unencrypted(store: type[AzureStore] | type[GCSStore]):
    """A store that may be asked without TLS."""

    def make(bucket, *, client_options, **options):
        return store(bucket, client_options={**client_options, "allow_http": True}, **options)

    return make


class AzureKeys:
    """Puts objects of any name, which obstore does not."""

    def __init__(self, port: int, location: str) -> None:
        self.port, self.location = port, location

    def put(self, key: str, body: bytes) -> bool:
        container = self.location.removeprefix("abfss://").partition("@")[0]
        return ask_azurite(self.port, "PUT", f"/{ACCOUNT}/{container}/{quote(key)}", {}, body)[0] == 201


class GoogleKeys(AzureKeys):
    """The same on Google's test server."""

    def put(self, key: str, body: bytes) -> bool:
        bucket = self.location.removeprefix("gs://")
        url = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(key, safe='')}"
        return ask(self.port, "POST", url, body, {"Content-Type": "application/octet-stream"})[0] == 200


@pytest.fixture(params=["azurite", "fake-gcs-server"])
def cloud_keys(request):
    """A new bucket on each of the servers."""
    if request.param == "azurite":
        return AzureKeys(request.getfixturevalue("azurite"), request.getfixturevalue("azure_container"))
    return GoogleKeys(request.getfixturevalue("fake_gcs")[0], request.getfixturevalue("gcs_bucket"))


@pytest.fixture(scope="session")
def fake_gcs():
    """The ports of fake-gcs-server: its own, and one that takes puts as obstore sends them."""
    own = ("-host", "127.0.0.1", "-public-host", "127.0.0.1:{port}")
    with _running("fake-gcs-server", "-backend", "memory", "-scheme", "http", "-port", "{port}", *own) as port:

        class Handler(_PutsAsXml):
            behind = port

        server = LocalServer(Handler)
        with server.serving():
            yield port, server.server_port


@pytest.fixture
def gcs_bucket(fake_gcs, monkeypatch):
    """The location of a new bucket, which obstore reaches without a key and without encryption."""
    port, port_of_puts = fake_gcs
    name = f"test-{uuid4().hex[:12]}"
    kind = {"Content-Type": "application/json"}
    assert ask(port, "POST", "/storage/v1/b?project=test", json.dumps({"name": name}).encode(), kind)[0] == 200
    monkeypatch.setenv("GOOGLE_BASE_URL", f"http://127.0.0.1:{port_of_puts}")
    unused = {"client_email": "", "private_key": "", "private_key_id": ""}
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", json.dumps({"disable_oauth": True} | unused))
    monkeypatch.setattr(object_stores, "GCSStore", unencrypted(GCSStore))
    return f"gs://{name}"


class _PutsAsXml(LocalHandler):
    """Hands puts and copies of the XML API, which obstore uses, to the server's JSON API, and all else on as it is."""

    behind: int

    def do_PUT(self) -> None:
        bucket, _, key = self.path.removeprefix("/").partition("/")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        source, expected = self.headers.get("x-goog-copy-source"), self.headers.get("x-goog-if-generation-match")
        condition = f"ifGenerationMatch={expected}" if expected else ""
        url = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={key}&{condition}"
        if source:
            from_bucket, _, from_key = source.partition("/")
            url = f"/storage/v1/b/{from_bucket}/o/{from_key}/rewriteTo/b/{bucket}/o/{key}?{condition}"
        status, _, content = ask(self.behind, "POST", url, body, {"Content-Type": "application/octet-stream"})
        made = json.loads(content) if status == 200 else {}
        made = made.get("resource", made)
        self.answer(status, {"ETag": f'"{made.get("etag")}"', "x-goog-generation": made.get("generation", "")}, content)

    def relay(self) -> None:
        headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
        self.answer(*ask(self.behind, self.command, self.path, b"", headers))

    do_GET = do_HEAD = do_DELETE = relay

    def answer(self, status: int, headers: Mapping[str, str], content: bytes) -> None:
        self.send_response(status)
        kept = {name: value for name, value in headers.items() if name not in ("Connection", "Transfer-Encoding")}
        for name, value in ({"Content-Length": str(len(content))} | kept).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
