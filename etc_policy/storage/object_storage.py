"""TableStorage on an object store, through obstore."""

from __future__ import annotations

import errno
import io
import random
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import GCSStore

from etc_policy.storage.listings import ListingBounds
from etc_policy.storage.object_cache import MAX_FILE_BYTES, Cache
from etc_policy.storage.object_tree import ObjectTreeLister
from etc_policy.storage.port import (
    MAX_READ_BYTES,
    MAX_VERSION_BYTES,
    FileInfo,
    Irregular,
    Version,
    read_at_most,
    too_large,
)
from etc_policy.storage.remote_files import ReadAhead, open_ranges
from etc_policy.storage.safe_files import parts_of
from etc_policy.storage.store_errors import as_store_error, is_cut_short, is_empty_range, is_unanswered, store_errors

if TYPE_CHECKING:
    from obstore import GetResult, ListResult, ListStream, ObjectMeta, PutResult
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
        cache: Cache | None,
        place_of: Callable[[str], str],
        list_folder: Callable[[str], object],
    ) -> None:
        self._store, self._cache, self._place_of, self._list_folder = store, cache, place_of, list_folder
        self._versions: dict[str, tuple[int, str | None]] = {}
        self._in_folders = defaultdict[str, dict[str, str]](dict)
        self._kept: frozenset[str] = frozenset()
        self._ahead = ReadAhead(self._fetch)

    def listed(self, objects: Iterable[ObjectMeta]) -> None:
        """Note the versions that a listing has shown."""
        for one in objects:
            folder, _, name = one["path"].rpartition("/")
            self._versions[one["path"]] = one["size"], one["e_tag"]
            if version := _version(one):
                self._in_folders[folder][name] = version

    def versions(self, folder: str) -> dict[str, str]:
        """Size and ETag of the objects of a folder that was listed, by name; those without an ETag are left out."""
        return dict(self._in_folders[folder])

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

    def _fetch(self, key: str) -> bytes | None:
        size, tag = self._versions.get(key, (0, None))
        if key not in self._kept or tag is None or self._cache is None:
            return self._whole(key)
        version = f"{self._place_of(key)}\0{size}\0{tag}"
        content = self._cache.get(version)
        if content is None:
            content = self._whole(key)
            if content is not None and len(content) == size:
                self._cache.put(version, content)
        return content

    def _whole(self, key: str) -> bytes | None:
        """An object's content; None for a large one, whose size was another one when it was listed."""
        with open_object(self._store, key, self._place_of(key)) as opened:
            content = opened.read(MAX_FILE_BYTES + 1)
        return content if len(content) <= MAX_FILE_BYTES else None


def _version(found: ObjectMeta) -> str:
    return "" if found["e_tag"] is None else f"{found['size']} {found['e_tag']}"


def open_object(store: ObjectStore, key: str, place: str) -> BinaryIO:
    """An object, seekable; a small one with one request, of a larger one each range is asked of the version that it had."""
    with store_errors(place):
        try:
            found = obstore.get(store, key, options={"range": (0, CHUNK_BYTES)})
            meta, first = found.meta, _body(found, CHUNK_BYTES, place)
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
                return _body(obstore.get(store, key, options=options), end - start, place)
            except PreconditionError as error:
                raise OSError(f"`{place}` was replaced while it was read") from error

    return open_ranges(int(meta["size"]), get, CHUNK_BYTES)


def _body(found: GetResult, most: int, place: str) -> bytes:
    """The content of an answer that may have so many bytes: a server may send more than was asked, and without end."""
    parts, left = [], most
    for part in found.stream(most + 1):
        parts.append(part)
        left -= len(part)
        if left < 0:
            raise OSError(f"the store sends more of `{place}` than was asked")
    return b"".join(parts)


def tag_of(store: ObjectStore, meta: ObjectMeta | PutResult) -> str | None:
    """What names this version of an object in a condition: Google's store takes its number, the others an ETag."""
    return meta["version"] if isinstance(store, GCSStore) else meta["e_tag"]


#: Between two tries, growing.
_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.1, 2.0

#: The content and the version of an object; None where it is missing.
ReadBack = Callable[[], tuple[bytes, str | None] | None]


