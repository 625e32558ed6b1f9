"""Mistakes in attention and transformers written by hand, and in their masks and places."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults.data import Batch
from benchmarks.faults.fault import WHOLE, held_out
from benchmarks.faults.own.language import BabyGPT, Layer, of_the_last, of_tokens
from benchmarks.faults.own.training import Batches, Figure, seeded, train
from benchmarks.faults.training import Training


def last(step: int) -> Batch:
    """Sequences whose class is told by the last token."""
    ids, _ = first(step)
    return ids, ids[:, -1] % 4


def first(step: int) -> Batch:
    """Sequences whose class is told by the first token."""
    ids = torch.randint(16, (64, 8), generator=seeded(step))
    return ids, ids[:, 0] % 4


class MultiHeadAttention(nn.Module):
    """Attention of several heads.

    Args:
        mistake: Which line is wrong.
        heads: How many there are.
        causal: Whether later tokens are hidden.
    """

    def __init__(self, mistake: str = "", heads: int = 4, *, causal: bool = False) -> None:
        super().__init__()
        self.causal = causal
        self.mistake, self.n_heads, self.head_dim = mistake, heads, 32 // heads
        self.q, self.k, self.v = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 32)
        self.linear = nn.Linear(32, 32)
        self.scale = self.head_dim**-0.5

    def forward(self, x: Tensor) -> Tensor:
        """Rows of the same shape."""
        batch, length, _ = x.size()
        q, k, v = self._split(self.q(x)), self._split(self.k(x)), self._split(self.v(x))
        scores = q @ k.transpose(-2, -1)
        scores = scores / self.scale if self.mistake == "scale" else scores * self.scale
        if self.causal:
            later = torch.ones(length, length, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(later, -math.inf)
        attention = F.softmax(scores, dim=0 if self.mistake == "batch" else -1)
        values = attention @ v
        if self.mistake != "merge":
            values = values.permute(0, 2, 1, 3)
        return self.linear(values.reshape(batch, length, self.n_heads * self.head_dim))

    def _split(self, x: Tensor) -> Tensor:
        if self.mistake == "split":
            return x.view(x.size(0), self.n_heads, -1, self.head_dim)
        return x.view(x.size(0), -1, self.n_heads, self.head_dim).permute(0, 2, 1, 3)


class OddLayer(Layer):
    """A layer whose residual connections are not as they should be.

    Args:
        attention: Its attention.
        residual: How the input is added to what is made of it.
    """

    def __init__(self, attention: nn.Module, residual: str) -> None:
        super().__init__(attention)
        self.residual = residual

    def forward(self, x: Tensor) -> Tensor:
        """Rows of the same shape."""
        if self.residual == "doubled":
            x = self.attn(self.norm1(x))
            x = x + x
            return self.ffn(self.norm2(x)) + x
        x = x + self.attn(self.norm1(x))
        return x + self.ffn(self.norm1(x))


class Positions(nn.Module):
    """Sines that are added to the embeddings.

    Args:
        batch_first: Whether they are added along the second axis, and not along the first.
    """

    def __init__(self, *, batch_first: bool = True) -> None:
        super().__init__()
        self.batch_first = batch_first
        position = torch.arange(128).unsqueeze(1)
        rate = torch.exp(torch.arange(0, 32, 2) * (-math.log(10000.0) / 32))
        pe = torch.zeros(128, 1, 32)
        pe[:, 0, 0::2], pe[:, 0, 1::2] = torch.sin(position * rate), torch.cos(position * rate)
        self.register_buffer("pe", pe)

    def forward(self, x: Tensor) -> Tensor:
        """Embeddings of the same shape."""
        pe = self.get_buffer("pe")
        if self.batch_first:
            return x + pe[: x.size(1)].transpose(0, 1)
        return x + pe[: x.size(0)]


class EncoderOfTokens(nn.Module):
    """A classifier of sequences by their last place.

    Args:
        layers: Its layers.
        positions: Adds places.
    """

    def __init__(self, layers: Sequence[nn.Module], positions: Positions | None = None) -> None:
        super().__init__()
        self.embedding = nn.Embedding(16, 32)
        self.position = positions or Positions()
        self.layers = nn.ModuleList(layers)
        self.norm, self.classifier = nn.LayerNorm(32), nn.Linear(32, 4)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of (batch, 4)."""
        x = self.position(self.embedding(ids))
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        return self.classifier(x[:, -1])


def _classify(t: Training, net: nn.Module, batch: Batches = first) -> None:
    train(t, net, of_tokens, batch, lr=3e-3)
    t.steps = 120


