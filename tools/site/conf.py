"""How Sphinx makes the site of the pages; `tools/site/build.py` lays them out for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pygments.lexers.special import TextLexer

from tidelog import __version__

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "tidelog"
author = "the tidelog developers"
copyright = "the tidelog developers, Apache-2.0"  # noqa: A001 - Sphinx's name
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 4
myst_enable_extensions = ["linkify"]
myst_linkify_fuzzy_links = False
suppress_warnings = ["myst.header"]  # some generated pages begin below the first level
nitpicky = False

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "exclude-members": "__new__"}
napoleon_numpy_docstring = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = "tidelog"
html_show_sphinx = False
html_copy_source = False
html_static_path: list[str] = []
html_search_scorer = str(Path(__file__).with_name("scorer.js"))  # as build.py writes it
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b6b72", "color-brand-content": "#0b6b72"},
    "dark_css_variables": {"color-brand-primary": "#5cc4cb", "color-brand-content": "#5cc4cb"},
}


def setup(app: Sphinx) -> None:
    """Show diagrams as their text: what draws them would be loaded from another site."""
    app.add_lexer("mermaid", TextLexer)
