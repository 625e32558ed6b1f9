"""The list of quantities: what each says of itself, and the page that is made of it."""

from pathlib import Path

import pytest

import taiyi_fx
from taiyi_fx import output, quantity
from taiyi_fx.quantities.catalogue import page

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "quantities.md"


OWN = [info for info in taiyi_fx.quantities() if info.declared_in.startswith("taiyi_fx.")]


@pytest.mark.parametrize("info", OWN, ids=lambda info: info.name)
def test_each_says_what_it_is(info):
    assert info.summary.endswith(".")
    assert info.formula
    assert info.accuracy
    assert info.sites
    assert info.cost
    assert "the output" not in info.summary or "Input" not in info.name


def test_what_is_listed_of_one():
    info = taiyi_fx.quantities()["InputCovCondition"]
    assert info.formula == "lambda_1 / lambda_C, or lambda_1 / lambda_k, k = floor(p C)"
    assert info.source == "arXiv 2002.10801"
    assert info.sites == ("input",)
    assert info.options["centered"] == "True or False, by default True"
    assert set(info.options) == {"centered", "feature_axis", "p", "tensor"}
    assert info.cost == "one C x C product; eigenvalues are computed aside"
    twin = taiyi_fx.quantities()["OutputGradCovCondition"]
    assert twin.sites == ("gradient of the output",)
    assert "output's gradient" in twin.summary
    text = str(info)
    assert text.startswith("InputCovCondition: Condition number")
    assert "arXiv 2002.10801" in text


def test_your_own_are_listed_too():
    @quantity("share", n=output.count)
    def share(n):
        """Half the number
        of elements.

        Which is little.

        Formula: n /
          2
        """
        return n / 2

    info = taiyi_fx.quantities()["share"]
    assert info.summary == "Half the number of elements."
    assert info.details == "Which is little."
    assert info.formula == "n / 2"
    assert info.cost == "nothing"
    assert "share" in str(taiyi_fx.quantities())
    with pytest.raises(KeyError):
        taiyi_fx.quantities()["none"]


def test_the_page_of_all_quantities_is_up_to_date():
    """Made by `make pages`."""
    assert PAGE.read_text(encoding="utf-8") == page()