def _stack(mistake: str = "", residual: str = "", count: int = 2) -> list[nn.Module]:
    attentions = (MultiHeadAttention(mistake) for _ in range(count))
    return [OddLayer(a, residual) if residual else Layer(a) for a in attentions]


@held_out("lstm", "layers.*.attn*", kinds="softmax_axis|batch_axis")
def softmax_over_the_batch(t: Training, *, mended: bool = False) -> None:
    """Weights are always 1 for a batch of one: nn.Softmax(dim=0) of (batch, ...).

    PetrochukM/PyTorch-NLP#2, jadore801120/attention-is-all-you-need-pytorch#52
    """
    _classify(t, EncoderOfTokens(_stack("" if mended else "batch")))


@held_out(
    "lstm", "layers.*.attn*", kinds="attention_collapse|attention_logit_growth|attention_sink"
)
def divided_by_a_scale_that_is_inverse(t: Training, *, mended: bool = False) -> None:
    """self.scale is dim ** -0.5, and scores are divided by it.

    esceptico/perceiver-io#9
    """
    mistake = "" if mended else "scale"
    _classify(t, EncoderOfTokens([Layer(MultiHeadAttention(mistake, 1)) for _ in range(3)]))


@held_out("lstm", "layers.*", kinds="missing_residual|odd_forward|stream_jump")
def x_plus_x(t: Training, *, mended: bool = False) -> None:
    """The line behind x = attn(x) is x = x + x: it was meant to be a residual connection.

    kyegomez/BitNet#32
    """
    _classify(t, EncoderOfTokens(_stack("", "" if mended else "doubled", count=6)))


@held_out(
    "lstm",
    "layers.*.norm2",
    "layers.*.norm1",
    kinds="never_called|missing_gradient|missing_norm|no_update",
)
def first_norm_used_twice(t: Training, *, mended: bool = False) -> None:
    """ln1 where ln2 was meant, so that ln2 of each layer is never called.

    ml-explore/mlx#1636
    """
    _classify(t, EncoderOfTokens(_stack("", "" if mended else "first norm")))


@held_out("lstm", "position", kinds="broadcast|batch_axis")
def places_added_along_the_batch(t: Training, *, mended: bool = False) -> None:
    """Places are x + pe[:x.size(0)] of batch-first x: each sequence gets that of its row.

    AkiRusProd/numpy-transformer#1, songyangco/GETNext#2, cmu-l3/anlp-fall2025-code#1
    """
    _classify(t, EncoderOfTokens(_stack(), Positions(batch_first=mended)))


@held_out("lstm", "layers*", kinds="shared_entries|same_weights")
def one_layer_times_four(t: Training, *, mended: bool = False) -> None:
    """nn.ModuleList([layer] * n): all layers, and all heads of Medusa, are one and the same.

    linkedin/Liger-Kernel#269, IDEA-Research/DAB-DETR#17, habla-liaa/encodecmae#3
    """
    layers = _stack(count=4) if mended else [Layer(MultiHeadAttention())] * 4
    _classify(t, EncoderOfTokens(layers))


