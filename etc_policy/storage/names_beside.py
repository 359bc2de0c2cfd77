"""What is in a folder of a bucket of which obstore lists nothing, as one name there is no part of a path."""

from __future__ import annotations

import os
import re
import secrets
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache, partial
from html import unescape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies_environment

import obstore
from botocore import UNSIGNED
from botocore.awsrequest import AWSPreparedRequest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from obstore.exceptions import BaseError

from etc_policy.errors import EtcError
from etc_policy.policy.project_schema import StorageSettings
from etc_policy.storage.bounded_http import bound_answers, sender
from etc_policy.storage.listings import ListingBounds
from etc_policy.storage.object_stores import Bucket, open_store, parse_bucket, region_of
from etc_policy.storage.port import NamesBeside, Requests
from etc_policy.storage.store_keys import AwsKeys, aws_keys, aws_session, endpoint_of

#: What no part of a path has for obstore.
_NO_NAME = re.compile(r"[\x00-\x1f\x7f/]")
_REQUESTS, _TRIES = Requests(), 2
_LOOPBACK = "127.0.0.1"
#: Names in an answer of Google's and of Azure's store, and what the next request goes on from.
_GOOGLE_NAME, _AZURE_NAME = re.compile(rb"<(?:Key|Prefix)>([^<]*)</"), re.compile(rb"<Name>([^<]*)</")
_NEXT = re.compile(rb"<(NextContinuationToken|NextMarker)>[^<]+</\1>")
_YES = ("1", "true", "on", "yes", "y")
_NO_NAMES = b"<L><Blobs></Blobs>%s</L>"


def list_names(location: str, settings: StorageSettings) -> NamesBeside | None:
    """All names in a folder of a bucket; None where they are not listed."""
    bucket = parse_bucket(location)
    prefix = f"{bucket.prefix}/" if bucket.prefix else ""
    bounds = ListingBounds(location, settings.timeout / 1000)
    ask = _ask_s3 if bucket.scheme.startswith("s3") else _ask_by_obstore
    try:
        keys = ask(bucket, prefix, settings, bounds)
    except (EtcError, BaseError, OSError, KeyError, ValueError, BotoCoreError, ClientError):
        return None
    found = {key.removeprefix(prefix).removesuffix("/") for key in keys if key.startswith(prefix) and key != prefix}
    names = frozenset(name for name in found if name not in ("", ".", "..") and not _NO_NAME.search(name))
    return NamesBeside(names, len(found) - len(names))


def _ask_s3(bucket: Bucket, prefix: str, settings: StorageSettings, bounds: ListingBounds) -> list[str]:
    keys = aws_keys(settings, os.environ)
    client = _s3_client(settings, tuple(os.environ.items()), keys() if keys else None)
    query, found = {"Bucket": bucket.name, "Prefix": prefix, "Delimiter": "/"}, list[str]()
    while True:
        page = _REQUESTS.in_time(partial(client.list_objects_v2, **query), _TRIES * settings.timeout / 1000)
        names = [one["Prefix"] for one in page.get("CommonPrefixes", ())]
        names += [one["Key"] for one in page.get("Contents", ())]
        bounds.count(names)
        found += names
        if not page.get("IsTruncated"):
            return found
        query["ContinuationToken"] = page["NextContinuationToken"]


@lru_cache(maxsize=4)
def _s3_client(settings: StorageSettings, variables: tuple[tuple[str, str], ...], given: AwsKeys | None) -> Any:
    """A client of botocore that asks the server that obstore asks, with the same keys."""
    environment = dict(variables)
    session, _ = aws_session(settings)
    seconds = settings.timeout / 1000
    config = Config(
        connect_timeout=seconds,
        read_timeout=seconds,
        retries={"total_max_attempts": _TRIES},
        signature_version=UNSIGNED if settings.anonymous else None,
        s3={"addressing_style": "path" if settings.path_style is not False else "virtual"},
        ignore_configured_endpoint_urls=True,
    )
    client = session.create_client(
        "s3",
        region_name=region_of(settings, environment),
        endpoint_url=endpoint_of(settings, environment),
        config=config,
        aws_access_key_id=given and given.key_id,
        aws_secret_access_key=given and given.secret,
        aws_session_token=given and given.token,
    )
    bound_answers(client, session, seconds)
    return client


