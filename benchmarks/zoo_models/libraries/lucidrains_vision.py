"""Vision, generation and geometry, of the packages of one prolific author and those like them."""

from __future__ import annotations

import functools
from typing import Any

import torch

from benchmarks.zoo_models.case import Batch, Case
from benchmarks.zoo_models.libraries.making import (
    New,
    case,
    images,
    integers,
    new,
    normal,
    truths,
    uniform,
)

_SMALL: dict[str, Any] = {
    "image_size": 32,
    "patch_size": 8,
    "num_classes": 10,
    "dim": 32,
    "depth": 2,
    "heads": 2,
    "mlp_dim": 64,
}
# Of vit-pytorch, where they are and how they differ from a small ViT.
_VITS: dict[str, dict[str, Any]] = {
    "vit:ViT": {"dropout": 0.1, "emb_dropout": 0.1},
    "simple_vit:SimpleViT": {},
    "simple_vit_with_register_tokens:SimpleViT": {},
    "simple_vit_with_patch_dropout:SimpleViT": {},
    "simple_vit_with_qk_norm:SimpleViT": {},
    "simple_vit_with_fft:SimpleViT": {"freq_patch_size": 8},
    "deepvit:DeepViT": {},
    "cait:CaiT": {"cls_depth": 1, "layer_dropout": 0.05},
    "vit_for_small_dataset:ViT": {},
    "vit_with_patch_merger:ViT": {"patch_merge_layer": 1, "patch_merge_num_tokens": 4},
    "vit_with_patch_dropout:ViT": {},
    "ats_vit:ViT": {"max_tokens_per_depth": (8, 4)},
    "parallel_vit:ViT": {"num_parallel_branches": 2},
    "rvt:RvT": {},
    "learnable_memory_vit:ViT": {},
    "vit_with_decorr:ViT": {},
    "normalized_vit:nViT": {},
    "simple_uvit:SimpleUViT": {},
    "jumbo_vit:JumboViT": {"num_jumbo_cls": 1},
}


def cases() -> list[Case]:
    """All cases."""
    return _vits() + _pyramids() + _self_supervised() + _images() + _diffusion() + _geometry()


def _vits() -> list[Case]:
    made = []
    for path, options in _VITS.items():
        module, _, name = path.partition(":")
        label = name if module in (name.lower(), f"simple_{name.lower()}") else module
        build = new(f"vit_pytorch.{path}", **{**_SMALL, **options})
        made.append(case(f"vit-pytorch/{label}", build, images(32)))
    return made


