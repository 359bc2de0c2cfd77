"""Which storage a table lies on, by its location."""

from __future__ import annotations

import re
from pathlib import Path

from etc_policy.adapters.storage.local import LocalStorage
from etc_policy.adapters.storage.port import TableStorage
from etc_policy.codes.registry import Code
from etc_policy.errors import TableError


def open_storage(location: str) -> TableStorage:
    """The storage of the table at a location; nothing is read yet.

    Raises:
        TableError: the location lies on an object store.

    """
    return LocalStorage(local_path(location))


def local_path(location: str) -> Path:
    """The local folder of a table's location.

    Raises:
        TableError: the location lies on an object store.

    """
    if "://" in location and not location.startswith("file://"):
        hint = "tables on local disk or a mounted folder can be planned; object stores are not supported yet"
        raise TableError(Code.NOT_LOCAL, f"cannot read `{location}` without a JVM", hint=hint)
    return Path(re.sub(r"^file:(//)?", "", location))
