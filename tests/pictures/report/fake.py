"""Made-up runs for the page: a GPT of twelve layers, of which one explodes and gives NaN."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Header = dict[str, Any]
Chunks = dict[int, bytes]

LAYERS = 12
EXPLODING = "h.7.mlp.c_fc"
FORWARD = ("OutputRMS", "OutputMean", "OutputStd", "OutputAbsMax", "DeadNeuronRatio")
FORWARD += ("OutputKurtosis", "OutputEffectiveRank", "OutputParticipationRatio")
BACKWARD = ("OutputGradRMS", "OutputGradSndNorm", "OutputGradAbsMax", "OutputGradMean")
BACKWARD += ("OutputGradKurtosis",)
PARAMETERS = ("WeightNorm", "WeightGradNorm", "UpdateRatio", "WeightCondition", "WeightKurtosis")
PARAMETERS += ("WeightGradCosine",)
QUANTITIES = {
    **dict.fromkeys(FORWARD, "forward"),
    **dict.fromkeys(BACKWARD, "backward"),
    **dict.fromkeys(PARAMETERS, "parameters"),
}


@dataclass
class Outline:
    """Items and edges, as `Outline.to_json` gives them."""

    items: list[dict[str, Any]] = field(default_factory=list)
    edges: list[list[Any]] = field(default_factory=list)

    def add(self, kind: str, label: str, parent: int, **told: Any) -> int:
        self.items.append({"kind": kind, "label": label, "parent": parent, **told})
        return len(self.items) - 1

    def join(self, *path: int, shape: str = "8×64×192") -> None:
        self.edges += [[one, other, shape] for one, other in pairwise(path)]

    def to_json(self) -> dict[str, Any]:
        return {"items": self.items, "edges": self.edges}


def gpt(layers: int = LAYERS) -> tuple[Outline, list[int]]:
    """A GPT's outline, and what is open in it at first."""
    made = Outline()
    root = made.add("module", "", -1, class_name="GPT")
    tokens = made.add("input", "idx", root)
    positions = made.add("parameter", "positions", root)
    wte = _leaf(made, root, "wte", "Embedding", "embedding", FORWARD[:1])
    wpe = _leaf(made, root, "wpe", "Embedding", "embedding")
    added = made.add("op", "add", root)
    made.join(tokens, wte, added, shape="8×64")
    made.join(positions, wpe, added, shape="64")
    container = made.add("container", "h", root, class_name="ModuleList")
    fold = made.add("fold", f"0 … {layers - 1}", container, class_name="Block", count=layers)
    last = _block(made, fold, 0, added)
    first_open = [root, container, fold, fold + 1, *range(fold + 2, fold + 20)]
    rest = made.add("rest", f"1 … {layers - 1}", fold, class_name="Block", count=layers - 1)
    for layer in range(1, layers):
        last = _block(made, rest, layer, last)
    norm = _leaf(made, root, "ln_f", "LayerNorm", "norm")
    head = _leaf(made, root, "head", "Linear", "linear", FORWARD, BACKWARD, PARAMETERS)
    output = made.add("output", "output", root)
    made.join(last, norm, head, output)
    opened = [k for k in first_open if made.items[k]["kind"] != "plumbing"]
    return made, opened


def _leaf(
    made: Outline,
    parent: int,
    name: str,
    class_name: str,
    family: str,
    *marks: tuple[str, ...],
) -> int:
    sides = zip(("forward", "backward", "parameters"), marks, strict=False)
    told = {side: [[name, ""] for name in names] for side, names in sides if names}
    label = name.rsplit(".", 1)[-1]
    more: dict[str, Any] = {"module": name, "class_name": class_name, "family": family}
    return made.add("module", label, parent, **more, **({"marks": told} if told else {}))


