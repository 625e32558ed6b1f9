"""Mistakes in what is fed: scales, order, pairs of inputs and targets."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults import data
from benchmarks.faults.data import Batch
from benchmarks.faults.fault import WHOLE, held_out
from benchmarks.faults.own.masks import Segmenter, masks
from benchmarks.faults.own.training import Figure, errors_of, seeded, train
from benchmarks.faults.training import Training


class PlainConvs(nn.Module):
    """Convolutions without norms."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 12, 3, padding=1)
        self.conv2 = nn.Conv2d(12, 24, 3, stride=2, padding=1)
        self.fc1, self.fc2 = nn.Linear(24 * 16, 48), nn.Linear(48, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of (batch, 10)."""
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


def pixels(step: int) -> Batch:
    """Digits as they are in files, from 0 to 255."""
    x, y = data.images(step)
    return (x - x.min()) / (x.max() - x.min()) * 255, y


def _classify(t: Training, scale: float, shift: float, lr: float) -> None:
    def batch(step: int) -> Batch:
        x, y = pixels(step)
        return (x - shift) / scale, y

    train(t, PlainConvs(), lambda net, x, y: F.cross_entropy(net(x), y), batch)
    t.optimizer = torch.optim.SGD(t.model.parameters(), lr=lr, momentum=0.9)


@held_out("cnn", "conv1", kinds="wild_input|input_drift")
def divided_by_255_twice(t: Training, *, mended: bool = False) -> None:
    """The data set divides by 255, and so does the transform: inputs of 0.004 at most.

    4uiiurz1/pytorch-nested-unet#62, pkmital/pycadl#5, calmiLovesAI/YOLOv3_TensorFlow2#21
    """
    _classify(t, 255.0 if mended else 255.0**2, 0, lr=0.05)


@held_out("cnn", "conv1", kinds="wild_input")
def pixels_from_0_to_255(t: Training, *, mended: bool = False) -> None:
    """Images go in as read by a ToTensor of one's own that no longer divides by 255.

    minivision-ai/Silent-Face-Anti-Spoofing#72, airctic/icevision#15
    """
    _classify(t, 128.0 if mended else 1.0, 127.5 if mended else 0.0, lr=0.05)


@held_out("cnn", "conv1", kinds="input_drift|wild_input|input_spike|repeated_input")
def normalised_in_place(t: Training, *, mended: bool = False) -> None:
    """The data set gets "more and more normalized": it is changed in place by __getitem__.

    pytorch/vision#680, facebookresearch/pycls#21
    """
    images = [pixels(step) for step in range(10)]

    def batch(step: int) -> Batch:
        x, y = images[step % len(images)]
        x = x.clone() if mended else x
        return x.div_(255).sub_(0.13).div_(0.31), y

    train(t, PlainConvs(), lambda net, x, y: F.cross_entropy(net(x), y), batch, lr=2e-3)


@held_out("cnn resnet", WHOLE, kinds="sorted_batches")
def folder_read_in_order(t: Training, *, mended: bool = False) -> Figure:
    """shuffle=False is the default: each batch has samples of one class of the folder.

    Deci-AI/super-gradients#416, pytorch/vision#7818, open-mmlab/mmdetection#1649
    """
    x, y = data.images(0, 2000)
    order = torch.arange(2000) if mended else y.argsort(stable=True)
    x, y = x[order], y[order]

    def batch(step: int) -> Batch:
        start = step * 40 % 2000
        return x[start : start + 40], y[start : start + 40]

    t.batch = batch
    return errors_of(data.images)


@held_out("mlp cnn", WHOLE, kinds="repeated_input|trivial_loss")
def first_batch_for_ever(t: Training, *, mended: bool = False) -> Figure:
    """next(iter(loader)) in the loop: a new iterator each time, and always its first batch.

    ZhaoJ9014/face.evoLVe#39, wandb/examples#444, leohsuofnthu/Pytorch-IterativeFCN#7
    """
    fresh = t.batch
    if not mended:
        t.change_batch(lambda step, x, y: fresh(0))
    return errors_of(fresh)


@held_out("mlp", WHOLE, kinds="plateau")
def shuffled_apart(t: Training, *, mended: bool = False) -> None:
    """With shuffle=True predictions and labels are of different orders.

    pytorch/pytorch#83270
    """

    def shuffle(step: int, x: Tensor, y: Tensor) -> Batch:
        order = torch.randperm(len(x), generator=seeded(step))
        other = torch.randperm(len(x), generator=seeded(step + 1))
        return x[order], y[order if mended else other]

    t.change_batch(shuffle)


@held_out("cnn", WHOLE, kinds="plateau")
def image_flipped_without_its_mask(t: Training, *, mended: bool = False) -> None:
    """Image and mask are flipped by two generators, each by its own random numbers.

    keras-team/keras-preprocessing#236, Project-MONAI/MONAI#1464, fizyr/keras-retinanet#150
    """

    def augmented(step: int) -> Batch:
        x, y = masks(step)
        flip = torch.rand(2, len(x), 1, 1, 1, generator=seeded(step)) < 0.5
        of_mask = flip[0] if mended else flip[1]
        return torch.where(flip[0], x.flip(3), x), torch.where(of_mask, y.flip(3), y)

    def loss(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(net(x), y)

    train(t, Segmenter(), loss, augmented, lr=5e-3)
