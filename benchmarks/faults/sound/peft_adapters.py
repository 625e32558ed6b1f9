"""Trainings of peft's adapters in a small Llama."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import peft
import torch
import transformers
from torch import nn

import taiyi_fx
from benchmarks.faults.sound.made_data import walks
from benchmarks.faults.sound.training import sound
from taiyi_fx import Monitor


@sound({}, {"of": "dora"}, {"of": "ia3"}, {"of": "prefix"})
def peft_of_a_llama(of: str = "lora") -> Iterator[Monitor]:
    """LoRA, DoRA, IA3 and prefixes by peft, as its quick tour has them."""
    config = transformers.LlamaConfig(
        vocab_size=40,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    base = transformers.LlamaForCausalLM(config)
    before = torch.optim.AdamW(base.parameters(), lr=3e-3)
    for _ in range(40):
        text = walks(8, 16, 40)
        base(input_ids=text, labels=text).loss.backward()
        before.step()
        before.zero_grad()
    kind = "CAUSAL_LM"
    kinds: dict[str, peft.PeftConfig] = {
        "lora": peft.LoraConfig(r=4, lora_alpha=8, lora_dropout=0.05, task_type=kind),
        "dora": peft.LoraConfig(r=4, lora_alpha=8, use_dora=True, task_type=kind),
        "ia3": peft.IA3Config(task_type=kind),
        "prefix": peft.PrefixTuningConfig(num_virtual_tokens=4, task_type=kind),
    }
    model: Any = peft.get_peft_model(base, kinds[of])
    rate = 1e-2 if of in ("ia3", "prefix") else 2e-3
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    model.train()
    for step in range(80):
        text = 39 - walks(8, 16, 40)
        loss = model(input_ids=text, labels=text).loss
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        yield model.monitor
