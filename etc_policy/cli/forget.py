"""`etc forget`: removes etc's own files from a table."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

import click

from etc_policy.cli.messages import show_note
from etc_policy.cli.opening import open_project
from etc_policy.cli.options import PROJECT_OPTIONS, Flags, conf_option, examples, output_option, shared_options
from etc_policy.cli.printing import announce, ask, say
from etc_policy.cli.terminal import print_json
from etc_policy.errors import ExitCode
from etc_policy.table.formats import count_of, format_bytes


@click.command(
    "forget",
    short_help="Remove etc's own files from a table",
    epilog=examples("etc forget orders_ro", "etc forget orders_ro --yes", "etc forget orders_ro --output json"),
)
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask before the files are removed.")
@shared_options(*PROJECT_OPTIONS, conf_option, output_option)
def command(flags: Flags, name: str, yes: bool) -> ExitCode:
    """Remove etc's own files from a table.

    Shows the files that etc keeps in `.hoodie/.etc` of the table of policy NAME, and asks; where nobody can be asked it only
    shows them (exit code 2). Hudi reads none of them. What they say is lost: proofs and doubts of the last verification, and
    which partitions were reported as done. Nothing is removed while a run is at work, or before a pending plan of etc has ended.
    """
    with open_project(flags) as project:
        kept = project.kept_beside(name)
        done = _confirmed(name, kept, yes=yes, output=flags.output)
        if done:
            project.forget(name)
    if flags.output == "json":
        files = [{"path": path, "bytes": size} for path, size in kept.items()]
        print_json(json.dumps({"schema_version": 1, "policy": name, "files": files, "done": done}, indent=2))
    elif not kept:
        say(f"{name}: etc keeps nothing in its table.")
    elif done:
        say(f"{name}: {count_of(len(kept), 'file')} removed.")
    else:
        show_note("Nothing was removed; `--yes` removes these files.")
    return ExitCode.DONE if done or not kept else ExitCode.CHANGES


def _confirmed(name: str, kept: Mapping[str, int], *, yes: bool, output: str) -> bool:
    """Show the files and, on a terminal, ask."""
    asks = bool(kept) and not yes and output != "json" and sys.stdin.isatty()
    if kept and output != "json":
        lines = (f"  {path}  {format_bytes(size)}" for path, size in kept.items())
        announce("\n".join((name, *lines)), asks=asks)
    return ask("Remove them?") if asks else yes and bool(kept)
