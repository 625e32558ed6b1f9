"""The package as a whole: its public names, its documentation, its README and examples."""

import ast
import importlib
import importlib.metadata
import inspect
import pickle
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import taiyi_fx
from taiyi_fx.quantities.places import Pair, Place
from taiyi_fx.testing import CheckFailure, check_quantity

ROOT = Path(__file__).parent.parent


def test_the_public_names_are_these():
    assert taiyi_fx.__all__ == [
        "CallReduction", "ConfigError", "CoordinateCheck", "Diagram", "Edit", "EpochSummary", "Finding", "Grid", "InstrumentedModule", "Monitor",
        "MonitorWarning", "NoValue", "NonFiniteSite", "PairReduction", "Preset", "Quantities", "Quantity", "QuantityInfo",
        "Record", "Recorder", "Recording", "Records", "Reduction", "Replay", "Run", "TrainedParameter", "Verdict", "Verification", "Visualization", "adaptive", "at_steps", "buffer", "call", "capture_of", "coordinate_check", "describe_optimizer", "diagram", "edit", "every", "fingerprint", "graph_of", "input", "input_grad",
        "instrument", "linear", "monitor_of", "open_run", "output", "output_grad", "pair", "parameter", "parameter_grad", "preset", "presets",
        "previous", "quantities", "quantity", "report", "step_check", "verify", "weight", "weight_grad",
    ]  # fmt: skip


def test_the_version_is_that_of_the_installation():
    assert taiyi_fx.__version__ == importlib.metadata.version("taiyi-fx")


def test_type_checkers_see_what_runs():
    source = ast.parse((ROOT / "taiyi_fx" / "__init__.py").read_text(encoding="utf-8"))
    (block,) = (node for node in source.body if isinstance(node, ast.If))
    homes = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert sorted(homes) == sorted(taiyi_fx.__all__)
    for name, home in homes.items():
        assert getattr(importlib.import_module(home), name) is getattr(taiyi_fx, name)
    assert set(taiyi_fx.__all__) <= set(dir(taiyi_fx))
    assert pickle.loads(pickle.dumps(taiyi_fx.instrument)) is taiyi_fx.instrument
    with pytest.raises(AttributeError, match="module 'taiyi_fx' has no attribute 'instrumnt'"):
        taiyi_fx.instrumnt  # noqa: B018


MODULES = ("quantities", "quantities.catalogue", "pictures", "pictures.report")


@pytest.mark.parametrize(  # processes that import torch: one of them each time
    "first", ["instrument", *(pytest.param(x, marks=pytest.mark.exhaustive) for x in MODULES)]
)
def test_modules_do_not_hide_functions_of_their_name(first):
    code = f"""
        import sys, taiyi_fx
        assert 'torch' not in sys.modules
        assert taiyi_fx.open_run and taiyi_fx.Records and 'torch' not in sys.modules
        import taiyi_fx.{first}
        from taiyi_fx import diagram, instrument, quantities, quantity
        assert not {{"torch._dynamo", "sympy", "pandas"}} & {{*sys.modules}}  # seconds each
        assert all(f.__name__ in taiyi_fx.__all__ for f in (diagram, instrument, quantities, quantity))
        assert len(quantities()) > 80 and taiyi_fx.writers.Store
    """
    subprocess.run([sys.executable, "-c", inspect.cleandoc(code)], check=True, cwd=ROOT)


@pytest.mark.parametrize("name", taiyi_fx.__all__)
def test_every_public_name_is_documented(name):
    found = getattr(taiyi_fx, name)
    if inspect.isclass(found) or inspect.isfunction(found):
        assert inspect.getdoc(found)


def python_blocks(path):
    return re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)


def test_the_page_on_own_quantities_lists_all_readings():
    page = (ROOT / "docs" / "how-to" / "own-quantities.md").read_text("utf-8")
    table = page.partition("| reading |")[2].partition("\n\n")[0]
    listed = re.findall(r"`([\w.]+)`", "".join(re.findall(r"^\|([^|]*)\|", table, re.MULTILINE)))
    stock = {name for name in vars(Place) if isinstance(vars(Place)[name], property)}
    of_pairs = {f"pair.{n}" for n in vars(Pair) if isinstance(vars(Pair)[n], property)}
    assert sorted(listed) == sorted(stock | of_pairs)


@pytest.mark.slow
def test_the_code_of_the_page_on_testing_runs():
    namespace = {"__name__": "docs.testing"}
    for block in python_blocks(ROOT / "docs" / "how-to" / "testing.md"):
        exec(compile(block, "testing.md", "exec"), namespace)
    tests = [value for name, value in namespace.items() if name.startswith("test_")]
    assert len(tests) == 9
    for test in tests:
        test()


