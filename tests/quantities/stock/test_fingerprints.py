"""Two runs part where fingerprints first differ."""

import pytest
import torch
from torch import nn

import taiyi_fx

NAMES = [
    "Fingerprint",
    "InputFingerprint",
    "OutputGradFingerprint",
    "ParameterFingerprint",
    "ParameterGradFingerprint",
]


def recorded(change=lambda model: None, compiler=None):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    change(net)
    model = taiyi_fx.instrument(net, {"Linear": NAMES}, strict=True)
    call = model if compiler is None else torch.compile(model, backend=compiler, fullgraph=True)
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(1))
    for part in x.split(3):
        call(part).square().sum().backward()
    model.monitor.track(0)
    return {(r.module, r.quantity): r.value for r in model.monitor.records}


def test_equal_trainings_have_equal_ones():
    found = recorded()
    assert found == recorded()
    assert len(found) == 2 * 2 * (3 + 2 * 2)


def test_one_bit_of_one_weight_is_seen_there_and_behind_it():
    def flip(model):
        with torch.no_grad():
            model[2].weight.view(torch.int32)[1, 3] ^= 1 << 20

    one, other = recorded(), recorded(flip)
    parted = [name for name in one if one[name] != other[name]]
    assert ("2", "ParameterFingerprint.weight.low") in parted
    assert ("2", "Fingerprint.low") in parted
    assert not [name for name in parted if name[0] == "0" and not name[1].startswith(("Output", "ParameterGrad"))]  # fmt: skip


def test_the_tensor_at_hand_has_the_recorded_one():
    found, (x, *_) = recorded(), torch.randn(5, 4, generator=torch.Generator().manual_seed(1)).split(5)  # fmt: skip
    whole = taiyi_fx.fingerprint(x)
    assert found["0", "InputFingerprint.high"] == whole >> 32
    assert found["0", "InputFingerprint.low"] == whole % 2**32


@pytest.mark.parametrize("compiler", ["aot_eager"])
def test_compiled_code_records_them_too(compiler):
    found = recorded(compiler=compiler)
    assert found == recorded()
