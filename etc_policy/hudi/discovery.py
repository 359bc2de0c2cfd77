"""What `etc import` looks at before there is a policy: where tables are, their columns, and what base files hold of these."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from heapq import heappop, heappush
from typing import Any, NamedTuple

from etc_policy.errors import EtcError, TableError, let_go
from etc_policy.errors.codes import Code
from etc_policy.hudi.footers import read_footer
from etc_policy.hudi.properties import read_properties
from etc_policy.hudi.schemas import leaf_columns, newest_fields, type_name
from etc_policy.hudi.stable_reading import read_until_stable
from etc_policy.hudi.timeline import Timeline, read_timeline
from etc_policy.policy.locations import glob_matches
from etc_policy.storage.open_storage import is_remote, names_beside_bad_ones, open_reader
from etc_policy.storage.port import OWN_FOLDER, BadNameError, TableReader, os_errors_as

#: So deep tables are looked for, and in so many folders at most.
MAX_DEPTH, MAX_FOLDERS = 6, 20_000
#: So many folders of a store are asked for at once.
_SIDE_BY_SIDE = 16
_FILES = (".parquet", ".orc", ".avro", ".json", ".csv", ".gz", ".log", ".txt", ".crc", ".jar")


class Columns(NamedTuple):
    """The Avro type of each column by its name, as the last commit with a schema has them, and the table's properties."""

    types: Mapping[str, str]
    properties: Mapping[str, str]


class Range(NamedTuple):
    """The smallest and the largest value of a column in one base file, as they are stored."""

    first: int | str
    last: int | str


def read_columns(base_path: str) -> Columns:
    """The columns of a merge-on-read table, but for Hudi's own; none where no commit has a schema.

    Raises:
        TableError: no table there, or one that cannot be handled.
        RetryableError: the timeline kept changing while it was read.

    """
    storage = open_reader(base_path)
    properties = read_properties(storage)
    return read_until_stable(storage.location, lambda: Columns(_types(read_timeline(storage, properties)), properties))


def _types(timeline: Timeline) -> dict[str, str]:
    fields = newest_fields(timeline) or ()
    return {name: type_name(kind) for name, kind in leaf_columns(fields) if not name.startswith("_hoodie")}


def column_ranges(base_path: str, base_file: str | None, names: Sequence[str]) -> dict[str, Range]:
    """What the footer of a base file says of the columns; nothing without pyarrow, or where it cannot be read."""
    if base_file is None or not base_file.endswith(".parquet"):
        return {}
    footer = read_footer(open_reader(base_path), base_file)
    if footer is None:
        return {}
    ends: dict[str, list[Any]] = {}
    for group, part in _parts(footer):
        column = footer.row_group(group).column(part)
        statistics = column.statistics
        if column.path_in_schema in names and statistics is not None and statistics.has_min_max:
            ends.setdefault(column.path_in_schema, []).extend(_ends(statistics))
    return {name: Range(min(values), max(values)) for name, values in ends.items()}


def _parts(footer: Any) -> Iterator[tuple[int, int]]:
    return ((n, part) for n in range(footer.num_row_groups) for part in range(footer.num_columns))


def _ends(statistics: Any) -> tuple[Any, Any]:
    if statistics.physical_type == "BYTE_ARRAY":
        return str(statistics.min), str(statistics.max)
    return statistics.min_raw, statistics.max_raw


