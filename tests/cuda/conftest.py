"""Each test runs on the CPU, and as one marked `cuda` on a GPU, where there is one.

They need the package, pytest and hypothesis alone: `python -m benchmarks.gpu` runs them without the
fixtures of the other tests.
"""

import os

import pytest
import torch

from tests.cuda.device import Device

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # else its sums may come in any order

on_cuda = [
    pytest.mark.cuda,
    # A compiler for GPUs has advice of its own, as on the precision of matrix products.
    pytest.mark.filterwarnings("default", "error::taiyi_fx.MonitorWarning"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device"),
]


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=on_cuda)])
def device(request):
    return Device(request.param)


@pytest.fixture(autouse=True)
def repeatable():
    """The same numbers each time, and nothing compiled or captured left for the next test."""
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)
    torch.compiler.reset()
