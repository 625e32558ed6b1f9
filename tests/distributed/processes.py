"""Runs checks in several processes that know each other by gloo."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import tempfile
import traceback
import warnings
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from taiyi_fx import MonitorWarning

Check = Callable[[int, int], Any]

_IMPORTED_ONCE = ["taiyi_fx.instrument", "torch._dynamo", "torch.distributed.fsdp"]
"""The modules that take seconds, which all processes have of the one that they are forked from."""

_PATIENCE = 300
"""Seconds that a check may take on a busy machine."""


def run(checks: Mapping[str, Check], ranks: int) -> Callable[[str], list[Any]]:
    """Runs each check, ``check(rank, ranks)``, on all ranks; gives what one returned on each.

    The processes are the same for all checks, since to start one takes seconds.
    """
    multiprocessing.set_forkserver_preload(_IMPORTED_ONCE)
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(_one, (ranks, folder, checks), ranks, start_method="forkserver")
        files = [os.path.join(folder, str(rank)) for rank in range(ranks)]
        found = [torch.load(file, weights_only=False) for file in files]

    def answers(name: str) -> list[Any]:
        errors = [of[name] for of in found if isinstance(of.get(name, "not run"), str)]
        assert not errors, "\n".join(errors)
        return [of[name] for of in found]

    return answers


def _one(rank: int, ranks: int, folder: str, checks: Mapping[str, Check]) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", FutureWarning)
    warnings.simplefilter("ignore", MonitorWarning)
    found: dict[str, Any] = {}
    try:
        for i, (name, check) in enumerate(checks.items()):
            store = dist.FileStore(os.path.join(folder, f"store{i}"), ranks)
            seconds = timedelta(seconds=60)  # a check that hangs is one that fails
            faulthandler.dump_traceback_later(_PATIENCE, exit=True)  # compiled code has no timeout
            dist.init_process_group("gloo", None, seconds, ranks, rank, store)
            torch.manual_seed(0)
            try:
                found[name] = check(rank, ranks)
                dist.barrier()
            except Exception:  # noqa: BLE001 - told by the test that asks for it
                found[name] = f"on rank {rank}: {traceback.format_exc()}"
            finally:
                dist.destroy_process_group()
        faulthandler.cancel_dump_traceback_later()
    finally:
        torch.save(found, os.path.join(folder, str(rank)))
