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


NAMES = {
    2: [n for n, way in WAYS.items() if not way.is_tensor_parallel or n.endswith("_eager")],
    4: [
        "ddp_eager",
        "fsdp_eager",
        "ddp_whole",
        "fsdp_blocks_compiled",
        *(name for name, way in WAYS.items() if way.is_tensor_parallel),
    ],
}
"""The ways that so many ranks go.

What is asked of four is what two cannot show: sums of more than two numbers, by each wrapper, and
tensor parallel ranks which see other rows than the next pair. What is compiled, and where, is the
same on each of them: of tensor parallel ranks it is compiled where there are two pairs, and one pair
goes the eager ways alone.
"""
if os.environ.get("TAIYI_RANKS") == "few":  # of each wrapper one, and what is compiled by blocks
    NAMES = {
        2: ["ddp_whole", "fsdp_blocks_compiled"],
        4: ["fsdp_and_tensor_parallel_blocks_compiled"],
    }

each = pytest.mark.parametrize(
    ("ranks", "name"), [(ranks, name) for ranks, names in NAMES.items() for name in names]
)


def check(rank, ranks, way: Way):
    return went(way, rank, ranks)


@functools.cache
def answers(ranks):
    checks = {name: functools.partial(check, way=WAYS[name]) for name in NAMES[ranks]}
    return run(checks, ranks)


@functools.cache
def expected(ranks):
    return alone(ranks)


@each
def test_ranks_have_the_values_of_one(ranks, name):
    first, *others = answers(ranks)(name)
    if first.plain:
        pytest.skip(f"torch fails at the plain model: {first.plain[:200]}")
    that_see_rows = (1 + len(others)) // (2 if WAYS[name].is_tensor_parallel else 1)
    assert not differences(first.records, expected(that_see_rows)), first.told
    assert [other.records for other in others] == [{}] * len(others)
    assert not first.told


@each
def test_ranks_train_as_the_plain_model(ranks, name):
    of_all = answers(ranks)(name)
    if of_all[0].plain:
        pytest.skip(f"torch fails at the plain model: {of_all[0].plain[:200]}")
    assert all(of_one.parameters for of_one in of_all)
