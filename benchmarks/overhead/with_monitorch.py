"""The nearest that monitorch (from its package) offers; see `watch` for what differs."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

from torch import nn

from benchmarks.overhead.models import PROBED
from benchmarks.overhead.work import Work


def is_installed() -> bool:
    """Whether the package is there."""
    return importlib.util.find_spec("monitorch") is not None


def watch(model: nn.Module, work: Work) -> Callable[[int], None]:
    """Attaches an inspector; returns what is to be called after backward.

    It reads outputs instead of inputs, and of these the mean of the samples' norms. Weights and
    gradients of all layers are read, those of LayerNorm and Embedding too, which cannot be
    excluded. Each step is an epoch, since its schedule is one of epochs. Nothing is drawn.
    """
    from monitorch.inspector import PyTorchInspector
    from monitorch.lens import (
        OutputGradientGeometry,
        OutputNorm,
        ParameterGradientGeometry,
        ParameterNorm,
    )
    from monitorch.visualizer import DummyVisualizer

    lenses = [
        OutputNorm(activation=False, include=PROBED, comparison_plot=False),
        OutputGradientGeometry(compute_correlation=False),
        ParameterGradientGeometry(parameters=("weight",), compute_correlation=False),
        ParameterNorm(parameters=("weight",), comparison_plot=False),
    ]
    inspector = PyTorchInspector(
        lenses,
        module=model,
        visualizer=DummyVisualizer(),
        is_active_fn=lambda epoch: work.is_due(epoch - 1),  # it counts from 1
    )
    return lambda step: inspector.tick_epoch()
