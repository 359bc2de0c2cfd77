"""The options that a policy asks of its table's writers, in every form in which writers take them.

Spark SQL takes them from the session as `spark.hoodie.*` or from the table's properties; the DataFrame writer takes
neither (measured with Hudi 1.2.0) and needs them as `.options`. Hudi Streamer takes a properties file, and compacts all
the same without `--disable-compaction`. Flink has options of its own for compaction and takes the rest as they are.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from etc_policy.errors.plain_text import one_line
from etc_policy.policy.locations import is_catalog_name
from etc_policy.policy.manifest import EventTime, Policy
from etc_policy.policy.secrets import as_variables, has_reference

#: The only merge mode under which Hudi records event times.
EVENT_TIME_ORDERING = "EVENT_TIME_ORDERING"
MERGE_MODE = "hoodie.record.merge.mode"
#: By which a writer gives it to a table that it makes: of the table's own name a new table takes nothing
#: (facts: merge-mode-option).
MERGE_MODE_OF_WRITERS = "hoodie.write.record.merge.mode"
#: The first table version whose write stats have event times.
_FIRST_VERSION = 8
#: The first Hudi whose writers can record event times, and the table version of its own.
TRACKED_SINCE, _VERSION_OF_ITS_OWN = "1.1.0", 9
#: Hudi records values that print as 10 or 13 digits: seconds and milliseconds (facts: commit-event-times).
_TYPES, _UNITS = ("int", "long"), (None, "s", "ms")


@dataclass(frozen=True, slots=True)
class TableShape:
    """A table as it is: its version and merge mode, and the Avro type of its event-time column where a commit shows it."""

    table_version: int
    merge_mode: str | None
    column_type: str | None

    @property
    def may_be_older(self) -> bool:
        """Whether its writers may be of a Hudi that cannot record event times."""
        return self.table_version < _VERSION_OF_ITS_OWN

    def untracked(self, event_time: EventTime) -> str | None:
        """Why Hudi cannot record event times for this table, whatever options its writers have; None where it can."""
        if self.table_version < _FIRST_VERSION:
            return f"Hudi records none in table version {self.table_version}"
        if self.merge_mode not in (None, EVENT_TIME_ORDERING):
            return f"the table merges by {self.merge_mode}, and Hudi (up to 1.2) records them only with {EVENT_TIME_ORDERING}"
        if self.column_type is not None and self.column_type not in _TYPES:
            return f"Hudi cannot record those of a {self.column_type} column"
        if event_time.unit not in _UNITS:
            return f"Hudi records only seconds and milliseconds, and these are {event_time.unit}"
        return None


#: What Hudi's reader of properties makes one blank of, and what it takes away at both ends.
_BLANKS, _TRIMMED = re.compile(r"[ \t\n\x0b\f\r]+"), "".join(map(chr, range(0x21)))

CLEAN_POLICY, CLEAN_HOURS = "hoodie.cleaner.policy", "hoodie.cleaner.hours.retained"
_COMMENTS = {
    CLEAN_POLICY: "Keeps the base files of the last cuts (`strategy.keep`). Commits of that time stay on the active timeline.",
    "hoodie.compact.inline": "Compaction is left to `etc apply`.",
    "hoodie.write.track.event.time.watermark": (
        "Records each log file's smallest event time in the commit, for planning without a JVM. Hudi has it from 1.1.0 on:\n"
        "earlier writers record none, and log files are read instead.\n"
        "Works for columns of 10-digit seconds or 13-digit milliseconds; other values (times before September 2001) are\n"
        "left out silently, also from the smallest time of a log file that holds both kinds.\n"
        "Hudi 1.2.0 fails with it on a MERGE INTO that updates rows and has no WHEN NOT MATCHED THEN INSERT, whichever columns\n"
        "it sets: switch it off for such a statement, and for one whose two clauses set the event-time column differently."
    ),
    MERGE_MODE_OF_WRITERS: "Up to Hudi 1.2 event times are recorded in this mode only; an existing table keeps the mode it has.",
    "hoodie.write.auto.upgrade": (
        "The table keeps its version. Without these two a writer of Hudi upgrades it to that of its own with its next write:\n"
        "from Hudi 1.3 on to version 10, which this etc does not read. To upgrade to 8 or 9, leave them out once."
    ),
    "hoodie.logfile.max.size": "Smaller log files make finer cuts.",
}


def writer_options(policy: Policy, shape: TableShape | None = None) -> dict[str, str]:
    """The options by name, in the order in which they are shown: compaction off, event times on, table version, log files, lock.

    `shape` is that of the table, None for one that does not exist yet or is not known: it gets what a new table needs. A
    merge mode that an existing table does not have would make its writers fail, and what Hudi cannot record is not asked for.
    A lock's option from the environment has its reference: `with_values` fills it in, `fit_for_files` leaves it out.
    """
    options = {
        "hoodie.compact.inline": "false",
        "hoodie.compact.schedule.inline": "false",
        "hoodie.datasource.compaction.async.enable": "false",
    }
    if shape is None or shape.untracked(policy.event_time) is None:
        options |= {
            "hoodie.write.track.event.time.watermark": "true",
            "hoodie.payload.event.time.field": policy.event_time.column,
        }
        if shape is None:
            options[MERGE_MODE_OF_WRITERS] = EVENT_TIME_ORDERING
    if shape is not None:
        options |= {"hoodie.write.auto.upgrade": "false", "hoodie.write.table.version": str(shape.table_version)}
    if policy.log_file_max_bytes is not None:
        options["hoodie.logfile.max.size"] = str(policy.log_file_max_bytes)
    if policy.kept_ms is not None:
        hours = -(-policy.kept_ms // 3_600_000)
        options |= {CLEAN_POLICY: "KEEP_LATEST_BY_HOURS", CLEAN_HOURS: str(hours)}
    return {**options, **dict(sorted(policy.writer.lock.items()))}


def fit_for_files(options: Mapping[str, str]) -> dict[str, str]:
    """The options without those whose values come from the environment: no file may hold these."""
    return {key: value for key, value in options.items() if not has_reference(value)}


def left_out(options: Mapping[str, str]) -> dict[str, str]:
    """The options that `fit_for_files` leaves out, each with what to set it to: `${NAME}`."""
    return {one_line(key): one_line(as_variables(value)) for key, value in options.items() if has_reference(value)}


def notes_on_left_out(options: Mapping[str, str], mark: str) -> Iterator[str]:
    """A comment, which begins with `mark`, for each option that is not in the file."""
    for key, value in left_out(options).items():
        yield f"{mark} Left out, to be set from the environment: {key}={value}\n"


def render_properties(policy: Policy, shape: TableShape | None = None) -> str:
    """A properties file as Hudi reads it, for `--props` of Hudi Streamer and Hudi's tools: a comment is a line of its own."""
    options = writer_options(policy, shape)
    lines = [
        f"# Options for the writers of policy {policy.name}, made by `etc compile`. In UTF-8, for `--props` of Hudi's tools.",
        f"# A job with properties of its own beside this file ends them with the line include={policy.name}.properties",
        *_for_which_table(policy, shape),
        *(note.rstrip() for note in notes_on_left_out(options, "#")),
    ]
    for key, value in fit_for_files(options).items():
        if key in _COMMENTS:
            lines += ["", *(f"# {line}" for line in _COMMENTS[key].splitlines())]
        if _is_read_back(key, value):
            lines.append(f"{key}={value}")
        else:
            lines.append(
                f"# Left out, as no properties file of Hudi can hold these blanks: {one_line(key)}={json.dumps(value)}"
            )
    return "\n".join(lines) + "\n"


