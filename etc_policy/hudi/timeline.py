"""The active timeline of a table and the commit metadata on it, read from files."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

from etc_policy.errors import TableError
from etc_policy.errors.codes import Code
from etc_policy.hudi.commits import CommitFacts, CommitMetadata, decode_commit, decode_metadata
from etc_policy.hudi.layout import InstantFile, parse_data_file, parse_instant_file, timeline_folder
from etc_policy.hudi.metadata_values import Texts, time_of, unknown_form
from etc_policy.storage.port import TableReader
from etc_policy.table.history import WRITES
from etc_policy.table.state import WRITE_ACTIONS, GroupKey, Instant, InstantState

T = TypeVar("T")


class read_once(Generic[T]):  # noqa: N801 - a decorator, as `property` is
    """Like `cached_property`, which before Python 3.12 has one lock for all instances: tables that are read side by side would
    wait for each other's files.
    """

    def __init__(self, read: Callable[[Any], T]) -> None:
        self._read, self.__doc__ = read, read.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        """The value, which hides this property from now on."""
        value = instance.__dict__[self._name] = self._read(instance)
        return value


_STATES: tuple[InstantState, ...] = ("requested", "inflight", "completed")
#: The operation of a clustering, as its plan and its commit name it.
CLUSTERING = "CLUSTER"
_NEVER_EMPTY = frozenset(("completed", action) for action in WRITES)
_VERSIONS_FOLDER, _MAX_VERSIONS_BYTES = ".hoodie/.schema", 16 << 20
_VERSIONS_FILE = re.compile(r"(?P<instant>\d{14,17})(?:_\d+)?\.schemacommit")
#: Services that complete under another name.
_ONE_ACTION = frozenset(
    map(frozenset, (("compaction", "commit"), ("logcompaction", "deltacommit"), ("clustering", "replacecommit")))
)
CUT_OFF_HINT = (
    "under Hudi 0.x a process that is killed while it writes its commit leaves an empty file; "
    f"`etc explain {Code.DAMAGED_TIMELINE}` says how to go on"
)


class Taken(NamedTuple):
    """What took a file group away: its instant, and until when a write must have completed to be taken as it was meant.

    A clustering moves what its plan has seen. A deletion or an overwrite takes all that is there when it completes.
    """

    by: str
    seen_until: str
    is_clustering: bool


@dataclass(frozen=True)
class Timeline:
    """The active timeline as listed once; metadata is read when asked for, and not what `facts` know of completed commits.

    `savepointed` are instants with a savepoint. It bears the time of its commit, and its own files are not in `files`.
    """

    storage: TableReader
    folder: str
    layout: int
    files: Mapping[str, tuple[InstantFile, ...]]
    savepointed: frozenset[str] = frozenset()
    facts: CommitFacts = field(default_factory=CommitFacts, repr=False, compare=False)
    _commits: dict[str, CommitMetadata] = field(default_factory=dict, init=False, repr=False, compare=False)
    _texts: Texts = field(default_factory=Texts, init=False, repr=False, compare=False)

    @cached_property
    def first_active(self) -> str | None:
        """The first instant that wrote data; what lies before it is archived.

        Archiving may go beyond savepoints, and leaves their commits behind: these do not say how far it went.
        """
        return min(self._writes - self.savepointed or self._writes, default=None)

    @cached_property
    def archive_reach(self) -> tuple[str, str]:
        """All before the first instant is archived; up to the second, archiving may have passed what it leaves behind.

        It leaves commits with a savepoint, and may pass a pending plan of etc in the past.
        """
        done = (self._writes & self.completions.keys()) - self.savepointed
        first = min(self._writes, default="")
        return first, min(done, default=first)

    @cached_property
    def _writes(self) -> frozenset[str]:
        return frozenset(r for r, files in self.files.items() if any(f.action in WRITE_ACTIONS for f in files))

    def latest(self, requested: str) -> InstantFile:
        """The file of the furthest state that an instant has reached; of two that completed it the later."""
        return self._latest[requested]

    @read_once
    def _latest(self) -> dict[str, InstantFile]:
        """Once for all who ask: it was a fifth of reading a table."""
        return {
            requested: max(files, key=lambda f: (_STATES.index(f.state), f.completed or "", f.name))
            for requested, files in self.files.items()
        }

    @cached_property
    def completions(self) -> dict[str, str]:
        """Completion time by requested instant; on layout 1, which records none, the instant itself."""
        ends = (self.latest(requested) for requested in self.files)
        return {end.requested: end.completed or end.requested for end in ends if end.state == "completed"}

    @cached_property
    def written(self) -> tuple[str, ...]:
        """The instants of the completed writes, of rows or of a service."""
        return tuple(one for one in self.completions if self._latest[one].action in WRITES)

    def metadata(self, file: InstantFile) -> dict[str, Any]:
        """The content of a timeline file: Avro, or JSON on layout 1; an empty file of an unfinished write holds nothing.

        Raises:
            TableError: the file cannot be parsed, or is empty though its content decides what readers see.
            FileNotFoundError: it was archived since the listing.

        """
        return decode_metadata(*self._content(file))

    def commit(self, requested: str) -> CommitMetadata:
        """What the write at an instant says that it did; its file is read once.

        Raises:
            TableError: as for `metadata`.
            FileNotFoundError: as for `metadata`.

        """
        if requested not in self._commits:
            self._commits[requested] = self._decoded(self.latest(requested))
        return self._commits[requested]

    def keep(self, requested: str, commit: CommitMetadata) -> None:
        """What is known of the completed write at an instant from now on; what its log files show is kept once it was seen."""
        self._commits[requested] = commit
        if commit.log_form in ("plain", "partial", "operations"):
            self.facts.put(self.latest(requested).name, commit)

    def _decoded(self, file: InstantFile) -> CommitMetadata:
        known = self.facts.get(file.name)
        if known is None:
            known = decode_commit(*self._content(file), among=len(self.files))
            known = replace(known, extra=self.kept_pairs(file.requested, known.extra))
            if file.state == "completed":
                self.facts.put(file.name, known)
        return known

    def kept_pairs(self, requested: str, pairs: Mapping[str, str]) -> dict[str, str]:
        """The pairs that a commit or a plan carries, with their texts once for all of them."""
        try:
            return self._texts.of_pairs(pairs)
        except ValueError as error:
            raise unknown_form(f"the instant {requested} of `{self.storage.location}` is", error) from error

    def expect(self, files: Iterable[InstantFile]) -> None:
        """These completed files and requested plans are read next, in this order."""
        unknown = self.facts.unknown([file.name for file in files])
        self.storage.expect({f"{self.folder}/{name}": 0 for name in unknown}, keep=True)

    def _content(self, file: InstantFile) -> tuple[bytes, str]:
        path = f"{self.folder}/{file.name}"
        content, place = self.storage.read(path), f"{self.storage.location}/{path}"
        if not content and (file.state, file.action) in _NEVER_EMPTY:
            raise TableError(Code.DAMAGED_TIMELINE, f"timeline file `{place}` is empty", hint=CUT_OFF_HINT)
        return content, place

    def plan_of(self, requested: str) -> dict[str, Any] | None:
        """The compaction plan of an instant, pending or completed; None if it is missing."""
        plan = self.requested_file(requested, "compaction")
        return self.metadata(plan) if plan else None

    def requested_file(self, requested: str, *actions: str) -> InstantFile | None:
        """The file with the plan of a service among these actions, pending or completed; None if it is missing."""
        of_instant = self.files.get(requested, ())
        return next((file for file in of_instant if file.state == "requested" and file.action in actions), None)

    @read_once
    def replaced(self) -> frozenset[GroupKey]:
        """The file groups that completed replace commits took away."""
        return frozenset(self.taken)

    @read_once
    def taken(self) -> Mapping[GroupKey, Taken]:
        """What took each of them away last."""
        ends = map(self.latest, self.files)
        done = (end.requested for end in ends if end.state == "completed" and end.action == "replacecommit")
        found: dict[GroupKey, Taken] = {}
        for requested in sorted(done, key=self.completions.__getitem__):
            commit = self.commit(requested)
            is_clustering = commit.operation == CLUSTERING
            seen_until = requested if is_clustering else self.completions[requested]
            found |= dict.fromkeys(commit.replaced, Taken(requested, seen_until, is_clustering))
        return found

    @read_once
    def schema_versions(self) -> tuple[str, bytes] | None:
        """The newest file with all versions of the schema that a completed write left, and its instant; None without one.

        Hudi keeps them beside the timeline of tables with schema on read.
        """
        try:
            names = self.storage.names(_VERSIONS_FOLDER)
        except (FileNotFoundError, NotADirectoryError):
            return None
        found = ((match["instant"], name) for name in names if (match := _VERSIONS_FILE.fullmatch(name)))
        first = self.first_active or ""
        newest = max(((at, name) for at, name in found if at in self.completions or at < first), default=None)
        return (
            None
            if newest is None
            else (newest[0], self.storage.read(f"{_VERSIONS_FOLDER}/{newest[1]}", _MAX_VERSIONS_BYTES))
        )

    def instants(self) -> tuple[Instant, ...]:
        """All instants in requested order, with the file groups that services touched."""
        return tuple(self._instant(self.latest(requested)) for requested in sorted(self.files))

    def _instant(self, file: InstantFile) -> Instant:
        touched = self._touched(file) if file.state == "completed" else None
        return Instant(
            file.requested,
            self._service(file) or file.action,
            _STATES[_STATES.index(file.state)],
            self.completions.get(file.requested),
            touched,
            file.requested in self.savepointed,
            is_bulk_insert=self._is_bulk_insert(file),
        )

    def _is_bulk_insert(self, file: InstantFile) -> bool:
        """Whether a completed `commit` is no compaction (facts: bulk-insert-commit)."""
        if (file.action, file.state) != ("commit", "completed") or self.requested_file(file.requested, "compaction"):
            return False
        return self.commit(file.requested).operation != "COMPACT"

    def _service(self, file: InstantFile) -> str | None:
        """The service that a file is of whose action is that of a write; None for a write.

        Before table version 8 a clustering begins as a replace commit, of which its plan alone tells it apart.
        """
        if self._is_log_compaction(file):
            return "logcompaction"
        if self.layout > 1 or file.action != "replacecommit" or file.state == "completed":
            return None
        plan = self.requested_file(file.requested, "replacecommit", "clustering")
        is_clustering = plan is not None and self.metadata(plan).get("operationType") == CLUSTERING
        return "clustering" if is_clustering else None

    def _is_log_compaction(self, file: InstantFile) -> bool:
        """A log compaction completes as a delta commit; what it was requested as distinguishes them."""
        return any(one.action == "logcompaction" for one in self.files[file.requested])

    def _touched(self, file: InstantFile) -> frozenset[str] | None:
        if file.action in ("commit", "replacecommit") or self._is_log_compaction(file):
            return self.commit(file.requested).file_ids
        if file.action == "rollback":
            content = self.metadata(file) or self._rollback_plan(file.requested)
            return frozenset(file_ids_in(content)) if content else None
        return None

    def _rollback_plan(self, requested: str) -> dict[str, Any]:
        """What a rollback was to remove, should Hudi 0.x have left its completed file empty (facts: empty-rollback-file)."""
        plan = self.requested_file(requested, "rollback")
        return self.metadata(plan) if plan else {}


def read_timeline(
    storage: TableReader, properties: Mapping[str, str], table: str = "", facts: CommitFacts | None = None
) -> Timeline:
    """The active timeline, as listed now, of the table with these properties; it may be one in a folder of another."""
    folder, layout = timeline_folder(properties, storage.location)
    folder = f"{table}/{folder}".lstrip("/")
    try:
        names = storage.names(folder)
    except (FileNotFoundError, NotADirectoryError):
        hint = "the table is not complete, or its version is not known"
        message = f"there is no timeline at `{storage.location}/{folder}`"
        raise TableError(Code.DAMAGED_TIMELINE, message, hint=hint) from None
    files: dict[str, list[InstantFile]] = defaultdict(list)
    savepointed = set()
    for name in names:
        parsed = parse_instant_file(name, layout)
        if parsed is not None and parsed.action == "savepoint":
            savepointed.add(parsed.requested)
        elif parsed is not None:
            files[parsed.requested].append(parsed)
    found = {requested: tuple(of_instant) for requested, of_instant in files.items()}
    _require_one_action(found, storage.location)
    return Timeline(storage, folder, layout, found, frozenset(savepointed), facts or CommitFacts())


def _require_one_action(files: Mapping[str, tuple[InstantFile, ...]], location: str) -> None:
    """Return if the files of each instant are of one action: Hudi tells apart by both, and all here goes by the instant.

    Raises:
        TableError: an instant is of two.

    """
    for requested, (first, *others) in files.items():
        if any(one.action != first.action for one in others):
            actions = frozenset(one.action for one in files[requested])
            if actions not in _ONE_ACTION:
                message = f"the instant {requested} of `{location}` is of two actions: {' and '.join(sorted(actions))}"
                hint = "Hudi gives each instant to one; look at who writes to the table, and at files copied to its timeline"
                raise TableError(Code.DAMAGED_TIMELINE, message, hint=hint)


def file_ids_in(value: Any) -> Iterator[str]:
    """The file ids that the metadata or the plan of a rollback names, by themselves or in a data file's name."""
    if isinstance(value, str):
        parsed = parse_data_file(value.rsplit("/", 1)[-1])
        if parsed is not None:
            yield parsed.file_id
    elif isinstance(value, Mapping):
        if isinstance(named := value.get("fileId"), str) and named:
            yield named
        for key, item in value.items():
            yield from file_ids_in(key)
            yield from file_ids_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from file_ids_in(item)


