"""Messages from row to row, as autograd's notes tell them."""

import pytest
import torch
from torch import nn

from taiyi_fx.findings.facts.autograd import Uses
from taiyi_fx.findings.facts.messages import messages_of

ROWS, WIDTH = 100, 4


def sent(send, source, target, *, computed=True):
    torch.manual_seed(0)
    layer = nn.Linear(WIDTH, WIDTH)
    rows = layer(torch.randn(ROWS, WIDTH)) if computed else torch.randn(ROWS, WIDTH)
    loss = layer(send(rows, source, target)).sum()
    owners = {id(p): "layer" for p in layer.parameters()}
    return [(one.used, one.comes_back) for one in messages_of(Uses.of(loss, owners))]


def edges(low, high, count=300):
    made = torch.Generator().manual_seed(0)
    source, target = torch.randint(low, high, (2, count), generator=made)
    source[0], target[0] = high - 1, low
    return source, target


def zeros():
    return torch.zeros(ROWS, WIDTH)


def wide(index):
    return index[:, None].expand(-1, WIDTH)


WAYS = {
    "index_add": lambda x, s, t: zeros().index_add(0, t, x[s]),
    "index_add_": lambda x, s, t: zeros().index_add_(0, t, x.index_select(0, s)),
    "index_put": lambda x, s, t: zeros().index_put((t,), x[s], accumulate=True),
    "scatter_add": lambda x, s, t: zeros().scatter_add(0, wide(t), x.gather(0, wide(s))),
    "scatter_reduce": lambda x, s, t: zeros().scatter_reduce(0, wide(t), x[s], "mean"),
    "of both ends": lambda x, s, t: zeros().index_add(0, t, (x[s] - x[t]).relu()),
    "weighted": lambda x, s, t: zeros().index_add(0, t, x[s] * torch.rand(len(s), 1)),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_rows_that_messages_go_between_are_known(way):
    assert sent(WAYS[way], *edges(0, 10)) == [(10, False)]
    assert sent(WAYS[way], *edges(90, ROWS)) == [(ROWS, False)]


def test_loops_from_a_row_to_itself_use_none():
    source, target = edges(0, 10)
    loops = torch.arange(ROWS)
    source, target = torch.cat([source, loops]), torch.cat([target, loops])
    assert sent(WAYS["index_add"], source, target) == [(10, False)]


def test_what_comes_back_to_where_it_was_taken_is_told():
    source, target = edges(0, ROWS)
    taken = {
        "as it is": lambda x, s, t: zeros().index_add(0, s, x[s]),
        "weighted": lambda x, s, t: zeros().index_add(0, s, x[s] * torch.rand(len(s), 1)),
    }
    for send in taken.values():
        assert sent(send, source, target) == [(ROWS, True)]


@pytest.mark.parametrize(
    "send",
    [
        lambda x, s, t: zeros().index_add(0, s, x[s].exp()),
        lambda x, s, t: torch.zeros(20, WIDTH).index_add(0, torch.arange(ROWS) // 5, x)[s // 5],
        lambda x, s, t: x[s],
    ],
    ids=["computed between", "pooled", "taken alone"],
)
def test_other_uses_of_indices_are_none(send):
    assert not any(back for _, back in sent(send, *edges(0, ROWS)))


def test_a_selection_of_rows_is_no_message():
    chosen = torch.randperm(ROWS)
    assert sent(WAYS["index_add"], chosen, chosen) == [(ROWS, False)]


def graph_of(*, both_ways, count=300):
    """Edges of a graph as a list of pairs."""
    source, target = edges(0, ROWS, count)
    low, high = torch.minimum(source, target), torch.maximum(source, target)
    low, high = low[low != high], high[low != high]
    pairs = torch.stack([low, high], 1)
    return torch.stack([pairs, pairs.flip(1)], 1).reshape(-1, 2) if both_ways else pairs


@pytest.mark.parametrize("both_ways", [True, False])
@pytest.mark.parametrize("has_loops", [True, False])
def test_a_list_of_pairs_that_was_cut_in_two_halves_is_told(both_ways, has_loops):
    pairs, loops = graph_of(both_ways=both_ways), torch.arange(ROWS)
    for ends, is_torn in ((pairs.reshape(2, -1), True), (pairs.t(), False)):
        source, target = torch.cat([ends, loops.expand(2, -1)], 1) if has_loops else ends
        for x, y in ((source, target), (target, source)):
            layer = nn.Linear(WIDTH, WIDTH)
            loss = WAYS["index_add"](layer(torch.randn(ROWS, WIDTH)), x, y).sum()
            assert [one.is_torn for one in messages_of(Uses.of(loss, {}))] == [is_torn]


def test_edges_at_random_are_no_list_of_pairs():
    layer = nn.Linear(WIDTH, WIDTH)
    loss = WAYS["index_add"](layer(torch.randn(ROWS, WIDTH)), *edges(0, ROWS)).sum()
    assert [one.is_torn for one in messages_of(Uses.of(loss, {}))] == [False]


def test_few_messages_say_nothing():
    assert sent(WAYS["index_add"], *edges(0, 10, count=99)) == []


def test_very_many_are_not_looked_through(monkeypatch):
    monkeypatch.setattr("taiyi_fx.findings.facts.messages._LARGEST", 299)
    assert sent(WAYS["index_add"], *edges(0, 10)) == []


def test_of_what_nothing_is_computed_to_there_is_no_note():
    assert sent(WAYS["index_add"], *edges(0, 10), computed=False) == []


def test_after_a_backward_there_is_none():
    layer = nn.Linear(WIDTH, WIDTH)
    loss = WAYS["index_add"](layer(torch.randn(ROWS, WIDTH)), *edges(0, 10)).sum()
    loss.backward()
    assert [*messages_of(Uses.of(loss, {}))] == []


def test_entries_of_several_axes_and_masks_are_no_rows():
    layer = nn.Linear(WIDTH, WIDTH)
    x, (source, target) = layer(torch.randn(ROWS, WIDTH)), edges(0, 10)
    put = zeros().index_put((target, source % WIDTH), x[source, source % WIDTH], accumulate=True)
    kept = zeros().masked_scatter(x > 0, x[x[:, 0] > 0])
    assert [*messages_of(Uses.of((put + kept).sum(), {}))] == []
