"""Steps of the optimizer that are too large, or too small to learn by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from taiyi_fx.findings.blocks import common_block, in_blocks, named
from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.parameters import parameter_of
from taiyi_fx.findings.facts.robust import log10, median
from taiyi_fx.findings.facts.watched import Values, Watched
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind
from taiyi_fx.findings.rules.optimizer.rates import in_group
from taiyi_fx.findings.rules.optimizer.schedules import with_initial_rates
from taiyi_fx.findings.rules.optimizer.vanished import share_left

_STEPS = 8
_LARGE = 0.2
"""The size of a step beside that of the parameter; some 1e-3 is usual."""
_FAR_BELOW = 30.0
"""Times that a schedule stays below what its optimizer was made with, where it multiplies twice."""
_SMALL = 3e-5
"""So small are steps that change nothing in a training's time, in the median of all weights."""
_LARGEST = 1e-4
"""And so small the largest of any weight: some need few steps."""
_CUT = 100.0
"""Times the steps that gradients make as they were read, from which something cuts them."""
_LOUD, _HIGH = 5.0, 10.0
_NOTHING = 1e-3
"""Elements of a weight that began at zero and has hardly come away from it."""
_TINY = 0.01
"""Elements of a weight that is still to grow."""
_FEW = 3
_TWICE = 2
_POWERS = 2.3
"""Powers of ten between a weight's steps and those of half of all weights."""
_JUMP, _JUMPS, _QUIET = 0.3, 50.0, 0.02
_TENTH = 0.1
"""The share of the weights that may begin with steps too large for them alone."""
_ANEW, _ANEW_TIMES, _STEADY = 1.0, 15.0, 0.1
_KEPT = 1.5
"""The change of a weight's size by which it is another of the same."""
_OVER = 3.0
"""The factor by which the next step of a weight that was written into is smaller."""
_SHARE = 0.34
"""Of the weights: where more jump, it is the optimizer."""
_MANY_FORWARDS = 4
"""Of each step, where no two players or two views of a batch are why."""
_MOST = 0.7
"""And of which steps are large sooner or later: one that is first only has the smallest weights."""

_RATE = (
    "The learning rate is too large for this model: try a tenth of it, warm it up, or clip "
    "gradients"
)
_SUMS = (
    "Divide the loss of each of these forwards by their number, if each has a backward of its own: "
    "gradients add up. Else the learning rate is too large for this model: try a tenth of it"
)
_SETTLED = (
    "Later steps are small: if the loss falls, nothing is wrong; a warm-up makes the first smaller"
)
_GROWN = 0.2
"""The share of its latest size, below which a weight that began at zero is next to it still."""
_VERY, _BEGINNING = 0.5, 64
"""The step of one weight that is harmless in the beginning, and the steps that this lasts."""
_LEARNT = 0.5
"""Of a loss at first: below it large steps have done no harm."""
LARGE_STEPS = Kind(
    "large_steps",
    "alert",
    f"{_RATE}; where a step has several backwards, divide the loss by their number",
)
SMALL_STEPS = Kind(
    "small_steps",
    "warning",
    "The learning rate is far too small for this model, or gradients vanish, or are clipped to "
    "next to nothing, as before a scaler's unscale_: try ten times as much",
)


WEIGHT_JUMP = Kind(
    "weight_jump",
    "alert",
    "Something else than the optimizer writes into it: look for code that initialises, loads, "
    "clamps or prunes it at this step",
)


ODD_STEPS = Kind(
    "odd_steps",
    "warning",
    "Look at the learning rate of its group, and at hooks that scale its gradient",
)


def odd_steps(evidence: Evidence) -> Iterator[Finding]:
    """A weight whose steps are of another size than those of all others."""
    for series in _alike(evidence):
        sizes = log10(np.array([median(_finite(s)) for s in series]))
        sizes += np.minimum(0.0, _smaller(series, evidence))
        middle = median(sizes) if len(sizes) >= _FEW else np.nan
        known = zip(series, sizes, strict=True)
        odd = [s for s, size in known if abs(size - middle) >= _POWERS]
        usual = np.power(10.0, middle)
        odd = [s for s in odd if not _may_be_odd(s, float(usual), evidence)]
        for one, name in in_blocks(odd, evidence.parameters.weights):
            yield _odd(one, name, float(usual), evidence)


