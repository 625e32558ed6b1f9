"""Loaders that hand out other samples than they seem to."""

import pytest

from taiyi_fx.findings.facts.source.loading import copied_generators, weights_of_classes
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
