"""Samples that are sorted by their class: batches of one class, or a loss that moves in runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from taiyi_fx.findings.facts.evidence import Evidence
from taiyi_fx.findings.facts.robust import Numbers, median, spread
from taiyi_fx.findings.facts.targets import Targets
from taiyi_fx.findings.facts.watched import Watched
from taiyi_fx.findings.finding import Finding
from taiyi_fx.findings.kind import Kind
from taiyi_fx.findings.rules.losses.loss import is_of_player

_CASES, _BATCHES, _NEARLY = 8, 3, 0.75
"""Samples of a batch that are not of one class by chance; such batches, and their share of all."""
_MIXED = "batches of all classes"
_MANY = 60
_SMOOTH = 0.6
"""The deviation of a loss's changes beside its own: batches that are drawn have 1.4."""
_WIDE = 0.03
"""The deviation of a loss, as a share of what a guess costs."""
_ABRUPT = 3.5
"""The largest tenth of a loss's changes beside half of them: of a normal deviation 2.4, of a wave
1.4."""
_FEWEST, _MOST = 6, 0.33
"""Times that it passes its own trend, and the share of its numbers: batches that are drawn pass it
at half of them, and a loss that only falls hardly ever."""
_WORSE = 0.1
"""The share of the last half that is worse than a guess."""
_LARGEST = 5.0
"""Times the guess: beyond it a loss is wild by itself."""
_FIRST = 3

SORTED_BATCHES = Kind(
    "sorted_batches",
    "warning",
    "Shuffle the samples (shuffle=True of a DataLoader, or a shuffle of the stream's buffer): in "
    "runs of one class a model learns to say this class, and forgets it at the next",
)


def sorted_batches(evidence: Evidence) -> Iterator[Finding]:
    """Batches of one class each; losses worse than a guess again and again, alike at like steps.

    Of parts of a loss none: one of a player that wins and loses goes up and down by itself, and
    batches that are sorted show in the whole.
    """
    whole = [loss for loss in evidence.logged.losses if loss.quantity.lower() == "loss"]
    for loss in whole or evidence.logged.losses:
        if is_of_player(loss, evidence):
            continue
        batches = evidence.logged.of_loss(loss).targets
        if text := _of_one_class_each(batches):
            yield SORTED_BATCHES.at(loss, 0, f"{loss.quantity!r} {text}", _MIXED, module="")
            continue
        classes = _classes_alone(loss, evidence)
        if classes < 2 or not _is_of_each_step(loss) or not np.isfinite(loss.values).all():
            continue
        guess = float(np.log(classes))
        runs = _runs(loss.values, guess)
        worse = float((loss.last_half > guess).mean())
        # Nor does a guess cost as much of logits that begin large, as scaled cosines do.
        largest = max(float(np.quantile(loss.last_half, 0.9)), median(loss.values[:_FIRST]))
        is_of_size = largest <= _LARGEST * guess
        if runs and worse >= _WORSE and is_of_size and _comes_again(loss.last_half > guess):
            text = (
                f"{loss.quantity!r} goes up and down in {runs} runs of some steps each, and costs "
                f"more than a guess among {classes} classes ({guess:.3g}) in {worse:.0%} of the "
                "last half"
            )
            yield SORTED_BATCHES.at(loss, 0, text, _MIXED, module="")


def _classes_alone(loss: Watched, evidence: Evidence) -> int:
    """The classes of a cross entropy with no other term, of which a guess costs what it does."""
    known = evidence.logged.of_loss(loss)
    logits = None if known.graph is None else known.graph.logits
    return known.classes if logits is None or logits.is_whole else 0


def _of_one_class_each(batches: Sequence[Targets]) -> str:
    """The end of a sentence on batches that have one class each, but not the same; else empty."""
    alike = [one for one in batches if one.is_of_one and one.cases >= _CASES and not one.is_of_two]
    classes = [int(one.least) for one in alike]
    is_first = bool(batches) and batches[0] in alike
    if not is_first or len(alike) < max(_BATCHES, _NEARLY * len(batches)) or len({*classes}) < 2:
        return ""
    return (
        f"has targets of a single class in {len(alike)} of the {len(batches)} batches that were "
        f"looked at ({alike[0].cases} targets in the first): of the classes {_words(classes)}"
    )


def _words(numbers: Sequence[int]) -> str:
    *others, last = map(str, numbers)
    return f"{', '.join(others)} and {last}"


def _comes_again(is_worse: NDArray[np.bool_]) -> bool:
    """True if it is worse, better and worse again, as what is lost at one step is not."""
    return int((np.diff(is_worse.astype(int)) == 1).sum()) + int(is_worse[0]) > 1


def _is_of_each_step(loss: Watched) -> bool:
    return len(loss.values) >= _MANY and bool((np.diff(loss.steps) == 1).all())


def _runs(values: Numbers, guess: float) -> int:
    """The number of runs above or below the loss's trend; 0 if it is that of batches at random."""
    at = np.arange(len(values))
    left = values - np.polyval(np.polyfit(at, values, 1), at)
    passes = int((np.diff(np.sign(left)) != 0).sum())
    is_smooth = spread(np.diff(values)) < _SMOOTH * spread(left)
    is_wide = spread(left) > _WIDE * guess
    changes = np.abs(np.diff(values))
    is_abrupt = np.quantile(changes, 0.9) > _ABRUPT * median(changes)
    return (
        passes + 1
        if is_smooth and is_wide and is_abrupt and _FEWEST <= passes <= _MOST * len(at)
        else 0
    )
