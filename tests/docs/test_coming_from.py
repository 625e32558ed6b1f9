"""The pages for those who come from elsewhere: their code prints what they show, and every name of
ours in their tables is one."""

import ast
import builtins
import copy
import inspect
import re

import pytest
import torch.nn.functional as F
from torch import nn

import taiyi_fx
from taiyi_fx import writers
from taiyi_fx.quantities.declare import find_quantity, quantity_names
from taiyi_fx.schedule import parse_schedule
from tests.docs.pages import DOCS, run, runnable_blocks

FOLDER = DOCS / "coming-from"
PAGES = {page.stem: page.read_text("utf-8") for page in sorted(FOLDER.glob("*.md"))}
OWNERS = {
    "taiyi_fx": taiyi_fx,
    "writers": writers,
    "model": taiyi_fx.InstrumentedModule,
    "monitor": taiyi_fx.Monitor,
    "summary": taiyi_fx.EpochSummary,
    "copy": copy,
    "nn": nn,
    "F": F,
}
READERS = {"config", "step", "scaler", "value", "loss", "wandb", "fc", "GradScaler", "torch"}
NAMES = {*taiyi_fx.__all__, *writers.__all__, *quantity_names(), *OWNERS, *READERS, *dir(builtins)}
OURS = ("taiyi_fx", "quantity", "what to know")


def keywords():
    takers = [taiyi_fx.instrument, taiyi_fx.quantity, taiyi_fx.edit]
    takers += [getattr(writers, name) for name in writers.__all__]
    takers += [method for _, method in inspect.getmembers(taiyi_fx.Monitor, inspect.isfunction)]
    found = {name for taker in takers for name in inspect.signature(taker).parameters}
    return found.union(*(find_quantity(name).options for name in quantity_names()))


KEYWORDS = keywords()


def cells_of_ours():
    """The cells of tables whose column is of this library."""
    for table in re.findall(r"(?:^\|.*\n)+", "\n".join(PAGES.values()), re.MULTILINE):
        lines = [line.strip().strip("|").split("|") for line in table.splitlines()]
        heading, _, *rows = [[cell.strip() for cell in line] for line in lines]
        assert set(heading) & set(OURS), heading
        for row in rows:
            yield from (cell for name, cell in zip(heading, row, strict=True) if name in OURS)


SPANS = sorted({span for cell in cells_of_ours() for span in re.findall(r"`([^`]+)`", cell)})


def unknown(span):
    """What a piece of code in a table names that is not there; None if all of it is."""
    if span.endswith("..."):
        return None if any(name.startswith(span[:-3]) for name in quantity_names()) else span
    if setting := re.fullmatch(r"(\w+)=(.*)", span):
        return setting[1] if setting[1] not in KEYWORDS else unknown(setting[2] or "0")
    nodes = ast.walk(ast.parse(span))
    return next((text for node in nodes if (text := unknown_in(node)) is not None), None)


def unknown_in(node):
    match node:
        case ast.Constant(value=str(text)) if not is_known_text(text):
            return text
        case ast.Name(id=name) if name not in NAMES:
            return name
        case ast.Attribute(value=ast.Name(id=owner) | ast.Attribute(attr=owner), attr=name):
            return None if has(owner, name) else f"{owner}.{name}"
        case ast.keyword(arg=name) if name not in KEYWORDS:
            return name
    return None


def is_known_text(text):
    if re.fullmatch(r"\w+\(.*\)", text):
        return parse_schedule(text) is not None
    is_quantity_or_layer = find_quantity(text) is not None or hasattr(nn, text)
    return is_quantity_or_layer or not text[0].isupper()


def has(owner, name):
    """Whether something of ours has an attribute, in its class or as documentation says."""
    if find_quantity(owner):
        return True  # its second series, such as RankMe.N
    held = OWNERS.get(owner) or getattr(taiyi_fx, owner)
    return hasattr(held, name) or re.search(rf"^ +{name}: ", held.__doc__ or "", re.MULTILINE)


@pytest.mark.parametrize("span", SPANS)
def test_names_of_ours_in_the_tables_are_there(span):
    assert unknown(span) is None


@pytest.mark.parametrize(
    "span",
    ["monitor.trak(step)", '["MeanTDI"]', "taiyi_fx.instrument(model, config, rum=1)", "rum=True"],
)
def test_a_name_that_is_not_there_is_noticed(span):
    assert unknown(span) is not None


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_code_prints_what_the_page_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for printed, shown in run(FOLDER / f"{page}.md"):
        assert printed == shown


def test_blocks_without_their_package_are_left_out():
    code = "```python\n{}\n```\n"
    absent = 'if(find_spec("not_there") is None, reason="") -->\n'
    text = (
        f"<!-- skip: next {absent}{code.format(1)}{code.format(2)}"
        f"<!-- skip: start {absent}{code.format(3)}{code.format(4)}<!-- skip: end -->\n"
        f"{code.format(5)}"
    )
    assert [block.strip() for block, _ in runnable_blocks(text)] == ["2", "5"]
