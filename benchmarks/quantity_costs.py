"""What each quantity of the stock costs, beside one pass over the memory that it reads.

A quantity's readings are measured of a tensor of 4 MB as a probe would, then finished and computed
as `track` would: spectra do that beside the training. Each is timed in turn with `x.sum()` of the
same tensor, process time, one thread; the numbers are medians.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import math
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import taiyi_fx
from taiyi_fx.passes.ir import CALL_PORTS, MODEL_PORTS, OPTIMIZER_PORTS, Port, Reading, State
from taiyi_fx.passes.structure import Call
from taiyi_fx.quantities.catalogue import QuantityInfo
from taiyi_fx.quantities.declare import NoValue, Quantity, find_quantity
from taiyi_fx.quantities.function_call import FunctionCall
from taiyi_fx.quantities.heads import ATTENTION
from taiyi_fx.quantities.source import NotApplicable
from taiyi_fx.step.optimizer_states import OptimizerStates
from taiyi_fx.step.transfer import Column
from taiyi_fx.step.whole_model import WholeModel

_SECONDS = 0.4
"""So long each quantity is measured, for three rounds at least."""
_TINY_CALLS = 20
_LOSSES = 129
_OPTIONS: dict[str, dict[str, Any]] = {"ClippedBy": {"max_norm": 1.0}}
"""Options that have to be given."""
_LEFT_OUT = ("LogitLens", "ForwardTime", "BackwardTime", "SavedBytes")
"""The costs of the first are those of the model's head; the others read a call, and no tensor."""
_OWN_PORTS: tuple[Port, ...] = (*MODEL_PORTS, *OPTIMIZER_PORTS)


class Layer(NamedTuple):
    """A module and what passes it at two steps; gradients have the shapes of their tensors.

    Attributes:
        module: The module.
        now: The tensors that a reading is made of, at the second step.
        before: The same at the first.
        read: Makes readings of its own, of the model as a whole or of its optimizer; None for
            a layer.
        ports: The ports of these.
    """

    module: nn.Module
    now: Callable[[Reading], tuple[Tensor, ...]]
    before: Callable[[Reading], tuple[Tensor, ...]]
    read: Callable[[Reading], State] | None = None
    ports: tuple[Port, ...] = ()


class Cost(NamedTuple):
    """What a quantity costs.

    Attributes:
        shape: Of the tensor that it reads.
        passes: The reading's time over that of a sum of the tensor.
        rest: The same of what is computed of the reading.
        milliseconds: Of both, for each megabyte.
        tiny: Microseconds of both, of a tensor of some hundred elements.
    """

    shape: tuple[int, ...]
    passes: float
    rest: float
    milliseconds: float
    tiny: float


def stock() -> list[QuantityInfo]:
    """The quantities that come with taiyi_fx."""
    own = (q for q in taiyi_fx.quantities() if q.declared_in.startswith("taiyi_fx."))
    return [q for q in own if q.name not in _LEFT_OUT]


def cost_of(name: str, seconds: float = _SECONDS) -> Cost:
    """Measures one quantity."""
    quantity = find_quantity(name)
    assert quantity is not None
    layer, readings = _fitting(quantity, is_tiny=False)
    tensors = layer.now(next(iter(readings.values())))
    states = _measured(readings, layer.now, layer.read)
    before = _measured(readings, layer.before, layer.read)
    compute = _computing(quantity, readings, before)
    base, reading, rest = _timed(
        [
            lambda: [x.sum() for x in tensors],
            lambda: _measured(readings, layer.now, layer.read),
            lambda: compute(states),
        ],
        seconds,
    )
    megabytes = sum(x.numel() * x.element_size() for x in tensors) / 1e6
    milliseconds = (reading + rest) / 1e6 / megabytes
    tiny = _tiny(quantity, seconds)
    return Cost(tuple(tensors[-1].shape), reading / base, rest / base, milliseconds, tiny)


def _tiny(quantity: Quantity, seconds: float) -> float:
    layer, readings = _fitting(quantity, is_tiny=True)
    before = _measured(readings, layer.before, layer.read)
    compute = _computing(quantity, readings, before)

    def calls() -> None:
        for _ in range(_TINY_CALLS):
            compute(_measured(readings, layer.now, layer.read))

    return _timed([calls], seconds / 4)[0] / _TINY_CALLS / 1e3


def _fitting(quantity: Quantity, *, is_tiny: bool) -> tuple[Layer, dict[str, Reading]]:
    """The first layer that has the quantity, and what is read there."""
    for layer in _layers(is_tiny):
        try:
            readings = quantity.readings(layer.module, quantity.for_each(layer.module, {})[0])
            own = {r.site.port for r in readings.values()}.intersection(_OWN_PORTS)
            if not own.issubset(layer.ports):
                continue
            _measured(readings, layer.now, layer.read)
        except (NotApplicable, ValueError):  # of tensors of other shapes
            continue
        return layer, readings
    raise LookupError(f"no layer of the benchmark has {quantity.name}")


