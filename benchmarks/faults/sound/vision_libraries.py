"""Models of torchvision and timm on small pictures, trained by the recipes of their libraries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import timm
import torch
import torch.nn.functional as F
from timm.data.mixup import Mixup
from timm.loss.cross_entropy import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler.cosine_lr import CosineLRScheduler
from timm.utils.model_ema import ModelEmaV3
from torch import nn
from torchvision import models
from torchvision.models.efficientnet import EfficientNet, MBConvConfig
from torchvision.models.resnet import BasicBlock, ResNet

import taiyi_fx
from benchmarks.faults.sound.pictures import batches, coloured
from benchmarks.faults.sound.training import sound
from taiyi_fx import Monitor


def for_cifar(net: ResNet) -> ResNet:
    """The stem of 3x3 without pooling, by which ResNets take pictures of 32 pixels."""
    net.conv1 = nn.Conv2d(3, net.conv1.out_channels, 3, padding=1, bias=False)
    net.maxpool = nn.Identity()  # type: ignore[assignment]
    return net


def efficient_net() -> nn.Module:
    """EfficientNet of a few narrow stages, with squeeze-excitation and stochastic depth."""
    settings = [
        MBConvConfig(1, 3, 1, 16, 16, 1),
        MBConvConfig(4, 3, 2, 16, 24, 2),
        MBConvConfig(4, 5, 2, 24, 40, 2),
        MBConvConfig(4, 3, 1, 40, 40, 2),
    ]
    return EfficientNet(
        settings, dropout=0.2, stochastic_depth_prob=0.2, num_classes=10, last_channel=96
    )


def vgg() -> nn.Module:
    """VGG with batch norm, of a quarter of its width."""
    features = models.vgg.make_layers(
        [16, "M", 32, "M", 64, 64, "M", 128, 128, "M"], batch_norm=True
    )
    net = models.VGG(features, num_classes=10)
    net.avgpool = nn.AdaptiveAvgPool2d(1)
    net.classifier = nn.Sequential(
        nn.Linear(128, 128),
        nn.ReLU(True),
        nn.Dropout(0.5),
        nn.Linear(128, 128),
        nn.ReLU(True),
        nn.Dropout(0.5),
        nn.Linear(128, 10),
    )
    return net


def swin() -> nn.Module:
    """Swin of two stages with windows of 4."""
    return models.SwinTransformer(
        [2, 2], 24, [2, 2], [2, 4], [4, 4], stochastic_depth_prob=0.1, num_classes=10
    )


def convnext() -> nn.Module:
    """ConvNeXt of two stages, with LayerScale from 1e-6."""
    settings = [
        models.convnext.CNBlockConfig(24, 48, 2),
        models.convnext.CNBlockConfig(48, None, 2),
    ]
    return models.ConvNeXt(settings, stochastic_depth_prob=0.1, num_classes=10)


def vit(width: int = 48, heads: int = 4, image_size: int = 32, patch: int = 8) -> nn.Module:
    """ViT whose head begins at zero, as torchvision's does."""
    return models.VisionTransformer(image_size, patch, 4, heads, width, 2 * width, num_classes=10)


NETS: dict[str, Any] = {
    "resnet_cifar": lambda: for_cifar(
        ResNet(BasicBlock, [1, 1, 1, 1], num_classes=10, zero_init_residual=True)
    ),
    "mobilenet_v2": lambda: models.mobilenet_v2(width_mult=0.35, num_classes=10),
    "mobilenet_v3": lambda: models.mobilenet_v3_small(width_mult=0.5, num_classes=10),
    "densenet": lambda: models.DenseNet(8, (3, 3, 3), 16, num_classes=10),
    "efficientnet": efficient_net,
    "vgg": vgg,
    "vit": vit,
    "swin": swin,
    "convnext": convnext,
}


