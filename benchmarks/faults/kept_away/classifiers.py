"""Mistakes in plain classifiers and regressors: heads, activations, dropout and lists of layers."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults import data
from benchmarks.faults.data import Batch
from benchmarks.faults.fault import WHOLE, held_out
from benchmarks.faults.own.training import Figure, errors_of, normal, train
from benchmarks.faults.training import Training


class LeNet(nn.Module):
    """Two convolutions and three linear layers for digits.

    Args:
        last: What comes behind the last layer.
    """

    def __init__(self, last: nn.Module | None = None) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 3, padding=1)
        self.pool = nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(6, 16, 3, padding=1)
        self.fc1 = nn.Linear(16 * 2 * 2, 60)
        self.fc2 = nn.Linear(60, 42)
        self.fc3 = nn.Linear(42, 10)
        self.last = last or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Logits of (batch, 10)."""
        x = self.pool(F.relu(self.conv1(x)))
        x = self.pool(F.relu(self.conv2(x)))
        x = x.view(-1, 16 * 2 * 2)
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return self.last(self.fc3(x))


@held_out("cnn", "fc3", "last", kinds="^squashed_loss")
def softmax_layer_at_the_end_of_lenet(t: Training, *, mended: bool = False) -> None:
    """Loss stays near 2.3: the net ends in nn.Softmax, and the criterion is CrossEntropyLoss.

    discuss.pytorch.org/t/cross-entropy-loss-is-not-decreasing/43814
    """
    net = LeNet(None if mended else nn.Softmax(dim=1))
    train(t, net, lambda net, x, y: nn.CrossEntropyLoss()(net(x), y), lr=2e-3)


@held_out("cnn", WHOLE, kinds="large_steps|share_of_trouble|zero_output|zero_gradient|plateau")
def lenet_died_of_its_first_steps(t: Training, *, mended: bool = False) -> None:
    """Loss is 2.30 for ever: Adam at 0.1 makes all weights negative and the ReLUs die.

    discuss.pytorch.org/t/cross-entropy-loss-is-not-decreasing/43814/16
    """
    rate = 1e-3 if mended else 0.1
    train(t, LeNet(), lambda net, x, y: nn.CrossEntropyLoss()(net(x), y), lr=rate)


