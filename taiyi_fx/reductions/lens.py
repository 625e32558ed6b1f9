"""A block's output as the model's own last norm and head would read it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from taiyi_fx.passes.ir import State
from taiyi_fx.passes.module_tree import modules_of, parameters_of
from taiyi_fx.reductions.rows import copied

_HEADS = ("lm_head", "head", "output", "embed_out", "unembed", "decoder", "fc_out", "proj_out")
_NORMS = (
    "norm", "ln_f", "norm_f", "final_norm", "final_layer_norm", "final_layernorm", "norm_out",
    "ln_out", "layer_norm", "ln_final",
)  # fmt: skip


class LensValue(NamedTuple):
    """Finished `Lens`: the entropy, and the most likely word, at each position that was read."""

    entropy: Tensor
    top: Tensor


@dataclass(frozen=True)
class Lens:
    """Some rows of a block's output; finished, they pass the model's final norm and head.

    Their forwards are called once more at `track`, without hooks and without a gradient.

    Cost: a copy of some rows, then the norm and the head of these

    Attributes:
        positions: The number of rows, evenly spread over the batch, of each call.
        norm: The name of the final norm; by default found by its name, and ``""`` for none.
        head: The name of the module that makes logits; by default found by its name.
        modules: Both, once they are found in a model.
    """

    positions: int = 128
    norm: str | None = None
    head: str | None = None
    modules: tuple[nn.Module | None, nn.Module] | None = field(default=None, repr=False)

    needs_model: ClassVar[bool] = True
    takes_whole: ClassVar[bool] = True
    has_fixed_shape: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.positions < 1:
            raise ValueError(f"positions must be a number of at least 1, not {self.positions!r}")

    def of_model(self, modules: Mapping[str, nn.Module]) -> Lens:
        """The same with the norm and the head of a model.

        Raises:
            LookupError: The model has none of the name, or none that is found by its name.
            ValueError: One of them draws random numbers, or changes as it is called.
        """
        norm = _named(modules, "norm", self.norm, _NORMS) if self.norm != "" else None
        head = _named(modules, "head", self.head, _HEADS)
        if head is None:
            raise LookupError('has no head that is known by its name: give it as {"head": "..."}')
        for part in (norm, head):
            _check_is_pure(part)
        return dataclasses.replace(self, modules=(norm, head))

    def measure(self, x: Tensor) -> State:
        rows = x.reshape(-1, x.shape[-1])
        n = rows.shape[0]
        if n > self.positions:
            every = torch.arange(self.positions, device=x.device)
            rows = rows.index_select(0, every * n // self.positions)
        return (copied(rows),)

    def merge(self, a: State, b: State) -> State:
        return (torch.cat([a[0], b[0]]),)

    def scale(self, state: State, factor: float) -> State:
        return (state[0] * factor,)

    def finish(self, state: State) -> LensValue:
        assert self.modules is not None, "a lens is bound to its model by the configuration"
        norm, head = self.modules
        rows = state[0].to(next(parameters_of(head)).dtype)
        try:
            with torch.autocast(rows.device.type, enabled=False):
                # The forward itself: whoever hooked the module counts the model's own calls.
                logits = head.forward(rows if norm is None else norm.forward(rows)).double()
        except Exception as error:  # modules found by their names may be for something else
            called = f"{type(head).__name__} as its head and {type(norm).__name__} as its norm"
            raise ValueError(
                f"a block's output of {rows.shape[-1]} features does not pass {called}: name those "
                f'that it passes, as {{"head": "...", "norm": "..."}} ({error})'
            ) from error
        shares = logits.softmax(-1)
        return LensValue(torch.special.entr(shares).sum(-1), logits.argmax(-1))


def _named(
    modules: Mapping[str, nn.Module], role: str, name: str | None, usual: tuple[str, ...]
) -> nn.Module | None:
    """The module of a name; without one the last of a usual name nearest to the model itself.

    Modules inside of a list, which has numbers for names, are a block's own.
    """
    if name is not None:
        if name not in modules:
            raise LookupError(f"has no module {name!r}, which is given as its {role}")
        return modules[name]
    found = [key for key in modules if key.rpartition(".")[2] in usual and not _is_in_list(key)]
    nearest = min((key.count(".") for key in found), default=0)
    return next((modules[key] for key in reversed(found) if key.count(".") == nearest), None)


def _is_in_list(name: str) -> bool:
    return any(part.isdigit() for part in name.split("."))


def _check_is_pure(module: nn.Module | None) -> None:
    for part in [] if module is None else modules_of(module):
        draws = isinstance(part, _DropoutNd) and part.p > 0
        if draws or isinstance(part, _BatchNorm):
            what = "draws random numbers" if draws else "changes its averages"
            kind = type(part).__name__
            raise ValueError(f"has a {kind} in its norm or head, which {what} when it is called")
