"""Samples of one condition that are judged by another."""

import pytest

from taiyi_fx.findings.facts.source.conditions import foreign_conditions
from tests.findings.facts.source.reading import found_in

CODE = """
for real, labels in batches:
    wanted = torch.randint(0, 8, (64,))
    fake = {fake}
    loss = bce({judged}, ones)
    loss.backward()
"""


def found(fake="G(z, wanted)", judged="D(fake, labels)"):
    return [text for _, text in found_in(CODE.format(fake=fake, judged=judged), foreign_conditions)]


@pytest.mark.parametrize(
    ("fake", "judged"),
    [
        ("G(z, wanted)", "D(fake, labels)"),
        ("G(z, wanted)", "D(G(z, wanted), labels)"),
        ("generator(z, wanted).detach()", "self.discriminator(fake.detach(), labels)"),
        ("G(z, gen_labels)", "D(fake, labels)"),
    ],
)
def test_a_condition_that_the_sample_was_not_made_by_is_found(fake, judged):
    assert found(fake, judged) == ["labels"]


@pytest.mark.parametrize(
    "changed",
    [
        {"judged": "D(fake, wanted)"},
        {"judged": "D(real, labels)"},
        {"judged": "D(fake)"},
        {"judged": "D(torch.cat([real, fake]), labels)"},
        {"fake": "G(z)"},
        {"fake": "G(z, 0.5)"},
        {"fake": "G(photo)", "judged": "D(fake, photo)"},
        {"judged": "encoder(fake, labels)"},
        {"fake": "G(z, c)\n    c = one_hot(labels)"},
        {"fake": "G(z, c_g)\n    c_g = embed(c)\n    c = labels.to(device)"},
        {"fake": "G(z, c)\n    c, c_d = one(labels), two(labels)", "judged": "D(fake, c_d)"},
    ],
    ids=str,
)
def test_other_samples_are_none(changed):
    assert found(**changed) == []


def test_what_is_made_in_several_ways_is_not_known():
    code = CODE.format(fake="G(z, wanted)", judged="D(fake, labels)")
    more = code.replace("    loss =", "    fake = G(z, labels)\n    loss =", 1)
    assert found_in(more, foreign_conditions) == []