def test_the_page_on_testing_shows_the_program_that_one_gets(tmp_path, monkeypatch):
    page = (ROOT / "docs" / "how-to" / "testing.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```text\nCheckFailure: (.*?)\n```", page, re.DOTALL)
    source = shown.partition("layer = ")[0].partition('"""\n\n')[2]
    (tmp_path / "test_shown.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    found = importlib.import_module("test_shown").saturated
    with pytest.raises(CheckFailure) as failure:
        check_quantity(
            found,
            lambda s: torch.nan if s.y.isnan().any() else (s.rows("y") > 6).any(0).double().mean(),
        )
    assert str(failure.value) == shown


@pytest.mark.parametrize("name", ["nothing", "nothing.more", "runs.nothing", ".runs", "runs."])
def test_what_is_no_name_of_the_package_is_absent(name):
    assert not hasattr(taiyi_fx, name)


def test_testing_is_imported_by_name():
    code = "import sys, taiyi_fx; assert 'hypothesis' not in sys.modules; import taiyi_fx.testing"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_the_main_job_trains_and_records_and_draws(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    example = runpy.run_path(str(ROOT / "examples" / "digits_cnn.py"))
    assert example["main"](epochs=2) > 0.8
    output = capsys.readouterr().out
    for quantity in ("MeanTID", "VarTID", "InputSndNorm", "InputCovCondition", "OutputGradSndNorm",
                     "WeightNorm", "WeightGradNorm", "RankMe", "DeadNeuronRatio"):  # fmt: skip
        assert quantity in output
    assert (tmp_path / "probes.svg").read_text().count("<g") > 10
    assert (tmp_path / "report.html").stat().st_size > 100_000


@pytest.mark.slow  # a whole training
def test_five_models_are_drawn_and_the_ill_ones_are_seen(tmp_path, capsys):
    example = runpy.run_path(str(ROOT / "examples" / "diagrams.py"))
    example["main"](str(tmp_path))
    names = ["gpt", "lstm", "moe", "resnet50", "unet"]
    assert sorted(path.stem for path in tmp_path.glob("*.svg")) == names
    assert sorted(path.stem for path in tmp_path.glob("*.png")) == names
    ill = {name for name in names if "alert" in (tmp_path / f"{name}.svg").read_text("utf-8")}
    assert ill == {"gpt", "moe"}
    boxes = re.findall(r"<diagram of (\d+) boxes", capsys.readouterr().out)
    assert all(10 <= int(count) <= 60 for count in boxes)


def test_the_run_of_an_exploding_layer_is_reported(tmp_path):
    example = runpy.run_path(str(ROOT / "examples" / "exploding_layer.py"))
    page = example["main"](str(tmp_path), steps=2)
    assert page == tmp_path / "exploding_layer.html"
    with taiyi_fx.open_run(tmp_path / "runs" / "exploding_layer") as run:
        assert run.series("", "loss").steps.tolist() == [0, 1]


@pytest.mark.slow  # a whole training
def test_an_attention_that_collapses_is_found(capsys):
    train = runpy.run_path(str(ROOT / "examples" / "attention_collapse.py"))["main"]
    (first, *_) = train(steps=40)
    assert (first.kind, first.module) == ("attention_collapse", "h.2.attn.attention()")
    assert "by logits of up to" in capsys.readouterr().out
    assert train(steps=40, is_right=True) == []


@pytest.mark.slow  # a whole training
def test_a_router_that_dies_is_found():
    train = runpy.run_path(str(ROOT / "examples" / "dying_router.py"))["main"]
    (first, *_) = train(steps=80)
    assert first.kind == "router_collapse"
    assert first.module in ("1.router", "3.router")
    assert train(steps=80, balance=0.1) == []


@pytest.mark.slow  # a whole training
def test_a_training_whose_steps_are_rounded_away_is_found(capsys):
    found = runpy.run_path(str(ROOT / "examples" / "rounded_away.py"))["main"](steps=60)
    (lost,) = found["in bfloat16"]
    assert (lost.kind, lost.module) == ("updates_lost", "")
    assert found["under autocast"] == []
    assert "which rounds them away" in capsys.readouterr().out


def test_ones_own_quantity_is_right_under_accumulation(capsys):
    found = runpy.run_path(str(ROOT / "examples" / "own_quantity.py"))["main"]()
    records = capsys.readouterr().out
    assert set(found) == {"1", "3"}
    assert "off_centre" in records


@pytest.mark.slow  # a whole training
def test_the_estimation_shift_is_seen_in_every_batchnorm(tmp_path, capsys):
    example = runpy.run_path(str(ROOT / "examples" / "estimation_shift.py"))
    picture = tmp_path / "shift.png"
    found = example["main"]((16, 64), seeds=1, epochs=1, depth=3, picture=str(picture))
    assert set(found) == {16, 64}
    for run in found.values():
        assert run["training"].shape == (1, 2, 3, len(run["images"][0]))
        assert run["stacked"].shape == run["alone"].shape == (1, 2, 3, 1)
        # Nothing stands before the first layer: with or without the others it is shifted alike.
        np.testing.assert_allclose(run["stacked"][:, :, 0], run["alone"][:, :, 0], rtol=1e-5)
        assert (run["stacked"][:, :, 1:] != run["alone"][:, :, 1:]).all()
    assert "more by batch statistics" in capsys.readouterr().out
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow  # a whole training
def test_batchnorm_conditions_every_layers_input(tmp_path, capsys):
    example = runpy.run_path(str(ROOT / "examples" / "layerwise_conditioning.py"))
    picture = tmp_path / "conditioning.png"
    found = example["main"](seeds=1, steps=12, depth=12, picture=str(picture))
    plain, normed = found["without BatchNorm"][0], found["with BatchNorm"][0]
    assert plain.shape == normed.shape == (4, 12, 12)
    largest, condition = range(2)
    np.testing.assert_allclose(plain[:2, 0], normed[:2, 0])  # the images themselves
    hidden = normed[largest, 1:]
    assert hidden.max() < 2 * hidden.min()
    assert (plain[condition, 6:] > 5 * normed[condition, 6:]).all()
    assert "InputCovCondition50, layer 11" in capsys.readouterr().out
    assert picture.read_bytes().startswith(b"\x89PNG")
