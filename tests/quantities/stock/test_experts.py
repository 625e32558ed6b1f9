"""Experts in the models that have them: transformers', st-moe-pytorch's, and those of one's own."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx
from tests.quantities.of_transformers import tiny, trained
from tests.quantities.references.experts import counts

ALL = ["RouterLoad", "RouterEntropy", ["DeadExperts", "every(1)", {"window": "due"}]]


class Mixture(nn.Module):
    """A mixture of experts as most write it: a Linear as the router, and the top k of it."""

    def __init__(self, experts=4, k=2, width=6):
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(experts))
        self.top_k = k

    def forward(self, x):
        weights, chosen = self.gate(x).topk(self.top_k, dim=-1)
        weights = weights.softmax(-1)
        every = torch.stack([expert(x) for expert in self.experts], dim=-2)
        picked = every.gather(-2, chosen.unsqueeze(-1).expand(*chosen.shape, x.shape[-1]))
        return x + (weights.unsqueeze(-1) * picked).sum(-2)


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def records(model, *batches, cfg, step=0, **options):
    watched = taiyi_fx.instrument(model, cfg, strict=True, **options)
    for batch in batches:
        watched(batch).sum().backward()
    watched.monitor.track(step)
    output = watched.monitor.get_output()
    return {m: {q: v[step] for q, v in found.items()} for m, found in output.items()}


def of_k(k):
    return [["RouterLoad", "every(1)", {"k": k}], ["RouterEntropy", "every(1)", {"k": k}]]


def test_a_linear_router_is_asked_for_by_its_name():
    torch.manual_seed(0)
    model, x = nn.Sequential(Mixture(), Mixture()), drawn(3, 5, 6)
    found = records(model, x, cfg={"*.gate": of_k(2)})
    for name, given in (("0", x), ("1", model[0](x))):
        n = torch.tensor(counts(model.get_submodule(name).gate(given), 2)) / 30
        of = found[f"{name}.gate"]
        assert torch.allclose(of["RouterLoad"], n.double())
        assert of["RouterLoad.imbalance"] == pytest.approx(4 * n.max().item())
        assert of["RouterLoad.busiest"] == pytest.approx(2 * n.max().item())
        assert "RouterLoad.dropped" not in of
    one = records(model, x, cfg={"0.gate": ["RouterLoad"]})["0.gate"]["RouterLoad"]
    assert (one * 15).round().tolist() == counts(model[0].gate(x), 1)  # k is 1 by default


def test_micro_batches_are_one_step():
    torch.manual_seed(0)
    model, x = Mixture(), drawn(6, 5, 6)
    cfg = {"gate": [*of_k(2), ["DeadExperts", "every(1)", {"k": 1}]]}
    parts, whole = records(model, x[:2], x[2:], cfg=cfg), records(model, x, cfg=cfg)
    assert torch.equal(parts["gate"].pop("RouterLoad"), whole["gate"].pop("RouterLoad"))
    assert parts == whole


def test_dead_experts_are_those_of_all_steps_of_a_window():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Identity())
    cfg = {"0": [["DeadExperts", "linear(3, 2)"]]}
    due = {"0": [["DeadExperts", "linear(3, 2)", {"window": "due"}]]}
    for asked, shares in ((cfg, [0.25, 0.5]), (due, [0.75, 0.75])):
        watched = taiyi_fx.instrument(model, asked, strict=True)
        for step, expert in enumerate([0, 1, 3, 2, 2, 3]):
            watched(F.one_hot(torch.tensor([expert]), 4).float().requires_grad_()).sum().backward()
            watched.monitor.track(step)
        assert [r.value for r in watched.monitor.records] == shares


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compiled_code_reads_the_same(backend):
    torch.manual_seed(0)
    model, x = Mixture(), drawn(3, 5, 6)
    cfg = {"gate": of_k(2)}
    expected = records(model, x, cfg=cfg)["gate"]
    watched = taiyi_fx.instrument(model, cfg, strict=True)
    torch.compile(watched, backend=backend, fullgraph=True)(x).sum().backward()
    watched.monitor.track(0)
    torch.compiler.reset()
    found = watched.monitor.get_output()["gate"]
    assert torch.equal(found["RouterLoad"][0], expected["RouterLoad"])
    assert found["RouterEntropy"][0] == expected["RouterEntropy"]


@pytest.mark.filterwarnings("ignore::taiyi_fx.MonitorWarning")
def test_a_block_is_no_router_and_is_told_so_by_name():
    model = Mixture()
    model.num_experts = 4
    watched = taiyi_fx.instrument(model, {"": ["RouterLoad"]})
    watched(drawn(3, 5, 6)).sum().backward()
    with pytest.warns(taiyi_fx.MonitorWarning, match="nothing for each of 4 experts: ask for it"):
        watched.monitor.track(0)


SIZES = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4,
    "head_dim": 8, "intermediate_size": 64, "moe_intermediate_size": 16, "vocab_size": 99,
    "shared_expert_intermediate_size": 16, "max_position_embeddings": 64, "num_experts": 8,
    "num_local_experts": 8, "n_routed_experts": 8, "num_experts_per_tok": 2, "n_group": 4,
    "topk_group": 2, "first_k_dense_replace": 0, "n_shared_experts": 1, "q_lora_rank": None,
    "kv_lora_rank": 8, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8,
    "topk_method": "group_limited_greedy", "decoder_sparse_step": 1, "d_model": 32, "d_kv": 8,
    "d_ff": 64, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 4, "num_sparse_encoder_layers": 1,
    "num_sparse_decoder_layers": 1, "expert_capacity": 3, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2, "decoder_start_token_id": 1,
}  # fmt: skip
MODELS = {
    "MixtralForCausalLM": ("MixtralTopKRouter", 2),
    "Qwen2MoeForCausalLM": ("Qwen2MoeTopKRouter", 2),
    "Qwen3MoeForCausalLM": ("Qwen3MoeTopKRouter", 2),
    "DeepseekV2ForCausalLM": ("DeepseekV2TopkRouter", 2),
    "DeepseekV3ForCausalLM": ("DeepseekV3TopkRouter", 2),
    "OlmoeForCausalLM": ("OlmoeTopKRouter", 2),
    "GptOssForCausalLM": ("GptOssTopKRouter", 2),
    "SwitchTransformersForConditionalGeneration": ("SwitchTransformersTop1Router", 3),
}
"""The class of each model's routers, and how many it has."""


