"""The documentation site: `make docs`. Sphinx with MyST, so that every page is Markdown that GitHub shows as well."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from pygments.lexers.templates import YamlJinjaLexer
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

sys.path.insert(0, str(Path(__file__).parents[1]))

from dev.made import MADE
from etc_policy import __version__

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "etc"
author = "the etc maintainers"
release = version = __version__

extensions = ["myst_parser"]
myst_heading_anchors = 4

html_theme = "pydata_sphinx_theme"
html_title = f"etc {release}"
html_show_sourcelink = False
html_copy_source = True  # `llms.txt` names them
#: Nothing is loaded from elsewhere, and nothing leads elsewhere but the pages' own links.
html_theme_options = {
    "logo": {"text": "etc"},
    "navbar_align": "left",
    "navigation_with_keys": False,
    "footer_start": [],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}


#: Pages whose tables explain a word in each row's first cell, with what such a word is.
INDEXED_TABLES = {
    "concepts/glossary": "",
    "reference": "key",
    "reference/commands": "command",
    "reference/options": "option",
}


class IndexOfWords(SphinxTransform):
    """Entries of the index, so that the pages themselves stay plain Markdown."""

    default_priority = 500  # before the domain of the index looks for entries

    def apply(self) -> None:
        """Put an entry before each word that the page explains."""
        for number, (place, word) in enumerate(self.words()):
            target = f"index-{number}"
            entry = addnodes.index(entries=[("single", word, target, "", None)])
            place.insert(0, nodes.target("", "", ids=[target]))
            place.insert(0, entry)

    def words(self) -> Iterator[tuple[nodes.Element, str]]:
        """Each explained word with the node that it stands in: rows of tables, and headings of error codes."""
        page = self.env.docname
        for row in self.document.findall(nodes.row) if page in INDEXED_TABLES else ():
            first = next(iter(row.findall(nodes.paragraph)), None)
            marked = first is not None and next(
                first.findall(lambda n: isinstance(n, nodes.literal | nodes.strong)), None
            )
            if first is not None and marked and not isinstance(row.parent, nodes.thead):
                kind = INDEXED_TABLES[page]
                word = marked.astext().split(" ")[0] if kind == "option" else marked.astext()
                yield first, f"{word} ({kind})" if kind else word
        for title in self.document.findall(nodes.title) if page == "reference/errors" else ():
            if re.fullmatch(r"ETC\d{3}", title.astext()):
                yield title, title.astext()


def add_what_is_made(app: Sphinx, page: str, source: list[str]) -> None:
    """End the page with what is made for it."""
    if page in MADE:
        source[0] += f"\n{MADE[page]()}"


def write_llms_txt(app: Sphinx, error: Exception | None) -> None:
    """List every page for assistants, as llmstxt.org says, by its title and its Markdown."""
    if error is not None or app.builder.name != "html":
        return
    about = next(app.env.get_doctree("index").findall(nodes.paragraph)).astext().replace("\n", " ")
    titles = {page: app.env.titles[page].astext() for page in sorted(app.env.found_docs)}
    pages = [f"- [{title}](_sources/{page}.md.txt)" for page, title in titles.items() if page != "index"]
    text = "\n".join([f"# {titles['index']}", "", f"> {about}", "", "## Pages", "", *pages])
    Path(app.outdir, "llms.txt").write_text(f"{text}\n", "utf-8")
    for page, render in MADE.items():
        with Path(app.outdir, "_sources", f"{page}.md.txt").open("a", encoding="utf-8") as copied:
            copied.write(f"\n{render()}")


def setup(app: Sphinx) -> None:
    """Policy files are YAML with Jinja, and are coloured as such."""
    app.add_lexer("yaml", YamlJinjaLexer)
    app.add_transform(IndexOfWords)
    app.connect("source-read", add_what_is_made)
    app.connect("build-finished", write_llms_txt)