def _layers(is_tiny: bool) -> Iterator[Layer]:
    """A linear layer of 1024 features, and of images of 64 channels; or of a few."""
    c, n, side = (4, 2, 6) if is_tiny else (64, 16, 32)
    features = 16 if is_tiny else 1024
    yield _layer(nn.Linear(features, features), (features, features))
    yield _layer(nn.BatchNorm2d(c), (n, c, side, side))
    yield _layer(nn.Conv2d(c, c, 3, padding=1), (n, c, side, side))
    yield _layer(nn.MSELoss(), ())
    heads, length, size = (2, 8, 16) if is_tiny else (16, 1024, 64)
    yield _layer(FunctionCall(ATTENTION), (1, heads, length, size))
    yield _model(features)
    yield _trained(features)


def _model(features: int) -> Layer:
    """A model of one weight, with its gradient, an optimizer and losses before."""
    module = nn.Linear(features, features, bias=False)
    module.weight.grad = torch.randn(features, features)
    whole = WholeModel(module)
    whole.optimizers = (torch.optim.SGD(module.parameters(), 0.1),)
    for step in range(_LOSSES):
        whole.log(Column(step, "train", *[(("", "loss"),)] * 2, torch.randn(1)))

    def tensors(reading: Reading) -> tuple[Tensor, ...]:
        if reading.site.port == "gradients":
            return (module.weight.grad,)
        return whole.read(reading, _LOSSES - 1, None)

    return Layer(module, tensors, tensors, lambda r: whole.read(r, _LOSSES - 1, None), MODEL_PORTS)


def _trained(features: int) -> Layer:
    """A linear layer in bfloat16, and AdamW after a step."""
    module = nn.Linear(features, features, bias=False, dtype=torch.bfloat16)
    module.weight.grad = torch.randn_like(module.weight)
    optimizer = torch.optim.AdamW(module.parameters())
    optimizer.step()
    states = OptimizerStates({"": module}, [optimizer], None, 1.0)

    def tensors(reading: Reading) -> tuple[Tensor, ...]:
        return (module.weight.detach(),)

    return Layer(module, tensors, tensors, lambda r: states.read("", r), OPTIMIZER_PORTS)


def _layer(module: nn.Module, shape: tuple[int, ...]) -> Layer:
    steps = []
    for seed in range(2):
        generator = torch.Generator().manual_seed(seed)
        of_calls = tuple(torch.randn(shape, generator=generator) for _ in range(2))
        own = dict(module.named_parameters())
        of_own = {k: torch.randn(p.shape, generator=generator) for k, p in own.items()}

        def tensors(
            reading: Reading,
            of_calls: tuple[Tensor, ...] = of_calls,
            of_own: dict[str, Tensor] = of_own,
        ) -> tuple[Tensor, ...]:
            site = reading.site
            if site.port in CALL_PORTS:
                return of_calls if site.port == "pair" else of_calls[:1]
            assert isinstance(site.pick, str)
            buffer = module.get_buffer(site.pick) if site.port == "buffer" else None
            return (of_own[site.pick] if buffer is None else buffer,)

        steps.append(tensors)
    return Layer(module, *steps)


def _measured(
    readings: dict[str, Reading],
    tensors: Callable[..., Any],
    read: Callable[[Reading], State] | None,
) -> dict[Reading, Any]:
    """The states of all readings, equal ones once."""
    states: dict[Reading, Any] = {}
    for reading in readings.values():
        if reading not in states:
            reduction: Any = reading.reduction
            if read is not None and reading.site.port in _OWN_PORTS:
                states[reading] = read(reading)
                continue
            if reading.site.port == "call":
                (q,) = tensors(reading)
                call = Call((q, q, q), {"is_causal": True}, "scaled_dot_product_attention")
                states[reading] = reduction.measure_call(call, q)
                continue
            measure = getattr(reduction, "measure_pair", None) or reduction.measure
            states[reading] = measure(*tensors(reading))
    return states


