"""The tasks: a model, its data and its optimizer, sound as they are."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from benchmarks.faults import data
from benchmarks.faults.models import CNN, GAN, GPT, LSTM, MLP, MoE
from benchmarks.faults.training import Training, adversarial, balanced, cross_entropy
from benchmarks.faults.vision import LeViT, Mobile, ResNet


def build(task: str, seed: int = 0) -> Training:
    """A sound training that is ready to run.

    Args:
        task: A name in `TASKS`.
        seed: Of the model's weights.
    """
    torch.manual_seed(seed)
    return TASKS[task]()


def mlp(activation: type[nn.Module] = nn.ReLU) -> Training:
    """An MLP of eight layers that learns from a teacher, by SGD with momentum."""
    model = MLP(activation)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    names = {"first": "layers.0.linear", "middle": "layers.3.linear", "act": "layers.3.act"}
    names |= {"drop": "layers.3.drop", "stage": "layers.3", "next": "layers.4", "last": "head"}
    names |= {"after": "layers.4.linear"}
    names |= {"early": "layers.1.linear", "late": "layers.6.linear", "late_act": "layers.6.act"}
    return Training(model, data.rows, optimizer, names, cross_entropy)


def cnn() -> Training:
    """A CNN with batch norm that learns digits, by SGD with momentum."""
    model = CNN()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    names = {"first": "layers.0.conv", "middle": "layers.2.conv", "act": "layers.2.act"}
    names |= {"drop": "layers.2.drop", "stage": "layers.2", "next": "layers.3", "last": "head"}
    names |= {"norm": "layers.2.norm", "after": "layers.3.conv"}
    names |= {"early": "layers.1.conv", "late": "layers.4.conv", "late_act": "layers.4.act"}
    return Training(model, data.images, optimizer, names, cross_entropy)


def gpt(*, is_tied: bool = False) -> Training:
    """A GPT of four blocks that learns characters, by AdamW."""
    model = GPT(is_tied=is_tied)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    names = {"first": "words", "middle": "layers.1.mlp.up", "act": "layers.1.mlp.act"}
    names |= {"drop": "layers.1.mlp.drop", "stage": "layers.1", "next": "layers.2"}
    names |= {"last": "head", "norm": "layers.1.norm2", "after": "layers.1.mlp.down"}
    names |= {"attention": "layers.1.attn", "attention_norm": "layers.1.norm1"}
    names |= {"early": "layers.0.attn.proj", "late": "layers.3.mlp.up"}
    names |= {"late_act": "layers.3.mlp.act"}
    return Training(model, data.text, optimizer, names, cross_entropy)


def moe() -> Training:
    """A GPT of which two blocks are mixtures of experts, balanced by a loss, by AdamW."""
    model = MoE()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    names = {"first": "words", "last": "head", "router": "layers.1.mlp.router"}
    names |= {"mixture": "layers.1.mlp", "expert": "layers.1.mlp.experts.5"}
    names |= {"early": "layers.0.attn.proj", "late": "layers.2.mlp.up"}
    names |= {"late_act": "layers.2.mlp.act"}
    return Training(model, data.text, optimizer, names, balanced)


def lstm() -> Training:
    """An LSTM that has to remember the first token, by Adam."""
    model = LSTM()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    names = {"first": "words", "middle": "lstm", "late": "lstm", "last": "head"}
    return Training(model, data.sequences, optimizer, names, cross_entropy)


def gan() -> Training:
    """A GAN that learns a circle, by Adam."""
    model = GAN()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.5, 0.999))
    names = {"first": "generator.0", "middle": "generator.2", "act": "generator.3"}
    names |= {"last": "generator.4", "judge": "discriminator.2"}
    names |= {"early": "generator.0", "late": "discriminator.2", "late_act": "discriminator.3"}
    return Training(model, data.ring, optimizer, names, adversarial)


def vision(network: Callable[[], nn.Module], names: dict[str, str]) -> Training:
    """A network for images of a usual kind that learns digits, by AdamW."""
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return Training(model, data.images, optimizer, names, cross_entropy)


_OF_RESNET = {"first": "stem.0", "middle": "layers.1.conv1", "norm": "layers.1.bn1"}
_OF_RESNET |= {"act": "layers.1.act1", "stage": "layers.1", "next": "layers.2", "last": "head"}
_OF_RESNET |= {"early": "layers.0.conv1", "late": "layers.3.conv1", "late_act": "layers.3.act1"}
_OF_MOBILE = {"first": "stem.0", "middle": "blocks.3.conv_pw", "norm": "blocks.3.bn1"}
_OF_MOBILE |= {"act": "blocks.3.act1", "stage": "blocks.3", "next": "blocks.4", "last": "head"}
_OF_MOBILE |= {"early": "blocks.1.conv_dw", "late": "blocks.5.conv_pw", "late_act": "blocks.5.act1"}
_OF_LEVIT = {"first": "stem.0", "middle": "blocks.3.up.0", "norm": "blocks.3.up.1"}
_OF_LEVIT |= {"act": "blocks.3.act", "stage": "blocks.3", "next": "blocks.4", "last": "head"}
_OF_LEVIT |= {"early": "blocks.1.up.0", "late": "blocks.7.up.0", "late_act": "blocks.7.act"}

TASKS: dict[str, Callable[[], Training]] = {
    "mlp": mlp,
    "mlp-tanh": lambda: mlp(nn.Tanh),
    "cnn": cnn,
    "gpt": gpt,
    "gpt-tied": lambda: gpt(is_tied=True),
    "moe": moe,
    "lstm": lstm,
    "gan": gan,
    "resnet": lambda: vision(ResNet, _OF_RESNET),
    "mobile": lambda: vision(Mobile, _OF_MOBILE),
    "levit": lambda: vision(LeViT, _OF_LEVIT),
}
