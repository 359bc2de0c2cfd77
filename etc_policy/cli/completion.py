"""`etc completion`: what a shell needs to complete commands, options and policies."""

from __future__ import annotations

import click

from etc_policy.cli.messages import message_options
from etc_policy.cli.options import examples
from etc_policy.cli.terminal import print_data

_VARIABLE = "_ETC_COMPLETE"


@click.command(
    "completion",
    epilog=examples(
        'eval "$(etc completion bash)"      # in ~/.bashrc',
        'eval "$(etc completion zsh)"       # in ~/.zshrc',
        "etc completion fish > ~/.config/fish/completions/etc.fish",
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@message_options
def command(shell: str) -> None:
    """Completion for bash, zsh and fish.

    Prints the shell's script to stdout. Commands and options are completed, and for `--select`, `--exclude` and `wait`
    the policies of the project.
    """
    from click.shell_completion import get_completion_class

    from etc_policy.cli.main import cli

    completion = get_completion_class(shell)
    if completion is None:  # click knows all three
        raise click.UsageError(f"no completion for {shell}")
    print_data(completion(cli, {}, "etc", _VARIABLE).source() + "\n")
