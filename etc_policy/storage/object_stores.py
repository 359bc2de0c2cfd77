"""Opens buckets as the target's `storage:` and the environment say."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from obstore.store import AzureStore, GCSStore, S3Store

from etc_policy.errors import EtcError, TableError
from etc_policy.errors.codes import Code
from etc_policy.policy.project_schema import StorageSettings
from etc_policy.policy.schema_values import is_address, require_server
from etc_policy.storage.listings import ListingBounds
from etc_policy.storage.object_cache import cache_folder, cache_in
from etc_policy.storage.object_storage import ObjectStorage, Stores
from etc_policy.storage.port import Requests
from etc_policy.storage.store_keys import (
    ENDPOINTS,
    AwsKeys,
    aws_keys,
    aws_session,
    endpoint_of,
    require_other_keys,
    server_of,
)

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_FAMILIES = ("AWS_", "GOOGLE_", "AZURE_", "SERVICE_ACCOUNT")
_MAX_RETRIES = 7
#: Of a bucket, container or account: obstore panics at others.
_NAME = re.compile(r"[A-Za-z0-9$][A-Za-z0-9._$-]*")
#: What no part of a path has for obstore.
_NO_NAME = re.compile(r"[\x00-\x1f\x7f/]")
#: A thousand names of a thousand characters, each as `%AB`, with what is said of them.
_MOST_OF_A_PAGE = 16 << 20
_REQUESTS, _TRIES = Requests(), 2
#: Keys of a profile may be those of a role: they are asked for again after this.
_KEYS_LIVE = timedelta(minutes=5)


class Bucket(NamedTuple):
    """A location taken apart; an account is Azure's."""

    scheme: str
    name: str
    account: str
    prefix: str


def open_object_storage(location: str, settings: StorageSettings) -> ObjectStorage:
    """The storage of a table on an object store; nothing is read yet.

    Raises:
        TableError: the location names no bucket, or there are no keys.

    """
    bucket = parse_bucket(location)
    environment = tuple((k, v) for k, v in sorted(os.environ.items()) if k.startswith(_FAMILIES))
    stores = _open_bucket(bucket._replace(prefix=""), settings, environment)
    folder = cache_folder(os.environ)
    if folder is not None:
        stores = stores._replace(cache=cache_in(folder, server_of(settings, dict(environment))))
    return ObjectStorage(stores, bucket.prefix, location)


def list_names(location: str, settings: StorageSettings) -> Sequence[str]:
    """The names in a folder on S3 that can be parts of a path; none where it is not listed. obstore lists all of them or none."""
    from botocore.exceptions import BotoCoreError, ClientError

    bucket = parse_bucket(location)
    prefix = f"{bucket.prefix}/" if bucket.prefix else ""
    query = {"Bucket": bucket.name, "Prefix": prefix, "Delimiter": "/"}
    bounds, found = ListingBounds(location, settings.timeout / 1000), list[str]()
    try:
        with _s3_client(settings, os.environ) as client:
            while True:
                page = _REQUESTS.in_time(partial(client.list_objects_v2, **query), _TRIES * settings.timeout / 1000)
                names = [one["Prefix"] for one in page.get("CommonPrefixes", ())]
                names += [one["Key"] for one in page.get("Contents", ())]
                bounds.count(names)
                found += (name.removeprefix(prefix).removesuffix("/") for name in names)
                if not page.get("IsTruncated"):
                    return [name for name in found if name not in ("", ".", "..") and not _NO_NAME.search(name)]
                query["ContinuationToken"] = page["NextContinuationToken"]
    except (EtcError, OSError, KeyError, ValueError, BotoCoreError, ClientError):
        return ()


@contextmanager
def _s3_client(settings: StorageSettings, environment: Mapping[str, str]) -> Iterator[Any]:
    """A client of botocore that asks the server that obstore asks, with the same keys."""
    from botocore import UNSIGNED
    from botocore.config import Config
    from botocore.httpsession import URLLib3Session
    from botocore.utils import get_environ_proxies

    session, _ = aws_session(settings)
    keys = aws_keys(settings, environment)
    given = keys() if keys else None
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
    url, trusted = client.meta.endpoint_url, session.get_config_variable("ca_bundle")
    http = URLLib3Session(verify=trusted or True, proxies=get_environ_proxies(url), timeout=(seconds, seconds))

    def send(request: Any, **_: object) -> Any:
        """The answer, unless it is larger than a page's: botocore would hold one without end."""
        request.stream_output = True
        answer = http.send(request)
        answer._content = answer.raw.read(_MOST_OF_A_PAGE + 1)
        if len(answer._content) > _MOST_OF_A_PAGE:
            answer.raw.close()
            raise OSError("the store sends more than a page of a listing")
        return answer

    client.meta.events.register("before-send.s3", send)
    try:
        yield client
    finally:
        http.close()


