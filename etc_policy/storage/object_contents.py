"""What is in the objects of one table: fetched ahead, by ranges, or from the copies on this machine."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

import obstore
from obstore.exceptions import BaseError, PreconditionError

from etc_policy.storage.object_cache import MAX_FILE_BYTES, ObjectCache
from etc_policy.storage.remote_files import ReadAhead, open_ranges
from etc_policy.storage.store_errors import is_empty_range, store_errors

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ObjectStore

#: What is asked for first, and whenever less is read: most commits and log files are smaller.
CHUNK_BYTES = 1 << 20


class ObjectContents:
    """Reads objects by their keys; `place_of` says how messages show one.

    `list_folder` is called with the folder of an object that may be kept and was not listed: it calls `listed`.
    """

    def __init__(
        self,
        store: ObjectStore,
        cache: ObjectCache | None,
        place_of: Callable[[str], str],
        list_folder: Callable[[str], object],
    ) -> None:
        self._store, self._cache, self._place_of, self._list_folder = store, cache, place_of, list_folder
        self._versions: dict[str, tuple[int, str | None]] = {}
        self._kept: frozenset[str] = frozenset()
        self._ahead = ReadAhead(self._fetch)

    def listed(self, objects: Iterable[ObjectMeta]) -> None:
        """Note the versions that a listing has shown."""
        self._versions.update({one["path"]: (one["size"], one["e_tag"]) for one in objects})

    def versions(self, folder: str) -> dict[str, str]:
        """Size and ETag of the objects of a folder that was listed, by name; those without an ETag are left out."""
        known = ((*key.rpartition("/"), *version) for key, version in self._versions.items())
        return {name: f"{size} {tag}" for parent, _, name, size, tag in known if parent == folder and tag is not None}

    def expect(self, sizes: Mapping[str, int], *, keep: bool) -> None:
        """Fetch these objects ahead, but for those that are too large to be held; `keep` allows copies on this machine."""
        self._kept = frozenset(sizes) if keep else frozenset()
        for folder in {key.rpartition("/")[0] for key in self._kept - self._versions.keys()}:
            self._list_folder(folder)
        known = {key: max(size, self._versions.get(key, (0, None))[0]) for key, size in sizes.items()}
        self._ahead.expect({key: size for key, size in known.items() if size <= MAX_FILE_BYTES})

    def open(self, key: str) -> BinaryIO:
        """An object, seekable."""
        content = self._ahead.take(key)
        return open_object(self._store, key, self._place_of(key)) if content is None else io.BytesIO(content)

    def _fetch(self, key: str) -> bytes:
        size, tag = self._versions.get(key, (0, None))
        if key not in self._kept or tag is None or self._cache is None:
            return self._whole(key)
        version = f"{self._place_of(key)}\0{size}\0{tag}"
        content = self._cache.get(version)
        if content is None:
            content = self._whole(key)
            if len(content) == size:
                self._cache.put(version, content)
        return content

    def _whole(self, key: str) -> bytes:
        with open_object(self._store, key, self._place_of(key)) as opened:
            return opened.read()


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
