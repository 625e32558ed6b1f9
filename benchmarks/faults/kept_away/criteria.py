"""Mistakes in losses: of segmentation, detection, distillation and recommendation."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults import data
from benchmarks.faults.data import Batch
from benchmarks.faults.fault import WHOLE, held_out
from benchmarks.faults.kept_away.classifiers import HousePrices, LeNet, returns
from benchmarks.faults.own.masks import Segmenter, masks, missed, overlap
from benchmarks.faults.own.training import Figure, errors_of, normal, seeded, train
from benchmarks.faults.training import Training


@held_out("cnn", WHOLE, kinds="trivial_loss|odd_loss")
def dice_coefficient_minimised(t: Training, *, mended: bool = False) -> Figure:
    """The loss falls to 0 and all masks are empty: it is the Dice coefficient, not 1 less it.

    akirasosa/mobile-semantic-segmentation#24, sraashis/easytorch#38, jakeret/tf_unet#20
    """

    def loss(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        dice = overlap(torch.sigmoid(net(x)), y).mean()
        return 1 - dice if mended else dice

    train(t, Segmenter(), loss, masks, lr=5e-3)
    return missed


@held_out("cnn", WHOLE, kinds="detached|zero_gradient|missing_gradient|no_update")
def dice_of_the_rounded_mask(t: Training, *, mended: bool = False) -> Figure:
    """No gradient: the masks are made 0 or 1 before the Dice loss, as for its report.

    tensorlayer/TensorLayer#891, wonbeomjang/mobile-hair-segmentation-pytorch#3, Lasagne/Recipes#99
    """

    def loss(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        made = torch.sigmoid(net(x))
        if not mended:
            made = (made > 0.5).float().requires_grad_()
        return 1 - overlap(made, y).mean()

    train(t, Segmenter(), loss, masks, lr=5e-3)
    return missed


@held_out("cnn", WHOLE, "fc3", kinds="unsquashed_loss|unbounded_loss")
def nll_loss_of_logits(t: Training, *, mended: bool = False) -> Figure:
    """The loss is negative and falls without end: NLLLoss of numbers without log_softmax.

    runebook.dev/en/docs/pytorch/generated/torch.nn.softmax
    """
    net = LeNet(nn.LogSoftmax(dim=1) if mended else None)
    train(t, net, lambda net, x, y: F.nll_loss(net(x), y), lr=5e-3)
    return errors_of(data.images)


@held_out("cnn", "last", "fc3", kinds="unsquashed_loss|^squashed_loss")
def nll_loss_of_a_softmax(t: Training, *, mended: bool = False) -> Figure:
    """F.nll_loss is given F.softmax in the place of F.log_softmax: a loss between -1 and 0.

    AnubhavGupta3377/Text-Classification-Models-Pytorch#9, midas-research/man-sf-emnlp#2
    """
    net = LeNet(nn.LogSoftmax(dim=1) if mended else nn.Softmax(dim=1))
    train(t, net, lambda net, x, y: F.nll_loss(net(x), y), lr=5e-3)
    return errors_of(data.images)


@held_out("cnn", "last", "fc3", kinds="class_axis|softmax_axis")
def log_softmax_over_the_batch(t: Training, *, mended: bool = False) -> Figure:
    """nn.LogSoftmax(dim=0): probabilities that add up to 1 over the samples of a batch.

    fxia22/pointnet.pytorch#27, perone/euclidesdb#2
    """
    net = LeNet(nn.LogSoftmax(dim=1 if mended else 0))
    train(t, net, lambda net, x, y: F.nll_loss(net(x), y), lr=2e-3)

    def figure(net: nn.Module) -> float:
        """The share of digits that are wrong where they come one by one."""
        with torch.no_grad():
            x, y = data.images(900)
            made = torch.cat([net(digit[None]) for digit in x])
        return float((made.argmax(1) != y).float().mean())

    return figure


def _teacher(x: Tensor) -> Tensor:
    weight = normal(-1, 16, 5)
    return torch.tanh(x) @ weight * 1.5


def _unlike(net: nn.Module) -> float:
    """How far the student's probabilities are from the teacher's."""
    with torch.no_grad():
        x, _ = data.rows(900, 512)
        made, truth = net(x).softmax(1), _teacher(x).softmax(1)
    return float((made - truth).abs().sum(1).mean())


class Student(nn.Module):
    """A small classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 32), nn.ReLU())
        self.head = nn.Linear(32, 5)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of (batch, 5)."""
        return self.head(self.body(x))


@held_out("mlp", WHOLE, "head", kinds="unsquashed_loss|^squashed_loss|odd_loss|unbounded_loss")
def kl_div_without_log(t: Training, *, mended: bool = False) -> Figure:
    """F.kl_div(student, teacher) of two softmaxes, where the first has to be a log_softmax.

    microsoft/ProDA#20, microsoft/ProDA#43
    """

    def loss(net: nn.Module, x: Tensor, _: Tensor) -> Tensor:
        student = F.log_softmax(net(x), dim=1) if mended else F.softmax(net(x), dim=1)
        return F.kl_div(student, F.softmax(_teacher(x), dim=1), reduction="batchmean")

    train(t, Student(), loss, lr=1e-2)
    return _unlike


@held_out("mlp", WHOLE, kinds="detached|small_steps|odd_loss|zero_gradient")
def distilled_from_itself(t: Training, *, mended: bool = False) -> Figure:
    """The soft loss is of large_logits twice, and the student is not in it.

    labmlai/annotated_deep_learning_paper_implementations#66
    """

    def loss(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        large_logits, output = _teacher(x), net(x)
        soft_targets = F.softmax(large_logits / 5.0, dim=-1)
        soft_prob = F.log_softmax((output if mended else large_logits) / 5.0, dim=-1)
        soft = F.kl_div(soft_prob, soft_targets, reduction="batchmean")
        return 0.999 * 25 * soft + 0.001 * F.cross_entropy(output, y)

    train(t, Student(), loss)
    t.optimizer = torch.optim.SGD(t.model.parameters(), lr=0.1)
    return _unlike


@held_out("mlp", WHOLE, kinds="detached|zero_gradient|missing_gradient|no_update")
def accuracy_as_the_loss(t: Training, *, mended: bool = False) -> Figure:
    """Element 0 does not require grad, so requires_grad=True is set: argmax has no derivative.

    microsoft/LoRA#124, wonbeomjang/mobile-hair-segmentation-pytorch#3
    """

    def loss(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        outputs = net(x)
        if mended:
            return F.cross_entropy(outputs, y)
        predicted = outputs.argmax(1)
        error = nn.MSELoss()(predicted.float(), y.float())
        error.requires_grad = True
        return error

    train(t, Student(), loss, lr=1e-2)
    return errors_of(data.rows)


@held_out("mlp", WHOLE, kinds="detached|zero_gradient|missing_gradient|no_update")
def prediction_made_a_new_tensor(t: Training, *, mended: bool = False) -> None:
    """torch.tensor(outputs, requires_grad=True) to please the loss: a leaf without a past.

    prodopsy.com/?p=470, discuss.pytorch.org/t/policy-gradient-using-loss-as-reward/13877
    """

    def loss(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        outputs = net(x)
        if not mended:
            outputs = torch.tensor(outputs.tolist(), requires_grad=True)
        return F.mse_loss(outputs, y)

    train(t, HousePrices(), loss, returns, lr=3e-3)


@held_out("mlp", WHOLE, "fc3", kinds="non_finite")
def missing_labels_masked_afterwards(t: Training, *, mended: bool = False) -> None:
    """criterion(x, y)[mask] is finite, and its gradients are NaN where labels are NaN.

    pytorch/pytorch#121416, pytorch/pytorch#23156
    """

    def partly(step: int) -> Batch:
        x, y = returns(step)
        known = torch.rand(len(y), generator=seeded(step)) < 0.8
        return x, torch.where(known, y, float("nan"))

    def loss(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        mask, made = ~torch.isnan(y), net(x)
        if mended:
            return F.mse_loss(made[mask], y[mask])
        return nn.MSELoss(reduction="none")(made, y)[mask].mean()

    train(t, HousePrices(), loss, partly, lr=3e-3)


@held_out("mlp", WHOLE, "head", kinds="non_finite")
def log_of_a_softmax(t: Training, *, mended: bool = False) -> None:
    """NaN after some steps: torch.log(softmax(x)) of an entry that has become 0.

    pytorch/pytorch#31829
    """

    def loss(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        logits = net(40 * x)
        log = F.log_softmax(logits, dim=1) if mended else torch.log(F.softmax(logits, dim=1))
        return -log.gather(1, y[:, None]).mean()

    train(t, Student(), loss, lr=1e-1)


class Detector(nn.Module):
    """A backbone, a neck and heads that say where objects are and how large.

    Args:
        bias: Of which head the prior is set: "pos_conv", "reg_conv" or none.
        relu: Whether the regression ends in a ReLU, too.
    """

    def __init__(self, bias: str = "pos_conv", *, relu: bool = False) -> None:
        super().__init__()
        self.relu = relu
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        )  # fmt: skip
        self.down = nn.Conv2d(32, 24, 1)
        self.pos_conv, self.reg_conv = nn.Conv2d(24, 1, 1), nn.Conv2d(24, 2, 1)
        nn.init.constant_(self.get_submodule(bias).get_parameter("bias"), -4.595)

    def forward(self, x: Tensor) -> Tensor:
        """Scores and offsets of (batch, 3, height / 2, width / 2)."""
        x = F.relu(self.down(self.backbone(x)))
        reg = self.reg_conv(x)
        return torch.cat([self.pos_conv(x), F.relu(reg) if self.relu else reg], 1)


def objects(step: int) -> Batch:
    """Noisy dots in images of 16 by 16, with their cells and offsets within these."""
    generator = seeded(step)
    rows = torch.arange(64)
    at = torch.rand(64, 2, generator=generator) * 14 + 1
    grid = torch.arange(16) + 0.5
    down, right = grid - at[:, :1], grid - at[:, 1:]
    image = torch.exp(-(down[:, :, None] ** 2 + right[:, None, :] ** 2) / 2)
    image = image[:, None] + 0.1 * torch.randn(64, 1, 16, 16, generator=generator)
    target = torch.zeros(64, 3, 8, 8)
    cell = (at / 2).long()
    target[rows, 0, cell[:, 0], cell[:, 1]] = 1
    target[rows, 1:, cell[:, 0], cell[:, 1]] = at / 2 - cell - 0.5
    return 3 * image, target


def detection(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The loss of scores and, where there is an object, of offsets."""
    made = net(x)
    scores = F.binary_cross_entropy_with_logits(made[:, 0], y[:, 0], reduction="sum") / len(x)
    off = (F.smooth_l1_loss(made[:, 1:], y[:, 1:], reduction="none") * y[:, :1]).sum() / len(x)
    return scores + 10 * off


