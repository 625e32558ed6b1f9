"""Numbers that a router says of its experts."""

import pytest
from torch import nn

from taiyi_fx.quantities.routers import choices_of, experts_of


class Router(nn.Module):
    pass


@pytest.mark.parametrize(
    ("said", "experts", "choices"),
    [
        ({"num_experts": 8, "top_k": 2}, 8, 2),
        ({"n_routed_experts": 64, "num_experts_per_tok": 6}, 64, 6),
        ({"num_gates": 4, "top_n": 3}, 4, 3),
        ({"num_experts": 4}, 4, None),
        ({"num_experts": 0, "top_k": True}, None, None),
        ({"num_experts": [2, 4]}, None, None),
        ({}, None, None),
    ],
)
def test_numbers_are_taken_from_attributes(said, experts, choices):
    module = Router()
    vars(module).update(said)
    assert (experts_of(module), choices_of(module)) == (experts, choices)
