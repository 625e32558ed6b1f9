"""Networks that tell of each pixel or place: segmentation, detection, keypoints, flow, detail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import taiyi_fx
from benchmarks.faults.sound.pictures import digits, patches
from benchmarks.faults.sound.training import sound
from taiyi_fx import Monitor


def scenes(size: int, side: int = 32) -> tuple[Tensor, Tensor, Tensor]:
    """Pictures with up to three digits, their boxes of (size, 3, 4), and classes, -1 for none."""
    x, y = digits()
    pictures = 0.1 * torch.randn(size, 1, side, side)
    boxes, classes = torch.zeros(size, 3, 4), torch.full((size, 3), -1)
    for i in range(size):
        for j in range(int(torch.randint(1, 4, ()))):
            row = int(torch.randint(len(x), ()))
            left, top = torch.randint(side - 8, (2,)).tolist()
            pictures[i, :, top : top + 8, left : left + 8] += x[row]
            boxes[i, j] = torch.tensor([left, top, left + 8, top + 8]).float()
            classes[i, j] = y[row]
    return pictures, boxes, classes


def double(before: int, after: int) -> nn.Sequential:
    """A U-Net's block."""
    return nn.Sequential(
        nn.Conv2d(before, after, 3, padding=1, bias=False),
        nn.BatchNorm2d(after),
        nn.ReLU(inplace=True),
        nn.Conv2d(after, after, 3, padding=1, bias=False),
        nn.BatchNorm2d(after),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    """U-Net of three levels."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.inc, self.down1, self.down2 = (
            double(1, width),
            double(width, 2 * width),
            double(2 * width, 4 * width),
        )
        self.up1 = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2)
        self.conv1 = double(4 * width, 2 * width)
        self.up2 = nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.conv2 = double(2 * width, width)
        self.outc = nn.Conv2d(width, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of each pixel."""
        a = self.inc(x)
        b = self.down1(F.max_pool2d(a, 2))
        c = self.up1(self.down2(F.max_pool2d(b, 2)))
        c = self.up2(self.conv1(torch.cat([b, c], 1)))
        return self.outc(self.conv2(torch.cat([a, c], 1)))


@sound({}, {"classes": 1}, {"channels_last": True, "size": 3})
def segmentation(classes: int = 3, size: int = 8, channels_last: bool = False) -> Iterator[Monitor]:
    """Pytorch-UNet: cross entropy with a border that is ignored, and dice; RMSprop and clipping."""
    model: Any = UNet(8, classes)
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4, weight_decay=1e-8, momentum=0.9)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(80):
        pictures, boxes, kinds = scenes(size)
        if channels_last:
            pictures = pictures.to(memory_format=torch.channels_last)
        mask = torch.zeros(size, 32, 32, dtype=torch.long)
        for i, j in torch.nonzero(kinds >= 0).tolist():
            left, top, right, bottom = boxes[i, j].int().tolist()
            mask[i, top:bottom, left:right] = 1 + int(kinds[i, j] >= 5) if classes > 1 else 1
        logits = model(pictures)
        if classes == 1:
            loss = F.binary_cross_entropy_with_logits(logits.squeeze(1), mask.float())
            chance, hot = torch.sigmoid(logits), mask[:, None].float()
        else:
            mask[:, :1] = mask[:, -1:] = 255
            loss = F.cross_entropy(logits, mask, ignore_index=255)
            chance = F.softmax(logits, 1)
            hot = F.one_hot(mask.where(mask != 255, 0), classes).permute(0, 3, 1, 2).float()
        both = (chance * hot).sum((0, 2, 3))
        dice = (2 * both + 1e-6) / (chance.sum((0, 2, 3)) + hot.sum((0, 2, 3)) + 1e-6)
        loss = loss + 1 - dice.mean()
        optimizer.zero_grad(set_to_none=True)
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield model.monitor


