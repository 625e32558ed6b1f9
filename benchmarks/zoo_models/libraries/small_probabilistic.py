"""Small models of our own: flows, Gaussian processes, equations, spikes and other numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.zoo_models.libraries.making import named


class Likelihood(nn.Module):
    """A flow of zuko, whose forward makes a distribution, and the likelihood under it."""

    def __init__(self, flow: nn.Module) -> None:
        super().__init__()
        self.flow = flow

    def forward(self, x: Tensor, context: Tensor) -> Tensor:
        """The log likelihood of ``x`` given a context."""
        return self.flow(context).log_prob(x)


class LogProbability(nn.Module):
    """A flow of nflows, which has no forward, and its `log_prob`."""

    def __init__(self, flow: nn.Module) -> None:
        super().__init__()
        self.flow = flow

    def forward(self, x: Tensor) -> Tensor:
        """The log likelihood of ``x``."""
        return self.flow.log_prob(x)


class _Divergence(nn.Module):
    def __init__(self, flow: nn.Module) -> None:
        super().__init__()
        self.flow = flow

    def forward(self, x: Tensor) -> Tensor:
        return self.flow.forward_kld(x)


def normal_flow(kind: str) -> nn.Module:
    """A flow of normflows; its forward is the divergence that it is trained with."""
    import normflows as library

    base = library.distributions.base.DiagGaussian(4)
    return _Divergence(library.NormalizingFlow(base, _FLOWS[kind](library)))


def _real_nvp(library: Any) -> list[nn.Module]:
    mask = torch.tensor([1.0, 0.0, 1.0, 0.0])
    nets = library.nets
    return [
        part
        for m in (mask, 1 - mask)
        for part in (
            library.flows.MaskedAffineFlow(m, nets.MLP([4, 8, 4]), nets.MLP([4, 8, 4])),
            library.flows.ActNorm(4),
        )
    ]


def _glow(library: Any) -> list[nn.Module]:
    parameters = library.nets.MLP([2, 8, 4], init_zeros=True)
    return [
        library.flows.AffineCouplingBlock(parameters),
        library.flows.LULinearPermute(4),
        library.flows.Permute(4, mode="swap"),
    ]


def _spline(library: Any) -> list[nn.Module]:
    return [
        library.flows.AutoregressiveRationalQuadraticSpline(4, 1, 8, num_bins=4),
        library.flows.CoupledRationalQuadraticSpline(4, 1, 8, num_bins=4),
    ]


def _residual(library: Any) -> list[nn.Module]:
    network = library.nets.LipschitzMLP([4, 8, 4], init_zeros=True, lipschitz_const=0.9)
    return [library.flows.Residual(network, reduce_memory=False), library.flows.ActNorm(4)]


_FLOWS = {
    "RealNVP": _real_nvp,
    "Glow": _glow,
    "spline": _spline,
    "residual": _residual,
}


def invertible_sequence() -> nn.Module:
    """A chain of invertible blocks of FrEIA."""
    from FrEIA import framework, modules

    network = framework.SequenceINN(4)
    for _ in range(2):
        network.append(modules.AllInOneBlock, subnet_constructor=_dense, permute_soft=True)
    return network


def _dense(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 16), nn.ReLU(), nn.Linear(16, outputs))


def _convolved(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(inputs, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, outputs, 1))


def invertible_graph() -> nn.Module:
    """A graph of invertible blocks of FrEIA, which it runs in an order of its own."""
    from FrEIA import framework, modules

    first = framework.InputNode(2, 8, 8, name="input")
    smaller = framework.Node(first, modules.HaarDownsampling, {}, name="smaller")
    coupled = framework.Node(
        smaller, modules.GLOWCouplingBlock, {"subnet_constructor": _convolved}, name="coupled"
    )
    mixed = framework.Node(coupled, modules.PermuteRandom, {"seed": 0}, name="mixed")
    last = framework.OutputNode(mixed, name="output")
    return framework.GraphINN([first, smaller, coupled, mixed, last])


def sparse_process() -> nn.Module:
    """A Gaussian process with inducing points; its call gives a distribution."""
    from gpytorch import models, variational

    class Process(models.ApproximateGP):
        def __init__(self) -> None:
            points = torch.randn(5, 3)
            super().__init__(
                variational.VariationalStrategy(
                    self, points, variational.CholeskyVariationalDistribution(5)
                )
            )
            self.mean_module, self.covar_module = _mean_and_covariance()

        def forward(self, x: Tensor) -> Any:
            return _normal(self.mean_module(x), self.covar_module(x))

    return Process()


def _mean_and_covariance(**options: Any) -> tuple[nn.Module, nn.Module]:
    from gpytorch import kernels, means

    covariance = kernels.ScaleKernel(kernels.RBFKernel(**options), **options)
    return means.ConstantMean(**options), covariance


def _normal(mean: Tensor, covariance: Any) -> Any:
    from gpytorch.distributions import MultivariateNormal

    return MultivariateNormal(mean, covariance)


def multitask_process() -> nn.Module:
    """Two Gaussian processes that three tasks mix."""
    from gpytorch import models, variational

    class Process(models.ApproximateGP):
        def __init__(self) -> None:
            shape = torch.Size([2])
            inner = variational.VariationalStrategy(
                self,
                torch.randn(2, 5, 3),
                variational.MeanFieldVariationalDistribution(5, batch_shape=shape),
            )
            super().__init__(variational.LMCVariationalStrategy(inner, num_tasks=3, num_latents=2))
            self.mean_module, self.covar_module = _mean_and_covariance(batch_shape=shape)

        def forward(self, x: Tensor) -> Any:
            return _normal(self.mean_module(x), self.covar_module(x))

    return Process()


def deep_process() -> nn.Module:
    """A Gaussian process on another one's outputs, which are drawn."""
    from gpytorch import variational
    from gpytorch.models.deep_gps import DeepGP, DeepGPLayer

    class Layer(DeepGPLayer):
        def __init__(self, inputs: int, outputs: int | None) -> None:
            shape = torch.Size([] if outputs is None else [outputs])
            distribution = variational.CholeskyVariationalDistribution(5, batch_shape=shape)
            strategy = variational.VariationalStrategy(
                self, torch.randn(*shape, 5, inputs), distribution
            )
            super().__init__(strategy, inputs, outputs)
            self.mean_module, self.covar_module = _mean_and_covariance(batch_shape=shape)

        def forward(self, x: Tensor) -> Any:
            return _normal(self.mean_module(x), self.covar_module(x))

    class Process(DeepGP):
        def __init__(self) -> None:
            super().__init__()
            self.hidden, self.last = Layer(3, 2), Layer(2, None)

        def forward(self, x: Tensor) -> Any:
            return self.last(self.hidden(x))

    return Process()


