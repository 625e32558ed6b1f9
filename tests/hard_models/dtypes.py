"""Types of numbers."""

from __future__ import annotations

import torch
from torch import nn

from tests.hard_models.case import (
    D,
    TwoLayers,
    case,
    linear,
    quietly,
    tokens,
)


@case("bfloat16", lambda n: ((torch.randn(n, D).bfloat16(),), {}))
def in_bfloat16():
    return TwoLayers().bfloat16()


@case("float16", lambda n: ((torch.randn(n, D).half(),), {}))
def in_float16():
    return TwoLayers().half()


@case("float64", lambda n: ((torch.randn(n, D).double(),), {}))
def in_float64():
    return TwoLayers().double()


@case("mixed types")
class Mixed(TwoLayers):
    def __init__(self):
        super().__init__()
        self.first.bfloat16()
        self.last.double()

    def forward(self, x):
        return self.last(self.first(x.bfloat16()).double()).float()


@case("complex numbers", lambda n: ((torch.randn(n, D, dtype=torch.complex64),), {}))
def in_complex():
    return quietly(TwoLayers().to, torch.complex64)


@case("a Fourier transform in between")
class Fourier(TwoLayers):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(D, D, dtype=torch.complex64)

    def forward(self, x):
        return torch.fft.ifft(self.last(torch.fft.fft(self.first(x)))).real


@case("a sparse tensor", lambda n: ((torch.eye(n).to_sparse(), torch.randn(n, D)), {}))
class SparseInput(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.last = GraphConvolution(), linear()

    def forward(self, adjacency, x):
        return self.last(self.conv(adjacency, x))


class GraphConvolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = linear()

    def forward(self, adjacency, x):
        return torch.sparse.mm(adjacency, self.fc(x))


@case("sparse gradients", tokens)
class SparseGradients(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(10, D, sparse=True), linear()

    def forward(self, x):
        return self.head(self.embedding(x))
