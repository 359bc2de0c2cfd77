"""Files of an object store, read by ranges."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, BinaryIO

import obstore
from obstore.exceptions import BaseError, PreconditionError

from etc_policy.adapters.storage.range_file import open_ranges
from etc_policy.adapters.storage.store_errors import is_empty_range, store_errors

if TYPE_CHECKING:
    from obstore.store import ObjectStore

#: What is asked for first, and whenever less is read: most commits and log files are smaller.
CHUNK_BYTES = 1 << 20


def open_object(store: ObjectStore, key: str, place: str) -> BinaryIO:
    """An object, seekable; a small one with one request, of a larger one each range is asked of the version that it had."""
    with store_errors(place):
        try:
            found = obstore.get(store, key, options={"range": (0, CHUNK_BYTES)})
            meta, first = found.meta, bytes(found.bytes())
        except BaseError as error:
            if not is_empty_range(error):
                raise
            return io.BytesIO()
    if meta["size"] <= len(first):
        return io.BytesIO(first)

    def get(start: int, end: int) -> bytes:
        if start < len(first):
            return first[start:end]
        options: Any = {"range": (start, end), **({"if_match": meta["e_tag"]} if meta["e_tag"] else {})}
        with store_errors(place):
            try:
                return bytes(obstore.get(store, key, options=options).bytes())
            except PreconditionError as error:
                raise OSError(f"`{place}` was replaced while it was read") from error

    return open_ranges(int(meta["size"]), get, CHUNK_BYTES)