def all_times(timeline: Timeline) -> Iterable[str]:
    """Every requested and completion time on a timeline."""
    return {*timeline.files, *timeline.completions.values()}


def require_times(timeline: Timeline) -> Timeline:
    """The timeline, every instant of which is a time.

    Raises:
        ValueError: one is not a time, so nothing can be computed from it.

    """
    for time in sorted(all_times(timeline)):
        time_of(time)
    return timeline


def all_ends(timeline: Timeline) -> Iterator[InstantFile]:
    """Every file that completes an instant, in order of the requests; an instant may have two (see `require_one_end`)."""
    for requested in sorted(timeline.files):
        ends = (file for file in timeline.files[requested] if file.state == "completed")
        yield from sorted(ends, key=attrgetter("name"))


def require_one_end(timeline: Timeline, actions: Container[str]) -> Timeline:
    """The timeline, where each instant of these actions has completed once.

    Raises:
        TableError: one has two completed files, and nobody knows which of its completion times readers go by.

    """
    ends: dict[str, str] = {}
    for file in all_ends(timeline):
        if file.action in actions:
            first = ends.setdefault(file.requested, file.name)
            if first != file.name:
                place = f"{timeline.storage.location}/{timeline.folder}"
                message = f"the {file.action} at {file.requested} has two completed files in `{place}`: {first} and {file.name}"
                hint = "move the one away that its writer did not write last, or that has the wrong time"
                raise TableError(Code.DAMAGED_TIMELINE, message, hint=hint)
    return timeline
