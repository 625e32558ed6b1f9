"""Models on two and four ranks, eager and compiled, have the values of one process that saw all rows.

It takes minutes: `make ranks` runs it.
"""

import functools
import os

import pytest
import torch

from tests.distributed.models import differences
from tests.distributed.processes import run
from tests.distributed.ways import WAYS, Way, alone, went

pytestmark = [
    pytest.mark.skipif("TAIYI_RANKS" not in os.environ, reason="takes minutes: make ranks"),
    pytest.mark.skipif(torch.__version__ < (2, 7), reason="torch 2.6 has no fully_shard on a CPU"),
]


def check(rank, ranks, way: Way):
    return went(way, rank, ranks)


CHECKS = {name: functools.partial(check, way=way) for name, way in WAYS.items()}


@pytest.fixture(scope="module", params=[2, 4])
def answers(request):
    return run(CHECKS, request.param)


@functools.cache
def expected(ranks):
    return alone(ranks)


@pytest.mark.parametrize("name", WAYS)
def test_ranks_have_the_values_of_one(answers, name):
    first, *others = answers(name)
    if first.plain:
        pytest.skip(f"torch fails at the plain model: {first.plain[:200]}")
    that_see_rows = (1 + len(others)) // (2 if WAYS[name].is_tensor_parallel else 1)
    assert not differences(first.records, expected(that_see_rows)), first.told
    assert [other.records for other in others] == [{}] * len(others)
    assert not first.told


@pytest.mark.parametrize("name", WAYS)
def test_ranks_train_as_the_plain_model(answers, name):
    of_all = answers(name)
    if of_all[0].plain:
        pytest.skip(f"torch fails at the plain model: {of_all[0].plain[:200]}")
    assert all(of_one.parameters for of_one in of_all)
