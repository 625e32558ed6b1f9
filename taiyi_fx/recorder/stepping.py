"""The decorator of a step's function: where a training is recorded, its calls are kept."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from taiyi_fx.recorder.replay.step_function import StepFunction
from taiyi_fx.recorder.replays import Replays

Decorated = Callable[..., Any]


def stepping(
    replays: Callable[[], Replays | None],
    function: Callable[..., Any] | None,
    reference: Callable[[Any], Any] | None,
    batch: Callable[[Any], Any] | None,
) -> Decorated | Callable[[Callable[..., Any]], Decorated]:
    """A function whose calls are kept, or a decorator that makes one.

    Args:
        replays: Gives what keeps them; None as long as no training is recorded.
        function: The function; None for a decorator.
        reference: Gives a reference to the batch, its first argument.
        batch: Gives the batch of a reference anew.

    Raises:
        TypeError: One of them is not callable, or `reference` comes without `batch`.
    """
    for name, value in (("function", function), ("reference", reference), ("batch", batch)):
        if value is not None:
            _check_callable(name, value)
    if (batch is None) != (reference is None):
        raise TypeError(
            "reference= gives what is kept in place of a batch, and batch= the batch of it anew: "
            "give both, or neither"
        )

    def decorated(function: Callable[..., Any]) -> Decorated:
        _check_callable("function", function)
        return _kept(replays, StepFunction(function, reference, batch))

    return decorated if function is None else decorated(function)


def _kept(replays: Callable[[], Replays | None], known: StepFunction) -> Decorated:
    @functools.wraps(known.run)
    def run(*args: Any, **kwargs: Any) -> Any:
        keeping = replays()
        if keeping is None:
            return known.run(*args, **kwargs)
        with keeping.stepping(known, args, kwargs) as end:
            value = known.run(*args, **kwargs)
            end(value)
        return value

    return run


def _check_callable(name: str, value: object) -> None:
    if not callable(value):
        raise TypeError(f"{name} is a function, not {value!r}")
