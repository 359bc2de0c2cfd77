"""Which storage a table lies on, by its location."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterable
from contextvars import ContextVar
from pathlib import Path

from etc_policy.errors import TableError, install_hint
from etc_policy.errors.codes import Code
from etc_policy.policy.locations import MOUNT_HINT, location_identity, resolve_location, split_file_uri
from etc_policy.policy.project_schema import StorageSettings
from etc_policy.storage.local import LocalStorage
from etc_policy.storage.port import NamesBeside, RemoteStorage, TableReader, TableStorage

_OBJECT_STORES = ("s3://", "s3a://", "gs://", "abfs://", "abfss://")
_HDFS = "hdfs://"
#: The extras that reach tables on other machines, and a module of each.
STORAGE_EXTRAS = {"hdfs": "hdfs_native", "object-stores": "obstore"}
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
#: The target's, of the command that runs in this context: locations are handed on as texts.
_SETTINGS: ContextVar[StorageSettings | None] = ContextVar("storage settings", default=None)


def use_storage_settings(settings: StorageSettings) -> None:
    """Object stores and HDFS clusters that are opened in this context from now on are reached so."""
    _SETTINGS.set(settings)


def storage_settings() -> StorageSettings:
    """How object stores and HDFS clusters are reached in this context."""
    return _SETTINGS.get() or StorageSettings()


def open_storage(location: str) -> TableStorage:
    """The storage of the table at a location; nothing is read yet.

    Raises:
        TableError: it lies where etc cannot reach it, or there are no keys for it.

    """
    return open_remote_storage(location) if is_remote(location) else LocalStorage(local_path(location))


def open_reader(location: str) -> TableReader:
    """The storage of the table at a location, for who changes nothing there.

    Raises:
        TableError: it lies where etc cannot reach it, or there are no keys for it.

    """
    return open_storage(location)


def open_remote_storage(location: str) -> RemoteStorage:
    """The object store or HDFS cluster of the table at a location; nothing is read yet.

    Raises:
        TableError: a package for it is missing, there are no keys for it, or it is not known where it is.

    """
    settings = storage_settings()
    if missing := missing_extras([location]):
        package, code = (
            ("hdfs-native", Code.NEEDS_HDFS_NATIVE) if is_on_hdfs(location) else ("obstore", Code.NEEDS_OBSTORE)
        )
        raise TableError(code, f"{package} is needed to read `{location}`", hint=install_hint(missing[0]))
    if is_on_hdfs(location):
        from etc_policy.storage.hdfs_client import open_hdfs, parse_hdfs
        from etc_policy.storage.hdfs_storage import HdfsStorage

        return HdfsStorage(open_hdfs(location.rstrip("/"), settings), parse_hdfs(location).path)
    from etc_policy.storage.object_stores import open_object_storage

    return open_object_storage(location, settings)


def names_beside_bad_ones(location: str) -> NamesBeside | None:
    """What is in a folder of a bucket where some names are no part of a path (BadNameError); None where it is not listed."""
    if importlib.util.find_spec("botocore") is None:
        return None
    from etc_policy.storage.names_beside import list_names

    return list_names(location, storage_settings())


def extras_for(locations: Iterable[str]) -> tuple[str, ...]:
    """The extras by which tables at these locations are reached."""
    return tuple(sorted({"hdfs" if is_on_hdfs(one) else "object-stores" for one in locations if is_remote(one)}))


def missing_extras(locations: Iterable[str]) -> tuple[str, ...]:
    """Those of them that are not installed here."""
    return tuple(one for one in extras_for(locations) if not has_extra(one))


def has_extra(extra: str) -> bool:
    """Whether what reaches object stores or HDFS is installed here."""
    return importlib.util.find_spec(STORAGE_EXTRAS[extra]) is not None


def is_remote(location: str) -> bool:
    """Whether a location is on an object store or on HDFS: machines share it, and it is no folder of this one."""
    return is_on_hdfs(location) or is_on_object_store(location)


def is_on_object_store(location: str) -> bool:
    """Whether a location is one of an object store that can be reached."""
    return location.startswith(_OBJECT_STORES)


def is_on_hdfs(location: str) -> bool:
    """Whether a location is one of an HDFS cluster."""
    return location.startswith(_HDFS)


def table_identity(location: str, root: str = "/") -> str:
    """The same for every way of writing one table, also by a link; relative paths start from `root`."""
    found = location_identity(resolve_location(location, root))
    return os.path.realpath(found) if found.startswith("/") else found


def real_path(location: str) -> str:
    """The local folder of a location as links lead to it: `..` is that of what a link before it leads to.

    Raises:
        TableError: the location is not on local disk.

    """
    return os.path.realpath(local_path(location))


def local_path(location: str) -> Path:
    """The local folder of a table's location.

    Raises:
        TableError: the location is not on local disk.

    """
    if is_remote(location):
        where = "HDFS" if is_on_hdfs(location) else "an object store"
        hint = "it works on local disk and mounted folders"
        raise TableError(Code.NOT_LOCAL, f"this does not work on {where} yet: `{location}`", hint=hint)
    file = split_file_uri(location)
    if file is not None and file[0]:
        raise TableError(Code.NOT_LOCAL, f"`{location}` is on another machine", hint=MOUNT_HINT)
    if _URI.match(location) and file is None:
        hint = "tables on local disk, a mounted folder, hdfs://, s3://, gs:// and abfs:// can be planned"
        raise TableError(Code.NOT_LOCAL, f"cannot read `{location}` without a JVM", hint=hint)
    return Path(file[1] if file is not None else location)
