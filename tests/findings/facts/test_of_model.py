"""Facts about a model that no number tells."""

from torch import nn

from taiyi_fx.findings.facts.of_model import (
    batch_axes_of,
    evaluates,
    frozen_of,
    hooks_of,
    idle_switches_of,
    owners_of,
    repeated_in,
)


def test_no_code_of_the_model_is_run():
    class Own(nn.Linear):
        def parameters(self, recurse=True):
            raise RuntimeError("ours alone")

    layer = Own(2, 2)
    layer.around = around = nn.ModuleList([layer, layer])  # a circle
    modules = {"": around, "0": layer}
    assert frozen_of(modules) == frozenset()
    assert repeated_in(modules) == {"": 2}


def test_hooks_before_and_behind_a_forward_are_named():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())

    def scale(module, args, out):
        return 2 * out

    model[1].register_forward_hook(scale)
    ((name, hooks),) = hooks_of(dict(model.named_modules())).items()
    assert name == "1"
    assert hooks[0].endswith("scale")


def test_entries_that_are_one_module_are_counted_where_they_have_parameters():
    shared, relu = nn.Linear(2, 2), nn.ReLU()
    model = nn.ModuleDict(
        {"a": nn.ModuleList([shared] * 3), "b": nn.Sequential(relu, shared, relu)}
    )
    assert repeated_in(dict(model.named_modules())) == {"a": 3}
    once = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))
    assert repeated_in(dict(once.named_modules())) == {}


def test_layers_say_which_axis_is_that_of_the_batch():
    model = nn.ModuleList([nn.GRU(2, 2), nn.MultiheadAttention(2, 1, batch_first=True), nn.ReLU()])
    assert batch_axes_of(dict(model.named_modules())) == {"0": 1, "1": 0}


def test_a_model_without_anything_in_training_mode_says_what_acts_otherwise():
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.0), nn.BatchNorm1d(2))
    modules = dict(model.named_modules())
    assert evaluates(modules) == ""
    model.eval()
    assert evaluates(modules) == "BatchNorm1d"
    model[0].train()
    assert evaluates(modules) == ""
    assert evaluates({"": nn.BatchNorm1d(2, track_running_stats=False).eval()}) == ""


def test_modules_that_are_frozen_are_those_without_a_parameter_that_is_trained():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
    model[0].requires_grad_(False)
    model[1].weight.requires_grad_(False)
    assert frozen_of(dict(model.named_modules())) == {"0"}


def test_the_owner_of_a_parameter_is_the_first_module_that_has_it():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    owners = owners_of(dict(model.named_modules()))
    assert owners[id(model[1].weight)] == "0"
    assert owners[id(model[1].bias)] == "1"


def test_attributes_that_freeze_nothing_and_train_nothing_are_known():
    model = nn.ModuleDict({name: nn.Sequential(nn.Linear(2, 2)) for name in "abcd"})
    model["a"].requires_grad = False  # though all in it are trained
    model["b"].requires_grad_(False).requires_grad = True
    model["c"].requires_grad_(False).requires_grad = False  # as it is
    model["d"][0].weight.require_grad = False
    model["d"][0].bias.is_decayed = False
    model["e"] = nn.ReLU()
    model["e"].requires_grad = False
    assert idle_switches_of(dict(model.named_modules())) == {
        "a": "requires_grad = False",
        "b": "requires_grad = True",
        "d.0.weight": "require_grad = False",
    }
    model["a"].around = nn.ModuleList([model["a"]])  # a circle
    assert "a" in idle_switches_of(dict(model.named_modules()))