def _for_which_table(policy: Policy, shape: TableShape | None) -> Iterator[str]:
    if shape is None:
        yield "# For a new table: none could be read. Compile again once it exists, as a merge mode that it lacks stops writers."
        yield "# A writer of Hudi 1.3 or later makes it of version 10, which is not read: add hoodie.write.table.version=9 there."
    elif (reason := shape.untracked(policy.event_time)) is not None:
        yield f"# Event times are not recorded: {reason}. `etc plan` reads them from the log files."


def _is_read_back(key: str, value: str) -> bool:
    """Whether Hudi's `DFSPropertiesConfiguration`, which knows no escapes, reads the option as it is."""
    name, _, rest = _BLANKS.sub(" ", f"{key}={value}").partition("=")
    return (name.strip(_TRIMMED), rest.strip(_TRIMMED)) == (key, value)


FormName = Literal["options", "properties", "spark-conf", "tblproperties", "flink", "streamer"]

#: Flink's own names: it schedules and runs compactions by default, whatever `hoodie.compact.*` says.
_FLINK_COMPACTION = {"compaction.schedule.enabled": "false", "compaction.async.enabled": "false"}
_OF_FLINK = {CLEAN_POLICY: "clean.policy", CLEAN_HOURS: "clean.retain_hours"}
_NOT_OF_FLINK = ("hoodie.compact.inline", "hoodie.compact.schedule.inline", "hoodie.datasource.compaction.async.enable")


