"""`taiyi-fx quantities`."""


def test_quantities_are_listed(cli):
    code, out, _ = cli("quantities")
    assert code == 0
    assert len(out.splitlines()) >= 88
    assert "WeightNorm " in out


def test_a_quantity_is_told_in_full(cli):
    code, out, _ = cli("quantities", "InputCovCondition")
    assert code == 0
    assert "arXiv 2002.10801" in out
    code, out, err = cli("quantities", "InputCovCondtion")
    assert (code, out) == (2, "")
    assert err.endswith("Did you mean 'InputCovCondition'?\n")
