"""Experts of a mixture: what its routers choose."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from taiyi_fx.quantities.declare import Defined, quantity
from taiyi_fx.quantities.places import call
from taiyi_fx.reductions import Routing, RoutingValue, ratio

routing = call.reduce(Routing)


@quantity("RouterLoad", unit="share", accuracy="exact counts", found=routing)
def router_load(found: RoutingValue) -> dict[str, Defined]:
    """Share of all choices that each expert gets: a vector that adds up to 1.

    Of a router: a module that returns its choices, as those of transformers do, or logits or
    probabilities of the experts, such as a Linear, whose ``k`` largest are the choices: by default
    as many as the module says, else 1.
    ``RouterLoad.imbalance`` is the largest share times the number of experts: 1 where all get the
    same. ``RouterLoad.busiest`` is the share of tokens that come to that expert: 1 where all do.
    Where the router says for which choices an expert had no room, their share of all choices is
    ``RouterLoad.dropped``.

    Formula: c_e / sum c, c_e = choices of expert e
    Source: arXiv 2101.03961
    """
    load = _load(found.chosen)
    busiest = ratio(found.chosen.amax(), found.tokens)
    parts = {"": load, "imbalance": load.amax() * len(load), "busiest": busiest}
    if len(found.taken):
        taken, offered = found.taken
        parts["dropped"] = 1 - ratio(taken, offered)
    return {name: Defined.of_any(part, found.tokens, "tokens") for name, part in parts.items()}


@quantity("RouterEntropy", unit="nats", accuracy="1e-9", health="lasting", found=routing)
def router_entropy(found: RoutingValue, *, normalized: bool = False) -> Defined:
    """Entropy of the experts' load: the logarithm of their number where all get as many choices.

    0 where one expert gets all; ``normalized=True`` divides it by the logarithm of the number of
    experts. Of a router that returns logits the option ``k`` is that of `RouterLoad`.

    Formula: -sum_e f_e log f_e, f_e = share of choices of expert e
    """
    load = _load(found.chosen)
    entropy = torch.special.entr(load).sum()
    if normalized and len(load) > 1:
        entropy = entropy / math.log(len(load))
    return Defined.of_any(entropy, found.tokens, "tokens")


@quantity(
    "DeadExperts",
    unit="share",
    accuracy="exact counts",
    health="share_of_trouble",
    window=True,
    found=routing,
)
def dead_experts(found: RoutingValue) -> Tensor:
    """Share of experts that no token chose in the window's steps.

    Reads every step, whatever the schedule of its values; with ``window="due"`` only due steps are
    read. Of a router that returns logits the option ``k`` is that of `RouterLoad`.

    Formula: (experts with c_e = 0) / experts
    """
    chosen = found.chosen.sum(0)
    share = ratio((chosen == 0).sum(), len(chosen))
    return torch.where(chosen.isnan().any(), torch.nan, share)


def _load(chosen: Tensor) -> Tensor:
    return ratio(chosen, 1) / chosen.sum()
