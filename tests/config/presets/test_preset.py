"""A preset is a declaration: it shows what it asks for, and is a list of its parts."""

import pickle

from torch import nn

from taiyi_fx.config.presets import Part, Preset, Presets

LINEARS = Part("linears", lambda name, module: isinstance(module, nn.Linear), (["WeightNorm", "every(3)"], "OutputRMS"))  # fmt: skip


def test_it_says_for_which_models_it_is_and_what_it_asks_for():
    made = Preset("mine", "my models", (LINEARS,))
    assert repr(made) == "mine: for my models\n  linears: WeightNorm every(3), OutputRMS"
    assert repr(Presets([made, made])) == f"{made!r}\n\n{made!r}"


def test_it_is_a_list_of_its_parts():
    assert [*Preset("mine", "my models", (LINEARS,))] == [LINEARS]
    assert LINEARS.quantities == ["WeightNorm", "OutputRMS"]


def test_the_stock_travels():
    from taiyi_fx.config.presets import PRESETS

    assert pickle.loads(pickle.dumps(PRESETS)) == PRESETS
