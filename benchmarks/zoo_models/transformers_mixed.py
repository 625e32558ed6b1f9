"""Models of transformers with inputs of their own: several senses, scenes, videos, time series."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.zoo_models.case import Batch

_VOCABULARY = 99
_LENGTH = 12
_IMAGE = 32
_IMAGE_TOKEN = 90
_PATCHES = 16

_STACK = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
_TEXT = {**_STACK, "vocab_size": _VOCABULARY, "max_position_embeddings": 64}
_VISION = {**_STACK, "image_size": _IMAGE, "patch_size": 8}
_DUAL = {
    "text_config": {**_TEXT, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0},
    "vision_config": _VISION,
    "projection_dim": 16,
}
_LLAMA = {
    **_TEXT,
    "model_type": "llama",
    "num_key_value_heads": 2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_BACKBONE = {
    "model_type": "resnet",
    "embedding_size": 8,
    "hidden_sizes": [8, 8, 16, 16],
    "depths": [1, 1, 1, 1],
    "out_features": ["stage1", "stage2", "stage3", "stage4"],
}
_SERIES = {"prediction_length": 4, "context_length": 8, "lags_sequence": [1, 2], "d_model": 16}


def _ids(n: int, length: int = _LENGTH) -> Tensor:
    return torch.randint(3, 80, (n, length))


def _pixels(n: int, size: int = _IMAGE) -> Tensor:
    return torch.randn(n, 3, size, size)


def _pairs(n: int) -> Batch:
    ids = _ids(n)
    ids[:, -1] = 2
    mask = torch.ones_like(ids)
    return (), {
        "input_ids": ids,
        "attention_mask": mask,
        "pixel_values": _pixels(n),
        "return_loss": True,
    }


def _captions(n: int) -> Batch:
    ids = _ids(n)
    return (), {"input_ids": ids, "pixel_values": _pixels(n), "labels": ids}


def _captions_with_places(n: int) -> Batch:
    ids = torch.cat([torch.full((n, _PATCHES), _IMAGE_TOKEN), _ids(n)], dim=1)
    return (), {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "pixel_values": _pixels(n),
        "labels": ids,
    }


def _queries(n: int) -> Batch:
    return (), {"input_ids": _ids(n), "pixel_values": _pixels(n)}


def _asked_for(n: int) -> Batch:
    ids = _ids(2 * n, 8)
    return (), {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "pixel_values": _pixels(n),
    }


def _classified(n: int) -> Batch:
    return (), {**_queries(n)[1], "labels": torch.rand(n, 2)}


def _documents(n: int) -> Batch:
    corners = torch.randint(0, 400, (n, _LENGTH, 2))
    boxes = torch.cat([corners, corners + 100], dim=2)
    return (), {
        "input_ids": _ids(n),
        "bbox": boxes,
        "pixel_values": _pixels(n),
        "labels": torch.randint(2, (n, _LENGTH)),
    }


def _images(n: int) -> Batch:
    return (), {"pixel_values": _pixels(n)}


def _large_images(n: int) -> Batch:
    return (), {"pixel_values": _pixels(n, 64)}


def _masked_images(n: int) -> Batch:
    masks = torch.rand(n, _PATCHES) > 0.5
    return (), {"pixel_values": _pixels(n), "bool_masked_pos": masks}


def _depths(n: int) -> Batch:
    return (), {"pixel_values": _pixels(n, 64), "labels": torch.rand(n, 64, 64) + 0.1}


def _segments(n: int) -> Batch:
    return (), {"pixel_values": _pixels(n, 64), "labels": torch.randint(2, (n, 64, 64))}


def _parts(n: int) -> Batch:
    return (), {
        "pixel_values": _pixels(n, 64),
        "mask_labels": [torch.randint(2, (2, 64, 64)).float() for _ in range(n)],
        "class_labels": [torch.tensor([0, 1]) for _ in range(n)],
    }


def _videos(n: int) -> Batch:
    return (), {"pixel_values": torch.randn(n, 2, 3, _IMAGE, _IMAGE), "labels": torch.arange(n) % 2}


def _sounds(n: int) -> Batch:
    return (), {"input_features": torch.randn(n, 16, 64), "labels": _ids(n, 8)}


def _sound_frames(n: int) -> Batch:
    return (), {"input_features": torch.randn(n, 64, 16), "labels": _ids(n, 8)}


def _spectrograms(n: int) -> Batch:
    return (), {"input_values": torch.randn(n, 24, 16), "labels": torch.arange(n) % 2}


def _waves(n: int) -> Batch:
    return (), {"input_values": torch.randn(n, 1024), "labels": _ids(n, 6)}


def _channels(n: int) -> Batch:
    return (torch.randn(n, 1, 640),), {}


def _past_and_future(n: int) -> Batch:
    return (), {
        "past_values": torch.randn(n, 10).abs(),
        "past_time_features": torch.randn(n, 10, 2),
        "past_observed_mask": torch.ones(n, 10),
        "future_values": torch.randn(n, 4).abs(),
        "future_time_features": torch.randn(n, 4, 2),
    }


def _patches_in_time(n: int) -> Batch:
    return (), {"past_values": torch.randn(n, 32, 2), "future_values": torch.randn(n, 8, 2)}


def _trajectories(n: int) -> Batch:
    return (), {
        "states": torch.randn(n, 5, 6),
        "actions": torch.randn(n, 5, 3),
        "rewards": torch.randn(n, 5, 1),
        "returns_to_go": torch.randn(n, 5, 1),
        "timesteps": torch.arange(5).expand(n, 5),
        "attention_mask": torch.ones(n, 5),
    }


def _questions(n: int) -> Batch:
    starts = torch.arange(n)
    return (), {"input_ids": _ids(n), "start_positions": starts, "end_positions": starts + 1}


def _sentences(n: int) -> Batch:
    ids = _ids(n)
    ids[:, -1] = 2
    return (), {"input_ids": ids, "labels": torch.arange(n) % 2}


def _tagged(n: int) -> Batch:
    return (), {"input_ids": _ids(n), "labels": torch.randint(2, (n, _LENGTH))}


def _choices(n: int) -> Batch:
    return (), {"input_ids": _ids(3 * n).reshape(n, 3, -1), "labels": torch.arange(n) % 3}


def _long_text(n: int) -> Batch:
    ids = _ids(n, 64)
    return (), {"input_ids": ids, "labels": ids}


def _characters(n: int) -> Batch:
    return (), {"input_ids": _ids(n, 32), "labels": torch.arange(n) % 2}


MIXED: dict[str, tuple[dict[str, Any], Callable[[int], Batch]]] = {
    # Text and images.
    "CLIPModel": (_DUAL, _pairs),
    "SiglipModel": ({k: _DUAL[k] for k in ("text_config", "vision_config")}, _pairs),
    "AltCLIPModel": (_DUAL, _pairs),
    "ChineseCLIPModel": (_DUAL, _pairs),
    "BlipForConditionalGeneration": (_DUAL, _captions),
    "GitForCausalLM": ({"vision_config": _VISION}, _captions),
    "ViltForQuestionAnswering": ({}, _classified),
    "FlavaModel": (
        {
            "image_config": _VISION,
            "text_config": _TEXT,
            "multimodal_config": _STACK,
            "image_codebook_config": {},
            "hidden_size": 32,
        },
        _queries,
    ),
    "LlavaForConditionalGeneration": (
        {
            "text_config": _LLAMA,
            "vision_config": {**_VISION, "model_type": "clip_vision_model"},
            "image_token_index": _IMAGE_TOKEN,
        },
        _captions_with_places,
    ),
    "PaliGemmaForConditionalGeneration": (
        {
            "text_config": {**_LLAMA, "model_type": "gemma", "head_dim": 8},
            "vision_config": {**_VISION, "model_type": "siglip_vision_model"},
            "image_token_index": _IMAGE_TOKEN,
            "projection_dim": 32,
        },
        _captions_with_places,
    ),
    "OwlViTModel": (_DUAL, _asked_for),
    "LayoutLMv3ForTokenClassification": (
        {"input_size": _IMAGE, "coordinate_size": 6, "shape_size": 4},
        _documents,
    ),
    # Images, scenes, depths, videos.
    "ViTMAEForPreTraining": (
        {
            "decoder_num_attention_heads": 4,
            "decoder_hidden_size": 32,
            "decoder_num_hidden_layers": 1,
            "decoder_intermediate_size": 64,
        },
        _images,
    ),
    "ViTForMaskedImageModeling": ({"encoder_stride": 8}, _masked_images),
    "YolosForObjectDetection": (
        {"image_size": [_IMAGE, _IMAGE], "num_detection_tokens": 5},
        _images,
    ),
    "DetrForObjectDetection": ({"backbone_config": _BACKBONE, "num_queries": 5}, _large_images),
    "ConditionalDetrForObjectDetection": (
        {"backbone_config": _BACKBONE, "num_queries": 5},
        _large_images,
    ),
    "DeformableDetrForObjectDetection": (
        {"backbone_config": _BACKBONE, "num_queries": 5},
        _large_images,
    ),
    "Mask2FormerForUniversalSegmentation": (
        {
            "backbone_config": _BACKBONE,
            "feature_size": 32,
            "mask_feature_size": 32,
            "hidden_dim": 32,
            "encoder_feedforward_dim": 64,
            "dim_feedforward": 64,
            "num_queries": 5,
            "train_num_points": 64,
        },
        _parts,
    ),
    "SegformerForSemanticSegmentation": (
        {
            "hidden_sizes": [8, 8, 16, 16],
            "depths": [1, 1, 1, 1],
            "num_attention_heads": [1, 1, 2, 2],
            "decoder_hidden_size": 16,
        },
        _segments,
    ),
    "UperNetForSemanticSegmentation": (
        {
            "backbone_config": _BACKBONE,
            "hidden_size": 16,
            "auxiliary_channels": 8,
            "auxiliary_in_channels": 16,
        },
        _segments,
    ),
    "GLPNForDepthEstimation": (
        {
            "hidden_sizes": [8, 8, 16, 16],
            "depths": [1, 1, 1, 1],
            "num_attention_heads": [1, 1, 2, 2],
            "decoder_hidden_size": 16,
        },
        _depths,
    ),
    "DPTForSemanticSegmentation": (
        {
            "image_size": 64,
            "num_hidden_layers": 4,
            "backbone_out_indices": [0, 1, 2, 3],
            "neck_hidden_sizes": [8, 8, 16, 16],
            "fusion_hidden_size": 16,
        },
        _segments,
    ),
    "Swin2SRForImageSuperResolution": (
        {
            "image_size": _IMAGE,
            "patch_size": 1,
            "embed_dim": 16,
            "depths": [1, 1],
            "num_heads": [2, 2],
            "window_size": 4,
        },
        _images,
    ),
    "VideoMAEForVideoClassification": ({"num_frames": 2}, _videos),
    "TimesformerForVideoClassification": ({"num_frames": 2}, _videos),
    "VivitForVideoClassification": (
        {"num_frames": 2, "tubelet_size": [2, 8, 8], "image_size": _IMAGE},
        _videos,
    ),
    # Sound.
    "WhisperForConditionalGeneration": (
        {
            "num_mel_bins": 16,
            "max_source_positions": 32,
            "decoder_start_token_id": 1,
            "encoder_layerdrop": 0.5,
            "apply_spec_augment": True,
            "mask_time_length": 2,
        },
        _sounds,
    ),
    "Speech2TextForConditionalGeneration": (
        {"input_feat_per_channel": 16, "conv_channels": 16, "decoder_start_token_id": 1},
        _sound_frames,
    ),
    "ASTForAudioClassification": (
        {"num_mel_bins": 16, "max_length": 24, "frequency_stride": 4, "time_stride": 4},
        _spectrograms,
    ),
    "MoonshineForConditionalGeneration": (
        {
            "encoder_num_hidden_layers": 1,
            "decoder_num_hidden_layers": 1,
            "encoder_num_attention_heads": 4,
            "decoder_num_attention_heads": 4,
        },
        _waves,
    ),
    "EncodecModel": ({"num_filters": 4, "hidden_size": 16, "codebook_size": 16}, _channels),
    # Time series and decisions.
    "TimeSeriesTransformerForPrediction": ({**_SERIES, "num_time_features": 2}, _past_and_future),
    "InformerForPrediction": ({**_SERIES, "num_time_features": 2}, _past_and_future),
    "AutoformerForPrediction": (
        {**_SERIES, "num_time_features": 2, "label_length": 4, "moving_average": 3},
        _past_and_future,
    ),
    "PatchTSTForPrediction": (
        {"num_input_channels": 2, "patch_length": 8, "patch_stride": 8, "prediction_length": 8},
        _patches_in_time,
    ),
    "PatchTSMixerForPrediction": (
        {"num_input_channels": 2, "d_model": 8, "prediction_length": 8},
        _patches_in_time,
    ),
    "DecisionTransformerModel": ({"state_dim": 6, "act_dim": 3, "max_ep_len": 8}, _trajectories),
    # Other heads, and text of other kinds.
    "BertForQuestionAnswering": ({}, _questions),
    "RobertaForSequenceClassification": ({}, _sentences),
    "DebertaV2ForTokenClassification": (
        {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
        _tagged,
    ),
    "BertForMultipleChoice": ({}, _choices),
    "XLNetForSequenceClassification": ({}, _sentences),
    "LlamaForSequenceClassification": ({}, _sentences),
    "T5ForSequenceClassification": ({"decoder_start_token_id": 1}, _sentences),
    "CanineForSequenceClassification": (
        {"local_transformer_stride": 8, "num_hash_buckets": 32},
        _characters,
    ),
    "ReformerModelWithLMHead": (
        {
            "attention_head_size": 8,
            "attn_layers": ["local", "lsh"],
            "axial_pos_shape": [8, 8],
            "axial_pos_embds_dim": [16, 16],
            "feed_forward_size": 64,
            "local_attn_chunk_length": 16,
            "lsh_attn_chunk_length": 16,
            "num_buckets": 4,
            "is_decoder": True,
            # What it draws comes from a seed of its own, which differs from run to run.
            "hash_seed": 0,
            "hidden_dropout_prob": 0.0,
            "local_attention_probs_dropout_prob": 0.0,
        },
        _long_text,
    ),
    "PerceiverForSequenceClassification": (
        {
            "num_latents": 8,
            "d_latents": 16,
            "d_model": 16,
            "num_self_attends_per_block": 2,
            "num_self_attention_heads": 2,
            "num_cross_attention_heads": 2,
        },
        lambda n: ((), {"inputs": _ids(n), "labels": torch.arange(n) % 2}),
    ),
}
"""Settings beside the small ones of `transformers_models`, and what makes a batch."""
