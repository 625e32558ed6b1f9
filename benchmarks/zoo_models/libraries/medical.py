"""Medical images: the networks of MONAI."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo_models.case import Case
from benchmarks.zoo_models.libraries.making import Maker, case, images, integers, new, normal

_OF_PLANES: dict[str, Any] = {"spatial_dims": 2, "in_channels": 1, "out_channels": 2}
_CHANNELS: dict[str, Any] = {"channels": (8, 16, 16), "strides": (2, 2)}
_HALVED: dict[str, Any] = {"channels": (8, 16, 16), "strides": (2, 2, 2)}
_LEVELS: dict[str, Any] = {
    "channels": (8, 16),
    "num_res_blocks": 1,
    "norm_num_groups": 4,
}
_PLANES, _VOLUMES = images(32, 1), normal(1, 16, 16, 16)
_NETS: dict[str, tuple[dict[str, Any], Maker]] = {
    "UNet": ({**_OF_PLANES, **_CHANNELS, "num_res_units": 1, "dropout": 0.1}, _PLANES),
    "AttentionUnet": ({**_OF_PLANES, **_CHANNELS}, _PLANES),
    "BasicUNet": ({**_OF_PLANES, "features": (8, 8, 8, 16, 16, 8)}, _PLANES),
    "BasicUNetPlusPlus": (
        {**_OF_PLANES, "features": (8, 8, 8, 16, 16, 8), "deep_supervision": True},
        _PLANES,
    ),
    "DynUNet": (
        {
            **_OF_PLANES,
            "kernel_size": [3, 3, 3],
            "strides": [1, 2, 2],
            "upsample_kernel_size": [2, 2],
            "filters": [8, 16, 16],
            "deep_supervision": True,
            "deep_supr_num": 1,
            "res_block": True,
        },
        _PLANES,
    ),
    "SegResNet": ({**_OF_PLANES, "init_filters": 8, "dropout_prob": 0.1}, _PLANES),
    "SegResNetDS": ({**_OF_PLANES, "init_filters": 8, "dsdepth": 2}, _PLANES),
    "SegResNetVAE": (
        {**_OF_PLANES, "input_image_size": (32, 32), "init_filters": 8, "vae_nz": 8},
        _PLANES,
    ),
    "UNETR": (
        {
            "in_channels": 1,
            "out_channels": 2,
            "img_size": 16,
            "feature_size": 4,
            "hidden_size": 24,
            "mlp_dim": 32,
            "num_heads": 2,
        },
        _VOLUMES,
    ),
    "SwinUNETR": (
        {
            "in_channels": 1,
            "out_channels": 2,
            "spatial_dims": 2,
            "feature_size": 12,
            "depths": (1, 1, 1, 1),
            "num_heads": (1, 1, 2, 2),
            "use_v2": True,
        },
        images(64, 1),
    ),
    "VNet": ({"spatial_dims": 2, "in_channels": 1, "out_channels": 2}, _PLANES),
    "HighResNet": ({"spatial_dims": 3, "in_channels": 1, "out_channels": 2}, normal(1, 8, 8, 8)),
    "MedNeXt": ({**_OF_PLANES, "init_filters": 4, "blocks_up": (1, 1, 1, 1)}, images(32, 1)),
    "RegUNet": (
        {**_OF_PLANES, "num_channel_initial": 4, "depth": 2},
        _PLANES,
    ),
    "AutoEncoder": ({**_OF_PLANES, **_HALVED, "inter_channels": (8,)}, _PLANES),
    "VarAutoEncoder": (
        {
            "spatial_dims": 2,
            "in_shape": (1, 32, 32),
            "out_channels": 1,
            "latent_size": 4,
            **_HALVED,
        },
        _PLANES,
    ),
    "AutoencoderKL": (
        {
            **_OF_PLANES,
            **_LEVELS,
            "latent_channels": 4,
            "attention_levels": (False, True),
        },
        _PLANES,
    ),
    "VQVAE": (
        {
            **_OF_PLANES,
            "channels": (8, 8),
            "num_res_layers": 1,
            "num_res_channels": (8, 8),
            "downsample_parameters": ((2, 4, 1, 1), (2, 4, 1, 1)),
            "upsample_parameters": ((2, 4, 1, 1, 0), (2, 4, 1, 1, 0)),
            "num_embeddings": 16,
            "embedding_dim": 8,
        },
        _PLANES,
    ),
    "DenseNet": (
        {**_OF_PLANES, "init_features": 8, "growth_rate": 4, "block_config": (2, 2)},
        _PLANES,
    ),
    "EfficientNetBN": (
        {
            "model_name": "efficientnet-b0",
            "pretrained": False,
            "spatial_dims": 2,
            "in_channels": 1,
            "num_classes": 4,
        },
        _PLANES,
    ),
    "ResNet": (
        {
            "block": "basic",
            "layers": [1, 1, 1, 1],
            "block_inplanes": [8, 8, 16, 16],
            "n_input_channels": 1,
            "num_classes": 4,
        },
        _VOLUMES,
    ),
    "SEResNet50": ({"spatial_dims": 2, "in_channels": 1, "num_classes": 4}, _PLANES),
    "ViT": (
        {
            "in_channels": 1,
            "img_size": (16, 16, 16),
            "patch_size": (8, 8, 8),
            "hidden_size": 24,
            "mlp_dim": 32,
            "num_layers": 2,
            "num_heads": 2,
            "classification": True,
        },
        _VOLUMES,
    ),
    "ViTAutoEnc": (
        {
            "in_channels": 1,
            "img_size": (16, 16, 16),
            "patch_size": (4, 4, 4),
            "hidden_size": 24,
            "mlp_dim": 32,
            "num_layers": 2,
            "num_heads": 2,
            "deconv_chns": 8,
        },
        _VOLUMES,
    ),
    "MaskedAutoEncoderViT": (
        {
            "in_channels": 1,
            "img_size": (32, 32),
            "patch_size": (8, 8),
            "spatial_dims": 2,
            "hidden_size": 24,
            "mlp_dim": 32,
            "num_layers": 2,
            "num_heads": 2,
            "decoder_hidden_size": 24,
            "decoder_mlp_dim": 32,
            "decoder_num_layers": 1,
            "decoder_num_heads": 2,
        },
        _PLANES,
    ),
    "DecoderOnlyTransformer": (
        {
            "num_tokens": 16,
            "max_seq_len": 12,
            "attn_layers_dim": 16,
            "attn_layers_depth": 2,
            "attn_layers_heads": 2,
        },
        integers(16, 12),
    ),
    "PatchDiscriminator": (
        {"spatial_dims": 2, "in_channels": 1, "channels": 8, "num_layers_d": 2},
        _PLANES,
    ),
    "FlexibleUNet": (
        {
            "in_channels": 3,
            "out_channels": 2,
            "backbone": "resnet18",
            "pretrained": False,
            "decoder_channels": (32, 16, 16, 8, 8),
        },
        images(64),
    ),
    "MILModel": (
        {
            "num_classes": 3,
            "mil_mode": "att_trans",
            "pretrained": False,
            "backbone": "resnet18",
            "trans_blocks": 1,
        },
        normal(2, 3, 32, 32),
    ),
}


def cases() -> list[Case]:
    """All cases."""
    made = [
        case(f"monai/{name}", new(f"monai.networks.nets:{name}", **options), maker)
        for name, (options, maker) in _NETS.items()
    ]
    conditioned = {
        "spatial_dims": 2,
        "in_channels": 1,
        **_LEVELS,
        "attention_levels": (False, True),
        "num_head_channels": 8,
        "with_conditioning": True,
        "cross_attention_dim": 8,
    }
    return [
        *made,
        case(
            "monai/DiffusionModelUNet",
            new("monai.networks.nets:DiffusionModelUNet", out_channels=1, **conditioned),
            _PLANES,
            integers(10),
            normal(4, 8),
        ),
        case(
            "monai/ControlNet",
            new(
                "monai.networks.nets:ControlNet",
                conditioning_embedding_in_channels=1,
                conditioning_embedding_num_channels=(8,),
                **conditioned,
            ),
            _PLANES,
            integers(10),
            _PLANES,
            context=normal(4, 8),
        ),
        case(
            "monai/LocalNet",
            new(
                "monai.networks.nets:LocalNet",
                spatial_dims=2,
                in_channels=2,
                out_channels=2,
                num_channel_initial=4,
                extract_levels=(0, 1),
            ),
            images(32, 2),
        ),
        case(
            "monai/Critic",
            new(
                "monai.networks.nets:Critic",
                in_shape=(1, 32, 32),
                channels=(4, 8, 8),
                strides=(2, 2, 2),
                num_res_units=1,
            ),
            _PLANES,
        ),
    ]
