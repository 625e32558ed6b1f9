"""Several ranks of one run: their statistics are joined, and one of them records."""

from taiyi_fx.step.ranks.cadence import Cadence
from taiyi_fx.step.ranks.group import Ranks, check_groups, form
from taiyi_fx.step.ranks.join import UNEVEN, Join

__all__ = ["UNEVEN", "Cadence", "Join", "Ranks", "check_groups", "form"]
