"""Parameters without a gradient: frozen among trained ones, cut off, or never called."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from taiyi_fx.findings.blocks import in_blocks, named
from taiyi_fx.findings.facts.evidence import Evidence, listed
from taiyi_fx.findings.facts.lasting import STEPS, ends
from taiyi_fx.findings.facts.watched import Watched, grouped, names_of
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind

MISSING_GRADIENT = Kind(
    "missing_gradient",
    "warning",
    "It is frozen (requires_grad is False), never called, or cut off by detach or torch.no_grad",
)
DETACHED = Kind(
    "detached",
    "warning",
    "Look between it and the loss for a result that nothing uses, or that another takes the place "
    "of, for detach, .data, .item, torch.no_grad, a tensor that is made anew, and for what has no "
    "gradient (an index of argmax, topk or max, rounding, a comparison); to freeze it on purpose "
    "call requires_grad_(False)",
)
NEVER_CALLED = Kind(
    "never_called",
    "note",
    "Nothing is wrong if it is left out on purpose; else look at the forward that should call it, "
    "and at what it calls instead",
)
_OF_CUTS = (
    "An index, a rounded number and what is detached have no gradient: multiply what is chosen by "
    "its weight, hand the gradient past it as x + (y - x).detach() does, or give the loss a term "
    "that teaches it; to freeze it on purpose call requires_grad_(False)"
)
_OF_INDICES = ("max", "min", "topk", "sort", "kthvalue")
"""Functions that return indices beside values."""
_STATE = (
    "Detach the state between batches at most: within a sequence, the gradient has to go back "
    "through all steps of it"
)
DETACHED_OF_ALL = Kind(
    "detached",
    "alert",
    "Look for item(), detach, numpy or torch.tensor of what the model returns, and for a forward "
    "under torch.no_grad or inference_mode; backward has to be called of the loss itself",
)

DETACHED_AT_END = Kind(
    "detached",
    "note",
    "Nothing is wrong if what it returns is not used on purpose; else look between it and the loss "
    "for detach, .data, .item, torch.no_grad, and for a term that is missing in the loss",
)

_STEPS_OF_CELL = 3
_TABLE = "torch.nn.modules.sparse.Embedding"
_UNCALLED = "the module was not called"
_TURNS_OFF = re.compile(r"\b(no_grad|inference_mode|set_grad_enabled|detach|data)\b")
"""Of code that computes without gradients."""
_COMPUTED = "is computed of other parameters"
"""Of a weight whose gradient nobody asks for, but those of what a parametrization makes it of."""
_NAMES = ("WeightGradNorm", "ParameterGradNorm.weight")


def missing_gradients(evidence: Evidence) -> Iterator[Finding]:
    """Modules without a gradient, where that is not on purpose as far as one can see."""
    lacking = [
        s
        for s in evidence.parameters.weights.values()
        if len(s.values) >= STEPS
        and s.module not in evidence.parameters.weight_gradients
        and _COMPUTED not in _reason(s.module, evidence)
    ]
    cut = [s for s in lacking if _is_cut_off(s.module, evidence)]
    yield from _detached(cut, evidence)
    yield from _cut_off_later(evidence)
    yield from _cut_off_in_time(evidence)
    yield from _frozen_alone(lacking, evidence)
    ends = {s.module for s in cut if _is_last_of_its_role(s, evidence)}
    odd = [*_odd_ones([s for s in lacking if s.module not in ends], evidence)]
    yield from odd
    told = {found.module for found in odd}
    yield from _never_called([s for s in lacking if s.module not in told], evidence)


def _is_cut_off(module: str, evidence: Evidence) -> bool:
    """True if its parameters want a gradient, its forward was run, and none came."""
    return module in evidence.called and _lacks_one(module, evidence)


def _lacks_one(module: str, evidence: Evidence) -> bool:
    """True if its parameters want a gradient, and none came."""
    return _reason(module, evidence).startswith("no gradient reached")


def _reason(module: str, evidence: Evidence) -> str:
    own = (s.quantity for s in (evidence.parameters.weights[module],))
    names = (*_NAMES, *(name.replace("ParameterNorm", "ParameterGradNorm") for name in own))
    known = evidence.reasons
    return next((known[module, name] for name in names if (module, name) in known), "")


def _detached(cut: list[Watched], evidence: Evidence) -> Iterator[Finding]:
    """The last of those that are cut off from the loss, before one that is not."""
    place = evidence.modules
    end = max((place[module] for module in evidence.parameters.weight_gradients), default=-1)
    before = [s for s in cut if place[s.module] < end]
    if cut and not evidence.parameters.weight_gradients and _are_still(cut, evidence):
        is_made_anew = any(graph.is_made_anew for graph in evidence.logged.known_graphs)
        text = "no gradient reaches any module, though a loss is logged"
        text += ", which was made anew as a tensor of its own" if is_made_anew else ""
        yield DETACHED_OF_ALL.at(cut[0], 0, text, "gradients", module="")
    at_end = [s for s in cut if place[s.module] > end]
    if at_end and evidence.parameters.weight_gradients:
        yield from _without_loss(at_end, evidence)
    last = [s for s in before if _is_last_of_its_role(s, evidence)]
    if last and len(last) == len(before):
        yield from _without_loss(last, evidence)
    elif before:
        site, others = before[-1], before[:-1]
        text = f"no gradient reaches {site.module!r}, though each forward calls it"
        text += _nor(others, site, evidence)
        cuts = evidence.flow.cuts_behind(site.module, evidence.parameters.weights)
        text += _cut_by(cuts) or _without_gradients(site.module, evidence)
        advice = _OF_CUTS if cuts else DETACHED.advice
        others = {"advice": advice, "functions": tuple(cuts)}
        yield DETACHED.at(site, 0, text, "a gradient, as those behind it have", **others)


def _nor(others: Sequence[Watched], site: Watched, evidence: Evidence) -> str:
    """The ending of a sentence on others like it, which mostly lie before it, or else beside it."""
    if not others:
        return ""
    is_behind = any(evidence.is_behind(site.module, one.module) for one in others)
    return f"; nor does one reach {names_of(others)}" + " before it" * is_behind


def _without_gradients(module: str, evidence: Evidence) -> str:
    """The ending of a sentence on code around a module that computes without gradients."""
    around = module
    while around:
        around = around.rpartition(".")[0]
        why = evidence.flow.python.get(around, "")
        if _TURNS_OFF.search(why):
            name = repr(around) if around else "the model"
            return f"; the forward of {name} {why}"
    return ""


def _cut_by(cuts: Sequence[str]) -> str:
    """The ending of a sentence on the functions that pass no gradient back."""
    plain = [name for name in cuts if name not in _OF_INDICES]
    indices = [name for name in cuts if name in _OF_INDICES]
    parts = []
    if plain:
        passes = "pass" if len(plain) > 1 else "passes"
        parts.append(f"{listed(plain)}, which {passes} no gradient back")
    if indices:
        parts.append(f"{listed(indices)}, whose indices have no gradient")
    return f"; between it and the loss: {', and '.join(parts)}" if parts else ""


def _is_last_of_its_role(s: Watched, evidence: Evidence) -> bool:
    """True for the last of several whose others all have a gradient, as of what each block hands
    on to the next one.
    """
    others = [
        name for name, one in evidence.parameters.weight_gradients.items() if one.role == s.role
    ]
    place = evidence.modules
    return (
        "*" in s.role
        and max((place[name] for name in others), default=place[s.module]) < (place[s.module])
    )


def _without_loss(at_end: list[Watched], evidence: Evidence) -> Iterator[Finding]:
    """Those behind all that get a gradient, as a head whose output no loss uses.

    A note, as outputs may be left unused, if an optimizer has them: they were to be trained.
    """
    given = {module for group in evidence.optimizer.group_settings for module in group.modules}
    known = [s for s in at_end if s.module in given and not _is_expert(s)]
    if known:
        site, others = known[-1], known[:-1]
        text = (
            f"no gradient reaches {site.module!r}, though each forward calls it, and the optimizer "
            "has its weight"
        )
        text += _nor(others, site, evidence)
        yield DETACHED_AT_END.at(site, 0, text, "a gradient, as others have")


def _is_expert(s: Watched) -> bool:
    """True by its name: an expert that no token comes to gets no gradient."""
    return "expert" in s.role.lower()


def _are_still(series: list[Watched], evidence: Evidence) -> bool:
    """True if a loss is logged, and no weight has changed."""
    return bool(evidence.logged.losses) and all((s.values == s.values[0]).all() for s in series)


def _cut_off_later(evidence: Evidence) -> Iterator[Finding]:
    """The last of those that had gradients and get none any more, though others do."""
    gradients = evidence.parameters.weight_gradients
    ended = [s for s in gradients.values() if _has_ended(s, evidence)]
    if ended and len(ended) < len(gradients):
        site, others = ended[-1], ended[:-1]
        text = f"no gradient reaches {site.module!r} after step {site.steps[-1]}"
        text += _nor(others, site, evidence)
        yield DETACHED.at(site, -1, text, "a gradient, as in the beginning")


def _cut_off_in_time(evidence: Evidence) -> Iterator[Finding]:
    """Recurrent cells of which the last step of each sequence alone gets a gradient."""
    calls = grouped([*evidence.of_quantity("OutputRMS")], lambda s: s.name)
    pulled = {s.module for s in evidence.of_quantity("OutputGradRMS")}
    for name, every in calls.items():
        is_cell = name in evidence.model.attributes and _is_cell(
            evidence.model.attributes[name].kind
        )
        known = [s for s in every if len(s.steps) >= STEPS]
        if not is_cell or len(known) < _STEPS_OF_CELL:
            continue
        *before, last = known
        if last.module in pulled and pulled.isdisjoint(s.module for s in before):
            text = (
                f"of {len(known)} calls of {name!r}, one after the other, the last alone gets a "
                "gradient: what its state remembers is not learnt"
            )
            others = {"module": name, "advice": _STATE}
            yield DETACHED.at(last, 0, text, "a gradient of each call", **others)


def _is_cell(kind: str) -> bool:
    """True for a class that is called for each step of a sequence, as torch's are."""
    return kind.endswith("Cell")


