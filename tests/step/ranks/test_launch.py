"""The token of a launch."""

import time

import pytest
from torch import distributed as dist

from taiyi_fx.step.ranks import launch


def test_a_process_alone_has_a_token_that_later_ones_exceed():
    token = launch.launch_token()
    assert token == launch.launch_token()
    assert token < f"{time.time_ns():016x}"


def test_ranks_have_the_token_of_the_first_who_asks(monkeypatch):
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        mine = launch.launch_token()
        monkeypatch.setattr(launch, "_OWN", "of another rank")
        assert launch.launch_token() == mine
    finally:
        dist.destroy_process_group()


def test_a_store_that_is_gone_leaves_a_rank_its_own_token(monkeypatch):
    class Gone:
        def compare_set(self, *_):
            raise dist.DistStoreError("gone")

    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist.distributed_c10d, "_get_default_store", Gone)
    assert launch.launch_token() == launch._OWN


@pytest.fixture(autouse=True)
def _no_group():
    assert not dist.is_initialized()
