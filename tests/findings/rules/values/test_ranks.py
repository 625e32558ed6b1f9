"""Outputs that lie along one direction."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx
from taiyi_fx.findings.facts.attributes import attributes_of
from taiyi_fx.findings.rules.values.ranks import rank_collapses
from tests.findings.given import evidence, knowing


def of(odd, **others):
    numbers = {(f"h.{i}.fc", "ParticipationRatio"): 6.0 for i in range(4)}
    return evidence({**numbers, ("h.2.fc", "ParticipationRatio"): odd, **others})


@pytest.mark.parametrize(
    ("odd", "step"),
    [(1.0, 0), (np.linspace(1, 5, 40), 0), (np.where(np.arange(40) < 10, 6.0, 1.0), 10)],
    ids=["always", "in the beginning", "at the end"],
)
def test_one_among_siblings_is_named_with_the_step(odd, step):
    (found,) = rank_collapses(of(odd))
    assert (found.module, found.severity, found.step) == ("h.2.fc", "warning", step)


def test_a_few_steps_in_between_are_none():
    assert [*rank_collapses(of(np.where(np.arange(40) == 20, 1.0, 6.0)))] == []


def test_a_first_batch_of_two_rows_is_none():
    assert [*rank_collapses(of([1.0, 4.1, 5.7, 6.0]))] == []


def test_a_call_of_a_module_whose_other_calls_vary_is_none():
    numbers = {(f"up@{i}" if i else "up", "ParticipationRatio"): 3.0 for i in range(6)}
    assert [*rank_collapses(evidence({**numbers, ("up@4", "ParticipationRatio"): 1.0}))] == []


def test_one_of_few_features_has_no_more_directions():
    numbers = {(f"{i}", "ParticipationRatio"): 6.0 for i in range(4)}
    numbers |= {("3", "ParticipationRatio"): 1.0}
    assert len([*rank_collapses(evidence(numbers))]) == 1
    numbers |= {("3", "ParameterNorm.bias"): 0.2, ("3", "ParameterRMS.bias"): 0.2}
    assert [*rank_collapses(evidence(numbers))] == []
    numbers |= {("3@1", "ParticipationRatio"): 1.0}  # nor has a later call of it
    assert [*rank_collapses(evidence(numbers))] == []


@pytest.mark.parametrize(("channels", "count"), [(1, 0), (8, 1)])
def test_a_convolution_has_the_directions_of_its_output(channels, count):
    """A transposed one has them on the second axis of its weight."""
    numbers = {(f"{i}", "ParticipationRatio"): 6.0 for i in range(4)}
    known = evidence({**numbers, ("3", "ParticipationRatio"): 1.0})
    layers = {"3": nn.ConvTranspose2d(16, channels, 3, bias=False)}
    assert len([*rank_collapses(knowing(known, attributes=attributes_of(layers)))]) == count


def test_an_output_that_is_the_same_for_all_rows_is_named_first():
    numbers = {(f"h.{i}", "OutputRMS"): 1.0 for i in range(4)}
    numbers |= {(f"h.{i}", "ParticipationRatio"): np.nan if i > 1 else 4.0 for i in range(4)}
    (found,) = rank_collapses(evidence(numbers))
    assert (found.module, found.kind) == ("h.2", "rank_collapse")
    numbers |= {(f"h.{i}", "ParticipationRatio"): np.nan for i in range(4)}
    assert [*rank_collapses(evidence(numbers))] == []  # a batch of one row


class Mean(nn.Module):
    """Two layers for each place, and one for the mean over places."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.b(torch.tanh(self.a(x))).mean(1))


@pytest.mark.parametrize(("samples", "is_told"), [(1, False), (2, True)])
def test_of_the_only_row_of_a_batch_of_one_sample_nothing_is_said(samples, is_told):
    torch.manual_seed(0)
    model = taiyi_fx.instrument(Mean())
    for step in range(6):
        x = torch.randn(1, 5, 4).expand(samples, 5, 4)
        F.cross_entropy(model(x), torch.ones(samples, dtype=torch.long)).backward()
        model.monitor.track(step)
    found = [one.module for one in model.monitor.findings if one.kind == "rank_collapse"]
    assert found == ["head"] * is_told


