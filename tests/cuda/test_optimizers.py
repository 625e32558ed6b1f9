"""The optimizer's state and steps on a device, in each form of Adam, equal those of float64."""

import pytest
import torch
from torch import nn

import taiyi_fx
from tests.quantities.references.optimizer import adam_step, lost, moment, root_mean_square

ALL = ["FirstMoment", "SecondMoment", "EffectiveStep", "UpdateLost"]
FORMS = ["single", "foreach", "fused", "capturable", "capturable with a tensor as rate"]


def adam(model, form, device):
    capturable = form.startswith("capturable")
    if capturable and not device.is_cuda:
        pytest.skip("it is for GPUs")
    rate = torch.tensor(1e-4, device=device.kind) if "tensor" in form else 1e-4
    options = {"capturable": True} if capturable else {form: True} if form != "single" else {}
    return torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0, **options)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("offloaded", [False, True], ids=["there", "offloaded"])
def test_state_is_read_in_each_form_and_wherever_it_is(device, form, dtype, offloaded):
    if offloaded and "capturable" in form:
        pytest.skip("such state stays on its device")
    model = device.move(nn.Linear(64, 32)).to(dtype)
    optimizer = adam(model, form, device)
    watched = taiyi_fx.instrument(model, {"": ALL}, optimizer=optimizer)
    for _ in range(3):
        x = device.randn(16, 64).to(dtype)
        watched(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    for state in optimizer.state.values() if offloaded else ():
        state.update({k: v.cpu() for k, v in state.items() if k != "step"})
    watched.monitor.track(0)
    found = {name: of[0] for name, of in watched.monitor.get_output()[""].items()}
    for name, p in model.named_parameters():
        state = {k: v.cpu() for k, v in optimizer.state[p].items()}
        u = adam_step(state, optimizer.param_groups[0])
        near = pytest.approx
        assert found[f"FirstMoment.{name}"] == near(moment(state, "exp_avg", 0.9), rel=1e-5)
        assert found[f"SecondMoment.{name}"] == near(moment(state, "exp_avg_sq", 0.999), rel=1e-5)
        assert found[f"EffectiveStep.{name}"] == near(root_mean_square(u), rel=1e-5)
        if dtype is torch.bfloat16:
            assert found[f"UpdateLost.{name}"] == near(lost(p.detach().cpu(), u), abs=1e-2)