def _ask_by_obstore(bucket: Bucket, prefix: str, settings: StorageSettings, bounds: ListingBounds) -> list[str]:
    """Let obstore ask this process, which asks the store the same and keeps what it answers.

    obstore has more ways to keys of Google and Azure than could be written again here.
    """
    environment, seconds = dict(os.environ), settings.timeout / 1000
    if _goes_by_a_proxy(_LOOPBACK):
        raise OSError("a proxy would be asked")
    form = _GOOGLE_NAME if bucket.scheme == "gs" else _AZURE_NAME
    url = _server_of(bucket, environment)
    with _relay(url.rstrip("/"), form, seconds, bounds) as relay:
        client: Any = {"timeout": timedelta(seconds=seconds), "allow_http": True, "user_agent": relay.word}
        retries = {"max_retries": _TRIES, "retry_timeout": timedelta(seconds=seconds)}
        store = open_store(bucket, settings, environment, client, retries, relay.url)
        bounds.wait(_list(store, bucket.prefix))
        return relay.found


def _server_of(bucket: Bucket, environment: Mapping[str, str]) -> str:
    """The URL of the server that obstore asks for this bucket."""
    if bucket.scheme == "gs":
        return environment.get("GOOGLE_BASE_URL") or "https://storage.googleapis.com"
    is_fabric = environment.get("AZURE_USE_FABRIC_ENDPOINT", "").lower() in _YES
    domain = "blob.fabric.microsoft.com" if is_fabric else "blob.core.windows.net"
    own = environment.get("AZURE_STORAGE_ENDPOINT") or environment.get("AZURE_ENDPOINT")
    return own or f"https://{bucket.account}.{domain}"


def _goes_by_a_proxy(host: str) -> bool:
    """Whether obstore sends requests without TLS to this host by a proxy of the environment."""
    proxies = getproxies_environment()
    without = {one.strip() for one in proxies.get("no", "").split(",")}
    return not proxies.keys().isdisjoint(("http", "all")) and without.isdisjoint(("*", host))


async def _list(store: Any, prefix: str) -> None:
    await obstore.list_with_delimiter_async(store, prefix or None)


class _Relay(ThreadingHTTPServer):
    """Sends the requests that obstore has signed on to a store, and keeps the names in the answers: obstore gets none of them.

    Whoever else on this machine asks is not answered.
    """

    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Nothing is printed where obstore waits no longer."""

    def __init__(self, url: str, form: re.Pattern[bytes], seconds: float, bounds: ListingBounds) -> None:
        super().__init__((_LOOPBACK, 0), _Request)
        path = urlsplit(url).path
        self.word, self.found = secrets.token_hex(), list[str]()
        self.url = f"http://{_LOOPBACK}:{self.server_port}{path}"  # the path is signed too
        self._server, self._form, self._seconds, self._bounds = url.removesuffix(path), form, seconds, bounds
        self._send = sender(url, ssl.get_default_verify_paths().cafile, seconds)

    def ask(self, path: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """The status of the store's answer, and what makes obstore ask for the next page."""
        request = AWSPreparedRequest("GET", self._server + path, headers, None, True)
        answer = _REQUESTS.in_time(partial(self._send, request), self._seconds)
        if answer.status_code != HTTPStatus.OK:
            return answer.status_code, b""
        names = [unescape(name.decode()) for name in self._form.findall(answer.content)]
        self._bounds.count(names)
        self.found += names
        following = _NEXT.search(answer.content)
        return answer.status_code, _NO_NAMES % (following[0] if following else b"")


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two writes: the second would wait 40 ms for obstore
    timeout = 30
    server: _Relay

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        status, content = HTTPStatus.FORBIDDEN.value, b""
        if self.headers.get("User-Agent") == self.server.word:
            kept = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "user-agent")}
            try:
                status, content = self.server.ask(self.path, kept)
            except (OSError, ValueError, BotoCoreError):
                status = HTTPStatus.BAD_REQUEST.value  # obstore does not try again
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def _relay(url: str, form: re.Pattern[bytes], seconds: float, bounds: ListingBounds) -> Iterator[_Relay]:
    with _Relay(url, form, seconds, bounds) as relay:
        threading.Thread(target=relay.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield relay
        finally:
            relay.shutdown()
