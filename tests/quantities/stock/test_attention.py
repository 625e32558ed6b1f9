"""Attention where models compute it: in graphs, in Python, in torch's own modules, in transformers."""

import warnings
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import taiyi_fx
from tests.quantities.of_transformers import tiny, trained
from tests.quantities.references import attention as reference
from tests.quantities.references.attention import OwnSoftmax, SelfAttention

WEIGHTS = ["AttentionLogitMax", "AttentionEntropy", "AttentionSink", "AttentionDistance"]
ALL = [*WEIGHTS, "HeadNorm"]
REFERENCES = (reference.logit_max, reference.entropy, reference.sink, reference.distance)
SDPA = F.scaled_dot_product_attention


class InPython(SelfAttention):
    """Attention in a forward that stays Python."""

    def forward(self, x):
        if x.sum() < -1e9:
            raise ValueError
        return super().forward(x)


class InGraph(nn.Module):
    """Attention in a forward that becomes a graph."""

    def __init__(self, is_own):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)
        self.is_own, self.num_heads = is_own, 2

    def heads(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        q, k = q.unflatten(-1, (2, 3)).transpose(1, 2), k.unflatten(-1, (2, 3)).transpose(1, 2)
        return q, k, v.unflatten(-1, (2, 3)).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.heads(x)
        if self.is_own:
            return ((q @ k.transpose(-1, -2) / 3**0.5).softmax(-1) @ v).transpose(1, 2).flatten(2)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


class Cross(nn.Module):
    """Attention of queries to other keys, by a function as a class's attribute finds it."""

    def forward(self, q, k, mask):
        return F.scaled_dot_product_attention(query=q, key=k, value=k, attn_mask=mask)


class MultiHead(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True, dropout=0.2)
        self.options = options

    def forward(self, x):
        return self.attention(x, x, x, **self.options)[0]


def records(model, *batches, cfg, **options):
    """What is recorded of a step with a call for each batch."""
    watched = taiyi_fx.instrument(model, cfg, strict=True, **options)
    for batch in batches:
        watched(*batch).sum().backward()
    watched.monitor.track(0)
    output = watched.monitor.get_output()
    return {m: {q: v[0] for q, v in found.items()} for m, found in output.items()}


def assert_weights(found, expected):
    for name, of in zip(WEIGHTS, REFERENCES, strict=True):
        right = of(expected)
        if right is None:
            assert name not in found
        else:
            assert found[name] == pytest.approx(right.item(), rel=1e-5, abs=1e-6), name


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).requires_grad_()


@pytest.mark.parametrize("kind", [SelfAttention, InPython, OwnSoftmax])
def test_sites_are_the_modules_whose_forwards_attend(kind):
    model, x = nn.Sequential(kind()), drawn(3, 5, 18)
    found = records(model, (x,), cfg={"*": ALL})
    assert list(found) == ["0.attention()"]
    q, k, _ = reference.parts(x)
    assert_weights(found["0.attention()"], reference.attended(q, k, is_causal=True))
    rms = model(x).double().square().mean().sqrt().item()
    assert found["0.attention()"]["HeadNorm"] == pytest.approx(rms)


