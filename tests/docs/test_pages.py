"""All Markdown of the project: links lead somewhere, and no code is left out of the tests."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("examples/*.md")])
FENCE = re.compile(r"^ *(`{3,}|:{3,})(.*?)\n.*?^ *\1 *$", re.MULTILINE | re.DOTALL)
# What runs (python), signatures (py), and what tests of its page compare (the others). Sphinx's own
# are not among them: a host of repositories shows them as code.
LANGUAGES = {"python", "py", "console", "text", "yaml", "toml", "sql", "json"}

by_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def without_code(text):
    return re.sub(r"`[^`\n]*`", "``", FENCE.sub("", text))


def slug(heading):
    """What the hosts of repositories, and MyST, make of a heading."""
    words = re.sub(r"\]\([^)]*\)|[\[\]`*]", "", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


def anchors(page):
    text = FENCE.sub("", page.read_text("utf-8"))
    return {slug(heading) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


@by_page
def test_links_lead_somewhere(page):
    text = without_code(page.read_text("utf-8"))
    for target in re.findall(r"\]\(([^)]+)\)|(?:src|href)=\"([^\"]+)\"", text):
        path, _, anchor = (target[0] or target[1]).partition("#")
        if path.startswith(("https://", "mailto:")):
            continue
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), path
        if anchor:
            assert anchor in anchors(there), f"{path}#{anchor}"


@by_page
def test_code_is_of_a_known_language(page):
    for _, language in FENCE.findall(page.read_text("utf-8")):
        assert language in LANGUAGES, language


@by_page
def test_fences_are_closed_and_stand_at_the_margin(page):
    text = page.read_text("utf-8")
    assert "```" not in FENCE.sub("", text)
    assert not re.search(r"^ +```python", text, re.MULTILINE), "the tests find code at the margin"


def test_the_index_links_to_every_page():
    index = ROOT / "docs" / "index.md"
    linked = re.findall(r"^- \[.*?\]\((.*?)\): .+$", index.read_text("utf-8"), re.MULTILINE)
    pages = {path.relative_to(index.parent).as_posix() for path in index.parent.rglob("*.md")}
    assert sorted(linked) == sorted(pages - {"index.md"})


def test_every_picture_is_shown_somewhere():
    shown = "\n".join(page.read_text("utf-8") for page in PAGES)
    pictures = [p for p in (ROOT / "docs" / "images").rglob("*.*") if p.suffix != ".svg"]
    assert [p.name for p in pictures if p.name not in shown] == []
