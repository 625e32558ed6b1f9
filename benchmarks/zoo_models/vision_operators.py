"""The operators that torchvision needs from its binary, where that does not load."""

from __future__ import annotations

import functools
import sys

import torch
from torch import Tensor


@functools.cache
def define_vision_operators() -> None:
    """Makes ``import torchvision`` work, and ``torchvision.ops.nms``, without its binary."""
    try:
        import torchvision
    except RuntimeError:  # an operator does not exist
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
    else:
        return
    _define("nms", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _define(
        "qnms",
        "(Tensor dets, Tensor scores, float iou_threshold, float dets_scale, int dets_zero_point)"
        " -> Tensor",
    )
    import torchvision

    torch.library.impl("torchvision::nms", "cpu", _nms)
    torchvision.ops.boxes._assert_has_ops = lambda: None


def _define(name: str, schema: str) -> None:
    if not hasattr(torch.ops.torchvision, name):
        torch.library.define(f"torchvision::{name}", schema)


def _nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Indices of the boxes to keep: the best of each group that overlaps more than allowed."""
    from torchvision.ops import box_iou

    order = scores.argsort(descending=True, stable=True)
    overlaps = (box_iou(boxes[order], boxes[order]) > iou_threshold).numpy()
    kept, is_dropped = [], torch.zeros(len(order), dtype=torch.bool).numpy()
    for i in range(len(order)):
        if not is_dropped[i]:
            kept.append(i)
            is_dropped |= overlaps[i]
    return order[kept]
