"""How a loss is made, and what is odd in it, by autograd's graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from taiyi_fx.findings.facts.advantages import trained_advantages
from taiyi_fx.findings.facts.autograd import Uses
from taiyi_fx.findings.facts.blanks import blank_targets
from taiyi_fx.findings.facts.both_sides import (
    moving_targets,
    odd_ratios,
    overlaps_of_logits,
    pulled_alone,
)
from taiyi_fx.findings.facts.broadcasts import broadcasts
from taiyi_fx.findings.facts.copied import copied, shifted
from taiyi_fx.findings.facts.detected import (
    axes_of,
    first_of,
    found_by,
    of_number,
    owners_of,
    softmaxes_of,
)
from taiyi_fx.findings.facts.fields import Fields, overlapping_fields
from taiyi_fx.findings.facts.flat import Flat, flat_functions
from taiyi_fx.findings.facts.given_to_losses import (
    OutOfReach,
    is_judged,
    is_score,
    last_products,
    masked_by_product,
    out_of_reach,
    own_pairs,
)
from taiyi_fx.findings.facts.grown_scores import GrownScores, grown_scores
from taiyi_fx.findings.facts.held_targets import HeldTargets, held_targets
from taiyi_fx.findings.facts.ignored import IgnoredClass, ignored_class
from taiyi_fx.findings.facts.layer_runs import doubled_layers, joined_with_themselves, linear_runs
from taiyi_fx.findings.facts.logits import Logits, logits_of, logits_of_shares
from taiyi_fx.findings.facts.lost_axes import lost_axes, sizes_over_samples
from taiyi_fx.findings.facts.messages import Messages, messages_of
from taiyi_fx.findings.facts.mistaken_axes import MistakenAxes
from taiyi_fx.findings.facts.noise import OddNoise, log_variances, odd_noise
from taiyi_fx.findings.facts.padding import Padding, padding_of
from taiyi_fx.findings.facts.same_calls import same_calls
from taiyi_fx.findings.facts.second_uses import are_used_once, used_in_several_ways
from taiyi_fx.findings.facts.softmaxes import OddSoftmax, odd_softmaxes
from taiyi_fx.findings.facts.squared_means import squared_means
from taiyi_fx.findings.facts.squashed import is_divergence, squashing_loss
from taiyi_fx.findings.facts.targets import is_judging
from taiyi_fx.findings.facts.unsummed import unsummed_softmaxes
from taiyi_fx.findings.facts.views import torn_inputs, torn_views
from taiyi_fx.findings.facts.volumes import turned_signs
from taiyi_fx.findings.facts.ways import (
    Terms,
    first_place,
    is_made_anew,
    last_place,
    reached_by,
    takes_rows,
    terms_of,
)
from taiyi_fx.findings.facts.weights import OddWeights, odd_weights, weighted_means


@dataclass(frozen=True)
class LossGraph:
    """How a loss is made, and what is odd in it: each field with the function that finds it."""

    softmaxes: tuple[OddSoftmax, ...] = found_by(odd_softmaxes)
    """Softmaxes over the wrong axis."""
    broadcasts: tuple[MistakenAxes, ...] = found_by(broadcasts)
    """Operands whose samples are combined with all samples of the other."""
    copied: str = found_by(copied, "")
    """The module that is given what the loss has for targets; empty if there is none."""
    shifted: tuple[str, int] | None = found_by(shifted, None)
    """The module that is given them some places later, and how many; None if there is none."""
    views: tuple[MistakenAxes, ...] = found_by(axes_of(torn_views))
    """Views that exchange two sizes, and so mix the entries of both axes."""
    inputs: tuple[MistakenAxes, ...] = found_by(axes_of(torn_inputs))
    """Layers that are given such a view of what nothing is computed to, as of images."""
    logits: Logits | None = found_by(logits_of, None)
    """What its cross entropy is given; None where there is none, or several."""
    is_made_anew: bool = found_by(is_made_anew, False)
    """True for a loss that is made of one number, which nothing was computed to."""
    lost_axes: tuple[MistakenAxes, ...] = found_by(axes_of(lost_axes))
    """Means, or the like, along an axis, which meet another axis of what they are of."""
    over_samples: tuple[MistakenAxes, ...] = found_by(axes_of(sizes_over_samples))
    """Tensors that are divided by their size along the samples."""
    reached: frozenset[str] = found_by(reached_by, frozenset())
    """The modules whose parameters its cross entropy depends on, or all of it."""
    first_place: str | None = found_by(first_place, None)
    """The module before the first place of each sequence, where it takes this alone."""
    several_ways: frozenset[str] = found_by(used_in_several_ways, frozenset())
    """The modules whose weight it uses in several ways, as a derivative does."""
    is_of_one_forward: bool = found_by(are_used_once, False)
    """True if each weight that it depends on is taken once, as it is."""
    unsummed: tuple[OddSoftmax, ...] = found_by(softmaxes_of(unsummed_softmaxes))
    """Softmaxes of attention over another axis than the product with values sums over."""
    grown_scores: tuple[GrownScores, ...] = found_by(grown_scores)
    """Scores of attention that are multiplied by the square root of their features."""
    linear_runs: tuple[tuple[str, ...], ...] = found_by(linear_runs)
    """Linear layers one behind the other with nothing in between."""
    doubled: tuple[str, ...] = found_by(owners_of(doubled_layers))
    """The modules before sums of what a layer returns and the same once more."""
    joined: tuple[str, ...] = found_by(owners_of(joined_with_themselves))
    """The modules before what is joined with itself, as ``torch.cat([x, x], 1)``."""
    own_pairs: tuple[MistakenAxes, ...] = found_by(axes_of(own_pairs))
    """Products of rows with the same rows that it chooses among, without a mask."""
    last_products: tuple[str, ...] = found_by(last_products)
    """The modules whose output it is given behind a factor or a dropout."""
    is_divergence: bool = found_by(of_number(is_divergence), False)
    """True for a divergence of shares, with no other term."""
    of_shares: Logits | None = found_by(logits_of_shares, None)
    """What it is given, if it is a cross entropy with shares of classes for targets."""
    squashing: str = found_by(of_number(squashing_loss), "")
    """The loss function of torch that squashes what was squashed already."""
    is_judged: bool = found_by(is_judged, False)
    """True if its last layer is another model's, as a generator's is its judge's."""
    is_score: bool = found_by(is_score, False)
    """True if it is a plain mean of what its last layer returns, as of scores."""
    is_judging: bool = found_by(is_judging, False)
    """True if it asks for one answer to some samples, and for another to others."""
    out_of_reach: tuple[OutOfReach, ...] = found_by(out_of_reach)
    """Targets that the activation behind the last layer cannot return."""
    last_place: str | None = found_by(last_place, None)
    """The module before the last place of each sequence, likewise."""
    masked_by_product: tuple[OddSoftmax, ...] = found_by(softmaxes_of(masked_by_product))
    """Softmaxes of scores that were multiplied by a mask of 0 and 1."""
    moving_targets: tuple[str, ...] = found_by(moving_targets)
    """The modules before targets that get gradients."""
    pulled_alone: str | None = found_by(pulled_alone, None)
    """The module before what it pulls together, if it holds nothing apart."""
    overlaps: tuple[str, ...] = found_by(owners_of(overlaps_of_logits))
    """The layers whose output it takes for shares in a ratio of sums."""
    odd_ratios: float | None = found_by(first_of(odd_ratios), None)
    """The share of PPO's ratios of probabilities that are not 1; None without any."""
    padding: Padding | None = found_by(padding_of, None)
    """The padding of the sequences that it depends on; None if none is seen."""
    odd_noise: OddNoise | None = found_by(first_of(odd_noise), None)
    """Noise of another scale than the loss takes it for; None if there is none."""
    turned_signs: tuple[str, ...] = found_by(turned_signs)
    """The modules of logarithms that it has with the wrong sign."""
    log_variances: frozenset[str] = found_by(log_variances, frozenset())
    """The modules whose output it takes for the logarithm of a variance."""
    ignored: IgnoredClass | None = found_by(ignored_class, None)
    """A class that it leaves out, which is no padding; None if there is none."""
    held: HeldTargets | None = found_by(held_targets, None)
    """Targets that are among what the model is given; None if none is seen."""
    odd_weights: OddWeights | None = found_by(odd_weights, None)
    """Weights by which rare classes count for even less; None if there are none."""
    weighted_means: tuple[tuple[int, ...], ...] = found_by(weighted_means)
    """The shapes of weights that a mean of all elements is multiplied by."""
    squared_means: tuple[str, ...] = found_by(owners_of(squared_means))
    """The modules before squares of the mean of all differences."""
    overlapping_fields: tuple[Fields, ...] = found_by(overlapping_fields)
    """Fields of categories that one embedding is given without an offset."""
    blank_targets: float = found_by(blank_targets, 0.0)
    """The share of the targets of a CTC loss that are its blank."""
    flat: tuple[Flat, ...] = found_by(flat_functions)
    """Functions without a slope on the only way from weights to it."""
    same_calls: tuple[str, ...] = found_by(owners_of(same_calls))
    """The first module, if all are run twice on the same values."""
    has_gradient: bool = found_by(lambda uses: bool(uses.nodes), False)
    """True if it came with what it was made by, which a number and what is detached do not."""
    terms: Terms = found_by(terms_of, Terms())
    """The terms that it is the sum of."""
    trained_advantages: tuple[str, ...] = found_by(trained_advantages)
    """The modules before what weighs log probabilities, and gets a gradient by that."""
    takes_rows: bool = found_by(takes_rows, False)
    """True if it is of some rows of what the last layer returns, by an index."""
    messages: tuple[Messages, ...] = found_by(messages_of)
    """What each layer sends from row to row, by indices."""

    @property
    def is_of_policy(self) -> bool:
        """True for a loss with PPO's ratios of probabilities, which need not fall."""
        return self.odd_ratios is not None


def loss_graph_of(
    loss: Any,
    parameters: Mapping[int, str],
    failed: Callable[[str, Exception], None] | None = None,
) -> LossGraph:
    """The oddities in autograd's graph of a loss, of which nothing is kept.

    Args:
        loss: The loss, a tensor, before or after its backward.
        parameters: The module of each parameter, by the parameter's id.
        failed: Is told which field was not found, as looking for it failed; without it the error
            goes on.
    """
    uses, found = Uses.of(loss, parameters), dict[str, Any]()
    for one in fields(LossGraph):
        try:
            value = one.metadata["detect"](uses)
            found[one.name] = tuple(value) if isinstance(value, Iterator) else value
        except Exception as error:  # one that fails must not void what others find
            if failed is None:
                raise
            failed(one.name, error)
    return LossGraph(**found)