def put_if(
    store: ObjectStore,
    key: str,
    content: bytes,
    mode: Any,
    *,
    read_back: ReadBack,
    timeout_seconds: float,
    place: str,
) -> tuple[bool, str | None]:
    """Whether the put won, and the version that it made; `mode` is obstore's, `store` does not try again by itself.

    The store may have kept what it did not answer: whoever needs to know gives contents that nobody else writes.

    Raises:
        StoreUnreachableError: the store did not answer in time; whether it has kept the content is not known.
        StoreRefusedError: it does not let us.

    """
    end, pause, may_be_ours = time.monotonic() + timeout_seconds, _PAUSE_SECONDS, False
    while True:
        try:
            return True, tag_of(store, obstore.put(store, key, content, mode=mode, use_multipart=False))
        except (AlreadyExistsError, PreconditionError, FileNotFoundError) as error:
            if isinstance(error, FileNotFoundError) and "NoSuchBucket" in str(error):
                raise as_store_error(error, place) from error
            failure: Exception = error
            found = read_back()
            if may_be_ours and found is not None and found[0] == content:
                return True, found[1]
            if found is not None or mode != "create":
                return False, None  # else whoever was first has failed
        except (BaseError, OSError) as error:
            if not is_unanswered(error):
                raise as_store_error(error, place) from error
            may_be_ours, failure, found = True, error, read_back()
            if found is not None and found[0] == content:
                return True, found[1]
        if time.monotonic() + pause > end:
            raise as_store_error(failure, place) from failure
        time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - no secret
        pause = min(2 * pause, _MAX_PAUSE_SECONDS)


#: A page of a listing is asked for so often.
_LISTING_TRIES = 4
#: Entries that are taken at once, and so many of such pages in a row may have nothing new.
_PAGE, _MOST_KNOWN_PAGES = 1_000, 100


class Stores(NamedTuple):
    """A bucket twice: with retries, and without them for conditional puts, whose lost answers must be known."""

    store: ObjectStore
    single: ObjectStore
    timeout_seconds: float = 30.0
    cache: Cache | None = None


