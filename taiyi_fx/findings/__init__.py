"""What is wrong in a training, since when, and what to do: rules over its numbers."""

from taiyi_fx.findings.evidence import Evidence, Watched
from taiyi_fx.findings.find import find
from taiyi_fx.findings.finding import Finding

__all__ = ["Evidence", "Finding", "Watched", "find"]
