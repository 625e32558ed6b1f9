"""The calls of a model whose own loss is kept, which are looked at as any model's are."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from taiyi_fx.warning import WarnOnce
from taiyi_fx.watch.input_looks import InputLooks
from taiyi_fx.watch.loss_looks import LossLooks
from taiyi_fx.watch.returned_loss import ReturnedLoss

_OF_ALL = "num_items_in_batch"
"""The argument by which a model of transformers divides its sum: that of all micro-batches."""


class ModelCalls:
    """The calls of one model.

    Args:
        model: The model.
        inputs: Looks at the arguments of some.
        losses: Looks at the loss that these return.
        strict: Raise what keeping a loss raises.
    """

    def __init__(
        self, model: nn.Module, inputs: InputLooks, losses: LossLooks, *, strict: bool = False
    ) -> None:
        self._model, self._inputs, self._losses = model, inputs, losses
        self._strict, self._warn = strict, WarnOnce()
        self._returned = ReturnedLoss()
        self._is_looked_at = self._is_share = False

    def on_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Looks at the arguments of a forward; true if what it returns is wanted, too."""
        self._is_looked_at = self._inputs.look_at(args, kwargs)
        if not self._model.training:
            return self._is_looked_at
        self._is_share = kwargs.get(_OF_ALL) is not None
        return True

    def on_return(self, value: Any) -> None:
        """Looks at what that forward returned."""
        if self._is_looked_at:
            self._losses.look_at_returned(value)
        if self._model.training:
            try:
                self._returned.add(value, is_share=self._is_share)
            except Exception as error:  # monitoring never ends a run: reported by name
                if self._strict:
                    raise
                self._warn.of("returned", f"the loss that the model returns is not kept: {error!r}")

    def returned_loss(self) -> Tensor | None:
        """The loss that the model itself returned since the last call; see `ReturnedLoss.take`."""
        return self._returned.take()
