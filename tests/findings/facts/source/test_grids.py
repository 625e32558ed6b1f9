"""Grids whose cells are written at [x, y], beside images that are taken at [y, x]."""

import pytest

from taiyi_fx.findings.facts.source.grids import turned_grids
from tests.findings.facts.source.reading import found_in

CODE = """
def render(image, boxes):
    for x, y, w, h in boxes:
        {image} += 1


def targets_of(boxes):
    target = {made}
    for i, (cx, cy) in enumerate(boxes):
        gx, gy = int(cx / 8), int(cy / 8)
        row, col = int(cy / 8), int(cx / 8)
        j, k = int(cy / 8), int(cx / 8)
        {target} {sets} 1
    {then}
    return target
"""


def found(
    target="target[i, gx, gy]",
    image="image[y : y + h, x : x + w]",
    made="torch.zeros(8, 4, 4)",
    then="pass",
    sets="=",
):
    code = CODE.format(target=target, image=image, made=made, then=then, sets=sets)
    return [text for _, text in found_in(code, turned_grids)]


@pytest.mark.parametrize(
    "target",
    ["target[i, gx, gy]", "target[i, col, row]", "target[k, j]", "target[i, int(cx), int(cy), 0]"],
)
@pytest.mark.parametrize("image", ["image[y : y + h, x : x + w]", "image[:, y, x]"])
def test_cells_in_another_order_than_those_of_images_are_found(target, image):
    assert found(target, image) == [target]


@pytest.mark.parametrize(
    "changed",
    [
        {"target": "target[i, gy, gx]"},
        {"target": "target[i, row, col]"},
        {"target": "target[j, k]"},
        {"target": "target[i, gx]"},
        {"target": "target[gx][gy]"},
        {"target": "target[i, gx, :, gy]"},
        {"image": "image[x : x + w, y : y + h]"},
        {"image": "image"},
        {"made": "Image.open(path).load()"},
        {"then": "print(target[0, gx, gy])"},
        {"then": "target[i, gy, gx] = 1"},
        {"sets": "+="},
    ],
    ids=str,
)
def test_other_cells_are_none(changed):
    assert found(**changed) == []
