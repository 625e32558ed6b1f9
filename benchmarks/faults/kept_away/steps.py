"""Mistakes in the loop: cleared and gathered gradients, learning rates, scalers, optimizers."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.faults import data
from benchmarks.faults.fault import WHOLE, held_out
from benchmarks.faults.kept_away.classifiers import HousePrices, returns
from benchmarks.faults.training import Training


@held_out(
    "mlp cnn lstm moe", WHOLE, kinds="no_update|small_steps|plateau|changed_gradient|zero_gradient"
)
def cleared_between_backward_and_step(t: Training, *, mended: bool = False) -> None:
    """The loss does not move: zero_grad is called behind backward, before step.

    sacmehta/EdgeNets#14, cloneofsimo/lora#263
    """
    before = t.backward

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = before(model, x, y)
        if not mended:
            t.optimizer.zero_grad(set_to_none=False)
        return loss

    t.backward = backward


@held_out("lstm mlp cnn", WHOLE, kinds="gradients_not_cleared")
def nobody_calls_zero_grad(t: Training, *, mended: bool = False) -> None:
    """A base trainer without optimizer.zero_grad(), so that gradients of all steps add up.

    yastrebksv/TennisCourtDetector#7, wenet-e2e/wekws#72
    """
    t.zero_grad = mended


@held_out("mlp", WHOLE, kinds="large_steps|divergence|non_finite|exploding_gradient|^growth")
def accumulated_without_dividing(t: Training, *, mended: bool = False) -> None:
    """Eight times the gradient: the loss of each micro-batch is not divided by their count.

    hirofumi0810/neural_sp#168, karpathy/nanoGPT#206
    """
    accumulation_steps = 8

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        total = torch.zeros(())
        for inputs, targets in zip(
            x.chunk(accumulation_steps), y.chunk(accumulation_steps), strict=True
        ):
            loss = F.mse_loss(model(inputs), targets)
            (loss / accumulation_steps if mended else loss).backward()
            total += loss.detach() / accumulation_steps
        return total

    t.model, t.batch, t.backward = HousePrices(), returns, backward
    t.optimizer = torch.optim.SGD(t.model.parameters(), lr=0.1, momentum=0.9)


@held_out("cnn", WHOLE, kinds="changed_gradient|small_steps")
def cleared_for_each_micro_batch(t: Training, *, mended: bool = False) -> None:
    """Accumulation that clears before each backward, so that the last micro-batch alone counts.

    ZiqiaoPeng/DualTalk#9, tientrandinh/Revisiting-Reverse-Distillation#12
    """
    t.micro_batches = 8
    t.change_batch(lambda step, x, y: (x[:2], y[:2]))

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        if not mended:
            t.optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    t.backward = backward


@held_out("cnn lstm levit mlp-tanh", WHOLE, kinds="ended_rate|small_steps|no_update|plateau")
def scheduler_stepped_for_each_batch(t: Training, *, mended: bool = False) -> None:
    """It trains if the scheduler is stepped per epoch; per batch, the rate is 0 after a few.

    leftthomas/SRGAN#94, ivadomed/ivadomed#55, pytorch/tutorials#640
    """
    step_size, gamma, batches_per_epoch = 5, 0.1, 50
    t.schedule = lambda step: (
        gamma ** ((step // batches_per_epoch if mended else step) // step_size)
    )


@held_out("mlp-tanh gpt cnn", WHOLE, kinds="no_update|small_steps|plateau")
def warmup_by_integer_division(t: Training, *, mended: bool = False) -> None:
    """Linear and constant warm-up look alike: iteration // warmup_iters is 0 all along.

    facebookresearch/maskrcnn-benchmark#335
    """
    warmup_iters = 500

    def factor(step: int) -> float:
        return min(1.0, (step + 1) / 20) if mended else min(1.0, step // warmup_iters)

    t.schedule = factor


@held_out("gpt-tied lstm mlp", WHOLE, kinds="no_update|small_steps|plateau")
def lambda_that_returns_the_rate(t: Training, *, mended: bool = False) -> None:
    """LambdaLR multiplies by what the function returns, which here is a learning rate itself.

    Adit-Jain-srm/NightmareNet#158
    """
    base, warmup = t.optimizer.param_groups[0]["lr"], 10

    def rate(step: int) -> float:
        return base * min(1.0, (step + 1) / warmup)

    t.schedule = (lambda step: rate(step) / base) if mended else rate


@held_out("mlp cnn mlp-tanh", WHOLE, kinds="no_update|small_steps|plateau|changed_gradient")
def clipped_before_unscale(t: Training, *, mended: bool = False) -> None:
    """A very flat curve with native amp: gradients are clipped while they are scaled by 65536.

    Lightning-AI/pytorch-lightning#9599, milesial/Pytorch-UNet#468, harubaru/waifu-diffusion#64
    """
    scaler = torch.amp.GradScaler("cpu", init_scale=65536.0)
    t.scaler, t.clip = scaler, 1.0

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        if mended:
            scaler.unscale_(t.optimizer)
        return loss

    t.backward = backward


@held_out("cnn mlp", WHOLE, kinds="no_update|small_steps|plateau|changed_gradient")
def scaler_that_steps_unscaled_gradients(t: Training, *, mended: bool = False) -> None:
    """What scaler.scale(loss) returns is not used, and scaler.step divides by 65536.

    Lightning-AI/pytorch-lightning#4148
    """
    scaler = torch.amp.GradScaler("cpu", init_scale=65536.0)
    t.scaler = scaler

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(model(x), y)
        scaled = scaler.scale(loss)  # which is not made in place
        (scaled if mended else loss).backward()
        return loss

    t.backward = backward


@held_out("lstm", WHOLE, kinds="non_finite|lost_moment|out_of_range")
def adam_of_a_model_in_half(t: Training, *, mended: bool = False) -> None:
    """NaN after the first step, whatever the data: Adam's eps of 1e-8 is 0 in float16.

    pytorch/pytorch#8860, afiaka87/glide-finetune#5, soumith/cudnn.torch#377
    """
    t.model = nn.Sequential(nn.Embedding(64, 16), nn.Flatten(), nn.Linear(128, 32), nn.ReLU())
    t.model.append(nn.Linear(32, 4))
    if not mended:
        t.model.half()
    t.optimizer = torch.optim.Adam(t.model.parameters(), lr=1e-2)


@held_out("mobile mlp cnn", WHOLE, kinds="no_update")
def optimizer_of_the_first_model(t: Training, *, mended: bool = False) -> None:
    """The optimizer has the parameters of a model that was replaced after it was made.

    pytorch/pytorch#14467
    """
    if not mended:
        other = type(t.model)()
        other.load_state_dict(t.model.state_dict())
        t.model = other


class Tagger(nn.Module):
    """An encoder of tokens, a projection and a scorer of tags."""

    def __init__(self) -> None:
        super().__init__()
        self.bert = nn.Sequential(nn.Embedding(16, 24), nn.Linear(24, 24), nn.Tanh())
        self.gru = nn.GRU(24, 24, batch_first=True)
        self.fc = nn.Sequential(nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 4))

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of (batch, 4)."""
        hidden, _ = self.gru(self.bert(ids))
        return self.fc(hidden[:, -1])


