"""`hoodie.properties` of a table: read whole, believed only as far as the table bears it out, and how rows are merged by them."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import NoReturn

from etc_policy.errors import TableError
from etc_policy.errors.codes import Code
from etc_policy.errors.plain_text import one_line
from etc_policy.hudi.layout import parse_instant_file, timeline_folder
from etc_policy.hudi.stable_reading import table_errors
from etc_policy.plan.bundles import OF_HUDI_0, OF_HUDI_1_0
from etc_policy.storage.port import TableReader
from etc_policy.storage.safe_files import parts_of

#: Hudi deletes and rewrites the file to change it, beside a backup: read it again this often, so many seconds apart.
ATTEMPTS, PAUSE_SECONDS = 5, 0.2

_FIRST_OF_LAYOUT_2, _LAST_KNOWN = 8, 9
#: Hudi writes these into every table; a file without one of them is not whole.
_ALWAYS = ("hoodie.table.name", "hoodie.table.type")
_ALWAYS_IN_LAYOUT_2 = ("hoodie.record.merge.mode", "hoodie.timeline.layout.version")

#: A table of another format goes by a plugin; Hudi without it takes the table for its own (facts: other-table-formats).
_NATIVE = "native"
#: What the properties of a table are called. By any other Hudi's client would go as by an option of its own: it would work on
#: another table, send metrics, ask a service (facts: client-by-properties).
_OF_TABLES = re.compile(
    r"hoodie\.(?:table\.(?!service).+|timeline\.(?:path|history\.path|layout\.version)|archivelog\.folder|database\.name"
    r"|bootstrap\.(?:base\.path|index\.(?:class|enable|type))|(?:deltastreamer\.|streamer\.)?keygen\..+"
    r"|compaction\.(?:payload\.class|record\.merger\.strategy)|payload\.delete\.(?:field|marker)"
    r"|record\.merge\.(?:mode|strategy\.id|property\.hoodie\.(?:payload\.delete|write\.partial\.update)\..+)"
    r"|write\.partial\.update\.unavailable\.value|allow\.operation\.metadata\.field"
    r"|partition\.metafile\.use\.base\.format|populate\.meta\.fields|datasource\.write\.(?:drop\.partition\.columns"
    r"|hive_style_partitioning|partitionpath\.urlencode|slash\.separated\.date\.partitioning|table\.name))"
)
#: Paths below the table, or below a folder of it.
_PATHS = (
    "hoodie.timeline.path",
    "hoodie.timeline.history.path",
    "hoodie.archivelog.folder",
    "hoodie.table.index.defs.path",
)
#: Digits of a version that are looked at.
_MOST_DIGITS = 9
_MAX_BYTES = 1 << 20
_CUT_SHORT = "is cut short"

#: Its path below the table.
PROPERTIES = ".hoodie/hoodie.properties"
_BACKUP = f"{PROPERTIES}.backup"
#: The merge modes that take one row or the other, and none of its columns from the other.
_WHOLE_ROWS = ("EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING")
#: So do these payloads of Hudi.
_WHOLE_ROW_PAYLOADS = frozenset(
    {"DefaultHoodieRecordPayload", "EventTimeAvroPayload", "OverwriteWithLatestAvroPayload"}
    | {"AWSDmsAvroPayload", "MySqlDebeziumAvroPayload"}
)
#: What writers of Hudi 1.x record on table version 6 where rows are merged by event time; 0.x has no such property.
MERGE_STRATEGY = "hoodie.record.merge.strategy.id"
EVENT_TIME_STRATEGY, COMMIT_TIME_STRATEGY = (
    "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
    "ce9acb64-bde0-424c-9b91-f6ebba25356d",
)
#: What tables of Hudi 0.x name instead: a payload, and from 0.13 on a strategy that may go another way.
PAYLOAD = "hoodie.compaction.payload.class"
#: Payloads of 0.x by which rows are merged by event time alone; the second is Flink's default.
_BY_EVENT_TIME = tuple(
    f"org.apache.hudi.common.model.{payload}" for payload in ("DefaultHoodieRecordPayload", "EventTimeAvroPayload")
)
STRATEGY_OF_HUDI_0 = "hoodie.compaction.record.merger.strategy"


def read_properties(storage: TableReader) -> dict[str, str]:
    """The properties of a merge-on-read table that we can handle.

    Raises:
        TableError: there is no table, one of another kind, or its properties are cut short, missing or contradict it.

    """
    with table_errors(storage.location):
        properties = _own(_text(storage), f"hoodie.properties of `{storage.location}`")
        _require_own_backup(storage, storage.location, PROPERTIES)
        _require_merge_on_read(storage.location, properties)
        _require_whole(storage.location, properties)
        _require_version_as_laid_out(storage, properties)
    return properties


def properties_of(storage: TableReader, folder: str) -> dict[str, str] | None:
    """The properties of a table in a folder of another, such as the metadata table, as they are; None if they are missing.

    Raises:
        TableError: they lead elsewhere.

    """
    place, path = f"{storage.location}/{folder}", f"{folder}/{PROPERTIES}"
    _require_own_backup(storage, place, path)
    try:
        text = storage.read(path, _MAX_BYTES).decode("utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return None
    return _own(text, f"hoodie.properties of `{place}`")


def _require_own_backup(storage: TableReader, place: str, path: str) -> None:
    """The same of what Hudi goes by where it takes the file for damaged; a line that its writer did not end is no property."""
    with suppress(FileNotFoundError, NotADirectoryError):
        text = storage.read(f"{path}.backup", _MAX_BYTES).decode("utf-8", errors="replace")
        ended, _, last = text.rpartition("\n")
        _own(text if _HAS_KEY.match(last) else ended, f"hoodie.properties.backup of `{place}`")


def _own(text: str, whose: str) -> dict[str, str]:
    try:
        properties = parse_properties(text)
    except ValueError as error:
        hint = "write each property in a line of its own, as Hudi does"
        raise TableError(Code.DAMAGED_PROPERTIES, f"{whose} {error}", hint=hint) from error
    require_own(whose, properties)
    return properties


def require_own(whose: str, properties: Mapping[str, str]) -> None:
    """Return if the properties say nothing but what a table is, and name no path outside of it.

    Raises:
        TableError: they do; its message begins with `whose` they are.

    """
    for key in properties:
        if key.startswith("hoodie.") and not _OF_TABLES.fullmatch(key):
            message = f"{whose} sets `{one_line(key)[:100]}`, which is no property of a table"
            hint = "Hudi would take it as an option of etc's own client: take the line out, writers have options of their own"
            raise TableError(Code.DAMAGED_PROPERTIES, message, hint=hint)
    if "hoodie.bootstrap.base.path" in properties:  # to Hudi an empty one is a path too
        raise TableError(Code.BOOTSTRAP_TABLE, f"{whose} is of a bootstrap table, which is not supported")
    for key, path in ((key, properties[key]) for key in _PATHS if properties.get(key)):
        try:
            parts_of(path)
        except ValueError as error:
            message = f"{whose} sets `{key}` to `{one_line(path)[:100]}`, which is no path below the table"
            raise TableError(Code.DAMAGED_PROPERTIES, message, hint="restore the file from a copy") from error


def _text(storage: TableReader) -> str:
    """The file's text, once a writer that is changing it has finished."""
    fault = "is missing"
    for number in range(ATTEMPTS):
        if number:
            time.sleep(PAUSE_SECONDS)
        try:
            text = storage.read(PROPERTIES, _MAX_BYTES).decode("utf-8", errors="replace")
        except (FileNotFoundError, NotADirectoryError):
            if storage.info(_BACKUP) is not None:
                continue
            _refuse_no_table(storage)
        if text.endswith("\n"):
            return text
        fault = _CUT_SHORT if text else "is empty"
    hint = "a writer died while it changed the file: any write by Hudi restores it from hoodie.properties.backup"
    if storage.info(_BACKUP) is None:
        hint = "restore it from a copy"
        if fault == _CUT_SHORT:
            hint = f"it ends in the middle of a line; {hint} (or end its last line, if it was edited)"
    message = f"hoodie.properties of `{storage.location}` {fault}"
    raise TableError(Code.DAMAGED_PROPERTIES, message, hint=hint)