class DeepKernel(nn.Module):
    """A Gaussian process on the features of a network."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
        self.process = sparse_process()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance at each point."""
        found = self.process(self.features(x))
        return found.mean, found.variance


class Kernel(nn.Module):
    """A matrix of a kernel, which gpytorch evaluates late."""

    def __init__(self) -> None:
        super().__init__()
        from gpytorch import kernels

        self.kernel = kernels.ScaleKernel(kernels.RBFKernel(ard_num_dims=3))
        self.other = kernels.MaternKernel(nu=1.5)

    def forward(self, x: Tensor) -> Tensor:
        """The covariances of points, ``(samples, points, points)``."""
        return self.kernel(x).to_dense() + self.other(x).to_dense()


class Ode(nn.Module):
    """A differential equation between two linear layers."""

    def __init__(self, is_adjoint: bool) -> None:
        super().__init__()
        import torchdiffeq

        self.solve = torchdiffeq.odeint_adjoint if is_adjoint else torchdiffeq.odeint
        self.first = nn.Linear(4, 8)
        self.field = _Field(8)
        self.last = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        """The scores at the end of time."""
        times = torch.tensor([0.0, 1.0])
        states = self.solve(self.field, self.first(x), times, method="rk4")
        return self.last(states[-1])


class _Field(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(width, 16), nn.Tanh(), nn.Linear(16, width))

    def forward(self, t: Tensor, x: Tensor) -> Tensor:
        return self.net(x)


