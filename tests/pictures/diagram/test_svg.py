"""Pictures as a viewer sees them: texts fit in the widest usual font, and no edge crosses a value."""

import re
import xml.etree.ElementTree as ET

import pytest
from torch import nn

import taiyi_fx
from taiyi_fx.pictures.diagram.svg import enlarged

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def picture(tmp_path_factory):
    blocks = [nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)) for _ in range(2)]
    model = nn.Sequential(nn.Linear(4, 4), *blocks)
    cfg = {"Linear": ["OutputGradRMS", "WeightNorm"], "Sequential": ["OutputRMS", "OutputAbsMax"]}
    path = tmp_path_factory.mktemp("svg") / "net.svg"
    taiyi_fx.diagram(taiyi_fx.instrument(model, cfg), "full").write(path)
    return ET.parse(path).getroot()


def groups(root, name):
    return [group for group in root.iter(f"{SVG}g") if group.get("class") == name]


def width_in_dejavu(text):
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    weight = text.get("font-weight", "normal")
    font = FontProperties(family="DejaVu Sans", size=float(text.get("font-size")), weight=weight)
    return text_to_path.get_text_width_height_descent(text.text, font, ismath=False)[0]


def span(shape):
    """The left and right end of a polygon or path."""
    numbers = [float(x) for x in re.findall(r"-?[\d.]+", shape.get("points") or shape.get("d"))]
    return min(numbers[::2]), max(numbers[::2])


def test_texts_fit_their_boxes_in_a_wide_font(picture):
    checked = 0
    for node in groups(picture, "node"):
        left, right = span(next(node.iter(f"{SVG}path")))
        for text in node.iter(f"{SVG}text"):
            start = float(text.get("x")) - (text.get("text-anchor") == "middle") * (
                width_in_dejavu(text) / 2
            )
            assert left <= start
            assert start + width_in_dejavu(text) <= right + 0.5, text.text
            checked += 1
    assert checked > 10


def test_texts_have_their_own_sizes(picture):
    sizes = {text.get("font-size") for text in picture.iter(f"{SVG}text")}
    assert sizes <= {"12", "10", "9"}


def test_titles_of_clusters_lie_over_all_edges(picture):
    order = [group.get("class") for group in picture.iter(f"{SVG}g")]
    last = len(order) - 1 - order[::-1].index("edge")
    titles = [place for place, name in enumerate(order) if name == "title"]
    assert len(titles) == len(groups(picture, "cluster")) > 0
    assert min(titles) > last
    assert not [text for c in groups(picture, "cluster") for text in c.iter(f"{SVG}text")]
    told = [text.text for title in groups(picture, "title") for text in title.iter(f"{SVG}text")]
    assert any(text.startswith("OutputAbsMax") for text in told)


def test_only_sizes_of_fonts_are_enlarged():
    source = (
        'digraph {\ngraph [a=b, fontsize="12"];\n'
        "n0 [label=<<FONT COLOR='red' POINT-SIZE='10'>POINT-SIZE=&#x27;10&#x27;</FONT>>, "
        "tooltip=\"POINT-SIZE='10' graph [fontsize=12\"];}"
    )
    made = enlarged(source)
    assert 'fontsize="14"' in made
    assert "COLOR='red' POINT-SIZE='12'" in made
    assert "POINT-SIZE=&#x27;10&#x27;" in made
    assert "\"POINT-SIZE='10' graph [fontsize=12\"" in made
