import pytest
import torch
from torch import nn

import taiyi_fx
from taiyi_fx import output, quantity


def declared(**sources):
    return quantity("declared_here", **sources)


def test_a_quantity_of_ones_own_is_usable_by_name_and_by_object():
    @quantity(xx=output.square_sum, n=output.count)
    def output_rms(xx, n):
        """Root mean square over all elements."""
        return (xx / n).sqrt()

    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(3, 4)), {"0": ["output_rms"], "Linear": [output_rms.at(taiyi_fx.every(1))]})  # fmt: skip
    y = model(torch.randn(5, 3))
    model.monitor.track(0)
    assert model.monitor.get_output()["0"]["output_rms"][0] == pytest.approx(
        y.square().mean().sqrt().item()
    )
    assert output_rms(torch.tensor(8.0), 2) == 2


def test_a_wrong_parameter_name_fails_at_declaration():
    with pytest.raises(TypeError, match="takes 'xx', 'm', but the readings given are 'xx', 'n'"):

        @declared(xx=output.square_sum, n=output.count)
        def rms(xx, m):
            return xx / m


def test_what_is_no_reading_fails_at_declaration():
    with pytest.raises(TypeError, match="3 is not a reading"):

        @declared(xx=3)
        def rms(xx):
            return xx


def test_a_decorator_without_its_readings_says_what_it_takes():
    with pytest.raises(TypeError, match=r"such as @quantity\(norm=output.norm\)"):

        @quantity
        def forgotten(norm):
            return norm


def test_an_unknown_reduction_lists_those_there_are():
    with pytest.raises(
        AttributeError, match="no reduction is named 'variance'; known are norm, square_sum"
    ):
        output.variance  # noqa: B018


def test_a_taken_name_is_refused_and_a_cell_run_again_is_not():
    with pytest.raises(ValueError, match="a quantity named 'InputMean' exists already"):

        @quantity("InputMean", n=output.count)
        def mean(n):
            return n

    for _ in range(2):

        @quantity("again", n=output.count)
        def again(n):
            return n


def test_keyword_only_parameters_are_options_with_checked_types():
    @quantity("scaled_norm", norm=output.norm)
    def scaled_norm(norm, *, factor: float = 2.0):
        return norm * factor

    layer = nn.Sequential(nn.Linear(2, 2))
    with pytest.raises(taiyi_fx.ConfigError, match="option 'factor' must be a number, not 'two'"):
        taiyi_fx.instrument(layer, {"0": [["scaled_norm", "every(1)", {"factor": "two"}]]})
    model = taiyi_fx.instrument(
        layer, {"0": ["scaled_norm", scaled_norm.at(taiyi_fx.every(1), factor=10)]}
    )
    y = model(torch.randn(3, 2))
    model.monitor.track(0)
    found = model.monitor.get_output()["0"]
    assert found["scaled_norm"][0] == pytest.approx(2 * y.norm().item())
    assert found["scaled_norm(factor=10)"][0] == pytest.approx(10 * y.norm().item())


def test_a_reductions_parameter_can_be_fixed_and_is_then_no_option():
    source = output.moments(reduce="feature")
    assert "reduce" not in source.options
    assert "feature_axis" in source.options
    with pytest.raises(TypeError, match="Moments has no parameter 'reduc'"):
        output.moments(reduc="feature")


def test_a_quantity_may_have_several_parts():
    @quantity("extremes", m=output.moments)
    def extremes(m):
        return {"": m.mean, "n": m.n}

    model = taiyi_fx.instrument(nn.Sequential(nn.Linear(2, 2)), {"0": [extremes]})
    model(torch.randn(3, 2))
    model.monitor.track(0)
    assert model.monitor.get_output()["0"]["extremes.n"] == {0: 6}


def test_what_is_no_reduction_is_refused_where_it_is_given():
    class Half:
        def measure(self, x):
            return (x.sum(),)

        def finish(self, state):
            return state[0]

    with pytest.raises(TypeError, match="the reduction Half has no merge and no scale"):
        output.reduce(Half)
    with pytest.raises(TypeError, match="give the reduction's class, Norm, not an instance"):
        output.reduce(taiyi_fx.reductions.Norm())


def test_an_option_without_a_default_has_to_be_given():
    @declared(n=output.count)
    def share(n, *, k: float):
        return n / k

    with pytest.raises(ValueError, match="declared_here needs the option 'k'"):
        share.check_options({})
    share.check_options({"k": 2.0})


def test_a_module_that_only_holds_others_is_passed_over():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList([nn.Linear(2, 2)])

        def forward(self, x):
            return self.blocks[0](x)

    model = taiyi_fx.instrument(Model(), {nn.Module: ["InputSndNorm"]})
    assert {s.module for s in model.monitor.subscriptions} == {"", "blocks.0"}
    with pytest.raises(
        taiyi_fx.ConfigError, match="'blocks' \\(ModuleList\\) only holds its parts"
    ):
        taiyi_fx.instrument(Model(), {"blocks": ["InputSndNorm"]})


@pytest.mark.parametrize(
    ("facts", "error", "text"),
    [
        (
            {"health": "lastign"},
            ValueError,
            "there is no health rule 'lastign'. Did you mean 'lasting'",
        ),
        ({"unit": output.count}, TypeError, "unit is a string, not Source"),
        ({"accuracy": 1e-5}, TypeError, "accuracy is a string, not 1e-05"),
    ],
)
def test_facts_that_make_no_sense_fail_at_declaration(facts, error, text):
    with pytest.raises(error, match=text):

        @declared(n=output.count, **facts)
        def share(n):
            return n


def test_unit_accuracy_and_health_are_fields_and_nothing_of_the_documentation():
    @quantity("told", unit="share", accuracy="exact", health="lasting", n=output.count)
    def told(n):
        """A number.

        Unit: furlongs
        """
        return n

    assert (told.unit, told.accuracy, told.health) == ("share", "exact", "lasting")
    info = taiyi_fx.quantities()["told"]
    assert (info.unit, info.accuracy, info.health) == ("share", "exact", "lasting")


def test_a_quantity_is_its_reading_where_its_function_returns_that_as_it_is():
    @quantity("as it is", n=output.count)
    def same(n, *, p: int = 1):
        """A number."""
        return n

    @quantity("doubled", n=output.count)
    def doubled(n):
        return 2 * n

    @quantity("in parts", n=output.count)
    def parts(**n):
        return n

    assert same.is_its_reading
    assert not doubled.is_its_reading
    assert not parts.is_its_reading
