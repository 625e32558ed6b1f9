"""The protocol of writers: batches, and the methods that every writer has."""

import inspect

import pytest
import torch

from taiyi_fx import writers
from taiyi_fx.records.record import Block, Record
from taiyi_fx.writers import Batch, Writer

WRITERS = [
    found
    for found in vars(writers).values()
    if inspect.isclass(found) and hasattr(found, "flush") and found is not Writer
]


def test_a_batch_gives_its_numbers_and_tensors_one_by_one():
    tensor = Record(4, "c", "t", torch.ones(2))
    block = Block(4, "eval", (("a", "q"), ("b", "r")), [1.0, 2])
    assert list(Batch(0, [block], [tensor])) == [
        Record(4, "a", "q", 1.0, "eval"),
        Record(4, "b", "r", 2, "eval"),
        tensor,
    ]


@pytest.mark.parametrize("kind", WRITERS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("method", ["open", "write", "flush", "close"])
def test_every_writer_has_the_methods_of_the_protocol(kind, method):
    asked = list(inspect.signature(getattr(Writer, method)).parameters)
    assert list(inspect.signature(getattr(kind, method)).parameters) == asked
