"""`etc ls`: the policies that a selection means."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable

import click

from etc_policy.cli.opening import open_project
from etc_policy.cli.options import PROJECT_OPTIONS, SELECT_OPTIONS, Flags, examples, shared_options, trust_options
from etc_policy.cli.printing import from_here, say, text_width
from etc_policy.cli.terminal import print_json, print_text
from etc_policy.errors.plain_text import one_line
from etc_policy.policy.manifest import Manifest, Policy
from etc_policy.table.formats import aligned, format_duration, table_lines, with_place

_output_option = click.option(
    "--output",
    type=click.Choice(["text", "json", "names"]),
    default="text",
    show_default=True,
    help="Form of what is printed to stdout.",
)


@click.command(
    "ls",
    epilog=examples(
        "etc ls",
        'etc ls --select "tag:hourly path:policies/sales" --exclude "*_test"',
        "etc ls --select tag:hourly,strategy:file_slice --output names",
        "etc ls --select state:modified --state main/target --output json",
    ),
)
@trust_options
@shared_options(*PROJECT_OPTIONS, *SELECT_OPTIONS, _output_option)
def command(flags: Flags) -> None:
    """List policies.

    A selection has terms: a name, a glob such as `orders_*`, `tag:hourly`, `path:policies/sales`,
    `strategy:file_slice`, `state:modified`, `state:new` against an earlier manifest, `result:error`, `result:refused` of
    the last `etc apply`, or `freshness:error`, `freshness:warn` of the last `etc freshness`. Spaces join terms into a
    union, commas into an intersection. Every command that takes --select takes these. Where a policy has
    `tables`, each table that is found is listed with what found it, then those with no policy or refused, with the reason.
    """
    with open_project(flags) as project:
        manifest, policies, left_out = project.manifest(), project.policies(*flags.terms), project.left_out()
    if flags.output == "json":
        without = [{"table": table, "reason": reason} for table, reason in left_out.items()]
        answer = {"schema_version": 1, "policies": [_fields(policy) for policy in policies], "left_out": without}
        print_json(json.dumps(answer, indent=2))
    elif flags.output == "names":
        for policy in policies:
            print_text(policy.name)
    else:
        for line in list_policies(manifest, policies):
            say(line)
        for table, reason in left_out.items():
            say(f"left out: {one_line(from_here(with_place(table, reason, '  ')))}")


def _fields(policy: Policy) -> dict[str, object]:
    return {
        "policy": policy.name,
        "table": policy.table,
        "strategy": policy.strategy.type,
        "granularity": policy.strategy.granularity,
        "data_latency_ms": policy.data_latency_ms,
        "freshness_target_ms": policy.freshness.target_ms,
        "tags": list(policy.tags),
        "source": policy.source,
        "found_by": policy.found_by,
        "fingerprint": policy.fingerprint,
    }


def _latency(policy: Policy) -> str:
    learned = policy.learned_latency
    least = f"{format_duration(learned.at_least_ms)}.." if learned else ""
    return f"{least}{format_duration(policy.longest_latency_ms)}"


def list_policies(manifest: Manifest, policies: tuple[Policy, ...]) -> Iterable[str]:
    """A line for each policy below one with the names of the columns, folded where a terminal is too narrow; none without any."""
    if not policies:
        return ()
    is_found = any(policy.found_by for policy in policies)
    rows = [("policy", "table", "latency", "target", "granularity", "tags", *(("from",) if is_found else ()))]
    root = f"{manifest.table_root}/" if manifest.table_root else ""
    for policy in policies:
        target = policy.freshness.target_ms
        rows.append(
            (
                policy.name,
                from_here(policy.table.removeprefix(root)),
                _latency(policy),
                format_duration(target) if target is not None else "-",
                policy.strategy.type if policy.is_stock else policy.strategy.granularity,
                " ".join(policy.tags),
                *((policy.found_by or policy.source or "",) if is_found else ()),
            )
        )
    lines = [*aligned(rows, left=len(rows[0]))]
    is_wide = sys.stdout.isatty() and max(map(len, lines)) > text_width()
    return table_lines([("", *rows[0][1:]), *rows[1:]], text_width()) if is_wide else lines
