"""Models and steps that are sound, each with a twin that has one mistake."""

import torch
import torch.nn.functional as F
from torch import nn

BATCH = 12
CLASSES = 4
TOKENS = 20
PLACES = 9


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.BatchNorm1d(16), nn.Linear(16, CLASSES))


def batch():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(BATCH, 6, generator=generator)
    return x, torch.randint(0, CLASSES, (BATCH,), generator=generator)


def tokens(size=BATCH, places=PLACES):
    return torch.randint(1, TOKENS, (size, places), generator=torch.Generator().manual_seed(2))


class Attending(nn.Module):
    """One layer of attention over tokens, which may be causal and may be given a mask."""

    def __init__(self, causal=False, batch_first=True, width=8):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(TOKENS, width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=batch_first)
        self.head = nn.Linear(width, TOKENS)
        self.causal = causal

    def forward(self, tokens, mask=None):
        x = self.embedding(tokens)
        size = tokens.shape[1]
        later = torch.ones(size, size, dtype=torch.bool).triu(1) if self.causal else None
        hidden = None if mask is None else mask == 0
        x = x + self.attention(x, x, x, key_padding_mask=hidden, attn_mask=later)[0]
        return self.head(x)


class Recurrent(nn.Module):
    """A recurrent layer, sorted by lengths or not, and a head on its last place."""

    def __init__(self, bidirectional=False):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(TOKENS, 8)
        self.lstm = nn.LSTM(8, 8, batch_first=True, bidirectional=bidirectional)
        self.head = nn.Linear(16 if bidirectional else 8, TOKENS)

    def forward(self, tokens):
        return self.head(self.lstm(self.embedding(tokens))[0])


class WrongTanh(torch.autograd.Function):
    """A tanh whose backward takes its input for its output."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.tanh()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * (1 - x.square())


def next_token_loss(logits, tokens):
    return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())
