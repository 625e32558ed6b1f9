"""Forwards by which a pipeline learns shapes are no training."""

import pytest
import torch
from torch import distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

import taiyi_fx
from taiyi_fx.passes.runtime.rehearsal import is_rehearsal


class Asks(nn.Module):
    """Says at each call if it is rehearsed."""

    def __init__(self):
        super().__init__()
        self.fc, self.answers = nn.Linear(4, 4), []

    def forward(self, x):
        self.answers.append(is_rehearsal())
        return self.fc(x)


@pytest.mark.skipif(
    not hasattr(PipelineStage, "_forward_metadata_inference"),
    reason="this torch, such as 2.6, rehearses without gradients, which no reading takes for training",
)
def test_only_a_pipelines_first_forward_is_a_rehearsal():
    assert not is_rehearsal()
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        model = Asks()
        stage = PipelineStage(model, 0, 1, torch.device("cpu"))
        schedule = Schedule1F1B(stage, 2, loss_fn=nn.functional.mse_loss)
        for _ in range(2):
            schedule.step(torch.ones(4, 4), target=torch.zeros(4, 4))
    finally:
        dist.destroy_process_group()
    assert model.answers == [True, False, False, False, False]


def test_a_rehearsal_is_not_read():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        model = taiyi_fx.instrument(nn.Sequential(nn.Linear(4, 4)), {"0": ["InputMean"]})
        stage = PipelineStage(model, 0, 1, torch.device("cpu"))
        schedule = Schedule1F1B(stage, 2, loss_fn=nn.functional.mse_loss)
        x = torch.arange(16.0).view(4, 4)
        schedule.step(x, target=torch.zeros(4, 4))
        model.monitor.track(0)
        assert model.monitor.get_output()["0"]["InputMean"][0] == x.mean().item()
    finally:
        dist.destroy_process_group()