def parse_bucket(location: str) -> Bucket:
    """The bucket of a location, and the prefix in it.

    Raises:
        TableError: it names none, or its prefix is not plain.

    """
    scheme, _, rest = location.partition("://")
    host, _, prefix = rest.partition("/")
    name, _, account = host.partition("@")
    is_azure = scheme.startswith("abfs")
    if not _NAME.fullmatch(name) or bool(account) != is_azure or not _NAME.fullmatch(account or "none"):
        form = f"{scheme}://CONTAINER@ACCOUNT.dfs.core.windows.net/FOLDER" if is_azure else f"{scheme}://BUCKET/FOLDER"
        raise TableError(Code.NOT_LOCAL, f"`{location}` names no bucket", hint=f"write `{form}`")
    if any(part in (".", "..") for part in prefix.split("/")):
        message = f"`{location}` has `.` or `..` in its path, which a store takes for names"
        raise TableError(Code.NOT_LOCAL, message, hint="write the path without them")
    return Bucket(scheme, name, account.partition(".")[0], "/".join(part for part in prefix.split("/") if part))


def region_of(settings: StorageSettings, environment: Mapping[str, str]) -> str:
    """The region that requests are signed for."""
    return settings.region or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or "us-east-1"


@lru_cache(maxsize=32)
def _open_bucket(bucket: Bucket, settings: StorageSettings, variables: tuple[tuple[str, str], ...]) -> Stores:
    """The stores of a bucket: they keep connections, which tables share."""
    environment, seconds = dict(variables), settings.timeout / 1000
    # a request may begin when the time for retries is nearly over
    client: Any = {"timeout": timedelta(seconds=seconds / 3), "connect_timeout": timedelta(seconds=seconds / 6)}
    pauses = {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2}
    retries = {"max_retries": _MAX_RETRIES, "retry_timeout": timedelta(seconds=seconds * 2 / 3), "backoff": pauses}
    make = partial(_open_store, bucket, settings, environment, client)
    return Stores(make(retries), make({**retries, "max_retries": 0}), seconds)


def _open_store(
    bucket: Bucket,
    settings: StorageSettings,
    environment: Mapping[str, str],
    client: Any,
    retries: Any,
) -> ObjectStore:
    if bucket.scheme.startswith("s3"):
        options = _s3_options(bucket, settings, environment)
        client = {**client, "allow_http": bool((endpoint_of(settings, environment) or "").startswith("http://"))}
        return S3Store(bucket.name, **options, client_options=client, retry_config=retries)
    require_other_keys(bucket.scheme, settings, environment)
    config: Any = {"skip_signature": True} if settings.anonymous else {}
    if bucket.scheme == "gs":
        return GCSStore(bucket.name, config=config, client_options=client, retry_config=retries)
    config["account_name"] = bucket.account
    return AzureStore(bucket.name, config=config, client_options=client, retry_config=retries)


def _s3_options(bucket: Bucket, settings: StorageSettings, environment: Mapping[str, str]) -> dict[str, Any]:
    endpoint, keys = endpoint_of(settings, environment), aws_keys(settings, environment)
    _require_url(endpoint)
    config: dict[str, object] = {"aws_region": region_of(settings, environment)}
    if settings.path_style is False:
        config["aws_virtual_hosted_style_request"] = True
        endpoint = endpoint and _with_bucket(endpoint, bucket.name)
    if endpoint:
        config["aws_endpoint_url_s3"] = endpoint  # under another name AWS_ENDPOINT_URL_S3 would silently win
    if settings.anonymous:
        config["aws_skip_signature"] = True
    return {"config": config, **({"credential_provider": partial(_provide, keys)} if keys else {})}


def _require_url(endpoint: str | None) -> None:
    """Return if obstore can ask the server: it panics at a text that is no URL, which only the environment can hold.

    Raises:
        TableError: it cannot.

    """
    if not endpoint:
        return
    try:
        require_server(endpoint)
    except ValueError as error:
        hint = f"write it as `https://{endpoint}`" if "://" not in endpoint else None
        message = f"`{endpoint[:60]}` is not the URL of a server: it is the value of {' or '.join(ENDPOINTS)}"
        raise TableError(Code.NOT_LOCAL, message, hint=hint) from error


def _provide(keys: Callable[[], AwsKeys]) -> dict[str, object]:
    """Keys in the form that obstore asks for."""
    found = keys()
    pairs = {"access_key_id": found.key_id, "secret_access_key": found.secret, "token": found.token}
    return {**pairs, "expires_at": datetime.now(UTC) + _KEYS_LIVE}


def _with_bucket(endpoint: str, name: str) -> str:
    """The endpoint with the bucket in its host, as obstore wants it for requests of that style.

    Raises:
        TableError: its host is an address.

    """
    parts = urlsplit(endpoint)
    if is_address(parts.hostname or ""):
        hint = "leave out `path_style: false`, or name the server by its name"
        raise TableError(Code.NOT_LOCAL, f"a bucket's name cannot stand before the address in `{endpoint}`", hint=hint)
    return parts._replace(netloc=f"{name}.{parts.netloc}").geturl()
