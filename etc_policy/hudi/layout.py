"""Names and properties of a Hudi table on disk: `hoodie.properties`, instants and data files, parsed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from etc_policy.errors import TableError
from etc_policy.errors.codes import Code

_BASE_FILE = re.compile(r"(?P<file_id>[^_./]+)_(?P<token>[^_/]+)_(?P<instant>\d+)\.(?P<format>parquet|orc|hfile|lance)")
_LOG_FILE = re.compile(
    r"\.(?P<file_id>[^/]+?)_(?P<instant>\d+)\.log\.(?P<version>\d+)(?:_(?P<token>\d+-\d+-\d+))?(?P<cdc>\.cdc|-cdc)?"
)
#: What follows `.log.` in the name of a log file, which is not one for change data capture: version and write token.
_LOG_END = re.compile(r"\d+(?:_\d+-\d+-\d+)?")
#: An instant in a name that is no data file's.
_WITH_INSTANT = re.compile(r"_(?P<instant>\d{17}|\d{14})\.")
#: How names of files end that are beside data files and hold no rows.
NO_ROWS = (".crc", ".cdc", "-cdc")
_INSTANT_V2 = re.compile(
    r"(?P<requested>\d+)(?:_(?P<completed>\d+))?\.(?P<action>[a-z]+)(?:\.(?P<state>requested|inflight))?"
)
_INSTANT_V1 = re.compile(r"(?P<requested>\d+)(?:\.(?P<action>[a-z]+?))??(?:\.(?P<state>requested|inflight))?")
#: The metadata table, below its table.
METADATA_TABLE = ".hoodie/metadata"
#: Where writers keep their heartbeats, in a table and in its metadata table.
HEARTBEATS = ".hoodie/.heartbeat"
#: What etc itself keeps in a table: its lease, its own lock where the writers declare none, the state of `etc apply`.
ETC_FOLDER = ".hoodie/.etc"
#: In it: what the metadata table had, one partition a line, while a run owes the table another one.
METADATA_NOTE = f"{ETC_FOLDER}/metadata_partitions"


class DataFileName(NamedTuple):
    """A base or log file's name, taken apart."""

    name: str
    file_id: str
    instant: str
    is_log: bool
    version: int = 0


@dataclass(frozen=True, slots=True)
class InstantFile:
    """A file on the timeline, taken apart; `state` is `completed` where the name carries none."""

    name: str
    requested: str
    completed: str | None
    action: str
    state: str


def parse_data_file(name: str) -> DataFileName | None:
    """The parts of a data file's name; None for anything else, change-data-capture logs included."""
    if match := _LOG_FILE.fullmatch(name):
        if match["cdc"]:
            return None
        return DataFileName(name, match["file_id"], match["instant"], is_log=True, version=int(match["version"]))
    if match := _BASE_FILE.fullmatch(name):
        return DataFileName(name, match["file_id"], match["instant"], is_log=False)
    return None


def unknown_instant(name: str) -> str | None:
    """The instant in a name that is no data file's, where it may be one of a form that is not known; None for any other file.

    Checksums of Hadoop and logs for change data capture hold no rows.
    """
    match = None if name.endswith(NO_ROWS) else _WITH_INSTANT.search(name)
    return match["instant"] if match else None


def is_change_log(name: str) -> bool:
    """Whether a file is a log file for change data capture, by its name."""
    match = _LOG_FILE.fullmatch(name)
    return match is not None and bool(match["cdc"])


def parse_instant_file(name: str, layout: int) -> InstantFile | None:
    """The parts of a timeline file's name under timeline layout 1 or 2; None for anything else."""
    match = (_INSTANT_V2 if layout >= 2 else _INSTANT_V1).fullmatch(name)
    if match is None:
        return None
    parts = match.groupdict()
    if layout >= 2 and parts["action"] == "inflight":  # a bare `<instant>.inflight` is a commit's
        parts |= {"action": "commit", "state": "inflight"}
    completed, state = parts.get("completed"), parts["state"] or "completed"
    if layout >= 2 and (completed is None) == (state == "completed"):
        return None
    return InstantFile(name, parts["requested"], completed, parts["action"] or "commit", state)


def timeline_folder(properties: Mapping[str, str], location: str) -> tuple[str, int]:
    """The active timeline's folder below the table at a location, and its layout version."""
    layout = properties.get("hoodie.timeline.layout.version", "1")
    if layout not in ("1", "2"):
        hint = "this version of etc knows layouts 1 and 2"
        raise TableError(Code.TIMELINE_LAYOUT, f"timeline layout `{layout[:60]}` of {location} is not known", hint=hint)
    return (f".hoodie/{properties.get('hoodie.timeline.path', 'timeline')}", 2) if layout == "2" else (".hoodie", 1)


def is_log_name(name: str, file_id: str, instant: str) -> bool:
    """Whether a file is a log file of that file group and that instant, by its name."""
    start = f".{file_id}_{instant}.log."
    return bool(file_id) and name.startswith(start) and _LOG_END.fullmatch(name, len(start)) is not None
