"""`taiyi-fx targets`."""

import re

import pytest


@pytest.mark.parametrize(
    ("key", "shown", "last"),
    [
        ("2", ["2"], "'2' matches 1 module"),
        ("Block", ["0", "1"], "'Block' matches 2 modules"),
        ("*.fc", ["0.fc", "1.fc"], "'*.fc' matches 2 modules"),
        ("torch.nn.Linear", ["0.fc", "1.fc", "2"], "'torch.nn.Linear' matches 3 modules"),
        ("torch.relu", ["0.relu()", "1.relu()"], "'torch.relu' matches 2 calls"),
    ],
)
def test_targets_shows_what_a_key_matches(cli, models, key, shown, last):
    code, out, err = cli("targets", f"{models}:net", key)
    _, _, *rows, told = out.splitlines()
    assert (code, err, told) == (0, "", last)
    assert [re.split("  +", row)[0] for row in rows] == shown


def test_targets_shows_classes_and_shapes(cli, models):
    _, out, _ = cli("targets", f"{models}:net", "0.fc", "--call-args", "width=7", "name=any text")
    assert out.splitlines()[2].split() == "0.fc Linear weight (7, 7), bias (7,)".split()


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("Blok", "'Blok': no module is named or of class 'Blok'. Did you mean 'Block'?"),
        ("x*", "'x*': no module's name fits the pattern 'x*'"),
        ("torch.nn.Conv2d", "'torch.nn.Conv2d': no module of the model matches"),
        ("torch.nn.Linea", "no module is named or of class 'torch.nn.Linea'."),
        ("operator.add", "'operator.add': the model's graph has no call of operator.add"),
    ],
)
def test_a_key_that_matches_nothing_is_told_with_what_may_be_meant(cli, models, key, told):
    code, out, err = cli("targets", f"{models}:net", key)
    assert (code, out) == (1, "")
    assert told in err
