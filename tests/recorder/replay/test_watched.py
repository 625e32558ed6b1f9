"""Operations watched: which one brought what is not finite."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from taiyi_fx.recorder.replay.watched import OperationWatch

INF = math.inf


def origin(run, *given):
    watch = OperationWatch({})
    with watch:
        value = run(*given)
    return watch.origin_of([value])


def test_finite_numbers_have_no_origin():
    assert origin(lambda x: x.exp().log(), torch.ones(3)) is None


def test_an_operation_of_finite_numbers_is_the_origin_of_what_follows():
    found = origin(lambda x: (x.log() + 1).exp().relu(), torch.tensor([-1.0, 2.0]))
    assert found.operation == "log"
    assert [x.nan for x in found.inputs] == [0]
    assert [x.nan for x in found.outputs] == [1]
    assert (found.inputs[0].smallest, found.inputs[0].largest) == (-1.0, 2.0)


def test_an_inf_is_the_origin_of_the_nan_that_it_becomes():
    found = origin(lambda x: x.exp() * 0, torch.tensor([100.0, 1.0]))
    assert (found.operation, found.outputs[0].inf) == ("exp", 1)


def test_a_mask_is_no_origin_but_the_softmax_of_a_row_that_it_fills():
    def attend(scores, mask):
        return F.softmax(scores.masked_fill(mask, -INF), -1).nan_to_num(0.5) + scores.log()

    mask = torch.tensor([[True, False], [True, True]])
    assert origin(attend, torch.ones(2, 2), mask[:1]) is None
    assert origin(attend, -torch.ones(2, 2), mask[:1]).operation == "log"
    found = origin(lambda s, m: F.softmax(s.masked_fill(m, -INF), -1), torch.ones(2, 2), mask)
    assert found.operation == "_softmax"
    assert (found.inputs[0].inf, found.outputs[0].nan) == (3, 2)


def test_a_mask_that_is_added_or_comes_from_outside_is_no_origin():
    mask = torch.zeros(2, 2).masked_fill(torch.ones(2, 2).triu(1).bool(), -INF)
    found = origin(lambda x: x + mask, torch.ones(2, 2))
    assert found.is_meant
    assert origin(lambda x: F.softmax(x + mask, -1), torch.ones(2, 2)) is None


def test_changes_in_place_and_views_are_followed():
    def run(x):
        x = x.clone()
        x[0].sub_(2).log_()
        return x.t()

    found = origin(run, torch.ones(2, 2))
    assert found.operation == "log_"
    assert found.inputs[0].is_finite
    assert found.inputs[0].largest == -1


def test_a_finite_part_of_a_tensor_does_not_hide_the_rest():
    def run(x):
        y = x.log()
        _ = y[1] + 1
        return y

    assert origin(run, torch.tensor([-1.0, 1.0])).operation == "log"


def test_memory_that_holds_nothing_yet_is_no_input():
    def run(x):
        y = torch.empty(2)
        y.view(torch.int32).fill_(0x7FC00000)  # as it may be by chance: NaN
        y = y.clone()
        y.copy_(x)
        torch.log(x, out=y)
        return y

    found = origin(run, -torch.ones(2))
    assert found.operation == "log"
    assert len(found.inputs) == 1


def test_what_came_from_outside_is_named_as_it_was_given():
    watch = OperationWatch({})
    x = torch.tensor([1.0, math.nan])
    watch.blame("the batch", x, "forward")
    with watch:
        y = x * 2
    found = watch.origin_of([y])
    assert (found.operation, found.number, found.outputs[0].nan) == ("the batch", -1, 1)


class Roots(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        h = self.fc(x)
        return (h - h).sqrt() + h


def test_in_backward_it_is_the_node_the_operation_and_the_line_of_its_forward():
    model = Roots()
    watch = OperationWatch({id(vars(m)): name for name, m in model.named_modules()})
    with watch:
        y = model(torch.ones(1, 3))
        assert watch.origin_of([y]) is None
        y.sum().backward()
    found = watch.origin_of([p.grad for p in model.parameters()])
    assert found.operation == "SqrtBackward0: div"
    assert (found.place.phase, found.place.module, found.place.function[-7:]) == (
        "backward", "", "forward"
    )  # fmt: skip
    assert found.place.line == Roots.forward.__code__.co_firstlineno + 2


def test_one_that_is_off_sees_nothing():
    watch = OperationWatch({}, is_on=False)
    with watch.watching():
        y = -torch.ones(2).log().log()
    assert watch.count == 0
    assert watch.origin_of([y]) is None
