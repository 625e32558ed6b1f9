"""Augmentations of images that what lies beside them does not get."""

import pytest

from taiyi_fx.findings.facts.source.flips import drawn_apart, parted_flips
from tests.findings.facts.source.reading import found_in


@pytest.mark.parametrize(
    ("code", "is_found"),
    [
        ("def f(images, masks):\n    images = images.flip(-1)\n    return images, masks", True),
        (
            "def f(img, box):\n    img, box = img.clone(), box.clone()\n"
            "    img[i] = img[i].flip(-1)\n    return img, box",
            True,
        ),
        ("def f(img, box):\n    img[i] = img[i].flip(-1)\n    box[i, 0] = 1 - box[i, 0]", False),
        ("def f(image, mask):\n    image, mask = image.flip(-1), mask.flip(-1)", False),
        ("def f(images):\n    return images.flip(-1)", False),
        ("def f(x, mask):\n    x = x.flip(1)\n    return net(x) * mask.flip(1)", False),
        (
            "def f(i):\n    image, mask = samples[i]\n    if random() < 0.5:\n"
            "        image = image.flip(-1)\n    return image, mask",
            True,
        ),
        (
            "def f(images, masks):\n    out = m(images.flip(-1)).flip(-1)\n    return out, masks",
            False,
        ),
        ("def f(mask, scores):\n    return scores.flip(0), mask", False),
    ],
)
def test_an_image_that_is_turned_round_without_its_places_is_found(code, is_found):
    assert bool(found_in(code, parted_flips)) == is_found


BRANCHES = """
def augmented(image, {other}):
    {first}
    if random.random() < 0.5:
        {image}
    if {test}:
        {moved}
    return image, {other}
"""


def lines(
    *,
    other="mask",
    first="pass",
    image="image = image.flip(-1)",
    test="torch.rand(1) < 0.5",
    moved="mask = mask.flip(-1)",
):
    code = BRANCHES.format(other=other, first=first, image=image, test=test, moved=moved)
    return [line for line, _ in found_in(code, drawn_apart)]


def test_masks_that_a_draw_of_their_own_moves_are_found():
    assert lines() == [6]
    assert lines(image="image = np.fliplr(image)", moved="mask = np.fliplr(mask)") == [6]
    assert lines(other="boxes", moved="boxes = hflip(boxes)") == [6]


@pytest.mark.parametrize(
    "changed",
    [
        {"image": "image, mask = image.flip(-1), mask.flip(-1)", "moved": "image = image.rot90()"},
        {"moved": "image = image.flip(-2)"},
        {"other": "label", "moved": "label = label.flip(-1)"},
        {"test": "is_turned"},
        {"first": "random.seed(seed)"},
        {"image": "image = image + noise"},
    ],
    ids=["together", "another move", "no places", "no draw", "seeded", "no move"],
)
def test_others_are_none(changed):
    assert lines(**changed) == []


TRANSFORM = """
turn = transforms.Compose([transforms.{kind}(32), transforms.ToTensor()])
def pair(image, mask):
    {first}
    image = turn(image)
    return image, {second}
"""


@pytest.mark.parametrize(
    ("kind", "first", "second", "found"),
    [
        ("RandomCrop", "pass", "turn(mask)", ["turn(mask)"]),
        ("RandomCrop", "torch.manual_seed(3)", "turn(mask)", []),
        ("CenterCrop", "pass", "turn(mask)", []),
        ("RandomCrop", "pass", "mask", []),
    ],
)
def test_a_random_transform_that_is_called_of_either_is_found(kind, first, second, found):
    code = TRANSFORM.format(kind=kind, first=first, second=second)
    assert [text for _, text in found_in(code, drawn_apart)] == found


CLASSES = """
class Turn:
    def __call__(self, x):
        if random.random() < 0.5:
            x = {move}
        return x

class Pairs(Dataset):
    def __init__(self, n, transform=None):
        self.transform = transform
    def __getitem__(self, i):
        image, mask = self.samples[i]
        return {pair}

train = Pairs(3, {given})
"""


@pytest.mark.parametrize(
    ("move", "pair", "given", "found"),
    [
        ("x.flip(-1)", "self.transform(image), self.transform(mask)", "Turn()", True),
        ("x.flip(-1)", "self.transform(image), self.transform(mask)", "transform=Turn()", True),
        ("x.flip(-1)", "self.transform(image), self.transform(mask)", "RandomCrop(3)", True),
        ("x.flip(-1)", "self.transform(image, mask)", "Turn()", False),
        ("x.flip(-1)", "self.transform(image), mask", "Turn()", False),
        ("x.flip(-1)", "self.transform(image), self.transform(mask)", "ToTensor()", False),
        ("x + noise", "self.transform(image), self.transform(mask)", "Turn()", False),
    ],
)
def test_a_transform_that_a_class_is_given_is_known(move, pair, given, found):
    code = CLASSES.format(move=move, pair=pair, given=given)
    expected = ["self.transform(mask)"] if found else []
    assert [text for _, text in found_in(code, drawn_apart)] == expected


def test_a_function_that_moves_by_a_draw_is_one():
    code = (
        "def turned(x):\n    return x.flip(-1) if random.random() < 0.5 else x\n"
        "def pair(image, mask):\n    return turned(image), turned(mask)\n"
    )
    assert [text for _, text in found_in(code, drawn_apart)] == ["turned(mask)"]
