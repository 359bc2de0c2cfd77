"""The entry point: finds the command, and is the only place that prints errors and sets the exit code.

A command returns its ExitCode, or None for done. Nothing heavy is imported before a command is chosen.
"""

from __future__ import annotations

import errno
import gc
import importlib
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any, ParamSpec

import click

from etc_policy.cli.messages import (
    SETTINGS,
    configure,
    message_options,
    show_error,
    show_issues,
    show_note,
    show_text,
    stack_of,
    unexpected_text,
)
from etc_policy.cli.terminal import end_messages, is_lost_output, prepare_streams, print_data
from etc_policy.errors import EtcError, ExitCode, Issue, UsageError, is_panic
from etc_policy.errors.codes import Code

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

P = ParamSpec("P")

#: The entry points of commands that are no part of the core.
INTEGRATED = "etc_policy.commands"
#: Every command: where it is (None: an entry point of its name says), and its line in `etc --help` (a test holds the two equal).
COMMANDS: dict[str, tuple[str | None, str]] = {
    "init": ("etc_policy.cli.init:command", "Start a project with one commented policy"),
    "import": ("etc_policy.cli.tables:import_", "Write policies for tables that exist"),
    "parse": ("etc_policy.cli.parse:command", "Check the project's files"),
    "compile": ("etc_policy.cli.compile:command", "Write the manifest and the writers' options"),
    "ls": ("etc_policy.cli.ls:command", "List policies"),
    "explain": ("etc_policy.cli.explain:command", "What a code, a refusal's word or a key means, and pages"),
    "plan": ("etc_policy.cli.tables:plan", "Show what would be compacted, and save it"),
    "apply": ("etc_policy.cli.apply:command", "Carry out a plan, then verify"),
    "retry": ("etc_policy.cli.tables:retry", "Apply again what failed or was refused"),
    "run": ("etc_policy.cli.run:command", "Apply again and again, in one process"),
    "verify": ("etc_policy.cli.tables:verify", "Prove what the read-optimized view holds"),
    "freshness": ("etc_policy.cli.tables:freshness", "Show how far each table is complete, without Spark"),
    "wait": ("etc_policy.cli.tables:wait", "Wait until RO is complete up to a time, or a partition is done"),
    "metrics": ("etc_policy.cli.metrics:command", "Metrics for Prometheus, with rules and a dashboard"),
    "simulate": ("etc_policy.cli.tables:simulate", "Replay a table's past under other settings"),
    "history": ("etc_policy.cli.tables:history", "Show the compactions of a table and their checks"),
    "cuts": ("etc_policy.cli.tables:cuts", "List past cuts of tables with the SQL that reads them"),
    "debug": ("etc_policy.cli.tables:debug", "Check the machine, the project and the tables"),
    "cache": ("etc_policy.cli.cache:command", "What etc keeps in your home, and how to clear it"),
    "mcp": (None, "Answer an assistant by MCP, read-only"),
    "completion": ("etc_policy.cli.completion:command", "Completion for bash, zsh and fish"),
    "schema": ("etc_policy.cli.schema:command", "JSON Schemas of policy files and of what etc writes"),
    "docs": ("etc_policy.cli.docs:command", "A site over all tables, from their own commits"),
    "sync": ("etc_policy.cli.tables:sync", "Record in the catalog how far each RO table is complete"),
    "undo": ("etc_policy.cli.tables:undo", "Withdraw a published plan that has not completed"),
    "finish": ("etc_policy.cli.tables:finish", "Run compactions that others have scheduled and not carried out"),
    "forget": ("etc_policy.cli.tables:forget", "Remove etc's own files from a table"),
    "demo": ("etc_policy.cli.demo:command", "Build a real table from flight data and run the whole way"),
}


INTERRUPTED = 130

_EXIT_CODES = """\b
Exit codes:
  0  done                             3   engine or IO
  1  a policy or a verdict failed     4   a retry may help
  2  changes that are only shown      64  usage

\b
Examples:
  etc init warehouse
  etc plan --project-dir warehouse
  etc apply --help
"""


