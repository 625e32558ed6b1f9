"""Loaders that hand out other samples than they seem to."""

import pytest

from taiyi_fx.findings.facts.source.loading import (
    changed_rows,
    copied_generators,
    weights_of_classes,
)
from tests.findings.facts.source.reading import found_in

SAMPLER = """
class_weights = 1.0 / torch.tensor(np.bincount(labels))
weights = {weights}
sampler = WeightedRandomSampler({given})
"""


@pytest.mark.parametrize(
    ("given", "weights", "found"),
    [
        ("class_weights", "None", True),
        ("weights=class_weights, num_samples=n", "None", True),
        ("1.0 / torch.bincount(labels)", "None", True),
        ("weights", "class_weights[labels]", False),
        ("class_weights[labels]", "None", False),
        ("[class_weights[y] for y in labels]", "None", False),
        ("weights", "class_weights.gather(0, labels)", False),
        ("weights", "torch.rand(len(data))", False),
        ("weights", "weights_for_balanced_classes(data, len(classes))", False),
        ("torch.DoubleTensor(weights_of_classes(data))", "None", False),
    ],
)
def test_weights_of_classes_are_told_from_those_of_samples(given, weights, found):
    code = SAMPLER.format(given=given, weights=weights)
    assert bool(found_in(code, weights_of_classes)) == found


LOADER = """
class Tones(Dataset):
    def __init__(self, seed):
        self.rng = {made}
    def __getitem__(self, i):
        return self.{used}.normal()

data = Tones(0)
loader = DataLoader({given}, batch_size=3, {told})
"""


def lines(made="np.random.default_rng(seed)", used="rng", given="data", told="num_workers=2"):
    code = LOADER.format(made=made, used=used, given=given, told=told)
    return [line for line, _ in found_in(code, copied_generators)]


def test_a_generator_that_workers_copy_is_found():
    assert lines() == [9]
    assert lines(given="Tones(3)", told="num_workers=args.workers") == [9]
    assert lines(made="random.Random(seed)") == [9]


@pytest.mark.parametrize(
    "changed",
    [
        {"told": "num_workers=0"},
        {"told": "shuffle=True"},
        {"told": "num_workers=2, worker_init_fn=seeded"},
        {"told": "num_workers=2, **options"},
        {"made": "load(seed)"},
        {"used": "other"},
        {"given": "others"},
    ],
    ids=["none", "no workers", "seeded", "options", "no generator", "not drawn by", "other data"],
)
def test_others_are_none(changed):
    assert lines(**changed) == []


ROWS = """
class Table(Dataset):
    def __getitem__(self, i):
        row = {row}
        if self.drop:
            {change}
        return row, self.y[i]
"""


@pytest.mark.parametrize(
    ("row", "change", "found"),
    [
        ("self.x[i]", "row[torch.rand(8) < 0.1] = 0.0", ["row[torch.rand(8) < 0.1]"]),
        ("self.x[i]", "row[:, torch.randint(8, ())] *= 2", ["row[:, torch.randint(8, ())]"]),
        ("self.x[i, :8]", "row.mul_(torch.rand(8))", ["row.mul_(torch.rand(8))"]),
        ("self.x[i].clone()", "row[torch.rand(8) < 0.1] = 0.0", []),
        ("self.x[i]", "row = row * torch.rand(8)", []),
        ("self.x[i]", "row[0] = 1.0", []),
        ("self.rows[i]", "row['x'] = torch.rand(8)", []),
        ("self.dataset[i]", "row[torch.rand(8) < 0.1] = 0.0", []),
        ("load(i)", "row[torch.rand(8) < 0.1] = 0.0", []),
        ("self.x[i]", "other[torch.rand(8) < 0.1] = 0.0", []),
    ],
)
def test_an_augmentation_of_the_data_themselves_is_found(row, change, found):
    code = ROWS.format(row=row, change=change)
    assert [text for _, text in found_in(code, changed_rows)] == found


def test_other_methods_may_change_what_is_theirs():
    code = ROWS.format(row="self.x[i]", change="row[torch.rand(8) < 0.1] = 0.0")
    assert found_in(code.replace("__getitem__", "spoil"), changed_rows) == []