class HousePrices(nn.Module):
    """A regressor of three layers.

    Args:
        relu_at_the_end: Whether its output is a ReLU's, too.
    """

    def __init__(self, *, relu_at_the_end: bool = False) -> None:
        super().__init__()
        self.relu_at_the_end = relu_at_the_end
        self.fc1, self.fc2, self.fc3 = nn.Linear(16, 64), nn.Linear(64, 32), nn.Linear(32, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Values of (batch,)."""
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        x = self.fc3(x)
        return (F.relu(x) if self.relu_at_the_end else x).squeeze(1)


def returns(step: int) -> Batch:
    """Rows and a number for each that may be negative."""
    x = normal(step, 64, 16)
    return x, x[:, 0] - 0.5 * x[:, 1] * x[:, 2] + 0.3 * x[:, 3]


@held_out("mlp", "fc3", kinds="^squashed_loss|zero_output|zero_gradient|share_of_trouble")
def relu_behind_the_regression_head(t: Training, *, mended: bool = False) -> None:
    """Predictions are 0: negative targets behind a ReLU on the output, which gets no gradient.

    ProteomicsML/ProteomicsML#203, jcjohnson/pytorch-examples#30, keras-team/keras#3687
    """
    net = HousePrices(relu_at_the_end=not mended)
    train(t, net, lambda net, x, y: F.mse_loss(net(x), y), returns, lr=3e-3)


@held_out("mlp", WHOLE, kinds="wild_loss|divergence|large_steps|exploding_gradient|non_finite")
def sale_prices_as_they_are(t: Training, *, mended: bool = False) -> None:
    """Loss is NaN within an epoch: SGD at 0.1 on prices up to 755000 that nobody scaled.

    rstudio-conf-2020/dl-keras-tf#9
    """

    def prices(step: int) -> Batch:
        x, y = returns(step)
        return x, y if mended else 180_000 + 80_000 * y

    train(t, HousePrices(), lambda net, x, y: F.mse_loss(net(x), y), prices)
    t.optimizer = torch.optim.SGD(t.model.parameters(), lr=0.1)


class HiddenInAList(nn.Module):
    """An MLP whose hidden layers are made in a loop.

    Args:
        registered: Whether they are in a ModuleList, or in a list of Python's.
    """

    def __init__(self, *, registered: bool) -> None:
        super().__init__()
        self.inp = nn.Linear(16, 48)
        hidden = [nn.Linear(48, 48) for _ in range(4)]
        self.hidden_layers = nn.ModuleList(hidden) if registered else hidden
        self.out = nn.Linear(48, 5)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of (batch, 5)."""
        x = torch.tanh(self.inp(x))
        for layer in self.hidden_layers:
            x = torch.tanh(layer(x))
        return self.out(x)


@held_out("mlp-tanh", WHOLE, kinds="no_update|untrained_backbone|missing_gradient")
def hidden_layers_in_a_list(t: Training, *, mended: bool = False) -> None:
    """The optimizer steps "absolutely nothing": layers in a list are no parameters of the model.

    pytorch/pytorch#666, meta-pytorch/torchfix#31, twitter/the-algorithm-ml#136
    """
    net = HiddenInAList(registered=mended)
    train(t, net, lambda net, x, y: F.cross_entropy(net(x), y), lr=1e-3)


class I3DHead(nn.Module):
    """Features and a head with dropout.

    Args:
        dropout: The number that is handed to nn.Dropout.
    """

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten()
        )
        self.fc = nn.Linear(16 * 16, 32)
        self.drop = nn.Dropout(dropout)
        self.logits = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of (batch, 10)."""
        return self.logits(self.drop(F.relu(self.fc(self.features(x)))))


@held_out("cnn", "drop", kinds="heavy_dropout")
def keep_probability_as_dropout(t: Training, *, mended: bool = False) -> None:
    """A port from TensorFlow hands dropout_keep_prob to nn.Dropout, which drops that share.

    hassony2/kinetics_i3d_pytorch#6, piergiaj/pytorch-i3d#58
    """
    dropout_keep_prob = 0.95
    net = I3DHead(1 - dropout_keep_prob if mended else dropout_keep_prob)
    train(t, net, lambda net, x, y: F.cross_entropy(net(x), y), lr=3e-3)


class DropsItsLogits(nn.Module):
    """A classifier whose layers are all made by one loop.

    Args:
        drops_last: Whether the loop's dropout comes behind the last layer, too.
    """

    def __init__(self, *, drops_last: bool) -> None:
        super().__init__()
        sizes = [16, 64, 64, 5]
        layers: list[nn.Module] = []
        for i in range(len(sizes) - 1):
            layers.append(nn.Linear(sizes[i], sizes[i + 1]))
            if i < len(sizes) - 2:
                layers.append(nn.ReLU())
            if drops_last or i < len(sizes) - 2:
                layers.append(nn.Dropout(0.5))
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of (batch, 5)."""
        return self.layers(x)


@held_out("mlp", "layers.7", "layers.6", kinds="heavy_dropout|odd_layer")
def dropout_of_the_logits(t: Training, *, mended: bool = False) -> None:
    """Predictions are worse with dropout: it is applied to the output layer, too.

    maddin79/darch#12, seba-1511/lstms.pth#2
    """
    net = DropsItsLogits(drops_last=not mended)
    train(t, net, lambda net, x, y: F.cross_entropy(net(x), y), lr=3e-3)


class Prototypes(nn.Module):
    """A classifier by the nearest of learned prototypes, read by attention.

    Args:
        learned: Whether the prototypes are parameters.
    """

    def __init__(self, *, learned: bool) -> None:
        super().__init__()
        self.encoder = nn.Linear(16, 12)
        keys, values = torch.randn(10, 12) * 0.3, torch.randn(10, 5) * 0.1
        self.keys = nn.Parameter(keys) if learned else keys
        self.values = nn.Parameter(values) if learned else values

    def forward(self, x: Tensor) -> Tensor:
        """Logits of (batch, 5)."""
        query = torch.tanh(self.encoder(x))
        weights = F.softmax(query @ self.keys.t(), dim=1)
        return weights @ self.values * 10


