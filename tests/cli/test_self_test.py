"""The self-test of an installation."""

import re

import torch

from taiyi_fx.cli import self_test


def test_a_model_that_computes_something_else_is_broken(cli, monkeypatch):
    step = self_test._step
    monkeypatch.setattr(
        self_test, "_step", lambda *given: [x + torch.rand(()) for x in step(*given)]
    )
    code, out, _ = cli("doctor")
    assert code == 1
    assert "a probed model does not compute what the plain one does" in out


def test_numbers_that_are_not_those_of_float64_are_broken(cli, monkeypatch):
    monkeypatch.setattr(self_test, "_expected", lambda *_: {"WeightNorm": 1e6})
    code, out, _ = cli("doctor")
    assert code == 1
    assert re.search(r"broken +self-test +WeightNorm is \d\.\d+, but 1000000.0", out)


def test_a_self_test_that_raises_is_broken(cli, monkeypatch):
    def raising(*_):
        raise RuntimeError("no kernels")

    monkeypatch.setattr(self_test, "instrument", raising)
    code, out, _ = cli("doctor")
    assert code == 1
    assert "RuntimeError: no kernels" in out


def test_the_self_test_leaves_random_numbers_alone():
    before = torch.get_rng_state()
    assert self_test.self_test() == []
    assert torch.equal(torch.get_rng_state(), before)
