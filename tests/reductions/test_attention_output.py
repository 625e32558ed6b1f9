"""The output of an attention by head, of products in any form."""

import pytest
import torch

from taiyi_fx.passes.structure import Call
from taiyi_fx.reductions.attention_output import outputs_of

SAMPLES, HEADS, LENGTH, FEATURES = 2, 3, 5, 4
LOGITS = torch.randn(SAMPLES, HEADS, LENGTH, LENGTH, generator=torch.Generator().manual_seed(0))
VALUES = torch.randn(SAMPLES, HEADS, LENGTH, FEATURES, generator=torch.Generator().manual_seed(1))
OUTPUT = LOGITS.softmax(-1) @ VALUES


def softmax_of(logits):
    return Call((logits, -1), {}, "softmax")


def by_head(y):
    """Squares of each head, whatever the order of the other axes."""
    return y.double().square().movedim(-3, 0).flatten(1).sum(1)


FORMS = {
    "heads in front": (LOGITS, OUTPUT, -3, HEADS),
    "heads behind queries": (LOGITS, OUTPUT.transpose(1, 2), 2, HEADS),
    "folded": (LOGITS.flatten(0, 1), OUTPUT.flatten(0, 1), -3, HEADS),
    "folded by einsum": (LOGITS.flatten(0, 1), OUTPUT.flatten(0, 1), 0, HEADS),
    "folded after the softmax": (LOGITS, OUTPUT.flatten(0, 1), -3, None),
    "queries last": (LOGITS, OUTPUT.mT, -3, None),
    "unfolded after the softmax": (LOGITS.flatten(0, 1), OUTPUT, -3, HEADS),
}


@pytest.mark.parametrize("form", FORMS)
def test_heads_are_found_in_every_form(form):
    logits, product, axis, heads = FORMS[form]
    made = outputs_of(softmax_of(logits), (product, axis), heads)
    assert torch.allclose(by_head(made), by_head(OUTPUT))


def test_queries_that_share_keys_are_heads_of_their_own():
    logits, product = (x.unflatten(1, (1, HEADS)) for x in (LOGITS, OUTPUT))
    logits, product = (torch.cat([x, x + 1], 1) for x in (logits, product))
    made = outputs_of(softmax_of(logits), (product, -3), 2 * HEADS)
    assert torch.equal(made, product.flatten(1, 2))


def test_without_an_axis_of_heads_there_is_one():
    made = outputs_of(softmax_of(LOGITS[:, 0]), (OUTPUT[:, 0], -3), None)
    assert torch.equal(made, OUTPUT[:, :1])
    alone = outputs_of(softmax_of(LOGITS[0, 0]), (OUTPUT[0, 0], -3), None)
    assert torch.equal(alone, OUTPUT[:1, :1][0])


def test_the_functions_own_result_is_the_output():
    call = Call((), {}, "scaled_dot_product_attention")
    assert torch.equal(outputs_of(call, OUTPUT, None), OUTPUT)


def test_what_is_no_output_is_refused():
    with pytest.raises(ValueError, match="do not lead to one product with values"):
        outputs_of(softmax_of(LOGITS), None, HEADS)
    with pytest.raises(ValueError, match=r"has the shape \(2, 4, 7, 5\), which is not that of"):
        outputs_of(softmax_of(LOGITS), (torch.zeros(2, 4, 7, 5), -3), HEADS)