@held_out("mlp", WHOLE, kinds="no_update|missing_gradient")
def memory_that_is_a_plain_tensor(t: Training, *, mended: bool = False) -> None:
    """Keys and values of a memory are torch.randn without nn.Parameter, and stay as they are.

    SimonThomine/RememberingNormality#7, shenweichen/DeepCTR-Torch#93, pytorch/pytorch#94828
    """
    net = Prototypes(learned=mended)
    train(t, net, lambda net, x, y: F.cross_entropy(net(x), y), lr=1e-2)


class SigmoidStack(nn.Module):
    """Many hidden layers of ten units.

    Args:
        activation: Behind each.
    """

    def __init__(self, activation: type[nn.Module]) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Linear(16, 24), activation()]
        for _ in range(7):
            layers += [nn.Linear(24, 24), activation()]
        self.net = nn.Sequential(*layers, nn.Linear(24, 5))

    def forward(self, x: Tensor) -> Tensor:
        """Logits of (batch, 5)."""
        return self.net(x)


@held_out("mlp", WHOLE, kinds="vanishing_gradient|rank_collapse|saturated")
def eight_layers_of_sigmoids(t: Training, *, mended: bool = False) -> None:
    """Loss does not move at all, and all outputs are alike: gradients vanish in the sigmoids.

    aymericdamien/TensorFlow-Examples#146
    """
    net = SigmoidStack(nn.ReLU if mended else nn.Sigmoid)
    train(t, net, lambda net, x, y: F.cross_entropy(net(x), y), lr=3e-3)


@held_out("mlp", "fc*", kinds="rank_collapse|zero_output|zero_gradient|odd_start|zero_weight")
def all_weights_start_at_zero(t: Training, *, mended: bool = False) -> None:
    """The output is one value for the whole batch: weights were initialised to zero.

    taourl.com/read-1959901.html, yz93/LAVT-RIS#25
    """
    net = HousePrices()
    if not mended:
        for module in net.modules():
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.weight)
                nn.init.zeros_(module.bias)
    train(t, net, lambda net, x, y: F.mse_loss(net(x), y), returns, lr=3e-3)


@held_out("mlp", "fc*", kinds="rank_collapse|odd_start")
def all_units_start_alike(t: Training, *, mended: bool = False) -> None:
    """All units of a layer learn the same: a constant was taken to make runs repeatable.

    pages.dogdog.run/machine_learning/weight_initialization.html
    """
    net = HousePrices()
    if not mended:
        for parameter in net.parameters():
            nn.init.constant_(parameter, 0.05)
    train(t, net, lambda net, x, y: F.mse_loss(net(x), y), returns, lr=3e-3)


class SharedNorm(nn.Module):
    """Three convolutions, each behind a batch norm.

    Args:
        norms: How many batch norms there are for the three.
    """

    def __init__(self, norms: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 16, 3, padding=1)
        self.convs = nn.ModuleList(nn.Conv2d(16, 16, 3, padding=1) for _ in range(3))
        self.bns = nn.ModuleList(nn.BatchNorm2d(16) for _ in range(norms))
        self.fc = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of (batch, 10)."""
        x = F.relu(self.stem(x))
        for i, conv in enumerate(self.convs):
            x = F.relu(self.bns[i % len(self.bns)](conv(x)))
        return self.fc(x.mean((2, 3)))


@held_out("cnn", "bns*", kinds="stale_statistics|moving_statistics|shared_entries")
def one_batch_norm_for_all_layers(t: Training, *, mended: bool = False) -> Figure:
    """Good while it trains, bad in eval: layers shared a batch norm, and so its statistics.

    dreamquark-ai/tabnet#76
    """
    net = SharedNorm(3 if mended else 1)
    train(t, net, lambda net, x, y: F.cross_entropy(net(x), y), lr=3e-3)
    return errors_of(data.images)
