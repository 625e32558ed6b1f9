"""Tensors of which an axis is taken for another."""

from taiyi_fx.findings.facts.mistaken_axes import MistakenAxes


def test_the_tensor_is_named_by_the_module_before_it_where_it_is_known():
    assert MistakenAxes("fc", (2, 3), (3, 2)).source == "what 'fc' makes"
    assert MistakenAxes("", (2, 3), (3, 2)).source == "a tensor"
