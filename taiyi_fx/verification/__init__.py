"""A proof on the user's own model and batch that monitoring changes nothing."""

from taiyi_fx.verification.result import Verification
from taiyi_fx.verification.verify import verify

__all__ = ["Verification", "verify"]
