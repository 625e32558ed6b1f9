"""The ranks that are joined: those with the same configuration, agreed once."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch import distributed as dist

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

Answers = dict[int, tuple[str, Sequence[int] | None]]
"""By rank, its configuration's signature and the ranks of its data group."""


@dataclass(frozen=True)
class Ranks:
    """The ranks whose readings are joined, seen from one of them.

    Attributes:
        group: Their process group.
        members: Their numbers among all ranks, in the group's order.
        place: The index of this rank among them; the first one records.
        bringing: The places that bring rows of their own, where others see the same batch.
    """

    group: ProcessGroup
    members: tuple[int, ...]
    place: int
    bringing: frozenset[int]

    @property
    def is_writer(self) -> bool:
        """True if this rank evaluates and records."""
        return self.place == 0

    @property
    def brings_rows(self) -> bool:
        """True if this rank's readings of whole tensors count."""
        return self.place in self.bringing

    def gather_objects(self, mine: Any) -> list[Any]:
        """The objects of all ranks, in their order."""
        gathered: list[Any] = [None] * len(self.members)
        dist.all_gather_object(gathered, mine, group=self.group)
        return gathered

    def gather(self, mine: Tensor) -> Tensor:
        """One row from each of them, on its device."""
        size = len(self.members)
        rows = mine.new_empty(size * len(mine))
        _gather_into()(rows, mine, group=self.group)
        return rows.view(size, len(mine))

    @functools.cached_property
    def device_types(self) -> tuple[str, ...]:
        """The types of devices that the group exchanges tensors of; CPU alone for gloo."""
        pairs = (pair.split(":") for pair in dist.get_backend_config(self.group).split(","))
        return tuple(device for device, backend in pairs if backend != "gloo" or device == "cpu")


def check_groups(process_group: Any, data_group: Any) -> None:
    """Checks the options at the door.

    Raises:
        TypeError: One is no process group.
        ValueError: A rank alone has no others that the data could be split over.
    """
    if process_group is not None and process_group != "auto":
        _check_group("process_group", process_group, "'auto', None")
    if data_group is not None:
        _check_group("data_group", data_group, "None")
        if process_group is None:
            raise ValueError(
                "data_group needs joined ranks, but process_group is None: leave it out"
            )


def _check_group(name: str, group: Any, others: str) -> None:
    if dist.is_available() and isinstance(group, dist.ProcessGroup):
        return
    hint = "; of a device mesh, take mesh.get_group()" if hasattr(group, "get_group") else ""
    if isinstance(group, int):  # what new_group gives to ranks that are not in the group
        hint = "; this rank is not in that group: give None here"
    raise TypeError(f"{name} is {others} or a torch.distributed.ProcessGroup, not {group!r}{hint}")


def form(process_group: Any, data_group: Any, signature: str) -> Ranks | None:
    """The ranks with this one's signature; None where it is alone.

    All ranks of the process group call this together.

    Raises:
        ValueError: The data group does not fit; all ranks raise it.
    """
    if process_group is None or not (dist.is_available() and dist.is_initialized()):
        return None
    group: Any = dist.group.WORLD if process_group == "auto" else process_group
    everyone = dist.get_process_group_ranks(group)
    if len(everyone) == 1:
        return None
    answers: list[Any] = [None] * len(everyone)
    data = None if data_group is None else dist.get_process_group_ranks(data_group)
    dist.all_gather_object(answers, (signature, data), group=group)
    every: Answers = dict(zip(everyone, answers, strict=True))
    _check_data(every)
    members = [rank for rank, (theirs, _) in every.items() if theirs == signature]
    if len(members) < len(everyone):
        group = _group_of(signature, every, is_default=group is dist.group.WORLD)
    if len(members) == 1:
        return None
    bringing = every[members[0]][1] or members
    places = frozenset(members.index(rank) for rank in bringing)
    return Ranks(group, tuple(members), members.index(dist.get_rank()), places)


def _group_of(signature: str, every: Answers, *, is_default: bool) -> Any:
    """The group of this configuration; makes one for each configuration."""
    by_signature: dict[str, list[int]] = {}
    for rank, (theirs, _) in every.items():
        by_signature.setdefault(theirs, []).append(rank)
    if not is_default:
        raise ValueError(
            "the ranks of process_group have different configurations, those of "
            f"{' and '.join(map(str, by_signature.values()))}: give each of them its own group"
        )
    # All ranks make all groups: else torch would name one by how many each rank knows, and hang.
    groups = {theirs: dist.new_group(ranks) for theirs, ranks in by_signature.items()}
    return groups[signature]


def _check_data(every: Answers) -> None:
    for rank, (signature, data) in every.items():
        same = [other for other, (theirs, _) in every.items() if theirs == signature]
        given = [other for other in same if every[other][1] is not None]
        if given and given != same:
            raise ValueError(f"data_group was given on the ranks {given} of {same}: give it on all")
        strangers = sorted(set(data or ()).difference(same))
        if strangers:
            raise ValueError(
                f"data_group on rank {rank} has the ranks {strangers}, which are not joined with "
                f"it: those of its process_group and configuration are {same}"
            )


@functools.cache
def _gather_into() -> Any:  # torch's own, under its older name before 2.13
    return getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
