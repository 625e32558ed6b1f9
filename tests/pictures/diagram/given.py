"""Models and outlines that the tests of diagrams draw."""

import torch
from hypothesis import strategies as st
from torch import nn

import taiyi_fx
from taiyi_fx.outline import Edge, Item, Mark, Marks, Outline

CFG = {"0": ["InputSndNorm", "OutputGradSndNorm", "WeightNorm"], "1": [["MeanTID", "linear(5, 0)"]]}

HOSTILE = [
    'a"b',
    "</script>",
    "x:y",
    "back\\",
    "tab\t\nline",
    "日本",
    "{rec|ord}",
    "<b>&amp;",
    "\\N",
    "%s",
    "$x^2$",
]
SAFE = ['a"b', "</script>", "x:y", "back\\", "tab\\x09 line", "日本", "{rec|ord}", "<b>&amp;", "\\N", "%s", "$x^2$"]  # fmt: skip


def cnn():
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(inplace=True), nn.Flatten())


def instrumented_cnn():
    return taiyi_fx.instrument(cnn(), CFG)


class Block(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))

    def forward(self, x):
        return x + self.mlp(self.norm(x))


class Net(nn.Module):
    """Blocks of the same structure between two layers."""

    def __init__(self, blocks=5):
        super().__init__()
        self.stem = nn.Linear(4, 4)
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


NET_CFG = {nn.Linear: ["OutputRMS", "OutputGradNorm", "WeightNorm"], nn.ReLU: ["DeadNeuronRatio"]}


def trained(model, x, steps=1):
    for step in range(steps):
        model(x).sum().backward()
        model.monitor.track(step)
    return model


def net(blocks=5, cfg=None):
    torch.manual_seed(0)
    return taiyi_fx.instrument(Net(blocks), NET_CFG if cfg is None else cfg)


_MARKS = st.builds(
    lambda forward, backward, edits: Marks(
        tuple(Mark(f"Out{i}", "") for i in range(forward)),
        tuple(Mark(f"Grad{i}", "every(2)") for i in range(backward)),
        edits=("output value · f",) * edits,
    ),
    st.integers(0, 4),
    st.integers(0, 2),
    st.integers(0, 1),
)


_PLAIN = st.just("part")


@st.composite
def outlines(draw, labels=_PLAIN, most=30):
    """Outlines of any shape, with edges in order of execution."""
    items = [Item("module", "model", "Model")]
    ways = [[0]]
    for number in range(draw(st.integers(1, most))):
        way = ways[-1]
        way = way[: draw(st.integers(1, len(way)))]
        kind = draw(
            st.sampled_from(["module", "op", "plumbing", "fold", "rest", "range", "python"])
        )
        item = Item(kind, draw(labels), "Class", module=f"m{number}", parent=way[-1], marks=draw(_MARKS))  # fmt: skip
        items.append(item)
        ways.append([*way, number + 1])
    parents = {item.parent for item in items}
    leaves = [i for i in range(len(items)) if i not in parents]
    pairs = draw(st.lists(st.tuples(st.sampled_from(leaves), st.sampled_from(leaves)), max_size=40))
    edges = dict.fromkeys((min(pair), max(pair)) for pair in pairs if pair[0] != pair[1])
    return Outline(tuple(items), tuple(Edge(a, b, "2×3") for a, b in edges))


def opened_somehow(draw, outline):
    """Any choice of open items."""
    parents = sorted({item.parent for item in outline.items} - {-1})
    return {0, *draw(st.lists(st.sampled_from(parents)))}


def hostile():
    model = nn.Sequential()
    for name in HOSTILE:
        model.add_module(name, nn.Linear(2, 2))
    return taiyi_fx.instrument(model, {nn.Linear: ["InputSndNorm", "OutputGradSndNorm"]})
