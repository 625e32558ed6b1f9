"""From a finding to its operation: the step of the finding is run again, and compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor, nn
from torch.optim import Optimizer

from taiyi_fx.passes.module_tree import named_parameters
from taiyi_fx.recorder.replay.alone import MeetsOthers, are_several_ranks
from taiyi_fx.recorder.replay.band import Band, Growth, latest_growth, size_of
from taiyi_fx.recorder.replay.checkpoint import shown_name
from taiyi_fx.recorder.replay.factor import common_factor, norms_of
from taiyi_fx.recorder.replay.iterators import CannotRepeat
from taiyi_fx.recorder.replay.kept_step import KeptStep
from taiyi_fx.recorder.replay.outside import Given, grown_from_outside
from taiyi_fx.recorder.replay.ran import Ran
from taiyi_fx.recorder.replay.rerun import Ways, run_again
from taiyi_fx.recorder.replay.result import Replay
from taiyi_fx.snapshot.bitwise import difference

_USUAL = (
    "no number is far from those of the steps before: look at the batch itself, such as its targets"
)
_NOT_KEPT = "which recorder.step keeps, too"


class CannotReplay(Exception):
    """A step cannot be run again; the message says why."""


def replay_step(
    step: int,
    kept: Sequence[KeptStep],
    model: nn.Module,
    ways: Ways,
    optimizers: Sequence[Optimizer],
    *,
    is_live: bool = True,
    band: Band | None = None,
) -> tuple[Replay, Sequence[KeptStep]]:
    """Runs a step again, from the last state before it that is finite.

    One that is not was spoilt by a step before, which is run again then.

    Args:
        step: The step.
        kept: The steps that are kept, oldest first.
        model: The model.
        ways: The ways to call it.
        optimizers: The optimizers that train it.
        band: Where nothing is NaN or Inf, look for the first operation that left the size that it
            had when it last ran: in this step, or the nearest of those before it, as what found
            it may not have looked at each; else for what came so from outside.
        is_live: True if the model's gradients are those of the last step that is kept.

    Returns:
        What was found, and what it takes to find it again: the step, with the state that it began
        from, and those that it was compared with, if it was found by its sizes.

    Raises:
        CannotReplay: The step is not kept, or no state before it that is finite.
        StepFunctionFailed: A function of the user's raised an error.
    """
    first = step if band is None else _first_to_compare(step, kept, band.back)
    chosen = [one for one in _from_state_before(first, kept) if one.step <= step]
    if ways.unread is None and not all(one.has_arguments for one in chosen):
        raise CannotReplay(
            "its batch is kept by reference alone, and the function of recorder.step did not run"
        )
    try:
        ran = run_again(
            model,
            ways,
            optimizers,
            chosen,
            takes_sizes=band is not None,
            watched_from=0 if band is None else first,
        )
    except MeetsOthers as meeting:
        raise CannotReplay(
            f"the model waits for other ranks ({meeting}), and they do not run the step again"
        ) from meeting
    except CannotRepeat as error:
        raise CannotReplay(str(error)) from error
    last = ran[-1]
    if last.origin is None and step not in [one.step for one in ran]:
        raise CannotReplay(_unreached(step, chosen))
    is_latest = is_live and last.step == kept[-1].step and not kept[-1].norms
    if is_latest and last.gradients:
        compare_gradients(last, model)
    if band is not None and last.origin is None:
        found = _of_sizes(ran, [one for one in chosen if first <= one.step], band)
        if found is not None:
            return found, [one for one in chosen if one.step <= found.step]
        last.notes.append(_USUAL if chosen[-1].is_of_functions else f"{_USUAL}, {_NOT_KEPT}")
    bad = next(one for one in chosen if one.step == last.step)
    return _replay(ran), [replace(bad, checkpoint=last.began)]


def _first_to_compare(step: int, kept: Sequence[KeptStep], back: int) -> int:
    states = [one.step for one in kept if one.checkpoint is not None and one.step < step]
    return max(step - back, min(states)) if states else step


def _unreached(step: int, chosen: Sequence[KeptStep]) -> str:
    start = chosen[0].step
    if chosen[0].ranks > 1:
        return (
            f"the last state before it is of step {start}, and the optimizer's steps since took "
            "gradients of all ranks: on several ranks keep a state at each step, by "
            "checkpoint_every=1"
        )
    return (
        f"the last state before it is of step {start}, and the optimizer, which leads on from "
        "there, is not known: give it to instrument as optimizer=, or keep a state at each step, "
        "by checkpoint_every=1"
    )


def _from_state_before(step: int, kept: Sequence[KeptStep]) -> list[KeptStep]:
    if not kept:
        raise CannotReplay("no step is kept")
    if step > kept[-1].step:
        raise CannotReplay(f"it has not run: the last step that is kept is {kept[-1].step}")
    if step < kept[0].step:
        raise CannotReplay(
            f"it is kept no longer: the first step that is kept is {kept[0].step}; "
            "checkpoint_reach= is how far back, as far as checkpoint_bytes= allows, in one process "
            "whose optimizer is known"
        )
    states = [i for i, one in enumerate(kept) if one.step <= step and one.checkpoint is not None]
    spoilt = ""
    for i in reversed(states):
        checkpoint = kept[i].checkpoint
        spoilt = checkpoint.first_non_finite() if checkpoint is not None else None
        if spoilt is None:
            return [*kept[i:]]
    raise CannotReplay(
        f"{shown_name(str(spoilt))} was not finite as step {kept[0].step} began, the first that is "
        "kept: what made it so is further back"
    )


def compare_gradients(ran: Ran, model: nn.Module) -> None:
    """Compares the gradients of a step that was run again with those that the model has now."""
    now = {name: p.grad for name, p in named_parameters(model)}
    pairs = [(name, gradient, now.get(name)) for name, gradient in ran.gradients.items()]
    other = [name for name, a, b in pairs if not _are_equal(a, b)]
    if not other:
        return
    factor = common_factor([a for _, a, _ in pairs], norms_of([b for _, _, b in pairs]))
    if are_several_ranks():
        ran.notes.append("gradients are those of this rank, before ranks exchanged theirs")
    elif factor not in (None, 1.0):
        ran.notes.append(
            f"gradients had been multiplied by {factor:.4g} when the step was tracked, as a loss "
            "scale that is taken out does"
        )
    else:
        ran.differences.append(f"the gradient of {other[0]} has other bits than it had then")


def _are_equal(a: Tensor | None, b: Tensor | None) -> bool:
    if a is None or b is None:
        return a is b
    return not difference(a, b)


def _replay(ran: Sequence[Ran]) -> Replay:
    last = ran[-1]
    differences = [text for one in ran for text in one.differences]
    reasons = [*(n for one in ran for n in one.reasons), *_factor_note(ran)]
    # Compiled code explains what follows; of other code, what differs is the news.
    is_explained = any(one.is_one_by_one and one.differences for one in ran)
    parts = [*reasons, *differences] if is_explained else [*differences, *reasons]
    note = "; ".join(dict.fromkeys(parts))
    is_exact = not differences
    if last.origin is None:
        return Replay(last.step, "", "", "", 0, "forward", (), (), is_exact, note=note)
    found = last.origin
    place = found.place
    return Replay(
        last.step,
        place.module,
        found.operation,
        place.file,
        place.line,
        place.phase,
        found.inputs,
        found.outputs,
        is_exact,
        place.function,
        place.stack,
        note,
        is_outside=place.is_outside and place.phase != "optimizer",
    )


def _factor_note(ran: Sequence[Ran]) -> list[str]:
    """A note on the factors that gradients were multiplied by, if there were some."""
    factors = [one.factor for one in ran if one.factor != 1]
    if not factors:
        return []
    ends = dict.fromkeys(f"{x:.4g}" for x in (min(factors), max(factors)))
    return [
        f"gradients were multiplied by {' to '.join(ends)} after backward, as clipping and "
        "unscaling do, and are here, too"
    ]


def _of_sizes(ran: Sequence[Ran], kept: Sequence[KeptStep], band: Band) -> Replay | None:
    """The replay of the last step in which something left its usual size, if there is one.

    An operation that grew by less than what the step was given may well have followed it, as where
    a norm hides the size of a batch and not that all of its samples are alike.
    """
    given = grown_from_outside(kept, band.factor, are_outputs_usual=_are_outputs_usual(ran, band))
    i, growth = latest_growth([one.sizes for one in ran], band) or (0, None)
    if given is not None and (growth is None or growth.factor <= given.factor):
        return _with_given(_replay(ran), given)
    return None if growth is None else _with_growth(_replay(ran[: i + 1]), growth)


def _are_outputs_usual(ran: Sequence[Ran], band: Band) -> bool:
    *before, now = ([size_of(facts) for facts in one.returned] for one in ran)
    usual = max((size for sizes in before for size in sizes), default=0.0)
    return max(now, default=0.0) <= band.calm * usual


def _with_given(replay: Replay, given: Given) -> Replay:
    """The replay of a step that was given numbers of another size."""
    grown = f"it is {given.factor:.3g} times as large as in the steps before"
    return replace(
        replay,
        operation=given.name,
        phase=given.phase,
        outputs=(given.facts,),
        note=_noted(replay, grown),
    )


def _with_growth(replay: Replay, growth: Growth) -> Replay:
    """The replay, at an operation that left its usual size."""
    at, place = growth.at, growth.at.place
    grown = f"its output is {growth.factor:.3g} times as large as when it last ran"
    if growth.is_new:
        grown = (
            "it ran in none of the steps before, and what follows it is "
            f"{growth.factor:.3g} times as large as there"
        )
    return replace(
        replay,
        module=place.module,
        operation=at.operation,
        file=place.file,
        line=place.line,
        phase=place.phase,
        inputs=at.inputs,
        outputs=at.outputs,
        function=place.function,
        stack=place.stack,
        is_outside=place.is_outside and place.phase != "optimizer",
        note=_noted(replay, grown),
    )


def _noted(replay: Replay, text: str) -> str:
    """The note of a replay with a text; where it is not exact, the reason for that comes first."""
    notes = [text, replay.note] if replay.is_exact else [replay.note, text]
    return "; ".join(filter(None, notes))