@pytest.mark.parametrize(("norm", "is_told"), [(0.8, False), (6.4, True)], ids=["one", "many"])
def test_of_one_output_nothing_is_said_though_no_bias_tells_how_many_there_are(norm, is_told):
    numbers = {}
    for i, size in enumerate([8.0, 8.0, 1.0]):
        numbers[str(i), "ParticipationRatio"] = size
        numbers[str(i), "WeightNorm"] = norm if i == 2 else 6.4
        numbers[str(i), "ParameterRMS.weight"] = 0.1
    found = [one.module for one in rank_collapses(evidence(numbers))]
    assert found == (["2"] if is_told else [])


def rank(values):
    return [*rank_collapses(evidence({("fc", "WeightStableRank"): values}))]


def test_a_weight_that_comes_to_one_direction_is_named_from_the_step_on():
    (found,) = rank(np.where(np.arange(40) < 10, 12.0, 1.01))
    assert (found.kind, found.severity, found.step) == ("rank_collapse", "warning", 10)
    assert "the weight of 'fc' has one direction from here on (a stable rank of 1.01)" in found.text


@pytest.mark.parametrize(
    "values",
    [
        1.0,  # a matrix of one column
        np.where(np.arange(40) < 10, 12.0, 1.3),
        np.where(np.arange(40) < 30, 12.0, 1.0),
        np.where(np.arange(40) < 10, np.nan, 1.0),  # it began at zero
    ],
)
def test_weights_of_few_directions_are_none(values):
    assert rank(values) == []


@pytest.mark.parametrize("is_planted", [False, True])
def test_a_gradient_that_points_one_way_is_found_in_a_training(is_planted):
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(16, 16) for _ in range(4)))
    if is_planted:
        model[2].weight.register_hook(lambda g: g - 0.5)  # the fault
    cfg = {"Linear": ["WeightStableRank"]}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watched = taiyi_fx.instrument(model, cfg, optimizer=optimizer)
    for step in range(80):
        x = torch.randn(32, 16)
        F.mse_loss(watched(x).tanh(), x.tanh()).backward()
        watched.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    found = [(one.kind, one.module) for one in watched.monitor.findings]
    assert found == ([("rank_collapse", "2")] if is_planted else [])


def test_a_weight_that_is_zero_has_no_rank_and_is_no_finding():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    nn.init.zeros_(model[1].weight)  # as of LoRA
    watched = taiyi_fx.instrument(model, {"Linear": ["WeightStableRank"]})
    watched(torch.randn(8, 4)).sum().backward()
    watched.monitor.track(0)
    assert watched.monitor.findings == []


def test_directions_that_are_lost_from_one_module_to_the_next_are_named():
    numbers = {
        (f"h.{i}.up", "ParticipationRatio"): [x] * 3 for i, x in enumerate((8.0, 7.0, 1.2, 1.4))
    }
    (found,) = rank_collapses(evidence(numbers))
    assert (found.kind, found.module) == ("rank_collapse", "h.2.up")
    assert "varies along 1.2 directions, that of 'h.1.up' before it along 7" in found.text


@pytest.mark.parametrize(("first", "is_told"), [(0.01, False), (0.6, True)])
def test_the_classes_of_a_trained_model_may_have_become_directions(first, is_told):
    numbers = {
        (f"h.{i}.up", "ParticipationRatio"): [x] * 3 for i, x in enumerate((8.0, 7.0, 1.2, 1.4))
    }
    known = knowing(evidence({("", "loss"): [first] * 9, **numbers}), classes={"loss": 2})
    assert bool([*rank_collapses(known)]) == is_told


@pytest.mark.parametrize("ratios", [(8.0, 4.0, 1.4, 1.2), (8.0, 7.0, 2.0, 1.4), (8.0, 1.2)])
def test_directions_that_are_lost_little_by_little_are_none(ratios):
    numbers = {(f"h.{i}.up", "ParticipationRatio"): [x] * 3 for i, x in enumerate(ratios)}
    assert [*rank_collapses(evidence(numbers))] == []


@pytest.mark.parametrize(
    ("ratios", "is_lost"),
    [
        ([(4.0, 4.0, 4.0), (1.2, 1.1, 1.4)], True),
        ([(4.0, 2.0, 4.0), (1.2, 1.1, 1.1)], False),
        ([(4.0, 4.0, 4.0), (1.2, 1.4, 1.1)], False),
    ],
)
def test_fewer_directions_may_be_lost_at_the_first_numbers(ratios, is_lost):
    numbers = {(f"h.{i}.up", "ParticipationRatio"): [4.0] * 3 for i in range(2)}
    numbers |= {(f"h.{i + 2}.up", "ParticipationRatio"): x for i, x in enumerate(ratios)}
    numbers |= {(f"h.{i}.up", "ParameterNorm.bias"): 4.0 for i in range(4)}
    numbers |= {(f"h.{i}.up", "ParameterRMS.bias"): 1.0 for i in range(4)}
    assert bool([*rank_collapses(evidence(numbers))]) == is_lost


