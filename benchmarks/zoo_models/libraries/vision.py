"""Vision: segmentation, classification, matching, contrast, and images with text."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.zoo_models.case import Case
from benchmarks.zoo_models.libraries.making import (
    New,
    always,
    case,
    images,
    integers,
    new,
    normal,
    uniform,
)

_SEGMENTATION: dict[str, dict[str, Any]] = {
    "Unet": {"decoder_channels": (32, 16, 16, 8, 8)},
    "UnetPlusPlus": {"decoder_channels": (32, 16, 16, 8, 8)},
    "MAnet": {"decoder_channels": (32, 16, 16, 8, 8)},
    "Linknet": {"decoder_use_norm": "batchnorm"},
    "FPN": {},
    "PSPNet": {},
    "DeepLabV3": {},
    "DeepLabV3Plus": {},
    "UPerNet": {},
    "Segformer": {},
}


def cases() -> list[Case]:
    """All cases."""
    return _segmentation() + _classifiers() + _kornia() + _contrast() + _text()


def _segmentation() -> list[Case]:
    made = [
        case(
            f"segmentation-models-pytorch/{name}",
            new(
                f"segmentation_models_pytorch:{name}",
                "resnet18",
                encoder_weights=None,
                classes=3,
                **options,
            ),
            images(64),
        )
        for name, options in _SEGMENTATION.items()
    ]
    return [
        *made,
        case(
            "segmentation-models-pytorch/Unet with labels",
            new(
                "segmentation_models_pytorch:Unet",
                "timm-mobilenetv3_small_100",
                encoder_weights=None,
                aux_params={"classes": 4, "dropout": 0.2},
            ),
            images(64),
        ),
        case(
            "unet/UNet2D",
            new("unet:UNet2D", normalization="batch", num_encoding_blocks=3, padding=1),
            images(32, 1),
        ),
        case(
            "segment-anything/ImageEncoderViT",
            new(
                "segment_anything.modeling:ImageEncoderViT",
                img_size=64,
                patch_size=8,
                embed_dim=32,
                depth=2,
                num_heads=2,
                out_chans=16,
                use_rel_pos=True,
                window_size=4,
                global_attn_indexes=(1,),
            ),
            images(64),
        ),
        case(
            "segment-anything/MaskDecoder",
            new(
                "segment_anything.modeling:MaskDecoder",
                transformer_dim=32,
                transformer=new(
                    "segment_anything.modeling:TwoWayTransformer",
                    depth=1,
                    embedding_dim=32,
                    num_heads=2,
                    mlp_dim=32,
                ),
            ),
            image_embeddings=lambda n: torch.randn(1, 32, 8, 8),
            image_pe=lambda n: torch.randn(1, 32, 8, 8),
            sparse_prompt_embeddings=normal(2, 32),
            dense_prompt_embeddings=normal(32, 8, 8),
            multimask_output=always(True),
        ),
        case(
            "dynamic-network-architectures/PlainConvUNet",
            _unet_of_nnunet("unet:PlainConvUNet", n_conv_per_stage=1),
            images(32, 1),
        ),
        case(
            "dynamic-network-architectures/ResidualEncoderUNet",
            _unet_of_nnunet("unet:ResidualEncoderUNet", n_blocks_per_stage=1),
            images(32, 1),
        ),
    ]


def _unet_of_nnunet(name: str, **options: Any) -> New:
    return new(
        f"dynamic_network_architectures.architectures.{name}",
        input_channels=1,
        n_stages=3,
        features_per_stage=(8, 16, 16),
        conv_op=torch.nn.Conv2d,
        kernel_sizes=3,
        strides=(1, 2, 2),
        num_classes=2,
        n_conv_per_stage_decoder=1,
        conv_bias=True,
        norm_op=torch.nn.InstanceNorm2d,
        norm_op_kwargs={"affine": True},
        nonlin=torch.nn.LeakyReLU,
        nonlin_kwargs={"inplace": True},
        deep_supervision=True,
        **options,
    )


def _classifiers() -> list[Case]:
    return [
        case(
            "efficientnet-pytorch/EfficientNet",
            new(
                "efficientnet_pytorch:EfficientNet.from_name",
                "efficientnet-b0",
                num_classes=10,
                image_size=64,
            ),
            images(64),
        ),
        case(
            "facenet-pytorch/InceptionResnetV1",
            new("facenet_pytorch:InceptionResnetV1", classify=True, num_classes=10),
            images(96),
        ),
        *(
            case(
                f"pytorchcv/{name}",
                new("pytorchcv.model_provider:get_model", name, num_classes=10, **options),
                images(size),
            )
            for name, size, options in (
                ("resnet20_cifar10", 32, {}),
                ("preresnet20_cifar10", 32, {}),
                ("seresnet20_cifar10", 32, {}),
                ("densenet40_k12_cifar10", 32, {}),
                ("shakeshakeresnet20_2x16d_cifar10", 32, {}),
                ("diaresnet20_cifar10", 32, {}),
            )
        ),
        case(
            "torchxrayvision/DenseNet",
            new(
                "torchxrayvision.models:DenseNet",
                growth_rate=8,
                block_config=(2, 2, 2, 2),
                num_init_features=16,
                num_classes=5,
            ),
            images(224, 1),
        ),
    ]


def _kornia() -> list[Case]:
    return [
        case(
            "kornia/VisionTransformer",
            new(
                "kornia.models.vit:VisionTransformer",
                image_size=32,
                patch_size=8,
                embed_dim=32,
                depth=2,
                num_heads=2,
            ),
            images(32),
        ),
        case("kornia/HardNet", new("kornia.feature:HardNet", pretrained=False), uniform(1, 32, 32)),
        case("kornia/SOSNet", new("kornia.feature:SOSNet", pretrained=False), uniform(1, 32, 32)),
        case("kornia/TFeat", new("kornia.feature:TFeat", pretrained=False), uniform(1, 32, 32)),
        case(
            "kornia/KeyNet",
            new("kornia.feature:KeyNet", pretrained=False),
            uniform(1, 32, 32),
        ),
        case(
            "kornia/OriNet",
            new("kornia.feature:OriNet", pretrained=False),
            uniform(1, 32, 32),
        ),
        case(
            "kornia/DISK",
            new("kornia.feature:DISK"),
            uniform(3, 32, 32),
        ),
        case("kornia/HyNet", new("kornia.feature:HyNet", pretrained=False), uniform(1, 32, 32)),
        case("kornia/XFeat", new("kornia.feature:XFeatModel"), uniform(1, 64, 64)),
        case(
            "kornia/TinyViT",
            new(
                "kornia.models.tiny_vit:TinyViT",
                img_size=64,
                num_classes=10,
                embed_dims=(16, 32, 32, 32),
                depths=(1, 1, 1, 1),
                num_heads=(2, 2, 2, 2),
                window_sizes=(4, 4, 4, 2),
            ),
            images(64),
        ),
        case(
            "kornia/AugmentationSequential",
            new("benchmarks.zoo_models.libraries.small_models:AugmentedNet"),
            uniform(3, 16, 16),
        ),
    ]


def _contrast() -> list[Case]:
    return [
        case(
            "lightly/ResNetGenerator",
            new("lightly.models:ResNetGenerator", name="resnet-9", num_classes=10),
            images(32),
        ),
        case(
            "lightly/SimSiam heads",
            new("benchmarks.zoo_models.libraries.small_models:SimSiam"),
            images(16),
            images(16),
        ),
    ]


def _text() -> list[Case]:
    text = {"context_length": 16, "vocab_size": 64, "width": 32, "heads": 2, "layers": 2}
    vision = {"image_size": 32, "patch_size": 8, "width": 64, "layers": 2, "head_width": 32}
    convolutional = {"image_size": 32, "width": 8, "layers": (1, 1, 1, 1), "head_width": 16}
    return [
        case(
            "open-clip-torch/CLIP",
            new("open_clip:CLIP", embed_dim=32, vision_cfg=vision, text_cfg=text),
            images(32),
            integers(64, 16),
        ),
        case(
            "open-clip-torch/CustomTextCLIP",
            new("open_clip:CustomTextCLIP", embed_dim=32, vision_cfg=convolutional, text_cfg=text),
            images(32),
            integers(64, 16),
        ),
        case(
            "open-clip-torch/SigLIP",
            new(
                "open_clip:CustomTextCLIP",
                embed_dim=32,
                init_logit_bias=-10.0,
                vision_cfg={
                    "image_size": 32,
                    "timm_model_name": "resnet10t",
                    "timm_model_pretrained": False,
                    "timm_pool": "avg",
                    "timm_proj": "linear",
                },
                text_cfg={**text, "no_causal_mask": True, "proj_bias": True, "pool_type": "last"},
            ),
            images(32),
            integers(64, 16),
        ),
    ]