def _block(made: Outline, parent: int, layer: int, before: int) -> int:
    path = f"h.{layer}"
    block = made.add("module", str(layer), parent, class_name="Block", module=path)
    ln1 = _leaf(made, block, f"{path}.ln_1", "LayerNorm", "norm", FORWARD[:2])
    attention = made.add("module", "attn", block, class_name="Attention", module=f"{path}.attn")
    heads = [
        _leaf(made, attention, f"{path}.attn.{n}", "Linear", "linear", FORWARD[:2]) for n in "qkv"
    ]
    plumbing = made.add("plumbing", "reshape · transpose", attention)
    inner = [made.add("op", name, plumbing) for name in ("reshape", "transpose")]
    scores = made.add("op", "scaled_dot_product", attention, family="attention")
    projection = _leaf(
        made, attention, f"{path}.attn.proj", "Linear", "linear", FORWARD, BACKWARD, PARAMETERS
    )
    drop = _leaf(made, attention, f"{path}.attn.drop", "Dropout", "dropout")
    first_add = made.add("op", "add", block, notes=["residual"])
    ln2 = _leaf(made, block, f"{path}.ln_2", "LayerNorm", "norm")
    mlp = made.add("module", "mlp", block, class_name="MLP", module=f"{path}.mlp")
    fc = _leaf(made, mlp, f"{path}.mlp.c_fc", "Linear", "linear", FORWARD, BACKWARD, PARAMETERS)
    gelu = _leaf(made, mlp, f"{path}.mlp.gelu", "GELU", "activation", FORWARD[4:5])
    out = _leaf(made, mlp, f"{path}.mlp.c_proj", "Linear", "linear", FORWARD, BACKWARD, PARAMETERS)
    second_add = made.add("op", "add", block, notes=["residual"])
    for one in heads:
        made.join(before, ln1, one, inner[0])
    made.join(*inner, scores, projection, drop, first_add, ln2, fc, gelu, out, second_add)
    made.join(before, first_add)
    made.join(first_add, second_add)
    return second_add