@held_out("cnn", "reg_conv", "pos_conv", kinds="odd_start|wild_start|wild_output|wild_loss")
def prior_of_the_wrong_head(t: Training, *, mended: bool = False) -> None:
    """A large loss at the beginning: -log(0.99 / 0.01) is the bias of the regression.

    lwpyr/CSP-pedestrian-detection-in-pytorch#4, unsky/focal-loss#4
    """
    train(t, Detector("pos_conv" if mended else "reg_conv"), detection, objects, lr=3e-3)
    t.steps = 60


@held_out("cnn", "reg_conv", kinds="^squashed_loss|share_of_trouble|zero_output|zero_gradient")
def relu_behind_the_offsets(t: Training, *, mended: bool = False) -> None:
    """BN and ReLU behind all convs of an RPN, also the last, whose offsets may be negative.

    tsinghua-rll/VoxelNet-tensorflow#10
    """
    train(t, Detector(relu=not mended), detection, objects, lr=3e-3)
    t.steps = 150


@held_out("cnn", "down", kinds="no_update")
def neck_left_out_of_the_optimizer(t: Training, *, mended: bool = False) -> None:
    """trainable_params has the backbone and the heads; self.down was forgotten.

    ohhhyeahhh/SiamCAR#18
    """
    model = Detector()
    parts = ["backbone", "pos_conv", "reg_conv", *(["down"] if mended else [])]
    train(t, model, detection, objects)
    groups = [{"params": list(model.get_submodule(part).parameters())} for part in parts]
    t.optimizer = torch.optim.Adam(groups, lr=3e-3)
