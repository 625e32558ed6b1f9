"""A process group of this process alone."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from torch import distributed as dist


@contextmanager
def one_rank() -> Iterator[None]:
    """Makes the group, and takes it down once all that was made with it is gone.

    What wraps a model in it is to be made in a function that has returned by then: a reducer of
    torch that is the group's last owner waits, with the GIL, for a thread that waits for the GIL.
    """
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        gc.collect()
        dist.destroy_process_group()
