"""Oddities in autograd's graph of a loss: softmaxes over samples, operands that broadcast, targets
that are the inputs.

Where samples lie on an axis, it leads to the mean of the loss; see `followed_axes.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from taiyi_fx.findings.facts.autograd import (
    TURNS,
    VIEWS,
    Uses,
    axis_of,
    is_parameter,
    maker_of,
    makers_of,
    name_of,
    operands_of,
    owner_before,
    saved_by,
    shape_of,
)
from taiyi_fx.findings.facts.blanks import blank_targets
from taiyi_fx.findings.facts.both_sides import (
    moving_targets,
    odd_ratios,
    overlaps_of_logits,
    pulled_alone,
)
from taiyi_fx.findings.facts.flat import Flat, flat_functions
from taiyi_fx.findings.facts.followed_axes import lead_to_the_loss
from taiyi_fx.findings.facts.given_to_losses import (
    OutOfReach,
    is_judged,
    is_score,
    last_products,
    masked_by_product,
    out_of_reach,
    own_pairs,
)
from taiyi_fx.findings.facts.held_targets import HeldTargets, held_targets
from taiyi_fx.findings.facts.ignored import IgnoredClass, ignored_class
from taiyi_fx.findings.facts.layer_runs import (
    doubled_layers,
    joined_with_themselves,
    linear_runs,
)
from taiyi_fx.findings.facts.logits import Logits, logits_of, logits_of_shares
from taiyi_fx.findings.facts.lost_axes import lost_axes, sizes_over_samples
from taiyi_fx.findings.facts.messages import Messages, messages_of
from taiyi_fx.findings.facts.noise import OddNoise, log_variances, odd_noise
from taiyi_fx.findings.facts.padding import Padding, padding_of
from taiyi_fx.findings.facts.second_uses import are_used_once, used_in_several_ways
from taiyi_fx.findings.facts.squashed import OF_LOGARITHMS, is_divergence, squashing_loss
from taiyi_fx.findings.facts.targets import is_judging
from taiyi_fx.findings.facts.unsummed import unsummed_softmaxes
from taiyi_fx.findings.facts.views import torn_inputs, torn_views
from taiyi_fx.findings.facts.volumes import turned_signs
from taiyi_fx.findings.facts.ways import first_place, last_place, reached_by, takes_rows
from taiyi_fx.findings.facts.weights import OddWeights, odd_weights, weighted_means

_SOFTMAXES = ("Softmax", "LogSoftmax")
_LAYERS = ("Addmm", "Mm", "Convolution")
_CHOOSING = ("Topk", "Gather", "Sort", "Kthvalue")
"""Functions that may choose one of several on purpose, of which a softmax makes a 1."""
_COMBINING = ("Sub", "Mul", "Add", "Div")
_LOSSES = ("MseLoss", "L1Loss", "SmoothL1Loss", "HuberLoss")
"""Functions of torch that expand what they are given before they compare it."""
_INSERTING = VIEWS.union(
    TURNS, "Unsqueeze Expand Index Slice Sum Mean Amax Max LinalgVectorNorm".split()
)
"""Functions that make an axis of one on purpose."""
_TABLE = "Embedding"
_LEAF = "torch::autograd::AccumulateGrad"
_FEW = 4
"""Samples below which equal sizes are no sign."""
_USUAL, _UNUSUAL = (0, 1), (2, 3)
"""Places between a token and its target: the same or the next one; and one shift too many."""
_OF_TEXTS = 2
"""Axes of indices: texts, and their places."""
_ENOUGH = 16
"""Targets that are not all tokens some places later by chance."""
_FAR = 30


class OddSoftmax(NamedTuple):
    """A softmax over the samples, or over an axis of one element.

    Attributes:
        module: The module whose parameters come next before it; empty if it is not known.
        axis: Its axis.
        shape: The shape of what it makes.
        is_of_best: True for one of what was chosen from others, as the best by ``topk``.
    """

    module: str
    axis: int
    shape: tuple[int, ...]
    is_of_best: bool = False

    @property
    def is_of_one(self) -> bool:
        """True for an axis of one element."""
        return self.shape[self.axis] == 1


class MistakenAxes(NamedTuple):
    """A tensor on the way to a loss of which one axis is taken for another.

    Attributes:
        module: The module whose parameters come next before it; empty if it is not known.
        given: The shape of the tensor.
        made: The shape of what is made of it.
    """

    module: str
    given: tuple[int, ...]
    made: tuple[int, ...]

    @property
    def source(self) -> str:
        """The tensor, in a sentence."""
        return f"what {self.module!r} makes" if self.module else "a tensor"


class LossGraph(NamedTuple):
    """How a loss is made, and what is odd in it.

    Attributes:
        softmaxes: Softmaxes over the wrong axis.
        broadcasts: Operands whose samples are combined with all samples of the other.
        copied: The module that is given what the loss has for targets; empty if there is none.
        shifted: The module that is given them some places later, and how many: one of a model that
            guesses each next token. None if there is none.
        views: Views that exchange two sizes, and so mix the entries of both axes.
        inputs: Layers that are given such a view of what nothing is computed to, as of images.
        logits: What its cross entropy is given; None where there is none, or several.
        is_made_anew: True for a loss that is made of one number, which nothing was computed to.
        lost_axes: Means, or the like, along an axis, which meet another axis of what they are of.
        over_samples: Tensors that are divided by their size along the samples.
        reached: The modules whose parameters its cross entropy depends on, or all of it.
        first_place: The module before the first place of each sequence, where it takes this alone.
        is_of_one_forward: True if each weight that it depends on is taken once, as it is.
        several_ways: The modules whose weight it uses in several ways, as a derivative does.
        unsummed: Softmaxes of attention over another axis than the product with values sums over.
        linear_runs: Linear layers one behind the other with nothing in between.
        doubled: The modules before sums of what a layer returns and the same once more.
        joined: The modules before what is joined with itself, as ``torch.cat([x, x], 1)``.
        own_pairs: Products of rows with the same rows that it chooses among, without a mask.
        last_products: The modules whose output it is given behind a factor or a dropout.
        is_divergence: True for a divergence of shares, with no other term.
        of_shares: What it is given, if it is a cross entropy with shares of classes for targets.
        squashing: The loss function of torch that squashes what was squashed already.
        is_judged: True if its last layer is another model's, as a generator's is its judge's.
        is_score: True if it is a plain mean of what its last layer returns, as of scores.
        is_judging: True if it asks for one answer to some samples, and for another to others.
        masked_by_product: Softmaxes of scores that were multiplied by a mask of 0 and 1.
        moving_targets: The modules before targets that get gradients.
        odd_ratios: The share of PPO's ratios of probabilities that are not 1; None without any.
        pulled_alone: The module before what it pulls together, if it holds nothing apart.
        overlaps: The layers whose output it takes for shares in a ratio of sums.
        last_place: The module before the last place of each sequence, likewise.
        padding: The padding of the sequences that it depends on; None if none is seen.
        out_of_reach: Targets that the activation behind the last layer cannot return.
        odd_noise: Noise of another scale than the loss takes it for; None if there is none.
        turned_signs: The modules of logarithms that it has with the wrong sign.
        log_variances: The modules whose output it takes for the logarithm of a variance.
        ignored: A class that it leaves out, which is no padding; None if there is none.
        held: Targets that are among what the model is given; None if none is seen.
        odd_weights: Weights by which rare classes count for even less; None if there are none.
        weighted_means: The shapes of weights that a mean of all elements is multiplied by.
        blank_targets: The share of the targets of a CTC loss that are its blank.
        flat: Functions without a slope on the only way from weights to it.
        takes_rows: True if it is of some rows of what the last layer returns, by an index.
        messages: What each layer sends from row to row, by indices.
    """

    softmaxes: tuple[OddSoftmax, ...] = ()
    broadcasts: tuple[MistakenAxes, ...] = ()
    copied: str = ""
    shifted: tuple[str, int] | None = None
    views: tuple[MistakenAxes, ...] = ()
    inputs: tuple[MistakenAxes, ...] = ()
    logits: Logits | None = None
    is_made_anew: bool = False
    lost_axes: tuple[MistakenAxes, ...] = ()
    over_samples: tuple[MistakenAxes, ...] = ()
    reached: frozenset[str] = frozenset()
    first_place: str | None = None
    several_ways: frozenset[str] = frozenset()
    is_of_one_forward: bool = False
    unsummed: tuple[OddSoftmax, ...] = ()
    linear_runs: tuple[tuple[str, ...], ...] = ()
    doubled: tuple[str, ...] = ()
    joined: tuple[str, ...] = ()
    own_pairs: tuple[MistakenAxes, ...] = ()
    last_products: tuple[str, ...] = ()
    is_divergence: bool = False
    of_shares: Logits | None = None
    squashing: str = ""
    is_judged: bool = False
    is_score: bool = False
    is_judging: bool = False
    out_of_reach: tuple[OutOfReach, ...] = ()
    last_place: str | None = None
    masked_by_product: tuple[OddSoftmax, ...] = ()
    moving_targets: tuple[str, ...] = ()
    pulled_alone: str | None = None
    overlaps: tuple[str, ...] = ()
    odd_ratios: float | None = None
    padding: Padding | None = None
    odd_noise: OddNoise | None = None
    turned_signs: tuple[str, ...] = ()
    log_variances: frozenset[str] = frozenset()
    ignored: IgnoredClass | None = None
    held: HeldTargets | None = None
    odd_weights: OddWeights | None = None
    weighted_means: tuple[tuple[int, ...], ...] = ()
    blank_targets: float = 0.0
    flat: tuple[Flat, ...] = ()
    takes_rows: bool = False
    messages: tuple[Messages, ...] = ()


def loss_graph_of(loss: Any, parameters: Mapping[int, str]) -> LossGraph:
    """The oddities in autograd's graph of a loss, of which nothing is kept.

    Args:
        loss: The loss, a tensor, before or after its backward.
        parameters: The module of each parameter, by the parameter's id.
    """
    uses = Uses.of(loss)
    copied, shifted = _copied(uses, parameters)

    def owner(node: Any) -> str:
        return owner_before(node, parameters)

    def softmaxes(nodes: Iterable[Any]) -> tuple[OddSoftmax, ...]:
        return tuple(_softmax(x, parameters) for x in nodes)

    return LossGraph(
        softmaxes=softmaxes(x for x in uses.nodes if name_of(x) in _SOFTMAXES and _is_odd(uses, x)),
        broadcasts=tuple(MistakenAxes(owner(x), shape_of(x), to) for x, to in _broadcast(uses)),
        copied=copied,
        shifted=shifted,
        views=tuple(MistakenAxes(owner(x), *shapes) for x, *shapes in torn_views(uses)),
        inputs=tuple(MistakenAxes(owner(x), *shapes) for x, *shapes in torn_inputs(uses)),
        logits=logits_of(uses, parameters),
        is_made_anew=_is_made_anew(loss, uses, parameters),
        lost_axes=tuple(
            MistakenAxes(owner(x), of, given)
            for x, of, given in lost_axes(uses)
            if not _is_of_pairs(x) and lead_to_the_loss(uses, x, (0,))
        ),
        over_samples=tuple(
            MistakenAxes(owner(x), shape, shape) for x, shape in sizes_over_samples(uses)
        ),
        reached=reached_by(uses, parameters),
        first_place=first_place(uses, parameters),
        is_of_one_forward=are_used_once(uses, parameters),
        several_ways=used_in_several_ways(uses, parameters),
        unsummed=softmaxes(unsummed_softmaxes(uses)),
        linear_runs=linear_runs(uses, parameters),
        doubled=tuple(map(owner, doubled_layers(uses))),
        joined=tuple(map(owner, joined_with_themselves(uses))),
        own_pairs=tuple(MistakenAxes(owner(x), shape_of(x), shape_of(x)) for x in own_pairs(uses)),
        last_products=tuple(last_products(uses, parameters)),
        is_divergence=is_divergence(loss),
        of_shares=logits_of_shares(uses, parameters),
        squashing=squashing_loss(loss),
        is_judged=is_judged(uses, parameters),
        is_score=is_score(uses),
        is_judging=is_judging(uses),
        out_of_reach=tuple(out_of_reach(uses, parameters)),
        last_place=last_place(uses, parameters),
        masked_by_product=softmaxes(masked_by_product(uses)),
        moving_targets=tuple(moving_targets(uses, parameters)),
        pulled_alone=pulled_alone(uses, parameters),
        overlaps=tuple(map(owner, overlaps_of_logits(uses))),
        odd_ratios=next(odd_ratios(uses), None),
        padding=padding_of(uses, parameters),
        log_variances=log_variances(uses, parameters),
        turned_signs=tuple(dict.fromkeys(turned_signs(uses, parameters))),
        odd_noise=next(odd_noise(uses, parameters), None),
        ignored=ignored_class(uses),
        held=held_targets(uses, parameters),
        odd_weights=odd_weights(uses),
        weighted_means=tuple(weighted_means(uses)),
        blank_targets=blank_targets(uses),
        flat=tuple(flat_functions(uses, parameters)),
        takes_rows=takes_rows(uses),
        messages=tuple(messages_of(uses, parameters)),
    )


def _softmax(node: Any, parameters: Mapping[int, str]) -> OddSoftmax:
    shape, maker = shape_of(node), maker_of(node)
    is_of_best = maker is not None and name_of(maker) in _CHOOSING
    axis = axis_of(node._saved_dim, len(shape))
    return OddSoftmax(owner_before(node, parameters), axis, shape, is_of_best)


def _is_made_anew(loss: Any, uses: Uses, parameters: Mapping[int, str]) -> bool:
    """True for a tensor of one number that is a leaf, and for what is made of it alone."""
    ends = (getattr(node, "variable", None) for node in uses.nodes)
    leaves = [one for one in ends if one is not None]
    if getattr(loss, "is_leaf", False):
        leaves = [loss] if loss.requires_grad else []
    return len(leaves) == 1 and leaves[0].numel() == 1 and id(leaves[0]) not in parameters


def _copied(uses: Uses, parameters: Mapping[int, str]) -> tuple[str, tuple[str, int] | None]:
    """The embedding whose indices are the targets of the loss, one for one or some places later.

    None where another embedding is given the token before each target, as that of a decoder is,
    and after a backward, which frees what autograd has saved.
    """
    losses = [x for x in uses.nodes if name_of(x) in OF_LOGARITHMS]
    tables = [x for x in uses.nodes if name_of(x) == _TABLE]
    targets = saved_by(losses[0], "target") if len(losses) == 1 else None
    given = [(x, ids) for x in tables if (ids := saved_by(x, "indices")) is not None]
    if targets is None or not tables or len(given) < len(tables):
        return "", None
    targets = targets.flatten()
    same = _same(targets, given)
    if same is not None:
        return owner_before(same, parameters), None
    shifts = [(x, ids, by) for x, ids in given if ids.ndim == 2 for by in _shifts(targets, ids)]
    if any(by == 1 and not _begins(targets, ids) for _, ids, by in shifts):
        return "", None  # what comes first may be seen by all places, as the prefix of an answer
    if len(shifts) != 1 or not shifts[0][2]:
        return "", None
    ((table, _, by),) = shifts
    return "", (owner_before(table, parameters), by)


def _same(targets: Any, given: Sequence[tuple[Any, Any]]) -> Any:
    alike = [(x, indices) for x, indices in given if indices.numel() == targets.numel()]
    is_target = targets >= 0  # others are left out of the loss
    varies = len(targets) >= _FEW and bool((targets != targets[0]).any())
    # Those that count up are pairs of a batch, as long as the texts that have as many places.
    varies = varies and not bool((targets.diff() == 1).all())
    are_same = [bool(((ids.flatten() == targets) | ~is_target).all()) for _, ids in alike]
    same = [x for (x, _), is_same in zip(alike, are_same, strict=True) if is_same]
    others = [one for one, is_same in zip(alike, are_same, strict=True) if not is_same]
    is_told = any(ids.ndim != _OF_TEXTS or 1 in _shifts(targets, ids) for _, ids in others)
    return same[0] if same and varies and not is_told else None


def _shifts(targets: Any, indices: Any) -> list[int]:
    """The numbers of places after which the indices of sequences are the targets.

    Several where all that comes is alike.
    """
    samples, _ = indices.shape
    length = len(targets) // max(1, samples)
    if samples * length != len(targets):
        return []
    of_places = targets.view(samples, length)
    return [by for by in (*_USUAL, *_UNUSUAL) if _are_later(of_places, indices, by)]


def _begins(targets: Any, indices: Any) -> bool:
    """True if the first place of each sequence has a target, and is not left out of the loss."""
    return bool((targets.view(len(indices), -1)[:, 0] >= 0).all())


def _are_later(targets: Any, indices: Any, by: int) -> bool:
    """True if the targets are the indices so many places later, as far as there are both."""
    count = min(targets.shape[1], indices.shape[1] - by)
    there, here = targets[:, :count], indices[:, by : by + count]
    is_target = there >= 0  # others are left out of the loss
    is_enough = count > 0 and int(is_target.sum()) >= _ENOUGH
    return is_enough and bool(((there == here) | ~is_target).all())


def _is_odd(uses: Uses, node: Any) -> bool:
    shape = shape_of(node)
    if not shape:
        return False
    axis, maker = axis_of(node._saved_dim, len(shape)), maker_of(node)
    if maker is None or name_of(maker) == _LEAF:
        return False
    if shape[axis] == 1:
        return name_of(maker) in (*_LAYERS, *_CHOOSING) and max(shape) > 1
    if axis != 0 or len(shape) < 2 or shape[0] == shape[1] or shape[0] < _FEW:
        return False
    if _is_of_pairs(maker) or (name_of(node) == "LogSoftmax" and name_of(maker) != "Addmm"):
        return False  # similarities of two sets, of which each chooses among the other
    if any(name_of(user) in OF_LOGARITHMS for user, _ in uses.users[id(node)]):
        return False  # that it is over another axis than that of the classes says more
    return lead_to_the_loss(uses, node, (0,))


def _is_of_pairs(maker: Any) -> bool:
    """True for a product of two computed matrices, or what is made of one element by element."""
    for _ in range(_FAR):
        name, makers = name_of(maker), makers_of(maker)
        if name in ("Mm", "Addmm", "Bmm", "Cdist", "Euclidean"):
            is_batch = name == "Bmm" and shape_of(maker)[:1] != (1,)
            return not is_batch and not any(is_parameter(x) for x in makers)
        if not makers:
            return False
        maker = makers[0]
    return False


def _broadcast(uses: Uses) -> Iterator[tuple[Any, tuple[int, ...]]]:
    """The operands whose samples meet all of the other operand's, with the shape of the result.

    None where other pairs of samples are made on purpose, as by a distance between two sets.
    """
    found: list[tuple[Any, tuple[int, ...]]] = []
    for node in uses.nodes:
        name, made = name_of(node), shape_of(node)
        if len(made) < 2 or made[0] != made[1] or made[0] < _FEW or not _combines(uses, node):
            continue
        operands = [x for x in makers_of(node) if shape_of(x) != made]
        if len(operands) < len(makers_of(node)) or not operands:
            continue
        if not all(_is_by_chance(x, made) for x in operands):
            return
        is_one = len({shape_of(x) for x in operands}) == len(operands)
        # A sum of weighted pairs may be that of a graph's edges.
        or_sum = name in ("Sub", "Expand")
        if is_one and lead_to_the_loss(uses, node, (0, 1), or_sum=or_sum):
            found.append((operands[0], made))
    yield from found


def _combines(uses: Uses, node: Any) -> bool:
    if name_of(node) == "Expand":
        return any(name_of(user) in _LOSSES for user, _ in uses.users[id(node)])
    return name_of(node) in _COMBINING and len(operands_of(node)) == 2


def _is_by_chance(operand: Any, made: tuple[int, ...]) -> bool:
    """True for an operand that has one axis less, or an axis of one that nobody has put there."""
    n, _, *rest = made
    shape = shape_of(operand)
    return shape == (n, *rest) or (shape == (n, 1, *rest) and name_of(operand) not in _INSERTING)
