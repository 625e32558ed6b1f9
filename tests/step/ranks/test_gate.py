"""Ranks that meet agree; where one does not come, the others go on, and all know why."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from torch import distributed as dist

from taiyi_fx.step.ranks import gate as module
from taiyi_fx.step.ranks.gate import Gate, NotJoined, named


def stores(kind, folder, n):
    """The store as each rank has it."""
    if kind == "hash":
        return [dist.HashStore()] * n
    if kind == "file":
        return [dist.FileStore(str(folder / "store"), n) for _ in range(n)]
    first = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    others = [dist.TCPStore("127.0.0.1", first.port, None, False) for _ in range(n - 1)]
    return [first, *others]


@pytest.fixture(params=["hash", "file", "tcp"])
def gates(request, tmp_path):
    every = stores(request.param, tmp_path, 3)
    yield [
        Gate(store, "gate", (2, 5, 7), rank) for store, rank in zip(every, (2, 5, 7), strict=True)
    ]
    del every  # the first of them may be the server itself, which ends with it


def meet(gates, mine, decide=list):
    """What each rank is given or raises."""

    def one(gate, mine):
        try:
            return gate.decision(mine, decide)
        except NotJoined as why:
            return str(why)

    with ThreadPoolExecutor(len(gates)) as pool:
        return list(pool.map(one, gates, mine))


def test_all_are_given_what_the_first_decides_on_what_each_has(gates):
    for i in range(3):
        mine = [[i, "first"], {"of": 5}, None]
        assert meet(gates, mine) == [mine] * 3


def test_only_the_first_decides(gates):
    seen = []
    meet(gates, "abc", lambda rows: seen.append(rows))
    assert seen == [["a", "b", "c"]]


def test_a_decision_to_end_ends_it_everywhere_and_for_good(gates):
    def decide(rows):
        raise NotJoined("it is enough")

    assert meet(gates, "abc", decide) == ["it is enough"] * 3
    with pytest.raises(NotJoined, match="it is enough"):
        gates[1].decision("alone", decide)


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", timedelta(seconds=0.3))


WHY = "did not call track within 0.3 s: call it on all ranks with the same steps"


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("absent", [0, 1, 2])
@pytest.mark.parametrize("kind", ["hash", "file", "tcp"])
def test_who_waits_in_vain_goes_on_and_who_comes_late_is_told(kind, absent, tmp_path):
    every = stores(kind, tmp_path, 3)
    gates = [
        Gate(store, "gate", (2, 5, 7), rank) for store, rank in zip(every, (2, 5, 7), strict=True)
    ]
    meet(gates, "abc")
    there = [gate for i, gate in enumerate(gates) if i != absent]
    expected = f"rank {(2, 5, 7)[absent]} {WHY}, or give process_group=None"
    assert meet(there, "ab") == [expected] * 2
    assert meet([gates[absent]], "c") == [expected]


@pytest.mark.usefixtures("impatient")
def test_a_patience_that_ends_while_the_last_one_comes_gives_one_answer_to_all():
    for i in range(20):
        store, n = dist.HashStore(), 2
        gates = [Gate(store, f"gate{i}", range(n), rank) for rank in range(n)]
        found = [None] * n

        def one(rank, gates=gates, found=found):
            found[rank] = meet([gates[rank]], [rank])[0]

        second = threading.Thread(target=one, args=(1,))
        second.start()
        second.join(0.3 + (i - 10) / 5000)
        one(0)
        second.join()
        assert found[0] == found[1]
        assert found[0] == [0, 1] or WHY in found[0]


def test_nothing_is_left_in_the_store_but_the_last_meeting():
    store = dist.HashStore()
    gates = [Gate(store, "gate", (0, 1), rank) for rank in (0, 1)]
    for i in range(10):
        meet(gates, [i, i])
        assert store.num_keys() <= 2


def test_a_store_that_is_gone_ends_it():
    store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    other = Gate(dist.TCPStore("127.0.0.1", store.port, None, False), "gate", (0, 1), 1)
    del store
    assert meet([other], "b")[0].startswith("the ranks' store cannot be reached: ")


def test_patience_is_at_most_half_of_what_torch_itself_waits():
    store = dist.HashStore()
    store.set_timeout(timedelta(seconds=1))
    with pytest.raises(NotJoined, match=r"rank 1 did not call track within 0.5 s"):
        Gate(store, "gate", (0, 1), 0).decision("a", list)


def test_ranks_in_words():
    assert (named([3]), named((1, 2))) == ("rank 3", "the ranks [1, 2]")
