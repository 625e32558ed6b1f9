"""Forwards in a module's namespace: put, taken off, covered, copied."""

import copy
import inspect
import pickle

import torch
from torch import nn

import taiyi_fx
from taiyi_fx.passes.override import (
    ForwardOverride,
    drop_copies,
    entry_of,
    forward_of_class,
    put_all,
    take_off_all,
)


def test_a_copy_of_a_part_gets_its_own_forward():
    """Exponential averages and momentum encoders copy parts of an instrumented model."""
    model = taiyi_fx.instrument(
        nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.ReLU())), {nn.Linear: ["InputSndNorm"]}
    )
    for part in (copy.deepcopy(model[0]), pickle.loads(pickle.dumps(model[0]))):
        with torch.no_grad():
            part[0].weight.fill_(7)
        x = torch.ones(1, 2)
        assert torch.allclose(part(x), part[0].bias + 14)
        assert not torch.equal(model(x), part(x))
        assert part[0].weight is not model[0][0].weight


class Doubled(ForwardOverride):
    def __call__(self, *args, **kwargs):
        return 2 * self.original_forward()(*args, **kwargs)


def test_one_that_is_put_runs_around_the_modules_own_until_it_is_taken_off():
    layer, x = nn.Linear(2, 2), torch.randn(3, 2)
    expected, override = layer(x), Doubled(layer)
    override.put()
    assert torch.equal(layer(x), 2 * expected)
    override.take_off()
    assert torch.equal(layer(x), expected)
    assert "forward" not in vars(layer)


def test_two_are_taken_off_in_any_order():
    layer, x = nn.Linear(2, 2), torch.randn(3, 2)
    lower, upper = Doubled(layer), Doubled(layer)
    lower.put()
    upper.put()
    expected = layer(x)
    lower.take_off()
    assert torch.equal(2 * layer(x), expected)
    upper.take_off()
    assert "forward" not in vars(layer)


def test_one_shows_the_attributes_of_the_forward_that_it_stands_for():
    """Models ask a part's forward for the names of its arguments."""
    layer = nn.Linear(2, 2)
    plain, override = layer.forward, Doubled(layer)
    override.put()
    assert layer.forward is override
    assert override.__func__ is nn.Linear.forward
    names = (
        "__self__ __code__ __name__ __qualname__ __defaults__ __annotations__ __doc__ __module__"
    )
    for name in names.split():
        assert getattr(override, name) == getattr(plain, name), name
    assert not hasattr(override, "__wrapped__")
    layer.forward = own = lambda x, scale=2: x * scale
    covering = Doubled(layer)
    covering.put()
    assert covering.__defaults__ == (2,)
    assert covering.__code__ is own.__code__
    assert covering.__module__ == own.__module__
    assert covering.__doc__ is None
    assert list(inspect.signature(layer.forward).parameters) == ["x", "scale"]
    covering.take_off()
    assert covering.__doc__ == plain.__doc__


def test_what_somebody_puts_around_one_stays_and_leads_to_the_modules_own():
    layer, x = nn.Linear(2, 2), torch.randn(3, 2)
    expected, override = layer(x), Doubled(layer)
    override.put()
    inner = layer.forward
    layer.forward = around = lambda x: inner(x) + 1
    override.take_off()
    assert vars(layer)["forward"] is around
    assert torch.equal(layer(x), 2 * expected + 1)


def test_the_users_own_entry_is_seen_through_ours():
    layer = nn.Linear(2, 2)
    assert entry_of(layer) is None
    layer.forward = own = lambda x: x
    override = Doubled(layer)
    override.put()
    assert entry_of(layer) is own
    assert layer(3) == 6


def test_it_has_the_signature_of_the_forward_it_covers():
    layer = nn.Bilinear(2, 2, 2)
    assert inspect.signature(Doubled(layer)) == inspect.signature(layer.forward)


def test_a_copied_override_leaves_no_entry_behind():
    model = nn.Sequential(nn.Linear(2, 2))
    Doubled(model[0]).put()
    copied = copy.deepcopy(model)
    drop_copies(copied)
    assert "forward" not in vars(copied[0])
    assert forward_of_class(copied[0]).__self__ is copied[0]


def test_many_are_put_and_taken_off_as_each_of_them_is():
    """One module's own forward runs below, the user's entry of another, and a wrapper of a third."""
    layers, x = [nn.Linear(2, 2) for _ in range(3)], torch.randn(3, 2)
    own = layers[1].forward = lambda x: x + 1
    overrides = [Doubled(layer) for layer in layers]
    put_all(overrides)
    assert torch.equal(layers[0](x), 2 * forward_of_class(layers[0])(x))
    assert torch.equal(layers[1](x), 2 * (x + 1))
    below = layers[2].forward
    wrapper = layers[2].forward = lambda x: -below(x)
    take_off_all(overrides)
    assert "forward" not in vars(layers[0])
    assert vars(layers[1])["forward"] is own
    put_all(overrides)
    assert vars(layers[2])["forward"] is wrapper
    assert torch.equal(layers[2](x), -2 * forward_of_class(layers[2])(x))
    take_off_all(overrides)
    assert vars(layers[2])["forward"] is wrapper


def test_a_forward_may_be_an_object_that_is_called():
    class Doubles:
        def __call__(self, x):
            return 2 * x

    class Layer(nn.Module):
        forward = Doubles()

    layer, x = Layer(), torch.ones(2)
    override = ForwardOverride(layer)
    override.put()
    assert torch.equal(layer(x), 2 * x)
    override.take_off()
    instrumented = taiyi_fx.instrument(nn.Sequential(layer), {"0": ["OutputRMS"]})
    assert torch.equal(instrumented(x), 2 * x)
