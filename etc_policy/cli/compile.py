"""`etc compile`: the manifest and the writers' options as files."""

from __future__ import annotations

from pathlib import Path

import click

from etc_policy.cli.options import common_options, examples, select_policies
from etc_policy.cli.project import counted, load_manifest, write_text
from etc_policy.compile.manifest import Policy
from etc_policy.compile.writer_options import render_options, render_properties, render_spark_conf

_FORMS = (
    (".properties", render_properties, "Hudi Streamer: --props FILE"),
    (".spark-conf.txt", render_spark_conf, "Spark SQL: spark-sql and spark-submit"),
    (".options.json", render_options, "DataFrame writer: .options(**...)"),
)


@click.command(
    "compile",
    short_help="Write the manifest and the writers' options",
    epilog=examples(
        "etc compile",
        "etc compile --output json | jq '.policies[].table'",
        'etc compile --select "orders_ro payments_ro" --target-dir build',
    ),
)
@common_options
def command(project_dir: Path, target_dir: Path, select: tuple[str, ...], output: str) -> None:
    """Write the manifest and the writers' options.

    The manifest (target/manifest.json) is every policy with its defaults filled in. For each table the options that its
    writers need go to target/writers/: as a properties file, as --conf arguments, and as JSON.
    """
    manifest = load_manifest(project_dir)
    policies = select_policies(manifest, select)
    text = manifest.model_dump_json(indent=2) + "\n"
    manifest_path = target_dir / "manifest.json"
    write_text(manifest_path, text)
    lines = [line for policy in policies for line in _write_options(policy, target_dir / "writers")]
    if output == "json":
        click.echo(text, nl=False)
        return
    click.echo(f"{manifest_path}  {counted(len(manifest.policies), 'policy')}")
    for line in lines:
        click.echo(line)


def _write_options(policy: Policy, folder: Path) -> list[str]:
    lines = []
    for suffix, render, use in _FORMS:
        path = folder / f"{policy.name}{suffix}"
        write_text(path, render(policy))
        lines.append(f"{path}  {use}")
    return lines
