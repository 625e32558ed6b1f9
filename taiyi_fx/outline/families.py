"""Families of modules, which a picture tells apart by colour."""

from __future__ import annotations

FAMILIES = {
    "attention": ("Attention",),
    "convolution": ("Conv",),
    "linear": ("Linear",),
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
"""What a class's name has in it, by family; the first that fits is taken."""


def family_of(class_name: str) -> str:
    """The family of a module that has no parts, by its class's name; empty if none is known."""
    for family, words in FAMILIES.items():
        if any(word in class_name for word in words):
            return family
    return ""
