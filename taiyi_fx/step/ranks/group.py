"""The ranks that are joined: those with the same configuration, agreed once."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch import distributed as dist

from taiyi_fx.step.ranks.cadence import Cadence
from taiyi_fx.step.ranks.gate import Gate, NotJoined

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
        gate: Where they meet before each exchange. Only then do all of them join a collective.
        cadence: The steps that they wish to read densely, and those that they agreed on.
    """

    group: ProcessGroup
    members: tuple[int, ...]
    place: int
    bringing: frozenset[int]
    gate: Gate
    cadence: Cadence = field(default_factory=Cadence)

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

    def gather(self, mine: Tensor, rows: Tensor) -> Tensor:
        """One row from each of them, on its device.

        Args:
            mine: That of this rank.
            rows: Where they go, a row for each.
        """
        _gather_into()(rows.view(-1), mine, group=self.group)
        return rows

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


def form(
    process_group: Any, data_group: Any, signature: str, ended: str | None = None
) -> Ranks | None:
    """The ranks with this one's signature; None where it is alone.

    All ranks of the process group call this together. Where some do not, the others have ranks
    whose gate has ended.

    Args:
        process_group: The ranks to ask; "auto" for all, None for none.
        data_group: Those that bring rows of their own.
        signature: What is to be the same on joined ranks.
        ended: Why all ranks know that they cannot be joined; None if they may be.

    Raises:
        ValueError: The data group does not fit; all ranks raise it.
    """
    if process_group is None or not (dist.is_available() and dist.is_initialized()):
        return None
    group: Any = dist.group.WORLD if process_group == "auto" else process_group
    everyone = dist.get_process_group_ranks(group)
    if len(everyone) == 1:
        return None
    name, me = _name(everyone), dist.get_rank()
    gate = Gate(_store(), name, everyone, me)
    gate.ended = ended
    data = None if data_group is None else dist.get_process_group_ranks(data_group)
    digest = hashlib.blake2b(signature.encode(), digest_size=16).hexdigest()
    try:
        answers = gate.decision((digest, data), list)
    except NotJoined:
        return Ranks(group, tuple(everyone), everyone.index(me), frozenset(), gate)
    every: Answers = {rank: (of, to) for rank, (of, to) in zip(everyone, answers, strict=True)}
    _check_data(every)
    members = [rank for rank, (theirs, _) in every.items() if theirs == digest]
    if len(members) < len(everyone):
        group = _group_of(digest, every, is_default=group is dist.group.WORLD)
    if len(members) == 1:
        return None
    bringing = every[members[0]][1] or members
    places = frozenset(members.index(rank) for rank in bringing)
    gate = Gate(_store(), f"{name}/{members[0]}", members, me)
    return Ranks(group, tuple(members), members.index(me), places, gate)


def _name(everyone: Sequence[int]) -> str:
    """A name in the store for what these ranks agree on next; each of them counts its own."""
    digest = hashlib.blake2b(repr(everyone).encode(), digest_size=16).hexdigest()
    count = _store().add(f"taiyi_fx/{digest}/{dist.get_rank()}", 1)
    return f"taiyi_fx/{digest}/of {count}"


def _store() -> Any:
    return dist.distributed_c10d._get_default_store()


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
