"""`taiyi-fx check --run`: the model, plain and instrumented."""

import pytest
import torch

BATCHES = """
import torch

number = 3
tensor = torch.ones(3, 4)

def positional():
    return (torch.ones(3, 4),)

def by_name():
    return {"input": torch.ones(3, 4)}

def wrong_size():
    return torch.ones(3, 5)

def broken():
    raise RuntimeError("no data here")
"""


@pytest.fixture
def batches(models, write):
    """A module of batches, beside that of models."""
    name = models.replace("models", "batches")
    write(f"{name}.py", BATCHES)
    return name


@pytest.mark.parametrize("batch", ["3x4", "{}:tensor", "{}:positional", "{}:by_name"])
def test_check_runs_the_model_and_compares_all_bits(cli, models, batches, write, batch):
    cfg = write("c.yaml", "Linear: [InputSndNorm, WeightNorm]\n")
    code, out, err = cli("check", f"{models}:net", cfg, "--run", batch.format(batches))
    assert (code, err) == (0, "")
    assert "captured    as one graph" in out
    assert "\nverdict  monitoring changed nothing, and saw every call\n" in out
    assert "seen 6 of 6, of 3 modules" in out
    assert "where nothing is\n" in out


def test_check_runs_a_module_itself_and_leaves_it_as_it_was(cli, models, write):
    cfg = write("c.yaml", "Linear: [InputSndNorm]\n")
    model = __import__(models).made
    before = [p.clone() for p in (*model.parameters(), *model.buffers())]
    assert cli("check", f"{models}:made", cfg, "--run", "3x4")[0] == 0
    after = (*model.parameters(), *model.buffers())
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_check_fails_where_something_differs(cli, models, write):
    write(
        "draws.py",
        """
import os
from torch import nn

class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(x) + int.from_bytes(os.urandom(2), "big")
""",
    )
    cfg = write("c.yaml", "Linear: [InputSndNorm]\n")
    code, out, _ = cli("check", "draws:Noisy", cfg, "--run", "3x4")
    assert code == 1
    assert "the plain model differs from itself in output in the first step" in out


@pytest.mark.parametrize(
    ("batch", "told"),
    [
        ("3,4", "BATCH is module:callable, such as models:batch, or a shape, such as 8x3x32x32, "),
        ("{}:nothing", "{} has no 'nothing'"),
        ("{}:broken", "calling {}:broken raised RuntimeError: no data here"),
        ("{}:wrong_size", "mat1 and mat2 shapes cannot be multiplied"),
        ("{}:number", "raised TypeError: linear(): argument 'input'"),
    ],
)
def test_a_batch_that_does_not_fit_is_told(cli, models, batches, write, batch, told):
    cfg = write("c.yaml", "Linear: [InputSndNorm]\n")
    code, _, err = cli("check", f"{models}:net", cfg, "--run", batch.format(batches))
    assert code == 2
    assert told.format(batches) in err


def test_nothing_is_run_on_meta(cli, models, write):
    cfg = write("c.yaml", "Linear: [InputSndNorm]\n")
    code, _, err = cli("check", f"{models}:net", cfg, "--run", "3x4", "--device", "meta")
    assert code == 2
    assert "leave out --device meta" in err
