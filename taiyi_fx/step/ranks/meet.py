"""The first meeting of ranks: those with the same configuration join what they read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from torch import nn

from taiyi_fx.config.subscriptions import Subscription
from taiyi_fx.passes.probes.dtensor import tensor_parallel
from taiyi_fx.passes.probes.table import SlotTable
from taiyi_fx.step.ranks.group import form
from taiyi_fx.step.ranks.join import UNEVEN, Join
from taiyi_fx.warning import warn

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


class Groups(NamedTuple):
    """The ranks to ask.

    Attributes:
        process: Those to join, of which only ones with the same configuration are.
        data: Those of them that the data are split over.
        part: The name of the part that a rank's model is of one: other parts are not joined.
    """

    process: ProcessGroup | Literal["auto"] | None
    data: ProcessGroup | None
    part: str = ""


ALONE = Groups(None, None)
"""No other rank."""


def meet(
    groups: Groups,
    subscriptions: Sequence[Subscription],
    table: SlotTable,
    model: nn.Module,
    *,
    is_uneven: bool,
) -> Join | None:
    """Agrees with other ranks on those to join; None where there are no others.

    Args:
        groups: The ranks to ask.
        subscriptions: All subscriptions.
        table: The statistics of readings at calls.
        model: The model.
        is_uneven: True if ranks may end one after another, so that they cannot be joined.

    Raises:
        ValueError: The data group does not fit; all ranks raise it.
    """
    every = [(s.module, s.label, str(s.schedules), str(s.options)) for s in subscriptions]
    signature = repr((groups.part, every))
    ranks = form(groups.process, groups.data, signature, UNEVEN if is_uneven else None)
    if ranks is None:
        return None
    if ranks.is_writer and groups.data is None:
        _warn_of_tensor_parallel(model)
    return Join(ranks, subscriptions, table)


def _warn_of_tensor_parallel(model: nn.Module) -> None:
    name = tensor_parallel(model)
    if name is not None:
        warn(
            f"the parameter {name!r} is held in parts by ranks that see one batch, as with tensor "
            "parallelism, but data_group was not given: what passes modules is counted once for "
            "each of these ranks, and gradients are divided by their number. Give instrument the "
            'ranks that the data are split over, as data_group=mesh["data"].get_group(), or '
            "data_group=dist.group.WORLD if each rank has a batch of its own"
        )
