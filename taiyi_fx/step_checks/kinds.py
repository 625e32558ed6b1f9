"""The kinds of findings of a step that was tried."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind


@dataclass(frozen=True)
class TriedKind(Kind):
    """A kind of finding that no series shows.

    Attributes:
        quantity: What was looked at.
    """

    quantity: str = "loss"

    def of(self, module: str, value: float, text: str, expected: str = "", **more: Any) -> Finding:
        """A finding of a module, or of the whole step if its name is empty."""
        place = module, self.quantity, 0, value
        found = Finding(self.name, self.severity, *place, expected, text, self.advice)
        return replace(found, **more)


NOT_FINITE = TriedKind(
    "non_finite",
    "alert",
    "Look at what this module, or the loss, is given: a logarithm or a root of zero, a division by "
    "it, an exponential of something large, a softmax over places that are all masked",
)
UNREPEATABLE = TriedKind(
    "unrepeatable_loss",
    "note",
    "Something that the step uses changes from call to call: a queue or a hidden state outside the "
    "model, a random generator of its own, or an operation that is not deterministic. Nothing "
    "else can be told of such a step",
)
BROADCAST = TriedKind(
    "broadcast",
    "alert",
    "Give both operands the same shape: take .squeeze(1) of the one with an axis of one element, "
    "or .unsqueeze(1) of the other",
)
CUT_GRADIENT = TriedKind(
    "cut_gradient",
    "warning",
    "Take the loss from tensors that still have their graph, or freeze what is not to be learned "
    "by requires_grad_(False)",
    "gradient",
)
WRONG_GRADIENT = TriedKind(
    "wrong_gradient",
    "warning",
    "Look at the backward of each autograd Function of your own (torch.autograd.gradcheck), for "
    "derivatives without create_graph=True, and for numbers that leave torch on the way",
    "gradient",
)
MIXED_ROWS = TriedKind(
    "mixed_rows",
    "warning",
    "What belongs to one sample meets what belongs to another: look for a view or reshape that "
    "takes one axis for another, rows that are sorted and not put back, repeat where "
    "repeat_interleave is meant. Rows that are in an order on purpose, such as those of one "
    "episode, may be told here, too",
)
CROSSING_ROWS = TriedKind(
    "crossing_rows",
    "warning",
    "In evaluation, a sample's output should not depend on its neighbours: look for a softmax, a "
    "mean or an attention over the axis of samples, batch_first, and a view that mixes axes",
    "output",
)
UNSWITCHED_MODE = TriedKind(
    "unswitched_mode",
    "warning",
    "Give training=self.training, or dropout_p=self.p if self.training else 0.0; keep modules as "
    "attributes, in an nn.ModuleList or an nn.ModuleDict, where eval() reaches them",
    "output",
)
SEEN_FUTURE = TriedKind(
    "seen_future",
    "warning",
    "Mask what comes later (is_causal=True, a triangular mask), pad convolutions on the left "
    "alone, and let no layer run backwards over time",
    "output",
)
SEEN_PADDING = TriedKind(
    "seen_padding",
    "warning",
    "Give the mask to each layer that mixes places, in the sense that it asks for (True may be "
    "padding, or what is kept), and divide means by what is kept",
    "output",
)
UNUSED_INPUT = TriedKind(
    "unused_input",
    "warning",
    "Look for where it gets lost: a name that is assigned twice, an axis that is averaged, a "
    "weight or a mask that is computed and not applied",
)
LOST_PRECISION = TriedKind(
    "lost_precision",
    "warning",
    "Compute it in another order (log_softmax for log of softmax, logsumexp, a variance of "
    "differences from the mean), or this part in a larger type",
    "output",
)
UPDATES_LOST = TriedKind(
    "updates_lost",
    "warning",
    "Keep parameters in float32 and compute in half precision (torch.autocast), or take an "
    "optimizer that rounds stochastically or keeps float32 copies",
    "update",
)
DECAYED_ROWS = TriedKind(
    "decayed_rows",
    "note",
    "Take AdamW, whose decay is a share of the weight, or give embeddings a group of their own "
    "with weight_decay=0: what Adam adds to the gradient is all the gradient that such a row has, "
    "and is divided by its own size",
    "update",
)
UNLEARNED_BATCH = TriedKind(
    "unlearned_batch",
    "warning",
    "A single batch can be learned by heart. As this one is not, look at the model, the loss, the "
    "learning rate and what the optimizer is given, and not at the data",
)
