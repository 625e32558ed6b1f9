"""Modules of two models are aligned by name, then by structure."""

from taiyi_fx.outline import Item, Outline
from taiyi_fx.outline.families import family_of
from taiyi_fx.pictures.report.aligned import Modules, aligned, are_alike

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


def written(classes):
    """Modules by the lines ``name Class``, in order, with the families that an outline has."""
    pairs = [line.split() for line in classes.strip().splitlines()]
    names = [name for name, _ in pairs]
    has_parts = {name: any(part.startswith(f"{name}.") for part in names) for name in names}
    families = {name: "" if has_parts[name] else family_of(of) for name, of in pairs}
    items = [
        Item(kind="module", label=name, class_name=of, module=name, family=families[name])
        for name, of in pairs
    ]
    return Modules.of(names, Outline(tuple(items), ()))


def test_a_model_and_its_rewrite_are_aligned_where_classes_have_names_of_their_own():
    published = written("""
        model.embed Embedding
        model.rotary LlamaRotaryEmbedding
        model.layers.0 LlamaDecoderLayer
        model.layers.0.input_layernorm LlamaRMSNorm
        model.layers.0.self_attn LlamaAttention
        model.layers.0.self_attn.q_proj Linear
        model.layers.0.self_attn.o_proj Linear
        model.layers.0.mlp LlamaMLP
        model.layers.0.mlp.up_proj Linear
        model.layers.0.mlp.act_fn SiLUActivation
        model.norm LlamaRMSNorm
    """)
    rewrite = written("""
        tok Embedding
        blocks.0 Block
        blocks.0.norm RMSNorm
        blocks.0.attention A
        blocks.0.attention.wq Linear
        blocks.0.attention.wo Linear
        blocks.0.dropout Dropout
        blocks.0.ffn FFN
        blocks.0.ffn.w1 Linear
        blocks.0.ffn.act SiLU
        norm RMSNorm
    """)
    assert aligned(published, rewrite) == {
        "tok": "model.embed",
        "blocks.0": "model.layers.0",
        "blocks.0.norm": "model.layers.0.input_layernorm",
        "blocks.0.attention": "model.layers.0.self_attn",
        "blocks.0.attention.wq": "model.layers.0.self_attn.q_proj",
        "blocks.0.attention.wo": "model.layers.0.self_attn.o_proj",
        "blocks.0.ffn": "model.layers.0.mlp",
        "blocks.0.ffn.w1": "model.layers.0.mlp.up_proj",
        "blocks.0.ffn.act": "model.layers.0.mlp.act_fn",
        "norm": "model.norm",
    }


def test_without_classes_the_roles_of_names_tell():
    first, other = Modules(["a.0", "a.1"], {}), Modules(["a.1", "a.7"], {})
    assert aligned(first, other).get("a.1") is None
    assert set(aligned(first, other).values()) <= {"a.0"}


def test_two_modules_never_have_one_like():
    first = model("h.{}.{}", 5)
    other = model("x.module.h.{}.{}", 7)
    found = aligned(first, other)
    assert len(set(found.values())) == len(found)


def test_a_discriminator_is_no_version_of_its_generator_and_a_deeper_model_is():
    made = Modules(
        list("0123456"),
        dict(
            zip(
                "0123456",
                ["ConvTranspose2d", "BatchNorm2d", "ReLU"] * 2 + ["ConvTranspose2d"],
                strict=True,
            )
        ),
    )
    judge = Modules(
        list("01234"), dict(zip("01234", ["Conv2d", "LeakyReLU"] * 2 + ["Conv2d"], strict=True))
    )
    assert not are_alike(made, judge)
    assert are_alike(model("h.{}.{}", 2), model("blocks.{}.{}", 12))
    assert are_alike(made, Modules([], {}))
