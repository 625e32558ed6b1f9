"""Small models of transformers, and two steps of training that leave all their bits."""

import importlib.util

import pytest
import torch

from benchmarks.zoo_models.vision_operators import define_vision_operators


def transformers():
    """The library; the test is skipped where there is none."""
    if importlib.util.find_spec("torchvision"):  # which transformers imports where it is there
        define_vision_operators()
    return pytest.importorskip("transformers")


def tiny(name, sizes):
    """A model of these sizes, as far as its configuration knows them; the same numbers each time."""
    kind = getattr(transformers(), name)
    known = {*kind.config_class().to_dict(), "decoder_start_token_id"}
    torch.manual_seed(0)
    return kind(kind.config_class(**{k: v for k, v in sizes.items() if k in known})).train()


def trained(model, run, batch):
    """All bits of two training steps, dropout and jitter included."""
    torch.manual_seed(5)
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
    for step in range(2):
        loss = run(**batch()).loss
        loss.backward()
        losses.append(loss.detach())
        if run is not model:
            run.monitor.track(step)
        optimizer.step()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    return [*losses, *gradients, *(p.detach() for p in model.parameters()), torch.get_rng_state()]