class ObjectStorage:
    """The files of a table as objects below a prefix of a bucket.

    A folder exists as long as an object is below it. There are no links.
    """

    def __init__(self, stores: Stores, prefix: str, location: str) -> None:
        self._stores, self._store = stores, stores.store
        self._prefix, self._location = prefix.strip("/"), location.rstrip("/")
        self._begin = len(self._prefix) + 1 if self._prefix else 0
        self._contents = ObjectContents(
            self._store, stores.cache, lambda key: self._place(key[self._begin :]), self._list_key
        )

    @property
    def location(self) -> str:
        """The table's base path, with its scheme."""
        return self._location

    def names(self, folder: str) -> Sequence[str]:
        """The names of all that is in a folder."""
        folders, files = self._listed(folder)
        return sorted({*folders, *(_name(one["path"]) for one in files)})

    def list(self, folder: str) -> Mapping[str, FileInfo]:
        """The files of a folder, with sizes and times from the listing."""
        return {_name(one["path"]): _info(one) for one in self._listed(folder)[1]}

    def versions(self, folder: str, _among: Collection[str] | None = None) -> Mapping[str, str]:
        """Size and ETag of each object that was listed."""
        return self._contents.versions(self._folder_key(folder))

    def below(self, folder: str) -> Iterator[str]:
        """All objects below a folder; those that only mark a folder with files are left out."""
        sizes = dict(self._objects(self._bounds(), folder))
        folders = {path.rpartition("/")[0] for path in sizes}
        return (path for path, size in sizes.items() if size or path not in folders)

    def find(self, folder: str, is_wanted: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
        """Objects below a folder, by one listing; an ETag may be an MD5, of which two contents may be made to have the same."""
        with store_errors(self._location, folder):
            for page in _list_pages(self._store, self._folder_key(folder), self._bounds()):
                for one in page:
                    if is_wanted(_name(one["path"])):
                        version = _version(one)
                        yield one["path"][self._begin :], f"{version} {one['last_modified']}" if version else ""

    def tree(self) -> ObjectTreeLister:
        """Lists the table's folders, side by side."""
        return ObjectTreeLister(self._top, partial(self._objects, self._bounds()))

    def info(self, path: str) -> FileInfo | None:
        """An object's size and time; None for a folder."""
        if not path:
            return None
        try:
            with store_errors(self._location, path):
                return _info(obstore.head(self._store, self._key(path)))
        except FileNotFoundError:
            return None

    def is_linked(self, path: str) -> bool:
        """Never: there are no links."""
        self._key(path)
        return False

    def irregular(self, folder: str) -> Iterator[tuple[str, Irregular]]:
        """None: there are no links, and nothing but files."""
        return iter(())

    def read(self, path: str, max_bytes: int = MAX_READ_BYTES) -> bytes:
        """An object's content; a small one takes one request."""
        with self.open(path) as opened:
            return read_at_most(opened, max_bytes, self._place(path))

    def open(self, path: str) -> BinaryIO:
        """An object to read by ranges, all of the version that it has now."""
        return self._contents.open(self._key(path))

    def expect(self, sizes: Mapping[str, int], *, keep: bool = False) -> None:
        """Fetch these files side by side, ahead of their reading; those that may be kept are then on this machine."""
        self._contents.expect({self._key(path): size for path, size in sizes.items()}, keep=keep)

    def create(self, path: str, content: bytes) -> None:
        """A conditional put. What became of one without an answer is seen by what is there afterwards."""
        won, _ = self._put_if(path, content, "create")
        if not won:
            raise FileExistsError(errno.EEXIST, "the object exists", self._place(path))

    @property
    def orders_writers(self) -> bool:
        """Not known: stores differ in what they make of a condition."""
        return False

    def version(self, path: str) -> Version | None:
        """An object as it is now; None where it is missing."""
        try:
            with store_errors(self._location, path):
                found = obstore.get(self._store, self._key(path))
                if found.meta["size"] > MAX_VERSION_BYTES:
                    raise too_large(MAX_VERSION_BYTES, self._place(path))
                tag = tag_of(self._store, found.meta)
                content = _body(found, MAX_VERSION_BYTES, self._place(path))
                return Version(content, tag, _info(found.meta).modified_ns)
        except FileNotFoundError:
            return None

    def replace_version(self, path: str, content: bytes, tag: str | None) -> str | None:
        """A conditional put."""
        won, new = self._put_if(path, content, "create" if tag is None else {"e_tag": tag, "version": tag})
        return new if won else None

    def remove_versions(self, path: str) -> None:
        """Remove the object."""
        self.remove(path)

    def create_from(self, path: str, content: BinaryIO, draft: str) -> None:
        """A put in parts: the object is there when it is whole."""
        if self.info(path) is not None:
            raise FileExistsError(errno.EEXIST, "the object exists", self._place(path))
        with store_errors(self._location, path):
            obstore.put(self._store, self._key(path), content)

    def replace(self, path: str, content: bytes) -> None:
        """A put: objects are written in one step."""
        with store_errors(self._location, path):
            obstore.put(self._store, self._key(path), content, use_multipart=False)

    def hard_link(self, source: str, target: str) -> None:
        """There are no links."""
        raise OSError(errno.EOPNOTSUPP, "object stores have no hard links", self._place(target))

    def copy(self, source: str, target: str) -> None:
        """A copy that the store itself makes."""
        if self.info(target) is not None:
            raise FileExistsError(errno.EEXIST, "the object exists", self._place(target))
        with store_errors(self._location, source):
            obstore.copy(self._store, self._key(source), self._key(target))

    def link_or_copy(self, source: str, target: str) -> None:
        """A copy by way of this machine: few stores copy only where nothing is."""
        self.create(target, self.read(source))

    def remove(self, path: str) -> None:
        """Remove an object."""
        try:
            with store_errors(self._location, path):
                obstore.delete(self._store, self._key(path))
        except FileNotFoundError:
            return

    def remove_tree(self, folder: str) -> None:
        """Remove all objects below a folder. Another program's mark of an empty folder may stay: obstore has no name for it."""
        self._key(folder)
        paths = [self._key(path) for path in self.below(folder)]
        with store_errors(self._location, folder):
            if paths:
                obstore.delete(self._store, paths)

    def _put_if(self, path: str, content: bytes, mode: object) -> tuple[bool, str | None]:
        def read_back() -> tuple[bytes, str | None] | None:
            found = self.version(path)
            return (found.content, found.tag) if found is not None else None

        single, seconds = self._stores.single, self._stores.timeout_seconds
        return put_if(
            single, self._key(path), content, mode, read_back=read_back, timeout_seconds=seconds, place=self._location
        )

    def _top(self) -> tuple[Sequence[str], dict[str, int]]:
        folders, files = self._listed("")
        return folders, {_name(one["path"]): one["size"] for one in files}

    def _listed(self, folder: str) -> tuple[Sequence[str], Sequence[ObjectMeta]]:
        """The names of the folders in a folder, and its objects; FileNotFoundError where nothing is there, but in a bucket."""
        key = self._folder_key(folder)
        found = self._list_key(key)
        folders, objects = found["common_prefixes"], found["objects"]
        if key and not folders and not objects:
            raise FileNotFoundError(errno.ENOENT, "there is no such folder", self._place(folder))
        return [_name(path) for path in folders], [one for one in objects if one["path"] != key]

    def _list_key(self, key: str) -> ListResult[Sequence[ObjectMeta]]:
        with store_errors(self._place(key[self._begin :])):
            found = _list_folder(self._store, key, self._bounds())
        self._contents.listed(found["objects"])
        return found

    def _bounds(self) -> ListingBounds:
        return ListingBounds(self._location, self._stores.timeout_seconds)

    def _objects(self, bounds: ListingBounds, folder: str) -> Iterator[tuple[str, int]]:
        """The path and size of each object below a folder, and of the mark of the folder itself not."""
        key = self._folder_key(folder)
        with store_errors(self._location, folder):
            for page in _list_pages(self._store, key, bounds):
                yield from ((one["path"][self._begin :], one["size"]) for one in page if one["path"] != key)

    def _folder_key(self, folder: str) -> str:
        return self._key(folder) if folder else self._prefix

    def _key(self, path: str) -> str:
        below = "/".join(parts_of(path))
        return f"{self._prefix}/{below}" if self._prefix else below

    def _place(self, path: str) -> str:
        return f"{self._location}/{path}".rstrip("/")


def _list_folder(store: ObjectStore, key: str, bounds: ListingBounds) -> ListResult[Sequence[ObjectMeta]]:
    async def ask() -> ListResult[Sequence[ObjectMeta]]:
        return await obstore.list_with_delimiter_async(store, key or None)

    for left in reversed(range(_LISTING_TRIES)):
        try:
            found = bounds.wait(ask())
            bounds.count(chain(found["common_prefixes"], (one["path"] for one in found["objects"])))
            return found
        except BaseError as error:
            if not left or not is_cut_short(error):
                raise
    raise AssertionError("the last try returns or raises")


def _list_pages(store: ObjectStore, key: str, bounds: ListingBounds) -> Iterator[Sequence[ObjectMeta]]:
    """All objects below a key, each once; after a break they are listed anew, as not every store lists in the order of names."""
    seen, left, known_pages = set[str](), _LISTING_TRIES, 0
    while True:
        stream = obstore.list(store, key or None, chunk_size=_PAGE)
        try:
            while page := bounds.wait(_next_page(stream)):
                new = [one for one in page if one["path"] not in seen]
                seen.update(one["path"] for one in new)
                bounds.count(one["path"] for one in new)
                if new:
                    yield new
                    left, known_pages = _LISTING_TRIES, 0
                elif (known_pages := known_pages + 1) > _MOST_KNOWN_PAGES + len(seen) // _PAGE:
                    raise TimeoutError(errno.ETIMEDOUT, "the listing says the same again and again")
            return
        except BaseError as error:
            left -= 1
            if not left or not is_cut_short(error):
                raise


async def _next_page(stream: ListStream[Sequence[ObjectMeta]]) -> Sequence[ObjectMeta] | None:
    return await anext(stream, None)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _info(meta: ObjectMeta) -> FileInfo:
    modified_ns = int(meta["last_modified"].timestamp()) * 1_000_000_000
    return FileInfo(meta["size"], modified_ns, modified_ns)
