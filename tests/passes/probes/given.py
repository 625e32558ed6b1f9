"""Slots to fold into, and boards that they are on."""

from __future__ import annotations

from taiyi_fx.passes.ir import Reading, Site
from taiyi_fx.passes.probes.board import Board
from taiyi_fx.passes.probes.slots import Slot
from taiyi_fx.reductions import Norm


def slot_of(port="output", reduction=None, board=None, pick=None):
    reading = Reading(Site(port, pick), Norm() if reduction is None else reduction)
    return Slot("fc", reading, (Board() if board is None else board).touched)


def group_of(slot):
    return (slot.reading.reduction, (slot,))