def _pyramids() -> list[Case]:
    return [
        case(
            "vit-pytorch/CCT",
            new(
                "vit_pytorch.cct:CCT",
                img_size=32,
                embedding_dim=32,
                n_conv_layers=1,
                kernel_size=7,
                stride=4,
                padding=3,
                num_layers=2,
                num_heads=2,
                mlp_ratio=2.0,
                num_classes=10,
                positional_embedding="learnable",
            ),
            images(32),
        ),
        case(
            "vit-pytorch/CrossViT",
            new(
                "vit_pytorch.cross_vit:CrossViT",
                image_size=32,
                num_classes=10,
                depth=2,
                sm_dim=16,
                sm_patch_size=8,
                sm_enc_depth=1,
                sm_enc_heads=2,
                sm_enc_mlp_dim=32,
                lg_dim=32,
                lg_patch_size=16,
                lg_enc_depth=1,
                lg_enc_heads=2,
                lg_enc_mlp_dim=32,
                cross_attn_depth=1,
                cross_attn_heads=2,
            ),
            images(32),
        ),
        case(
            "vit-pytorch/T2TViT",
            new(
                "vit_pytorch.t2t:T2TViT",
                dim=32,
                image_size=32,
                depth=2,
                heads=2,
                mlp_dim=64,
                num_classes=10,
                t2t_layers=((7, 4), (3, 2)),
            ),
            images(32),
        ),
        case(
            "vit-pytorch/PiT",
            new(
                "vit_pytorch.pit:PiT",
                image_size=32,
                patch_size=8,
                dim=32,
                num_classes=10,
                depth=(1, 1),
                heads=2,
                mlp_dim=64,
            ),
            images(32),
        ),
        case(
            "vit-pytorch/LeViT",
            new(
                "vit_pytorch.levit:LeViT",
                image_size=64,
                num_classes=10,
                stages=2,
                dim=(32, 48),
                depth=1,
                heads=(2, 3),
                mlp_mult=2,
            ),
            images(64),
        ),
        case(
            "vit-pytorch/CvT",
            new("vit_pytorch.cvt:CvT", num_classes=10, **_by_stage("s{}_{}", _CVT)),
            images(64),
        ),
        case(
            "vit-pytorch/TwinsSVT",
            new("vit_pytorch.twins_svt:TwinsSVT", num_classes=10, **_by_stage("s{}_{}", _TWINS)),
            images(64),
        ),
        case(
            "vit-pytorch/CrossFormer",
            new(
                "vit_pytorch.crossformer:CrossFormer",
                num_classes=10,
                dim=(32, 32, 64, 64),
                depth=(1, 1, 1, 1),
                global_window_size=(4, 2, 2, 1),
                local_window_size=2,
                cross_embed_kernel_sizes=((4, 8), (2, 4), (2, 4), (2, 4)),
            ),
            images(64),
        ),
        case(
            "vit-pytorch/RegionViT",
            new(
                "vit_pytorch.regionvit:RegionViT",
                dim=(16, 16, 32, 32),
                depth=(1, 1, 1, 1),
                window_size=2,
                num_classes=10,
            ),
            images(64),
        ),
        case(
            "vit-pytorch/ScalableViT",
            new(
                "vit_pytorch.scalable_vit:ScalableViT",
                num_classes=10,
                dim=16,
                heads=(1, 2, 2, 2),
                depth=(1, 1, 1, 1),
                ssa_dim_key=(8, 8, 8, 8),
                reduction_factor=(4, 2, 1, 1),
                window_size=(8, 4, None, None),
            ),
            images(64),
        ),
        case(
            "vit-pytorch/SepViT",
            new(
                "vit_pytorch.sep_vit:SepViT",
                num_classes=10,
                dim=16,
                dim_head=8,
                heads=(1, 2),
                depth=(1, 1),
            ),
            images(56),
        ),
        case(
            "vit-pytorch/MaxViT",
            new(
                "vit_pytorch.max_vit:MaxViT",
                num_classes=10,
                dim_conv_stem=16,
                dim=16,
                dim_head=8,
                depth=(1, 1),
                window_size=4,
            ),
            images(32),
        ),
        case(
            "vit-pytorch/NesT",
            new(
                "vit_pytorch.nest:NesT",
                image_size=32,
                patch_size=4,
                dim=16,
                heads=2,
                num_hierarchies=2,
                block_repeats=(1, 1),
                num_classes=10,
            ),
            images(32),
        ),
        case(
            "vit-pytorch/MobileViT",
            new(
                "vit_pytorch.mobile_vit:MobileViT",
                image_size=(64, 64),
                dims=[16, 24, 32],
                channels=[8, 8, 16, 16, 16, 16, 24, 24, 32, 32, 32],
                num_classes=10,
            ),
            images(64),
        ),
        case(
            "vit-pytorch/XCiT",
            new(
                "vit_pytorch.xcit:XCiT",
                image_size=32,
                patch_size=8,
                num_classes=10,
                dim=32,
                depth=2,
                cls_depth=1,
                heads=2,
                mlp_dim=64,
            ),
            images(32),
        ),
        case(
            "vit-pytorch/ViViT",
            new(
                "vit_pytorch.vivit:ViViT",
                image_size=16,
                frames=4,
                image_patch_size=8,
                frame_patch_size=2,
                num_classes=10,
                dim=32,
                spatial_depth=1,
                temporal_depth=1,
                heads=2,
                mlp_dim=64,
            ),
            normal(3, 4, 16, 16),
        ),
        case(
            "vit-pytorch/ViT of volumes",
            new(
                "vit_pytorch.vit_3d:ViT",
                image_size=16,
                frames=4,
                image_patch_size=8,
                frame_patch_size=2,
                num_classes=10,
                dim=32,
                depth=2,
                heads=2,
                mlp_dim=64,
            ),
            normal(3, 4, 16, 16),
        ),
        case(
            "vit-pytorch/ViT of series",
            new(
                "vit_pytorch.vit_1d:ViT",
                seq_len=32,
                patch_size=4,
                num_classes=10,
                dim=32,
                depth=2,
                heads=2,
                mlp_dim=64,
            ),
            normal(3, 32),
        ),
        Case(
            "libraries/vit-pytorch/NaViT",
            new("vit_pytorch.na_vit:NaViT", **{**_SMALL, "token_dropout_prob": 0.1}),
            _images_of_any_size,
        ),
    ]


