"""Trainings of small transformers of Hugging Face, from random weights, by loops of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

import taiyi_fx
from benchmarks.faults.sound.made_data import padded, walks
from benchmarks.faults.sound.training import sound
from taiyi_fx import Monitor

WORDS = 60

SMALL: dict[str, Any] = {
    "vocab_size": WORDS,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}


def trained(
    model: Any, optimizer: torch.optim.Optimizer, steps: int, batch: Any, *, clip: float = 1.0
) -> Iterator[Monitor]:
    """The loop of the library's examples without its Trainer.

    Args:
        model: The model, whose output has the loss.
        optimizer: Its optimizer.
        steps: How many.
        batch: Makes the keywords of a forward.
        clip: Largest norm of all gradients.
    """
    scheduler = transformers.get_linear_schedule_with_warmup(optimizer, steps // 10, steps)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    model.train()
    for step in range(steps):
        loss = model(**batch()).loss
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        yield model.monitor


def no_decay(model: nn.Module, rate: float) -> torch.optim.AdamW:
    """AdamW of the library's examples: neither biases nor norms decay."""
    kept = [p for n, p in model.named_parameters() if "bias" in n or "norm" in n.lower()]
    known = {id(p) for p in kept}
    others = [p for p in model.parameters() if id(p) not in known]
    groups = [{"params": others, "weight_decay": 0.01}, {"params": kept, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate)


def masked(ids: Tensor) -> dict[str, Tensor]:
    """What DataCollatorForLanguageModeling makes: 15 % of the words are to be told."""
    labels = ids.clone()
    is_told = (torch.rand(ids.shape) < 0.15) & (ids > 0)
    is_told[:, 1] = True
    labels[~is_told] = -100
    draw = torch.rand(ids.shape)
    ids = ids.masked_fill(is_told & (draw < 0.8), 1)
    ids = torch.where(is_told & (draw > 0.9), torch.randint_like(ids, 2, WORDS), ids)
    return {"input_ids": ids, "labels": labels}


def some_are_frequent(samples: int, time: int) -> Tensor:
    """Texts of which some words are far more frequent than others, as in every language."""
    return 2 + ((WORDS - 2) * torch.rand(samples, time) ** 3).long()


def of_classes(labels: Tensor, classes: int, time: int) -> Tensor:
    """Texts of which most words are of the class of their text."""
    shape = len(labels), time
    own = 2 + labels[:, None] + classes * torch.randint((WORDS - 2) // classes, shape)
    return torch.where(torch.rand(shape) < 0.7, own, torch.randint(2, WORDS, shape))


@sound({}, {"samples": 4, "time": 32})
def bert_of_masked_words(samples: int = 16, time: int = 20) -> Iterator[Monitor]:
    """BERT, pretrained by masked words of padded texts."""
    model = transformers.BertForMaskedLM(transformers.BertConfig(**SMALL))

    def batch() -> dict[str, Tensor]:
        ids = padded(some_are_frequent(samples, time), shortest=6)
        return {**masked(ids), "attention_mask": (ids > 0).long()}

    yield from trained(model, no_decay(model, 1e-3), 120, batch)


@sound({}, {"samples": 4, "classes": 4}, {"samples": 16, "classes": 16, "rate": 1e-3})
def bert_for_classes(samples: int = 16, classes: int = 2, rate: float = 5e-4) -> Iterator[Monitor]:
    """BERT, tuned for classes with attention masks and kinds of tokens."""
    config = transformers.BertConfig(**SMALL, num_labels=classes)
    model = transformers.BertForSequenceClassification(config)

    def batch() -> dict[str, Tensor]:
        labels = torch.randint(classes, (samples,))
        ids = padded(of_classes(labels, classes, 16), shortest=6)
        kinds = (torch.arange(16) > 7).long().expand(samples, -1)
        return {
            "input_ids": ids,
            "attention_mask": (ids > 0).long(),
            "token_type_ids": kinds,
            "labels": labels,
        }

    yield from trained(model, no_decay(model, rate), 100, batch)


@sound()
def bert_of_which_the_first_layers_are_frozen() -> Iterator[Monitor]:
    """Fine-tuning with frozen embeddings and first layer, and a rate for each layer above."""
    model = transformers.BertForSequenceClassification(
        transformers.BertConfig(**{**SMALL, "num_hidden_layers": 4}, num_labels=3)
    )
    bert: Any = model.bert
    for parameter in [*bert.embeddings.parameters(), *bert.encoder.layer[0].parameters()]:
        parameter.data.add_(0.02 * torch.randn_like(parameter))  # as those of a checkpoint are
        parameter.requires_grad_(False)
    groups = [
        {"params": list(layer.parameters()), "lr": 1e-3 * 0.8 ** (4 - i)}
        for i, layer in enumerate(bert.encoder.layer)
        if i
    ]
    top = [*bert.pooler.parameters(), *model.classifier.parameters()]
    groups.append({"params": top, "lr": 1e-3})
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)

    def batch() -> dict[str, Tensor]:
        labels = torch.randint(3, (16,))
        return {"input_ids": of_classes(labels, 3, 12), "labels": labels}

    yield from trained(model, optimizer, 100, batch)


@sound({}, {"samples": 3})
def distilbert_for_tokens(samples: int = 16) -> Iterator[Monitor]:
    """Names in texts by DistilBERT: parts of words and padding have the label -100."""
    config = transformers.DistilBertConfig(
        vocab_size=WORDS, dim=32, n_layers=3, n_heads=4, hidden_dim=64, num_labels=5
    )
    model = transformers.DistilBertForTokenClassification(config)

    def batch() -> dict[str, Tensor]:
        ids = padded(walks(samples, 18, WORDS - 2, 2), shortest=5)
        labels = (ids % 5).masked_fill((ids % 4 == 0) | (ids == 0), -100)
        return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": labels}

    yield from trained(model, no_decay(model, 1e-3), 120, batch)


@sound({}, {"samples": 2, "time": 32, "steps": 60})
def gpt2(samples: int = 8, time: int = 24, steps: int = 120) -> Iterator[Monitor]:
    """GPT-2 whose labels are its inputs, as the library shifts them itself."""
    config = transformers.GPT2Config(
        vocab_size=WORDS, n_positions=64, n_embd=32, n_layer=3, n_head=4
    )
    model = transformers.GPT2LMHeadModel(config)

    def batch() -> dict[str, Tensor]:
        ids = walks(samples, time, WORDS)
        return {"input_ids": ids, "labels": ids}

    yield from trained(model, no_decay(model, 1e-3), steps, batch)


def pairs(samples: int, time: int = 12) -> dict[str, Tensor]:
    """Padded texts, and the same texts turned round, of which padding has the label -100."""
    ids = padded(walks(samples, time, WORDS - 3, 3), shortest=4)
    turned = ids.flip(1)
    return {
        "input_ids": ids,
        "attention_mask": (ids > 0).long(),
        "labels": turned.masked_fill(turned == 0, -100),
    }


@sound({}, {"adafactor": True})
def t5(adafactor: bool = False) -> Iterator[Monitor]:
    """T5 with teacher forcing, whose inputs of the decoder the library shifts itself."""
    config = transformers.T5Config(
        vocab_size=WORDS,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
    )
    model = transformers.T5ForConditionalGeneration(config)
    if adafactor:
        optimizer = transformers.Adafactor(
            model.parameters(), lr=1e-3, relative_step=False, scale_parameter=False
        )
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    yield from trained(model, optimizer, 100, lambda: pairs(12))


@sound()
def bart() -> Iterator[Monitor]:
    """BART with teacher forcing and smoothed labels."""
    config = transformers.BartConfig(
        vocab_size=WORDS,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_position_embeddings=64,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=2,
    )
    model: Any = transformers.BartForConditionalGeneration(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(80):
        inputs = pairs(12)
        logits = model(**inputs).logits
        loss = F.cross_entropy(
            logits.transpose(1, 2), inputs["labels"], ignore_index=-100, label_smoothing=0.1
        )
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        optimizer.zero_grad()
        yield model.monitor


@sound({}, {"of": "Mistral"}, {"of": "Mixtral"}, {"of": "Qwen2"}, {"of": "Gemma"})
def decoder_only(of: str = "Llama") -> Iterator[Monitor]:
    """Llama and those made after it, with fewer keys than queries, in the library's own code."""
    facts = {**SMALL, "num_key_value_heads": 2}
    if of == "Mixtral":
        facts |= {"num_local_experts": 4, "output_router_logits": True}
    if of == "Gemma":
        facts |= {"head_dim": 8}
    config = getattr(transformers, f"{of}Config")(**facts)
    model = getattr(transformers, f"{of}ForCausalLM")(config)

    def batch() -> dict[str, Tensor]:
        ids = walks(8, 24, WORDS)
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)
    yield from trained(model, optimizer, 80, batch)


@sound()
def answers_alone() -> Iterator[Monitor]:
    """Tuning by instructions: the loss is of the answers alone, padded on the right."""
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL))

    def batch() -> dict[str, Tensor]:
        ids = padded(walks(6, 24, WORDS - 1, 1), shortest=14)
        labels = ids.masked_fill((torch.arange(24) < 10) | (ids == 0), -100)
        return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": labels}

    yield from trained(model, torch.optim.AdamW(model.parameters(), lr=5e-4), 100, batch)