class Form(NamedTuple):
    """One form: the suffix of its file, its text for a policy and the shape of its table, and who takes it."""

    suffix: str
    render: Callable[[Policy, TableShape | None], str]
    use: str


def flink_options(policy: Policy, shape: TableShape | None = None) -> dict[str, str]:
    """The options of a Flink sink: its own for compaction, the others by their Hudi names."""
    options = writer_options(policy, shape).items()
    rest = {_OF_FLINK.get(key, key): value for key, value in options if key not in _NOT_OF_FLINK}
    return {**_FLINK_COMPACTION, **rest}


def render_options(policy: Policy, shape: TableShape | None = None) -> str:
    """A JSON mapping, for the DataFrame writer: `.options(**json.load(file))`."""
    return json.dumps(fit_for_files(writer_options(policy, shape)), indent=2, ensure_ascii=True) + "\n"


def render_spark_conf(policy: Policy, shape: TableShape | None = None) -> str:
    """A `--conf` for each option, one a line and quoted for a shell: for sessions that write this table by Spark SQL."""
    options = writer_options(policy, shape)
    confs = (f"--conf {shlex.quote(f'spark.{key}={value}')}\n" for key, value in fit_for_files(options).items())
    return "".join((*confs, *notes_on_left_out(options, "#")))


def render_tblproperties(policy: Policy, shape: TableShape | None = None) -> str:
    """A statement that sets the options as properties of the table in Spark's catalog, for all who write it by SQL."""
    options, is_named = writer_options(policy, shape), is_catalog_name(policy.table)
    note = "" if is_named else f"-- Put the catalog's name of {' '.join(policy.table.split())} for db.table.\n"
    notes = note + "".join(notes_on_left_out(options, "--"))
    table, pairs = policy.table if is_named else "db.table", _pairs(fit_for_files(options), spark_text)
    return f"{notes}ALTER TABLE {table} SET TBLPROPERTIES (\n{pairs}\n);\n"


def render_flink(policy: Policy, shape: TableShape | None = None) -> str:
    """The part of a Flink table's `WITH (...)` that the policy decides."""
    options = flink_options(policy, shape)
    note = "-- Add these to the WITH clause of the sink; connector, path, table.type and keys are yours.\n"
    notes = note + "".join(notes_on_left_out(options, "--"))
    return f"{notes}\nWITH (\n{_pairs(fit_for_files(options), _standard_text)}\n);\n"


def render_streamer(policy: Policy, _shape: TableShape | None = None) -> str:
    """Arguments of Hudi Streamer, one a line: the properties file alone would not stop it from compacting."""
    return f"--table-type MERGE_ON_READ\n--disable-compaction\n--props {shlex.quote(f'{policy.name}.properties')}\n"


FORMS: Mapping[FormName, Form] = {
    "options": Form(".options.json", render_options, "Spark DataFrame writer: .options(**json.load(f))"),
    "spark-conf": Form(".spark-conf.txt", render_spark_conf, "Spark SQL, for a session: spark-sql, spark-submit"),
    "tblproperties": Form(".tblproperties.sql", render_tblproperties, "Spark SQL, for the table: ALTER TABLE"),
    "properties": Form(".properties", render_properties, "properties file, for Hudi's tools"),
    "streamer": Form(".streamer-args.txt", render_streamer, "Hudi Streamer, with the properties file"),
    "flink": Form(".flink.sql", render_flink, "Flink SQL: part of WITH (...)"),
}


def _pairs(options: Mapping[str, str], quote: Callable[[str], str]) -> str:
    return ",\n".join(f"  {quote(key)} = {quote(value)}" for key, value in options.items())


def spark_text(text: str) -> str:
    r"""A literal of Spark SQL, which knows escapes by `\`."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{escaped}'"


def spark_name(name: str) -> str:
    """A dotted name in Spark SQL, whatever it is: writers of a table choose those of columns, and SQL calls Java."""
    return ".".join(f"`{part.replace('`', '``')}`" for part in name.split("."))


def _standard_text(text: str) -> str:
    """A literal of standard SQL: only the quote is doubled."""
    return "'" + text.replace("'", "''") + "'"
