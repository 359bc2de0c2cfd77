"""The options that every command has after its name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from etc_policy.errors import UsageError

if TYPE_CHECKING:
    from etc_policy.compile.manifest import Manifest, Policy

Function = TypeVar("Function", bound=Callable[..., Any])

#: Codes of the command line: ETC001 usage, ETC002 unknown policy, ETC003 cannot write, ETC004 exists,
#: ETC005 unknown target, ETC009 unexpected.
UNKNOWN_POLICY = "ETC002"
WRITE_CODE = "ETC003"

debug_option = click.option("--debug", is_flag=True, expose_value=False, help="Show the stack of an error.")
output_option = click.option(
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Form of what is printed to stdout.",
)
select_option = click.option(
    "--select",
    multiple=True,
    metavar="NAME...",
    callback=lambda _context, _parameter, values: split_names(values),
    help="Only these policies: repeat it, or give several names in one, by space or comma.  [default: all]",
)
_project_dir_option = click.option(
    "--project-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=".",
    show_default="this folder",
    is_eager=True,
    help="The project: the folder that holds policies/.",
)
_TARGET_KEY = "etc_policy.target"
_target_option = click.option(
    "--target",
    metavar="NAME",
    envvar="ETC_TARGET",
    expose_value=False,
    callback=lambda context, _parameter, value: context.meta.update({_TARGET_KEY: value}),
    help="The target of the profile in etc_project.yml; ETC_TARGET says the same.  [default: the profile's]",
)


def project_dir_option(function: Function) -> Function:
    """Adds `project_dir` (a path) and `--target`, which `target_name` tells to whoever reads the project."""
    return _project_dir_option(_target_option(function))


def target_name() -> str | None:
    """What `--target` or ETC_TARGET says to the command that runs, None where neither does."""
    context = click.get_current_context(silent=True)
    name = context.meta.get(_TARGET_KEY) if context else None
    return name or None


target_dir_option = click.option(
    "--target-dir",
    type=click.Path(file_okay=False, path_type=Path),
    callback=lambda context, _parameter, value: value or context.params["project_dir"] / "target",
    show_default="target/ in the project",
    help="Where files are written.",
)

metadata_only_option = click.option(
    "--metadata-only",
    is_flag=True,
    help="Read no log files: event times that the commits do not tell stay unknown.",
)


def common_options(function: Function) -> Function:
    """Adds `project_dir`, `target_dir` (paths), `select` (a tuple of names), `output` (`text` or `json`), `--debug`."""
    options = (project_dir_option, target_dir_option, select_option, output_option, debug_option)
    for option in reversed(options):
        function = option(function)
    return function


def examples(*lines: str) -> str:
    """The examples of a command's help, one a line, as its `epilog`."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def split_names(values: Sequence[str]) -> tuple[str, ...]:
    """The names in the values of `--select`, each once, in the order given."""
    names = (name for value in values for name in re.split(r"[,\s]+", value) if name)
    return tuple(dict.fromkeys(names))


def select_policies(manifest: Manifest, names: Sequence[str]) -> tuple[Policy, ...]:
    """The policies named, in the manifest's order; without names every enabled one.

    Raises:
        UsageError: there is no policy of a name, or it is disabled.

    """
    if not names:
        return tuple(policy for policy in manifest.policies if policy.enabled)
    known = {policy.name: policy for policy in manifest.policies}
    for name in names:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"did you mean `{close[0]}`?" if close else f"the policies are {', '.join(known) or 'none'}"
            raise UsageError(UNKNOWN_POLICY, f"there is no policy `{name[:60]}`", hint=hint)
        if not known[name].enabled:
            hint = f"set `enabled: true` at {known[name].source}"
            raise UsageError(UNKNOWN_POLICY, f"the policy `{name}` is disabled", hint=hint)
    return tuple(policy for policy in manifest.policies if policy.name in names)
