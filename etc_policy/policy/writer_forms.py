"""A policy's writer options in every form in which writers take options.

Spark SQL takes them from the session as `spark.hoodie.*` or from the table's properties; the DataFrame writer takes
neither (measured with Hudi 1.2.0) and needs them as `.options`. Hudi Streamer takes a properties file, and compacts all
the same without `--disable-compaction`. Flink has options of its own for compaction and takes the rest as they are.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from etc_policy.policy.locations import is_catalog_name
from etc_policy.policy.manifest import Policy
from etc_policy.policy.table_shape import TableShape
from etc_policy.policy.writer_options import fit_for_files, notes_on_left_out, render_properties, writer_options

FormName = Literal["options", "properties", "spark-conf", "tblproperties", "flink", "streamer"]

#: Flink's own names: it schedules and runs compactions by default, whatever `hoodie.compact.*` says.
_FLINK_COMPACTION = {"compaction.schedule.enabled": "false", "compaction.async.enabled": "false"}
_NOT_OF_FLINK = ("hoodie.compact.inline", "hoodie.compact.schedule.inline", "hoodie.datasource.compaction.async.enable")


class Form(NamedTuple):
    """One form: the suffix of its file, its text for a policy and the shape of its table, and who takes it."""

    suffix: str
    render: Callable[[Policy, TableShape | None], str]
    use: str


def flink_options(policy: Policy, shape: TableShape | None = None) -> dict[str, str]:
    """The options of a Flink sink: its own for compaction, the others by their Hudi names."""
    rest = {key: value for key, value in writer_options(policy, shape).items() if key not in _NOT_OF_FLINK}
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
    table, pairs = policy.table if is_named else "db.table", _pairs(fit_for_files(options), _spark_text)
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


def _spark_text(text: str) -> str:
    r"""A literal of Spark SQL, which knows escapes by `\`."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{escaped}'"


def _standard_text(text: str) -> str:
    """A literal of standard SQL: only the quote is doubled."""
    return "'" + text.replace("'", "''") + "'"