class Pyramid(nn.Module):
    """RetinaNet in small: a backbone, an FPN of two levels, and heads that both share."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.c1 = double(1, width)
        self.c2, self.c3 = double(width, 2 * width), double(2 * width, 2 * width)
        self.lateral2, self.lateral3 = (
            nn.Conv2d(2 * width, width, 1),
            nn.Conv2d(2 * width, width, 1),
        )
        self.smooth2, self.smooth3 = (nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        tower = [
            nn.Conv2d(width, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.ReLU(),
        ]
        self.cls_head = nn.Sequential(*tower, nn.Conv2d(width, classes, 3, padding=1))
        tower = [
            nn.Conv2d(width, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.ReLU(),
        ]
        self.box_head = nn.Sequential(*tower, nn.Conv2d(width, 4, 3, padding=1))
        for head in (self.cls_head, self.box_head):
            for layer in head:
                if isinstance(layer, nn.Conv2d):
                    nn.init.normal_(layer.weight, std=0.01)
                    nn.init.zeros_(layer.bias)
        nn.init.constant_(self.cls_head[-1].bias, -4.595)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of classes, and boxes, of all places of both levels."""
        c2 = self.c2(F.max_pool2d(self.c1(x), 4))
        c3 = self.c3(F.max_pool2d(c2, 2))
        p3 = self.lateral3(c3)
        p2 = self.smooth2(self.lateral2(c2) + F.interpolate(p3, scale_factor=2.0))
        levels = (p2, self.smooth3(p3))
        logits = torch.cat([self.cls_head(p).flatten(2).transpose(1, 2) for p in levels], 1)
        boxes = torch.cat([self.box_head(p).flatten(2).transpose(1, 2) for p in levels], 1)
        return logits, boxes


