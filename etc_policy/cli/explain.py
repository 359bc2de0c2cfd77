"""`etc explain`: what a code in an error, the word of a refusal or a key of a policy means, and the pages of documentation."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import click

from etc_policy.cli.messages import message_options
from etc_policy.cli.options import examples
from etc_policy.cli.printing import say, text_width
from etc_policy.cli.terminal import print_text
from etc_policy.errors import UsageError
from etc_policy.errors.codes import Code, explain
from etc_policy.policy.suggestions import did_you_mean
from etc_policy.table.formats import fold, rows_of

#: How a page begins, and the folders whose pages are meant first where a name is that of several files.
_TITLE, _FIRST_PAGES = "# ", ("how-to", "concepts", "reference")
#: A page that is another file.
_INCLUDE = re.compile(r"```\{include\} (\S+)")
#: What of a link to a page is not its name.
_OF_LINKS = re.compile(r"^(\.{1,2}/)*(docs/)?|\.md(#.*)?$|#.*$")
#: What begins a line of a page that is no prose, an item of a list, and a paragraph.
_NO_PROSE, _ITEM, _BEGIN = ("#", ":"), re.compile(r" *([-*]|\d+\.) "), re.compile(r" *(?:(?:[-*]|\d+\.) )?")
#: What parts the cells of a table's row.
_CELLS = re.compile(r"(?<!\\)\|")
_PACKAGE = Path(__file__).parents[1]
#: What pages name of the repository, and links to files that are no page.
_OF_REPOSITORY = re.compile(
    r"(?<![\w/.-])(?:python -m )?(?:(benchmarks|changelog\.d|dev|tests)(?:/\w|\.[a-z])|test_[a-z])"
)
_FILE_LINK = re.compile(r"\]\((?!https?:)[^)#]+(?<!\.md)[)]")


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
        print_text(_all_codes(text_width()))
        print_text("\nPages:")
        print_text(rows_of([*_titles()], text_width()))
        return
    text = meaning_of(word)
    if text.startswith(_TITLE):
        print_text("\n".join(_folded(text, text_width())).rstrip() if sys.stdout.isatty() else text)
        return
    summary, *paragraphs = text.split("\n\n")
    say("\n\n".join([summary, *(fold(paragraph, text_width()) for paragraph in paragraphs)]))


def _folded(page: str, width: int) -> Iterator[str]:
    """The lines of a page, its paragraphs and tables folded; code and what else is no prose stay as they are."""
    in_code, paragraph, table = False, "", list[str]()
    for line in [*page.split("\n"), ""]:
        if not in_code and line.lstrip().startswith("|"):
            table.append(line)
            continue
        yield from _folded_table(table, width)
        table.clear()
        in_code ^= (is_fence := line.lstrip().startswith("```"))
        is_prose = bool(line.strip()) and not (in_code or is_fence or line.lstrip().startswith(_NO_PROSE))
        if paragraph and (not is_prose or _ITEM.match(line)):
            hanging = " " * len(_BEGIN.match(paragraph)[0])  # type: ignore[index]  # it matches any text
            yield from textwrap.wrap(
                paragraph, width, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False
            )
            paragraph = ""
        if is_prose:
            paragraph = f"{paragraph} {line.strip()}" if paragraph else line
        else:
            yield line


def _folded_table(lines: list[str], width: int) -> Iterator[str]:
    """A table as it is, where it is not too wide; else each row's cells below the first, behind the heads of their columns."""
    if all(len(line) <= width for line in lines):
        yield from lines
        return
    heads, _, *rows = ([cell.strip() for cell in _CELLS.split(line.strip())[1:-1]] for line in lines)
    for name, *cells in rows:
        below = zip_longest(heads[1:], cells, fillvalue="")
        said = [name, *(f"  {head}: {cell}" if head else f"  {cell}" for head, cell in below)]
        for one in said:
            indent = " " * (2 + len(one) - len(one.lstrip()))
            yield from textwrap.wrap(
                one, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
            )