def _refuse_no_table(storage: TableReader) -> NoReturn:
    try:
        storage.names("")
    except (FileNotFoundError, NotADirectoryError) as error:
        hint = "check `table` in the policy, and `table_root` of the target where it has one"
        if "*" in storage.location:
            hint = "for a policy for each table that a glob finds write `tables` in the place of `table`"
        reason = "this is a file" if isinstance(error, NotADirectoryError) else "the folder does not exist"
        message = f"there is no table at `{storage.location}`: {reason}"
        raise TableError(Code.NO_TABLE, message, hint=hint) from None
    message = f"`{storage.location}` is not a Hudi table: it has no .hoodie/hoodie.properties"
    hint = "check `table` in the policy: it names the folder that has `.hoodie` in it"
    raise TableError(Code.NOT_HUDI, message, hint=hint) from None


def _require_merge_on_read(base: str, properties: Mapping[str, str]) -> None:
    kind = properties.get("hoodie.table.type", "COPY_ON_WRITE")
    if kind != "MERGE_ON_READ":
        hint = "its read-optimized and snapshot views are the same: there is nothing to compact"
        raise TableError(Code.NOT_MERGE_ON_READ, f"`{base}` is a {kind.lower().replace('_', '-')} table", hint=hint)
    if (kept_as := properties.get("hoodie.table.format", _NATIVE)) != _NATIVE:
        message = (
            f"`{base}` keeps the format `{kept_as[:60]}` beside Hudi's own, which a commit by etc would leave behind"
        )
        raise TableError(Code.TIMELINE_LAYOUT, message, hint="let the writers that have its plugin compact it")
    version = properties.get("hoodie.table.version", "")
    if not (version.isascii() and version.isdigit()):
        raise TableError(Code.TABLE_VERSION, f"hoodie.properties of `{base}` names no table version")
    if len(version) > _MOST_DIGITS or int(version) > _LAST_KNOWN:
        raise TableError(
            Code.TABLE_VERSION,
            f"table version {version[:_MOST_DIGITS]} of `{base}` is not known to this version of etc, which reads up to "
            f"{_LAST_KNOWN}: a writer of a later Hudi has upgraded the table, or made it",
            hint=f"use an etc that reads it; or downgrade it by that Hudi's CLI (`downgrade table --toVersion {_LAST_KNOWN}`), "
            "and give all writers the options of `etc compile`, which forbid the upgrade",
        )


