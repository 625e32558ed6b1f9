"""Records of any kind and name, written to a run and compared with what is read back."""

import math

import pytest
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import taiyi_fx
from taiyi_fx.records.record import Block, Record
from taiyi_fx.writers import Batch
from tests.writers.runs import info

HOSTILE = [
    "", "fc", "fc@1", "fc@01", "fc@0", "fc@" + "9" * 5000, "'; DROP TABLE point;--", "../../x",
    "a\x00b", "\\x00", "a\\b", "\\ud800", "\ud800", "x\udfff\\", "🦜", "n" * 10_000, "a\nb", '"', "%s?*",
]  # fmt: skip


# By their places: long names would stand in what hypothesis says of a strategy.
NAMES = st.sampled_from(range(len(HOSTILE))).map(lambda i: HOSTILE[i]) | st.text(
    st.characters(exclude_categories=()), max_size=5
)


STEPS = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3)


FLOATS = st.floats() | st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 5e-324])


DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn,
    torch.float8_e5m2, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8,
    torch.uint16, torch.uint32, torch.uint64, torch.bool, torch.complex64, torch.complex128,
    torch.complex32,
]  # fmt: skip


@st.composite
def tensors(draw):
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    dtype = draw(st.sampled_from(DTYPES))
    drawn = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    wide = torch.complex128 if dtype.is_complex else torch.float64
    values = torch.randn(shape, dtype=wide, generator=drawn)
    values[values.abs() < 0.2] = math.nan if dtype.is_floating_point else 1
    if not dtype.is_floating_point and not dtype.is_complex:
        return (values.abs() * 50).to(torch.int64).to(dtype)
    return values.to(dtype)


def records(largest):
    whole = st.integers(-(2**63), largest) | st.booleans()
    modes = st.sampled_from(["train", "eval"])
    scalars = st.builds(Record, STEPS, NAMES, NAMES.map("n{}".format), FLOATS | whole, modes)
    arrays = st.builds(Record, STEPS, NAMES, NAMES.map("t{}".format), tensors(), modes)
    return st.lists(scalars | arrays, max_size=12)


def comes_back(kind, path, made):
    """Writes records in two batches, once by one and once as blocks, and compares."""
    half = len(made) // 2
    blocks = [
        Block(r.step, r.mode, ((r.module, r.quantity),), [r.value])
        for r in made[half:]
        if not isinstance(r.value, torch.Tensor)
    ]
    rest = [r for r in made[half:] if isinstance(r.value, torch.Tensor)]
    writer = kind(path, overwrite=True)
    writer.open(info(start_step=0))
    writer.write(Batch(0, records=made[:half]))
    writer.write(Batch(0, blocks, rest))
    writer.close()
    with taiyi_fx.open_run(path) as run:
        for key in {(r.module, r.quantity, r.mode) for r in made}:
            found = [r for r in made if (r.module, r.quantity, r.mode) == key]
            if key[1].startswith("t"):
                same_tensors(run.tensors(*key), {r.step: r.value for r in found})
            else:
                same_numbers(run.series(*key), sorted(found, key=lambda r: r.step))
        assert set(run.modules) == {r.module for r in made}
        assert set(run.quantities) == {r.quantity for r in made}
        assert len(run.to_numpy()["value"]) == sum(r.quantity[0] == "n" for r in made)


def same_numbers(curve, records):
    assert curve.steps.tolist() == [r.step for r in records]
    values = [r.value for r in records]
    if any(isinstance(v, float) for v in values):
        values = [float(v) for v in values]
    assert repr(curve.values.tolist()) == repr(
        [int(v) if isinstance(v, bool) else v for v in values]
    )


def same_tensors(found, expected):
    assert found.keys() == expected.keys()
    for step, tensor in expected.items():
        wide = tensor
        if tensor.is_floating_point() or tensor.is_complex():
            wide = tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)
        assert found[step].shape == tuple(tensor.shape)
        assert repr(found[step].astype(wide.numpy().dtype).tolist()) == repr(wide.tolist())


half = pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")


unhurried = settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