def find_tables(
    location: str, levels: Sequence[str] = (), may_look: Callable[[str], bool] = lambda _: True
) -> Iterator[str | EtcError]:
    """The paths of the tables in a folder, at any depth up to `MAX_DEPTH`, and an error for each folder that is not read.

    With `levels`, globs over the names of folders, each for one level, it is those at the last level alone, whatever lies
    above: whoever makes a folder a table hides none below it. Without them nothing is looked for in tables, and never in
    partitions (`day=1`), in folders that begin with `.` or `_`, behind links to a folder that they are in, and in folders
    that `may_look` does not take. The first names of all folders are looked at first: who makes many in one folder hides
    none of another.
    """
    storage, waiting, seen = open_reader(location), [_Turn(0, "", 0)], 0
    at_once = _SIDE_BY_SIDE if is_remote(location) else 1
    while waiting:
        batch = [heappop(waiting) for _ in range(min(len(waiting), at_once))]
        seen += len(batch)
        if seen > MAX_FOLDERS:
            hint = "name a folder further down"
            message = f"`{location}` has more than {MAX_FOLDERS:,} folders; the rest was not searched"
            yield TableError(Code.TOO_LARGE, message, hint=hint)
            return
        looks = [one for one in batch if may_look(f"{location.rstrip('/')}/{one.folder}")]
        answers = _side_by_side(storage, [one.folder for one in looks])
        for (rank, folder, depth), (names, error) in zip(looks, answers, strict=True):
            place = f"{location.rstrip('/')}/{folder}".rstrip("/")
            if error is not None and OWN_FOLDER not in names:
                yield error  # else it is that of the table, and none of the tables beside it
            if OWN_FOLDER in names and len(levels) in (0, depth):
                yield place
            elif depth < (len(levels) or MAX_DEPTH):
                wanted = [name for name in names if _may_hold_tables(name)]
                wanted = [name for name in wanted if glob_matches(name, levels[depth])] if levels else wanted
                wanted = _without_ways_back(f"{storage.location}/{folder}", wanted)
                for number, name in enumerate(sorted(wanted)):
                    heappush(waiting, _Turn(max(rank, number), f"{folder}/{name}".lstrip("/"), depth + 1))


class _Turn(NamedTuple):
    """When a folder is looked at: by the highest number among those of its path's names in their folders."""

    rank: int
    folder: str
    depth: int


class _Seen(NamedTuple):
    """What is in a folder, and why not all of it is known."""

    names: Collection[str] = ()
    error: EtcError | None = None


def _side_by_side(storage: TableReader, folders: Sequence[str]) -> list[_Seen]:
    """What is in each folder: a store is asked about several at once."""

    def look(folder: str) -> _Seen:
        try:
            return _Seen(_names(storage, folder))
        except BadNameError as error:
            let_go(error)
            return _beside(f"{storage.location}/{folder}".rstrip("/"), error)
        except EtcError as error:
            let_go(error)
            return _Seen(error=error)

    if len(folders) < 2:
        return list(map(look, folders))
    with ThreadPoolExecutor(_SIDE_BY_SIDE, thread_name_prefix="discovery") as pool:
        asked = [pool.submit(copy_context().run, look, folder) for folder in folders]
        return [one.result() for one in asked]


def _beside(place: str, error: BadNameError) -> _Seen:
    """What is in a folder of a bucket beside the names that are no part of a path."""
    found = names_beside_bad_ones(place)
    if found is None:
        return _Seen(error=error)
    if found.bad > 1:
        message = f"{found.bad:,} names in `{place}` cannot be parts of a path, and are left out"
        error = BadNameError(error.code, message, hint=error.hint, cause=error.cause)
    return _Seen(found.names, error)


def _names(storage: TableReader, folder: str) -> Sequence[str]:
    """What is in a folder; nothing in a file, and in what leads out of the searched folder."""
    place = f"{storage.location}/{folder}".rstrip("/")
    message = f"`{place}` cannot be searched for tables"
    with os_errors_as(Code.CANNOT_READ_TABLE, message, kind=TableError):
        try:
            if is_remote(place):
                return storage.names(folder)
            return open_reader(place).names(
                ""
            )  # a link to a folder of tables is followed, as the place that it leads to
        except (FileNotFoundError, NotADirectoryError, ValueError) as error:
            if folder:
                return ()
            raise TableError(Code.NO_TABLE, f"{message}: there is no such folder") from error
        except OSError as error:
            if folder and error.errno == errno.ELOOP:  # links that lead to each other lead nowhere
                return ()
            raise


def _without_ways_back(folder: str, names: list[str]) -> list[str]:
    """The names without links to the folder that they are in, or to one above that."""
    if not folder.startswith("/"):
        return names
    above = os.path.realpath(folder)
    targets = ((name, os.path.realpath(f"{above}/{name}")) for name in names)
    return [name for name, target in targets if os.path.commonpath([above, target]) != target]


def _may_hold_tables(name: str) -> bool:
    return not name.startswith((".", "_")) and "=" not in name and not name.endswith(_FILES)