def _titles() -> Iterator[tuple[str, str]]:
    """The names of pages on how to do something and why, with their titles."""
    from etc_policy.report.schemas import explain_key

    for name, path in sorted(pages().items()):
        is_short = "/" not in name and path.stem not in ("index", "README")
        if is_short and path.parent.name in ("how-to", "concepts", "docs"):
            title = _text_of(path).partition("\n")[0].removeprefix(_TITLE)
            yield name if explain_key(name) is None else _long_name(path), title


def meaning_of(word: str) -> str:
    """What a code, the word of a refusal or a key means, a summary first; else the page of that name.

    Raises:
        UsageError: nothing has that name.

    """
    text, found = explain(word), pages()
    page = found.get(_OF_LINKS.sub("", word))
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
        return f"{_text_of(page).rstrip()}{_made_for(_long_name(page))}{_not_here(page)}"
    return f"{text}\n\n`etc explain {_long_name(page)}` prints the page of this name."


def _made_for(page: str) -> str:
    """What the site shows at the end of a page, made from the code, as lines of text; empty where it is nothing."""
    if page == "how-to/refused":
        return f"\n\n{_all_refusals()}"
    if page == "reference/errors":
        return f"\n\n{_all_codes(text_width())}"
    if page == "docs/reference":
        from etc_policy.report.schemas import keys

        return f"\n\nAll keys: {', '.join(sorted(set(keys())))}."
    if page == "reference/bundles":
        return f"\n\n{_all_results()}"
    return ""


def _not_here(page: Path) -> str:
    """Where the files are that a page links, and which of those that it names an installation lacks; a clone has all."""
    if not page.is_relative_to(_PACKAGE):
        return ""
    text, folder = _text_of(page), page.parent
    lacking = sorted({f"`{name or 'tests'}`" for name in _OF_REPOSITORY.findall(text)})
    said = [f"Links to files begin in {folder}."] if _FILE_LINK.search(text) else []
    said += [f"An installation lacks {' and '.join(lacking)}: etc's repository has them."] if lacking else []
    return "".join(f"\n\n{sentence}" for sentence in said)


def _all_codes(width: int) -> str:
    return rows_of([(known, known.summary) for known in sorted(Code)], width)


def _all_refusals() -> str:
    from etc_policy.plan.rules import RULES

    return "\n".join(f"{rule.code:<24}  {rule.means.partition('. ')[0].rstrip('.')}." for rule in RULES if rule.means)


def _all_results() -> str:
    from etc_policy.plan.bundles import results

    return "\n".join(
        f"{merging}: {', '.join(f'{verdict} by {release}' for release, verdict in by_release.items())}"
        for merging, by_release in results().items()
    )


def _long_name(page: Path) -> str:
    """The name of a page that no key has."""
    return f"{page.parent.name}/{page.stem}"


def _text_of(page: Path) -> str:
    text = page.read_text("utf-8")
    included = _INCLUDE.match(text)
    return (page.parent / included[1]).read_text("utf-8") if included else text


def pages() -> dict[str, Path]:
    """The pages of documentation by the names that they have in `etc explain`: `locks`, `how-to/locks`, `facts/zones`.

    The short one is that of the first folder that has such a page; `docs/` may begin each.
    """
    root = next(
        (folder for folder in (_PACKAGE / "docs", _PACKAGE.parent / "docs") if folder.is_dir()), _PACKAGE / "docs"
    )
    files = {str(path.relative_to(root).with_suffix("")): path for path in sorted(root.rglob("*.md"))}
    ranked = sorted(files, key=_page_rank)
    return {name.rpartition("/")[2]: files[name] for name in reversed(ranked)} | files


def _page_rank(name: str) -> tuple[int, str]:
    folder = name.rpartition("/")[0]
    return (_FIRST_PAGES.index(folder) if folder in _FIRST_PAGES else len(_FIRST_PAGES) + bool(folder), name)
