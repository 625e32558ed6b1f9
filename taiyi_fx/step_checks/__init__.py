"""Steps of a training, tried on one batch: what its loss depends on, and what it should not."""

from taiyi_fx.step_checks.check import step_check

__all__ = ["step_check"]