@sound(*({"net": net} for net in NETS), {"net": "vit", "size": 4}, {"net": "vit", "size": 16})
def torchvision_recipe(net: str, size: int = 8) -> Iterator[Monitor]:
    """SGD or AdamW, warm-up and cosine, no decay of norms, as torchvision's references."""
    x, y = coloured()
    steps = 30
    loader = batches(size, x[: size * steps], y[: size * steps])
    model: Any = NETS[net]()
    is_attention = net in ("vit", "swin", "convnext")
    matrices = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() <= 1]
    decay = 0.05 if is_attention else 5e-4
    groups: Any = [
        {"params": matrices, "weight_decay": decay},
        {"params": rest, "weight_decay": 0.0},
    ]
    optimizer: torch.optim.Optimizer
    if is_attention:
        optimizer = torch.optim.AdamW(groups, lr=1e-3)
    elif net in ("efficientnet", "mobilenet_v3"):
        optimizer = torch.optim.RMSprop(groups, lr=2e-3, momentum=0.9, eps=0.0316, alpha=0.9)
    else:
        optimizer = torch.optim.SGD(groups, lr=0.05, momentum=0.9)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps - 8)
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=8)
    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, cosine], [8])
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    step = 0
    while step < steps:
        model.train()
        for image, target in loader:
            loss = criterion(model(image), target)
            optimizer.zero_grad()
            model.monitor.log("loss", loss)
            loss.backward()
            model.monitor.track(step)
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            scheduler.step()
            step += 1
            yield model.monitor
            if step == steps:
                break
        model.eval()
        with torch.inference_mode():
            criterion(model(x[:32]), y[:32])


@sound()
def googlenet() -> Iterator[Monitor]:
    """GoogLeNet with its two auxiliary heads, whose losses count 0.3 each."""
    x, y = coloured(64)
    model: Any = models.GoogLeNet(
        10, aux_logits=True, init_weights=False, dropout=0.2, dropout_aux=0.7
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=2e-4)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step, (image, target) in enumerate(batches(8, x[:160], y[:160])):
        out = model(image)
        auxiliary = F.cross_entropy(out.aux_logits1, target) + F.cross_entropy(
            out.aux_logits2, target
        )
        loss = F.cross_entropy(out.logits, target) + 0.3 * auxiliary
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor


SMALL: dict[str, Any] = {"img_size": 32, "patch_size": 8, "num_heads": 4, "drop_path_rate": 0.1}
TIMM: dict[str, dict[str, Any]] = {
    "deit3_small_patch16_224": {**SMALL, "embed_dim": 48, "depth": 4},
    "cait_xxs24_224": {**SMALL, "embed_dim": 48, "depth": 3},
    "xcit_nano_12_p16_224": {**SMALL, "embed_dim": 32, "depth": 3},
    "resnetv2_50": {"layers": (1, 1, 1, 1), "channels": (32, 48, 64, 96), "stem_chs": 16},
    "edgenext_xx_small": {"dims": (16, 24, 32, 48), "depths": (1, 1, 2, 1)},
    "repvgg_a0": {"width_factor": 0.25},
    "levit_128s": {
        "img_size": 64,
        "embed_dim": (32, 48, 64),
        "key_dim": 8,
        "num_heads": (2, 3, 4),
        "depth": (1, 2, 2),
        "stem_type": "s8",
    },
}
LARGER = ("edgenext_xx_small", "repvgg_a0", "levit_128s")
"""Those that halve pictures so often that 32 pixels come to one."""


@sound(*({"net": net} for net in TIMM))
def timm_recipe(net: str, steps: int = 40, size: int = 8) -> Iterator[Monitor]:
    """Its own groups, scheduler, mixup and average of weights, as timm's script has them."""
    x, y = coloured(64 if net in LARGER else 32)
    model: Any = timm.create_model(net, pretrained=False, num_classes=10, **TIMM[net])
    optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05)
    scheduler = CosineLRScheduler(
        optimizer, t_initial=steps, warmup_t=5, warmup_lr_init=1e-5, t_in_epochs=False
    )
    average = ModelEmaV3(model, decay=0.99)
    mixup = Mixup(mixup_alpha=0.2, cutmix_alpha=1.0, label_smoothing=0.1, num_classes=10)
    criterion = SoftTargetCrossEntropy()
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(steps):
        rows = torch.randint(len(x), (size,))
        image, target = mixup(x[rows].clone(), y[rows])
        loss = criterion(model(image), target)
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step_update(step + 1)
        average.update(model, step)
        yield model.monitor
