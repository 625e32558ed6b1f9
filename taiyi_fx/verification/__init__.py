"""Whether monitoring changes anything, found out on the user's own model and batch."""

from taiyi_fx.verification.result import Verification
from taiyi_fx.verification.verify import verify

__all__ = ["Verification", "verify"]
