"""Monitoring changes no bit of a training with deterministic algorithms, eager or compiled."""

import pytest
import torch

from tests.cuda.models import (
    CFG,
    EACH_STEP,
    MODELS,
    ONE_GRAPH,
    assert_same_bits,
    pair,
    records_of,
    trained,
)


@pytest.mark.parametrize("name", MODELS)
def test_eager_training_is_that_of_the_plain_model(device, name):
    plain, model, xs = pair(name, device)
    assert_same_bits(trained(plain, plain, xs), trained(model, model, xs))
    assert len(records_of(model)) > 3 * len(xs)


@pytest.mark.slow
@pytest.mark.parametrize("name", ONE_GRAPH)
def test_compiled_training_is_that_of_the_compiled_plain_model(device, name):
    # On a GPU each compiled graph draws the numbers in a checkpoint anew: see docs, limits.
    plain, model, xs = pair(name, device, EACH_STEP if name == "words" else CFG)
    compiled = [torch.compile(m, backend="aot_eager", fullgraph=True) for m in (plain, model)]
    assert_same_bits(trained(plain, compiled[0], xs), trained(model, compiled[1], xs))
    assert len(records_of(model)) > 3 * len(xs)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_training_under_autocast_is_that_of_the_plain_model(device, name, dtype):
    if name == "recurrent" and not device.is_cuda:
        pytest.skip("not every CPU has an LSTM of such types")
    plain, model, xs = pair(name, device)

    def under_autocast(run):
        def forward(x):
            with torch.autocast(device.kind, dtype):
                return run(x).float()

        return forward

    expected = trained(plain, under_autocast(plain), xs)
    assert_same_bits(expected, trained(model, under_autocast(model), xs))