@pytest.mark.parametrize("is_own", [False, True])
@pytest.mark.parametrize("backend", [None, "aot_eager"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_graphs_show_calls_and_compiled_code_too(is_own, backend):
    model, x = nn.Sequential(InGraph(is_own), InGraph(is_own)), drawn(2, 4, 6)
    watched = taiyi_fx.instrument(model, {"*": ALL}, strict=True, capture="whole")
    run = watched if backend is None else torch.compile(watched, backend=backend, fullgraph=True)
    run(x).sum().backward()
    watched.monitor.track(0)
    torch.compiler.reset()
    output = watched.monitor.get_output()
    assert list(output) == ["0.attention()", "1.attention()"]
    for name, part, given in (("0", model[0], x), ("1", model[1], model[0](x))):
        q, k, _ = part.heads(given)
        found = {quantity: v[0] for quantity, v in output[f"{name}.attention()"].items()}
        assert_weights(found, reference.attended(q, k, is_causal=not is_own))
        rms = part(given).double().square().mean().sqrt().item()
        assert found["HeadNorm"] == pytest.approx(rms, rel=1e-6)


@pytest.mark.parametrize("kind", [InGraph, InPython])
def test_modules_that_are_not_named_stay_as_they_are(kind):
    width, args = (6, (False,)) if kind is InGraph else (18, ())
    model = nn.ModuleList([kind(*args), kind(*args)])

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = model

        def forward(self, x):
            return self.parts[0](x).sum() + self.parts[1](x).sum()

    found = records(Both(), (drawn(2, 4, width),), cfg={"parts.1": ALL})
    assert list(found) == ["parts.1.attention()"]


def test_micro_batches_are_one_step():
    x = drawn(5, 4, 18)
    parts = records(nn.Sequential(SelfAttention()), (x[:2],), (x[2:],), cfg={"0": ALL})
    whole = records(nn.Sequential(SelfAttention()), (x,), cfg={"0": ALL})
    assert parts["0.attention()"] == pytest.approx(whole["0.attention()"])


def test_cross_attention_with_a_mask_of_padding():
    q, k = drawn(2, 4, 3, 8), drawn(2, 4, 7, 8, seed=1)
    mask = torch.arange(7) < torch.tensor([4, 7])[:, None, None, None]
    found = records(Cross(), (q, k, mask), cfg={"": ALL})["attention()"]
    assert_weights(found, reference.attended(q, k, mask))
    assert "AttentionDistance" not in found


def test_of_heads_whose_masks_differ_it_is_the_mean_of_their_means():
    q, k = drawn(2, 4, 7, 8), drawn(2, 4, 7, 8, seed=1)
    mask = torch.ones(1, 4, 7, 7, dtype=torch.bool)
    mask[:, 1, :6] = False  # of this head one query is left
    mask[:, 2] = False  # and of this one none
    names = ["AttentionEntropy", "AttentionSink", "AttentionAhead", "AttentionAllowed"]
    found = records(Cross(), (q, k, mask), cfg={"": names})["attention()"]
    seen = reference.attended(q, k, mask)
    for name, of in zip(names, (reference.entropy, reference.sink, reference.ahead, reference.allowed), strict=True):  # fmt: skip
        assert found[name] == pytest.approx(of(seen).item(), rel=1e-5), name


@pytest.mark.parametrize("keys", [1, 9])
def test_a_single_query_without_a_mask_has_no_distance(keys):
    q, k = drawn(2, 4, 1, 8), drawn(2, 4, keys, 8, seed=1)
    assert "AttentionDistance" not in records(Cross(), (q, k, None), cfg={"": ALL})["attention()"]


@pytest.mark.parametrize("is_padded", [False, True])
def test_distance_is_from_the_querys_own_key_where_the_mask_forbids_it(is_padded):
    q = torch.zeros(1, 2, 4, 8, requires_grad=True)  # of even weights
    mask = torch.ones(4, 4, dtype=torch.bool).tril(0 if is_padded else -1)
    if is_padded:
        mask = mask & (torch.arange(4) < 2)
    found = records(Cross(), (q, q.clone(), mask), cfg={"": ["AttentionDistance"]})
    # Without a key of its own, or behind the second: 1, (1 + 2) / 2, (1 + 2 + 3) / 3.
    right = (0 + 0.5 + 1.5 + 2.5) / 4 if is_padded else (1 + 1.5 + 2) / 3
    assert found["attention()"]["AttentionDistance"] == pytest.approx(right)


def test_the_function_itself_is_a_key_and_may_be_beside_a_module():
    x = drawn(2, 4, 18)
    model = nn.Sequential(SelfAttention(), nn.Flatten())
    cfg = {SDPA: [*ALL, "OutputRMS"], "0": ALL, F.softmax: []}
    del cfg[F.softmax]
    found = records(model, (x,), cfg=cfg)
    of_function = found["0.scaled_dot_product_attention()"]
    assert of_function.pop("OutputRMS") == pytest.approx(of_function["HeadNorm"])
    assert of_function == found["0.attention()"]
    in_python = records(nn.Sequential(InPython()), (x,), cfg={SDPA: ALL, "0": ALL})
    assert in_python["0.scaled_dot_product_attention()"] == in_python["0.attention()"]


def test_by_head_they_are_vectors():
    x = drawn(2, 4, 18)
    by_head = [[name, "every(1)", {"reduce": "head"}] for name in ALL]
    found = records(nn.Sequential(SelfAttention()), (x,), cfg={"0": by_head})["0.attention()"]
    q, k, _ = reference.parts(x)
    expected = reference.attended(q, k, is_causal=True)
    for name, of in zip(WEIGHTS, REFERENCES, strict=True):
        assert torch.allclose(found[name], of(expected, reduce="head"), atol=1e-6)
    assert found["HeadNorm"].shape == (2,)


def test_a_sample_of_queries_comes_with_its_error():
    x = drawn(2, 200, 18)
    entry = ["AttentionEntropy", "every(1)", {"queries": 50}]
    model = nn.Sequential(SelfAttention(is_causal=False))
    found = records(model, (x,), cfg={"0": [entry]})["0.attention()"]
    whole = records(model, (x,), cfg={"0": ["AttentionEntropy"]})["0.attention()"]
    off = abs(found["AttentionEntropy"] - whole["AttentionEntropy"])
    assert 0 < off < 3 * found["AttentionEntropy.error"] < 0.3


@pytest.mark.parametrize("needs_weights", [True, False])
@pytest.mark.parametrize("mask", [None, "bool", "padding"])
def test_multihead_attention_is_read_inside(needs_weights, mask):
    x = drawn(2, 4, 8)
    options = {"need_weights": needs_weights}
    if mask == "bool":
        options["attn_mask"] = torch.ones(4, 4, dtype=torch.bool).triu(1)
    elif mask == "padding":
        options["key_padding_mask"] = torch.arange(4) > torch.tensor([[1], [3]])
    model = MultiHead(**options)
    found = records(model, (x,), cfg={"MultiheadAttention": WEIGHTS})
    model.eval()
    weights = (
        model.attention(x, x, x, **{**options, "need_weights": True}, average_attn_weights=False)[1]
        .detach()
        .double()
    )
    entropy = torch.special.entr(weights).sum(-1).mean().item()
    assert found["attention.attention()"]["AttentionEntropy"] == pytest.approx(entropy, rel=1e-5)
    assert found["attention.attention()"]["AttentionSink"] == pytest.approx(
        weights[..., 0].mean().item(), rel=1e-5
    )
    assert ("AttentionDistance" in found["attention.attention()"]) is (mask == "bool")


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")  # nothing is trained at the end
def test_a_whole_transformer_of_torch():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    found = records(model, (drawn(2, 4, 8),), cfg={"*": ALL})
    assert list(found) == [f"layers.{i}.self_attn.attention()" for i in (0, 1)]
    evaluated = taiyi_fx.instrument(model.eval(), {"*": WEIGHTS[:1]}, record_eval=True)
    evaluated(drawn(2, 4, 8))
    evaluated.monitor.track(0)
    assert len(evaluated.monitor.records.select(mode="eval")) == 2


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")  # nothing is trained
def test_the_fast_path_of_attention_is_left_off_only_where_one_is_due(monkeypatch):
    calls = []
    fast = torch._native_multi_head_attention
    monkeypatch.setattr(
        torch, "_native_multi_head_attention", lambda *a, **k: calls.append(1) or fast(*a, **k)
    )
    model = MultiHead().eval()
    entry = ["AttentionEntropy", "at_steps(1)"]
    watched = taiyi_fx.instrument(model, {"attention": [entry]}, record_eval=True)
    found = []
    for step in range(3):
        with torch.no_grad():
            watched(drawn(2, 4, 8).detach())
        watched.monitor.track(step)
        found.append(len(calls))
    assert found == [1, 1, 2]
    assert [r.step for r in watched.monitor.records] == [1]


def test_an_activation_checkpoint_is_read_once():
    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = SelfAttention()

        def forward(self, x):
            return checkpoint(self.inner, x, use_reentrant=False)

    x = drawn(2, 4, 18)
    found = records(Checkpointed(), (x,), cfg={"inner": ALL})
    assert found["inner.attention()"] == pytest.approx(
        records(nn.Sequential(SelfAttention()), (x,), cfg={"0": ALL})["0.attention()"]
    )


def test_modules_that_do_not_attend_are_named():
    model = nn.Sequential(nn.Linear(2, 2), SelfAttention())
    with pytest.raises(taiyi_fx.ConfigError) as error:
        taiyi_fx.instrument(model, {"0": ["AttentionSink"], F.relu: ["HeadNorm"]})
    of_module, of_function = error.value.problems
    assert "that module makes no call of attention that can be seen" in of_module
    assert "has a call of relu" in of_function
    with pytest.raises(
        taiyi_fx.ConfigError, match="HeadNorm is not available: .* is not a call of"
    ):
        taiyi_fx.instrument(nn.Sequential(Relu()), {F.relu: ["HeadNorm"]})


@pytest.mark.parametrize("needs_weights", [True, False])
def test_the_heads_outputs_inside_of_multihead_attention(needs_weights):
    x, model = drawn(2, 4, 8), MultiHead(need_weights=needs_weights)
    inner = model.attention
    inner.dropout = 0.0
    found = records(model, (x,), cfg={"attention": ["HeadNorm"]})["attention.attention()"]
    q, k, v = F.linear(x, inner.in_proj_weight, inner.in_proj_bias).double().chunk(3, -1)
    q, k, v = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in (q, k, v))
    output = (q @ k.mT / 2).softmax(-1) @ v
    assert found["HeadNorm"] == pytest.approx(output.square().mean().sqrt().item(), rel=1e-6)


class Relu(nn.Module):
    def forward(self, x):
        return F.relu(x)


def test_a_softmax_without_heads_is_no_attention():
    class Router(nn.Module):
        def forward(self, x):
            return F.softmax(x, dim=-1)

    model = nn.Sequential(SelfAttention(), nn.Flatten(), Router())
    assert list(records(model, (drawn(2, 4, 18),), cfg={"*": WEIGHTS})) == ["0.attention()"]


def test_without_an_allowed_key_there_is_no_record_and_a_reason():
    q = drawn(1, 2, 3, 4)
    model = taiyi_fx.instrument(Cross(), {"": ["AttentionEntropy"]})
    model(q, q, torch.zeros(3, 3, dtype=torch.bool)).sum().backward()
    model.monitor.track(0)
    assert not list(model.monitor.records)
    why = model.monitor.explain("attention()", "AttentionEntropy")
    assert "no query of the attention has a key that it may see" in why


SIZES = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 8, "intermediate_size": 64, "vocab_size": 99, "max_position_embeddings": 64,
    "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "d_model": 32, "d_kv": 8, "d_ff": 64,
    "num_layers": 2, "num_decoder_layers": 2, "num_heads": 4, "image_size": 32, "patch_size": 8,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
}  # fmt: skip
MODELS = {
    "GPT2LMHeadModel": 2,
    "LlamaForCausalLM": 2,
    "MistralForCausalLM": 2,
    "BertForMaskedLM": 2,
    "T5ForConditionalGeneration": 6,
    "ViTForImageClassification": 2,
    "Qwen2ForCausalLM": 2,
    "GemmaForCausalLM": 2,
}
"""How many attentions each has."""


