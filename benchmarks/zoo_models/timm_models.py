"""Models of timm: a small one of each of its families."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import nn

from benchmarks.zoo_models.case import Batch, Case
from benchmarks.zoo_models.vision_operators import define_vision_operators

SHORT = tuple(
    f"timm/{name}"
    for name in (
        "convnext_zepto_rms",
        "levit_128s",
        "mobilenetv3_small_050",
        "regnetx_002",
        "resnet10t",
        "vit_tiny_patch16_224",
    )
)

_SMALLEST = 32
_OF_ANY_SIZE = """
    mobileone_s1 convmixer_768_32 convnext_zepto_rms cpubone_nano crossvit_tiny_240
    cs3darknet_focus_s cspnext_tiny davit_tiny densenet121 dla46x_c dpn48b edgenext_xx_small
    mnasnet_small efficientvim_m1 efficientvit_b0 efficientvit_m0 fasternet_t0 fastvit_t8
    focalnet_tiny_srf ghostnet_050 hardcorenas_b hgnetv2_b0 sam2_hiera_tiny hrnet_w18_small
    iformer_t inception_next_atto lcnetv2_small lowformer_b0 mambaout_femto poolformerv2_s12
    lcnet_035 mobilenetv5_base mobilevit_xxs mvitv2_tiny naflexvit_base_patch16_parfac_gap
    nasnetalarge nextvit_small nf_regnet_b0 pvt_v2_b0 qwen3_vit_88m rdnet_tiny regnetx_002
    repghostnet_050 repvit_m1 res2next50 resnest14d resnet10t resnetv2_18 rexnet_100 selecsls42
    legacy_seresnet18 sequencer2d_s shvit_s1 skresnet18 starnet_s050 swiftformer_xs
    tiny_vit_5m_224 tresnet_m twins_svt_small vgg11 samvit_base_patch16_224
    ese_vovnet19b_slim_dw legacy_xception xception41p xcit_nano_12_p8_224 seresnet18
    ecaresnet26t resnet26d resnext26ts mixnet_s tf_efficientnetv2_b0 efficientnet_lite0
    mobilenetv2_035 fbnetc_100 spnasnet_100 poolformer_s12 caformer_s18 convformer_s18 repvgg_a0
    mobileone_s0 gernet_s lambda_resnet26t convnextv2_atto cspdarknet53 darknet53
    mobilenetv3_small_050 mobilenetv4_conv_small resnetv2_50 dm_nfnet_f0 xception41
    ese_vovnet19b_slim lcnet_050 tinynet_e twins_pcpvt_small regnetz_005 efficientnet_b0
    resnet50_gn
""".split()
_BUILT_FOR_A_SIZE = """
    beit_base_patch16_224 cait_xxs24_224 coat_tiny convit_tiny deit_tiny_patch16_224
    efficientformerv2_s0 eva02_tiny_patch14_224 gcvit_xxtiny hiera_tiny_224 levit_128s
    maxvit_pico_rw_256 gmlp_ti16_224 nest_tiny pit_ti_224 swin_tiny_patch4_window7_224
    swinv2_tiny_window16_256 swinv2_cr_tiny_224 tnt_s_legacy_patch16_224 visformer_tiny
    flexivit_small vit_tiny_r_s16_p8_224 vit_srelpos_small_patch16_224 vitamin_small_224
    volo_d1_224 vit_tiny_patch16_224 vit_small_patch32_224 vit_relpos_small_patch16_224
    botnet26t_256 coatnet_0_rw_224 maxvit_tiny_tf_224 maxxvit_rmlp_nano_rw_256
    coatnet_nano_rw_224 gmixer_12_224 resmlp_12_224 deit_tiny_distilled_patch16_224
    vit_pe_core_tiny_patch16_384 vit_wee_patch16_reg1_gap_256
""".split()
_LARGER = {
    "csatv2": 64,
    "efficientformer_l1": 224,
    "inception_resnet_v2": 96,
    "inception_v3": 96,
    "inception_v4": 96,
    "ghostnetv2_100": 64,
    "halonet26t": 256,
    "sehalonet33ts": 256,
}


def cases() -> list[Case]:
    """All cases."""
    define_vision_operators()
    made = [_case(name, _SMALLEST) for name in _OF_ANY_SIZE]
    made += [_case(name, _SMALLEST, img_size=_SMALLEST) for name in _BUILT_FOR_A_SIZE]
    return made + [_case(name, size) for name, size in _LARGER.items()]


def _case(name: str, size: int, **options: Any) -> Case:
    build = functools.partial(_build, name, options)
    return Case(f"timm/{name}", build, functools.partial(_images, size))


def _build(name: str, options: dict[str, Any]) -> nn.Module:
    import timm

    return timm.create_model(name, pretrained=False, num_classes=10, **options)


def _images(size: int, n: int) -> Batch:
    return (torch.randn(n, 3, size, size),), {}
