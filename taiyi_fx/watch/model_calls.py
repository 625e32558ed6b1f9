"""The calls of a model: its inputs are looked at, and a loss that it returns."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from taiyi_fx.watch.input_looks import InputLooks
from taiyi_fx.watch.loss_looks import LossLooks
from taiyi_fx.watch.returned_loss import ReturnedLoss


class ModelCalls:
    """The calls of one model.

    Args:
        model: The model.
        inputs: Looks at the arguments of some.
        losses: Looks at the loss that these return.
    """

    def __init__(self, model: nn.Module, inputs: InputLooks, losses: LossLooks) -> None:
        self._model, self._inputs, self._losses = model, inputs, losses
        self._returned: ReturnedLoss | None = None
        self._is_looked_at = False
        self._kwargs: dict[str, Any] = {}

    def on_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Looks at the arguments of a forward; true if what it returns is wanted, too."""
        self._is_looked_at = self._inputs.look_at(args, kwargs)
        if self._returned is None or not self._model.training:
            return self._is_looked_at
        self._kwargs = kwargs
        return True

    def on_return(self, value: Any) -> None:
        """Looks at what that forward returned."""
        if self._is_looked_at:
            self._losses.look_at_returned(value)
        if self._returned is not None and self._model.training:
            self._returned.add(value, self._kwargs)
            self._kwargs = {}

    def returned_loss(self) -> Tensor | None:
        """The loss that the model itself returned since the last call; see `ReturnedLoss.take`.

        The first call has the next ones asked for.
        """
        if self._returned is None:
            self._returned = ReturnedLoss()
        return self._returned.take()
