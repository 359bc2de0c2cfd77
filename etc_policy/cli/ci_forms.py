"""`--junit-xml`, `--github`, `--summary`: what a command found, in the forms that CI systems show."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from etc_policy.api.each_table import errors_of
from etc_policy.cli.messages import SETTINGS
from etc_policy.cli.terminal import print_data
from etc_policy.cli.value_types import FILE
from etc_policy.errors import EngineError, EtcError, ExitCode, Issue, SeveralErrors, UsageError, worst
from etc_policy.errors.codes import Code

if TYPE_CHECKING:
    from etc_policy.policy.manifest import Policy

_KEY = "etc_policy.checks"
_FORMS = "etc_policy.ci_forms"
_PLAN = "plan.json"
#: The files that commands keep in the target folder.
_KEPT = ("manifest.json", _PLAN, "freshness.json", "run_results.json")


def _keep(context: click.Context, parameter: click.Parameter, value: object) -> None:
    context.meta.setdefault(_FORMS, {})[parameter.name] = value


def _forms() -> list[click.Option]:
    file = FILE
    kept: dict[str, Any] = {"expose_value": False, "callback": _keep}
    return [
        click.Option(["--junit-xml"], type=file, metavar="FILE", help="Write the checks as JUnit XML.", **kept),
        click.Option(["--summary"], type=file, metavar="FILE", help="Append the checks to FILE as Markdown.", **kept),
        click.Option(
            ["--github"],
            is_flag=True,
            help="Annotate the policies' lines, and append the summary to $GITHUB_STEP_SUMMARY.",
            **kept,
        ),
    ]


class CheckedCommand(click.Command):
    """A command whose checks, passed to `report_checks`, and whose errors are written in the forms that were asked for."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:  # noqa: ANN401 - click's own
        super().__init__(*arguments, **keywords)
        self.params += _forms()

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's own
        """Run the command, then write the forms; an error of the command is in them, and goes on.

        A form that cannot be written is one more error beside those.

        Raises:
            UsageError: annotations would stand among messages that are JSON.

        """
        if SETTINGS.json and ctx.meta.get(_FORMS, {}).get("github"):
            hint = "leave `--log-format` at text: GitHub reads the lines of `--github` between the messages"
            raise UsageError(Code.USAGE, "`--github` and `--log-format json` both write to stderr", hint=hint)
        checks: list[Issue] = ctx.meta.setdefault(_KEY, [])
        _require_own_files(ctx)
        try:
            result = super().invoke(ctx)
        except EtcError as error:
            unwritten = _write(ctx, checks, error.issues) if _asked(ctx) else ()
            if not unwritten:
                raise
            found = error.errors if isinstance(error, SeveralErrors) else (error,)
            raise SeveralErrors((*found, *unwritten), error.exit_code) from error
        if _asked(ctx) and (unwritten := _write(ctx, checks)):
            failed = [ExitCode.FAILED] if result == ExitCode.FAILED else ()
            raise SeveralErrors(unwritten, worst(failed, unwritten=unwritten))
        return result


def report_checks(checks: Iterable[Issue]) -> None:
    """Report what was checked; commands without the forms forget it, as one of them goes on for weeks."""
    context = click.get_current_context(silent=True)
    if context is not None and _KEY in context.meta:
        context.meta[_KEY].extend(checks)


def report_tables(report: Any, policies: Callable[[], Iterable[Policy]], *, strict: bool = False) -> None:  # noqa: ANN401
    """Report the checks of a report's tables, each at the place of its policy, where a form is asked for."""
    context = click.get_current_context(silent=True)
    if context is not None and _asked(context):
        from etc_policy.report.checks import checks_of

        report_checks(checks_of(report, {one.name: one.place for one in policies()}, strict=strict))


def _require_own_files(context: click.Context) -> None:
    """Return if each file that is named is another one, and none of those that etc keeps in the target folder.

    Raises:
        UsageError: one of them would overwrite the other.

    """
    asked, given = context.meta.get(_FORMS, {}), context.params
    named = {"PLAN_FILE": given.get("plan_file"), "--out": given.get("out")}
    named |= {"--junit-xml": asked.get("junit_xml"), "--summary": asked.get("summary")}
    require_own_ways(named.values(), given.get("untrusted"), given.get("project_dir"))
    taken: dict[str, str] = {}
    for option, path in named.items():
        if path is None or _takes_what_comes(path):
            continue
        other = taken.setdefault(os.path.realpath(path), option)
        if other != option:
            raise click.UsageError(
                f"`{other}` and `{option}` name one file, `{path}`: name another one for either", context
            )
    for kept in (given["target_dir"] / name for name in _KEPT):
        holder = taken.get(os.path.realpath(kept))
        if holder is not None and not (kept.name == _PLAN and holder in ("PLAN_FILE", "--out")):
            raise click.UsageError(f"`{holder}` names `{kept}`, which etc writes itself: name another file", context)


def require_own_ways(paths: Iterable[Path | None], untrusted: bool | None, project_dir: Path | None) -> None:
    """Return if no link that a stranger's files may have brought is on the way to what is written.

    Raises:
        UsageError: one is.

    """
    from etc_policy.api.workspace import are_untrusted, require_own_way

    for path in filter(None, paths if are_untrusted(untrusted) else ()):
        require_own_way(path, project_dir or Path())


def _takes_what_comes(path: Path) -> bool:
    """Whether it is a pipe or a device; what may not be looked at is left to who writes there."""
    with suppress(OSError):
        return path.exists() and not path.is_file()
    return False


def _asked(context: click.Context) -> bool:
    return any(context.meta.get(_FORMS, {}).values())


def _write(context: click.Context, found: list[Issue], errors: Sequence[Issue] = ()) -> tuple[EtcError, ...]:
    """Write the forms that were asked for, of checks and errors; the errors of those that cannot be."""
    from etc_policy.api.artifacts import append_named
    from etc_policy.report.checks import github_annotations, junit_xml, markdown_summary, with_errors

    checks = with_errors(found, errors)
    asked = context.meta[_FORMS]
    title, works = context.command_path, []
    if asked["junit_xml"]:
        works.append(partial(_write_junit, asked["junit_xml"], junit_xml(title, checks)))
    if asked["github"]:
        project = Path(context.params.get("project_dir") or ".")
        print_data(github_annotations(checks, partial(_path_in_repository, project)), err=True)
    github_file = os.environ.get("GITHUB_STEP_SUMMARY") if asked["github"] else None
    summary, files = markdown_summary(title, checks), filter(None, (asked["summary"], github_file))
    works += [partial(append_named, Path(path), summary, "--summary") for path in files]
    return errors_of(*works)


def _write_junit(path: Path, content: bytes) -> None:
    """Write the file in one step.

    Raises:
        EngineError: the file cannot be written.

    """
    from etc_policy.storage.files import write_named

    try:
        write_named(path, content)
    except (OSError, ValueError) as error:
        hint = "name another place by `--junit-xml`"
        raise EngineError(Code.CANNOT_WRITE_JUNIT, f"cannot write `{path}`", hint=hint, cause=str(error)) from error


def _path_in_repository(project_dir: Path, path: str) -> str:
    """A path, from here or from the project, as GitHub knows it: from the root of its repository in the work folder."""
    try:
        root = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd()).resolve()
        absolute = (Path(path) if Path(path).exists() else project_dir / path).resolve()
    except OSError:  # the current folder was removed
        return path
    if not absolute.is_relative_to(root):
        return path
    roots = (one for one in absolute.parents if one.is_relative_to(root) and (one / ".git").exists())
    return str(absolute.relative_to(next(roots, root)))