def _imported(name: str) -> ModuleType:
    """The module. What an import makes stays for good, so that nobody looks for garbage in it: not now, and not later."""
    if name in sys.modules or not gc.isenabled():
        return importlib.import_module(name)
    gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        gc.freeze()
        gc.enable()


def load_command(name: str) -> click.Command:
    """The command of this name, imported now.

    Raises:
        UsageError: the installed package does not register it.

    """
    module, attribute = (COMMANDS[name][0] or _registered(name)).split(":")
    command: click.Command = getattr(_imported(module), attribute)
    return command


def _registered(name: str) -> str:
    from importlib.metadata import entry_points

    for point in entry_points(group=INTEGRATED, name=name):
        return point.value
    hint = "install the package etc-policy again: what it registers is of another version, or is missing"
    raise UsageError(Code.USAGE, f"this installation has no command `{name}`", hint=hint)


class _PastClickError(Exception):
    """Takes its cause past click."""


@contextmanager
def _past_click() -> Iterator[None]:
    """Take past click what it would end the process for, with exit code 1, and where it would print an empty line."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise _PastClickError from error
        raise
    except KeyboardInterrupt as error:
        if SETTINGS.json:
            raise _PastClickError from error
        raise


class LazyGroup(click.Group):
    """A group that imports a command only when it is run; help and completion come from the registry."""

    def make_context(self, *given: Any, **extra: Any) -> click.Context:  # noqa: ANN401 - click's own
        """The context of the arguments; `--help` and `--version` are printed here."""
        with _past_click():
            return super().make_context(*given, **extra)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's own
        """Run the command."""
        with _past_click():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names in the order of work."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now; None for an unknown name."""
        return load_command(cmd_name) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, from the registry alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of the first argument; an unknown one is a usage error that names the nearest."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            close = get_close_matches(args[0], COMMANDS, n=1)
            hint = f"did you mean `{close[0]}`?" if close else f"the commands are {', '.join(COMMANDS)}"
            raise UsageError(Code.USAGE, f"there is no command `{args[0][:60]}`", hint=hint)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names that begin with what is typed; no command is imported."""
        from click.shell_completion import CompletionItem

        names = [name for name in COMMANDS if name.startswith(incomplete)]
        found = [CompletionItem(name, help=COMMANDS[name][1]) for name in names]
        return found + click.Command.shell_complete(self, ctx, incomplete)


def _show_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Print release and commit, and end."""
    if wanted and not context.resilient_parsing:
        from etc_policy.cli.version import version_line

        print_data(f"{version_line()}\n")
        context.exit()


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=_EXIT_CODES,
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
@message_options
@click.pass_context
def cli(context: click.Context) -> int | None:
    """Event-time-based compaction for Apache Hudi, declared in YAML.

    Policies are files under policies/; `etc init` starts a project. RO is the read-optimized view of a merge-on-read
    table (base files alone), RT the snapshot view. Data goes to stdout, all else to stderr.
    """
    if context.invoked_subcommand is not None:
        return None
    show_text(context.get_help())
    return ExitCode.USAGE


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `etc` and returns its exit code; errors are printed to stderr."""
    if arguments is None:
        _name_all_files(os.environ)
    given = list(sys.argv[1:] if arguments is None else arguments)
    prepare_streams()
    configure(given, os.environ)
    code = guarded(_run, given)
    end_messages()
    if arguments is None:
        end_beside_requests(code)
    return code


def _name_all_files(environ: Mapping[str, str]) -> None:
    """Begin again in Python's UTF-8 mode where the locale has no bytes for some names of files, such as ASCII."""
    if sys.getfilesystemencoding() != "utf-8" and environ.get("PYTHONUTF8") != "1":
        os.execve(sys.executable, sys.orig_argv, {**environ, "PYTHONUTF8": "1"})  # noqa: S606 - itself