def of_the_same(shapes, calls=()):
    """Modules of which one returns the same for all rows, with the shapes of what they are given."""
    numbers = {(name, "ParticipationRatio"): 3.0 for name in ("norm", "mlp", *calls)}
    numbers |= {("q", "ParticipationRatio"): np.nan, ("q", "OutputRMS"): 1.0}
    numbers |= {(name, "OutputRMS"): 1.0 for name in ("norm", "mlp", *calls)}
    known = evidence({("norm", "OutputRMS"): 1.0, ("norm", "ParticipationRatio"): 3.0} | numbers)
    known = knowing(known, shape_before=lambda module: shapes.get(module, ""))
    return [one.module for one in rank_collapses(known)]


def test_a_token_of_a_class_begins_as_one_for_all_samples():
    shapes = dict.fromkeys(("norm", "mlp", "q"), "8×17×48")
    assert of_the_same(shapes) == ["q"]
    assert of_the_same({}) == ["q"]
    for shape in ("8×1×48", "1×1×48"):
        assert of_the_same({name: shape if name == "q" else "8×17×48" for name in shapes}) == []


def test_the_first_call_may_be_given_a_state_of_zeros():
    assert of_the_same({}, calls=["q@1"]) == []


@pytest.mark.parametrize(("behind", "told"), [(3.0, []), (np.nan, ["q"])])
def test_a_query_of_a_token_alone_is_the_same_where_samples_differ_behind_it(behind, told):
    """As in CaiT and XCiT, which hand the token on without an axis of its own."""
    sizes = {"norm": 3.0, "q": np.nan, "proj": behind}
    numbers = {(name, "OutputRMS"): 1.0 for name in sizes}
    numbers |= {(name, "ParticipationRatio"): value for name, value in sizes.items()}
    shapes = {"norm": "8×17×48", "q": "8×48", "proj": "8×1×48"}
    known = knowing(evidence(numbers), shape_before=shapes.__getitem__)
    assert [one.module for one in rank_collapses(known)] == told


class Denoiser(nn.Module):
    def __init__(self, of_time):
        super().__init__()
        self.of_time = of_time
        self.enter, self.time, self.leave = nn.Linear(4, 8), nn.Linear(1, 8), nn.Linear(8, 4)

    def forward(self, x, time):
        return self.leave(self.enter(x) + self.time(self.of_time(time)))


@pytest.mark.parametrize(
    ("of_time", "time", "ending"),
    [
        (
            lambda time: torch.full_like(time, 0.5).sin(),
            torch.rand(8, 1),
            ", as it is given what `full_like` makes of 'time', of which only the shape is used",
        ),
        (
            lambda time: time.mean(0, keepdim=True).expand(8, 1).sin(),
            torch.rand(8, 1),
            ", as what it is given is already, by the operations `mean` and `sin` of the model's "
            "input 'time'",
        ),
        (
            lambda time: time,
            torch.ones(8, 1),
            ", as the model's input 'time', which it is given, is already",
        ),
    ],
    ids=["a constant", "a mean", "the input"],
)
def test_a_layer_that_is_given_one_row_is_told_with_what_makes_it_so(of_time, time, ending):
    torch.manual_seed(0)
    cfg = {"Linear": ["ParticipationRatio", "OutputRMS", "WeightNorm"]}
    model = taiyi_fx.instrument(Denoiser(of_time), cfg)
    for step in range(3):
        model(torch.randn(8, 4), time).square().mean().backward()
        model.monitor.track(step)
    (found,) = model.monitor.findings
    assert (found.kind, found.module) == ("rank_collapse", "time")
    assert found.text == f"the output of 'time' is the same for all rows of a batch{ending}"
    assert "what makes its input" in found.advice
    model.monitor.close()


def test_a_module_that_may_make_rows_the_same_by_itself_is_not_said_to_be_given_them():
    numbers = {("a", "ParticipationRatio"): 3.0, ("a", "OutputRMS"): 1.0}
    numbers |= {("act", "ParticipationRatio"): np.nan, ("act", "OutputRMS"): 1.0}
    (found,) = rank_collapses(evidence(numbers))
    assert found.text == "the output of 'act' is the same for all rows of a batch"
    assert "saturates" in found.advice
