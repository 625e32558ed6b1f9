"""Models of diffusers: U-Nets, transformers and autoencoders."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.zoo_models.case import Batch, Case
from benchmarks.zoo_models.libraries.making import (
    Maker,
    always,
    case,
    images,
    integers,
    new,
    normal,
    ones,
    truths,
    uniform,
)

_BLOCKS: dict[str, Any] = {
    "block_out_channels": (8, 16),
    "layers_per_block": 1,
    "norm_num_groups": 4,
}
_TIMES = integers(100)
_HEADS: dict[str, Any] = {"num_attention_heads": 2, "attention_head_dim": 16}


def cases() -> list[Case]:
    """All cases."""
    return _unets() + _autoencoders() + _transformers() + _of_images() + _of_videos()


def _case(name: str, options: dict[str, Any], *args: Maker | None, **kwargs: Maker | None) -> Case:
    return case(f"diffusers/{name}", new(f"diffusers:{name}", **options), *args, **kwargs)


def _unets() -> list[Case]:
    attended = {
        **_BLOCKS,
        "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
        "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
        "cross_attention_dim": 16,
        "attention_head_dim": 4,
    }
    return [
        _case(
            "UNet2DModel",
            {
                **_BLOCKS,
                "sample_size": 16,
                "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
                "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
                "attention_head_dim": 4,
            },
            images(16),
            _TIMES,
        ),
        _case("UNet2DConditionModel", attended, images(16, 4), _TIMES, normal(6, 16)),
        _case(
            "UNet1DModel",
            {
                "sample_size": 32,
                "in_channels": 4,
                "out_channels": 4,
                "extra_in_channels": 64,
                "block_out_channels": (32, 64),
                "down_block_types": ("DownBlock1DNoSkip", "AttnDownBlock1D"),
                "up_block_types": ("AttnUpBlock1D", "UpBlock1DNoSkip"),
            },
            normal(4, 32),
            _TIMES,
        ),
        _case(
            "UNet3DConditionModel",
            {
                **_BLOCKS,
                "down_block_types": ("CrossAttnDownBlock3D", "DownBlock3D"),
                "up_block_types": ("UpBlock3D", "CrossAttnUpBlock3D"),
                "cross_attention_dim": 16,
                "attention_head_dim": 4,
            },
            normal(4, 2, 16, 16),
            _TIMES,
            normal(6, 16),
        ),
        Case(
            "libraries/diffusers/UNetSpatioTemporalConditionModel",
            new(
                "diffusers:UNetSpatioTemporalConditionModel",
                block_out_channels=(32, 64),
                layers_per_block=1,
                down_block_types=("CrossAttnDownBlockSpatioTemporal", "DownBlockSpatioTemporal"),
                up_block_types=("UpBlockSpatioTemporal", "CrossAttnUpBlockSpatioTemporal"),
                cross_attention_dim=16,
                num_attention_heads=2,
                projection_class_embeddings_input_dim=24,
                addition_time_embed_dim=8,
            ),
            _frames,
        ),
        _case(
            "ControlNetModel",
            {
                **_BLOCKS,
                "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
                "cross_attention_dim": 16,
                "attention_head_dim": 4,
                "conditioning_embedding_out_channels": (8, 16),
            },
            images(8, 4),
            _TIMES,
            normal(6, 16),
            images(16),
        ),
    ]


def _frames(n: int) -> Batch:
    sample, states = torch.randn(n, 2, 8, 16, 16), torch.randn(n, 1, 16)
    return (sample, torch.randint(100, (n,)), states, torch.rand(n, 3)), {}


def _autoencoders() -> list[Case]:
    coded = {
        **_BLOCKS,
        "down_block_types": ("DownEncoderBlock2D",) * 2,
        "up_block_types": ("UpDecoderBlock2D",) * 2,
        "latent_channels": 4,
    }
    return [
        _case("AutoencoderKL", coded, images(16), sample_posterior=always(True)),
        _case("VQModel", {**coded, "num_vq_embeddings": 16, "vq_embed_dim": 4}, images(16)),
        _case(
            "AutoencoderTiny",
            {
                "encoder_block_out_channels": (8, 8),
                "decoder_block_out_channels": (8, 8),
                "num_encoder_blocks": (1, 2),
                "num_decoder_blocks": (2, 1),
            },
            uniform(3, 16, 16),
        ),
        _case(
            "AsymmetricAutoencoderKL",
            {
                "down_block_types": ("DownEncoderBlock2D",) * 2,
                "down_block_out_channels": (8, 16),
                "up_block_types": ("UpDecoderBlock2D",) * 2,
                "up_block_out_channels": (8, 16),
                "norm_num_groups": 4,
            },
            images(16),
        ),
        _case(
            "AutoencoderKLTemporalDecoder",
            {
                "block_out_channels": (32, 64),
                "layers_per_block": 1,
                "down_block_types": ("DownEncoderBlock2D",) * 2,
            },
            images(16),
            num_frames=always(1),
        ),
        _case(
            "AutoencoderOobleck",
            {
                "encoder_hidden_size": 8,
                "decoder_channels": 8,
                "decoder_input_channels": 4,
                "downsampling_ratios": [2, 4],
                "channel_multiples": [1, 2],
                "audio_channels": 2,
            },
            normal(2, 32),
        ),
        _case(
            "AutoencoderDC",
            {
                "latent_channels": 4,
                "attention_head_dim": 8,
                "encoder_block_types": ("ResBlock", "EfficientViTBlock"),
                "decoder_block_types": ("ResBlock", "EfficientViTBlock"),
                "encoder_block_out_channels": (8, 16),
                "decoder_block_out_channels": (8, 16),
                "encoder_layers_per_block": (1, 1),
                "decoder_layers_per_block": (1, 1),
                "encoder_qkv_multiscales": ((), (5,)),
                "decoder_qkv_multiscales": ((), (5,)),
            },
            images(16),
        ),
        _case(
            "AutoencoderKLCogVideoX",
            {
                "block_out_channels": (8, 8, 8, 8),
                "down_block_types": ("CogVideoXDownBlock3D",) * 4,
                "up_block_types": ("CogVideoXUpBlock3D",) * 4,
                "layers_per_block": 1,
                "latent_channels": 4,
                "norm_num_groups": 2,
            },
            normal(3, 5, 16, 16),
        ),
        _case(
            "AutoencoderKLWan",
            {
                "base_dim": 4,
                "z_dim": 4,
                "dim_mult": [1, 1, 1, 1],
                "num_res_blocks": 1,
                "temperal_downsample": [False, True, True],
            },
            normal(3, 5, 16, 16),
        ),
    ]


def _transformers() -> list[Case]:
    return [
        _case(
            "DiTTransformer2DModel",
            {
                **_HEADS,
                "in_channels": 4,
                "out_channels": 8,
                "num_layers": 2,
                "sample_size": 8,
                "norm_type": "ada_norm_zero",
                "num_embeds_ada_norm": 10,
                "norm_num_groups": 4,
            },
            images(8, 4),
            _TIMES,
            integers(10),
        ),
        _case(
            "Transformer2DModel",
            {
                **_HEADS,
                "in_channels": 8,
                "norm_num_groups": 4,
                "cross_attention_dim": 16,
                "dropout": 0.1,
            },
            images(8, 8),
            normal(6, 16),
        ),
        _case(
            "PriorTransformer",
            {**_HEADS, "num_layers": 2, "embedding_dim": 16, "num_embeddings": 4},
            normal(16),
            _TIMES,
            normal(16),
            normal(4, 16),
        ),
        _case(
            "T5FilmDecoder",
            {
                "input_dims": 8,
                "targets_length": 6,
                "d_model": 32,
                "num_layers": 2,
                "num_heads": 2,
                "d_kv": 8,
                "d_ff": 32,
            },
            encodings_and_masks=lambda n: [(torch.randn(n, 4, 32), torch.ones(n, 4))],
            decoder_input_tokens=normal(6, 8),
            decoder_noise_time=uniform(),
        ),
        _case(
            "UVit2DModel",
            {
                "hidden_size": 16,
                "cond_embed_dim": 16,
                "micro_cond_encode_dim": 8,
                "micro_cond_embed_dim": 40,
                "encoder_hidden_size": 16,
                "vocab_size": 32,
                "codebook_size": 32,
                "in_channels": 16,
                "block_out_channels": 16,
                "num_hidden_layers": 1,
                "num_attention_heads": 2,
                "intermediate_size": 32,
                "block_num_heads": 2,
                "sample_size": 8,
            },
            integers(32, 8, 8),
            normal(6, 16),
            normal(16),
            normal(5),
        ),
    ]


def _of_images() -> list[Case]:
    return [
        _case(
            "SD3Transformer2DModel",
            {
                **_HEADS,
                "sample_size": 8,
                "in_channels": 4,
                "num_layers": 2,
                "caption_projection_dim": 32,
                "joint_attention_dim": 16,
                "pooled_projection_dim": 16,
                "out_channels": 4,
                "pos_embed_max_size": 8,
            },
            images(8, 4),
            normal(6, 16),
            normal(16),
            _TIMES,
        ),
        _case(
            "FluxTransformer2DModel",
            {
                **_HEADS,
                "in_channels": 4,
                "num_layers": 1,
                "num_single_layers": 1,
                "joint_attention_dim": 16,
                "pooled_projection_dim": 16,
                "axes_dims_rope": (4, 6, 6),
            },
            normal(16, 4),
            normal(6, 16),
            normal(16),
            uniform(),
            img_ids=always(torch.zeros(16, 3)),
            txt_ids=always(torch.zeros(6, 3)),
        ),
        _case(
            "PixArtTransformer2DModel",
            {
                **_HEADS,
                "in_channels": 4,
                "out_channels": 8,
                "num_layers": 2,
                "sample_size": 8,
                "cross_attention_dim": 32,
                "caption_channels": 16,
                "norm_num_groups": 4,
                "use_additional_conditions": False,
            },
            images(8, 4),
            normal(6, 16),
            _TIMES,
            added_cond_kwargs=lambda n: {"aspect_ratio": None, "resolution": None},
        ),
        _case(
            "AuraFlowTransformer2DModel",
            {
                **_HEADS,
                "sample_size": 8,
                "in_channels": 4,
                "num_mmdit_layers": 1,
                "num_single_dit_layers": 1,
                "caption_projection_dim": 32,
                "joint_attention_dim": 16,
                "pos_embed_max_size": 16,
            },
            images(8, 4),
            normal(6, 16),
            uniform(),
        ),
        _case(
            "SanaTransformer2DModel",
            {
                **_HEADS,
                "in_channels": 4,
                "out_channels": 4,
                "num_layers": 1,
                "num_cross_attention_heads": 2,
                "cross_attention_head_dim": 16,
                "cross_attention_dim": 32,
                "caption_channels": 16,
                "sample_size": 8,
            },
            images(8, 4),
            normal(6, 16),
            _TIMES,
        ),
        _case(
            "HunyuanDiT2DModel",
            {
                **_HEADS,
                "in_channels": 4,
                "patch_size": 2,
                "sample_size": 8,
                "hidden_size": 32,
                "num_layers": 2,
                "cross_attention_dim": 16,
                "cross_attention_dim_t5": 16,
                "pooled_projection_dim": 16,
                "text_len": 4,
                "text_len_t5": 4,
                "activation_fn": "gelu-approximate",
            },
            images(8, 4),
            uniform(),
            normal(4, 16),
            text_embedding_mask=ones(4),
            encoder_hidden_states_t5=normal(4, 16),
            text_embedding_mask_t5=ones(4),
            image_meta_size=normal(6),
            style=integers(1),
            image_rotary_emb=lambda n: (torch.ones(16, 16), torch.zeros(16, 16)),
        ),
    ]


def _of_videos() -> list[Case]:
    return [
        _case(
            "CogVideoXTransformer3DModel",
            {
                **_HEADS,
                "in_channels": 4,
                "out_channels": 4,
                "time_embed_dim": 8,
                "text_embed_dim": 16,
                "num_layers": 1,
                "sample_width": 8,
                "sample_height": 8,
                "sample_frames": 5,
                "max_text_seq_length": 4,
            },
            normal(2, 4, 8, 8),
            normal(4, 16),
            _TIMES,
        ),
        _case(
            "LTXVideoTransformer3DModel",
            {
                **_HEADS,
                "in_channels": 8,
                "out_channels": 8,
                "num_layers": 1,
                "cross_attention_dim": 32,
                "caption_channels": 16,
            },
            normal(16, 8),
            normal(6, 16),
            _TIMES,
            ones(6),
            num_frames=always(2),
            height=always(2),
            width=always(4),
        ),
        _case(
            "WanTransformer3DModel",
            {
                **_HEADS,
                "in_channels": 4,
                "out_channels": 4,
                "text_dim": 16,
                "freq_dim": 16,
                "ffn_dim": 32,
                "num_layers": 2,
                "cross_attn_norm": True,
            },
            normal(4, 2, 8, 8),
            _TIMES,
            normal(6, 16),
        ),
        _case(
            "AllegroTransformer3DModel",
            {
                **_HEADS,
                "in_channels": 4,
                "out_channels": 4,
                "num_layers": 1,
                "cross_attention_dim": 32,
                "sample_width": 8,
                "sample_height": 8,
                "sample_frames": 4,
                "caption_channels": 16,
            },
            normal(4, 2, 8, 8),
            normal(6, 16),
            _TIMES,
        ),
        _case(
            "MochiTransformer3DModel",
            {
                **_HEADS,
                "num_layers": 2,
                "pooled_projection_dim": 16,
                "in_channels": 4,
                "text_embed_dim": 16,
                "time_embed_dim": 8,
                "max_sequence_length": 8,
            },
            normal(4, 2, 8, 8),
            normal(6, 16),
            _TIMES,
            truths(6),
        ),
    ]
