"""Monitoring changes no bit of a training with deterministic algorithms, eager or compiled."""

import pytest
import torch

from tests.cuda.models import MODELS, assert_same_bits, pair, records_of, trained


@pytest.mark.parametrize("name", MODELS)
def test_eager_training_is_that_of_the_plain_model(device, name):
    plain, model, xs = pair(name, device)
    assert_same_bits(trained(plain, plain, xs), trained(model, model, xs))
    assert len(records_of(model)) > 3 * len(xs)


@pytest.mark.parametrize("name", MODELS)
def test_compiled_training_is_that_of_the_compiled_plain_model(device, name):
    plain, model, xs = pair(name, device)
    compiled = [torch.compile(m, backend="aot_eager", fullgraph=True) for m in (plain, model)]
    assert_same_bits(trained(plain, compiled[0], xs), trained(model, compiled[1], xs))
    assert len(records_of(model)) > 3 * len(xs)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_training_under_autocast_is_that_of_the_plain_model(device, name, dtype):
    plain, model, xs = pair(name, device)

    def under_autocast(run):
        def forward(x):
            with torch.autocast(device.kind, dtype):
                return run(x).float()

        return forward

    expected = trained(plain, under_autocast(plain), xs)
    assert_same_bits(expected, trained(model, under_autocast(model), xs))
