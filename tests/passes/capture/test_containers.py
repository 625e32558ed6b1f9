"""What is in lists, dictionaries and containers of modules."""

import pytest
from torch import nn

from tests.passes.capture.given import assert_same, graph_of, made, reason

FORWARDS = {
    "loop over a list": lambda self, x: [layer(x) for layer in self.layers],
    "loop over a dictionary": lambda self, x: [self.by_name[key](x) for key in self.by_name],
    "loop over parameters": lambda self, x: [x * w for w in self.weights],
    "items": lambda self, x: [(key, part(x)) for key, part in self.by_name.items()],
    "keys and values": lambda self, x: (
        list(self.by_name.keys()),
        [m(x) for m in self.by_name.values()],
    ),
    "children": lambda self, x: [m(x) for m in list(self.children())[:1]],
    "named children": lambda self, x: [name for name, _ in self.named_children()],
    "lengths": lambda self, x: x * len(self.layers) + len(self.by_name) - len(self.weights),
    "items by number": lambda self, x: self.layers[-1](self.layers[0](x)) * self.weights[-1],
    "a slice": lambda self, x: [layer(x) for layer in self.layers[1:]],
    "items by name": lambda self, x: self.by_name["b"](x) * self.gains["gain"],
    "what it made": lambda self, x: ([1, x][1], {"a": x}["a"], (x, 2)[-1], [x, 1, 2][1:]),
    "what it found": lambda self, x: x * self.sizes[1] + self.options["shift"],
    "list's methods": lambda self, x: [[x, x].copy(), {"a": x}.get("b", 1), {"a": x}.pop("a")],
    "zipped": lambda self, x: [
        layer(x) * n for layer, n in zip(self.layers, self.sizes, strict=False)
    ],
    "a dictionary it made": lambda self, x: [key * 2 for key in {"a": x, "b": x}],
    "copies and more": lambda self, x: [self.seen.copy(), [x].extend([x, 2])],
    "a list it found": lambda self, x: x.sum(list(self.sizes[:1])),
    "a text": lambda self, x: [c + "!" for c in "ab"],
}


@pytest.mark.parametrize("name", FORWARDS)
def test_containers_hold_what_they_hold_in_python(name):
    assert_same(FORWARDS[name])


@pytest.mark.parametrize(
    ("forward", "change"),
    [
        (FORWARDS["loop over a list"], lambda m: m.layers.append(nn.Tanh())),
        (FORWARDS["loop over a list"], lambda m: m.layers.__setitem__(1, nn.Sigmoid())),
        (FORWARDS["items"], lambda m: m.by_name.update({"c": nn.Tanh()})),
        (FORWARDS["items"], lambda m: m.by_name.update({"d": m.by_name.pop("a")})),
        (FORWARDS["loop over parameters"], lambda m: m.weights.append(m.fc.bias)),
        (FORWARDS["lengths"], lambda m: m.layers.append(nn.Tanh())),
    ],
)
def test_parts_that_come_go_or_move_are_noticed(forward, change):
    captured = graph_of(forward)
    model = made(forward)
    for name, kind in captured.guards.modules.items():
        if not name:
            model.__class__ = kind
    bound = captured.guards.bind(model, "")
    assert bound.hold()
    change(model)
    assert not bound.hold()


@pytest.mark.parametrize(
    ("why", "forward"),
    [
        (
            "iterates over a tensor, or over something of an unknown length",
            lambda s, x: [y + 1 for y in x],
        ),
        ("iterates over a Linear", lambda self, x: [y + 1 for y in self.fc]),
        ("iterates over a float", lambda self, x: [y + 1 for y in self.scale]),
        ("takes the length of a Linear", lambda self, x: len(self.fc)),
        ("takes an item of a Linear", lambda self, x: self.fc[0]),
        ("cannot be followed: IndexError", lambda self, x: self.layers[7](x)),
        ("cannot be followed: KeyError", lambda self, x: self.options["no"]),
        ("reads the parameter 'no', which does not exist", lambda self, x: self.gains["no"]),
        ("calls `sort` of a list", lambda self, x: [2, 1].sort()),
    ],
)
def test_what_is_in_no_known_container_keeps_the_forward_python(why, forward):
    assert why in reason(forward)