def _may_be_odd(s: Watched, usual: float, evidence: Evidence) -> bool:
    """True for a weight that may take such steps beside those of others on purpose.

    Where branches begin at next to nothing, most weights have next to no gradient, and are no
    measure of those that have one. Those of gains may be small, as a norm behind them divides them
    away channel by channel.
    """
    if median(_finite(s)) > usual:
        return evidence.parameters.has_layer_scales
    own = evidence.model.attributes.get(s.name)
    is_norm = s.name in evidence.norms or (own is not None and "Norm" in own.kind)
    is_counted = (s.module, "weight") in evidence.parameters.counts
    is_gain = is_norm or (is_counted and evidence.parameters.is_vector(s.module))
    return evidence.parameters.has_layer_scales or is_gain


def _alike(evidence: Evidence) -> Iterator[list[Watched]]:
    """The series of weights whose steps may be compared.

    Branches that began at nothing have no gradient at first, and little for some steps. Gains are
    much larger than the elements of matrices, and what a norm behind them divides away has hardly
    a gradient.
    """
    every = [*_moved(evidence)]
    of = evidence.in_branches
    for kind in ((False, False), (False, True), (True, False), (True, True)):
        yield [
            s for s in every if (s.module in of, evidence.parameters.is_vector(s.module)) == kind
        ]


def _smaller(series: Sequence[Watched], evidence: Evidence) -> Values:
    """The powers of ten by which each weight's elements began larger than those of half of all.

    A head that begins with tiny elements is to grow, and is no measure of its steps.
    """
    known = {s.module: s.values[0] for s in evidence.of_quantity("ParameterRMS.weight")}
    sizes = log10(np.array([known.get(s.module, np.nan) for s in series]))
    if not np.isfinite(sizes).any():
        return np.zeros(len(series))
    return np.nan_to_num(sizes - median(sizes[np.isfinite(sizes)]), posinf=0.0, neginf=0.0)


def _moved(evidence: Evidence) -> Iterator[Watched]:
    """The series of weights that take steps: none is for `no_update` and `zero_gradients` to say.

    A weight that began at zero takes steps of any size beside it.
    """
    for s in evidence.steps_of_weights:
        moves = len(s.values) >= _STEPS and median(_finite(s)) > 0
        if moves and not evidence.parameters.began_at_zero(s.module):
            yield s


def _odd(one: Watched, name: str, usual: float, evidence: Evidence) -> Finding:
    value = median(_finite(one))
    text = (
        f"the optimizer changes the weight of {named(one, name)} by {value:.1e} of its size at "
        f"each step, and half of all weights by {usual:.1e}{in_group(name, evidence)}"
    )
    return ODD_STEPS.at(one, 0, text, f"near {usual:.1e}", value=value, module=name)


def weight_jumps(evidence: Evidence) -> Iterator[Finding]:
    """A weight that changes by much of its size at one step, where others do not."""
    weights = evidence.steps_of_weights
    series = [s for s in weights if len(s.values) > 2 * _STEPS]
    jumps = [_jump(s) for s in series]
    steps = [
        None if i is not None and _grows_from_zero(s, i, evidence) else i
        for s, i in zip(series, jumps, strict=True)
    ]
    yield from _all_anew(series, steps, evidence)
    # A recurrent layer has several weights.
    jumping = {s.module for s, i in zip(series, steps, strict=True) if i is not None}
    are_few = len(jumping) <= _SHARE * len({s.module for s in series})
    told = set[str]()
    for one, i in zip(series, steps, strict=True):
        if i is not None and are_few and one.module not in told:
            told.add(one.module)
            text = (
                f"step {one.steps[i]}: the weight of {one.module!r} changes by {one.values[i]:.2g} "
                f"of its size at once, and else by {median(one.values):.1e}"
            )
            yield WEIGHT_JUMP.at(one, i, text, f"near {median(one.values):.1e}")