def of_transformers(name, implementation):
    model = tiny(name, SIZES)
    model.set_attn_implementation(implementation)
    return model


def batch_of(name):
    generator = torch.Generator().manual_seed(1)
    if name.startswith("ViT"):
        pixels = torch.randn(2, 3, 32, 32, generator=generator)
        return {"pixel_values": pixels, "labels": torch.tensor([0, 1])}
    ids = torch.randint(3, 99, (2, 9), generator=generator)
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.clone()}


def is_drawn(part):
    return isinstance(part, nn.Dropout) and part.p > 0


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_training_of_transformers_keeps_all_its_bits(name):
    found, batch = {}, partial(batch_of, name)
    for implementation in ("sdpa", "eager"):
        plain = of_transformers(name, implementation)
        expected = trained(plain, plain, batch)
        model = of_transformers(name, implementation)
        watched = taiyi_fx.instrument(model, {"*": ALL}, strict=True)
        made = trained(model, watched, batch)
        assert len(made) == len(expected)
        assert all(map(torch.equal, made, expected))
        found[implementation] = watched.monitor.get_output()
        assert len(found[implementation]) == MODELS[name]
    # Dropout of weights takes no part in them, but that of layers before does in both alike. In the
    # output it does, where each has drawn its own.
    has_dropout = any(is_drawn(part) for part in of_transformers(name, "eager").modules())
    for site, series in found["eager"].items():
        assert set(series) == set(found["sdpa"][site])
        for quantity, values in series.items():
            if quantity == "HeadNorm" and has_dropout:
                continue
            assert values[0] == pytest.approx(found["sdpa"][site][quantity][0], rel=1e-4, abs=1e-5)