def run(
    outline: Outline,
    *,
    name: str = "runs/exp1",
    steps: int = 8000,
    columns: int = 400,
    seed: int = 0,
    first_chunk: int = 0,
    raw: bool = False,
    drift: float = 1.0,
) -> tuple[dict[str, Any], Chunks]:
    """A run of all marks of an outline in two modes, and its chunks."""
    random = np.random.default_rng(seed)
    listed: list[dict[str, Any]] = []
    entries: list[dict[str, Any]] = []
    chunks: Chunks = {}
    for mode, share in (("train", 1.0), ("eval", 0.5)):
        for quantity, side in QUANTITIES.items():
            modules = _marked(outline, side, quantity)
            if mode == "eval" and side != "forward":
                continue
            grid = _Grid(quantity, modules, steps, int(columns * share), random, raw=raw)
            grid.bend(drift)
            told = [_series(grid, row, mode, side, len(entries)) for row in range(len(modules))]
            index = first_chunk + len(entries)
            entry, chunks[index] = grid.pack(index, mode)
            listed += told
            entries.append(entry)
    for module in ("h.0.attn.proj", "h.7.attn.proj"):
        entry, packed, told = _tensors(module, first_chunk + len(entries), len(entries), random)
        chunks[entry["id"]] = packed
        entries.append(entry)
        listed.append(told)
    made = {
        "name": name,
        "model": "models.gpt.GPT",
        "versions": {"taiyi_fx": "0.1.0", "torch": "2.13.0"},
        "sessions": [0, steps * 5 // 8],
        "epochs": [[k, k * steps // 5, (k + 1) * steps // 5 - 1] for k in range(5)],
        "events": _events(steps),
        "series": listed,
        "chunks": entries,
    }
    return made, chunks


def report(**options: Any) -> tuple[Header, Chunks]:
    """A page's header and chunks, of one run."""
    outline, opened = gpt()
    made, chunks = run(outline, **options)
    return header([made], outline, opened), chunks


def losing() -> tuple[Header, Chunks]:
    """A page's header and chunks, of a run with a logged loss that has one spike."""
    made, chunks = report()
    run_made, index = made["runs"][0], len(chunks)
    columns = 400
    pitch = 8000 // columns
    random = np.random.default_rng(7)
    start = np.arange(columns) * float(pitch)
    mean = (1 + 2 * np.exp(-start / 2000) + random.normal(0, 0.02, columns))[None]
    mean[0, 300] = 9.0
    parts = {"start": start, "end": start + pitch - 1, "mean": mean}
    told, chunks[index] = entry(index, parts, quantity="loss", mode="train", raw=False)
    one = {**run_made["series"][0], "module": "", "quantity": "loss", "direction": ""}
    one |= {"latest": float(mean[0, -1]), "state": "ok", "trend": "", "nan": 0, "inf": 0}
    run_made["series"].append({**one, "chunk": len(run_made["chunks"]), "row": 0})
    run_made["chunks"].append(told)
    run_made["findings"] = [finding("head", step=5000)]
    return made, chunks


def finding(module: str = EXPLODING, severity: str = "alert", **more: Any) -> dict[str, Any]:
    """A finding, as the header has it."""
    step = more.get("step", 4000)
    told = {"kind": "outlier", "severity": severity, "module": module, "quantity": "UpdateRatio"}
    told |= {
        "step": step,
        "value": 3.0,
        "expected": "",
        "text": f"step {step}: {module} is far off",
    }
    told |= {"advice": "Look at how it is initialised", "consequences": [], "follow": 0}
    quantity = more.get("quantity", told["quantity"])
    boxes = [i for i, item in enumerate(gpt()[0].items) if item.get("module") == module][:1]
    return {**told, "evidence": quantity, "opens": quantity, "boxes": boxes, **more}


def comparison() -> tuple[Header, Chunks]:
    """A page's header and chunks, of two runs."""
    outline, opened = gpt()
    first, chunks = run(outline, name="runs/exp1", seed=0)
    second, more = run(outline, name="runs/exp2", seed=1, drift=2.0, first_chunk=len(chunks))
    return header([first, second], outline, opened), {**chunks, **more}


def header(runs: list[dict[str, Any]], outline: Outline | None, opened: list[int]) -> Header:
    """A header of version 1."""
    return {
        "version": 1,
        "title": runs[0]["name"],
        "live": False,
        "made": "2026-11-21T23:59:59Z",
        "runs": runs,
        "outline": outline and outline.to_json(),
        "open": opened,
        "only_probed": False,
        "direction": "TB",
        "graph_alone": False,
    }


def series(module: str, quantity: str, **told: Any) -> dict[str, Any]:
    """A series of the header, in which all is well unless told otherwise."""
    made = {"module": module, "quantity": quantity, "mode": "train", "direction": "forward"}
    made |= {"unit": "", "first": 0, "state": "ok", "trend": "", "nan": 0, "inf": 0}
    return {**made, "chunk": 0, "row": 0, **told}


def run_of(series: list[dict[str, Any]], chunks: list[dict[str, Any]], **told: Any) -> Header:
    """A run of the header of which nothing else is known."""
    made = {"name": "run", "model": "Net", "versions": {}, "sessions": [0], "epochs": []}
    return {**made, "events": [], "series": series, "chunks": chunks, **told}


def page_of(
    modules: list[str],
    mean: NDArray[Any],
    *,
    quantity: str = "OutputRMS",
    unit: str = "",
    steps: NDArray[Any] | None = None,
    outline: Outline | None = None,
) -> tuple[Header, Chunks]:
    """A page of one quantity: rows of modules, columns of steps."""
    start = np.arange(mean.shape[1], dtype=float) if steps is None else steps
    parts = {"start": start, "end": start, "mean": mean}
    packed_entry, packed = entry(0, parts, quantity=quantity, mode="train", raw=True)
    told = {"unit": unit, "numbers": len(start), "last": int(start[-1])}
    made = [
        series(module, quantity, row=row, latest=float(mean[row, -1]), **told)
        for row, module in enumerate(modules)
    ]
    return header([run_of(made, [packed_entry])], outline, [0] if outline else []), {0: packed}


def _marked(outline: Outline, side: str, quantity: str) -> list[str]:
    items = [item for item in outline.items if "marks" in item]
    return [
        item["module"]
        for item in items
        if any(quantity == name for name, _ in item["marks"].get(side, []))
    ]


class _Grid:
    """Numbers of one quantity: rows of modules, columns of stretches of steps."""

    def __init__(
        self,
        quantity: str,
        modules: list[str],
        steps: int,
        columns: int,
        random: np.random.Generator,
        *,
        raw: bool,
    ) -> None:
        self.quantity, self.modules, self.raw = quantity, modules, raw
        pitch = steps // columns
        self.start = np.arange(columns, dtype="<f8") * pitch
        self.end = self.start + (0 if raw else pitch - 1)
        time = np.linspace(0, 1, columns)
        depth = np.linspace(0, 1, max(len(modules), 1))[:, None]
        level = 1.5 * np.exp(-2.5 * time - 1.2 * depth) + 0.02 + 0.4 * depth * time
        noise = random.normal(0, 0.06, (len(modules), columns))
        self.mean = (level * (1 + noise)).astype("<f4")
        if quantity.endswith("Mean"):
            self.mean -= np.float32(0.3)
        if quantity == "DeadNeuronRatio":
            self.mean = np.clip(0.05 + 0.1 * depth * time + noise * 0.1, 0, 1).astype("<f4")
        self.nan = np.zeros(self.mean.shape, "<u4")
        self.inf = np.zeros(self.mean.shape, "<u4")
        if EXPLODING in modules:
            self._explode(modules.index(EXPLODING))

    def bend(self, drift: float) -> None:
        """Makes the deeper half larger as training goes on."""
        rows, columns = self.mean.shape
        deep = np.linspace(0, 1, max(rows, 1))[:, None] > 0.5
        self.mean *= (1 + deep * (drift - 1) * np.linspace(0, 1, columns)).astype("<f4")

    def _explode(self, row: int) -> None:
        columns = self.mean.shape[1]
        onset, broken = columns * 7 // 10, columns * 95 // 100
        growth = np.exp(np.linspace(0, 9, columns - onset))
        self.mean[row, onset:] *= growth.astype("<f4")
        self.inf[row, broken - 4 : broken] = 3
        self.nan[row, broken:] = 20
        self.mean[row, broken:] = np.nan

    def pack(self, index: int, mode: str) -> tuple[dict[str, Any], bytes]:
        spread = np.abs(self.mean) * np.float32(0.12)
        parts = {"start": self.start, "end": self.end, "mean": self.mean}
        if not self.raw:
            parts |= {"min": self.mean - spread, "max": self.mean + 1.4 * spread}
        if self.nan.any():
            parts |= {"nan": self.nan, "inf": self.inf}
        return entry(index, parts, quantity=self.quantity, mode=mode, raw=self.raw)


def entry(index: int, parts: dict[str, NDArray[Any]], **told: Any) -> tuple[dict[str, Any], bytes]:
    """A chunk's entry in the header, and its bytes."""
    rows, columns = parts["mean"].shape
    arrays = [
        {"name": name, "dtype": _TYPES[name], "shape": list(part.shape)}
        for name, part in parts.items()
    ]
    packed = b"".join(part.astype(_TYPES[name]).tobytes() for name, part in parts.items())
    made = {"id": index, "kind": "numbers", "rows": rows, "columns": columns, "arrays": arrays}
    return {**made, **told}, packed


_TYPES = {
    **dict.fromkeys(("start", "end"), "<f8"),
    **dict.fromkeys(("mean", "min", "max"), "<f4"),
    **dict.fromkeys(("count", "nan", "inf"), "<u4"),
}


def _series(grid: _Grid, row: int, mode: str, side: str, chunk: int) -> dict[str, Any]:
    latest = float(grid.mean[row, -1])
    state, trend = "ok", ""
    if math.isnan(latest):
        state = "alert"
    elif row % 9 == 4:
        state, trend = "warn", "up"
    told = {"mode": mode, "direction": side, "state": state, "trend": trend}
    told |= {"numbers": int((np.isfinite(grid.mean[row]) * (grid.end - grid.start + 1)).sum())}
    told |= {"last": int(grid.end[-1]), "latest": "NaN" if math.isnan(latest) else latest}
    told |= {"nan": int(grid.nan[row].sum()), "inf": int(grid.inf[row].sum())}
    return series(grid.modules[row], grid.quantity, **told, chunk=chunk, row=row)


def _tensors(
    module: str, index: int, place: int, random: np.random.Generator
) -> tuple[dict[str, Any], bytes, dict[str, Any]]:
    count, length = 80, 64
    steps = np.arange(count) * 100.0
    spectrum = 10.0 ** -np.linspace(0, 4, length)
    values = (
        spectrum
        * (1 + np.linspace(0, 3, count)[:, None])
        * random.uniform(0.8, 1.2, (count, length))
    )
    parts = (steps.astype("<f8"), np.full(count, length, "<u4"), values.astype("<f4"))
    arrays = [
        {"name": "step", "dtype": "<f8", "shape": [count]},
        {"name": "length", "dtype": "<u4", "shape": [count]},
        {"name": "values", "dtype": "<f4", "shape": [count, length]},
    ]
    quantity = "OutputSpectrum"
    entry = {
        "id": index,
        "kind": "tensors",
        "quantity": quantity,
        "mode": "train",
        "rows": 1,
        "columns": count,
        "raw": True,
        "arrays": arrays,
        "bins": {"kind": "index"},
    }
    told = series(module, quantity, numbers=0, last=int(steps[-1]), latest=None, chunk=place)
    return entry, b"".join(part.tobytes() for part in parts), told


def _events(steps: int) -> list[dict[str, Any]]:
    return [
        {
            "step": steps // 4,
            "kind": "warning",
            "module": "h.3.attn.proj",
            "text": "the covariance has fewer rows than columns: 64 of 192",
        },
        {
            "step": steps * 95 // 100,
            "kind": "non_finite",
            "module": EXPLODING,
            "text": f"the first NaN or Inf is in the output of '{EXPLODING}' (3072 elements)",
        },
    ]
