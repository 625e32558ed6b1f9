"""A classifier of rows with an activation of its author's own."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn


class Activated(nn.Module):
    """Three layers with an activation of one's own.

    Args:
        act: The activation.
    """

    def __init__(self, act: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.act = act
        self.fc1, self.fc2, self.fc3 = nn.Linear(16, 48), nn.Linear(48, 48), nn.Linear(48, 5)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of (batch, 5)."""
        return self.fc3(self.act(self.fc2(self.act(self.fc1(x)))))
