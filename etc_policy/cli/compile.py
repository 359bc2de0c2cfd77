"""`etc compile`: the manifest and the writers' options as files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import click

from etc_policy.api.compiling import manifest_text
from etc_policy.cli.opening import open_project
from etc_policy.cli.options import Flags, common_options, examples, require_one_form, trust_options
from etc_policy.cli.printing import say, text_width
from etc_policy.cli.terminal import print_data, print_json, print_text
from etc_policy.policy.manifest import Policy
from etc_policy.policy.writers import FORMS, FormName
from etc_policy.table.formats import count_of, rows_of


@click.command(
    "compile",
    epilog=examples(
        "etc compile",
        "etc compile --output json | jq '.policies[].table'",
        'etc compile --select "orders_ro payments_ro" --target-dir build',
        "etc compile --select orders_ro --form tblproperties > orders.sql",
        "etc compile --select orders_ro --explain",
    ),
)
@click.option(
    "--form",
    metavar="FORM",
    type=click.Choice(get_args(FormName)),
    help=f"Print the writers' options to stdout as {', '.join(get_args(FormName))}.",
)
@click.option(
    "--explain", is_flag=True, help="Print the resolved values of each policy, and from which line each came."
)
@trust_options
@common_options
def command(flags: Flags, form: FormName | None, explain: bool) -> None:
    """Write the manifest and the writers' options.

    The manifest (target/manifest.json) is every policy with its defaults filled in. For each table the options that its
    writers need go to target/writers/, one file for each kind of writer; those of policies that are gone are removed. The
    resolved values of each policy, with the line of each, go to target/compiled/.
    """
    require_one_form(flags, form=form, explain=explain)
    if form is not None and explain:
        raise click.UsageError("`--form` and `--explain` exclude each other: leave one of them out")
    with open_project(flags, looks_up=False) as project:
        manifest = project.compile(*flags.terms)
        policies = project.policies(*flags.terms)
        if explain:
            print_text("\n".join(project.explain(*flags.terms)), newline=False)
            return
        text = project.writer_form(form, *flags.terms) if form is not None else ""
    if form is not None:
        print_data(text)
    elif flags.output == "json":
        print_json(manifest_text(manifest).rstrip("\n"))
    else:
        say("\n".join(_summary(flags.target_dir, len(manifest.policies), policies)))


def _summary(folder: Path, total: int, policies: tuple[Policy, ...]) -> Iterator[str]:
    yield f"{folder / 'manifest.json'}  {count_of(total, 'policy')}"
    if not policies:
        yield f"{folder / 'writers'}/  no options for writers"
        return
    yield f"{folder / 'writers'}/  options for the writers of {count_of(len(policies), 'table')}:"
    name = policies[0].name if len(policies) == 1 else "NAME"
    yield rows_of([(f"  {name}{kind.suffix}", kind.use) for kind in FORMS.values()], text_width())
