"""The list of all quantities, made from their declarations and documentation."""

from __future__ import annotations

import html
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import taiyi_fx.quantities.stock  # noqa: F401 - declares the quantities
from taiyi_fx.quantities.declare import Quantity, find_quantity, quantity_names
from taiyi_fx.quantities.health import RULES, Health
from taiyi_fx.quantities.options import described
from taiyi_fx.suggestion import suggestion

_FIELD = re.compile(r"^(Formula|Source|Cost): (.*(?:\n(?:[ ]+).*)*)", re.MULTILINE)
_SITES = {
    "input": "input",
    "output": "output",
    "input_grad": "gradient of the input",
    "output_grad": "gradient of the output",
    "call": "all arguments of a call, and its result",
    "span": "a call, from its begin to its end",
    "backward": "the backward of a call",
    "pair": "input and gradient of the output",
    "parameter": "parameter",
    "parameter_grad": "gradient of the parameter",
    "buffer": "buffer",
    "gradients": "all gradients of parameters",
    "optimizer": "the optimizer's parameter groups",
    "logged": "the logged loss",
    "first_moment": "the optimizer's state",
    "second_moment": "the optimizer's state",
    "step": "the optimizer's state, and the parameter",
}

_HEAD = """\
# Quantities

Made by `make pages` from the declarations of the quantities; in Python it is
`taiyi_fx.quantities()`. `x` and `y` are the input and output of one call of a module, `g_x` and
`g_y` the gradients of the loss with respect to them, `W` and `g_W` the weight and its gradient, `p`
any parameter. `X` is a tensor as a matrix of N rows and C features: channels for convolutions and
norms of images, the last axis for linear layers and embeddings; each position is a row. The lambdas
are the eigenvalues of its covariance, in descending order: around the mean and divided by N - 1, or
with `centered=False` X^T X / N. Accuracies are relative to a float64 computation of the formula,
for float32 tensors, and are what the tests hold the quantities to.
"""


@dataclass(frozen=True)
class QuantityInfo:
    """The facts about a quantity.

    Attributes:
        name: The name in configurations and records.
        summary: Its description in a sentence.
        details: The rest of its description.
        formula: Its formula.
        unit: The unit of its numbers; empty where it is the tensor's own.
        source: The paper it is from; empty for common knowledge.
        accuracy: The largest relative error against float64, for float32 tensors, or in words.
        health: The rule by which reports flag its numbers; empty where only that for all holds.
        sites: The places that it reads.
        options: The values that each option takes, by its name.
        cost: The cost of its readings at a due step.
        declared_in: The Python module that declares it.
        subject: The subject of that module.
    """

    name: str
    summary: str
    details: str
    formula: str
    unit: str
    source: str
    accuracy: str
    health: Health
    sites: tuple[str, ...]
    options: dict[str, str]
    cost: str
    declared_in: str
    subject: str

    def __str__(self) -> str:
        rows = {
            "formula": self.formula,
            "unit": self.unit,
            "source": self.source,
            "accuracy": self.accuracy,
            "health": RULES[self.health].words if self.health else "",
            "reads": ", ".join(self.sites),
            "cost": self.cost,
            "options": "; ".join(f"{name}: {what}" for name, what in self.options.items()),
        }
        lines = [f"  {name:9}{text}" for name, text in rows.items() if text]
        details = f"\n{textwrap.indent(self.details, '  ')}" if self.details else ""
        return "\n".join([f"{self.name}: {self.summary}{details}", *lines])


