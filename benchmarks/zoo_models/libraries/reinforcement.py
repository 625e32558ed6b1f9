"""Reinforcement learning: policies of stable-baselines3, actors and losses of torchrl."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.zoo_models.case import Case
from benchmarks.zoo_models.libraries.making import always, case, integers, new, normal, uniform

_OBSERVATION = new("gymnasium.spaces:Box", -1.0, 1.0, shape=(4,))
_BOX = new("gymnasium.spaces:Box", -1.0, 1.0, shape=(2,))
_DISCRETE = new("gymnasium.spaces:Discrete", 3)
_SMALL: dict[str, Any] = {"net_arch": [16, 16]}
_OURS = "benchmarks.zoo_models.libraries.small_actors"


def cases() -> list[Case]:
    """All cases."""
    return _policies() + _networks() + _actors()


def _policies() -> list[Case]:
    policies = {
        "MlpPolicy of PPO": ("ppo:MlpPolicy", _DISCRETE, _SMALL),
        "MlpPolicy of A2C": ("a2c:MlpPolicy", _BOX, _SMALL),
        "MlpPolicy of SAC": ("sac:MlpPolicy", _BOX, _SMALL),
        "MlpPolicy of TD3": ("td3:MlpPolicy", _BOX, _SMALL),
    }
    made = [
        case(
            f"stable-baselines3/{name}",
            new(f"stable_baselines3.{path}", _OBSERVATION, space, always(1e-3), **options),
            uniform(4),
        )
        for name, (path, space, options) in policies.items()
    ]
    return [
        *made,
        case(
            "stable-baselines3/QNetwork of DQN",
            new(
                f"{_OURS}:q_network",
                new("stable_baselines3.dqn:MlpPolicy", _OBSERVATION, _DISCRETE, always(1e-3)),
            ),
            uniform(4),
        ),
        case(
            "stable-baselines3/CnnPolicy of PPO",
            new(
                "stable_baselines3.ppo:CnnPolicy",
                new("gymnasium.spaces:Box", 0, 255, shape=(3, 36, 36), dtype="uint8"),
                _DISCRETE,
                always(1e-3),
            ),
            integers(256, 3, 36, 36),
        ),
        case(
            "stable-baselines3/MultiInputPolicy of PPO",
            new(
                "stable_baselines3.ppo:MultiInputPolicy",
                new("gymnasium.spaces:Dict", {"place": _OBSERVATION, "kind": _DISCRETE}),
                _DISCRETE,
                always(1e-3),
                **_SMALL,
            ),
            lambda n: {"place": torch.rand(n, 4), "kind": torch.randint(3, (n,))},
        ),
        case(
            "stable-baselines3/the loss of PPO",
            new(
                f"{_OURS}:Evaluated",
                new("stable_baselines3.ppo:MlpPolicy", _OBSERVATION, _BOX, always(1e-3), **_SMALL),
            ),
            uniform(4),
            normal(2),
        ),
    ]


def _networks() -> list[Case]:
    networks: dict[str, tuple[dict[str, Any], Any]] = {
        "MLP": ({"in_features": 4, "out_features": 2, "num_cells": [16, 16]}, [normal(4)]),
        "DuelingCnnDQNet": (
            {
                "out_features": 3,
                "cnn_kwargs": {"in_features": 3, "num_cells": [8, 8, 8], "kernel_sizes": 3},
                "mlp_kwargs": {"in_features": 8 * 5 * 5, "num_cells": [16]},
            },
            [normal(3, 64, 64)],
        ),
        "MultiAgentMLP": (
            {
                "n_agent_inputs": 4,
                "n_agent_outputs": 2,
                "n_agents": 3,
                "centralized": True,
                "share_params": False,
                "depth": 2,
                "num_cells": 8,
            },
            [normal(3, 4)],
        ),
        "QMixer": (
            {
                "state_shape": (6,),
                "mixing_embed_dim": 8,
                "n_agents": 3,
                "device": "cpu",
            },
            [normal(3, 1), normal(6)],
        ),
        "NoisyLinear": ({"in_features": 4, "out_features": 2}, [normal(4)]),
        "LSTM": ({"input_size": 4, "hidden_size": 8, "batch_first": True}, [normal(6, 4)]),
        "RSSMPrior": (
            {"action_spec": None, "hidden_dim": 8, "rnn_hidden_dim": 8, "state_dim": 4},
            [normal(4), normal(8), normal(2)],
        ),
        "DTActor": (
            {
                "state_dim": 4,
                "action_dim": 2,
                "transformer_config": {
                    "n_embd": 16,
                    "n_layer": 1,
                    "n_head": 2,
                    "n_inner": 16,
                    "activation": "relu",
                    "n_positions": 16,
                    "resid_pdrop": 0.1,
                    "attn_pdrop": 0.1,
                },
            },
            [normal(4, 4), normal(4, 2), normal(4, 1)],
        ),
    }
    networks["RSSMPrior"][0]["action_spec"] = new("torchrl.data:Unbounded", (2,))
    return [
        case(f"torchrl/{name}", new(f"torchrl.modules:{name}", **options), *makers)
        for name, (options, makers) in networks.items()
    ]


def _actors() -> list[Case]:
    return [
        case(
            f"torchrl/{name}",
            new(f"{_OURS}:{build}"),
            lambda n: _experience(n),
        )
        for name, build in (
            ("ProbabilisticActor", "probabilistic_actor"),
            ("ActorValueOperator", "actor_and_value"),
            ("QValueActor", "q_values"),
            ("LSTMModule", "recurrent_actor"),
            ("ClipPPOLoss", "ppo_loss"),
            ("DQNLoss", "dqn_loss"),
        )
    ]


def _experience(n: int) -> Any:
    from tensordict import TensorDict

    log_prob, done = torch.full((n, 4), -1.0), torch.zeros(n, 4, 1, dtype=torch.bool)
    action = torch.rand(n, 4, 2) - 0.5
    following = {
        "observation": torch.randn(n, 4, 4),
        "reward": torch.randn(n, 4, 1),
        "done": done,
        "terminated": done,
    }
    held = {
        "observation": torch.randn(n, 4, 4),
        "action": action,
        "action_log_prob": log_prob,
        "is_init": done,
        "choice": torch.eye(3)[torch.randint(3, (n, 4))],
        "next": TensorDict(following, [n, 4]),
    }
    return TensorDict(held, [n, 4])