class Sde(nn.Module):
    """A stochastic differential equation of torchsde behind a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        import torchsde

        self.solve = torchsde.sdeint
        self.first = nn.Linear(4, 4)
        self.equation = _Equation(4)
        self.motion = torchsde.BrownianInterval

    def forward(self, x: Tensor) -> Tensor:
        """The states at two times."""
        x = self.first(x)
        motion = self.motion(t0=0.0, t1=1.0, size=x.shape, entropy=0)
        times = torch.tensor([0.0, 0.5, 1.0])
        return self.solve(self.equation, x, times, dt=0.25, method="euler", bm=motion)


class _Equation(nn.Module):
    noise_type, sde_type = "diagonal", "ito"

    def __init__(self, width: int) -> None:
        super().__init__()
        self.drift, self.spread = nn.Linear(width, width), nn.Linear(width, width)

    def f(self, t: Tensor, y: Tensor) -> Tensor:
        return self.drift(y)

    def g(self, t: Tensor, y: Tensor) -> Tensor:
        return self.spread(y).sigmoid()


class Cde(nn.Module):
    """A differential equation of torchcde that a series drives."""

    def __init__(self) -> None:
        super().__init__()
        import torchcde

        self.library = torchcde
        self.first = nn.Linear(3, 4)
        self.field = _Driven(4, 3)
        self.last = nn.Linear(4, 2)

    def forward(self, series: Tensor) -> Tensor:
        """Scores of series, ``(samples, time, 3)``."""
        path = self.library.CubicSpline(self.library.natural_cubic_coeffs(series))
        start = self.first(path.evaluate(path.interval[0]))
        options: dict[str, Any] = {"method": "rk4", "options": {"step_size": 1.0}}
        states = self.library.cdeint(
            X=path, z0=start, func=self.field, t=path.interval, adjoint=False, **options
        )
        return self.last(states[:, -1])


class _Driven(nn.Module):
    def __init__(self, width: int, channels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width * channels)

    def forward(self, t: Tensor, z: Tensor) -> Tensor:
        return self.linear(z).tanh().unflatten(-1, (z.shape[-1], -1))


def blitz() -> nn.Module:
    """Linear layers with drawn weights."""
    from blitz.modules import BayesianLinear

    return nn.Sequential(BayesianLinear(4, 16), nn.ReLU(), BayesianLinear(16, 2))


def blitz_lstm() -> nn.Module:
    """An LSTM with drawn weights."""
    from blitz.modules import BayesianLSTM

    return _Headed(BayesianLSTM(4, 8), 8)


class _Headed(nn.Module):
    """A recurrent layer without leaves that are called, and a linear one behind it."""

    def __init__(self, body: nn.Module, width: int) -> None:
        super().__init__()
        self.body, self.head = body, nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x)[0])


def bayesian() -> nn.Module:
    """A convolutional network whose layers bayesian-torch has replaced."""
    from bayesian_torch.models.dnn_to_bnn import dnn_to_bnn

    network = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4)
    )
    options = {
        "prior_mu": 0.0,
        "prior_sigma": 1.0,
        "posterior_mu_init": 0.0,
        "posterior_rho_init": -3.0,
        "type": "Reparameterization",
        "moped_enable": False,
        "moped_delta": 0.5,
    }
    dnn_to_bnn(network, options)
    return network


def bayes_linear() -> nn.Module:
    """Linear layers of torchbnn."""
    from torchbnn import BayesLinear

    widths = {"prior_mu": 0, "prior_sigma": 0.1}
    return nn.Sequential(
        BayesLinear(in_features=4, out_features=16, **widths),
        nn.ReLU(),
        BayesLinear(in_features=16, out_features=2, **widths),
    )


def complex_network() -> nn.Module:
    """Complex convolutions and norms."""
    import complexPyTorch.complexLayers as layers  # noqa: N813 - as its module is named

    return nn.Sequential(
        layers.ComplexConv2d(1, 4, 3),
        layers.ComplexBatchNorm2d(4),
        layers.ComplexReLU(),
        layers.ComplexConv2d(4, 2, 3),
    )


class Perceived(nn.Module):
    """A network and the losses of piq between what it is given and what it makes."""

    def __init__(self) -> None:
        super().__init__()
        import piq

        self.net = nn.Conv2d(3, 3, 3, padding=1)
        self.losses = nn.ModuleList([piq.SSIMLoss(), piq.GMSDLoss(), piq.TVLoss()])

    def forward(self, x: Tensor) -> Tensor:
        """The sum of the losses."""
        made = self.net(x).sigmoid()
        similarity, gradients, variation = self.losses
        return similarity(made, x) + gradients(made, x) + 1e-3 * variation(made)


class Spiking(nn.Module):
    """A layer of spiking neurons of snntorch, called once a step."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        import snntorch

        options: dict[str, dict[str, Any]] = {
            "Leaky": {"beta": 0.9, "learn_beta": True},
            "Synaptic": {"alpha": 0.9, "beta": 0.8},
            "RLeaky": {"beta": 0.9, "linear_features": 8},
            "SLSTM": {"input_size": 8, "hidden_size": 8},
        }
        self.first = nn.Linear(8, 8)
        self.neuron = getattr(snntorch, kind)(**options[kind], init_hidden=True)
        self.last = nn.Linear(8, 2)

    def forward(self, series: Tensor) -> Tensor:
        """Scores of series, ``(samples, time, 8)``."""
        for part in self.neuron.modules():
            if hasattr(part, "reset_mem"):
                part.reset_mem()
        spikes = [self.neuron(self.first(x)) for x in series.unbind(1)]
        return self.last(torch.stack(spikes, dim=1)).sum(1)