def _require_whole(base: str, properties: Mapping[str, str]) -> None:
    """Lines may be missing from the end: what every table has must be there."""
    always = _ALWAYS + (_ALWAYS_IN_LAYOUT_2 if int(properties["hoodie.table.version"]) >= _FIRST_OF_LAYOUT_2 else ())
    missing = next((key for key in always if key not in properties), None)
    if missing is not None:
        hint = "Hudi writes it into every table of this version; restore the file from a copy"
        raise TableError(
            Code.DAMAGED_PROPERTIES, f"hoodie.properties of `{base}` is not whole: it lacks {missing}", hint=hint
        )


def _require_version_as_laid_out(storage: TableReader, properties: Mapping[str, str]) -> None:
    """Table version 8 moved the timeline to a folder of its own (layout 2): version, layout and files must agree."""
    version, base = int(properties["hoodie.table.version"]), storage.location
    folder, layout = timeline_folder(properties, base)
    if (version >= _FIRST_OF_LAYOUT_2) != (layout >= 2):
        message = (
            f"hoodie.properties of `{base}` contradicts itself: table version {version} with timeline layout {layout}"
        )
        hint = "an upgrade was interrupted or the file was edited; let Hudi finish the upgrade, or restore the file"
        raise TableError(Code.DAMAGED_PROPERTIES, message, hint=hint)
    other, its_layout = (".hoodie", 1) if layout >= 2 else (".hoodie/timeline", 2)
    stray = _an_instant(storage, other, its_layout)
    if stray is not None and _an_instant(storage, folder, layout) is None:
        message = (
            f"hoodie.properties of `{base}` says table version {version}, but the table's commits are those of "
            f"{'an older' if layout >= 2 else 'a later'} one: `{base}/{stray}`"
        )
        hint = "an upgrade was interrupted or the file was edited; let Hudi finish the upgrade, or restore the file"
        raise TableError(Code.DAMAGED_PROPERTIES, message, hint=hint)


