"""What a run says of itself and of its series."""

import pytest
import torch
from torch import nn

import taiyi_fx

CFG = {
    "fc": ["InputMean", "OutputGradNorm", "WeightNorm", "WeightGradNorm", "DeadNeuronRatio"],
    "a@1": ["RankMe"],
}


class Net(nn.Module):
    """One layer is called twice, and another is named as a second call would be."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.add_module("a@1", nn.Linear(4, 4))

    def forward(self, x):
        return getattr(self, "a@1")(self.fc(self.fc(x)))


class Reader:
    """Keeps what it is told of the run."""

    def open(self, run):
        self.run = run

    def write(self, batch):
        pass

    flush = close = lambda self: None


@pytest.fixture
def run():
    reader = Reader()
    taiyi_fx.instrument(Net(), CFG, writers=[reader], start_step=7)
    return reader.run


@pytest.mark.parametrize(("series", "info"), [
    (("fc", "InputMean"), ("fc", 0, "InputMean", "forward", "", "")),
    (("fc@1", "OutputGradNorm"), ("fc", 1, "OutputGradNorm", "backward", "", "")),
    (("fc", "WeightNorm"), ("fc", 0, "WeightNorm", "parameter", "", "lasting")),
    (("fc", "WeightGradNorm"), ("fc", 0, "WeightGradNorm", "backward", "", "")),
    (("fc", "DeadNeuronRatio"), ("fc", 0, "DeadNeuronRatio", "forward", "share", "share_of_trouble")),
    (("a@1", "RankMe"), ("a@1", 0, "RankMe", "forward", "directions", "lasting")),
    (("a@1", "RankMe.N"), ("a@1", 0, "RankMe.N", "forward", "", "lasting undefined")),
    (("", "loss"), ("", 0, "loss", "", "", "")),
])  # fmt: skip
def test_a_series_says_where_it_is_read_its_unit_and_its_rule_of_health(run, series, info):
    assert run.describe(series) == info


def test_a_run_says_what_it_is_of_and_nothing_of_where_it_runs(run):
    assert run.model == f"{__name__}.Net"
    assert run.start_step == 7
    assert run.rank == 0
    assert run.versions["torch"] == torch.__version__
    assert run.versions["taiyi_fx"] == taiyi_fx.__version__
    assert {
        "module": "fc",
        "quantity": "WeightNorm",
        "schedule": "linear(0, 0)",
        "options": {},
    } in (run.config)
    assert run.seed == torch.initial_seed()


def test_what_is_normalized_is_in_a_unit_of_its_own():
    reader, options = Reader(), {"normalized": True}
    cfg = {"fc": [["RouterEntropy", "every(1)", options]], "a@1": ["RouterEntropy"]}
    taiyi_fx.instrument(Net(), cfg, writers=[reader])
    assert reader.run.describe(("fc", "RouterEntropy")).unit == "share of the largest"
    assert reader.run.describe(("a@1", "RouterEntropy")).unit == "nats"