def places_of(stride: int, side: int = 32) -> Tensor:
    """Middles of all places of a level."""
    line = (torch.arange(side // stride) + 0.5) * stride
    y, x = torch.meshgrid(line, line, indexing="ij")
    return torch.stack([x, y, torch.full_like(x, float(stride))], -1).view(-1, 3)


@sound({}, {"size": 1})
def detector(size: int = 8) -> Iterator[Monitor]:
    """RetinaNet's losses: focal with the bias of a rare class, smooth L1 of what has an object."""
    model: Any = Pyramid(12, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    warm_up = torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, total_iters=20)
    anchors = torch.cat([places_of(4), places_of(8)])
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(100):
        pictures, boxes, classes = scenes(size)
        logits, made = model(pictures)
        middle = (boxes[..., :2] + boxes[..., 2:]) / 2
        far = (middle[:, None] - anchors[None, :, None, :2]).abs().amax(-1)
        far = far.masked_fill(classes[:, None] < 0, 1e9)
        nearest, which = far.min(2)
        is_object = nearest < 0.75 * anchors[:, 2]
        chosen = classes.gather(1, which)
        targets = F.one_hot(chosen.clamp_min(0), 10).float() * is_object[..., None]
        chance = torch.sigmoid(logits)
        each = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
        share = chance * targets + (1 - chance) * (1 - targets)
        weight = (0.25 * targets + 0.75 * (1 - targets)) * (1 - share) ** 2
        count = is_object.sum().clamp_min(1)
        of_classes = (weight * each).sum() / count
        wanted = boxes.gather(1, which[..., None].expand(-1, -1, 4))
        middle = anchors[:, :2].repeat(1, 2)
        off = (wanted - middle) / anchors[:, 2:]
        of_boxes = (
            F.smooth_l1_loss(made[is_object], off[is_object], beta=0.1, reduction="sum") / count
        )
        loss = of_classes + of_boxes
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()
        warm_up.step()
        yield model.monitor


class Centers(nn.Module):
    """CenterNet in small: heat, size and offset, the bias of heat at -2.19."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.backbone = nn.Sequential(
            double(1, width),
            nn.MaxPool2d(2),
            double(width, 2 * width),
            nn.MaxPool2d(2),
            double(2 * width, 2 * width),
        )
        self.hm, self.wh, self.reg = (self._head(2 * width, n) for n in (classes, 2, 2))
        nn.init.constant_(self.hm[-1].bias, -2.19)

    @staticmethod
    def _head(before: int, after: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(before, 24, 3, padding=1), nn.ReLU(inplace=True), nn.Conv2d(24, after, 1)
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """All heads."""
        x = self.backbone(x)
        return self.hm(x), self.wh(x), self.reg(x)


@sound({}, {"size": 1, "classes": 1})
def center_net(size: int = 8, classes: int = 3) -> Iterator[Monitor]:
    """CenterNet (arXiv 1904.07850): penalty-reduced focal loss of heat maps, L1 of sizes."""
    model: Any = Centers(12, classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=1.25e-3)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    line = torch.arange(8)
    for step in range(80):
        pictures, boxes, kinds = scenes(size)
        heat, wh, reg = (
            torch.zeros(size, classes, 8, 8),
            torch.zeros(size, 2, 8, 8),
            torch.zeros(size, 2, 8, 8),
        )
        is_there = torch.zeros(size, 8, 8, dtype=torch.bool)
        for i, j in torch.nonzero(kinds >= 0).tolist():
            x, y = ((boxes[i, j, :2] + boxes[i, j, 2:]) / 8).tolist()
            c, col, row = int(kinds[i, j]) % classes, min(int(x), 7), min(int(y), 7)
            bump = torch.exp(-((line[:, None] - row) ** 2 + (line - col) ** 2) / 1.5)
            heat[i, c] = torch.maximum(heat[i, c], bump)
            wh[i, :, row, col], reg[i, :, row, col] = 2.0, torch.tensor([x - col, y - row])
            is_there[i, row, col] = True
        made, sizes, offsets = model(pictures)
        chance = torch.sigmoid(made).clamp(1e-4, 1 - 1e-4)
        is_peak = heat == 1
        near = torch.log(chance) * (1 - chance) ** 2 * is_peak
        rest = torch.log(1 - chance) * chance**2 * (1 - heat) ** 4 * ~is_peak
        loss = -(near.sum() + rest.sum()) / is_peak.sum().clamp_min(1)
        n = is_there.sum() * 2 + 1e-4
        loss = loss + 0.1 * ((sizes - wh).abs() * is_there[:, None]).sum() / n
        loss = loss + ((offsets - reg).abs() * is_there[:, None]).sum() / n
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor


class Hourglass(nn.Module):
    """Two stacked hourglasses, each with a loss of its own (arXiv 1603.06937)."""

    def __init__(self, width: int, points: int) -> None:
        super().__init__()
        self.enter = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(True)
        )
        self.down = nn.ModuleList(double(width, width) for _ in range(2))
        self.inner = nn.ModuleList(double(width, width) for _ in range(2))
        self.out = nn.ModuleList(nn.Conv2d(width, points, 1) for _ in range(2))
        self.merge_features, self.merge_maps = (
            nn.Conv2d(width, width, 1),
            nn.Conv2d(points, width, 1),
        )

    def forward(self, x: Tensor) -> list[Tensor]:
        """Maps of both stages."""
        x, made = self.enter(x), []
        for i in range(2):
            low = self.inner[i](F.max_pool2d(x, 2))
            h = self.down[i](x) + F.interpolate(low, scale_factor=2.0)
            made.append(self.out[i](h))
            if i == 0:
                x = x + self.merge_features(h) + self.merge_maps(made[0])
        return made


@sound({"of": "maps"}, {"of": "places"})
def keypoints(of: str) -> Iterator[Monitor]:
    """Corners of a digit, by mean squares of heat maps, or as places by a soft argmax."""
    model: Any = Hourglass(12, 2)
    optimizer = (
        torch.optim.RMSprop(model.parameters(), lr=2.5e-4)
        if of == "maps"
        else torch.optim.Adam(model.parameters(), lr=1e-3)
    )
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    line = torch.arange(16.0)
    x = digits()[0]
    for step in range(80):
        pictures, places = torch.zeros(8, 1, 16, 16), torch.zeros(8, 2, 2)
        for i in range(8):
            left, top = torch.randint(9, (2,)).tolist()
            pictures[i, :, top : top + 8, left : left + 8] = x[int(torch.randint(len(x), ()))]
            places[i] = torch.tensor([[left, top], [left + 7, top + 7]])
        maps = torch.exp(
            -(
                (line[:, None] - places[..., 1, None, None]) ** 2
                + (line - places[..., 0, None, None]) ** 2
            )
            / 2
        )
        if of == "maps":
            loss = sum(F.mse_loss(made, maps) for made in model(pictures))
        else:
            loss = torch.zeros(())
            for made in model(pictures):
                chance = F.softmax(made.flatten(2), -1).view_as(made)
                found = torch.stack(
                    [(chance.sum(2) * line).sum(-1), (chance.sum(3) * line).sum(-1)], -1
                )
                loss = loss + F.l1_loss(found / 16, places / 16)
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor


class FlowNet(nn.Module):
    """FlowNetS in small, which tells the flow at three sizes."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1, self.conv2, self.conv3 = (
            self._conv(6, width),
            self._conv(width, 2 * width),
            self._conv(2 * width, 4 * width),
        )
        self.flow3 = nn.Conv2d(4 * width, 2, 3, padding=1)
        self.deconv2, self.upflow3 = (
            nn.ConvTranspose2d(4 * width, width, 4, 2, 1),
            nn.ConvTranspose2d(2, 2, 4, 2, 1),
        )
        self.flow2 = nn.Conv2d(3 * width + 2, 2, 3, padding=1)
        self.deconv1, self.upflow2 = (
            nn.ConvTranspose2d(3 * width + 2, width, 4, 2, 1),
            nn.ConvTranspose2d(2, 2, 4, 2, 1),
        )
        self.flow1 = nn.Conv2d(2 * width + 2, 2, 3, padding=1)

    @staticmethod
    def _conv(before: int, after: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(before, after, 3, 2, 1), nn.LeakyReLU(0.1, inplace=True))

    def forward(self, x: Tensor) -> list[Tensor]:
        """Flows, the finest first."""
        a = self.conv1(x)
        b = self.conv2(a)
        c = self.conv3(b)
        flow3 = self.flow3(c)
        c = torch.cat([b, F.leaky_relu(self.deconv2(c), 0.1), self.upflow3(flow3)], 1)
        flow2 = self.flow2(c)
        c = torch.cat([a, F.leaky_relu(self.deconv1(c), 0.1), self.upflow2(flow2)], 1)
        return [self.flow1(c), flow2, flow3]


@sound()
def optical_flow() -> Iterator[Monitor]:
    """FlowNetS: end-point errors at all sizes, of photographs that are shifted by some pixels."""
    x = patches()
    model: Any = FlowNet(12)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(100):
        first = x[torch.randint(len(x), (8,))] - 0.45
        shift = torch.randint(-1, 2, (8, 2))
        second = torch.stack(
            [
                torch.roll(one, tuple(by), (2, 1))
                for one, by in zip(first, shift.tolist(), strict=True)
            ]
        )
        loss = torch.zeros(())
        for made, weight in zip(
            model(torch.cat([first, second], 1)), (0.32, 0.08, 0.02), strict=True
        ):
            off = made - shift[:, :, None, None]
            loss = loss + weight * (off.square().sum(1) + 1e-8).sqrt().mean()
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor


class Scaled(nn.Module):
    """EDSR's block, whose branch counts a tenth."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = (
            nn.Conv2d(width, width, 3, padding=1),
            nn.Conv2d(width, width, 3, padding=1),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Features."""
        return x + 0.1 * self.conv2(F.relu(self.conv1(x)))


class Edsr(nn.Module):
    """EDSR in small: no norms, a skip around all blocks, and a pixel shuffle."""

    def __init__(self, width: int, blocks: int) -> None:
        super().__init__()
        self.head = nn.Conv2d(3, width, 3, padding=1)
        self.body = nn.Sequential(
            *(Scaled(width) for _ in range(blocks)), nn.Conv2d(width, width, 3, padding=1)
        )
        self.tail = nn.Sequential(
            nn.Conv2d(width, 4 * width, 3, padding=1),
            nn.PixelShuffle(2),
            nn.Conv2d(width, 3, 3, padding=1),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Pictures of twice the size."""
        x = self.head(x - 0.45)
        return self.tail(x + self.body(x)) + 0.45


def espcn() -> nn.Module:
    """Torch's example of super-resolution."""
    net = nn.Sequential(
        nn.Conv2d(3, 32, 5, padding=2),
        nn.ReLU(),
        nn.Conv2d(32, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 12, 3, padding=1),
        nn.PixelShuffle(2),
    )
    for i, layer in enumerate(net):
        if isinstance(layer, nn.Conv2d):
            nn.init.orthogonal_(layer.weight, nn.init.calculate_gain("relu") if i < 6 else 1.0)
    return net


@sound({"net": "espcn"}, {"net": "edsr"})
def super_resolution(net: str) -> Iterator[Monitor]:
    """ESPCN by mean squares (torch's example), and EDSR by L1 with scaled branches."""
    x = patches()
    model: Any = espcn() if net == "espcn" else Edsr(16, 6)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3 if net == "espcn" else 2e-4)
    model = taiyi_fx.instrument(model, optimizer=optimizer)
    for step in range(100):
        fine = x[torch.randint(len(x), (4,))]
        made = model(F.avg_pool2d(fine, 2))
        loss = F.mse_loss(made, fine) if net == "espcn" else F.l1_loss(made, fine)
        optimizer.zero_grad()
        model.monitor.log("loss", loss)
        loss.backward()
        model.monitor.track(step)
        optimizer.step()
        yield model.monitor
