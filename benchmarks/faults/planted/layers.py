"""Layers of a wrong kind, with wrong options, or not in use."""

from __future__ import annotations

from torch import Tensor, nn

from benchmarks.faults.fault import fault
from benchmarks.faults.training import Training


def _replace(t: Training, part: str, module: nn.Module) -> None:
    t.model.set_submodule(t.names[part], module)


@fault("cnn", "{norm}")
def running_statistics_that_never_move(t: Training) -> None:
    """A batch norm with a momentum of zero."""
    t.module("norm").momentum = 0.0


@fault("cnn", "{norm}")
def running_statistics_that_hardly_move(t: Training) -> None:
    """A batch norm with a momentum of 1e-4."""
    t.module("norm").momentum = 1e-4


@fault("cnn", "*.norm")
def running_statistics_of_all_hardly_move(t: Training) -> None:
    """All batch norms with a momentum of 1e-4."""
    for module in t.model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 1e-4


@fault("cnn", "{norm}")
def batch_norm_in_evaluation(t: Training) -> None:
    """One batch norm uses its running statistics in training."""
    t.module("norm").eval()


@fault("cnn", "{norm}")
def wrong_running_statistics(t: Training) -> None:
    """Something writes into a batch norm's running mean at each step."""
    t.each_step(lambda: t.module("norm").running_mean.fill_(30.0))


@fault("cnn", "{norm}")
def epsilon_of_batch_norm(t: Training) -> None:
    """An epsilon of 1e6 in the place of 1e-5."""
    t.module("norm").eps = 1e6


@fault("gpt", "{norm}")
def epsilon_of_layer_norm(t: Training) -> None:
    """An epsilon of 1e6 in the place of 1e-5."""
    t.module("norm").eps = 1e6


@fault("mlp cnn gpt", "{drop}", "{after}", "{next}.*")
def dropout_of_nearly_all(t: Training) -> None:
    """A dropout that keeps one of a hundred."""
    t.module("drop").p = 0.99


@fault("mlp cnn gpt", "{drop}", "{after}", "{next}.*")
def dropout_of_all(t: Training) -> None:
    """A dropout that keeps nothing."""
    t.module("drop").p = 1.0


@fault("mlp", "layers.*")
def sigmoids_in_a_deep_chain(t: Training) -> None:
    """Gradients that vanish on their way to the first layers."""
    for layer in t.model.layers:  # pyright: ignore[reportGeneralTypeIssues]
        layer.act = nn.Sigmoid()


@fault("mlp cnn", "{act}", "{middle}")
def threshold_above_all(t: Training) -> None:
    """An activation that lets only very large values through."""
    _replace(t, "act", nn.Threshold(50.0, 0.0))


@fault("mlp cnn gpt", "{act}", "{middle}")
def activation_with_bounds_far_too_narrow(t: Training) -> None:
    """A clamp to a thousandth."""
    _replace(t, "act", nn.Hardtanh(-1e-3, 1e-3))


@fault("mlp cnn", "{act}", "{middle}", "{drop}", "{after}", kinds="softmax_axis")
def softmax_as_activation(t: Training) -> None:
    """A softmax over the batch."""
    _replace(t, "act", nn.Softmax(0))


@fault("mlp cnn gpt", "{next}", "{next}.*", notes=True)
def never_called(t: Training) -> None:
    """A stage that the forward goes past."""
    t.module("next").__class__ = _Past


class _Past(nn.Module):
    """A stage that returns what it was given."""

    def forward(self, x: Tensor) -> Tensor:
        """The input."""
        return x


@fault("gpt", "{attention}", "{attention}.*")
def attention_logits_times_50(t: Training) -> None:
    """Attention that looks at one token alone."""
    t.module("attention").scale *= 50


@fault("gpt", "{attention_norm}", "{attention}.*", "{attention}")
def norm_before_attention_of_zeros(t: Training) -> None:
    """Attention that gets nothing."""
    nn.init.zeros_(t.module("attention_norm").weight)
    t.module("attention_norm").weight.requires_grad_(False)
