"""A proxy before an S3 server that counts requests and, as long as it is told to, spoils some of them."""

from __future__ import annotations

import http.client
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

_KEPT = ("etag", "last-modified", "content-type", "content-range")
_BUSY = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_LISTING = (
    '<?xml version="1.0"?><ListBucketResult><IsTruncated>true</IsTruncated>'
    "<NextContinuationToken>t{number}</NextContinuationToken>{entries}</ListBucketResult>"
)
_ENTRY = "<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>a</ETag><Size>5</Size></Contents>"
#: Listings without end: of new names, of none, and of one name again and again.
ENDLESS = ("new pages", "empty pages", "same pages")
_BAD_KEYS = b"<Error><Code>SignatureDoesNotMatch</Code><Message>The signature is wrong.</Message></Error>"


class LocalHandler(BaseHTTPRequestHandler):
    """A handler of requests that keeps connections, and says nothing of clients that have gone."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two writes: the second would wait 40 ms for the client

    def log_message(self, *_: object) -> None:
        pass

    def handle(self) -> None:
        with suppress(OSError):
            super().handle()


class LocalServer(ThreadingHTTPServer):
    """A server on a free port of this machine, whose requests are answered by threads of their own."""

    daemon_threads = True

    def __init__(self, handler: type[LocalHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server_port}"

    @contextmanager
    def serving(self) -> Iterator[None]:
        thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            self.shutdown()
            self.server_close()
            thread.join()


class FaultyProxy:
    """`spoil(method, path)` says what is done to a request: a fault below, or "" for nothing.

    Headers that are named in `without` do not reach the server.
    """

    def __init__(self, endpoint: str) -> None:
        self.spoil: Callable[[str, str], str] = lambda method, path: ""
        self.requests: list[tuple[str, str]] = []
        self.sent_bytes = 0
        self.without: tuple[str, ...] = ()
        self.behind = urlsplit(endpoint).netloc
        proxy = self

        class Handler(_Handler):
            faults = proxy

        self.server = LocalServer(Handler)
        self.endpoint = self.server.url

    @property
    def counts(self) -> Counter[str]:
        return Counter(method for method, _ in self.requests)

    def once(self, fault: str, method: str, times: int = 1) -> None:
        """Spoil the next requests of a method."""
        left = [times]

        def spoil(asked: str, path: str) -> str:
            if asked != method or left[0] == 0:
                return ""
            left[0] -= 1
            return fault

        self.spoil = spoil

    def always(self, fault: str) -> None:
        self.spoil = lambda method, path: fault


@contextmanager
def faulty_proxy(endpoint: str) -> Iterator[FaultyProxy]:
    proxy = FaultyProxy(endpoint)
    with proxy.server.serving():
        yield proxy


class _Handler(LocalHandler):
    faults: FaultyProxy

    def setup(self) -> None:
        super().setup()
        self.behind: http.client.HTTPConnection | None = None

    def handle(self) -> None:
        try:
            super().handle()
        finally:
            if self.behind is not None:
                self.behind.close()

    def relay(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.faults.requests.append((self.command, self.path))
        fault = self.faults.spoil(self.command, self.path)
        if fault == "busy":
            return self.answer(503, _BUSY, {})
        if fault == "forbidden":
            return self.answer(403, _BAD_KEYS, {})
        if fault == "cut before":
            return self.cut()
        if fault in ENDLESS and "list-type" in self.path:
            return self.answer(200, self.endless_page(fault), {})
        status, headers, content = self.ask(body)
        if fault == ("page without end" if "list-type" in self.path else "more than asked"):
            return self.answer_without_end(status, content, headers)
        if fault == "cut after":
            return self.cut()
        if fault == "error after":
            return self.answer(500, b"<Error><Code>InternalError</Code></Error>", {})
        if fault == "silence after":
            time.sleep(4)
            return self.cut()
        if fault == "slow":
            time.sleep(0.3)
        return self.answer(status, content, headers, cut_in_body=fault == "cut in body")

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = relay

    def ask(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        if self.behind is None:
            self.behind = http.client.HTTPConnection(self.faults.behind)
        kept = {name: value for name, value in self.headers.items() if name.lower() not in self.faults.without}
        self.behind.request(self.command, self.path, body, kept)
        answer = self.behind.getresponse()
        headers = {name: value for name, value in answer.getheaders() if name.lower() in _KEPT}
        if self.command == "HEAD" and answer.getheader("Content-Length"):
            headers["Content-Length"] = str(answer.getheader("Content-Length"))
        return answer.status, headers, answer.read()

    def answer(self, status: int, content: bytes, headers: dict[str, str], *, cut_in_body: bool = False) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        sent = content[: len(content) // 2] if cut_in_body else content
        if self.command != "HEAD":
            self.faults.sent_bytes += len(sent)
            self.wfile.write(sent)
        if cut_in_body:
            self.cut()

    def endless_page(self, kind: str) -> bytes:
        prefix, number = parse_qs(urlsplit(self.path).query)["prefix"][0], len(self.faults.requests)
        names = {"new pages": [f"{number}-{n}" for n in range(1_000)], "empty pages": [], "same pages": ["f"] * 1_000}
        entries = "".join(_ENTRY.format(key=prefix + name) for name in names[kind])
        return _LISTING.format(number=number, entries=entries).encode()

    def answer_without_end(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in (headers | {"Content-Length": str(1 << 40)}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)
        while True:  # until the client closes the connection
            self.wfile.write(b"x" * (1 << 20))
            self.faults.sent_bytes += 1 << 20

    def cut(self) -> None:
        self.wfile.flush()
        self.close_connection = True
