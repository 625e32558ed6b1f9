"""Replaces marks by edits and probes, or removes them where a call has neither."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

from torch import fx, nn
from torch.fx.node import map_aggregate

from taiyi_fx.passes.capture.marks import enter, is_mark, leave, pack, part_of, unpack
from taiyi_fx.passes.ir import Port, reads_product
from taiyi_fx.passes.module_tree import submodule
from taiyi_fx.passes.probes.board import Board
from taiyi_fx.passes.probes.edited import Edited, is_edit
from taiyi_fx.passes.probes.probe import Probe
from taiyi_fx.passes.probes.slots import Slot
from taiyi_fx.passes.probes.table import SlotTable
from taiyi_fx.passes.rewrite.context import Context
from taiyi_fx.passes.rewrite.emit import OWN
from taiyi_fx.passes.rewrite.find_products import find_products
from taiyi_fx.passes.rewrite.fresh import is_dropout, is_fresh

PORTS: dict[Any, tuple[Port, ...]] = {
    enter: ("input", "input_grad", "span", "backward"),
    leave: ("output", "call", "span", "output_grad", "pair", "backward"),
}


def insert_probes(graph: fx.Graph, context: Context) -> fx.Graph:
    """Replaces each mark by a probe with the slots of its call, in place; none without a mode.

    An edit of the value or its gradient stands before the probe, which so reads the changed value,
    and the gradient before its change. Pairs and calls are read before the edit.

    A probe without gradient readings returns its value, but no other node uses it. A probe of an
    output gets the input of the call too if the one may be the other, or if it reads both. One of
    a call whose reading is of the product that its result leads to stands behind that product.

    The gradient of an input is begun at the one probe of its call and ends at the other, whose meta
    has the slots of it, and the modules that the call runs.
    """
    marks = [node for node in graph.nodes if is_mark(node)]
    entered: dict[Any, fx.Node] = {m.args[1:]: m for m in marks if m.target is enter}
    _note_products(graph, entered, context)
    for mark in marks:
        if mark.target is leave:
            _note_end(mark, entered[mark.args[1:]], context)
            if not (_made_fresh(mark, context.part) and not _takes_call(mark, context.table)):
                mark.args = (*mark.args, entered[mark.args[1:]])
    for mark in marks:
        _lower(graph, mark, context)
    return graph


def _note_products(graph: fx.Graph, entered: Mapping[Any, fx.Node], context: Context) -> None:
    """Notes, at marks of calls whose product may be read, the function and the product."""
    packs = {call: cast(fx.Node, mark.args[0]) for call, mark in entered.items()}
    named = {
        call: str(node.args[2])
        for call, node in packs.items()
        if node.target is pack and len(node.args) > 2
    }
    plan = context.table.plan
    asked = {
        call
        for call, function in named.items()
        if any(reads_product(r.reduction, function) for r in plan[call[0]].at("call"))
    }
    products = find_products(graph, context.part) if asked else {}
    for mark in graph.nodes if asked else ():
        if is_mark(mark) and mark.target is leave and mark.args[1:] in asked:
            mark.meta["product_of"] = named[mark.args[1:]], products.get(mark.args[1:])


def _note_end(mark: fx.Node, entered: fx.Node, context: Context) -> None:
    """Notes, at the mark of a call's end, the slots of its input's gradient and what it runs."""
    slots = _slots_at(enter, *_call_at(mark, context), context)
    mark.meta["ends"] = tuple(slot for slot in slots if slot.reading.site.port == "input_grad")
    if mark.meta["ends"]:
        ran, node = [], entered.next
        while node is not mark:
            ran += [str(node.target)] if node.op == "call_module" else []
            node = node.next
        mark.meta["keepers"] = tuple(submodule(context.part, name) for name in dict.fromkeys(ran))


def _call_at(mark: fx.Node, context: Context) -> tuple[str, int]:
    """The name of a mark's target, and the number of its call in the forward."""
    module, call = cast(tuple[str, int], mark.args[1:3])
    return module, call + context.starts.get(module, 0)


def _slots_at(mark: Any, module: str, call: int, context: Context) -> list[Slot]:
    table, mode = context.table, context.mode
    found = table.at(mode, module, call) if mode else {}
    return [slot for reading, slot in found.items() if reading.site.port in PORTS[mark]]


def _made_fresh(mark: fx.Node, part: nn.Module) -> bool:
    value, made = mark.args[0], False
    if isinstance(value, fx.Node) and value.op == "call_module":
        module = submodule(part, str(value.target))
        made = is_fresh(module)
        mark.meta["is_dropout"] = is_dropout(module)
    mark.meta["is_fresh"] = made
    return made


def _takes_call(mark: fx.Node, table: SlotTable) -> bool:
    return bool(table.plan[str(mark.args[1])].at("pair", "call"))


