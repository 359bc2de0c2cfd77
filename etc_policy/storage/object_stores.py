"""Opens buckets as the target's `storage:` and the environment say."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from obstore.store import AzureStore, GCSStore, S3Store

from etc_policy.errors import TableError
from etc_policy.errors.codes import Code
from etc_policy.policy.project_schema import StorageSettings
from etc_policy.policy.schema_values import is_address, require_server
from etc_policy.storage.object_cache import cache_folder, cache_in
from etc_policy.storage.object_storage import ObjectStorage, Stores
from etc_policy.storage.store_keys import (
    ENDPOINTS,
    AwsKeys,
    aws_keys,
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
    make = partial(open_store, bucket, settings, environment, client)
    return Stores(make(retries), make({**retries, "max_retries": 0}), seconds)


def open_store(
    bucket: Bucket,
    settings: StorageSettings,
    environment: Mapping[str, str],
    client: Any,
    retries: Any,
    url: str | None = None,
) -> ObjectStore:
    """A bucket, with these options of obstore; one of Google or Azure at another server too."""
    if bucket.scheme.startswith("s3"):
        options = _s3_options(bucket, settings, environment)
        client = {**client, "allow_http": bool((endpoint_of(settings, environment) or "").startswith("http://"))}
        return S3Store(bucket.name, **options, client_options=client, retry_config=retries)
    require_other_keys(bucket.scheme, settings, environment)
    config: Any = {"skip_signature": True} if settings.anonymous else {}
    if bucket.scheme == "gs":
        config |= {"base_url": url} if url else {}
        return GCSStore(bucket.name, config=config, client_options=client, retry_config=retries)
    config |= {"account_name": bucket.account, **({"endpoint": url} if url else {})}
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
        message = f"the value of {' or '.join(ENDPOINTS)} is not the URL of a server: {error}"
        raise TableError(Code.NOT_LOCAL, message) from None


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
