"""Which storage a table lies on, by its location."""

from __future__ import annotations

import importlib.util
import re
from contextvars import ContextVar
from pathlib import Path

from etc_policy.adapters.storage.local import LocalStorage
from etc_policy.adapters.storage.port import TableStorage
from etc_policy.codes.registry import Code
from etc_policy.declare.project_schema import StorageSettings
from etc_policy.errors import TableError

_OBJECT_STORES = ("s3://", "s3a://", "gs://", "abfs://", "abfss://")
#: The target's, of the command that runs in this context: locations are handed on as texts.
_SETTINGS: ContextVar[StorageSettings | None] = ContextVar("storage settings", default=None)


def use_storage_settings(settings: StorageSettings) -> None:
    """Object stores that are opened in this context from now on are reached so."""
    _SETTINGS.set(settings)


def open_storage(location: str) -> TableStorage:
    """The storage of the table at a location; nothing is read yet.

    Raises:
        TableError: it lies where etc cannot reach it, or there are no keys for it.

    """
    if not is_on_object_store(location):
        return LocalStorage(local_path(location))
    if importlib.util.find_spec("obstore") is None:
        message = f"obstore is needed to read `{location}`"
        raise TableError(Code.NEEDS_OBSTORE, message, hint='run `pip install "etc-policy[object-stores]"`')
    from etc_policy.adapters.storage.object_stores import open_object_storage

    return open_object_storage(location, _SETTINGS.get() or StorageSettings())


def is_on_object_store(location: str) -> bool:
    """Whether a location is one of an object store that can be reached."""
    return location.startswith(_OBJECT_STORES)


def local_path(location: str) -> Path:
    """The local folder of a table's location.

    Raises:
        TableError: the location is not on local disk.

    """
    if is_on_object_store(location):
        hint = "it works on local disk and mounted folders"
        raise TableError(Code.NOT_LOCAL, f"this does not work on an object store yet: `{location}`", hint=hint)
    if "://" in location and not location.startswith("file://"):
        hint = "tables on local disk, a mounted folder, s3://, gs:// and abfs:// can be planned"
        raise TableError(Code.NOT_LOCAL, f"cannot read `{location}` without a JVM", hint=hint)
    return Path(re.sub(r"^file:(//)?", "", location))
