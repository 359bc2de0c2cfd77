"""The folders of a table on an object store or HDFS: a store knows none, so they are found by the names of their files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain

from etc_policy.storage.port import OWN_FOLDER

#: The path below the table and the size of each object below a folder.
ListBelow = Callable[[str], Iterator[tuple[str, int]]]
#: The folders of the table's own folder, and the sizes of its files by name.
ListTop = Callable[[], tuple[Sequence[str], dict[str, int]]]

#: Requests side by side.
_THREADS = 16
#: Of more folders one listing of all takes fewer requests, though one after another: a page has 1,000 names.
_MANY_FOLDERS = 500


class ObjectTreeLister:
    """Lists a tree once, as a context: its upper folders side by side.

    `in_pages` says that one listing has all that is below a folder; else each folder is a request, and Hudi's own is left out.
    """

    def __init__(self, top: ListTop, below: ListBelow, *, in_pages: bool = True) -> None:
        self._top, self._below, self._in_pages = top, below, in_pages
        self._begun: Future[Mapping[str, dict[str, int]]] | None = None
        self._thread: ThreadPoolExecutor | None = None

    def __enter__(self) -> ObjectTreeLister:
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)

    def begin(self) -> None:
        """Begin now, in a thread: waiting for a store costs nothing."""
        if self._begun is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="listing")
            self._begun = self._thread.submit(self._list)

    def read(self) -> Mapping[str, dict[str, int]]:
        """Bytes by file name of each folder.

        Raises:
            OSError: the store does not list them.

        """
        self.begin()
        assert self._begun is not None  # noqa: S101 - just begun
        return self._begun.result()

    def _list(self) -> Mapping[str, dict[str, int]]:
        folders, files = self._top()
        shown = [folder for folder in folders if folder != OWN_FOLDER]
        tree = {"": files}
        for path, size in self._objects(shown):
            folder, _, name = path.rpartition("/")
            if folder and OWN_FOLDER not in folder.split("/"):
                tree.setdefault(folder, {})[name] = size
        return _without_markers(tree)

    def _objects(self, folders: list[str]) -> Iterable[tuple[str, int]]:
        if self._in_pages and len(folders) > _MANY_FOLDERS:
            return self._below("")
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="listing") as pool:
            return chain.from_iterable(pool.map(lambda folder: list(self._below(folder)), folders))


def _without_markers(tree: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """The tree without the empty objects that Hadoop makes for folders; obstore lists `x/` as `x`."""
    for folder in [folder for folder in tree if folder]:
        parent, _, name = folder.rpartition("/")
        if tree.get(parent, {}).get(name) == 0:
            del tree[parent][name]
    return tree
