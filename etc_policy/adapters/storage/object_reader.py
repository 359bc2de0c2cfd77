"""Files of an object store, read by ranges."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import obstore
from obstore.exceptions import BaseError, PreconditionError

from etc_policy.adapters.storage.store_errors import is_empty_range, store_errors

if TYPE_CHECKING:
    from obstore.store import ObjectStore

#: What is asked for first, and whenever less is read: most commits and log files are smaller.
CHUNK_BYTES = 1 << 20
#: So large is one request at most: it must end within the time of a request.
_MAX_RANGE_BYTES = 8 << 20


class _Ranges(io.RawIOBase):
    """An object as it was when it was opened: each range is asked of that very version."""

    def __init__(self, store: ObjectStore, key: str, meta: Any, first: bytes, place: str) -> None:  # noqa: ANN401
        self._store, self._key, self._place = store, key, place
        self._size, self._tag, self._first, self._at = int(meta["size"]), meta["e_tag"], first, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = max(0, offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence])
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - any writable buffer
        wanted = min(len(buffer), self._size - self._at, _MAX_RANGE_BYTES)
        if wanted <= 0:
            return 0
        content = self._first[self._at : self._at + wanted] or self._range(self._at, self._at + wanted)
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)

    def _range(self, start: int, end: int) -> bytes:
        options: Any = {"range": (start, end), **({"if_match": self._tag} if self._tag else {})}
        with store_errors(self._place):
            try:
                return bytes(obstore.get(self._store, self._key, options=options).bytes())
            except PreconditionError as error:
                raise OSError(f"`{self._place}` was replaced while it was read") from error


def open_object(store: ObjectStore, key: str, place: str) -> BinaryIO:
    """An object, seekable; a small one with one request."""
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
    return cast(BinaryIO, io.BufferedReader(_Ranges(store, key, meta, first, place), CHUNK_BYTES))
