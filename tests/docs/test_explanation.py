"""The pages that explain: their code prints what they show, and they tell of all there is."""

import re
import runpy

import pytest

import taiyi_fx
from tests.docs.pages import DOCS, ROOT, run, without_numbers

SHOWN = [
    "autotaiyi",
    "exactness",
    "how-a-probe-works",
    "islands",
    "what-quantities-tell",
    "why-not-hooks",
]


@pytest.fixture(scope="module")
def architecture():
    return runpy.run_path(str(DOCS / "make_architecture.py"))


@pytest.mark.parametrize("name", SHOWN)
def test_a_page_shows_what_its_code_prints(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = list(run(DOCS / "explanation" / f"{name}.md"))
    assert len(blocks) > 4
    for printed, shown in blocks:
        (words, numbers), (words_shown, numbers_shown) = map(without_numbers, (printed, shown))
        assert words == words_shown
        assert numbers == pytest.approx(numbers_shown, rel=0.05)  # last digits are the machine's


def test_every_quantity_is_told_of():
    text = (DOCS / "explanation" / "what-quantities-tell.md").read_text(encoding="utf-8")
    tables = "\n".join(line for line in text.partition("\n## ")[2].splitlines() if line[:1] == "|")
    told = re.findall(r"`(\w+)`", tables)
    own = [i.name for i in taiyi_fx.quantities() if i.declared_in.startswith("taiyi_fx.")]
    assert sorted(told) == sorted(own)


def test_every_module_has_a_room_and_stands_in_the_picture(architecture):
    paths = (ROOT / "taiyi_fx").iterdir()
    names = {p.stem for p in paths if p.suffix == ".py" or (p / "__init__.py").exists()}
    names.remove("__init__")
    assert {name for room in architecture["rooms"]().values() for name in room} == names
    drawn = (DOCS / "images" / "architecture" / "house.svg").read_text(encoding="utf-8")
    assert names == set(re.findall(r">([\w.]+)</text>", drawn)) & names


def test_the_picture_of_the_house_has_the_imports_of_today(architecture):
    drawn = (DOCS / "images" / "architecture" / "house.svg").read_text(encoding="utf-8")
    house = architecture["house"]()
    shown = set(re.findall(r"<title>n(\d+)&#45;&gt;n(\d+)</title>", drawn))
    assert {(str(a), str(b)) for a, b, _ in house.edges} == shown, "make pictures"


def test_a_module_without_a_room_is_named(architecture, tmp_path, monkeypatch):
    page = tmp_path / "architecture.md"
    text = (DOCS / "explanation" / "architecture.md").read_text(encoding="utf-8")
    page.write_text(text.replace("`step`", ""), encoding="utf-8")
    monkeypatch.setitem(architecture["house"].__globals__, "PAGE", page)
    with pytest.raises(LookupError, match=re.escape("differ in ['step']")):
        architecture["house"]()


def test_imports_count_wherever_they_stand(architecture):
    imports = architecture["imported"]()
    assert imports.has_edge("step", "records")
    assert imports.has_edge("runs", "passes"), "for types alone"
    assert imports.has_edge("testing", "instrument"), "by its public name"


def test_the_flow_names_what_is_there(architecture):
    given = ("cfg", "model")
    drawn = (DOCS / "images" / "architecture" / "flow.svg").read_text(encoding="utf-8")
    for stage in architecture["FLOW"].values():
        for name, where in stage.items():
            assert f">{name}</text>" in drawn
            assert name in given or (ROOT / "taiyi_fx" / where).exists(), where


def test_every_file_of_the_compiler_is_told_of():
    text = (DOCS / "explanation" / "architecture.md").read_text(encoding="utf-8")
    table = text.partition("## The compiler, file by file")[2]
    compiler = ROOT / "taiyi_fx" / "passes"
    files = {str(path.relative_to(compiler)) for path in compiler.rglob("*.py")}
    files = {name for name in files if not name.endswith("__init__.py")}
    assert set(re.findall(r"^\| `([\w/]+\.py)` \|", table, re.MULTILINE)) == files
