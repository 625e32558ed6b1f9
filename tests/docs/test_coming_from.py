"""The pages for those who come from elsewhere: their code runs and prints what they show, and every
name of ours in their tables is one."""

import ast
import contextlib
import importlib.util
import inspect
import io
import re
from pathlib import Path

import pytest
from torch import nn

import taiyi_fx
from taiyi_fx import trainers, writers
from taiyi_fx.quantity import find_quantity, quantity_names
from taiyi_fx.schedule import parse_schedule

FOLDER = Path(__file__).parents[2] / "docs" / "coming-from"
PAGES = sorted(FOLDER.glob("*.md"))
OBJECTS = {
    "taiyi_fx": taiyi_fx,
    "model": taiyi_fx.InstrumentedModule,
    "monitor": taiyi_fx.Monitor,
    "records": taiyi_fx.Records,
    "run": taiyi_fx.Run,
    "summary": taiyi_fx.EpochSummary,
    "trainers": trainers,
    "nn": nn,
}
PLACEHOLDERS = {"config", "step", "scaler", "value", "loss", "wandb", "grad", "fc", "x", "GradScaler"}
OURS = ("taiyi_fx", "quantity")


def page_of(name):
    return (FOLDER / f"{name}.md").read_text("utf-8")


def blocks(text):
    """Each block of Python, whether it may be skipped, and what is shown as printed, if anything."""
    pattern = r"(<!-- skip: next if.*?-->\s+)?```python\n(.*?)```(?:\s+```text\n(.*?)```)?"
    return re.findall(pattern, text, re.DOTALL)


def cells_of_ours(text):
    """The cells of tables below a heading that says that they are of this library."""
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        heading, _, *rows = [
            [cell.strip() for cell in line.strip().strip("|").split("|")]
            for line in table.splitlines()
        ]
        assert any(cell in OURS for cell in heading), heading
        for row in rows:
            yield from (cell for name, cell in zip(heading, row, strict=True) if name in OURS)


def spans():
    texts = [cell for page in PAGES for cell in cells_of_ours(page.read_text("utf-8"))]
    return sorted({span for text in texts for span in re.findall(r"`([^`]+)`", text)})


def options():
    found = {"param"}
    for name in quantity_names():
        found |= set(find_quantity(name).options)
    return found


def is_known_text(text):
    if re.fullmatch(r"\w+\(.*\)", text):
        return parse_schedule(text) is not None
    if text[0].isupper():
        return find_quantity(text) is not None or hasattr(nn, text)
    return True  # a name of a module, or an option's value


def problem(node):
    """What a piece of code names that is not there; None if all of it is."""
    match node:
        case ast.Constant(value=str(text)) if not is_known_text(text):
            return text
        case ast.Name(id=name) if not is_known_name(name):
            return name
        case ast.Attribute(value=ast.Name(id=owner) | ast.Attribute(attr=owner), attr=name):
            held = OBJECTS.get(owner, getattr(writers, owner, getattr(taiyi_fx, owner, None)))
            annotations = getattr(held, "__annotations__", {})
            fields = inspect.getsource(held.__init__) if inspect.isclass(held) else ""
            if not (hasattr(held, name) or name in annotations or f"self.{name}:" in fields):
                return f"{owner}.{name}"
        case ast.keyword(arg=name) if name not in keywords():
            return f"{name}="
    return next(filter(None, map(problem, ast.iter_child_nodes(node))), None)


def is_known_name(name):
    """A name of ours, of a quantity, or one that stands for something of the reader's."""
    owners = taiyi_fx.__all__, writers.__all__, quantity_names(), OBJECTS, PLACEHOLDERS
    return any(name in owner for owner in owners)


def keywords():
    takers = [taiyi_fx.instrument, taiyi_fx.quantity, taiyi_fx.edit, taiyi_fx.report]
    takers += [getattr(writers, name) for name in writers.__all__]
    takers += [m for _, m in inspect.getmembers(taiyi_fx.Monitor, inspect.isfunction)]
    found = options()
    for taker in takers:
        found |= set(inspect.signature(taker).parameters)
    return found


@pytest.mark.parametrize("span", spans())
def test_names_of_ours_in_the_tables_are_there(span):
    if span.endswith("..."):
        assert any(name.startswith(span[:-3]) for name in quantity_names())
    elif span.endswith("="):
        assert span[:-1] in keywords()
    elif re.fullmatch(r"[A-Z]\w+\.\w+", span) and find_quantity(span.split(".")[0]):
        return  # a quantity's second series
    else:
        assert problem(ast.parse(span)) is None


def test_a_name_that_is_not_there_is_noticed():
    for wrong in ("monitor.trak(step)", '["MeanTDI"]', "taiyi_fx.instrument(model, config, rum=1)"):
        assert problem(ast.parse(wrong)) is not None


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_prints_what_the_page_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = page.read_text("utf-8")
    if page.stem == "monitorch":
        pytest.importorskip("monitorch")
    namespace = {"__name__": f"docs.{page.stem}"}
    for may_skip, code, shown in blocks(text):
        package = re.search(r'find_spec\("(\w+)"\)', may_skip)
        if package and importlib.util.find_spec(package[1]) is None:
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(page), "exec"), namespace)
        assert [line.rstrip() for line in printed.getvalue().splitlines()] == shown.splitlines()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    text = page.read_text("utf-8")
    headings = {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in re.findall(r"^#+ (.*)", text, re.MULTILINE)}
    for target in re.findall(r"\]\(([^):]+)\)", text):
        path, _, anchor = target.partition("#")
        assert page.parent.joinpath(path).exists(), target
        assert path or anchor in headings, target
