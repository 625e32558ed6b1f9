"""An exchange agrees on a layout once, and anew when a rank has what does not fit."""

import torch

from taiyi_fx import reductions
from taiyi_fx.step.ranks.bucket import Offer
from taiyi_fx.step.ranks.exchange import Exchange
from tests.step.ranks.given import on_ranks

KEY = "train", 0, 0


def offers(x):
    return {KEY: Offer(reductions.Raw().measure(x))}


def test_the_rank_that_records_gets_what_all_sent_and_the_others_nothing():
    def check(ranks):
        mine = offers(torch.full((2, 3), float(ranks.place)))
        return Exchange(ranks, mine, is_needed=True).rows(mine)

    first, *others = on_ranks(3, check)
    assert [first.state(KEY, place)[0].unique().item() for place in range(3)] == [0, 1, 2]
    assert others == [None, None]


def test_a_layout_is_agreed_on_once():
    def check(ranks):
        exchange = Exchange(ranks, offers(torch.ones(2, 3)), is_needed=True)
        for _ in range(3):
            exchange.rows(offers(torch.ones(2, 3)))
        return ranks.collectives

    assert on_ranks(2, check) == [["objects", "tensor", "tensor", "tensor"]] * 2


def test_what_does_not_fit_on_one_rank_is_exchanged_all_the_same():
    def check(ranks):
        exchange = Exchange(ranks, offers(torch.ones(2, 3)), is_needed=True)
        mine = offers(torch.full((5 if ranks.place else 2, 3), 7.0))
        return exchange.rows(mine), exchange.rows(mine), ranks.collectives

    (once, again, _), (*_, of_second) = on_ranks(2, check)
    for rows in (once, again):
        assert torch.equal(rows.state(KEY, 1)[0], torch.full((5, 3), 7.0))
    assert of_second == ["objects", "tensor", "objects", "tensor", "tensor"]


def test_room_that_was_needed_before_is_kept():
    def check(ranks):
        exchange = Exchange(ranks, offers(torch.ones(9, 3)), is_needed=True)
        exchange.rows({("train", 1, 0): Offer((torch.ones(()),))})  # has no place yet
        exchange.rows(offers(torch.ones(9, 3)))
        return ranks.collectives

    assert on_ranks(2, check) == [["objects", "tensor", "objects", "tensor", "tensor"]] * 2


def test_nothing_is_sent_where_no_rank_has_anything_to_exchange():
    def check(ranks):
        exchange = Exchange(ranks, {}, is_needed=False)
        return exchange.rows({}), ranks.collectives

    assert on_ranks(2, check) == [(None, ["objects"])] * 2


def test_one_rank_that_needs_it_is_enough():
    def check(ranks):
        mine = offers(torch.ones(2, 3)) if ranks.place == 1 else {}
        return Exchange(ranks, mine, is_needed=ranks.place == 1).rows(mine)

    rows, _ = on_ranks(2, check)
    assert rows.present[KEY].tolist() == [False, True]


def test_a_statistic_of_as_many_parts_as_no_other_rank_has_counts_as_failed():
    def check(ranks):
        x = torch.ones(())
        mine = {KEY: Offer((x,) if ranks.place == 0 else (x, x))}
        return Exchange(ranks, mine, is_needed=True).rows(mine)

    rows, _ = on_ranks(2, check)
    assert rows.present[KEY].tolist() == [True, False]
    assert rows.failed[KEY].tolist() == [False, True]
