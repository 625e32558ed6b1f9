"""Models of transformers: text, images, sound and several of them at once, all tiny."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.zoo_models.case import Batch, Case
from benchmarks.zoo_models.transformers_mixed import MIXED
from benchmarks.zoo_models.vision_operators import define_vision_operators

SHORT = tuple(
    f"transformers/{name}"
    for name in (
        "LlamaForCausalLM",
        "GPT2LMHeadModel",
        "BertForMaskedLM",
        "T5ForConditionalGeneration",
        "ViTForImageClassification",
        "MixtralForCausalLM",
        "MambaForCausalLM",
        "CLIPModel",
        "GPT2LMHeadModel with gradient checkpointing",
    )
)

_VOCABULARY = 99
_LENGTH = 12
_IMAGE = 32
_LABELS = 2

_SMALL: dict[str, Any] = {
    **dict.fromkeys(
        "hidden_size d_model n_embd dim embed_dim embedding_size lru_width".split(), 32
    ),
    **dict.fromkeys(
        "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers "
        "num_decoder_layers num_encoder_layers".split(),
        2,
    ),
    **dict.fromkeys(
        "num_attention_heads n_head n_heads num_heads encoder_attention_heads "
        "decoder_attention_heads".split(),
        4,
    ),
    "num_key_value_heads": 2,
    "head_dim": 8,
    "d_kv": 8,
    **dict.fromkeys(
        "intermediate_size encoder_ffn_dim decoder_ffn_dim d_ff ffn_dim hidden_dim d_inner".split(),
        64,
    ),
    "vocab_size": _VOCABULARY,
    **dict.fromkeys(
        "max_position_embeddings n_positions max_source_positions max_target_positions".split(), 64
    ),
    **dict.fromkeys("num_experts num_local_experts n_routed_experts".split(), 4),
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
    "mamba_d_state": 8,
    "mamba_expand": 2,
    "mamba_n_heads": 8,
    "mamba_d_head": 8,
    "mamba_chunk_size": 8,
    "chunk_size": 8,
    "n_mamba_heads": 2,
    "use_mamba_kernels": False,
    "state_size": 8,
    "image_size": _IMAGE,
    "patch_size": 8,
    "use_cache": False,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "sep_token_id": 2,
}
"""Settings that make a model tiny, for the configurations that have them."""


def _each(names: str, **settings: Any) -> dict[str, dict[str, Any]]:
    """The same settings for each of several models."""
    return dict.fromkeys(names.split(), settings)


_DECODERS: dict[str, dict[str, Any]] = {
    **_each("""
        LlamaForCausalLM MistralForCausalLM Qwen2ForCausalLM Qwen3ForCausalLM GemmaForCausalLM
        Gemma2ForCausalLM CohereForCausalLM Cohere2ForCausalLM OlmoForCausalLM Olmo2ForCausalLM
        Olmo3ForCausalLM Phi3ForCausalLM PhiForCausalLM StableLmForCausalLM Starcoder2ForCausalLM
        GPT2LMHeadModel GPTNeoXForCausalLM GPTBigCodeForCausalLM OPTForCausalLM BloomForCausalLM
        FalconForCausalLM MptForCausalLM CTRLLMHeadModel OpenAIGPTLMHeadModel BioGptForCausalLM
        XGLMForCausalLM NemotronForCausalLM GraniteForCausalLM GlmForCausalLM Glm4ForCausalLM
        SmolLM3ForCausalLM Exaone4ForCausalLM HeliumForCausalLM ArceeForCausalLM
        DiffLlamaForCausalLM PersimmonForCausalLM SeedOssForCausalLM ApertusForCausalLM
        BitNetForCausalLM Ministral3ForCausalLM NanoChatForCausalLM VaultGemmaForCausalLM
        ModernBertDecoderForCausalLM
        """),
    "Gemma3ForCausalLM": {"_config": "Gemma3TextConfig"},
    "GPTJForCausalLM": {"rotary_dim": 4},
    "CodeGenForCausalLM": {"rotary_dim": 4},
    "GPTNeoForCausalLM": {"attention_types": [[["global", "local"], 1]]},
    "XLNetLMHeadModel": {},
    "TrOCRForCausalLM": {},
    # Mixtures of experts.
    **_each("""
        MixtralForCausalLM Qwen2MoeForCausalLM Qwen3MoeForCausalLM OlmoeForCausalLM
        PhimoeForCausalLM GraniteMoeForCausalLM JetMoeForCausalLM GptOssForCausalLM
        Ernie4_5_MoeForCausalLM Glm4MoeForCausalLM
        FlexOlmoForCausalLM HunYuanMoEV1ForCausalLM MiniMaxForCausalLM
        """),
    "Dots1ForCausalLM": {"n_shared_experts": 1, "n_group": 2, "topk_group": 1},
    "DeepseekV2ForCausalLM": {
        "num_key_value_heads": 4,
        "kv_lora_rank": 8,
        "q_lora_rank": 8,
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 8,
        "v_head_dim": 8,
    },
    "DeepseekV3ForCausalLM": {
        "num_key_value_heads": 4,
        "kv_lora_rank": 8,
        "q_lora_rank": 8,
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 8,
        "v_head_dim": 8,
        "n_group": 2,
        "topk_group": 1,
    },
    "Llama4ForCausalLM": {"_config": "Llama4TextConfig", "intermediate_size_mlp": 64},
    # State spaces and other recurrences.
    "MambaForCausalLM": {},
    "Mamba2ForCausalLM": {"num_heads": 8, "head_dim": 8, "n_groups": 2},
    "FalconMambaForCausalLM": {},
    "RwkvForCausalLM": {},
    "JambaForCausalLM": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "ZambaForCausalLM": {
        "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid"],
        "num_hidden_layers": 4,
    },
    "Zamba2ForCausalLM": {"layers_block_type": ["mamba", "hybrid"]},
    "BambaForCausalLM": {"attn_layer_indices": [1]},
    "FalconH1ForCausalLM": {"mamba_d_ssm": 64},
    "GraniteMoeHybridForCausalLM": {"layer_types": ["mamba", "attention"]},
    "RecurrentGemmaForCausalLM": {"num_hidden_layers": 3},
    "Lfm2ForCausalLM": {"layer_types": ["conv", "full_attention"]},
    "Qwen3NextForCausalLM": {
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "layer_types": ["linear_attention", "full_attention"],
    },
    "xLSTMForCausalLM": {"mode": "train", "chunk_size": 4},
}

_ENCODERS: dict[str, dict[str, Any]] = {
    **_each("""
        BertForMaskedLM RobertaForMaskedLM DistilBertForMaskedLM ElectraForMaskedLM
        DebertaV2ForMaskedLM DebertaForMaskedLM AlbertForMaskedLM MPNetForMaskedLM
        CamembertForMaskedLM XLMRobertaForMaskedLM ConvBertForMaskedLM
        RoFormerForMaskedLM MegatronBertForMaskedLM NystromformerForMaskedLM
        FNetForMaskedLM IBertForMaskedLM RemBertForMaskedLM ErnieForMaskedLM
        ModernBertForMaskedLM YosoForMaskedLM MraForMaskedLM SqueezeBertForMaskedLM
        MobileBertForMaskedLM  EsmForMaskedLM
        EuroBertForMaskedLM
        """),
    "LongformerForMaskedLM": {"attention_window": 4},
    "BigBirdForMaskedLM": {"attention_type": "original_full"},
    "FunnelForMaskedLM": {"block_sizes": [1, 1], "num_decoder_layers": 1},
    "LayoutLMForMaskedLM": {},
    "XLMWithLMHeadModel": {"emb_dim": 32, "n_words": _VOCABULARY},
    "FlaubertWithLMHeadModel": {"emb_dim": 32, "n_words": _VOCABULARY},
}

_ENCODER_DECODERS: dict[str, dict[str, Any]] = {
    "T5ForConditionalGeneration": {"decoder_start_token_id": 1},
    **_each("""
        MT5ForConditionalGeneration UMT5ForConditionalGeneration
        BartForConditionalGeneration MBartForConditionalGeneration PegasusForConditionalGeneration
        BlenderbotForConditionalGeneration BlenderbotSmallForConditionalGeneration MarianMTModel
        M2M100ForConditionalGeneration PLBartForConditionalGeneration
        ProphetNetForConditionalGeneration PegasusXForConditionalGeneration
        """),
    "LEDForConditionalGeneration": {"attention_window": 4},
    "LongT5ForConditionalGeneration": {"local_radius": 4, "decoder_start_token_id": 1},
    "SwitchTransformersForConditionalGeneration": {
        "expert_capacity": 8,
        "decoder_start_token_id": 1,
    },
    "NllbMoeForConditionalGeneration": {"expert_capacity": 8, "router_jitter_noise": 0.0},
}

_TOWER = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
_STAGES = {"hidden_sizes": [8, 16, 16, 32], "depths": [1, 1, 1, 1]}
_IMAGE_MODELS: dict[str, dict[str, Any]] = {
    **_each("""
        ViTForImageClassification DeiTForImageClassification BeitForImageClassification
        ViTMSNForImageClassification Dinov2ForImageClassification
        Data2VecVisionForImageClassification
        Dinov2WithRegistersForImageClassification IJepaForImageClassification
        PoolFormerForImageClassification
        """),
    "SiglipForImageClassification": {
        "vision_config": {"image_size": _IMAGE, "patch_size": 8, **_TOWER},
    },
    "ConvNextForImageClassification": {**_STAGES, "patch_size": 4},
    "ConvNextV2ForImageClassification": {**_STAGES, "patch_size": 4},
    "ResNetForImageClassification": {**_STAGES, "embedding_size": 8},
    "RegNetForImageClassification": {**_STAGES, "embedding_size": 8, "groups_width": 8},
    "SwinForImageClassification": {
        "embed_dim": 8,
        "depths": [1, 1],
        "num_heads": [2, 2],
        "window_size": 2,
        "patch_size": 4,
    },
    "Swinv2ForImageClassification": {
        "embed_dim": 8,
        "depths": [1, 1],
        "num_heads": [2, 2],
        "window_size": 2,
        "patch_size": 4,
    },
    "SegformerForImageClassification": {
        "num_attention_heads": [1, 1, 2, 2],
        "hidden_sizes": [8, 8, 16, 16],
        "depths": [1, 1, 1, 1],
    },
    "PvtForImageClassification": {
        "num_attention_heads": [1, 1, 2, 2],
        "hidden_sizes": [8, 8, 16, 16],
        "depths": [1, 1, 1, 1],
        "patch_sizes": [4, 2, 2, 2],
    },
    "MobileNetV1ForImageClassification": {"depth_multiplier": 0.25},
    "MobileNetV2ForImageClassification": {"depth_multiplier": 0.25},
    "MobileViTForImageClassification": {},
    "FocalNetForImageClassification": {
        "embed_dim": 8,
        "depths": [1, 1],
        "focal_levels": [1, 1],
        "focal_windows": [3, 3],
        "patch_size": 4,
    },
    "CvtForImageClassification": {
        "embed_dim": [8, 16, 16],
        "num_heads": [1, 2, 2],
        "depth": [1, 2, 3],
        "cls_token": [False, False, True],
    },
    "LevitForImageClassification": {
        "hidden_sizes": [16, 32, 48],
        "num_attention_heads": [2, 3, 4],
        "depths": [1, 1, 1],
        "key_dim": [8, 8, 8],
        "image_size": 64,
        "patch_size": 16,
    },
    "EfficientNetForImageClassification": {
        "width_coefficient": 0.25,
        "depth_coefficient": 0.25,
        "hidden_dim": 320,
    },
    "BitForImageClassification": {**_STAGES, "embedding_size": 8, "num_groups": 2},
    "SwiftFormerForImageClassification": {
        "embed_dims": [8, 16, 16, 32],
        "depths": [1, 1, 1, 1],
        "image_size": 64,
    },
    "HieraForImageClassification": {
        "embed_dim": 8,
        "image_size": [64, 64],
        "patch_stride": [4, 4],
        "patch_size": [7, 7],
        "depths": [1, 1, 1, 1],
        "num_heads": [1, 1, 2, 2],
    },
    "TextNetForImageClassification": {},
    "PvtV2ForImageClassification": {
        "num_attention_heads": [1, 1, 2, 2],
        "hidden_sizes": [8, 8, 16, 16],
        "depths": [1, 1, 1, 1],
    },
}

_WAVES = {
    "conv_dim": [16, 16],
    "conv_kernel": [8, 4],
    "conv_stride": [4, 2],
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
    "mask_time_length": 2,
}
_SOUND_MODELS: dict[str, dict[str, Any]] = {
    **_each(
        """
        Wav2Vec2ForCTC HubertForCTC WavLMForCTC UniSpeechForCTC UniSpeechSatForCTC
        Data2VecAudioForCTC Wav2Vec2ConformerForCTC
        """,
        **_WAVES,
    ),
    "SEWForCTC": {**_WAVES, "squeeze_factor": 1},
    "SEWDForCTC": {**_WAVES, "squeeze_factor": 1},
}


def _ids(n: int, length: int = _LENGTH) -> Tensor:
    return torch.randint(3, _VOCABULARY, (n, length))


def _text(n: int) -> Batch:
    """Token ids with labels, the first sample padded."""
    ids, mask = _ids(n), torch.ones(n, _LENGTH, dtype=torch.long)
    mask[0, -2:] = 0
    return (), {"input_ids": ids, "attention_mask": mask, "labels": ids}


def _text_to_text(n: int) -> Batch:
    return (), {**_text(n)[1], "labels": _ids(n, 8)}


def _image(n: int, size: int = _IMAGE) -> Batch:
    return (), {"pixel_values": torch.randn(n, 3, size, size), "labels": torch.arange(n) % _LABELS}


def _wave(n: int) -> Batch:
    return (), {"input_values": torch.randn(n, 1024), "labels": _ids(n, 4)}


_CHECKPOINTED = tuple(
    f"transformers/{name}"
    for name in (
        "LlamaForCausalLM",
        "GPT2LMHeadModel",
        "BertForMaskedLM",
        "T5ForConditionalGeneration",
        "ViTForImageClassification",
        "MixtralForCausalLM",
    )
)


def cases() -> list[Case]:
    """All cases."""
    if importlib.util.find_spec("torchvision"):  # which transformers imports where it is there
        define_vision_operators()
    from transformers.utils import logging

    logging.set_verbosity_error()
    kinds: list[tuple[dict[str, dict[str, Any]], Callable[[int], Batch]]] = [
        (_DECODERS, _text),
        (_ENCODERS, _text),
        (_ENCODER_DECODERS, _text_to_text),
        (_IMAGE_MODELS, _image),
        (_SOUND_MODELS, _wave),
    ]
    made = [
        _case(name, inputs, settings)
        for models, inputs in kinds
        for name, settings in models.items()
    ]
    made += [_case(name, inputs, settings) for name, (settings, inputs) in MIXED.items()]
    return made + [_checkpointed(case) for case in made if case.name in _CHECKPOINTED]


def _checkpointed(case: Case) -> Case:
    def build() -> nn.Module:
        model: Any = case.build()
        model.gradient_checkpointing_enable({"use_reentrant": False})
        return model

    return Case(f"{case.name} with gradient checkpointing", build, case.inputs)


def _case(name: str, inputs: Callable[[int], Batch], settings: dict[str, Any]) -> Case:
    image = settings.get("image_size", _IMAGE)
    size = image[0] if isinstance(image, list) else image
    if inputs is _image and size != _IMAGE:
        inputs = functools.partial(_image, size=size)
    return Case(f"transformers/{name}", functools.partial(_build, name, settings), inputs)


def _build(name: str, settings: dict[str, Any]) -> nn.Module:
    import transformers

    model_class = getattr(transformers, name)
    config_class = model_class.config_class
    if "_config" in settings:
        config_class = getattr(transformers, settings["_config"])
    names = {field.name for field in fields(config_class)}
    small = {k: v for k, v in _SMALL.items() if k in names}
    given = {k: v for k, v in settings.items() if k != "_config"}
    return model_class(config_class(**{**small, **given}))