def routing(name):
    """A model whose routers choose: several begin at zero, where all logits are equal."""
    model = tiny(name, SIZES)
    for module in model.modules():
        if "Router" in type(module).__name__:
            for parameter in module.parameters():
                nn.init.normal_(parameter, std=0.5)
    return model


def batch():
    ids = torch.randint(3, 99, (2, 9), generator=torch.Generator().manual_seed(1))
    return {"input_ids": ids, "labels": ids.clone()}


def routed(model, router):
    """What each router of a model returns in the first step."""
    found = {}

    def keep(name, result):
        found.setdefault(name, result)  # and returns nothing, which a hook's result would be

    for name, module in model.named_modules():
        if type(module).__name__ == router:
            module.register_forward_hook(lambda m, given, result, name=name: keep(name, result))
    trained(model, model, batch)
    return found


def shares(result, experts=8):
    """The load by what a router itself says, and the dropped share."""
    if result[0].dtype is torch.int64:  # Switch's mask, of those that an expert had room for
        n = torch.bincount(result[2].argmax(-1).reshape(-1), minlength=experts)
        return n / n.sum(), 1 - result[0].sum().item() / n.sum().item()
    n = torch.bincount(result[2].reshape(-1), minlength=experts)
    return n / n.sum(), None


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_training_of_transformers_keeps_all_its_bits_and_loads_are_their_own(name):
    router, n = MODELS[name]
    plain, model = routing(name), routing(name)
    expected = trained(plain, plain, batch)
    watched = taiyi_fx.instrument(model, {router: ALL}, strict=True)
    made = trained(model, watched, batch)
    assert len(made) == len(expected)
    assert all(map(torch.equal, made, expected))
    found = watched.monitor.get_output()
    results = routed(routing(name), router)
    assert len(found) == len(results) == n
    for site, result in results.items():
        share, dropped = shares(result)
        assert torch.allclose(found[site]["RouterLoad"][0], share.double()), site
        assert found[site]["DeadExperts"][0] == (share == 0).double().mean()
        entropy = torch.special.entr(share.double()).sum().item()
        assert found[site]["RouterEntropy"][0] == pytest.approx(entropy, rel=1e-6)
        own = found[site].get("RouterLoad.dropped")
        assert (own and own[0]) == pytest.approx(dropped)


def test_dispatches_of_st_moe_say_what_was_dropped():
    st_moe = pytest.importorskip("st_moe_pytorch")
    torch.manual_seed(0)
    model = st_moe.MoE(dim=16, num_experts=4, gating_top_n=2)
    x = drawn(2, 32, 16).requires_grad_()
    torch.manual_seed(1)
    plain = model(x).outputs.detach()
    seen = []
    model.gate.register_forward_hook(lambda m, a, result: seen.append(result[0].detach()))
    watched = taiyi_fx.instrument(model, {"gate": ALL, "gate.to_gates": of_k(2)}, strict=True)
    torch.manual_seed(1)
    made = watched(x).outputs
    assert torch.equal(made, plain)
    made.sum().backward()
    watched.monitor.track(0)
    found = watched.monitor.get_output()
    places = seen[0].bool().sum((0, 1, 3))
    assert torch.allclose(found["gate"]["RouterLoad"][0], places / places.sum().double())
    dropped = 1 - places.sum().item() / (2 * 32 * 2)
    assert found["gate"]["RouterLoad.dropped"][0] == pytest.approx(dropped)
    assert found["gate"]["RouterLoad.busiest"][0] == pytest.approx(places.max().item() / 64)
    expected = counts(model.gate.to_gates(x), 2)
    assert (found["gate.to_gates"]["RouterLoad"][0] * 128).round().tolist() == expected
