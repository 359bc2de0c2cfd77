"""`etc docs`: the site over all policies, as files that open without a server and without a network."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import click

from etc_policy import __version__
from etc_policy.api.planning import place
from etc_policy.cli.messages import tell, tell_warning
from etc_policy.cli.moments import at_option
from etc_policy.cli.options import (
    debug_option,
    examples,
    metadata_only_option,
    output_option,
    project_dir_option,
    select_options,
    select_policies,
    target_dir_option,
)
from etc_policy.cli.printing import say
from etc_policy.cli.progress import open_environment
from etc_policy.cli.project import counted, load_manifest, write_text
from etc_policy.cli.recording import load_runs
from etc_policy.cli.spark_confs import conf_option
from etc_policy.codes.registry import Code
from etc_policy.compile.manifest import Policy
from etc_policy.compile.selection import Selection
from etc_policy.declare.templates import read_template
from etc_policy.errors import EtcError, Issue, UsageError
from etc_policy.publish.freshness import table_freshness, unreadable
from etc_policy.publish.history import planned_tables, policy_history
from etc_policy.publish.run_files import RunFile
from etc_policy.publish.site import render_site
from etc_policy.publish.site_builder import site_view
from etc_policy.publish.site_views import SiteTable
from etc_policy.verify.late_data import late_data, with_times_of
from etc_policy.wiring import Environment, clock_ms

_ADDRESS = "127.0.0.1"
#: The list of the site's files, so that the next one can take away what it no longer has.
_LIST = "site.json"
_OWN_PAGE = re.compile(r"(tables|runs/[A-Za-z0-9_-]+)/[A-Za-z0-9_-]+\.html")


@click.group(
    "docs",
    short_help="A site over all tables, from their own commits",
    epilog=examples("etc docs generate", "etc docs serve"),
)
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
        "etc docs generate --at 2013-01-02T01:00:00Z   # for the demo's table",
    ),
)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Write it here.  [default: target/site]")
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Newest runs of a policy that have a page.",
)
@project_dir_option
@target_dir_option
@select_options
@at_option
@conf_option
@metadata_only_option
@output_option
@debug_option
def generate(
    out: Path | None,
    runs: int,
    project_dir: Path,
    target_dir: Path,
    select: Selection,
    at_ms: int | None,
    confs: Mapping[str, str],
    metadata_only: bool,
    output: str,
) -> None:
    """Write the site.

    It shows each policy's freshness now, how complete RO was over time, what each run wrote and what its checks found.
    All of it but the checks comes from the tables' own commits, active and archived, so the site can be written anew on
    any machine; checks come from target/runs/. A table that cannot be read has a page that says why. Starts no Spark.
    """
    manifest = load_manifest(project_dir)
    policies = select_policies(manifest, select)
    environment = open_environment(project_dir, target_dir, confs, metadata_only=metadata_only)
    now_ms = clock_ms() if at_ms is None else at_ms
    kept = load_runs(target_dir)
    try:
        facts = tuple(_facts(environment, policy, now_ms, kept.files) for policy in policies)
    finally:
        environment.close()
    name = manifest.project or project_dir.resolve().name or "etc"
    site = site_view(name, facts, now_ms, kept.issues, runs)
    folder = out or target_dir / "site"
    files = render_site(site, read_template)
    write_site(folder, files, "--out" if out else "--target-dir")
    if output == "json":
        click.echo(json.dumps({"schema_version": 1, "folder": str(folder), "files": sorted(files)}, indent=2))
    else:
        tell(f"wrote {counted(len(files), 'file')} about {counted(len(facts), 'policy')}")
        say(str(folder / "index.html"))


def write_site(folder: Path, files: Mapping[str, str], option: str) -> None:
    """Writes the site and takes away what an earlier one wrote that this one has not; other files stay.

    `option` is the one that names the folder.
    """
    before = _listed(folder)
    for path, text in files.items():
        write_text(folder / path, text, option)
    for path in before - files.keys():
        (folder / path).unlink(missing_ok=True)
    listed = {"schema_version": 1, "etc_version": __version__, "files": sorted(files)}
    write_text(folder / _LIST, json.dumps(listed, indent=1) + "\n", option)


def _listed(folder: Path) -> set[str]:
    """The files of the site that stands in a folder, none where there is none or its list is not ours."""
    try:
        names = json.loads((folder / _LIST).read_text(encoding="utf-8"))["files"]
        return {name for name in names if isinstance(name, str) and _OWN_PAGE.fullmatch(name)}
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return set()


@command.command(
    "serve",
    short_help="Show the site to browsers on this machine",
    epilog=examples("etc docs serve", "etc docs serve --port 8080 --out public"),
)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="The site.  [default: target/site]")
@click.option("--port", type=click.IntRange(0, 65535), default=8081, show_default=True, help="0 takes any free port.")
@project_dir_option
@target_dir_option
@debug_option
def serve(out: Path | None, port: int, project_dir: Path, target_dir: Path) -> None:
    """Show the site to browsers on this machine.

    Serves what `etc docs generate` wrote on 127.0.0.1 until it is interrupted. The pages need no server: a browser
    opens their index.html as well.
    """
    folder = out or target_dir / "site"
    if not (folder / "index.html").is_file():
        raise UsageError(Code.NO_SITE, f"there is no site in `{folder}`", hint="run `etc docs generate` first")
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    try:
        server = ThreadingHTTPServer((_ADDRESS, port), handler)
    except OSError as error:
        hint = "name another one by `--port`"
        raise UsageError(Code.PORT_IN_USE, f"cannot listen on port {port}: {error.strerror}", hint=hint) from error
    with server:
        click.echo(f"http://{_ADDRESS}:{server.server_address[1]}/")
        server.serve_forever()


def _facts(environment: Environment, policy: Policy, now_ms: int, runs: tuple[RunFile, ...]) -> SiteTable:
    """All about one policy; a table that cannot be read is unknown, and its reason is told."""
    try:
        state, past = environment.read_table(policy, archived=True)
        log = environment.read_commit_log(policy)
    except EtcError as error:
        where = error.where or place(policy.source, policy.name)
        tell_warning(Issue(error.code, error.message, where, error.hint, "warning"))
        return SiteTable(policy, unreadable(policy, error.message))
    return SiteTable(
        policy=policy,
        freshness=table_freshness(policy, state, now_ms, clock_ms(), past),
        history=policy_history(policy, log, runs),
        plans=planned_tables(policy, log.base_path, runs),
        state=state,
        log=log,
        late=late_data(with_times_of(past, state)),
    )
