"""Tries steps of sound models and of planted faults: what is accused, and what is seen?

A step of each model of the zoo, whose loss is its own or the mean of its outputs' squares, and of
each training of `benchmarks.faults`, healthy and with a fault. The healthy ones should be left in
peace; of the faults, those are seen that one step shows at all: neither a learning rate nor the
data of other steps is in it.

Run it from the root of the repository, in an environment with the models' libraries (``make zoo``
makes one):

    python -m benchmarks.step_checks [--part healthy|tuning|held_out|FAMILY] [--only PATTERN]
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

import taiyi_fx
from benchmarks import zoo
from benchmarks.faults.fault import FAULTS, HEALTHY, Fault, Healthy
from benchmarks.zoo_models.case import Case
from taiyi_fx.passes.structure import tensors_in

_SAMPLES = 5
"""A number that is no other size in the zoo."""


class Tried(NamedTuple):
    """A step to be tried.

    Attributes:
        label: Its name.
        check: Tries it.
    """

    label: str
    check: Callable[[], Sequence[taiyi_fx.Finding]]


def main(argv: Sequence[str] | None = None) -> int:
    """Tries what the command line names, and prints what is found, and in how many."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parts = ("healthy", "tuning", "held_out", *zoo.FAMILIES)
    parser.add_argument("--part", choices=parts, default="healthy", help="default: healthy")
    parser.add_argument("--only", default="*", help="a pattern of names")
    asked = parser.parse_args(argv)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    accused, count, begin = 0, 0, time.monotonic()
    for tried in _steps(asked.part):
        if not fnmatch.fnmatchcase(tried.label, asked.only):
            continue
        count += 1
        try:
            found = tried.check()
        except Exception as error:  # noqa: BLE001 - of a model that does not run here
            print(f"{tried.label}: {type(error).__name__}: {error}".partition("\n")[0], flush=True)
            continue
        for one in found:
            print(f"{tried.label}: {one.severity} {one.kind}: {one.text}", flush=True)
        accused += any(one.severity != "note" for one in found)
    print(f"an alert or a warning in {accused} of {count}, {time.monotonic() - begin:.0f} s")
    return 0


def _steps(part: str) -> Iterator[Tried]:
    if part in zoo.FAMILIES:
        for case in importlib.import_module(zoo.FAMILIES[part]).cases():
            yield Tried(case.name, lambda case=case: _of_case(case))
    importlib.import_module("benchmarks.faults.__main__")  # registers all faults
    for training in (*FAULTS, *HEALTHY):
        if training.part == part:
            yield Tried(training.label, lambda training=training: _of_training(training))


def _of_case(case: Case) -> Sequence[taiyi_fx.Finding]:
    torch.manual_seed(0)
    model = case.build()
    torch.manual_seed(1)
    args, kwargs = case.inputs(_SAMPLES)

    def step(*args: Any, **kwargs: Any) -> Tensor:
        output = model(*args, **kwargs)
        loss = getattr(output, "loss", None)
        if isinstance(loss, Tensor) and loss.numel() == 1:
            return loss
        parts = [x for x in tensors_in(output) if x.is_floating_point() and x.requires_grad]
        return torch.stack([x.square().mean() for x in parts]).sum()

    return taiyi_fx.step_check(model, step, *args, **kwargs)


def _of_training(case: Fault | Healthy) -> Sequence[taiyi_fx.Finding]:
    training = case.training()
    backward = Tensor.backward

    def step(*batch: Any) -> Tensor:
        Tensor.backward = lambda *_, **__: None  # these steps run their backward themselves
        try:
            return training.backward(training.model, *batch)
        finally:
            Tensor.backward = backward

    batch = training.batch(1)
    return taiyi_fx.step_check(training.model, step, *batch, optimizer=training.optimizer)


if __name__ == "__main__":
    main()
