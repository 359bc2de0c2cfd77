"""The options that many commands share: each is declared once, and a command gets their values as one `Flags`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import Any

import click

from etc_policy.cli.messages import message_options
from etc_policy.cli.value_types import FOLDER, PLACE
from etc_policy.policy.quantities import MAX_JOBS
from etc_policy.table.formats import MANY_TABLES


@dataclass(frozen=True, slots=True)
class Flags:
    """What the shared options say; one that a command does not have is as if it were not given."""

    project_dir: Path = Path()
    target: str | None = None
    target_dir: Path = Path("target")
    variables: Mapping[str, Any] = field(default_factory=dict)
    select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    state: Path | None = None
    output: str = "text"
    at: datetime | None = None
    confs: Mapping[str, str] = field(default_factory=dict)
    metadata_only: bool = False
    jobs: int | None = None
    untrusted: bool | None = None
    allow: tuple[str, ...] = ()

    @property
    def terms(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What is selected and what is excluded, as every verb of `Project` takes it."""
        return self.select, self.exclude


_SHARED = frozenset(one.name for one in fields(Flags))

output_option = click.option(
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Form of what is printed to stdout.",
)


def complete_policies(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names of policies and `tag:` terms that begin with what is typed; nothing where the project has errors.

    No table is looked up: whoever presses the key has not said yet that the project's files may ask a server or start Spark.
    """
    from etc_policy.api.project import Project
    from etc_policy.errors import EtcError

    typed = incomplete.rpartition(" ")[2].rpartition(",")[2]
    before = incomplete.removesuffix(typed)
    try:
        given = {name: context.params[name] for name in ("untrusted", "allow") if context.params.get(name)}
        policies = Project(context.params.get("project_dir") or ".", looks_up=False, **given).policies()
    except EtcError:
        return []
    words = [policy.name for policy in policies] + sorted({f"tag:{tag}" for policy in policies for tag in policy.tags})
    return [before + word for word in words if word.startswith(typed)]


_select_option = click.option(
    "--select",
    "-s",
    multiple=True,
    metavar="TERM...",
    shell_complete=complete_policies,
    help="Only these policies: names, globs, tag:, path:, strategy:, state:, result:, freshness:; spaces unite, commas "
    "intersect (`etc ls --help`).  [default: all]",
)
_exclude_option = click.option(
    "--exclude",
    multiple=True,
    metavar="TERM...",
    shell_complete=complete_policies,
    help="All but these of the selected policies.",
)
_state_option = click.option(
    "--state",
    metavar="DIR",
    type=PLACE,
    envvar="ETC_STATE",
    help="Folder of the earlier manifest.json that `state:` compares with; ETC_STATE says the same.",
)
_project_dir_option = click.option(
    "--project-dir",
    type=FOLDER,
    default=".",
    is_eager=True,
    help="The project: the folder that holds policies/.  [default: this folder]",
)


def _named_target(_context: click.Context, _parameter: click.Parameter, name: str | None) -> str | None:
    if name == "":  # mostly a variable that is not set; the profile's default may be another lake
        raise click.BadParameter("the name is empty")
    return name


_target_option = click.option(
    "--target",
    metavar="NAME",
    callback=_named_target,
    envvar="ETC_TARGET",
    help="The target of the profile in etc_project.yml; ETC_TARGET says the same.  [default: the profile's]",
)


def _default_target_dir(context: click.Context) -> Path:
    from etc_policy.api.workspace import default_target_dir

    return default_target_dir(context.params["project_dir"])


_target_dir_option = click.option(
    "--target-dir",
    type=FOLDER,
    callback=lambda context, _parameter, value: value or _default_target_dir(context),
    help="Where files are written.  [default: target/ in the project]",
)


def _given_variables(_context: click.Context, _parameter: click.Parameter, text: str | None) -> Mapping[str, Any]:
    from etc_policy.errors import PolicyError
    from etc_policy.policy.scope import without_blank
    from etc_policy.policy.yaml_marks import load_marked

    if text is None:
        return {}
    try:
        found = load_marked(text, "--vars").value
    except PolicyError as error:
        raise click.BadParameter(error.issues[0].message) from error
    if not isinstance(found, dict):
        raise click.BadParameter(f"`{text[:60]}` is not a mapping such as `{{lake: /mnt/lake, days: 3}}`")
    for name in [name for name, value in found.items() if value is None]:
        hint = without_blank(name) or f"write a value behind it, such as `{name[:60]}: /mnt/lake`"
        raise click.BadParameter(f"the variable `{name[:60]}` has no value: {hint}")
    return found


_vars_option = click.option(
    "--vars",
    "variables",
    metavar="YAML",
    callback=_given_variables,
    help="Values for var('name') in the files, such as '{lake: /mnt/lake}'; they win. Not for secrets: compile shows them.",
)
_untrusted_option = click.option(
    "--untrusted",
    is_flag=True,
    default=None,
    help="The files may be a stranger's, as in a pull request: they run nothing, and reach what `--allow` names.  "
    "[default: as ETC_UNTRUSTED says]",
)
_allow_option = click.option(
    "--allow",
    multiple=True,
    metavar="NAME|PLACE",
    help="A variable, a table, a folder of tables or a store's URL that a stranger's files may reach; ETC_ALLOW has more.",
)
metadata_only_option = click.option(
    "--metadata-only",
    is_flag=True,
    help="Read no event times from log files: those that are not in the commits stay unknown.",
)
jobs_option = click.option(
    "--jobs",
    metavar="NUMBER",
    type=click.IntRange(1, MAX_JOBS),
    help="Work on so many tables at once.  [default: the target's]",
)


long_option = click.option(
    "--long", is_flag=True, help=f"Show each table's whole report, also of {MANY_TABLES} tables and more."
)


def _spark_confs(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not equals or not key.startswith("spark."):
            raise click.BadParameter(f"`{value}` is not of the form spark.key=value")
        pairs[key] = text
    return pairs


conf_option = click.option(
    "--conf",
    "confs",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_spark_confs,
    help="A Spark setting, as spark-submit takes it; may be repeated.",
)


Option = Callable[[Callable[..., Any]], Callable[..., Any]]


def trust_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--untrusted` and `--allow`; they stand above those of `shared_options`."""
    return _untrusted_option(_allow_option(function))


PROJECT_OPTIONS: tuple[Option, ...] = (_project_dir_option, _target_option, _vars_option, _target_dir_option)
SELECT_OPTIONS: tuple[Option, ...] = (_select_option, _exclude_option, _state_option)


def shared_options(*options: Option) -> Option:
    """Adds the options, in this order, and those of messages.

    The command gets all shared options that it has, also those declared above this, as `Flags`: its first argument.
    """

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def with_flags(**given: Any) -> Any:  # noqa: ANN401 - what click has parsed
            flags = Flags(**{name: given.pop(name) for name in _SHARED & given.keys()})
            return function(flags, **given)

        command: Callable[..., Any] = message_options(with_flags)
        for option in reversed(options):
            command = option(command)
        return command

    return add


def require_choice(flags: Flags, *names: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What is selected with the names that were given as arguments, and what is excluded.

    Raises:
        UsageError: nothing was chosen, for a command that does not take all policies by default.

    """
    from etc_policy.policy.selection import split_terms

    select = (*names, *flags.select)
    if not split_terms((*select, *flags.exclude)):
        raise click.UsageError("name a policy, or select some by `--select`")
    return select, flags.exclude


def require_one_form(flags: Flags, **given: object) -> None:
    """Return unless an option that decides what text is printed was given beside `--output json`.

    Raises:
        UsageError: one was; JSON has everything.

    """
    names = ", ".join(f"`--{name.replace('_', '-')}`" for name, value in given.items() if value)
    if names and flags.output == "json":
        raise click.UsageError(f"{names} and `--output json` exclude each other: leave one of them out")


common_options = shared_options(*PROJECT_OPTIONS, *SELECT_OPTIONS, output_option)


def examples(*lines: str) -> str:
    """The examples of a command's help, one a line, as its `epilog`."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
