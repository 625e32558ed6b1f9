"""Each tutorial runs once: its fault is seen where the page says, and its fix works."""

import re
from pathlib import Path
from statistics import mean

import pytest
import torch

import taiyi_fx
from tests.test_package import python_blocks

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"

pytestmark = pytest.mark.slow


@pytest.fixture
def learn(tmp_path, monkeypatch, capsys):
    """Runs a page's code in an empty folder, compares what it prints, and returns its names."""
    monkeypatch.chdir(tmp_path)
    threads = torch.get_num_threads()

    def run(name):
        page = TUTORIALS / f"{name}.md"
        names = {"__name__": "page"}
        for block in python_blocks(page):
            exec(compile(block, page, "exec"), names)
        shown = re.findall(r"```text\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
        printed = capsys.readouterr().out
        assert without_numbers(printed) <= without_numbers("".join(shown))
        return names

    yield run
    torch.set_num_threads(threads)


def without_numbers(text):
    """The lines, whose numbers differ between machines and versions of Python."""
    return {
        re.sub(r"\s+", " ", re.sub(r"(?<![\w.])\d[\d.e+-]*", "#", line))
        for line in text.splitlines()
    }


def table(run, quantity):
    """All values of each module."""
    with taiyi_fx.open_run(run) as kept:
        modules, _, values, _ = kept.grid(quantity)
        return dict(zip(modules, values, strict=True))


def test_a_dead_layer_is_one_bright_row_and_its_fix_restores_the_accuracy(learn):
    names = learn("dying-layer")
    rates = table("runs/dead", "OutputDeathRate")
    assert (rates.pop("head.2") == 1).all()
    assert all(row.max() < 0.3 for row in rates.values())
    norms = table("runs/dead", "OutputGradNorm")
    assert (norms.pop("head.3") > 0).all()
    assert all((row == 0).all() for row in norms.values())
    assert Path("dead.html").exists()
    assert names["before"] < 0.15
    assert names["after"] > 0.9
    assert table("runs/alive", "OutputDeathRate")["head.2"].max() < 0.9


def test_the_first_nan_is_named_and_the_row_above_it_grows_long_before(learn):
    with pytest.warns(taiyi_fx.MonitorWarning, match="is in the output of 'blocks.4.ln1'"):
        names = learn("exploding-layer")
    first, second, *_ = names["broken"].monitor.findings
    assert (first.kind, first.module) == ("outlier", "blocks.3")
    assert (second.kind, second.module) == ("non_finite", "blocks.4.ln1")
    sizes = table("runs/broken", "OutputRMS")
    steps = len(sizes["head"])
    assert 200 < steps < 240
    assert sizes["blocks.3"][100] > 1e6
    inside = {module: row for module, row in sizes.items() if module.startswith("blocks.3.")}
    assert max(row[100:200].max() for row in inside.values()) < 5
    assert max(sizes[f"blocks.{i}"][100:200].max() for i in range(3)) < 5
    assert table("runs/broken", "OutputGradNorm")["blocks.4.mlp.2"][200] < 1e-15
    broken, mended = table("runs/broken", "loss")[""], table("runs/mended", "loss")[""]
    assert broken[150:200].mean() == pytest.approx(mended[150:200].mean(), abs=0.1)
    assert len(mended) == 250
    assert mended[200:].mean() < mended[100:150].mean()
    assert names["broken"].get_buffer("blocks.3.gate") > 1e18


def test_the_gap_of_batchnorm_is_in_its_averages_and_closes_with_them(learn):
    names = learn("batchnorm-gap")
    assert names["before"] < 0.93
    assert names["measured"] > 0.96
    assert names["after"] > 0.96
    slow, mended = table("runs/slow", "MeanTID"), table("runs/mended", "MeanTID")
    assert mean(row[-1] for row in slow.values()) > 0.2
    assert max(row[-1] for row in mended.values()) < 0.1
    assert mean(row[-1] for row in table("runs/slow", "VarTID").values()) > 0.15
    assert max(row[-1] for row in table("runs/mended", "VarTID").values()) < 0.15
