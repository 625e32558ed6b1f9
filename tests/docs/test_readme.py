"""The README and its Chinese counterpart say the same, and what they quote is so."""

import re

import pytest

import taiyi_fx
from taiyi_fx.quantities.declare import find_quantity
from tests.docs.pages import ROOT, run

ENGLISH, CHINESE = ((ROOT / name).read_text("utf-8") for name in ("README.md", "README.zh.md"))
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def sections(text):
    """The text between headings, without blocks of code."""
    return re.split(r"^## .*$", BLOCK.sub("", text), flags=re.MULTILINE)


def figures(text):
    """All numbers, with the units that follow them."""
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return sorted(
        re.findall(r"\d+(?:[.,]\d+)*(?:e-?\d+)?(?: ?(?:%|(?:ms|us|MB|s)(?![a-z])))?", text)
    )


def links(text):
    return sorted(target for target in re.findall(r"\]\(([^)#]+)", text) if "README" not in target)


def test_both_have_the_same_code():
    assert BLOCK.findall(ENGLISH) == BLOCK.findall(CHINESE)


def test_both_have_the_same_sections():
    assert len(sections(ENGLISH)) == len(sections(CHINESE))


@pytest.mark.parametrize("number", range(len(sections(ENGLISH))))
@pytest.mark.parametrize("of", [figures, links], ids=["figures", "links"])
def test_both_say_the_same(of, number):
    assert of(sections(ENGLISH)[number]) == of(sections(CHINESE)[number])


@pytest.mark.parametrize("number", range(len(sections(ENGLISH))))
def test_both_have_the_same_tables_and_names(number):
    english, chinese = sections(ENGLISH)[number], sections(CHINESE)[number]
    rows = re.compile(r"^\|.*\|$", re.MULTILINE)
    assert [row.count("|") for row in rows.findall(english)] == [
        row.count("|") for row in rows.findall(chinese)
    ]
    names = re.compile(r"`[^`\n]+`")
    assert sorted(names.findall(english)) == sorted(names.findall(chinese))


def test_its_first_code_prints_what_it_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    printed, shown = next(run(ROOT / "README.md"))
    assert printed == " ".join(shown.split())  # which is wrapped
    assert (tmp_path / "report.html").is_file()


def test_they_count_the_quantities():
    own = [q for q in taiyi_fx.quantities() if q.declared_in.startswith("taiyi_fx.")]
    assert f"`taiyi_fx.quantities()` lists all {len(own)} " in ENGLISH


@pytest.mark.parametrize("heading", ["| you see | ask for |", "| what | quantities |"])
def test_every_quantity_that_they_name_exists(heading):
    table = ENGLISH.partition(heading)[2].partition("\n\n")[0]
    names = [name for name in re.findall(r"`(\w+)`", table) if not name.isdigit()]
    assert len(names) > 10
    assert all(find_quantity(name) for name in names)
