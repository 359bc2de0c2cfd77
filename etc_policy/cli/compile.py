"""`etc compile`: the manifest and the writers' options as files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import click

from etc_policy.cli.options import common_options, examples, select_policies
from etc_policy.cli.printing import say
from etc_policy.cli.progress import open_environment
from etc_policy.cli.project import counted, load_project, write_text
from etc_policy.compile.manifest import Policy
from etc_policy.compile.provenance import render_provenance
from etc_policy.compile.selection import Selection
from etc_policy.compile.writer_forms import FORMS, FormName
from etc_policy.declare.project import ProjectFiles


@click.command(
    "compile",
    short_help="Write the manifest and the writers' options",
    epilog=examples(
        "etc compile",
        "etc compile --output json | jq '.policies[].table'",
        'etc compile --select "orders_ro payments_ro" --target-dir build',
        "etc compile --select orders_ro --form tblproperties | spark-sql",
        "etc compile --select orders_ro --explain",
    ),
)
@click.option(
    "--form",
    metavar="FORM",
    type=click.Choice(get_args(FormName)),
    help=f"Print the writers' options to stdout as {', '.join(get_args(FormName))}.",
)
@click.option("--explain", is_flag=True, help="Print what each policy came to, and from which line each value came.")
@common_options
def command(
    project_dir: Path, target_dir: Path, select: Selection, output: str, form: FormName | None, explain: bool
) -> None:
    """Write the manifest and the writers' options.

    The manifest (target/manifest.json) is every policy with its defaults filled in. For each table the options that its
    writers need go to target/writers/, one file for each kind of writer; those of policies that are gone are removed. What
    each policy came to, with the line of each value, goes to target/compiled/.
    """
    files, manifest = load_project(project_dir)
    policies = select_policies(manifest, select)
    manifest = manifest.model_copy(update={"git": open_environment(project_dir, target_dir).git_state()})
    text = manifest.model_dump_json(indent=2) + "\n"
    manifest_path = target_dir / "manifest.json"
    write_text(manifest_path, text)
    for policy in policies:
        for kind in FORMS.values():
            write_text(target_dir / "writers" / f"{policy.name}{kind.suffix}", kind.render(policy))
    names = {policy.name for policy in manifest.policies}
    _remove_stale(target_dir / "writers", names, tuple(kind.suffix for kind in FORMS.values()))
    _remove_stale(target_dir / "compiled", names, (".yml",))
    explained = _write_compiled(files, policies, target_dir / "compiled")
    if explain:
        click.echo("\n".join(explained), nl=False)
        return
    if form is not None:
        click.echo("\n".join(FORMS[form].render(policy) for policy in policies), nl=False)
    elif output == "json":
        click.echo(text, nl=False)
    else:
        say("\n".join(_summary(manifest_path, target_dir / "writers", len(manifest.policies), policies)))


def _write_compiled(files: ProjectFiles, policies: tuple[Policy, ...], folder: Path) -> list[str]:
    """Write what each policy came to, with its places; returns the texts."""
    declared = {policy.declaration.name: policy for policy in files.policies}
    texts = [render_provenance(declared[policy.name], policy, files.target) for policy in policies]
    for policy, text in zip(policies, texts, strict=True):
        write_text(folder / f"{policy.name}.yml", text)
    return texts


def _remove_stale(folder: Path, names: set[str], suffixes: tuple[str, ...]) -> None:
    """Remove the files of policies that the project no longer has; others in the folder stay."""
    for path in folder.iterdir() if folder.is_dir() else ():
        name, dot, rest = path.name.partition(".")
        if dot + rest in suffixes and name not in names:
            path.unlink()


def _summary(manifest: Path, writers: Path, total: int, policies: tuple[Policy, ...]) -> Iterator[str]:
    yield f"{manifest}  {counted(total, 'policy')}"
    yield f"{writers}/  options for the writers of {counted(len(policies), 'table')}:"
    name = policies[0].name if len(policies) == 1 else "NAME"
    width = len(name) + max(len(kind.suffix) for kind in FORMS.values())
    for kind in FORMS.values():
        yield f"  {name + kind.suffix:<{width}}  {kind.use}"