def _all_anew(
    series: Sequence[Watched], steps: Sequence[int | None], evidence: Evidence
) -> Iterator[Finding]:
    """Most matrices made anew at one step, which keep their size and take usual steps after it.

    As where a model is initialised or loaded once more: no optimizer leaves sizes as they were.
    """
    known = [(s, i) for s, i in zip(series, steps, strict=True) if i is not None]
    for step in sorted({int(s.steps[i]) for s, i in known}):
        anew = [(s, i) for s, i in known if s.steps[i] == step and _is_replaced(s, i, evidence)]
        matrices = [s for s in series if not evidence.parameters.is_vector(s.module)]
        if len(anew) > max(_FEW, len(matrices) / 2):
            site, i = anew[0]
            text = (
                f"step {step}: the weights of {len(anew)} modules change by about "
                f"{site.values[i] * _gap(site, i):.2g} of their size at once, and keep their size"
            )
            yield WEIGHT_JUMP.at(site, i, text, f"near {median(site.values):.1e}", module="")
            return


def _grows_from_zero(s: Watched, i: int, evidence: Evidence) -> bool:
    """True for a step of a weight that began at zero, and is next to it still beside its latest."""
    size = evidence.parameters.weights.get(s.module)
    if size is None or not evidence.parameters.began_at_zero(s.module):
        return False
    before, latest = size.values[size.steps < s.steps[i]][-1:], size.values[-1]
    return bool((before < _GROWN * latest).all())


def _is_replaced(s: Watched, i: int, evidence: Evidence) -> bool:
    size = evidence.parameters.weights.get(s.module)
    if size is None or s.values[i] * _gap(s, i) < _ANEW or i + 1 >= len(s.values):
        return False
    before = size.values[size.steps < s.steps[i]][-1:]
    after = size.values[size.steps >= s.steps[i]][:1]
    is_kept = len(before) and len(after) and 1 / _KEPT < after[0] / before[0] < _KEPT
    return bool(is_kept) and s.values[i + 1] < s.values[i] / _LOUD


def _gap(s: Watched, i: int) -> int:
    return int(s.steps[i] - s.steps[i - 1])


def _jump(s: Watched) -> int | None:
    later = np.where(np.isfinite(s.values), s.values, 0.0)
    later[:_STEPS] = 0.0  # steps that begin from zero, or without the notes of the optimizer
    i = int(later.argmax())
    usual = median(s.values)
    # Between two readings it is one of several steps that was so large.
    whole = later[i] * _gap(s, i)
    is_jump = usual < _QUIET and whole >= _JUMP and later[i] >= _JUMPS * usual
    # Another weight altogether is the root of two away, whatever steps it usually takes; those of
    # one that goes astray anyway tell of none.
    is_anew = usual < _STEADY and whole >= _ANEW and later[i] >= _ANEW_TIMES * usual
    # Where a training takes off, the steps after the first large one are large, too.
    is_over = i + 1 < len(later) and later[i + 1] <= later[i] / _OVER
    return i if (is_jump or is_anew) and is_over else None


def step_sizes(evidence: Evidence) -> Iterator[Finding]:
    """Steps that are nearly as large as the weights they change, or next to nothing."""
    known = evidence.steps_of_weights
    series = [s for s in known if len(s.values) >= _STEPS and not _is_nothing_yet(s, evidence)]
    large = [s for s in known if _is_large(s, evidence)]
    if all(_settles(s, evidence) for s in large) and len(large) <= _TENTH * len(known):
        large = []
    if large and (series or len(large) > len(known) / 2):
        yield _large(large, known, evidence)
    # A window of later steps may be the end of a schedule, which falls to nothing on purpose.
    elif evidence.is_from_the_start and len(series) >= _FEW and _are_small(series, evidence):
        yield from () if share_left(evidence) is not None else [_small(series, evidence)]


def _is_nothing_yet(s: Watched, evidence: Evidence) -> bool:
    """True for a weight that began at zero and is still next to it: all its steps are large beside
    it, however small they are.
    """
    size = evidence.parameters.sizes.get((s.module, parameter_of(s)))
    return size is not None and size.values[0] == 0 and size.values[-1] <= _NOTHING


def _finite(s: Watched) -> Values:
    """The numbers of the last half: a rate may have fallen to nothing."""
    return s.last_half[np.isfinite(s.last_half)]