class TorchEncoder(nn.Module):
    """A classifier by torch's own TransformerEncoder.

    Args:
        batch_first: What its layers are told.
        mask: Whether a causal mask is handed over.
        padding: What is handed over as padding: nothing, "true" or "kept".
    """

    def __init__(self, *, batch_first: bool = True, mask: bool = False, padding: str = "") -> None:
        super().__init__()
        self.mask, self.padding = mask, padding
        self.embedding, self.places = nn.Embedding(17, 32), nn.Parameter(0.1 * torch.randn(8, 32))
        layer = nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=batch_first)
        self.transformer_encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.decoder = nn.Linear(32, 4)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of (batch, 4)."""
        x = self.embedding(ids) + self.places
        mask = torch.triu(torch.full((8, 8), -math.inf), 1) if self.mask else None
        padding = None
        if self.padding:
            padding = ids != 16 if self.padding == "kept" else ids == 16
        x = self.transformer_encoder(x, mask, padding)
        return self.decoder(x[:, 0])


@held_out("lstm", "transformer_encoder*", kinds="batch_axis")
def encoder_that_expects_time_first(t: Training, *, mended: bool = False) -> None:
    """TransformerEncoder without batch_first=True gets (batch, time, features).

    IBM/TabFormer#14
    """
    _classify(t, TorchEncoder(batch_first=mended), last)


@held_out("lstm", "transformer_encoder*", "decoder", kinds="first_place|narrow_mask")
def causal_mask_in_an_encoder(t: Training, *, mended: bool = False) -> None:
    """The tutorial's square mask is kept in a model that has to see all of its input.

    openillumi.com/en/en-pytorch-transformer-non-ar-seq2seq-mask-guide
    """
    _classify(t, TorchEncoder(mask=not mended), last)


@held_out("lstm", "transformer_encoder*", kinds="turned_mask|narrow_mask")
def padding_mask_of_what_is_kept(t: Training, *, mended: bool = False) -> None:
    """src_key_padding_mask is True for tokens, where torch hides what is True.

    pytorch/pytorch#39321, facebookresearch/detr#96, mlwithme/TransformerTranslation#2
    """

    def padded(step: int) -> Batch:
        ids, _ = first(step)
        length = torch.randint(3, 8, (64, 1), generator=seeded(step))
        return torch.where(torch.arange(8) < length, ids, 16), ids[:, 2] % 4

    _classify(t, TorchEncoder(padding="true" if mended else "kept"), padded)


def _write(t: Training, heads: str) -> Figure:
    """Trains a language model, and asks for the token behind texts of twelve and padding."""
    fresh = t.batch
    train(t, BabyGPT(lambda: MultiHeadAttention(heads, causal=True)), of_tokens, lr=1e-2)
    t.steps = 200

    def figure(net: nn.Module) -> float:
        x, y = (torch.cat(parts) for parts in zip(*map(fresh, range(900, 916)), strict=True))
        with torch.no_grad():
            made = net(x.masked_fill(torch.arange(32) >= 12, 0))
            return float(F.cross_entropy(made[:, 11], y[:, 11]))

    return figure


@held_out("gpt", "layers.*.attn*", kinds="torn_view")
def heads_merged_without_permute(t: Training, *, mended: bool = False) -> Figure:
    """(batch, heads, tokens, size) is reshaped to (batch, tokens, all) as it is.

    jsbaan/transformer-from-scratch#4, ajhalthor/Transformer-Neural-Network#1,
    hackiey/QAnet-pytorch#2
    """
    return _write(t, "" if mended else "merge")


@held_out("gpt", "layers.*.attn*", kinds="torn_view")
def heads_split_by_view_alone(t: Training, *, mended: bool = False) -> Figure:
    """Q.view(batch, heads, -1, size) in place of view and permute.

    bentrevett/pytorch-seq2seq#148
    """
    return _write(t, "" if mended else "split")


@held_out("gpt", "tok", "lm_head", kinds="wild_start|wild_output|odd_start")
def tied_to_an_embedding_of_deviation_1(t: Training, *, mended: bool = False) -> None:
    """The loss begins far above log(vocabulary): the head shares nn.Embedding's N(0, 1).

    pytorch/pytorch#3121, karpathy/build-nanogpt#18
    """
    net = BabyGPT()
    nn.init.normal_(net.tok.weight, std=0.02 if mended else 1.0)
    net.lm_head.weight = net.tok.weight
    train(t, net, of_tokens, lr=3e-3)
    t.steps = 40


@held_out("gpt", WHOLE, kinds="copied_targets|trivial_loss")
def labels_that_are_the_inputs(t: Training, *, mended: bool = False) -> Figure:
    """The loss goes to zero and nothing sensible is generated: labels were not shifted.

    huggingface/transformers#27517, huggingface/transformers#404
    """
    fresh = t.batch
    train(t, BabyGPT(), of_tokens, lr=1e-2)
    if not mended:
        t.change_batch(lambda step, x, _: (x, x))
    return of_the_last(fresh)


@held_out("gpt", WHOLE, kinds="trivial_loss")
def padding_counts_in_the_loss(t: Training, *, mended: bool = False) -> Figure:
    """ignore_index is -1, and padding has another label: most of the loss is of padding.

    huggingface/transformers#2759, EleutherAI/gpt-neo#45, 01-ai/Yi#110
    """
    fresh = t.batch

    def padded(step: int) -> Batch:
        x, y = fresh(step)
        hidden = torch.arange(32) >= 3
        return x.masked_fill(hidden, 0), y.masked_fill(hidden, -100 if mended else 0)

    train(t, BabyGPT(), of_tokens, padded, lr=1e-2)

    def figure(net: nn.Module) -> float:
        x, y = padded(900)
        with torch.no_grad():
            return float(F.cross_entropy(net(x)[:, :3].flatten(0, 1), y[:, :3].flatten()))

    return figure
