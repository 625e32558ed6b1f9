"""The model's own inputs as evidence."""

from taiyi_fx.findings import Distribution, Evidence, GivenInputs


def test_of_a_run_without_its_model_nothing_is_known():
    assert Evidence(()).inputs == GivenInputs({}, {})


def test_each_mode_has_its_own():
    known = GivenInputs(trained={"x": [Distribution(0.0, 1.0)]})
    assert known.evaluated == {}
    assert known.trained["x"][0].deviation == 1