_CVT = {
    "emb_dim": (16, 24, 32),
    "heads": (1, 2, 2),
    "depth": (1, 1, 1),
    "emb_stride": (4, 2, 2),
}
_TWINS = {
    "emb_dim": (16, 16, 32, 32),
    "patch_size": (4, 2, 2, 2),
    "local_patch_size": (2, 2, 2, 2),
    "global_k": (2, 2, 2, 1),
    "depth": (1, 1, 1),
}


def _by_stage(form: str, options: dict[str, tuple[int, ...]]) -> dict[str, int]:
    return {
        form.format(stage, name): value
        for name, values in options.items()
        for stage, value in enumerate(values, start=1)
    }


def _images_of_any_size(n: int) -> Batch:
    return ([torch.randn(3, 16 + 8 * (i % 2), 32) for i in range(n)],), {"group_images": False}


def _vit(**options: Any) -> New:
    return new("vit_pytorch:ViT", **{**_SMALL, **options})


def _self_supervised() -> list[Case]:
    return [
        case(
            "vit-pytorch/MAE",
            new(
                "vit_pytorch:MAE",
                encoder=_vit(pool="mean"),
                decoder_dim=16,
                masking_ratio=0.5,
                decoder_depth=1,
                decoder_heads=2,
                decoder_dim_head=8,
            ),
            images(32),
        ),
        case(
            "vit-pytorch/LookViT",
            new(
                "vit_pytorch.look_vit:LookViT",
                dim=32,
                image_size=32,
                num_classes=10,
                depth=2,
                patch_size=16,
                highres_patch_size=8,
                heads=2,
                cross_attn_heads=2,
            ),
            images(32),
        ),
        case(
            "vit-pytorch/Dino",
            new(
                "vit_pytorch.dino:Dino",
                _vit(),
                image_size=32,
                hidden_layer="to_latent",
                projection_hidden_size=32,
                projection_layers=2,
                num_classes_K=64,
            ),
            uniform(3, 32, 32),
        ),
        case(
            "byol-pytorch/BYOL",
            new(
                "byol_pytorch:BYOL",
                _vit(),
                image_size=32,
                hidden_layer="to_latent",
                projection_size=16,
                projection_hidden_size=32,
            ),
            uniform(3, 32, 32),
        ),
        case(
            "x-clip/CLIP",
            new(
                "x_clip:CLIP",
                dim_text=32,
                dim_image=32,
                dim_latent=16,
                num_text_tokens=64,
                text_enc_depth=1,
                text_seq_len=16,
                text_heads=2,
                visual_enc_depth=1,
                visual_image_size=32,
                visual_patch_size=8,
                visual_heads=2,
            ),
            integers(64, 16),
            images(32),
        ),
        case(
            "coca-pytorch/CoCa",
            new(
                "coca_pytorch.coca_pytorch:CoCa",
                dim=32,
                image_dim=32,
                img_encoder=new(
                    "vit_pytorch.extractor:Extractor",
                    new("vit_pytorch.simple_vit_with_patch_dropout:SimpleViT", **_SMALL),
                    return_embeddings_only=True,
                    detach=False,
                ),
                num_tokens=64,
                unimodal_depth=1,
                multimodal_depth=1,
                dim_head=16,
                heads=2,
            ),
            text=integers(64, 16),
            images=images(32),
        ),
        case(
            "flamingo-pytorch/PerceiverResampler",
            new(
                "flamingo_pytorch:PerceiverResampler",
                dim=32,
                depth=2,
                dim_head=16,
                heads=2,
                num_latents=4,
            ),
            normal(8, 32),
        ),
    ]


