"""Gradients of the uses of a tensor in one call."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from taiyi_fx.passes.probes.eager_taps import PARAMETER
from taiyi_fx.passes.probes.held import NOT_REACHED
from taiyi_fx.passes.probes.uses import begin_uses, end_uses
from taiyi_fx.passes.structure import Call
from taiyi_fx.reductions import Raw
from tests.passes.probes.given import group_of, slot_of


def read(function, x, given=None, keepers=()):
    """The slot that takes the gradient of a function's uses, and the function's result."""
    slot = slot_of("input_grad", Raw())
    begin_uses(x, x, (group_of(slot),))
    y = function(x)
    end_uses(y, given, keepers, (group_of(slot),))
    return slot, y


def inputs():
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    return w, w * 1


def g_of(slot):
    return slot.state[0].flatten().tolist()


@pytest.mark.parametrize(
    ("function", "g"),
    [
        (lambda x: 3 * x, [3, 3]),
        (lambda x: x * x, [2, 4]),
        (lambda x: 2 * x + (5 * x).exp() * 0 + x, [3, 3]),
        (lambda x: torch.stack([x, x, 4 * x]), [6, 6]),
        (lambda x: x * torch.ones(3, 1), [3, 3]),
        (lambda x: x.double() * 2, [2, 2]),
        (lambda x: {"a": [x.unbind()[0]]}["a"][0], [1, 0]),
    ],
)
@pytest.mark.parametrize("is_leaf", [True, False])
def test_the_gradient_is_that_of_the_uses_within_the_call(function, g, is_leaf):
    w, x = inputs()
    x = w if is_leaf else x
    slot, y = read(function, x)
    (y.sum() + 100 * x.sum()).backward()
    assert g_of(slot) == g
    assert slot.state[0].dtype is torch.float32
    assert torch.equal(w.grad, torch.tensor(g) + 100.0)


def test_nothing_is_put_in_the_path_and_no_number_moves():
    _, x = inputs()
    _slot, y = read(lambda x: x.sin() * x, x)
    mul = y.grad_fn
    assert mul.next_functions[1][0] is x.grad_fn
    assert mul.next_functions[0][0].next_functions == ((x.grad_fn, 0),)
    assert x._backward_hooks is None


def test_the_gradient_of_what_is_handed_on_is_that_of_all_its_uses():
    _, x = inputs()
    slot, y = read(lambda x: x, x)
    (3 * y + 5 * x).sum().backward()
    assert g_of(slot) == [8, 8]


def test_a_hook_on_a_leaf_that_is_handed_on_is_the_slots_to_remove():
    w, _ = inputs()
    slot, y = read(lambda x: x, w)
    (3 * y).sum().backward()
    assert g_of(slot) == [3, 3]
    slot.clear()
    assert not w._backward_hooks


def test_a_change_in_place_is_a_use():
    _, x = inputs()

    def change(x):
        y = 3 * x
        x.mul_(10)
        return y

    slot, y = read(change, x, given=[x])
    (y + x).sum().backward()
    assert g_of(slot) == [13, 13]


@pytest.mark.parametrize("keep", [lambda x: x, lambda x: [x], lambda x: {"loss": x}])
def test_what_a_part_keeps_as_an_attribute_counts(keep):
    class Keeps(nn.Module):
        def forward(self, x):
            self.kept = keep((7 * x).sum())
            return 3 * x

    module, (_, x) = nn.Sequential(Keeps()), inputs()
    slot, y = read(module, x, keepers=(module,))
    kept = module[0].kept
    loss = kept if isinstance(kept, torch.Tensor) else next(iter(kept.values() if isinstance(kept, dict) else kept))  # fmt: skip
    (y.sum() + loss).backward()
    assert g_of(slot) == [10, 10]


def test_other_arguments_that_another_thread_made_are_no_uses_of_the_call():
    for _ in range(100):  # numbers of this thread, far beyond those of a new one
        _, x = inputs()
    y = 5 * x + 1
    slot = slot_of("input_grad", Raw())

    def call():
        begin_uses(x, Call((x, y), {}), (group_of(slot),))
        z = 3 * x + y
        end_uses(z, None, (), (group_of(slot),))
        return z

    with ThreadPoolExecutor(1) as pool:
        pool.submit(call).result().sum().backward()
    assert g_of(slot) == [3, 3]


def test_what_is_not_in_a_backward_does_not_count():
    _, x = inputs()
    slot, (a, _b) = read(lambda x: (3 * x, 5 * x), x)
    a.sum().backward()
    assert g_of(slot) == [3, 3]


def test_several_backwards_are_read_as_their_sum():
    _, x = inputs()
    slot, (a, b) = read(lambda x: (3 * x, 5 * x + x), x)
    a.sum().backward(retain_graph=True)
    b.sum().backward(retain_graph=True)
    assert slot.state is None
    (a + b).sum().backward()
    assert g_of(slot) == [18, 18]


def test_a_backward_that_failed_leaves_nothing_behind():
    _, x = inputs()
    slot, y = read(lambda x: 3 * x + x.sin() * 0, x)

    def fails(_):
        raise ValueError

    handle = x.grad_fn.register_prehook(fails)
    middle = y.grad_fn.next_functions[0][0].register_prehook(fails)
    with pytest.raises(ValueError):
        y.sum().backward(retain_graph=True)
    handle.remove()
    middle.remove()
    y.sum().backward()
    assert g_of(slot) == [3, 3]


@pytest.mark.parametrize(
    ("x", "grad", "why"),
    [
        (nn.Parameter(torch.ones(1)), True, PARAMETER),
        (torch.ones(1), True, "the tensor there does not require a gradient"),
        (torch.ones(1, requires_grad=True) * 1, False, "under torch.no_grad"),
        (torch.ones(1, requires_grad=True) * 1, True, NOT_REACHED),
    ],
)
def test_where_no_gradient_comes_the_slot_says_why(x, grad, why):
    with torch.set_grad_enabled(grad):
        slot, _ = read(lambda x: x.detach() * 2, x)
    assert why in slot.note


def test_a_graph_that_no_backward_goes_through_is_let_go():
    _, x = inputs()
    _slot, y = read(lambda x: x.sin() + x.exp(), x)
    node = y.grad_fn
    node.metadata["kept"] = kept = nn.Module()
    is_alive = weakref.ref(kept)
    del kept, node, y, x
    gc.collect()
    assert is_alive() is None