def _computing(
    quantity: Quantity, readings: dict[str, Reading], before: dict[Reading, Any]
) -> Callable[[dict[Reading, Any]], Any]:
    """Makes a value of states, with what was read before as if a step ago."""
    earlier = {reading: reading.reduction.finish(state) for reading, state in before.items()}

    def compute(states: dict[Reading, Any]) -> Any:
        now = {reading: reading.reduction.finish(state) for reading, state in states.items()}
        inputs = {
            name: (earlier if quantity.sources[name].ago else now)[reading]
            for name, reading in readings.items()
        }
        if quantity.window:
            inputs = {
                k: type(v)(*(part.unsqueeze(0) for part in v)) if isinstance(v, tuple) else v
                for k, v in inputs.items()
            }
        with contextlib.suppress(NoValue):  # of a tail, in what is tiny
            return quantity.compute(**inputs, **_OPTIONS.get(quantity.name, {}))

    return compute


def _timed(runs: Sequence[Callable[[], Any]], seconds: float) -> list[float]:
    """Median nanoseconds of each, taken in turn."""
    spent: list[list[float]] = [[] for _ in runs]
    with torch.no_grad():
        for run in runs:
            run()
        end = time.perf_counter() + seconds
        while len(spent[0]) < 3 or time.perf_counter() < end:
            for run, of_run in zip(runs, spent, strict=True):
                start = time.process_time_ns()
                run()
                of_run.append(time.process_time_ns() - start)
    return [statistics.median(of_run) for of_run in spent]


_HEAD = """\
# Costs of quantities

Made by `make costs` on {date}: torch {torch}, one thread of {machine}. The
numbers are this machine's; what they are beside each other holds elsewhere, too.

A *pass* is the time of `x.sum()` of the tensor that a quantity reads: here {pass_time:.2f} ms for
1024 x 1024 numbers of float32, 4 MB. *Reading* is what a due call takes. *Rest* is what is computed
of the reading at `track`, or of spectra beside the training. Quantities that ask for the same
reading share it. *Tiny* is all of it for a tensor of some hundred elements: the price of the calls
alone, before readings of many modules are computed together.

Steps where nothing is due cost none of this. What a whole training pays is in
[What watching costs](../explanation/cost.md).

Where a quantity takes many passes, torch does: adding up floats is the fastest that it has on a
CPU. A copy, a comparison or a shift of bits takes two to five times as long, a count in bins
(`bincount`) about six times. A histogram is a shift and a count of each element at least; what a
format loses takes another shift, to tell where between two powers of two an element is. Spectra
multiply matrices, and so do attentions, of which causal ones of 1024 queries were read: their
passes are of the queries alone, and grow with the length. A tensor with NaN or Inf in it takes
longer: then they are counted.
"""
_COLUMNS = "| quantity | of | reading, passes | rest, passes | ms for each MB | tiny, µs |"


def page(costs: dict[str, Cost]) -> str:
    """The page of the documentation."""
    sections: dict[str, list[str]] = {}
    for info in stock():
        if info.name in costs:
            sections.setdefault(info.subject, []).append(_row(info.name, costs[info.name]))
    lines = [_COLUMNS, "|---" * 6 + "|"]
    tables = ["\n".join([f"## {name}", "", *lines, *rows]) for name, rows in sections.items()]
    x = torch.randn(1024, 1024)
    facts = {
        "date": datetime.datetime.now(datetime.UTC).date(),
        "torch": torch.__version__,
        "machine": _machine(),
        "pass_time": _timed([x.sum], _SECONDS)[0] / 1e6,
    }
    return "\n\n".join([_HEAD.format(**facts).rstrip(), *tables]) + "\n"


def _row(name: str, cost: Cost) -> str:
    is_one = math.prod(cost.shape) == 1
    shape = "one number" if is_one else " x ".join(map(str, cost.shape))
    numbers = (cost.passes, cost.rest, cost.milliseconds, cost.tiny)
    if len(cost.shape) < 2:  # of a few numbers no pass can be told
        return f"| `{name}` | {shape} | | | | {_short(cost.tiny)} |"
    return " | ".join([f"| `{name}`", shape, *map(_short, numbers)]) + " |"


def _short(number: float) -> str:
    return f"{number:.0f}" if number >= 10 else f"{number:.1f}" if number >= 1 else f"{number:.2f}"


def _machine() -> str:
    file = Path("/proc/cpuinfo")
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints, or writes the page."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.quantity_costs", description=__doc__
    )
    parser.add_argument("names", nargs="*", help="quantities; default: all")
    parser.add_argument("--seconds", type=float, default=_SECONDS, help="for each of them")
    parser.add_argument("--to", type=Path, help="the file to write; default: none, it is printed")
    asked = parser.parse_args(argv)
    torch.set_num_threads(1)
    names = asked.names or [info.name for info in stock()]
    made = page({name: cost_of(name, asked.seconds) for name in names})
    if asked.to:
        asked.to.write_text(made, encoding="utf-8")
    else:
        print(made, end="")


if __name__ == "__main__":
    main()