def _has_ended(gradient: Watched, evidence: Evidence) -> bool:
    """True if a weight is read for long after its last gradient; experts may get no token."""
    module = gradient.module
    if module in evidence.model.frozen or _is_expert(gradient):
        return False
    is_known = module in evidence.parameters.weights and len(gradient.values) >= STEPS
    return is_known and ends(evidence.parameters.weights[module].steps > gradient.steps[-1])


def _frozen_alone(lacking: list[Watched], evidence: Evidence) -> Iterator[Finding]:
    """The one frozen module that gradients pass through, to trained ones.

    Several are a choice, as the base of adapters is, or norms that are kept as they were.
    """
    passed = {s.module for s in evidence.of_quantity("OutputGradRMS", "OutputGradSndNorm")}
    through = [s for s in lacking if "frozen" in _reason(s.module, evidence) and s.module in passed]
    place = [evidence.modules[module] for module in evidence.parameters.weight_gradients]
    for site in through if len(through) == 1 and place else ():
        if min(place) < evidence.modules[site.module]:
            text = f"{site.module!r} alone is frozen, behind modules that are trained"
            yield MISSING_GRADIENT.at(site, 0, text, "a gradient, as those around it have")


def _odd_ones(lacking: list[Watched], evidence: Evidence) -> Iterator[Finding]:
    """Those among siblings that have one; not where all before them lack one."""
    roles = dict.fromkeys(s.role for s in lacking)
    odd = [s for role in roles for s in _of_role(role, lacking, evidence)]
    odd.sort(key=lambda s: evidence.modules[s.module])
    for site, name in in_blocks(odd, evidence.parameters.weights):
        text = f"{named(site, name)} has no gradient, where siblings of it have one"
        why = _reason(site.module, evidence)
        text += f" ({why})" if why else ""
        yield MISSING_GRADIENT.at(site, 0, text, "a gradient, as its siblings have", module=name)


