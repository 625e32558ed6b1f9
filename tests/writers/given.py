"""What writers are given in tests: runs, and batches of what no one would write by hand."""

from __future__ import annotations

import math

import torch
from hypothesis import strategies as st

from taiyi_fx.outline import Item, Outline
from taiyi_fx.records.epochs import EpochSummary
from taiyi_fx.records.record import Block, Record
from taiyi_fx.testing import tensors
from taiyi_fx.writers import Batch, RunInfo, SeriesInfo

HOSTILE = (
    "fc", "", "../../x", "a\x00b", "'; DROP TABLE records; --", "\N{PILE OF POO}", "\udc80",
    "two\nlines", "cut\roff\r\n", 'a"b,c', "x" * 10_000, "a/b", "a%2Fb", "..", "evaluation", "=1+1",
    "\u2028", "fc@1", "café",
)  # fmt: skip
NAMES = st.sampled_from(HOSTILE) | st.text(st.characters(), max_size=8)
NUMBERS = st.floats() | st.integers(-(2**63), 2**63 - 1)
DTYPES = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.bool,
    torch.int8, torch.uint8, torch.int64, torch.complex64, torch.complex128,
)  # fmt: skip
SHAPES = st.lists(st.integers(0, 3), max_size=4).map(tuple)
TENSORS = st.builds(
    lambda recipe, dtype: recipe.make().to(dtype),
    tensors(
        SHAPES,
        kinds=("full", "nan", "inf"),
        dtypes=(torch.float64,),
        layouts=("contiguous", "transposed"),
    ),
    st.sampled_from(DTYPES),
)
RECORDS = st.builds(
    Record, st.integers(0, 9), NAMES, NAMES, NUMBERS | TENSORS, st.sampled_from(["train", "eval"])
)
QUANTITIES = ("InputMean", "RankMe", "FeatureMap", "WeightImage", "ForwardInputEigOfCov")


OUTLINE = Outline((Item("module", "model", "Model"), Item("module", "\ud800", parent=0)), ())


def run(start_step: int = 0, quantities: tuple[str, ...] = QUANTITIES) -> RunInfo:
    """What is known of a run that asks these quantities of a module ``fc``."""
    return RunInfo(
        model="tests.Model",
        config=[
            {"module": "fc", "quantity": name, "schedule": "every(1)", "options": {}}
            for name in quantities
        ],
        versions={"python": "3", "torch": "2", "taiyi_fx": "0"},
        seed=7,
        start_step=start_step,
        rank=0,
        describe=lambda series: SeriesInfo(series[0], 0, series[1], "forward", ""),
        outline=lambda: OUTLINE,
    )


def numbers(step: int, epoch: int = 0, mode: str = "train", **values: float) -> Batch:
    """A batch with a number of each quantity of a module ``fc``."""
    series = tuple(("fc", name) for name in values)
    return Batch(epoch, [Block(step, mode, series, list(values.values()))])


def same(found: object, value: object) -> bool:
    """Whether a number is the same, NaN too, and of the same type."""
    if isinstance(value, float) and math.isnan(value):
        return isinstance(found, float) and math.isnan(found)
    return type(found) is type(value) and found == value


def recorded(modules, steps=6, value=lambda m, s: 10.0 ** (m % 4) * (s + 1), mode="train"):
    return [
        Record(step, name, "InputMean", value(m, step), mode)
        for step in range(0, 10 * steps, 10)
        for m, name in enumerate(modules)
    ]


def summary(epoch, module="fc", mode="train", quartiles=(1.0, 2.0, 3.0)):
    return EpochSummary(epoch, module, "InputMean", mode, 9, 2.5, 0.5, 0.5, 4.0 + epoch, *quartiles)
