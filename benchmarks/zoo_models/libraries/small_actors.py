"""Actors, critics and losses of torchrl, and a policy's loss of stable-baselines3."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


class Evaluated(nn.Module):
    """What stable-baselines3 trains: a policy's `evaluate_actions`, which is not its forward."""

    def __init__(self, policy: nn.Module) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, observations: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Values, likelihoods and entropies of actions."""
        return self.policy.evaluate_actions(observations, actions)


def q_network(policy: nn.Module) -> nn.Module:
    """The part of a policy of DQN that is trained; the policy's forward gives choices."""
    return policy.q_net


def probabilistic_actor() -> nn.Module:
    """An actor that writes its distribution and an action into a TensorDict."""
    from tensordict.nn import NormalParamExtractor, TensorDictModule
    from torchrl.modules import MLP, ProbabilisticActor, TanhNormal

    network = nn.Sequential(
        MLP(in_features=4, out_features=4, num_cells=[16]), NormalParamExtractor()
    )
    return ProbabilisticActor(
        TensorDictModule(network, ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        return_log_prob=True,
    )


def actor_and_value() -> nn.Module:
    """An actor and a critic with features in common."""
    from tensordict.nn import NormalParamExtractor, TensorDictModule
    from torchrl.modules import ActorValueOperator, ProbabilisticActor, TanhNormal, ValueOperator

    common = TensorDictModule(nn.Linear(4, 16), ["observation"], ["hidden"])
    network = nn.Sequential(nn.ReLU(), nn.Linear(16, 4), NormalParamExtractor())
    actor = ProbabilisticActor(
        TensorDictModule(network, ["hidden"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
    )
    critic = ValueOperator(nn.Sequential(nn.ReLU(), nn.Linear(16, 1)), in_keys=["hidden"])
    return ActorValueOperator(common, actor, critic)


def q_values(spec: Any = None) -> nn.Module:
    """An actor that takes the action of the largest value."""
    from torchrl.modules import MLP, QValueActor

    network = MLP(in_features=4, out_features=3, num_cells=[16])
    return QValueActor(network, in_keys=["observation"], action_space="one_hot", spec=spec)


def recurrent_actor() -> nn.Module:
    """An LSTM between linear layers, each reading and writing keys of a TensorDict."""
    from tensordict.nn import TensorDictModule, TensorDictSequential
    from torchrl.modules import LSTMModule

    lstm = LSTMModule(
        input_size=8,
        hidden_size=8,
        in_keys=["embedded", "state", "cell"],
        out_keys=["features", ("next", "state"), ("next", "cell")],
        default_recurrent_mode=True,
    )
    return TensorDictSequential(
        TensorDictModule(nn.Linear(4, 8), ["observation"], ["embedded"]),
        lstm,
        TensorDictModule(nn.Linear(8, 2), ["features"], ["scores"]),
    )


def ppo_loss() -> nn.Module:
    """The loss of PPO around an actor and a critic."""
    from torchrl.modules import MLP, ValueOperator
    from torchrl.objectives import ClipPPOLoss

    critic = ValueOperator(MLP(in_features=4, out_features=1, num_cells=[16]), ["observation"])
    loss = ClipPPOLoss(probabilistic_actor(), critic)
    loss.make_value_estimator()
    return loss


def dqn_loss() -> nn.Module:
    """The loss of DQN around an actor that takes the action of the largest value."""
    from torchrl.objectives import DQNLoss

    loss = DQNLoss(q_values(), action_space="one_hot", delay_value=True)
    loss.set_keys(action="choice")
    loss.make_value_estimator()
    return loss
