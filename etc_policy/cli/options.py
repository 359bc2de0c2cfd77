"""The options that every command has after its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from etc_policy.cli.messages import tell
from etc_policy.codes.registry import Code
from etc_policy.errors import UsageError, Where

if TYPE_CHECKING:
    from etc_policy.compile.manifest import Manifest, Policy
    from etc_policy.compile.selection import Selection

Function = TypeVar("Function", bound=Callable[..., Any])

#: Codes of the command line: ETC001 usage, ETC002 unknown policy, ETC003 cannot write, ETC004 exists,
#: ETC005 unknown target, ETC006 bad selection, ETC007 no earlier manifest, ETC009 unexpected.

_MESSAGE_OPTIONS = (
    click.option(
        "--quiet", "-q", is_flag=True, expose_value=False, help="No progress, notes or warnings; errors only."
    ),
    click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        expose_value=False,
        help="Form of what goes to stderr; json is an object a line.  [default: text]",
    ),
    click.option("--debug", is_flag=True, expose_value=False, help="Show the stack of an error."),
)


def debug_option(function: Function) -> Function:
    """Adds `--quiet`, `--log-format` and `--debug`; `messages.configure` reads them from the bare arguments."""
    for option in reversed(_MESSAGE_OPTIONS):
        function = option(function)
    return function


output_option = click.option(
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Form of what is printed to stdout.",
)
_EXCLUDE_KEY, _STATE_KEY = "etc_policy.exclude", "etc_policy.state"
_select_option = click.option(
    "--select",
    "-s",
    multiple=True,
    metavar="TERM...",
    callback=lambda context, _parameter, values: _selection(context, values),
    shell_complete=lambda context, _parameter, incomplete: complete_policies(context, incomplete),
    help="Only these policies: names, globs, tag:, path:, strategy:, state:; spaces unite, commas intersect "
    "(`etc ls --help`).  [default: all]",
)
_exclude_option = click.option(
    "--exclude",
    multiple=True,
    metavar="TERM...",
    is_eager=True,
    expose_value=False,
    callback=lambda context, _parameter, values: context.meta.update({_EXCLUDE_KEY: values}),
    shell_complete=lambda context, _parameter, incomplete: complete_policies(context, incomplete),
    help="All but these of the selected policies.",
)
_state_option = click.option(
    "--state",
    metavar="DIR",
    type=click.Path(path_type=Path),
    envvar="ETC_STATE",
    is_eager=True,
    expose_value=False,
    callback=lambda context, _parameter, value: context.meta.update({_STATE_KEY: value}),
    help="Folder of the earlier manifest.json that `state:` compares with; ETC_STATE says the same.",
)


def select_options(function: Function) -> Function:
    """Adds `select` (a Selection), made of `--select`, `--exclude` and `--state`."""
    return _select_option(_exclude_option(_state_option(function)))


_project_dir_option = click.option(
    "--project-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=".",
    is_eager=True,
    help="The project: the folder that holds policies/.  [default: this folder]",
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
    help="Where files are written.  [default: target/ in the project]",
)

metadata_only_option = click.option(
    "--metadata-only",
    is_flag=True,
    help="Read no log files: event times that the commits do not tell stay unknown.",
)


def common_options(function: Function) -> Function:
    """Adds `project_dir`, `target_dir` (paths), `select` (a Selection), `output` (`text` or `json`), `--debug`."""
    options = (project_dir_option, target_dir_option, select_options, output_option, debug_option)
    for option in reversed(options):
        function = option(function)
    return function


def complete_policies(context: click.Context, incomplete: str) -> list[str]:
    """Names of policies and `tag:` terms that begin with what is typed; nothing where the project has errors."""
    from etc_policy.api.project import Project
    from etc_policy.errors import EtcError

    typed = incomplete.rpartition(" ")[2].rpartition(",")[2]
    before = incomplete.removesuffix(typed)
    try:
        policies = Project(context.params.get("project_dir") or ".").policies()
    except EtcError:
        return []
    words = [policy.name for policy in policies] + sorted({f"tag:{tag}" for policy in policies for tag in policy.tags})
    return [before + word for word in words if word.startswith(typed)]


def examples(*lines: str) -> str:
    """The examples of a command's help, one a line, as its `epilog`."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def select_policies(manifest: Manifest, selection: Selection | Sequence[str]) -> tuple[Policy, ...]:
    """The policies that are selected, in the manifest's order; says so on stderr when there are none.

    Raises:
        UsageError: a term that can mean nothing, or a policy that is named but disabled.

    """
    from etc_policy.compile import selection as selecting

    found = selecting.select_policies(manifest, selection)
    if not found:
        tell("no policy is selected" if manifest.policies else "the project has no policies")
    return found


def _selection(context: click.Context, values: Sequence[str]) -> Selection:
    from etc_policy.compile.selection import Selection, split_terms

    state: Path | None = context.meta.get(_STATE_KEY)
    earlier = _read_state(state) if state is not None else None
    return Selection(split_terms(values), split_terms(context.meta.get(_EXCLUDE_KEY) or ()), earlier)


def _read_state(path: Path) -> Manifest:
    """The earlier manifest, read before this run can overwrite it."""
    from pydantic import ValidationError

    from etc_policy.compile.manifest import MANIFEST_SCHEMA_VERSION, Manifest

    file = path / "manifest.json" if path.is_dir() else path
    try:
        manifest = Manifest.model_validate_json(file.read_bytes())
        if manifest.schema_version != MANIFEST_SCHEMA_VERSION:
            raise ValueError(manifest.schema_version)
    except OSError as error:
        hint = "make it with `etc compile --target-dir DIR`"
        message = f"cannot read the earlier manifest: {error.strerror}"
        raise UsageError(Code.BAD_STATE, message, where=Where(str(file)), hint=hint) from error
    except (ValueError, ValidationError) as error:
        hint = "make it again with `etc compile --target-dir DIR`"
        message = "this is no manifest of this version of etc"
        raise UsageError(Code.BAD_STATE, message, where=Where(str(file)), hint=hint) from error
    return manifest
