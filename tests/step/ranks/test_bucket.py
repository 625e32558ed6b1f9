"""What ranks put into a bucket comes out of it, of any shape and type."""

import pytest
import torch

from taiyi_fx import reductions
from taiyi_fx.passes.ir import Reading, Site
from taiyi_fx.step.ranks.bucket import Layout, Offer, Part, common_room, room_of
from taiyi_fx.step.ranks.merge import merged
from tests.step.ranks.given import exchanged


def test_what_a_rank_lacks_or_failed_at_is_known():
    norm = reductions.Norm()
    x = torch.ones(4)
    of_ranks = [
        {("train", 0, 0): Offer(norm.measure(x)), ("eval", 1, 2): Offer(None)},
        {},
        {("train", 0, 0): Offer(norm.measure(x))},
        {},
    ]
    rows = exchanged(of_ranks)
    there = {key: who.tolist() for key, who in rows.present.items()}
    assert there == {("train", 0, 0): [True, False, True, False]}
    failed = {key: who.tolist() for key, who in rows.failed.items()}
    assert failed == {("eval", 1, 2): [True, False, False, False]}
    readings = dict.fromkeys(range(2), Reading(Site("input"), norm))
    found = merged(rows, readings)
    assert found.keys() == {("train", 0, 0)}
    assert norm.finish(found["train", 0, 0]).item() == pytest.approx(8**0.5)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.complex128, torch.bfloat16])
def test_any_type_travels(dtype):
    raw = reductions.Raw()
    x = torch.randint(2, (3, 5)).to(dtype)
    rows = exchanged([{("train", 0, 0): Offer((x,)), ("train", 1, 0): Offer((x[0, 0],))}] * 3)
    found = merged(rows, dict.fromkeys(range(2), Reading(Site("input"), raw)))
    assert torch.equal(found["train", 0, 0][0], torch.cat([x] * 3))


def test_what_does_not_fit_is_seen():
    norm, raw = reductions.Norm(), reductions.Raw()
    known = {("train", 0, 0): Offer(raw.measure(torch.ones(2, 3)))}
    layout = Layout(common_room([room_of(known)]), torch.device("cpu"))
    for offer in (
        raw.measure(torch.ones(3, 3)),
        raw.measure(torch.ones(1, 1, 3)),
        norm.measure(torch.ones(2, dtype=torch.float64)),
    ):
        assert not layout.fits(("train", 0, 0), Offer(offer))
    assert not layout.fits(("train", 0, 1), Offer(raw.measure(torch.ones(2, 3))))
    assert layout.fits(("train", 0, 0), Offer(raw.measure(torch.ones(1, 2))))


def test_room_is_for_the_largest_and_widest_of_any_rank():
    rooms = [
        {("train", 1, 0): (Part(torch.float32, 6, 2),)},
        {
            ("train", 0, 0): (Part(torch.int64, 1, 0),),
            ("train", 1, 0): (Part(torch.float64, 3, 1),),
        },
    ]
    expected = {
        ("train", 0, 0): (Part(torch.int64, 1, 0),),
        ("train", 1, 0): (Part(torch.float64, 6, 2),),
    }
    for order in (rooms, rooms[::-1]):
        found = common_room(order)
        assert found == expected
        assert list(found) == list(expected)  # the same on all ranks


def test_shapes_that_differ_among_ranks_come_back_as_each_was():
    tensors = [torch.arange(6.0).view(2, 3), torch.arange(4.0).view(4, 1), torch.zeros(0, 5)]
    key = "eval", 3, 1
    rows = exchanged([{key: Offer((x,))} for x in tensors])
    assert rows.common_shapes(key) is None
    for place, x in enumerate(tensors):
        assert rows.shapes(key, place) == (tuple(x.shape),)
        assert torch.equal(rows.state(key, place)[0], x)


def test_statistics_of_one_shape_come_as_one_tensor():
    key = "train", 0, 0
    states = [(torch.randn(2, 3), torch.tensor(rank)) for rank in range(3)]
    rows = exchanged([{key: Offer(state)} for state in states])
    shapes = rows.common_shapes(key)
    assert shapes == ((2, 3), ())
    first, second = rows.states(key, shapes)
    assert torch.equal(first, torch.stack([state[0] for state in states]))
    assert second.tolist() == [0, 1, 2]
    assert rows.dtypes(key) == (torch.float32, torch.int64)
