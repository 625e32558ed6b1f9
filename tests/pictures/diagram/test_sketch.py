"""The plainer picture where there is no Graphviz."""

import sys
import xml.etree.ElementTree as ET

import pytest

import taiyi_fx
from taiyi_fx.pictures.diagram import EngineMissing, engines
from tests.pictures.diagram.given import HOSTILE, SAFE, hostile, instrumented_cnn, net

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def _no_graphviz(monkeypatch):
    monkeypatch.setattr(engines, "find_engine", lambda: None)


def texts(path):
    return ["".join(e.itertext()).strip() for e in ET.parse(path).iter(f"{SVG}text")]


@pytest.mark.parametrize("direction", ["TB", "LR", "BT", "RL"])
def test_it_has_all_boxes_and_says_how_to_get_a_better_one(tmp_path, direction):
    diagram = taiyi_fx.diagram(net(), direction=direction)
    found = texts(diagram.write(tmp_path / "net.svg"))
    for text in ("stem", "blocks", "norm", "1 … 4", "output", "OutputRMS"):
        assert text in found, text
    assert "Drawn without Graphviz" in found[-1]
    assert "pip install 'taiyi-fx[diagram]'" in found[-1]


def test_hostile_names_are_text(tmp_path):
    found = texts(taiyi_fx.diagram(hostile()).write(tmp_path / "hostile.svg"))
    assert set(SAFE) <= set(found)
    assert len(SAFE) == len(HOSTILE)


def test_it_is_the_same_each_time(tmp_path):
    model = net()
    once, again = (taiyi_fx.diagram(model).write(tmp_path / name) for name in ("a.svg", "b.svg"))
    assert once.read_bytes() == again.read_bytes()


def test_a_png_is_drawn_too(tmp_path):
    path = taiyi_fx.diagram(instrumented_cnn()).write(tmp_path / "cnn.png")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_either_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    diagram = taiyi_fx.diagram(instrumented_cnn())
    assert diagram.write(tmp_path / "probes.dot").exists()
    with pytest.raises(EngineMissing, match=r"pip install 'taiyi-fx\[diagram\]'"):
        diagram.write(tmp_path / "probes.svg")
    assert not (tmp_path / "probes.svg").exists()
    assert diagram._repr_mimebundle_() == {"text/plain": diagram.to_dot()}
