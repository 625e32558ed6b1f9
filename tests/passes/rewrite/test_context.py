"""What a pass is given beside a graph."""

import dataclasses

import pytest
from torch import nn

from taiyi_fx.passes.probes.table import SlotTable
from taiyi_fx.passes.rewrite.context import Context


def test_nothing_is_due_and_nothing_is_compiled_unless_it_is_said():
    context = Context(nn.Identity(), SlotTable({}))
    assert (context.mode, context.due, context.is_compiled) == ("train", frozenset(), False)
    assert not context.starts
    with pytest.raises(dataclasses.FrozenInstanceError):
        context.mode = "eval"