def _of_role(role: str, lacking: list[Watched], evidence: Evidence) -> list[Watched]:
    """The modules of a role that lack a gradient, where most of the others have one."""
    without = {s.module for s in lacking}
    siblings = [
        s for s in evidence.parameters.weights.values() if s.role == role and len(s.values) >= STEPS
    ]
    has = [s.module not in without for s in siblings]
    # A frozen beginning is deliberate, and so is all of a role, as the base of an adapter.
    first = has.index(True) if True in has else len(has)
    odd = [s for s, so in zip(siblings[first:], has[first:], strict=True) if not so]
    return odd if len(odd) < 0.4 * len(siblings) else []


def _never_called(lacking: list[Watched], evidence: Evidence) -> Iterator[Finding]:
    """Those whose weights want a gradient, and that no forward in training calls, by role.

    Not experts, which tokens may not have come to.
    """
    unused = [s for s in lacking if _lacks_one(s.module, evidence) and _is_unused(s, evidence)]
    for role in dict.fromkeys(s.role for s in unused):
        every = [s for s in unused if s.role == role]
        text = f"no forward in training calls {names_of(every)}, whose weights are to be trained"
        beside = next((name for s in every if (name := _table_beside(s, evidence))), "")
        text += f", though {beside!r} beside it is called" if beside else ""
        severity = "warning" if beside else "note"
        yield NEVER_CALLED.at(every[0], 0, text, "a call in each forward", severity=severity)


def _table_beside(s: Watched, evidence: Evidence) -> str:
    """The one embedding that is called beside one that is not, as wide and of more rows; or empty.

    As that of words, to which nobody adds the places, of which there are as many as words in a
    sequence; an optimizer has both. Models that are given embedded words call the smaller one
    alone, those that add several, as places and languages, may be given less, and a table of fewer
    rows is of types or languages, which not every task has.
    """
    around, own = s.name.rpartition(".")[0], _sides_of_table(s.name, evidence)
    tables = {
        name: sides
        for name in evidence.model.attributes
        if name.rpartition(".")[0] == around and (sides := _sides_of_table(name, evidence))
    }
    called = [name for name in tables if name in evidence.called]
    if len(called) != 1 or not own or not {s.name, *called} <= evidence.optimizer.groups.keys():
        return ""
    rows, width = tables[called[0]]
    length = evidence.flow.shape_before(called[0]).rpartition("×")[2]
    has_places = length.isdecimal() and 1 < int(length) <= own[0]
    return called[0] if has_places and own[0] < rows and own[1] == width else ""


def _sides_of_table(name: str, evidence: Evidence) -> tuple[int, ...]:
    """The numbers of rows and features of an embedding; none of other modules."""
    own = evidence.model.attributes.get(name)
    return dict(own.sizes).get("", ()) if own and own.kind == _TABLE else ()


def _is_unused(s: Watched, evidence: Evidence) -> bool:
    is_known = evidence.reasons.get((s.module, "OutputRMS"), "").startswith(_UNCALLED)
    # Where no module is called in training, it is the model's mode.
    is_uncalled = bool(evidence.called) and s.module not in evidence.called
    return is_known and is_uncalled and not _is_expert(s)
