"""The ways of tensors on an accelerator, taken by those of the CPU, which say that they are on none."""

from unittest import mock

import numpy as np
import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx.step import host

MODEL = (
    nn.Conv2d(3, 8, 3),
    nn.BatchNorm2d(8),
    nn.ReLU(),
    nn.Conv2d(8, 8, 3),
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(8 * 16, 4),
)
QUANTITIES = [
    "InputSndNorm",
    "OutputGradSndNorm",
    "OutputRMS",
    "InputMean",
    "InputStd",
    "OutputAbsMax",
    "NonFinite",
    "OutputGradNonFinite",
    "OutputGradKurtosis",
    "UnderflowRate",
    "OutputGradQuantiles",
    "InputCovCondition",
    "RankMe",
]
CFG = {
    nn.Module: QUANTITIES,
    nn.ReLU: [*QUANTITIES, "DeadNeuronRatio"],
    nn.BatchNorm2d: [*QUANTITIES, "MeanTID"],
    nn.Linear: [*QUANTITIES, "WeightNorm", "WeightGradNorm", "UpdateRatio", "WeightStableRank"],
    "": ["GradNorm", "LearningRate"],
}


def trained(micro_batches):
    """The numbers of a short training, by their names, and why others are missing."""
    torch.manual_seed(0)
    model = nn.Sequential(*MODEL)
    for layer in model:
        if hasattr(layer, "reset_parameters"):
            layer.reset_parameters()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    watched = taiyi_fx.instrument(model, CFG, optimizer=optimizer)
    for step in range(6):
        for _ in range(micro_batches):
            x, y = torch.randn(8, 3, 8, 8), torch.randint(4, (8,))
            loss = nn.functional.cross_entropy(watched(x), y)
            loss.backward()
        watched.monitor.log("loss", loss)
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    watched.monitor.flush()
    found = {(r.step, r.module, r.quantity): r.value for r in watched.monitor.records}
    return found, dict(watched.monitor.missing)


@pytest.mark.parametrize("micro_batches", [1, 2])
@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
def test_numbers_are_those_of_the_cpu(micro_batches):
    here, missing = trained(micro_batches)
    is_elsewhere = mock.patch.object(torch.Tensor, "is_cpu", False)
    sends = mock.patch.object(host, "_sent", wraps=host._sent)
    with is_elsewhere, sends as sent:
        elsewhere, missing_there = trained(micro_batches)
    assert sent.call_count >= 6, "what is elsewhere is brought to the host, at each step"
    assert here.keys() == elsewhere.keys()
    assert missing_there == missing
    assert len(here) > 300
    for name, value in here.items():
        np.testing.assert_allclose(elsewhere[name], value, rtol=2e-4, atol=1e-6, err_msg=str(name))
