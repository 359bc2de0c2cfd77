"""`etc explain`: what a code in an error, the word of a refusal or a key of a policy means."""

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
    short_help="What an error's code, a refusal's word or a key means",
    epilog=examples(
        "etc explain ETC102",
        "etc explain pending_service",
        "etc explain strategy.granularity",
        "etc explain   # all codes",
    ),
)
@click.argument("word", required=False)
@message_options
def command(word: str | None) -> None:
    """What the code of an error means, the word of a refusal, or a key of a policy or project file.

    The word of a refusal is the one in brackets behind "cannot be compacted now". Without WORD all codes are listed.
    """
    if word is None:
        for known in Code:
            print_text(f"{known}  {known.summary}")
        return
    summary, *paragraphs = meaning_of(word).split("\n\n")
    say("\n\n".join([summary, *(fold(paragraph, text_width()) for paragraph in paragraphs)]))


def meaning_of(word: str) -> str:
    """What a code, the word of a refusal or a key means, a summary first.

    Raises:
        UsageError: nothing has that name.

    """
    text = explain(word)
    if text is None:
        from etc_policy.plan.rules import explain_refusal, refusal_words

        text = explain_refusal(word)
    if text is None:
        from etc_policy.report.schemas import explain_key, keys

        text = explain_key(word)
    if text is None:
        hint = did_you_mean(word, [*refusal_words(), *keys()]) or "`etc explain` lists all codes"
        raise UsageError(Code.USAGE, f"there is no code or key `{word[:60]}`", hint=hint)
    return text
