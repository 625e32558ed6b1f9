"""The page's script shows of an outline what a diagram shows of it."""

import random

import pytest

from taiyi_fx.outline.items import Edge, Item, Mark, Marks, Outline
from taiyi_fx.outline.view import opened, shown
from tests.pictures.report import fake

KINDS = ("module", "container", "python", "fold", "rest", "range", "plumbing", "op")
MARKS = (Marks(), Marks(), Marks(forward=(Mark("q", ""),)), Marks(edits=("e",)))
OF_PAGE = """cases => cases.map(({ told, open, only }) => {
    const outline = taiyi.readOutline(told);
    const { boxes, clusters, edges } = taiyi.view(outline, new Set(open), only);
    const home = (index) => taiyi.homes(outline, index)[0] ?? -1;
    return {
        boxes, clusters,
        edges: edges.map(({ source, target, shape }) => [source, target, shape]),
        homes: [...boxes, ...clusters].map((index) => [index, home(index)]),
        depths: [1, 2, 3, Infinity].map((depth) => [...taiyi.openedTo(outline, depth)]),
    };
})"""


def random_outline(draw):
    items = [Item("module", "model", marks=draw.choice(MARKS))]
    for i in range(1, draw.randint(1, 25)):
        way = [i - 1]
        while way[-1]:
            way.append(items[way[-1]].parent)
        made = {"module": f"m{i}", "parent": draw.choice(way), "marks": draw.choice(MARKS)}
        items.append(Item(draw.choice(KINDS), f"m{i}", **made))
    leaves = set(range(len(items))) - {item.parent for item in items}
    pairs = {(draw.choice([*leaves]), draw.choice([*leaves])) for _ in range(draw.randint(0, 30))}
    edges = [Edge(a, b, draw.choice(["", "2×3", "4"])) for a, b in sorted(pairs) if a != b]
    return Outline(tuple(items), tuple(edges))


def random_case(draw):
    outline = random_outline(draw)
    parents = [i for i, inner in enumerate(outline.children()) if inner]
    return outline, {i for i in parents if i == 0 or draw.random() < 0.6}, draw.random() < 0.5


def of_diagram(outline, is_open, only):
    view = shown(outline, is_open, only_probed=only)
    children = outline.children()
    depths = [opened(outline, depth) for depth in (1, 2, 3, "full")]
    return {
        "boxes": sorted(view.boxes),
        "clusters": sorted(view.clusters),
        "edges": sorted(map(list, view.edges)),
        "homes": sorted([i, view.homes[i]] for i in (*view.boxes, *view.clusters)),
        "depths": [sorted(i for i in depth if children[i]) for depth in depths],
    }


@pytest.mark.parametrize("seed", range(3))
def test_both_show_the_same_of_any_outline(show, gpt, seed):
    draw = random.Random(seed)
    cases = [random_case(draw) for _ in range(100)]
    told = [{"told": o.to_json(), "open": [*i], "only": only} for o, i, only in cases]
    page = show(*gpt)
    for case, found in zip(cases, page.evaluate(OF_PAGE, told), strict=True):
        found = {name: sorted(value) for name, value in found.items() if name != "depths"} | {
            "depths": [sorted(depth) for depth in found["depths"]]
        }
        assert found == of_diagram(*case), case


def test_marks_of_the_model_itself_stand_at_a_cluster_around_all(show):
    outline = fake.Outline()
    root = outline.add("module", "net", -1, module="", marks={"forward": [["OutputRMS", ""]]})
    outline.add("module", "one", root, module="one")
    made, chunks = fake.run(outline, columns=10)
    page = show(fake.header([made], outline, [0]), chunks)
    title = page.locator('#graph .cluster[data-item="0"]')
    assert "▼ 1" in title.text_content()
