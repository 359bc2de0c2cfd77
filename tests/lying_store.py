"""A server that answers like Google's or Azure's store or the Glue Data Catalog, and gives wrong answers on demand."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

import pytest
from obstore.store import AzureStore, GCSStore

from etc_policy.storage import object_stores
from tests.cloud_servers import unencrypted
from tests.faulty_proxy import LocalHandler, LocalServer

_DATE = "2026-01-01T00:00:00.000Z"
_GOOGLE = "<Contents><Key>{}</Key><Size>5</Size><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>a</ETag></Contents>"
_AZURE = (
    "<Blob><Name>{}</Name><Properties><Last-Modified>Thu, 01 Jan 2026 00:00:00 GMT</Last-Modified>"
    "<Content-Length>5</Content-Length><Content-Type>a</Content-Type><Etag>a</Etag></Properties></Blob>"
)
_GOOGLE_PAGE = "<ListBucketResult>{entries}{token}</ListBucketResult>"
_AZURE_PAGE = "<EnumerationResults><Blobs>{entries}</Blobs><NextMarker>{following}</NextMarker></EnumerationResults>"
#: Listings without end: of new names, of none, of one name again and again, and the same with one that is no path.
ENDLESS = ("new pages", "empty pages", "same pages", "bad pages")
#: What else may be in the place of an answer.
LIES = (
    "without end",
    "headers without end",
    "drips",
    "silence",
    "elsewhere",
    "itself",
    "forbidden",
    "busy",
    "no answer",
)
#: Answers of Glue in which something is missing or is of another kind, by what they are.
ODD = {
    "nothing": b"{}",
    "no object": b"[1]",
    "no json": b"{",
    "text": b'{"TableList": "x", "Table": "x"}',
    "no names": b'{"TableList": [{}, null, {"Name": null}], "Table": {}}',
    "deep": b"[" * 200_000,
}


class LyingStore:
    """`lie` is one of those above, or "" for listings of `pages`, each of which has names, and objects of five bytes."""

    def __init__(self) -> None:
        self.lie = ""
        self.pages: list[list[str]] = [[]]
        self.requests: list[str] = []
        self.keys: list[str] = []
        self.sent_bytes = 0
        self.elsewhere = ""
        store = self

        class Handler(_Handler):
            faults = store

        self.server = LocalServer(Handler)
        self.url = self.server.url


class _Handler(LocalHandler):
    faults: LyingStore

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.faults.requests.append(self.path)
        self.faults.keys += [value for name, value in self.headers.items() if name.lower() == "authorization"]
        lie = self.faults.lie
        if "X-Amz-Target" in self.headers and lie in (*ENDLESS, *ODD):
            return self.send(200, ODD.get(lie) or self.tables(lie))
        if lie in ENDLESS:
            return self.send(200, self.page(lie) if "prefix" in self.path else b"12345")
        if lie in ("elsewhere", "itself"):
            self.send_response(307)
            self.send_header("Location", (self.faults.elsewhere if lie == "elsewhere" else self.faults.url) + self.path)
            self.send_header("Content-Length", "0")
            return self.end_headers()
        if lie in ("forbidden", "busy"):
            return self.send(403 if lie == "forbidden" else 503, b"<Error><Code>Wrong</Code></Error>")
        if lie == "no answer":
            self.close_connection = True
            return None
        if lie == "silence":
            time.sleep(8)
            self.close_connection = True
            return None
        if lie:
            return self.go_on(lie)
        return self.send(200, self.page("") if "prefix" in self.path else b"12345")

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer

    def send(self, status: int, content: bytes) -> None:
        self.send_response(status)
        for name, value in self.headers_of(len(content)).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.faults.sent_bytes += len(content)
            self.wfile.write(content)

    def headers_of(self, length: int) -> dict[str, str]:
        kept = {"ETag": '"a"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT", "x-goog-generation": "1"}
        return {"Content-Length": str(length)} | kept

    def go_on(self, lie: str) -> None:
        """Send until the client closes the connection; a length is not said, as obstore takes so much memory at once."""
        self.send_response(200)
        part, pause = (b"<", 0.2) if lie == "drips" else (b"x" * (1 << 20), 0.0)
        if lie == "headers without end":
            part = b"X-A: " + b"x" * 1_000 + b"\r\n"
            self.flush_headers()
        else:
            for name, value in self.headers_of(5).items():
                self.send_header(*(("Connection", "close") if name == "Content-Length" else (name, value)))
            self.end_headers()
        while True:
            self.wfile.write(part)
            self.faults.sent_bytes += len(part)
            time.sleep(pause)

    def page(self, lie: str) -> bytes:
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        begun = (query.get("marker") or query.get("continuation-token") or "t0").removeprefix("t")
        number = int(begun) + 1
        names = {
            "new pages": [f"{number}-{n}" for n in range(1_000)],
            "empty pages": [],
            "same pages": ["f"] * 1_000,
            "bad pages": ["/x", *(f"{number}-{n}" for n in range(1_000))],
        }
        found = names[lie] if lie else self.faults.pages[number - 1]
        following = f"t{number}" if lie or number < len(self.faults.pages) else ""
        page = _AZURE_PAGE if "comp" in query else _GOOGLE_PAGE
        if "delimiter" in query:
            found = list(dict.fromkeys(f"{name.partition('/')[0]}/" if "/" in name else name for name in found))
        entries = "".join(self.entry(escape(query["prefix"] + name)) for name in found)
        token = f"<NextContinuationToken>{following}</NextContinuationToken>" if following else ""
        return page.format(entries=entries, following=following, token=token).encode()

    def tables(self, lie: str) -> bytes:
        number = len(self.faults.requests)
        names = [f"t{number}_{n}" for n in range(1_000)] if lie != "empty pages" else []
        location = {"Location": "s3://lake/t"}
        found = [{"Name": name, "DatabaseName": "d", "StorageDescriptor": location} for name in names]
        token = "t" if lie == "same pages" else f"t{number}"
        return json.dumps({"TableList": found, "NextToken": token, "Table": {"Name": "t"}}).encode()

    def entry(self, name: str) -> str:
        if "comp=list" in self.path:
            return f"<BlobPrefix><Name>{name}</Name></BlobPrefix>" if name.endswith("/") else _AZURE.format(name)
        return (
            f"<CommonPrefixes><Prefix>{name}</Prefix></CommonPrefixes>" if name.endswith("/") else _GOOGLE.format(name)
        )


#: How each cloud's store is reached in tests: the location of a folder, and what is in the environment.
CLOUDS = {
    "google": (
        "gs://bucket/t",
        "GOOGLE_BASE_URL",
        {"GOOGLE_BEARER_TOKEN": "secret"},
    ),
    "azure": (
        "abfss://container@account.dfs.core.windows.net/t",
        "AZURE_STORAGE_ENDPOINT",
        {"AZURE_STORAGE_ACCOUNT_KEY": "a2V5"},
    ),
}


def reach(store: LyingStore, cloud: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The location of a folder that this server has."""
    location, variable, keys = CLOUDS[cloud]
    for name, value in (keys | {variable: store.url}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(object_stores, "GCSStore", unencrypted(GCSStore))
    monkeypatch.setattr(object_stores, "AzureStore", unencrypted(AzureStore))
    return location


@contextmanager
def lying_store() -> Iterator[LyingStore]:
    store = LyingStore()
    with store.server.serving():
        yield store
