"""Proving one's own quantities right: strategies of hypothesis, and checks built on them.

Import it by name, ``import taiyi_fx.testing``; it needs ``pip install 'taiyi-fx[testing]'``.
"""

try:
    import hypothesis  # noqa: F401 - said here, once, if it is missing
except ImportError as error:
    raise ImportError(
        "taiyi_fx.testing needs hypothesis: pip install 'taiyi-fx[testing]'"
    ) from error

from taiyi_fx.testing.blocks import Chain
from taiyi_fx.testing.check_compiled import check_compiled
from taiyi_fx.testing.check_faithful import assert_faithful, check_faithful
from taiyi_fx.testing.check_mergeable import check_mergeable
from taiyi_fx.testing.check_quantity import check_quantity
from taiyi_fx.testing.compare import assert_agrees
from taiyi_fx.testing.config import configs, is_leaf
from taiyi_fx.testing.failure import CheckFailure
from taiyi_fx.testing.model import models
from taiyi_fx.testing.module import (
    BatchNorm1dLike,
    BatchNorm2dLike,
    Conv1dLike,
    Conv2dLike,
    LinearLike,
    ModuleRecipe,
    PlainLike,
    modules,
)
from taiyi_fx.testing.seen import Seen
from taiyi_fx.testing.steps import Step, training_steps
from taiyi_fx.testing.tensor import TensorRecipe, make_tensor, tensors

__all__ = [
    "BatchNorm1dLike",
    "BatchNorm2dLike",
    "Chain",
    "CheckFailure",
    "Conv1dLike",
    "Conv2dLike",
    "LinearLike",
    "ModuleRecipe",
    "PlainLike",
    "Seen",
    "Step",
    "TensorRecipe",
    "assert_agrees",
    "assert_faithful",
    "check_compiled",
    "check_faithful",
    "check_mergeable",
    "check_quantity",
    "configs",
    "is_leaf",
    "make_tensor",
    "models",
    "modules",
    "tensors",
    "training_steps",
]
