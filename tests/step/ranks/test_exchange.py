"""An exchange agrees on a layout once, and anew when a rank has what does not fit."""

import threading

import pytest
import torch

from taiyi_fx import reductions
from taiyi_fx.step.ranks.bucket import Layout, Offer
from taiyi_fx.step.ranks.exchange import Exchange, NotSent
from taiyi_fx.step.ranks.gate import NotJoined
from tests.step.ranks.given import on_ranks

KEY = "train", 0, 0


def offers(x):
    return {KEY: Offer(reductions.Raw().measure(x))}


def test_the_rank_that_records_gets_what_all_sent_and_the_others_nothing():
    def check(ranks):
        mine = offers(torch.full((2, 3), float(ranks.place)))
        return Exchange(ranks, "due", is_needed=True).rows(0, mine)

    first, *others = on_ranks(3, check)
    assert [first.state(KEY, place)[0].unique().item() for place in range(3)] == [0, 1, 2]
    assert others == [None, None]


def test_a_layout_is_agreed_on_once():
    def check(ranks):
        exchange = Exchange(ranks, "due", is_needed=True)
        for _ in range(3):
            exchange.rows(0, offers(torch.ones(2, 3)))
        return ranks.collectives

    assert on_ranks(2, check) == [["objects", "tensor", "tensor", "tensor"]] * 2


def test_what_does_not_fit_on_one_rank_is_exchanged_all_the_same():
    def check(ranks):
        exchange = Exchange(ranks, "due", is_needed=True)
        exchange.rows(0, offers(torch.ones(2, 3)))
        mine = offers(torch.full((5 if ranks.place else 2, 3), 7.0))
        return exchange.rows(0, mine), exchange.rows(0, mine), ranks.collectives

    (once, again, _), (*_, of_second) = on_ranks(2, check)
    for rows in (once, again):
        assert torch.equal(rows.state(KEY, 1)[0], torch.full((5, 3), 7.0))
    assert of_second == ["objects", "tensor", "objects", "tensor", "tensor"]


def test_room_that_was_needed_before_is_kept():
    def check(ranks):
        exchange = Exchange(ranks, "due", is_needed=True)
        exchange.rows(0, {("train", 1, 0): Offer((torch.ones(()),))})  # has no place yet
        exchange.rows(0, offers(torch.ones(9, 3)))
        return ranks.collectives

    assert on_ranks(2, check) == [["objects", "tensor", "objects", "tensor"]] * 2


def test_nothing_is_sent_where_no_rank_has_anything_to_exchange():
    def check(ranks):
        exchange = Exchange(ranks, "due", is_needed=False)
        return exchange.rows(0, {}), ranks.collectives

    assert on_ranks(2, check) == [(None, [])] * 2


def test_one_rank_that_needs_it_is_enough():
    def check(ranks):
        mine = offers(torch.ones(2, 3)) if ranks.place == 1 else {}
        return Exchange(ranks, "due", is_needed=ranks.place == 1).rows(0, mine)

    rows, _ = on_ranks(2, check)
    assert rows.present[KEY].tolist() == [False, True]


def test_a_statistic_of_as_many_parts_as_no_other_rank_has_counts_as_failed():
    def check(ranks):
        x = torch.ones(())
        mine = {KEY: Offer((x,) if ranks.place == 0 else (x, x))}
        return Exchange(ranks, "due", is_needed=True).rows(0, mine)

    rows, _ = on_ranks(2, check)
    assert rows.present[KEY].tolist() == [True, False]
    assert rows.failed[KEY].tolist() == [False, True]


def test_a_rank_that_cannot_pack_costs_the_step_alone(monkeypatch):
    packed, broken = Layout.packed, threading.Event()

    def failing(layout, offers):
        if broken.is_set() and offers[KEY].state[0][0, 0] == 1:
            raise MemoryError("no room")
        return packed(layout, offers)

    monkeypatch.setattr(Layout, "packed", failing)

    def check(ranks):
        exchange = Exchange(ranks, "due", is_needed=True)
        mine, seen = offers(torch.full((2, 3), float(ranks.place))), []
        for step in range(3):
            ranks.meet()
            broken.set() if step == 1 else broken.clear()
            ranks.meet()
            try:
                seen.append(exchange.rows(step, mine) is not None)
            except NotSent as why:
                seen.append(str(why))
        return seen

    first, second = on_ranks(2, check)
    why = "rank 1 could not send it: MemoryError: no room"
    assert (first, second) == ([True, why, True], [False, why, False])


def test_a_rank_with_nothing_to_send_is_not_waited_for():
    def check(ranks):
        exchange = Exchange(ranks, "due", is_needed=True)
        if ranks.place == 1:
            return exchange.fail(3, "ValueError: broken")
        with pytest.raises(NotSent) as caught:
            exchange.rows(3, offers(torch.ones(2, 3)))
        return str(caught.value)

    assert on_ranks(2, check) == ["rank 1 could not send it: ValueError: broken", None]


@pytest.mark.parametrize(
    ("of_others", "why"),
    [
        (("due", 4), "track was called for step 3 on rank 0 and step 4 on the ranks [1, 2]"),
        (("else", 3), "at step 3 other quantities are due on rank 0 than on the ranks [1, 2]"),
    ],
)
def test_ranks_at_other_steps_exchange_nothing_and_are_told(of_others, why):
    def check(ranks):
        due, step = of_others if ranks.place else ("due", 3)
        with pytest.raises(NotJoined) as caught:
            Exchange(ranks, due, is_needed=True).rows(step, offers(torch.ones(2, 3)))
        return str(caught.value), ranks.collectives

    for told, collectives in on_ranks(3, check):
        assert told.startswith(why)
        assert collectives == []


def test_the_longest_wish_is_granted_to_all_at_the_next_exchange():
    def check(ranks):
        exchange = Exchange(ranks, "due", is_needed=True)
        ranks.cadence.wish(7 * ranks.place)
        found = []
        for step in range(2):
            exchange.rows(step, offers(torch.ones(2, 3)))
            found.append((ranks.cadence.wished, ranks.cadence.take()))
        return found

    assert on_ranks(3, check) == [[(0, 14), (0, 0)]] * 3


def test_a_wish_is_granted_where_a_rank_has_nothing_to_send():
    def check(ranks):
        exchange = Exchange(ranks, "due", is_needed=True)
        ranks.cadence.wish(3 * ranks.place)
        if ranks.place:
            exchange.fail(0, "it failed")
        else:
            with pytest.raises(NotSent):
                exchange.rows(0, offers(torch.ones(2, 3)))
        return ranks.cadence.take()

    assert on_ranks(2, check) == [3, 3]


def test_where_nothing_is_exchanged_a_wish_goes_on_waiting():
    def check(ranks):
        exchange = Exchange(ranks, "due", is_needed=False)
        exchange.rows(0, {})
        ranks.cadence.wish(5)
        exchange.rows(1, {})
        return ranks.cadence.wished, ranks.cadence.take()

    assert on_ranks(2, check) == [(5, 0)] * 2


def test_a_wish_to_stop_is_granted_on_all_ranks_at_the_next_exchange():
    def check(ranks):
        exchange = Exchange(ranks, "due", is_needed=True)
        exchange.rows(0, offers(torch.ones(2, 3)))
        before = ranks.cadence.is_end
        ranks.cadence.wishes_end = ranks.place == 1
        exchange.rows(1, offers(torch.ones(2, 3)))
        return before, ranks.cadence.is_end

    assert on_ranks(2, check) == [(False, True)] * 2