def _are_small(series: list[Watched], evidence: Evidence) -> bool:
    if evidence.fitted:  # which ends by itself
        return False
    usual = [median(_finite(s)) for s in series if len(_finite(s)) and _largest(s) > 0]
    # Where half of all take steps that are far smaller still, one may take some that are larger.
    bounds = ((_SMALL, _LARGEST), (_SMALL / 3, 3 * _LARGEST))
    largest, middle = max(_largest(s) for s in series), median(usual or [1])
    return any(middle <= small and largest <= most for small, most in bounds)


def _largest(s: Watched) -> float:
    return float(_finite(s).max(initial=0.0))


def _is_large(s: Watched, evidence: Evidence) -> bool:
    """True if several steps are, or one as large as the weight itself, in the beginning.

    A weight that was zero, or nearly, has to take large ones.
    """
    values = _comparable(s, evidence)
    is_anew = len(values) > 1 and bool((values[:_TWICE] >= _ANEW).any())
    return is_anew or int((values >= _LARGE).sum()) >= _TWICE


def _comparable(s: Watched, evidence: Evidence) -> Values:
    """The steps of a weight, each beside a size that is no tiny one's; none if it had no size."""
    size = evidence.parameters.weights.get(s.module)
    if size is None or _began_at_nothing(size, evidence) or s.module in evidence.fitted:
        return np.empty(0)
    return s.values * _share_of_usual(s, size, evidence)


def _settles(s: Watched, evidence: Evidence) -> bool:
    """True for a weight whose first steps made it so large that later ones are small beside it.

    As the first of many convolutions, each before a norm, which passes its gradient on larger.
    """
    is_begun = bool((s.values[_STEPS:] < _LARGE).all() and s.values[-1] < _LARGE / 2)
    return is_begun and s.module in evidence.before_norms and s.values.max() < _ANEW / 2


def _share_of_usual(s: Watched, size: Watched, evidence: Evidence) -> Values:
    """The size of a weight's elements, as a share of those of half of all weights; 1 at most.

    It is 1 of all but those that begin with tiny elements, as the last layer of a policy or the
    table of word2vec does: they are to grow, and are no measure of what changes them. If those of
    others are as tiny, the size that it has in the end is one.
    """
    count = evidence.parameters.count_of(size)
    if not count or not _is_tiny(size, count):
        return np.ones(len(s.values))
    known = [
        (one, evidence.parameters.count_of(one)) for one in evidence.parameters.weights.values()
    ]
    usual = median([one.values[0] / np.sqrt(n) for one, n in known if n])
    sizes = size.values / np.sqrt(count)
    return np.minimum(1.0, np.interp(s.steps, size.steps, sizes) / max(usual, sizes[-1]))


def _is_tiny(size: Watched, count: float) -> bool:
    return bool(size.values[0] / np.sqrt(count) < _TINY)


def _of_forwards(evidence: Evidence) -> str:
    """The ending of a sentence on steps of gradients that many forwards may have been summed in."""
    count = evidence.forwards_per_step
    return f"; there are {count} forwards in each step" if count >= _MANY_FORWARDS else ""


def _began_at_nothing(size: Watched, evidence: Evidence) -> bool:
    """True for a weight that grew tenfold, from elements that were tiny."""
    count = evidence.parameters.count_of(size)
    is_tiny = not count or _is_tiny(size, count)
    latest = size.values[np.isfinite(size.values)][-1:]  # of which a first look has not many
    return bool(is_tiny and (size.values[0] < 0.1 * latest).all())


def _large(large: list[Watched], series: list[Watched], evidence: Evidence) -> Finding:
    first = min(large, key=_first_large)
    i = int(np.flatnonzero(first.values >= _LARGE)[0])
    gap = _gap(first, i) if i else 1
    in_each = "at once" if gap == 1 else f"a step, in the mean of {gap} steps"
    more = sum((_comparable(s, evidence) >= _LARGE).any() for s in series if s is not first)
    text = (
        f"step {first.steps[i]}: the optimizer changes the weights of {first.module!r} by "
        f"{first.values[i]:.2g} of their size {in_each}"
    )
    if more:
        text += f", and those of {more} more of {len(series)} by {_LARGE} or more in a step"
    text += _of_forwards(evidence)
    # One that has large steps from the start has them of its own; else it is the optimizer.
    # Those that follow are led by one that leaps by its own size.
    is_leap = first.values[i] >= _ANEW
    modules = {
        s.module
        for s in large
        if not is_leap or (s.values[s.steps == first.steps[i]] >= _LARGE).any()
    }
    rest = [s for s in series if s.module not in modules]
    is_few = len(rest) >= max(len(modules), _TWICE)
    is_alone = len(modules) == 1 and _begins_large(first)
    is_of_all = len(large) >= _MOST * len(series)
    is_own = (
        is_few
        and not is_of_all
        and not _is_rate_high(int(first.steps[i]), evidence)
        and (is_alone or _are_quiet(rest, int(first.steps[i]), first.values[i]))
    )
    module = common_block([*modules]) if is_own else ""
    others = {"advice": _SUMS} if _of_forwards(evidence) else {}
    is_one = len(large) == 1 and not more
    if all(map(_finds_its_size, large)) and (is_one or _has_learnt(evidence)):
        others = {"severity": "note", "advice": _SETTLED}
    return LARGE_STEPS.at(first, i, text, "near 0.001", module=module, **others)


