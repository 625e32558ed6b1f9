"""Blocks and chains of them."""

import pytest
import torch

from taiyi_fx.testing import Chain
from taiyi_fx.testing.blocks import BLOCKS, D


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_keeps_the_shape_of_its_input(block):
    x = torch.randn(3, 4, D)
    assert block()(x.clone()).shape == x.shape


def test_a_chain_returns_the_form_asked_for():
    x = torch.randn(3, 4, D)
    chains = {form: Chain("Shared", "Views", output=form) for form in ("tensor", "tuple", "dict")}
    for chain in chains.values():
        chain.load_state_dict(chains["tensor"].state_dict())
    y, pair, named = (chain(x.clone()) for chain in chains.values())
    assert torch.equal(pair[0], y)
    assert torch.equal(named["x"], y)
    assert torch.equal(named["first"], pair[1])
    assert not torch.equal(pair[1], y)


def test_a_chain_takes_blocks_themselves_too():
    block = BLOCKS[0]()
    assert Chain(block).first[0] is block
