"""The loss, where the model or one of its modules returns it."""

from __future__ import annotations

from taiyi_fx.quantities.declare import Defined, quantity
from taiyi_fx.quantities.places import output
from taiyi_fx.reductions import ScalarValue


@quantity("Loss", accuracy="1e-5", batched=True, scalar=output.scalar)
def loss(scalar: ScalarValue) -> Defined:
    """The loss that a loss module, or a model that returns its loss, returns: a scalar.

    Over several micro-batches, their mean. An output that is no scalar gives a warning with its
    shape; in compiled code it has no record, and `Monitor.explain` says why. For a model that
    returns its loss among other things, ask with ``tensor="loss"``.

    Formula: mean over calls of y
    """
    mean = scalar.total / scalar.n
    return Defined(mean, scalar.n > 0, "a scalar is read here, but the tensor has other elements")
