"""The command line: ``taiyi-fx``. It starts without torch, which only models need."""

from taiyi_fx.cli.entry import main

__all__ = ["main"]
