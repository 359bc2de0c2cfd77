"""`etc explain`: what a code in an error, the word of a refusal or a key of a policy means, and the pages of documentation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from etc_policy.cli.messages import message_options
from etc_policy.cli.options import examples
from etc_policy.cli.printing import say, text_width
from etc_policy.cli.terminal import print_text
from etc_policy.errors import UsageError
from etc_policy.errors.codes import Code, explain
from etc_policy.policy.suggestions import did_you_mean
from etc_policy.table.formats import fold

#: How a page begins, and folders of pages that are named by their file's name alone.
_TITLE, _FIRST_PAGES = "# ", ("how-to", "concepts", "reference")
_PACKAGE = Path(__file__).parents[1]


@click.command(
    "explain",
    short_help="What a code, a refusal's word or a key means, and pages",
    epilog=examples(
        "etc explain ETC102",
        "etc explain pending_service",
        "etc explain strategy.granularity",
        "etc explain locks",
        "etc explain   # all codes and pages",
    ),
)
@click.argument("word", required=False)
@message_options
def command(word: str | None) -> None:
    """What the code of an error means, the word of a refusal, or a key of a policy or project file; or a page on how to do it.

    The word of a refusal is the one in brackets behind "cannot be compacted now". Without WORD all codes are listed, and
    the pages by their names.
    """
    if word is None:
        for known in Code:
            print_text(f"{known}  {known.summary}")
        print_text("\nPages:")
        for name, title in _titles():
            print_text(f"{name:<20}  {title}")
        return
    text = meaning_of(word)
    if text.startswith(_TITLE):
        print_text(text)
        return
    summary, *paragraphs = text.split("\n\n")
    say("\n\n".join([summary, *(fold(paragraph, text_width()) for paragraph in paragraphs)]))


def _titles() -> Iterator[tuple[str, str]]:
    """The names of pages on how to do something and why, with their titles."""
    for name, path in sorted(pages().items()):
        is_short = "/" not in name and path.stem not in ("index", "README")
        if is_short and path.parent.name in ("how-to", "concepts", "docs"):
            yield name, path.read_text("utf-8").partition("\n")[0].removeprefix(_TITLE)


def meaning_of(word: str) -> str:
    """What a code, the word of a refusal or a key means, a summary first; else the page of that name.

    Raises:
        UsageError: nothing has that name.

    """
    text, found = explain(word), pages()
    page = found.get(word.removeprefix("docs/").removesuffix(".md"))
    if text is None:
        from etc_policy.plan.rules import explain_refusal, refusal_words

        text = explain_refusal(word)
    if text is None:
        from etc_policy.report.schemas import explain_key, keys

        text = explain_key(word)
    if text is None and page is None:
        hint = did_you_mean(word, [*refusal_words(), *keys(), *found]) or "`etc explain` lists all codes and pages"
        raise UsageError(Code.USAGE, f"there is no code, key or page `{word[:60]}`", hint=hint)
    if page is None:
        return text or ""
    if text is None:
        return page.read_text("utf-8").rstrip()
    longer = next(name for name, path in found.items() if path == page and "/" in name)
    return f"{text}\n\n`etc explain {longer}` prints the page on it."


def pages() -> dict[str, Path]:
    """The pages of documentation by the names that they have in `etc explain`: `locks`, `how-to/locks`, `facts/locks`.

    The short one is that of the first folder that has such a page.
    """
    root = next(
        (folder for folder in (_PACKAGE / "docs", _PACKAGE.parent / "docs") if folder.is_dir()), _PACKAGE / "docs"
    )
    files = {str(path.relative_to(root).with_suffix("")): path for path in sorted(root.rglob("*.md"))}
    ranked = sorted(
        (name for name in files if name.partition("/")[0] in _FIRST_PAGES or "/" not in name), key=_page_rank
    )
    return {name.rpartition("/")[2]: files[name] for name in reversed(ranked)} | files


def _page_rank(name: str) -> tuple[int, str]:
    folder = name.partition("/")[0]
    return (_FIRST_PAGES.index(folder) if folder in _FIRST_PAGES else len(_FIRST_PAGES), name)
