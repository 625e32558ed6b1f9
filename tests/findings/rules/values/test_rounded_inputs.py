"""Times since 1970 that are inputs of a model."""

import pytest
import torch
from torch import nn

import taiyi_fx

NOW = 1_718_000_000


class Clock(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 1)

    def forward(self, ts):
        phase = 2 * torch.pi * (ts.unsqueeze(-1) / 180).frac()
        return self.fc(torch.cat([phase.sin(), phase.cos()], -1).float())


@pytest.mark.parametrize(
    ("dtype", "since", "is_told"),
    [(torch.float32, NOW, True), (torch.float64, NOW, False), (torch.float32, 0, False)],
)
def test_seconds_since_1970_in_single_precision_are_told(dtype, since, is_told):
    model = Clock()
    model = taiyi_fx.instrument(model, optimizer=torch.optim.SGD(model.parameters(), 0.1))
    for step in range(4):
        ts = (since + torch.randint(0, 10**6, (32,))).to(dtype)
        loss = model(ts).square().mean()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
    found = [one for one in model.monitor.findings if one.kind == "rounded_input"]
    assert len(found) == is_told
    for one in found:
        assert "the model's input 'ts' is near 1.719e+09, as seconds since 1970 are" in one.text
        assert "128 apart there" in one.text