@held_out("lstm", "fc*", kinds="no_update")
def group_that_was_not_appended(t: Training, *, mended: bool = False) -> None:
    """parameters.append(params) is missing behind the last group, that of the head.

    zjunlp/HVPNeT#5
    """
    model = Tagger()
    parameters = []
    for name in ("bert", "gru"):
        params = {"lr": 1e-2, "params": list(model.get_submodule(name).parameters())}
        parameters.append(params)
    params = {"lr": 1e-2, "params": list(model.fc.parameters())}
    if mended:
        parameters.append(params)
    t.model, t.optimizer = model, torch.optim.Adam(parameters)


@held_out("mlp", WHOLE, kinds="^drift|^growth|foreign_steps|weight_jump")
def weights_clamped_as_in_a_wgan(t: Training, *, mended: bool = False) -> None:
    """Clamping all parameters to 0.01 after each step, left over from a critic, undoes learning.

    eriklindernoren/PyTorch-GAN#196, torchgan/torchgan#42
    """
    if mended:
        return

    def clamp() -> None:
        for p in t.model.parameters():
            p.data.clamp_(-0.01, 0.01)

    t.each_step(clamp)


@held_out("cnn", "layers.*.norm", kinds="evaluation_mode|stale_statistics")
def train_mode_is_never_restored(t: Training, *, mended: bool = False) -> None:
    """model.eval() for the first validation, and no model.train() behind it.

    pytorch/tutorials#1624, tk-rusch/coRNN#1, MILVLG/mcan-vqa#26
    """
    before, seen = t.backward, []

    def backward(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        seen.append(1)
        if len(seen) == 3:
            model.eval()
            with torch.no_grad():
                model(data.images(5000)[0])
            if mended:
                model.train()
        return before(model, x, y)

    t.backward = backward
