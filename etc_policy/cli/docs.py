"""`etc docs`: the site over all policies, as files that open without a server and without a network."""

from __future__ import annotations

import json
from pathlib import Path

import click

from etc_policy.cli.messages import show_note
from etc_policy.cli.opening import open_project
from etc_policy.cli.options import (
    PROJECT_OPTIONS,
    SELECT_OPTIONS,
    Flags,
    conf_option,
    examples,
    jobs_option,
    metadata_only_option,
    output_option,
    shared_options,
    trust_options,
)
from etc_policy.cli.printing import say
from etc_policy.cli.terminal import print_json, print_text
from etc_policy.cli.value_types import FOLDER, at_option, port_option
from etc_policy.errors import UsageError
from etc_policy.errors.codes import Code
from etc_policy.table.formats import count_of


@click.group("docs", epilog=examples("etc docs generate", "etc docs serve"))
def command() -> None:
    """A site over all tables, from their own commits.

    Every page works from a folder, without a server or a network.
    """


@command.command(
    "generate",
    short_help="Write the site",
    epilog=examples(
        "etc docs generate",
        "etc docs generate --out public --select orders_ro",
    ),
)
@click.option("--out", type=FOLDER, help="Write it here.  [default: target/site]")
@click.option(
    "--runs",
    metavar="NUMBER",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="So many of the newest runs of a policy are listed.",
)
@trust_options
@shared_options(
    *PROJECT_OPTIONS, *SELECT_OPTIONS, at_option, conf_option, jobs_option, metadata_only_option, output_option
)
def generate(flags: Flags, out: Path | None, runs: int) -> None:
    """Write the site.

    It shows each policy's freshness now, how complete RO was over time, what each run wrote and what the newest checks
    found, on one page a policy.
    All of it but the checks comes from the tables' own commits, active and archived, so the site can be written anew on
    any machine; checks come from target/runs/. A table that cannot be read has a page that says why. Starts no Spark.
    """
    with open_project(flags) as project:
        site = project.site(*flags.terms, at=flags.at, out=out, runs=runs)
    if flags.output == "json":
        print_json(json.dumps({"schema_version": 1, "folder": str(site.folder), "files": site.files}, indent=2))
    else:
        show_note(f"wrote {count_of(len(site.files), 'file')} about {count_of(len(site.policies), 'policy')}")
        say(str(site.folder / "index.html"))


@command.command(
    "serve",
    short_help="Show the site to browsers on this machine",
    epilog=examples("etc docs serve", "etc docs serve --port 8080 --out public"),
)
@click.option("--out", type=FOLDER, help="Folder of the site.  [default: target/site]")
@port_option(8081)
@shared_options(*PROJECT_OPTIONS)
def serve(flags: Flags, out: Path | None, port: int) -> None:
    """Show the site to browsers on this machine.

    Serves what `etc docs generate` wrote on 127.0.0.1 until it is interrupted. The pages need no server: a browser
    opens their index.html as well.
    """
    folder = out or flags.target_dir / "site"
    if not (folder / "index.html").is_file():
        raise UsageError(Code.NO_SITE, f"there is no site in `{folder}`", hint="run `etc docs generate` first")
    from etc_policy.cli.site_server import ADDRESS, site_server

    try:
        server = site_server(folder, port)
    except OSError as error:
        hint = "name another one by `--port`"
        raise UsageError(Code.PORT_IN_USE, f"cannot listen on port {port}: {error.strerror}", hint=hint) from error
    with server:
        print_text(f"http://{ADDRESS}:{server.server_address[1]}/")
        server.serve_forever()