def _lower(graph: fx.Graph, mark: fx.Node, context: Context) -> None:
    table = context.table
    (value, *_), (module, call) = mark.args, _call_at(mark, context)
    given = cast(tuple[Any, ...], mark.args[3:])
    slots = _slots_at(mark.target, module, call, context)
    name = probe_name(mark.target, module, call)
    mark.meta["mark"] = mark.target
    mark.meta["call"] = module, call
    if "product_of" in mark.meta:
        slots = _read_product(graph, mark, name, slots, table.board)
    edited = edit_at(mark.target, module, table, is_fresh=mark.meta.get("is_fresh", False))
    if edited is not None:
        made, slots = before_edit(slots)
        with graph.inserting_before(mark):
            if made or mark.meta.get("ends"):
                probe = graph.call_function(cast(Any, mark.target), (value, *given))
                probe.meta.update(mark.meta)
                value = probe
                set_slots(graph, probe, f"{name}.made", made, table.board)
                mark.meta.pop("ends", None)
            value = graph.call_function(edited, (value, *given))
        mark.meta["is_fresh"], mark.meta["is_dropout"] = edited.leaves_fresh, False
    mark.args = (value, *given)
    set_slots(graph, mark, name, slots, table.board)


def _read_product(
    graph: fx.Graph, mark: fx.Node, name: str, slots: list[Slot], board: Board
) -> list[Slot]:
    """Puts a probe of a call behind the product that its result leads to; returns other slots.

    Without one the probe reads None, unless the graph is that of the call alone: its caller then
    follows the result.
    """
    function, product = mark.meta["product_of"]
    moved = [slot for slot in slots if reads_product(slot.reading.reduction, function)]
    value, *_, given = cast(tuple[Any, ...], mark.args)
    is_alone = isinstance(value, fx.Node) and value.op == "call_module" and value.target == OWN
    if moved and not is_alone:
        with graph.inserting_before((mark if product is None else product.value).next):
            read = None if product is None else tuple(product)
            probe = graph.call_function(Probe(f"{name}.product", moved, board), (read, given))
        probe.meta["mark"] = leave
    return [slot for slot in slots if slot not in moved]


def before_edit(slots: list[Slot]) -> tuple[list[Slot], list[Slot]]:
    """The slots whose probe stands before the edit, and those whose probe stands after it.

    Pairs stand before: the gradient of a weight is made from the output's edited gradient. So do
    calls and their spans, whose result is the function's own.
    """
    of_call = ("pair", "call", "span", "backward")
    before = [slot for slot in slots if slot.reading.site.port in of_call]
    return before, [slot for slot in slots if slot not in before]


def edit_at(mark: Any, module: str, table: SlotTable, *, is_fresh: bool) -> Edited | None:
    """The edit at a mark, or None."""
    changes = [c for c in table.plan[module].changes if c.site.port in PORTS[mark]]
    return Edited(module, changes, is_fresh=is_fresh) if changes else None


def set_slots(
    graph: fx.Graph, node: fx.Node, name: str, slots: Collection[Slot], board: Board
) -> None:
    """Turns a mark or probe into the probe of these slots; without slots, erases it.

    Only a probe that taps a gradient stays in the path of the value.
    """
    probe, ends = None, node.meta.get("ends", ())
    if slots or ends:
        is_fresh, begins = node.meta.get("is_fresh", False), node.meta.get("mark") is enter
        keepers = node.meta.get("keepers", ())
        probe = Probe(
            name, slots, board, is_fresh=is_fresh, begins=begins, ends=ends, keepers=keepers
        )
        probe.is_of_dropout = node.meta.get("is_dropout", False)
        node.target = probe
        if probe.taps_gradients:
            return
    _bypass(graph, node)
    used = node.all_input_nodes
    if probe is None:
        graph.erase_node(node)
    elif not probe.takes_call:
        node.args = node.args[:1]
    for value in used:
        if value.target is pack and not value.users:
            graph.erase_node(value)


def probe_name(mark: Any, module: str, call: int) -> str:
    """The name of a probe in generated code."""
    side = "input" if mark is enter else "output"
    return f"{module or 'model'}{f'@{call}' if call else ''}.{side}"


def is_probe(node: fx.Node) -> bool:
    """True if a node is a probe."""
    return node.op == "call_function" and isinstance(node.target, Probe)


def _bypass(graph: fx.Graph, node: fx.Node) -> None:
    """Replaces every use of a node's output by its input."""
    value = node.args[0]
    for user in list(node.users):
        if user.target is unpack and user.op == "call_function" and not _is_edited(value):
            _replace(graph, user, part_of(value, user.args[1]))
    if isinstance(value, fx.Node):
        node.replace_all_uses_with(value)
    elif node.users:
        (user,) = node.users  # only the output node takes a whole structure
        user.args = (value,)


def _is_edited(value: Any) -> bool:
    # Its parts are known only once it has run.
    return isinstance(value, fx.Node) and is_edit(value)


def _replace(graph: fx.Graph, node: fx.Node, part: Any) -> None:
    if isinstance(part, fx.Node):
        node.replace_all_uses_with(part)
    else:
        for user in list(node.users):
            user.args = map_aggregate(user.args, lambda a: part if a is node else a)
            user.kwargs = map_aggregate(user.kwargs, lambda a: part if a is node else a)
    graph.erase_node(node)
