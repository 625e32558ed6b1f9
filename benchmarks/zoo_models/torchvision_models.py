"""Models of torchvision: classification, video, segmentation, optical flow and detection."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import nn

from benchmarks.zoo_models.case import Batch, Case
from benchmarks.zoo_models.vision_operators import define_vision_operators

SHORT = tuple(
    f"torchvision/{name}"
    for name in (
        "resnet18",
        "mobilenet_v3_small",
        "densenet121",
        "squeezenet1_1",
        "swin_t",
        "lraspp_mobilenet_v3_large",
    )
)

_IMAGES = """
    alexnet convnext_tiny convnext_small densenet121 densenet161 densenet169 densenet201
    efficientnet_b0 efficientnet_b1 efficientnet_b2 efficientnet_b3 efficientnet_b4
    efficientnet_v2_s efficientnet_v2_m googlenet mnasnet0_5 mnasnet0_75 mnasnet1_0 mnasnet1_3
    mobilenet_v2 mobilenet_v3_large mobilenet_v3_small
    regnet_x_400mf regnet_x_800mf regnet_x_1_6gf regnet_x_3_2gf regnet_x_8gf
    regnet_y_400mf regnet_y_800mf regnet_y_1_6gf regnet_y_3_2gf regnet_y_8gf
    resnet18 resnet34 resnet50 resnet101 resnet152 resnext50_32x4d resnext101_32x8d
    wide_resnet50_2 shufflenet_v2_x0_5 shufflenet_v2_x1_0 shufflenet_v2_x1_5 shufflenet_v2_x2_0
    squeezenet1_0 squeezenet1_1 swin_t swin_s swin_b swin_v2_t swin_v2_s swin_v2_b
    vgg11 vgg16_bn
    quantized_googlenet quantized_mobilenet_v2 quantized_mobilenet_v3_large quantized_resnet18
    quantized_resnet50 quantized_shufflenet_v2_x0_5
""".split()
_SIZED: dict[str, tuple[int, dict[str, Any]]] = {
    "inception_v3": (96, {"aux_logits": False}),
    "quantized_inception_v3": (96, {"aux_logits": False}),
    "maxvit_t": (224, {}),
    "vit_b_16": (32, {"image_size": 32}),
    "vit_b_32": (64, {"image_size": 64}),
}
_VIDEOS = "r3d_18 mc3_18 r2plus1d_18 swin3d_t".split()
_SEGMENTATION = """
    deeplabv3_mobilenet_v3_large deeplabv3_resnet50 fcn_resnet50 lraspp_mobilenet_v3_large
""".split()
_DETECTION = """
    fasterrcnn_mobilenet_v3_large_320_fpn fasterrcnn_resnet50_fpn fasterrcnn_resnet50_fpn_v2
    fcos_resnet50_fpn keypointrcnn_resnet50_fpn maskrcnn_resnet50_fpn retinanet_resnet50_fpn
    retinanet_resnet50_fpn_v2 ssd300_vgg16 ssdlite320_mobilenet_v3_large
""".split()


def cases() -> list[Case]:
    """All cases."""
    define_vision_operators()
    made = [_case(name, functools.partial(_images, 64)) for name in _IMAGES]
    made += [_case(n, functools.partial(_images, size), **o) for n, (size, o) in _SIZED.items()]
    made += [_case(name, _videos) for name in _VIDEOS]
    made += [
        _case(name, functools.partial(_images, 64), weights_backbone=None, aux_loss=True)
        if name.startswith(("deeplab", "fcn"))
        else _case(name, functools.partial(_images, 64), weights_backbone=None)
        for name in _SEGMENTATION
    ]
    made.append(Case("torchvision/raft_small", _raft, _image_pairs))
    return made + [_detector(name) for name in _DETECTION]


def _case(name: str, inputs: Any, **options: Any) -> Case:
    return Case(f"torchvision/{name}", functools.partial(_build, name, options), inputs)


def _build(name: str, options: dict[str, Any]) -> nn.Module:
    from torchvision.models import get_model

    return get_model(name, **{"weights": None, "num_classes": 10, **options})


def _raft() -> nn.Module:
    from torchvision.models.optical_flow import raft_small

    return raft_small()


def _images(size: int, n: int) -> Batch:
    return (torch.randn(n, 3, size, size),), {}


def _videos(n: int) -> Batch:
    return (torch.randn(n, 3, 4, 64, 64),), {}


def _image_pairs(n: int) -> Batch:
    return (torch.rand(n, 3, 128, 128), torch.rand(n, 3, 128, 128)), {"num_flow_updates": 2}


def _detector(name: str) -> Case:
    options: dict[str, Any] = {"num_classes": 5, "weights_backbone": None}
    if not name.startswith("ssd"):
        options |= {"min_size": 64, "max_size": 64}
    if "rcnn" in name:
        options |= {
            "rpn_post_nms_top_n_train": 32,
            "rpn_post_nms_top_n_test": 32,
            "box_batch_size_per_image": 16,
        }
    return _case(name, functools.partial(_scenes, name), **options)


def _scenes(name: str, n: int) -> Batch:
    return ([torch.rand(3, 64, 64) for _ in range(n)], [_target(name) for _ in range(n)]), {}


def _target(name: str) -> dict[str, torch.Tensor]:
    corners = 30 * torch.rand(3, 2)
    target = {
        "boxes": torch.cat([corners, corners + 20], dim=1),
        "labels": torch.randint(1, 2 if name.startswith("keypoint") else 5, (3,)),
    }
    if name.startswith("mask"):
        target["masks"] = torch.randint(2, (3, 64, 64), dtype=torch.uint8)
    if name.startswith("keypoint"):
        points = corners[:, None] + 20 * torch.rand(3, 17, 2)
        target["keypoints"] = torch.cat([points, torch.ones(3, 17, 1)], dim=2)
    return target