def _images() -> list[Case]:
    return [
        case(
            "mlp-mixer-pytorch/MLPMixer",
            new(
                "mlp_mixer_pytorch:MLPMixer",
                image_size=32,
                channels=3,
                patch_size=8,
                dim=32,
                depth=2,
                num_classes=10,
            ),
            images(32),
        ),
        case(
            "mlp-mixer-pytorch/MLPMixer3D",
            new(
                "mlp_mixer_pytorch:MLPMixer3D",
                image_size=16,
                time_size=4,
                time_patch_size=2,
                channels=3,
                patch_size=8,
                dim=32,
                depth=2,
                num_classes=10,
            ),
            normal(3, 4, 16, 16),
        ),
        case(
            "g-mlp-pytorch/gMLPVision",
            new(
                "g_mlp_pytorch:gMLPVision",
                image_size=32,
                patch_size=8,
                num_classes=10,
                dim=32,
                depth=2,
                prob_survival=0.9,
            ),
            images(32),
        ),
        case(
            "res-mlp-pytorch/ResMLP",
            new(
                "res_mlp_pytorch:ResMLP",
                image_size=32,
                patch_size=8,
                dim=32,
                depth=2,
                num_classes=10,
            ),
            images(32),
        ),
        case(
            "perceiver-pytorch/Perceiver",
            new(
                "perceiver_pytorch:Perceiver",
                input_channels=3,
                input_axis=2,
                num_freq_bands=4,
                max_freq=8.0,
                depth=2,
                num_latents=8,
                latent_dim=32,
                latent_heads=2,
                latent_dim_head=16,
                cross_dim_head=16,
                num_classes=10,
                weight_tie_layers=True,
            ),
            normal(16, 16, 3),
        ),
        case(
            "axial-attention/AxialAttention",
            new("axial_attention:AxialAttention", dim=16, dim_index=1, heads=2, num_dimensions=2),
            images(8, 16),
        ),
        case(
            "axial-attention/AxialImageTransformer",
            new(
                "axial_attention:AxialImageTransformer",
                dim=16,
                depth=2,
                heads=2,
                reversible=True,
                axial_pos_emb_shape=(8, 8),
            ),
            images(8, 16),
        ),
        case(
            "bottleneck-transformer-pytorch/BottleStack",
            new(
                "bottleneck_transformer_pytorch:BottleStack",
                dim=32,
                fmap_size=8,
                dim_out=64,
                proj_factor=4,
                downsample=True,
                heads=2,
                dim_head=8,
            ),
            images(8, 32),
        ),
        case(
            "halonet-pytorch/HaloAttention",
            new(
                "halonet_pytorch:HaloAttention",
                dim=32,
                block_size=4,
                halo_size=2,
                dim_head=8,
                heads=2,
            ),
            images(8, 32),
        ),
        case(
            "lambda-networks/LambdaLayer",
            new(
                "lambda_networks:LambdaLayer",
                dim=32,
                dim_out=32,
                r=5,
                dim_k=8,
                heads=4,
                dim_u=2,
            ),
            images(8, 32),
        ),
        case(
            "glom-pytorch/Glom",
            new("glom_pytorch:Glom", dim=32, levels=3, image_size=32, patch_size=8),
            images(32),
            iters=lambda n: 2,
        ),
        case(
            "timesformer-pytorch/TimeSformer",
            new(
                "timesformer_pytorch:TimeSformer",
                dim=32,
                image_size=16,
                patch_size=8,
                num_frames=4,
                num_classes=10,
                depth=2,
                heads=2,
                dim_head=16,
            ),
            normal(4, 3, 16, 16),
        ),
        case(
            "slot-attention/SlotAttention",
            new("slot_attention:SlotAttention", num_slots=3, dim=32, iters=2),
            normal(16, 32),
        ),
        case(
            "siren-pytorch/SirenNet",
            new("siren_pytorch:SirenNet", dim_in=2, dim_hidden=32, dim_out=3, num_layers=3),
            normal(2),
        ),
        case(
            "x-unet/XUnet",
            new(
                "x_unet:XUnet",
                dim=8,
                channels=3,
                dim_mults=(1, 2),
                num_blocks_per_stage=(1, 1),
                num_self_attn_per_stage=(0, 1),
                nested_unet_depths=(1, 1),
                consolidate_upsample_fmaps=True,
            ),
            images(16),
        ),
        case(
            "vector-quantize-pytorch/VectorQuantize",
            new("vector_quantize_pytorch:VectorQuantize", dim=16, codebook_dim=8, codebook_size=32),
            normal(8, 16),
        ),
        case(
            "vector-quantize-pytorch/ResidualVQ",
            new(
                "vector_quantize_pytorch:ResidualVQ",
                dim=16,
                codebook_size=32,
                num_quantizers=2,
                learnable_codebook=True,
                ema_update=False,
            ),
            normal(8, 16),
        ),
        case(
            "vector-quantize-pytorch/FSQ",
            new("vector_quantize_pytorch:FSQ", levels=[8, 5, 5], dim=16),
            normal(8, 16),
        ),
        case(
            "vector-quantize-pytorch/LFQ",
            new("vector_quantize_pytorch:LFQ", codebook_size=32, dim=16),
            normal(8, 16),
        ),
    ]