class Quantities(Sequence[QuantityInfo]):
    """A list of quantities, which prints as one."""

    def __init__(self, infos: Iterable[QuantityInfo]) -> None:
        self._infos = tuple(infos)

    def __len__(self) -> int:
        return len(self._infos)

    def __iter__(self) -> Iterator[QuantityInfo]:
        return iter(self._infos)

    @overload
    def __getitem__(self, index: int | str) -> QuantityInfo: ...
    @overload
    def __getitem__(self, index: slice) -> Quantities: ...
    def __getitem__(self, index: int | str | slice) -> QuantityInfo | Quantities:
        """The quantity at a position or of a name.

        Raises:
            KeyError: There is no quantity of this name.
        """
        if isinstance(index, str):
            found = next((info for info in self if info.name == index), None)
            if found is None:
                names = [info.name for info in self]
                raise KeyError(f"no quantity is named {index!r}.{suggestion(index, names)}")
            return found
        return Quantities(self._infos[index]) if isinstance(index, slice) else self._infos[index]

    def __repr__(self) -> str:
        return f"<{len(self)} quantities>"

    def __str__(self) -> str:
        width = max((len(info.name) for info in self), default=0)
        return "\n".join(f"{info.name:{width}}  {info.summary}" for info in self)

    def _repr_html_(self) -> str:
        """The list that a notebook shows."""
        return f"<pre>{html.escape(str(self))}</pre>"

    def to_markdown(self) -> str:
        """A page with a section for each, grouped by where they are declared."""
        sections: dict[str, list[QuantityInfo]] = {}
        for info in self:
            sections.setdefault(info.subject, []).append(info)
        parts = (f"## {title}\n\n" + "\n".join(map(_entry, of)) for title, of in sections.items())
        return "\n".join(parts)


def quantities() -> Quantities:
    """All quantities that are declared, your own too: formula, source, sites, options, cost."""
    found = [find_quantity(name) for name in quantity_names()]
    subjects = [q for q in found if q is not None]
    return Quantities(_info(q) for q in sorted(subjects, key=lambda q: q.compute.__module__))


def page() -> str:
    """The page of the documentation that lists all quantities that come with taiyi_fx."""
    own = Quantities(info for info in quantities() if info.declared_in.startswith("taiyi_fx."))
    return f"{_HEAD}\n{own.to_markdown()}"


def _info(quantity: Quantity) -> QuantityInfo:
    text = quantity.documentation
    fields = {m[1]: " ".join(m[2].split()) for m in _FIELD.finditer(text)}
    prose = _FIELD.sub("", text).strip()
    summary, _, details = prose.partition("\n\n")
    ports = dict.fromkeys(s.port for s in quantity.sources.values())
    return QuantityInfo(
        name=quantity.name,
        summary=" ".join(summary.split()),
        details=details.strip(),
        formula=fields.get("Formula", ""),
        unit=quantity.unit,
        source=fields.get("Source", ""),
        accuracy=quantity.accuracy,
        health=quantity.health,
        sites=tuple(_SITES[port] for port in ports),
        options={name: _option(p) for name, p in sorted(quantity.options.items())},
        cost=fields.get("Cost") or _cost(quantity),
        declared_in=quantity.compute.__module__,
        subject=_subject(quantity),
    )


def _option(parameter: inspect.Parameter) -> str:
    has_default = parameter.default is not inspect.Parameter.empty
    default = f", by default {parameter.default!r}" if has_default else ""
    return described(parameter.annotation) + default


def _cost(quantity: Quantity) -> str:
    costs = []
    for source in quantity.sources.values():
        text = inspect.getdoc(source.reduction) or ""
        costs += [m[2] for m in _FIELD.finditer(text) if m[1] == "Cost"]
    shown = [cost for cost in dict.fromkeys(costs) if cost != "nothing"]
    return "; ".join(shown or dict.fromkeys(costs))


def _subject(quantity: Quantity) -> str:
    """The first line of the documentation of the module that declares a quantity."""
    module = inspect.getmodule(quantity.compute)
    text = inspect.getdoc(module) if module else None
    return (text or quantity.compute.__module__).splitlines()[0].rstrip(".")


def _entry(info: QuantityInfo) -> str:
    rows = [
        ("Formula", f"`{info.formula}`" if info.formula else ""),
        ("Unit", info.unit),
        ("Source", info.source),
        ("Accuracy", info.accuracy),
        ("Health", RULES[info.health].words if info.health else ""),
        ("Reads", ", ".join(info.sites)),
        ("Cost", info.cost),
        ("Options", "; ".join(f"`{name}`: {what}" for name, what in info.options.items())),
    ]
    facts = "\n".join(f"- {title}: {text}" for title, text in rows if text)
    details = f"\n\n{info.details}" if info.details else ""
    return f"### {info.name}\n\n{info.summary}{details}\n\n{facts}\n"