def _an_instant(storage: TableReader, folder: str, layout: int) -> str | None:
    """The timeline file in a folder whose name sorts first, None if it is missing."""
    try:
        names = (name for name in storage.names(folder) if parse_instant_file(name, layout) is not None)
        first = min((name for name in names if name.count(".")), default=None)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return f"{folder}/{first}" if first else None


def fingerprint(properties: Mapping[str, str]) -> str:
    """Hash of a table's properties; the file's comments and order do not count."""
    text = json.dumps(dict(sorted(properties.items())))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def names_in(value: str | None) -> tuple[str, ...]:
    """The names that a property lists with commas."""
    return tuple(name.strip() for name in (value or "").split(",") if name.strip())


def metadata_partitions(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The partitions of the table's metadata table."""
    return names_in(properties.get("hoodie.table.metadata.partitions"))


def ordering_fields(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The columns by which the rows of a key are ordered; none where the last commit wins."""
    return names_in(properties.get("hoodie.table.ordering.fields") or properties.get("hoodie.table.precombine.field"))


def merges_in_any_order(properties: Mapping[str, str]) -> bool:
    """Whether it is known that RT does not depend on which log files are compacted first.

    By the payload that Hudi 0.x takes if nothing is said, it does: log records are merged with each other by ordering value,
    and the result wins over the base file whatever that holds (facts: default-payload-0-15).
    """
    if MERGE_STRATEGY in properties:
        return properties[MERGE_STRATEGY] in (EVENT_TIME_STRATEGY, COMMIT_TIME_STRATEGY)
    strategy = properties.get(STRATEGY_OF_HUDI_0, EVENT_TIME_STRATEGY)
    return properties.get(PAYLOAD) in _BY_EVENT_TIME and strategy == EVENT_TIME_STRATEGY


#: What a key generator makes other texts of than readers do; of `timestamp-micros` only by an option that no property shows.
_OTHER_TEXTS = frozenset({"date", "timestamp-millis", "timestamp-micros", "local-timestamp-millis", "bytes", "fixed"})


def lacks_meta_columns(properties: Mapping[str, str]) -> bool:
    """Whether rows do not carry their keys, which are computed of their columns."""
    return properties.get("hoodie.populate.meta.fields") == "false"


def has_unsure_keys(properties: Mapping[str, str], type_of: Callable[[str], str | None]) -> bool:
    """Whether computed keys are not known to be those of delete blocks; `type_of` says which Avro type a column has.

    A complex key of one column is its value or `column:value`, as the writer chose, and no property says which (facts:
    complex-key-computed). Dates, times and bytes are other texts in delete blocks than to readers (facts: time-in-computed-key).
    """
    if not lacks_meta_columns(properties):
        return False
    kind = properties.get("hoodie.table.keygenerator.type", "")
    generator = kind or properties.get("hoodie.table.keygenerator.class", "").rpartition(".")[2]
    fields = names_in(properties.get("hoodie.table.recordkey.fields"))
    is_complex_of_one = generator.upper().startswith("COMPLEX") and len(fields) == 1
    return is_complex_of_one or any(type_of(field) in _OTHER_TEXTS for field in fields)


def updates_in_part(properties: Mapping[str, str]) -> bool:
    """Whether a row may change columns of one with an earlier event time, or nobody knows that it does not.

    So do partial updates (facts: partial-updates): a row without an event time keeps the old one's, and one that loses fills
    in what is missing.
    """
    if properties.get("hoodie.table.partial.update.mode"):
        return True
    mode, strategy = properties.get("hoodie.record.merge.mode"), properties.get(MERGE_STRATEGY)
    if mode in _WHOLE_ROWS or strategy in (EVENT_TIME_STRATEGY, COMMIT_TIME_STRATEGY):
        return False
    payload = properties.get(PAYLOAD)
    if payload:
        return payload.rpartition(".")[2] not in _WHOLE_ROW_PAYLOADS
    return (
        mode == "CUSTOM" or (strategy or properties.get(STRATEGY_OF_HUDI_0, EVENT_TIME_STRATEGY)) != EVENT_TIME_STRATEGY
    )


_BLANKS = " \t\f"
_HAS_KEY = re.compile(r"\s*\S+[=: \t\f]")
_KEY = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """The pairs of a file; of one key the last counts.

    Raises:
        ValueError: a line goes on in the next one. Hudi writes none, and releases of Java differ in what they take it for.

    """
    pairs: dict[str, str] = {}
    for line in re.split(r"\r\n|\r|\n", text):
        content = line.lstrip(_BLANKS)
        if not content or content[0] in "#!":
            continue
        if (len(content) - len(content.rstrip("\\"))) % 2 == 1:
            raise ValueError("has a line that goes on in the next")
        found = _KEY.match(content)
        if found is not None:  # it always is: a key may be empty
            pairs[_unescaped(found[1])] = _unescaped(content[found.end() :])
    return pairs


def _unescaped(text: str) -> str:
    """Java writes a character beyond 16 bits as two halves; a half alone is no character."""
    halves = _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else _LETTERS.get(found[2], found[2]), text)
    return halves if halves.isascii() else halves.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


_MODE, _PARTIAL = "hoodie.record.merge.mode", "hoodie.table.partial.update.mode"
_ORDERING_OF_HUDI_1_0, _FIRST_OF_HUDI_1 = "hoodie.table.precombine.field", 8
_RULE = "hoodie.record.merge.property."
_BY_PAYLOAD = "00000000-0000-0000-0000-000000000000"
_KNOWN_STRATEGIES = (EVENT_TIME_STRATEGY, COMMIT_TIME_STRATEGY, _BY_PAYLOAD)
#: What Hudi itself takes for a mode, so that it says nothing more.
_USUAL = {
    "EVENT_TIME_ORDERING": "DefaultHoodieRecordPayload",
    "COMMIT_TIME_ORDERING": "OverwriteWithLatestAvroPayload",
}
#: The first table version whose rows are merged by modes alone, whatever payload class the table was made with.
_MODES_ALONE = 9


def merging_of(properties: Mapping[str, str], changelog: str = "") -> str:
    """The table's version, mode or payload, ordering and rules, in words; names of columns and their values are not in it.

    So is whether it is written in changelog mode, as its log files show it.
    """
    return ", ".join(filter(None, (*_parts(properties), changelog)))


def _parts(properties: Mapping[str, str]) -> Iterator[str]:
    version = int(properties["hoodie.table.version"])
    yield f"table version {version}{_makers(properties, version)}"
    yield from _ways(properties, version)
    count = len(ordering_fields(properties))
    yield ("no ordering field", "one ordering field")[count] if count < 2 else "several ordering fields"
    rules = sorted(key.removeprefix(_RULE) for key in properties if key.startswith(_RULE))
    if rules:
        yield f"with {' and '.join(rules)}"


def _makers(properties: Mapping[str, str], version: int) -> str:
    """Which releases make tables with such properties, as far as these tell it; empty for later ones, or where they do not."""
    if version < _FIRST_OF_HUDI_1 and MERGE_STRATEGY not in properties:
        return f" {OF_HUDI_0}"
    return f" {OF_HUDI_1_0}" if _ORDERING_OF_HUDI_1_0 in properties else ""


def _ways(properties: Mapping[str, str], version: int) -> Iterator[str]:
    mode, strategy = properties.get(_MODE), properties.get(MERGE_STRATEGY) or properties.get(STRATEGY_OF_HUDI_0)
    if mode is not None and mode in _USUAL:
        yield mode
    if properties.get(_PARTIAL):
        yield properties[_PARTIAL]
    if strategy and strategy not in _KNOWN_STRATEGIES:
        yield f"merge strategy {strategy}"
    payload = _short(properties.get(PAYLOAD) or "")
    if version >= _MODES_ALONE and mode in _USUAL:
        return
    if payload and payload != _USUAL.get(mode or ""):
        yield payload
    elif not payload and mode not in _USUAL:
        yield "no payload"


def _short(payload: str) -> str:
    """The class without its package, where that is Hudi's own."""
    return payload.rpartition(".")[2] if payload.startswith("org.apache.hudi.") else payload
