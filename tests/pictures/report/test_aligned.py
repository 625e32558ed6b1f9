"""Modules of two models are aligned by name, then by structure."""

from taiyi_fx.pictures.report.aligned import Modules, aligned

ROLES = {"ln": "LayerNorm", "qkv": "Linear", "act": "GELU", "out": "Linear"}


def model(pattern, layers, roles=ROLES, **more):
    names = {pattern.format(i, role): cls for i in range(layers) for role, cls in roles.items()}
    names |= more
    return Modules(list(names), names)


def test_modules_of_one_name_are_alike():
    one = model("h.{}.{}", 3)
    assert aligned(one, one) == {}


def test_wrappers_do_not_part_modules():
    plain, compiled = model("h.{}.{}", 2), model("_orig_mod.module.h.{}.{}", 2)
    assert aligned(plain, compiled) == dict(zip(compiled.names, plain.names, strict=True))


def test_other_names_are_aligned_by_classes_in_order():
    first = model("transformer.h.{}.{}", 3, head="Head")
    roles = {"norm": "LayerNorm", "attention": "Linear", "gelu": "GELU", "dense": "Linear"}
    other = model("encoder.layer.{}.{}", 3, roles, head="Head")
    found = aligned(first, other)
    assert found == dict(zip(other.names[:-1], first.names[:-1], strict=True))


def test_what_a_deeper_model_has_more_is_like_nothing():
    first, deeper = model("h.{}.{}", 2), model("h.{}.{}", 4)
    assert aligned(first, deeper) == {}
    renamed = model("blocks.{}.{}", 3)
    found = aligned(first, renamed)
    assert len(found) == len(first.names)
    assert sorted(found.values()) == sorted(first.names)
    assert all(first.classes[like] == renamed.classes[name] for name, like in found.items())


def test_an_inserted_layer_does_not_shift_the_others():
    first = Modules(["a", "b", "c"], {"a": "Conv2d", "b": "ReLU", "c": "Linear"})
    other = Modules(["0", "1", "2", "3"], {"0": "Conv2d", "1": "Norm", "2": "ReLU", "3": "Linear"})
    assert aligned(first, other) == {"0": "a", "2": "b", "3": "c"}


def test_without_classes_the_roles_of_names_tell():
    first, other = Modules(["a.0", "a.1"], {}), Modules(["a.1", "a.7"], {})
    assert aligned(first, other).get("a.1") is None
    assert set(aligned(first, other).values()) <= {"a.0"}


def test_two_modules_never_have_one_like():
    first = model("h.{}.{}", 5)
    other = model("x.module.h.{}.{}", 7)
    found = aligned(first, other)
    assert len(set(found.values())) == len(found)
