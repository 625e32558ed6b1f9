"""A token that all processes of one launch share: by it the parts of a run know each other."""

from __future__ import annotations

import time
import uuid

from torch import distributed as dist

_KEY = "taiyi_fx/launch"


def launch_token() -> str:
    """The token of this launch: of all ranks, or of this process where it is alone.

    Later launches have greater ones.
    """
    if not (dist.is_available() and dist.is_initialized()):
        return _OWN
    store = dist.distributed_c10d._get_default_store()
    try:
        return store.compare_set(_KEY, "", _OWN).decode()  # that of the first who comes
    except RuntimeError:  # the process that holds the store may have ended: parts stay apart
        return _OWN


_OWN = f"{time.time_ns():016x}-{uuid.uuid4().hex}"
