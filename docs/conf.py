"""For Sphinx: `make docs` builds the pages into build/docs, where any warning is an error."""

import re
from pathlib import Path

import tomllib
from sphinx.application import Sphinx

import taiyi_fx

_ROOT = Path(__file__).parent.parent
_PROJECT = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = "taiyi_fx"
author = _PROJECT["authors"][0]["name"]
release = version = taiyi_fx.__version__

extensions = ["myst_parser"]
exclude_patterns = ["conf.py"]

html_theme = "furo"
html_title = f"taiyi_fx {release}"
html_show_copyright = False

# Headings are link targets, as they are on the hosts of repositories.
myst_heading_anchors = 4


def add_what_browsers_of_repositories_do_not_read(
    app: Sphinx, docname: str, source: list[str]
) -> None:
    """Gives pages, which are plain Markdown, the directives that only Sphinx understands.

    The index is a page of links: those of each of its sections become a part of the table of
    contents. The page of changes becomes the file that it links to.
    """
    if docname == "index":
        for section in source[0].split("\n## ")[1:]:
            caption, _, links = section.partition("\n")
            pages = "\n".join(re.findall(r"^- \[.*?\]\((.*?)\.md\)", links, re.MULTILINE))
            source[0] += f"\n```{{toctree}}\n:caption: {caption}\n:hidden:\n\n{pages}\n```\n"
    if docname == "reference/changes":
        options = ":start-line: 1\n:relative-docs: docs/"
        source[0] = f"# Changes\n\n```{{include}} ../../CHANGELOG.md\n{options}\n```\n"


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", add_what_browsers_of_repositories_do_not_read)
