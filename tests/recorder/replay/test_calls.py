"""Calls of the model as they were made."""

import torch

from taiyi_fx.recorder.replay.calls import Call, as_numbers, bad_arguments, prints_of


def test_the_output_is_known_by_its_bits_and_gradients_as_they_reached_it():
    call = Call((), {}, is_compiled=False)
    x = torch.ones(3, requires_grad=True)
    y, z = x * 2, x + 1
    call.end({"y": y, "z": z, "n": torch.arange(2)})
    (y.sum() + y.sum() * 2).backward()
    assert call.is_complete
    assert {i: g.tolist() for i, g in call.gradients.items()} == {0: [3.0, 3.0, 3.0]}
    assert tuple(map(as_numbers, call.outputs)) == prints_of([y, z, torch.arange(2)])
    assert prints_of([y]) != prints_of([torch.nextafter(y, 3 * y)])


def test_a_gradient_stays_as_it_came_whatever_becomes_of_those_of_parameters():
    call = Call((), {}, is_compiled=False)
    bias = torch.nn.Parameter(torch.zeros(3))
    y = torch.ones(3) + bias  # whose gradient is that of the bias itself
    call.end(y)
    (y * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    bias.grad.zero_()
    assert call.gradients[0].tolist() == [1.0, 2.0, 3.0]


def test_gradients_are_the_same_with_and_without_a_call_that_notes_them():
    def gradients(notes):
        torch.manual_seed(0)
        layer = torch.nn.Linear(3, 3)
        x = torch.randn(4, 3, requires_grad=True)
        y = layer(x)
        if notes:
            Call((x,), {}, is_compiled=False).end(y)
        y.exp().sum().backward()
        return [x.grad, *(p.grad for p in layer.parameters())]

    assert all(map(torch.equal, gradients(True), gradients(False)))


def test_a_batch_that_is_changed_is_noticed():
    x, y = torch.ones(2), torch.ones(2)
    call = Call((x,), {"y": [y]}, is_compiled=False)
    assert not call.was_changed
    y.add_(1)
    assert call.was_changed
    assert call.tensors() == [x, y]


def test_autocast_is_noted():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        call = Call((), {}, is_compiled=False)
    assert call.autocast["cpu"] == (True, torch.bfloat16)
    assert Call((), {}, is_compiled=False).autocast["cpu"][0] is False


def test_a_leaf_that_is_returned_keeps_no_hook():
    leaf = torch.ones(2, requires_grad=True)
    Call((), {}, is_compiled=False).end(leaf)
    assert not leaf._backward_hooks


def test_dropped_arguments_are_kept_again_once_they_were_made_anew():
    x = torch.ones(2)
    call = Call((x,), {}, is_compiled=False)
    call.restore_arguments((), {})
    assert call.args == (x,)
    call.drop_arguments()
    assert (call.args, call.has_arguments, call.was_changed) == ((), False, False)
    call.restore_arguments((x,), {"y": 1})
    assert (call.args, call.kwargs, call.has_arguments) == ((x,), {"y": 1}, True)


def test_arguments_with_a_nan_have_their_names():
    bad = torch.tensor(torch.nan)
    found = bad_arguments((torch.ones(1), [bad]), {"y": 1, "z": bad})
    assert [name for name, _ in found] == ["argument 1", "z"]
