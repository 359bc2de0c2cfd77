"""The options that a policy asks of its table's writers, and the properties file with the reason for each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from etc_policy.plain_text import one_line
from etc_policy.policy.manifest import Policy
from etc_policy.policy.secrets import as_variables, has_reference
from etc_policy.policy.table_shape import EVENT_TIME_ORDERING, MERGE_MODE_OF_WRITERS, TableShape

#: What Hudi's reader of properties makes one blank of, and what it takes away at both ends.
_BLANKS, _TRIMMED = re.compile(r"[ \t\n\x0b\f\r]+"), "".join(map(chr, range(0x21)))

_COMMENTS = {
    "hoodie.compact.inline": "Compaction is left to `etc apply`.",
    "hoodie.write.track.event.time.watermark": (
        "Records each log file's smallest event time in the commit, for planning without a JVM. Hudi has it from 1.1.0 on:\n"
        "earlier writers record none, and log files are read instead.\n"
        "Works for columns of 10-digit seconds or 13-digit milliseconds; other values (times before September 2001) are\n"
        "left out silently, also from the smallest time of a log file that holds both kinds.\n"
        "Hudi 1.2.0 fails with it on a MERGE INTO that sets only some columns: switch it off for such a statement."
    ),
    MERGE_MODE_OF_WRITERS: "Event times are recorded in this mode only; an existing table keeps the mode it has.",
    "hoodie.logfile.max.size": "Smaller log files make finer cuts.",
}


def writer_options(policy: Policy, shape: TableShape | None = None) -> dict[str, str]:
    """The options by name, in the order in which they are shown: compaction off, event times on, log file size, lock.

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
    if policy.log_file_max_bytes is not None:
        options["hoodie.logfile.max.size"] = str(policy.log_file_max_bytes)
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
    elif (reason := shape.untracked(policy.event_time)) is not None:
        yield f"# Event times are not recorded: {reason}. `etc plan` reads them from the log files."


def _is_read_back(key: str, value: str) -> bool:
    """Whether Hudi's `DFSPropertiesConfiguration`, which knows no escapes, reads the option as it is."""
    name, _, rest = _BLANKS.sub(" ", f"{key}={value}").partition("=")
    return (name.strip(_TRIMMED), rest.strip(_TRIMMED)) == (key, value)
