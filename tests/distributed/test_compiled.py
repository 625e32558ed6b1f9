"""Compiled models on two and four ranks have the values of one process that saw all rows.

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
def expected():
    return alone()


@pytest.mark.parametrize("name", WAYS)
def test_compiled_ranks_have_the_values_of_one(answers, name):
    first, *others = answers(name)
    if first.plain:
        pytest.skip(f"torch fails at the plain model: {first.plain[:200]}")
    assert not differences(first.records, expected()), first.told
    assert [other.records for other in others] == [{}] * len(others)
    assert not first.told


@pytest.mark.parametrize("name", WAYS)
def test_compiled_ranks_train_as_the_plain_model(answers, name):
    of_all = answers(name)
    if of_all[0].plain:
        pytest.skip(f"torch fails at the plain model: {of_all[0].plain[:200]}")
    assert all(of_one.parameters for of_one in of_all)