def _finds_its_size(s: Watched) -> bool:
    """True for a weight whose large steps are of the beginning alone, and none is very large.

    As those of a last layer, which begins small and is trained by the rate of all others.
    """
    large = s.values >= _LARGE
    return bool(s.values[large].max() < _VERY and s.steps[large].max() < _BEGINNING)


def _has_learnt(evidence: Evidence) -> bool:
    """True if a loss is half of what it was at first, and all are below that."""
    ends = [(s.values[0], median(s.values[-_STEPS:])) for s in evidence.logged.losses]
    shares = [last / first for first, last in ends if first > 0]
    return bool(shares) and max(shares) < 1 and min(shares) < _LEARNT


def _first_large(s: Watched) -> tuple[int, float]:
    """The step of a weight's first large change, and how large it is, the largest first."""
    i = int(np.argmax(s.values >= _LARGE))
    return int(s.steps[i]), -float(s.values[i])


def _is_rate_high(step: int, evidence: Evidence) -> bool:
    """True for a step taken at many times the usual learning rate: it is the schedule's."""
    rates = evidence.of_quantity("LearningRate")
    return any(
        (one.values[one.steps == step - 1] >= _HIGH * median(np.abs(one.values))).any()
        for one in rates
    )


def _are_quiet(series: list[Watched], step: int, value: float) -> bool:
    """True if no step of these is near that value at the time."""
    known = [x for s in series for x in s.values[(s.steps >= step - 1) & (s.steps <= step)]]
    return bool(known) and max(known) <= value / _LOUD


def _begins_large(s: Watched) -> bool:
    return bool((s.values[:_STEPS] >= _LARGE).mean() >= 0.5)


def _small(series: list[Watched], evidence: Evidence) -> Finding:
    value = float(median([median(_finite(s)) for s in series if len(_finite(s))]))
    text = f"the optimizer changes weights by {value:.1e} of their size at each step"
    known = [x for s in series if (x := _times_cut(s, evidence)) is not None]
    if known and (times := median(known)) >= _CUT:
        text += (
            f"; the gradients that track reads make steps {times:.2g} times as large by its "
            "learning rate: they are clipped to next to nothing, or have a scale that is taken "
            "away again"
        )
    for rates, initial in with_initial_rates(evidence):
        largest = float(rates.values.max())
        if 0 < _FAR_BELOW * largest < initial:
            text += (
                f"; the schedule's learning rate is {largest:.2g} at most, where the optimizer was "
                f"made with {initial:.2g}: the function of a LambdaLR returns a factor, and no rate"
            )
            break
    return SMALL_STEPS.at(series[0], 0, text, "near 0.001", module="", value=value)


def _times_cut(s: Watched, evidence: Evidence) -> float | None:
    """The step that SGD makes of the gradient as it was read, over the one that it takes."""
    number, rate = evidence.optimizer.groups.get(s.module, (-1, 0.0))
    groups, took = evidence.optimizer.group_settings, median(_finite(s))
    size, gradient = (
        evidence.parameters.weights.get(s.module),
        evidence.parameters.weight_gradients.get(s.module),
    )
    if not 0 <= number < len(groups) or groups[number].rule != "sgd" or not took > 0:
        return None
    if size is None or gradient is None or s.quantity != "UpdateRatio.weight":
        return None
    return rate * median(_finite(gradient)) / max(median(_finite(size)), 1e-30) / took
