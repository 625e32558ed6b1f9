"""Families of modules, such as convolutions: each has its colour in pictures."""

from __future__ import annotations

FAMILIES = {
    "attention": ("Attention",),
    "linear": (
        "Linear",
        "Conv1D",
    ),  # Conv1D is GPT-2's linear layer
    "convolution": ("Conv",),
    "norm": ("Norm",),
    "recurrent": ("LSTM", "GRU", "RNN"),
    "embedding": ("Embedding",),
    "activation": (
        *("ReLU", "GELU", "SiLU", "Sigmoid", "Tanh", "Softmax", "ELU", "Swish", "swish", "Mish"),
        *("Softplus", "Softsign", "Threshold", "GLU"),
    ),
    "pooling": ("Pool",),
    "dropout": ("Dropout", "DropPath", "StochasticDepth"),
    "loss": ("Loss",),
}
"""Words in class names, by family; the first family with a match is taken."""


def family_of(class_name: str) -> str:
    """The family of a module without children, from its class's name; empty if none matches."""
    for family, words in FAMILIES.items():
        if any(word in class_name for word in words):
            return family
    return ""