class SpikingSteps(nn.Module):
    """A convolution and neurons of spikingjelly that see all steps in one call."""

    def __init__(self) -> None:
        super().__init__()
        from spikingjelly.activation_based import functional, layer, neuron

        self.net = nn.Sequential(
            layer.Conv2d(3, 4, 3, padding=1, bias=False),
            layer.BatchNorm2d(4),
            neuron.LIFNode(),
            layer.MaxPool2d(2),
            layer.Flatten(),
            layer.Linear(64, 2),
            neuron.ParametricLIFNode(),
        )
        functional.set_step_mode(self.net, "m")
        self.reset = functional.reset_net

    def forward(self, x: Tensor) -> Tensor:
        """The rate at which each class fires for images."""
        self.reset(self.net)
        return self.net(x.unsqueeze(0).repeat(4, 1, 1, 1, 1)).mean(0)


def spiking_model(path: str) -> nn.Module:
    """A model of spikingjelly that begins each call without memory."""
    from spikingjelly.activation_based import neuron, surrogate

    model = named(path)(
        pretrained=False,
        spiking_neuron=neuron.IFNode,
        surrogate_function=surrogate.ATan(),
        num_classes=10,
        **({"cnf": "ADD"} if "sew" in path else {}),
    )
    return _Forgetful(model)


class _Forgetful(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        from spikingjelly.activation_based import functional

        self.model, self.reset = model, functional.reset_net

    def forward(self, x: Tensor) -> Tensor:
        self.reset(self.model)
        return self.model(x) + self.model(x)
