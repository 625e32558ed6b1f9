"""Tensors of classes of their own, as loaders of MONAI or torchvision give them."""

from typing import ClassVar

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor

import taiyi_fx

CFG = {nn.Module: ["InputSndNorm", "OutputRMS", "OutputGradSndNorm"], "fc": ["BackwardInput"]}


class Labelled(torch.Tensor):
    """Carries what it is from call to call, and counts what it is asked."""

    asked = 0

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.asked += 1
        made = super().__torch_function__(func, types, args, kwargs or {})
        if isinstance(made, cls):
            carried = (getattr(a, "label", None) for a in args if isinstance(a, cls))
            made.label = next((label for label in carried if label), None)
        return made


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.act, self.head = nn.ReLU(inplace=True), nn.Linear(4, 4)

    def forward(self, x):
        return self.head(self.act(self.norm(self.fc(x))))


class Python(InPlace):
    def forward(self, x):
        return super().forward(x if x.shape[0] < 100 else -x)


def batch():
    torch.manual_seed(1)
    x = torch.randn(3, 4).requires_grad_().as_subclass(Labelled)
    x.label = "scan 7"
    return x


@pytest.mark.parametrize("kind", [InPlace, Python])
def test_they_are_read_before_in_place_operations_and_stay_what_they_are(kind):
    torch.manual_seed(0)
    plain = kind()
    torch.manual_seed(0)
    probed = taiyi_fx.instrument(kind(), CFG)
    for step in range(2):  # the first forward is looked at more closely
        found = []
        for model in (plain, probed):
            made = model(batch())
            assert type(made) is Labelled
            assert made.label == "scan 7"
            made.square().sum().backward()
            found.append(
                [made.detach().as_subclass(torch.Tensor), *(p.grad for p in model.parameters())]
            )
        probed.monitor.track(step)
        assert all(map(torch.equal, *found))
    assert not probed.monitor.missing
    values = probed.monitor.get_output()
    hidden = plain.fc(batch().as_subclass(torch.Tensor))
    normed = plain.norm(hidden).detach().requires_grad_()
    plain.head(normed.relu()).square().sum().backward()
    true = normed.grad.norm().item()
    assert values["norm"]["OutputGradSndNorm"][1] == pytest.approx(true, rel=1e-5)
    assert type(values["fc"]["BackwardInput"][1]) is torch.Tensor


class Watched(torch.Tensor):
    """Is told of each function of torch that is called with it."""

    log: ClassVar[list[str]] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.log.append(getattr(func, "__name__", ""))
        return super().__torch_function__(func, types, args, kwargs)


class Attends(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.fc = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 8)

    def forward(self, x):
        y, weights = self.inner(x, x, x)
        q = self.fc(y) if weights.sum() > 0 else y
        return F.scaled_dot_product_attention(q, x, x).neg().relu_()


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
@pytest.mark.parametrize(
    "cfg",
    [
        None,
        {"*": ["BackwardInput", "OutputGradRMS", "PerSampleGradNorm", "AttentionEntropy"]},
        {"*": ["ForwardInput", "InputCovMaxEig", "OutputRMS", "ForwardTime", "HeadNorm"]},
    ],
    ids=["preset", "gradients", "values"],
)
def test_a_class_is_told_of_nothing_of_ours(cfg):
    def told(model, run):
        told = []
        for step in range(3):
            x = torch.randn(2, 3, 8, requires_grad=True).as_subclass(Watched)
            Watched.log.clear()
            run(x).square().sum().backward()
            told.append([*Watched.log])
            if run is not model:
                run.monitor.track(step)
        return told

    model = nn.Sequential(Attends(), nn.LayerNorm(8), Attends())
    expected = told(model, model)
    assert told(model, taiyi_fx.instrument(model, cfg)) == expected


class InBetween(nn.Module):
    """Gives a part a tensor of a class whose operations are tensors of that class."""

    def __init__(self):
        super().__init__()
        self.first, self.part = nn.Linear(4, 4), nn.Linear(4, 4)
        self.part.weight = nn.Parameter(TwoTensor(torch.randn(4, 4), torch.randn(4, 4)))

    def forward(self, x):
        both = self.part(TwoTensor(x, x + 1))
        return self.first(both.a + both.b)


@pytest.mark.parametrize("cfg", [None, {"*": ["OutputAbsMax", "OutputRMS", "WeightNorm"]}])
def test_what_such_a_class_makes_of_a_statistic_takes_no_other_with_it(cfg):
    model = InBetween()
    watched = taiyi_fx.instrument(model, *([] if cfg is None else [cfg]))

    def step(number):
        watched(torch.randn(2, 4)).sum().backward()
        watched.monitor.track(number)

    with pytest.warns(taiyi_fx.MonitorWarning, match="OutputAbsMax of 'part': TypeError: .*a Two"):
        step(0)
    step(1)
    step(2)
    steps = [r.step for r in watched.monitor.records if r.quantity == "OutputAbsMax"]
    assert {0, 1, 2} <= set(steps)
    assert isinstance(watched.monitor.findings, list)
