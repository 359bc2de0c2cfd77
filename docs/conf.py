"""The documentation site: `make docs`. Sphinx with MyST, so that every page is Markdown that GitHub shows as well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pygments.lexers.templates import YamlJinjaLexer

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
html_copy_source = False
#: Nothing is loaded from elsewhere, and nothing leads elsewhere but the pages' own links.
html_theme_options = {
    "logo": {"text": "etc"},
    "navbar_align": "left",
    "navigation_with_keys": False,
    "footer_start": [],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}


def setup(app: Sphinx) -> None:
    """Policy files are YAML with Jinja, and are coloured as such."""
    app.add_lexer("yaml", YamlJinjaLexer)
