"""Optimizers: what of their state are the moments, and what a step is made of."""

from taiyi_fx.optimizers import stock as _stock  # noqa: F401 - describes torch's own
from taiyi_fx.optimizers.describe import Description, describe_optimizer, description_of
from taiyi_fx.optimizers.trained import TrainedParameter, in_pieces

__all__ = ["Description", "TrainedParameter", "describe_optimizer", "description_of", "in_pieces"]
