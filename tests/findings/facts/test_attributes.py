"""Settings of modules, by which siblings are compared."""

from torch import nn

from taiyi_fx.findings.facts.attributes import attributes_of


def test_settings_are_those_that_are_no_whole_numbers_and_the_names_of_parameters():
    model = nn.ModuleDict({"act": nn.LeakyReLU(0.2), "conv": nn.Conv2d(2, 3, 1, bias=False)})
    known = attributes_of(dict(model.named_modules()))
    assert known["act"].kind == "torch.nn.modules.activation.LeakyReLU"
    assert known["act"].settings == {"negative_slope": 0.2, "parameters": ""}
    conv = known["conv"].settings
    assert (conv["padding_mode"], conv["parameters"]) == ("zeros", "weight")
    assert "out_channels" not in conv


def test_the_mode_counts_where_it_changes_what_is_computed():
    model = nn.ModuleDict({"drop": nn.Dropout(), "norm": nn.BatchNorm1d(2), "fc": nn.Linear(2, 2)})
    model["norm"].eval()
    known = attributes_of(dict(model.named_modules()))
    modes = [known[name].settings.get("training") for name in ("drop", "norm", "fc")]
    assert modes == [True, False, None]


def test_linear_layers_say_their_features():
    model = nn.ModuleDict({"fc": nn.Linear(4, 3), "conv": nn.Conv1d(4, 3, 1)})
    known = attributes_of(dict(model.named_modules()))
    assert [known[name].features for name in ("fc", "conv")] == [(4, 3), (0, 0)]


def test_a_weight_that_is_a_buffer_is_no_parameter():
    layer = nn.Linear(2, 2)
    weight = layer.weight.detach()
    del layer.weight
    layer.register_buffer("weight", weight)
    assert attributes_of({"": layer})[""].settings["parameters"] == "bias"


class Asks(nn.Dropout):
    @property
    def training(self):
        raise AssertionError("the model's own code was run")

    @training.setter
    def training(self, value):
        pass


def test_a_mode_that_is_computed_is_not_asked_for():
    assert "training" not in attributes_of({"": Asks()})[""].settings


def test_whole_numbers_and_what_is_none_are_apart_from_settings():
    known = attributes_of({"conv": nn.Conv2d(2, 3, (1, 2), padding="same")})["conv"]
    assert known.numbers["out_channels"] == 3
    assert known.numbers["kernel_size"] == (1, 2)
    assert known.numbers["training"] is True
    assert not {"padding", "padding_mode", "_parameters"} & known.numbers.keys()
    assert attributes_of({"pool": nn.AdaptiveAvgPool2d((None, 2))})["pool"].numbers["output_size"]
