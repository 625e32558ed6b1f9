"""Small models of our own around parts of libraries for sequences."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def xlstm() -> nn.Module:
    """Two blocks of xlstm, one with a matrix and one with a scalar memory."""
    import xlstm as library

    convolution = {"conv1d_kernel_size": 4, "num_heads": 2}
    matrix = library.mLSTMBlockConfig(
        mlstm=library.mLSTMLayerConfig(**convolution, qkv_proj_blocksize=4)
    )
    scalar = library.sLSTMBlockConfig(
        slstm=library.sLSTMLayerConfig(
            backend="vanilla", **convolution, bias_init="powerlaw_blockdependent"
        ),
        feedforward=library.FeedForwardConfig(proj_factor=1.3, act_fn="gelu"),
    )
    return library.xLSTMBlockStack(
        library.xLSTMBlockStackConfig(
            mlstm_block=matrix,
            slstm_block=scalar,
            context_length=16,
            num_blocks=2,
            embedding_dim=16,
            slstm_at=[1],
        )
    )


def curated_llama() -> nn.Module:
    """A small Llama of curated-transformers."""
    from curated_transformers.models.llama import LlamaCausalLM, LlamaConfig

    config = LlamaConfig(
        dtype=torch.float32,
        hidden_width=32,
        intermediate_width=32,
        n_hidden_layers=2,
        n_query_heads=2,
        n_key_value_heads=1,
        n_pieces=64,
        rotary_embedding_fraction=1.0,
    )
    return LlamaCausalLM(config)


class Likelihood(nn.Module):
    """What gluonts trains: the loss of a model, which is not its forward."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *args: Tensor) -> Tensor:
        """The negative likelihood."""
        return self.model.loss(*args)


class Tagger(nn.Module):
    """A tagger with a conditional random field of pytorch-crf; its forward is the loss."""

    def __init__(self) -> None:
        super().__init__()
        from torchcrf import CRF

        self.embedding = nn.Embedding(32, 16)
        self.lstm = nn.LSTM(16, 8, batch_first=True, bidirectional=True)
        self.scores = nn.Linear(16, 3)
        self.field = CRF(3, batch_first=True)

    def forward(self, words: Tensor, tags: Tensor) -> Tensor:
        """The negative likelihood of tags, or in evaluation the best tags."""
        scores = self.scores(self.lstm(self.embedding(words))[0])
        if self.training:
            return -self.field(scores, tags)
        return torch.tensor(self.field.decode(scores))


class SparseAttention(nn.Module):
    """Attention whose weights are of entmax, many of them zero."""

    def __init__(self) -> None:
        super().__init__()
        from entmax import Entmax15, Sparsemax

        self.project = nn.Linear(16, 48)
        self.weigh, self.choose = Entmax15(dim=-1), Sparsemax(dim=-1)
        self.out = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        """Attends over ``(samples, time, 16)`` and tells each step's class."""
        queries, keys, values = self.project(x).chunk(3, dim=-1)
        attended = self.weigh(queries @ keys.transpose(1, 2)) @ values
        return self.choose(self.out(attended))


class Adapted(nn.Module):
    """An embedding, attention and a classifier with the low ranks of loralib."""

    def __init__(self) -> None:
        super().__init__()
        import loralib

        self.embedding = loralib.Embedding(32, 16, r=2)
        self.project = loralib.MergedLinear(16, 48, r=2, enable_lora=[True, False, True])
        self.head = loralib.Linear(16, 4, r=2, lora_dropout=0.1)
        loralib.mark_only_lora_as_trainable(self)

    def forward(self, words: Tensor) -> Tensor:
        """Scores of words."""
        queries, keys, values = self.project(self.embedding(words)).chunk(3, dim=-1)
        weights = torch.softmax(queries @ keys.transpose(1, 2), dim=-1)
        return self.head((weights @ values).mean(1))


def fairscale_checkpointed() -> nn.Module:
    """A network with a part that fairscale computes again in backward."""
    from fairscale.nn import FlattenParamsWrapper
    from fairscale.nn.checkpoint import checkpoint_wrapper

    inner = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 16))
    return nn.Sequential(
        nn.Linear(16, 16), checkpoint_wrapper(inner), FlattenParamsWrapper(nn.Linear(16, 4))
    )


def tuned(kind: str, **options: Any) -> nn.Module:
    """A small Llama of transformers, tuned in one of the ways of peft."""
    import peft
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=32,
    )
    way = getattr(peft, kind.split()[0])(task_type="CAUSAL_LM", **options)
    return peft.get_peft_model(LlamaForCausalLM(config), way)


def sentences(kind: str) -> nn.Module:
    """A chain of sentence-transformers around a small BERT, without its tokenizer."""
    from sentence_transformers import models
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
    )
    parts: list[nn.Module] = [_Tokens(BertModel(config))]
    if kind == "lstm":
        parts.append(models.LSTM(32, 16))
    pooled = models.Pooling(32, pooling_mode="mean" if kind == "lstm" else kind)
    return nn.Sequential(*parts, pooled, models.Dense(32, 16), models.Normalize())


class _Tokens(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        states = self.model(**features).last_hidden_state
        length = features["attention_mask"].sum(1)
        return {**features, "token_embeddings": states, "sentence_lengths": length.cpu()}
