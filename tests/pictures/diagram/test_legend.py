"""What a diagram's colours, signs and borders mean: of those that occur."""

from taiyi_fx.pictures.diagram.colours import FAMILIES
from taiyi_fx.pictures.diagram.faces import Badge, Count, Face, Line
from taiyi_fx.pictures.diagram.legend import legend


def texts(*faces):
    return [entry.text for entry in legend(dict(enumerate(faces)))]


def test_only_what_occurs_is_explained():
    assert texts(Face("add", "", "white", "grey")) == []
    assert texts(Face("fc", "", FAMILIES["linear"], "grey")) == ["linear"]
    badge = Badge("backward", (Line("OutputGradNorm 3", "warn"),))
    assert texts(Face("fc", "", "white", "grey", badges=(badge,))) == [
        "backward probe (gradients)", "unusual: ↑ ↓ or ~"
    ]  # fmt: skip
    assert texts(Face("fc", "", "white", "grey", counts=(Count("alert", "! 2 alerts"),))) == [
        "needs a look: !"
    ]


def test_borders_are_explained():
    python = Face("forward", "", "white", "grey", stroke="dashed")
    assert texts(python) == ["forward that stayed Python"]
    pipe = Face("view", "", "white", "grey", stroke="dotted", is_soft=True)
    assert texts(pipe) == ["only rearranges"]
    rest = Face("1 … 3", "", "white", "grey", is_double=True)
    assert texts(python, pipe, rest) == [
        "several of the same structure", "only rearranges", "forward that stayed Python"
    ]  # fmt: skip
