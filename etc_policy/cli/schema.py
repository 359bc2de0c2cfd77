"""`etc schema`: the JSON Schemas that the package ships."""

from __future__ import annotations

import json
from pathlib import Path

import click

from etc_policy.api.artifacts import write_text
from etc_policy.cli.messages import message_options
from etc_policy.cli.options import examples, output_option
from etc_policy.cli.printing import text_width
from etc_policy.cli.terminal import print_data, print_json, print_text
from etc_policy.cli.value_types import FOLDER
from etc_policy.errors import UsageError
from etc_policy.errors.codes import Code
from etc_policy.policy.files import read_schemas
from etc_policy.policy.suggestions import did_you_mean
from etc_policy.table.formats import rows_of


@click.command(
    "schema",
    epilog=examples(
        "etc schema",
        "etc schema policy > .etc/policy.v1.json   # for an editor",
        "etc schema --out schemas",
    ),
)
@click.argument("name", required=False)
@click.option("--out", type=FOLDER, help="Write every schema, or the one of NAME, into this folder.")
@output_option
@message_options
def command(name: str | None, out: Path | None, output: str) -> None:
    """JSON Schemas of policy files and of what etc writes.

    Without NAME they are listed. Each has a version of its own, which the files carry as `schema_version` (`version` in
    files that people write); a change that old readers would not understand gets a new one.
    """
    schemas = read_schemas()
    found = {file.split(".v")[0]: file for file in schemas}
    if name is not None:
        if name not in found:
            hint = did_you_mean(name, found) or f"the schemas are {', '.join(found)}"
            raise UsageError(Code.USAGE, f"there is no schema `{name[:60]}`", hint=hint)
        if out is None:
            print_data(schemas[found[name]])
            return
        found = {name: found[name]}
    for file in found.values() if out is not None else ():
        write_text(Path(str(out)), file, schemas[file], "--out")
    if output == "json":
        titles = [{"name": key, "file": file, "title": _title(schemas[file])} for key, file in found.items()]
        print_json(json.dumps({"schema_version": 1, "schemas": titles}, indent=2))
        return
    print_text(rows_of([(key, file, _title(schemas[file])) for key, file in found.items()], text_width()))


def _title(text: str) -> str:
    return str(json.loads(text)["title"])