def end_beside_requests(code: int) -> None:
    """End the process at once where a request to a store is left, which else aborts (facts: hdfs-abort-at-exit)."""
    if threading.active_count() == 1:
        return
    if (listings := sys.modules.get("etc_policy.storage.listings")) is not None:
        listings.end_listings()
    from etc_policy.storage.port import REQUEST_THREAD

    if any(thread.name == REQUEST_THREAD for thread in threading.enumerate()):
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def guarded(work: Callable[P, int], *args: P.args, **named: P.kwargs) -> int:
    """The exit code of some work; what it raises is printed to stderr. A reader of stdout that has gone changes no code."""
    code: int = ExitCode.DONE
    try:
        code = work(*args, **named)
        sys.stdout.flush()
    except EtcError as error:  # some are OSErrors too
        show_error(error)
        code = error.exit_code
    except OSError as error:
        if not is_lost_output(error):
            code = _print_unexpected(error)
        elif not isinstance(error, BrokenPipeError):
            code = _print_lost_output(error)
    except KeyboardInterrupt:
        show_note("interrupted")
        code = INTERRUPTED
    except BaseException as error:  # the last line of defence: one line for the reader, the stack on request
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        code = _print_unexpected(error)
    return int(code)


def _run(arguments: list[str]) -> int:
    try:
        result = cli.main(arguments, prog_name="etc", standalone_mode=False)
    except _PastClickError as error:
        raise error.__cause__ or error from None
    except click.UsageError as error:
        if error.ctx is not None and error.message == error.ctx.get_help():  # a group without a command
            show_text(error.message)
            return ExitCode.USAGE
        raise _usage_error(error) from error
    except click.Abort as error:
        raise KeyboardInterrupt from error
    return result if isinstance(result, int) else ExitCode.DONE


def _usage_error(error: click.UsageError) -> UsageError:
    """Click's message in our form: no capital, no full stop, backticks round what was typed; its guess is the hint."""
    close = getattr(error, "possibilities", None)
    text = " ".join((str(error.message) if close else error.format_message()).split()).removesuffix(".")
    if isinstance(error, click.NoSuchOption):  # before 8.4 click words it otherwise
        text = f"no such option '{error.option_name}'"
    message = re.sub(r"(?<!\w)'([^']+)'(?!\w)", r"`\1`", text[:1].lower() + text[1:])
    command = error.ctx.command_path if error.ctx else "etc"
    hint = f"did you mean `{close[0]}`?" if close else f"run `{command} --help`"
    return UsageError(Code.USAGE, message, hint=_other_form(error) or hint)


def _other_form(error: click.UsageError) -> str | None:
    """How the command takes what was said in the form of another one."""
    parameters = error.ctx.command.params if error.ctx else []
    options = {option for one in parameters for option in one.opts}
    said = getattr(error, "option_name", None)
    if said == "--json" and "--output" in options:
        return "`--output json` prints JSON"
    if said in ("--select", "-s") and error.ctx and options & {"name", "names"}:
        return f"here a policy is named without it: `{error.ctx.command_path} NAME`"
    is_name = error.message.startswith("Got unexpected extra argument") and "--select" in options
    return "policies are named by `--select NAME`, several by `--select A --select B`" if is_name else None


def _print_lost_output(error: OSError) -> int:
    hint = "name a file that can be written, or make room on its disk"
    message = "cannot write to standard output"
    show_issues([Issue(Code.CANNOT_PRINT, message, hint=hint)], cause=error.strerror)
    return ExitCode.ENGINE


def _print_unexpected(error: BaseException) -> int:
    hint = None if SETTINGS.debug else "run again with `--debug` for the stack, and report it"
    show_issues([Issue(Code.UNEXPECTED, unexpected_text(error), hint=hint)], stack=stack_of(error))
    return ExitCode.ENGINE


if __name__ == "__main__":
    sys.exit(main())
