"""One rank under DistributedDataParallel, by NCCL on a GPU."""

import functools

import pytest
import torch
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.cuda.models import Rows
from tests.sides import same_both_ways


@pytest.fixture
def one_rank(device, tmp_path):
    store = dist.FileStore(str(tmp_path / "store"), 1)
    options = {"backend": "gloo"}
    if device.is_cuda:
        options = {"backend": "nccl", "device_id": torch.device("cuda", 0)}
    dist.init_process_group(**options, store=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("one_rank")
def test_one_rank_has_the_values_of_float64(device):
    xs = [device.randn(16, 6) for _ in range(3)]

    def way(side):
        wrapped = DistributedDataParallel(side.model)
        optimizer = torch.optim.SGD(side.model.parameters(), lr=0.1)
        for step, x in enumerate(xs):
            optimizer.zero_grad()
            wrapped(x).square().sum().backward()
            side.track(step)
            optimizer.step()

    same_both_ways(way, functools.partial(lambda: device.move(Rows())), steps=3)
