"""`etc explain`: what a code in an error means at length."""

from __future__ import annotations

import click

from etc_policy.cli.messages import message_options
from etc_policy.cli.options import examples
from etc_policy.cli.printing import say, text_width
from etc_policy.cli.terminal import print_text
from etc_policy.errors import UsageError
from etc_policy.errors.codes import Code, explain
from etc_policy.policy.suggestions import did_you_mean
from etc_policy.table.formats import fold


@click.command(
    "explain",
    short_help="What the code of an error means",
    epilog=examples("etc explain ETC102", "etc explain pending_service", "etc explain   # all codes"),
)
@click.argument("code", required=False)
@message_options
def command(code: str | None) -> None:
    """What the code of an error means, or the word of a refusal.

    The word is the one in brackets behind "cannot be compacted now". Without CODE all codes are listed.
    """
    if code is None:
        for known in Code:
            print_text(f"{known}  {known.summary}")
        return
    summary, _, paragraph = meaning_of(code).partition("\n\n")
    say(f"{summary}\n\n{fold(paragraph, text_width())}")


def meaning_of(code: str) -> str:
    """What a code or the word of a refusal means, a summary first.

    Raises:
        UsageError: it is neither.

    """
    text = explain(code)
    if text is None:
        from etc_policy.plan.rules import explain_refusal, refusal_words

        text = explain_refusal(code)
    if text is None:
        hint = did_you_mean(code, refusal_words()) or "`etc explain` lists all codes"
        raise UsageError(Code.USAGE, f"there is no code `{code[:60]}`", hint=hint)
    return text
