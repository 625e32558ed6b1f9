"""Distributions, flows, Gaussian processes, differential equations and other numbers."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.zoo_models.case import Case
from benchmarks.zoo_models.libraries.making import case, images, new, normal, uniform

_OURS = "benchmarks.zoo_models.libraries.small_probabilistic"


def cases() -> list[Case]:
    """All cases."""
    return _flows() + _ours() + _spiking()


def _flows() -> list[Case]:
    small = {"features": 4, "context": 3}
    hidden = {"hidden_features": (16,)}
    masked: dict[str, Any] = {
        "features": 4,
        "hidden_features": 8,
        "num_layers": 2,
        "num_blocks_per_layer": 1,
    }
    zuko = {
        "MAF": {"transforms": 2, **hidden},
        "NSF": {"transforms": 2, "bins": 4, **hidden},
        "NICE": {"transforms": 2, **hidden},
        "NAF": {"transforms": 1, "signal": 4, **hidden},
        "CNF": {"exact": False, **hidden},
        "GF": {"transforms": 2, "components": 4, **hidden},
    }
    return [
        *(
            case(
                f"zuko/{name}",
                new(f"{_OURS}:Likelihood", new(f"zuko.flows:{name}", **small, **options)),
                normal(4),
                normal(3),
            )
            for name, options in zuko.items()
        ),
        case(
            "nflows/MaskedAutoregressiveFlow",
            new(
                f"{_OURS}:LogProbability",
                new("nflows.flows.autoregressive:MaskedAutoregressiveFlow", **masked),
            ),
            normal(4),
        ),
        case(
            "nflows/SimpleRealNVP",
            new(
                f"{_OURS}:LogProbability",
                new("nflows.flows.realnvp:SimpleRealNVP", **masked, batch_norm_between_layers=True),
            ),
            normal(4),
        ),
        *(
            case(f"normflows/{name}", new(f"{_OURS}:normal_flow", name), normal(4))
            for name in ("RealNVP", "Glow", "spline", "residual")
        ),
        case("freia/SequenceINN", new(f"{_OURS}:invertible_sequence"), normal(4)),
        case("freia/GraphINN", new(f"{_OURS}:invertible_graph"), images(8, 2)),
    ]


def _ours() -> list[Case]:
    return [
        case("gpytorch/ApproximateGP", new(f"{_OURS}:sparse_process"), normal(3)),
        case("gpytorch/deep kernel", new(f"{_OURS}:DeepKernel"), normal(6)),
        case("gpytorch/multitask", new(f"{_OURS}:multitask_process"), normal(3)),
        case("gpytorch/DeepGP", new(f"{_OURS}:deep_process"), normal(3)),
        case("gpytorch/RBFKernel", new(f"{_OURS}:Kernel"), normal(5, 3)),
        case("torchdiffeq/odeint", new(f"{_OURS}:Ode", is_adjoint=False), normal(4)),
        case("torchdiffeq/odeint_adjoint", new(f"{_OURS}:Ode", is_adjoint=True), normal(4)),
        case("torchsde/sdeint", new(f"{_OURS}:Sde"), normal(4)),
        case("torchcde/cdeint", new(f"{_OURS}:Cde"), normal(6, 3)),
        case("blitz-bayesian-pytorch/BayesianLinear", new(f"{_OURS}:blitz"), normal(4)),
        case("blitz-bayesian-pytorch/BayesianLSTM", new(f"{_OURS}:blitz_lstm"), normal(5, 4)),
        case("bayesian-torch/a network made Bayesian", new(f"{_OURS}:bayesian"), images(8)),
        case("torchbnn/BayesLinear", new(f"{_OURS}:bayes_linear"), normal(4)),
        case("complexpytorch/ComplexConv2d", new(f"{_OURS}:complex_network"), _complex_images),
        case("piq/a loss of images", new(f"{_OURS}:Perceived"), uniform(3, 32, 32)),
    ]


def _complex_images(n: int) -> torch.Tensor:
    return torch.randn(n, 1, 8, 8, dtype=torch.complex64)


def _spiking() -> list[Case]:
    models = "spikingjelly.activation_based.model"
    return [
        case("snntorch/Leaky", new(f"{_OURS}:Spiking", "Leaky"), normal(6, 8)),
        case("snntorch/Synaptic", new(f"{_OURS}:Spiking", "Synaptic"), normal(6, 8)),
        case("snntorch/RLeaky", new(f"{_OURS}:Spiking", "RLeaky"), normal(6, 8)),
        case("snntorch/SLSTM", new(f"{_OURS}:Spiking", "SLSTM"), normal(6, 8)),
        case("spikingjelly/a convolution in steps", new(f"{_OURS}:SpikingSteps"), images(8)),
        *(
            case(
                f"spikingjelly/{name}",
                new(f"{_OURS}:spiking_model", f"{models}.{path}"),
                images(32),
            )
            for name, path in (
                ("spiking_resnet18", "spiking_resnet:spiking_resnet18"),
                ("sew_resnet18", "sew_resnet:sew_resnet18"),
            )
        ),
    ]