def _unet(**options: Any) -> New:
    return new("denoising_diffusion_pytorch:Unet", dim=8, dim_mults=(1, 2), **options)


def _diffusion() -> list[Case]:
    return [
        case(
            "denoising-diffusion-pytorch/Unet",
            _unet(),
            images(16),
            integers(10),
        ),
        case(
            "denoising-diffusion-pytorch/GaussianDiffusion",
            new(
                "denoising_diffusion_pytorch:GaussianDiffusion",
                _unet(),
                image_size=16,
                timesteps=10,
            ),
            uniform(3, 16, 16),
        ),
        case(
            "denoising-diffusion-pytorch/Unet1D",
            new("denoising_diffusion_pytorch:Unet1D", dim=8, dim_mults=(1, 2), channels=4),
            normal(4, 16),
            integers(10),
        ),
        case(
            "denoising-diffusion-pytorch/ElucidatedDiffusion",
            new(
                "denoising_diffusion_pytorch:ElucidatedDiffusion",
                _unet(random_fourier_features=True),
                image_size=16,
                num_sample_steps=4,
            ),
            uniform(3, 16, 16),
        ),
        case(
            "denoising-diffusion-pytorch/ContinuousTimeGaussianDiffusion",
            new(
                "denoising_diffusion_pytorch:ContinuousTimeGaussianDiffusion",
                _unet(random_fourier_features=True),
                image_size=16,
                num_sample_steps=4,
            ),
            uniform(3, 16, 16),
        ),
        case(
            "denoising-diffusion-pytorch/KarrasUnet",
            new(
                "denoising_diffusion_pytorch:KarrasUnet",
                image_size=16,
                channels=3,
                dim=8,
                dim_max=16,
                num_downsamples=2,
                attn_res=(4,),
                num_blocks_per_stage=1,
                attn_dim_head=8,
                fourier_dim=8,
            ),
            images(16),
            uniform(),
        ),
        case(
            "rectified-flow-pytorch/RectifiedFlow",
            new(
                "rectified_flow_pytorch:RectifiedFlow",
                new("rectified_flow_pytorch:Unet", dim=8, dim_mults=(1, 2)),
            ),
            uniform(3, 16, 16),
        ),
    ]


def _geometry() -> list[Case]:
    return [
        case(
            "egnn-pytorch/EGNN",
            new("egnn_pytorch:EGNN", dim=16, edge_dim=4),
            normal(8, 16),
            normal(8, 3),
            normal(8, 8, 4),
        ),
        case(
            "egnn-pytorch/EGNN_Network",
            new(
                "egnn_pytorch:EGNN_Network",
                num_tokens=5,
                num_positions=8,
                dim=16,
                depth=2,
                num_nearest_neighbors=4,
            ),
            integers(5, 8),
            normal(8, 3),
            mask=truths(8),
        ),
        case(
            "se3-transformer-pytorch/SE3Transformer",
            new(
                "se3_transformer_pytorch:SE3Transformer",
                dim=8,
                heads=2,
                depth=1,
                dim_head=4,
                num_degrees=2,
                valid_radius=10,
            ),
            normal(6, 8),
            normal(6, 3),
            truths(6),
        ),
        case(
            "equiformer-pytorch/Equiformer",
            new(
                "equiformer_pytorch:Equiformer",
                num_tokens=5,
                dim=(8, 4),
                dim_head=(4, 4),
                heads=(2, 2),
                num_degrees=2,
                depth=1,
                num_neighbors=3,
                reduce_dim_out=True,
            ),
            integers(5, 6),
            normal(6, 3),
            truths(6),
        ),
        case(
            "invariant-point-attention/IPABlock",
            new("invariant_point_attention:IPABlock", dim=32, heads=2, pairwise_repr_dim=16),
            normal(8, 32),
            pairwise_repr=normal(8, 8, 16),
            rotations=functools.partial(_rotations, 8),
            translations=normal(8, 3),
        ),
    ]


def _rotations(count: int, n: int) -> torch.Tensor:
    return torch.linalg.qr(torch.randn(n, count, 3, 3)).Q
