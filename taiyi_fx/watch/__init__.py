"""Findings while training goes on: when to look, what is new, and what to do then."""

from taiyi_fx.watch.actions import NOTHING, OnFinding, WatchOptions
from taiyi_fx.watch.responder import Responder
from taiyi_fx.watch.watch import Reaction, Watch

__all__ = ["NOTHING", "OnFinding", "Reaction", "Responder", "Watch", "WatchOptions"]