def test_a_cache_of_keys_and_values():
    model = of_transformers("LlamaForCausalLM", "sdpa")
    ids = batch_of("")["input_ids"]
    with torch.no_grad():
        cache = model(ids[:, :5], use_cache=True).past_key_values
    watched = taiyi_fx.instrument(model, {"model.layers.0.self_attn": ALL}, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        watched(ids[:, 5:], past_key_values=cache, use_cache=True).logits.sum().backward()
    watched.monitor.track(0)
    (series,) = watched.monitor.get_output().values()
    found = {name: values[0] for name, values in series.items()}
    whole = taiyi_fx.instrument(
        of_transformers("LlamaForCausalLM", "eager"), {"model.layers.0.self_attn": WEIGHTS}
    )
    whole(ids).logits.sum().backward()
    whole.monitor.track(0)
    (of_whole,) = whole.monitor.get_output().values()
    assert found["AttentionLogitMax"] <= of_whole["AttentionLogitMax"][0] + 1e-6
    # Queries 5 to 8 see 6 to 9 keys, all nearly alike in a model that was just made.
    even = sum(torch.tensor(float(n)).log().item() for n in (6, 7, 8, 9)) / 4
    assert found["AttentionEntropy"] == pytest.approx(even, rel=1e-3)
    assert found["AttentionDistance"] == pytest.approx((2.5 + 3 + 3.5 + 4) / 4, rel=1e-2)
