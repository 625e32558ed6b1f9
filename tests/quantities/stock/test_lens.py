"""What each block would predict, beside a computation of one's own."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx
from tests.quantities.of_transformers import tiny, trained
from tests.quantities.stock.test_attention import SIZES, batch_of

WORDS, WIDTH = 23, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.linear, self.drop = (
            nn.LayerNorm(WIDTH),
            nn.Linear(WIDTH, WIDTH),
            nn.Dropout(0.1),
        )

    def forward(self, x):
        return x + self.drop(self.linear(self.norm(x)).tanh())


class Model(nn.Module):
    def __init__(self, head=None):
        super().__init__()
        self.words, self.h = nn.Embedding(WORDS, WIDTH), nn.Sequential(*(Block() for _ in range(3)))
        self.norm, self.head = nn.LayerNorm(WIDTH), head or nn.Linear(WIDTH, WORDS)

    def forward(self, ids):
        return self.head(self.norm(self.h(self.words(ids))))


def made(seed=0, **options):
    torch.manual_seed(seed)
    model = Model(**options)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    return model


def ids(*shape, seed=0):
    return torch.randint(WORDS, shape, generator=torch.Generator().manual_seed(seed))


def expected(model, batch, positions):
    """Entropies and agreements of all blocks, in float64, by the definition."""
    torch.manual_seed(5)
    outputs = []
    handles = [b.register_forward_hook(lambda m, a, y: outputs.append(y.detach())) for b in model.h]
    model(batch)
    for handle in handles:
        handle.remove()
    rows = [y.double().reshape(-1, WIDTH) for y in outputs]
    n = len(rows[0])
    chosen = [i * n // positions for i in range(positions)] if n > positions else [*range(n)]
    norm, head = model.norm, model.head
    shares = []
    for x in rows:
        x = F.layer_norm(x[chosen], (WIDTH,), norm.weight.double(), norm.bias.double(), norm.eps)
        shares.append(F.linear(x, head.weight.double(), head.bias.double()).softmax(-1))
    entropies = [-(p * p.log()).sum(-1).mean().item() for p in shares]
    tops = [p.argmax(-1) for p in shares]
    return entropies, [(top == tops[-1]).double().mean().item() for top in tops]


def read(model, cfg, *batches, run=None, **options):
    watched = taiyi_fx.instrument(model, cfg, strict=True, **options)
    run = watched if run is None else run(watched)
    torch.manual_seed(5)
    for batch in batches:
        run(batch).sum().backward()
    watched.monitor.track(0)
    return watched.monitor.get_output()


@pytest.mark.parametrize("positions", [128, 7])
@pytest.mark.parametrize("backend", [None, "aot_eager"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_entropy_and_agreement_are_those_of_the_definition(positions, backend):
    model, batch = made(), ids(3, 9)
    for part in model.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0  # compiled code draws its own numbers
    compiled = (
        None if backend is None else lambda m: torch.compile(m, backend=backend, fullgraph=True)
    )
    cfg = {Block: [["LogitLens", "every(1)", {"positions": positions}]]}
    found = read(model, cfg, batch, run=compiled)
    torch.compiler.reset()
    entropies, agreements = expected(model, batch, positions)
    assert [found[f"h.{i}"]["LogitLens"][0] for i in range(3)] == pytest.approx(entropies, rel=1e-5)
    assert found[""]["LogitLens.agreement"][0].tolist() == pytest.approx(agreements)
    assert agreements[-1] == 1


def test_micro_batches_are_one_step():
    model = made()
    for part in model.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    cfg, batch = {Block: ["LogitLens"]}, ids(4, 6)
    parts, whole = read(model, cfg, batch[:1], batch[1:]), read(model, cfg, batch)
    for i in range(3):
        assert parts[f"h.{i}"]["LogitLens"][0] == pytest.approx(whole[f"h.{i}"]["LogitLens"][0])


def steps(model, run):
    torch.manual_seed(5)
    optimizer, kept = torch.optim.SGD(model.parameters(), lr=0.1), []
    for step in range(3):
        loss = F.cross_entropy(run(ids(4, 6, seed=step)).flatten(0, 1), ids(24, seed=9))
        loss.backward()
        kept += [loss.detach(), *(p.grad.clone() for p in model.parameters())]
        if run is not model:
            run.monitor.track(step)
        optimizer.step()
        optimizer.zero_grad()
    return [*kept, *(p.detach() for p in model.parameters()), torch.get_rng_state()]


def test_training_keeps_all_its_bits_and_hooks_count_the_models_own_calls():
    plain, model, calls = made(), made(), []
    expected_bits = steps(plain, plain)
    model.head.register_forward_hook(lambda m, a, y: calls.append(1))
    watched = taiyi_fx.instrument(model, {Block: ["LogitLens"]}, strict=True)
    assert all(map(torch.equal, steps(model, watched), expected_bits))
    assert len(calls) == 3
    assert len(watched.monitor.get_output()["h.0"]["LogitLens"]) == 3


def test_norm_and_head_may_be_named_and_the_norm_left_out():
    model = made()
    own = {"norm": "norm", "head": "head"}
    found = read(model, {"h.2": [["LogitLens", "every(1)", own]]}, ids(2, 5))
    assert (
        found["h.2"]["LogitLens"]
        == read(model, {"h.2": ["LogitLens"]}, ids(2, 5))["h.2"]["LogitLens"]
    )
    bare = read(model, {"h.2": [["LogitLens", "every(1)", {"norm": ""}]]}, ids(2, 5))
    assert bare["h.2"]["LogitLens"] != found["h.2"]["LogitLens"]


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (nn.Sequential(nn.Linear(2, 2)), {}, "the model has no head that is known by its name"),
        (Model(), {"head": "hed"}, "the model has no module 'hed', which is given as its head"),
        (
            Model(nn.Sequential(nn.Dropout(0.1), nn.Linear(WIDTH, WORDS))),
            {},
            "has a Dropout in its norm or head",
        ),
    ],
)
def test_a_model_without_is_an_error_of_the_configuration(model, options, message):
    cfg = {nn.Linear: [["LogitLens", "every(1)", options]]}
    with pytest.raises(taiyi_fx.ConfigError, match=message) as error:
        taiyi_fx.instrument(model, cfg)
    assert len(error.value.problems) == 1


@pytest.mark.parametrize(
    ("name", "blocks"),
    [("GPT2LMHeadModel", "GPT2Block"), ("LlamaForCausalLM", "LlamaDecoderLayer")],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_the_last_block_of_transformers_predicts_what_the_model_does(name, blocks):
    batch = partial(batch_of, name)
    plain, model = tiny(name, SIZES), tiny(name, SIZES)
    expected_bits = trained(plain, plain, batch)
    watched = taiyi_fx.instrument(model, {blocks: ["LogitLens"]}, strict=True)
    assert all(map(torch.equal, trained(model, watched, batch), expected_bits))
    model = tiny(name, SIZES)
    for part in model.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    watched = taiyi_fx.instrument(model, {blocks: ["LogitLens"]}, strict=True)
    logits = watched(ids(2, 9)).logits
    logits.sum().backward()
    watched.monitor.track(0)
    entropy = torch.distributions.Categorical(logits=logits.double()).entropy().mean().item()
    *_, last = (v["LogitLens"][0] for m, v in watched.monitor.get_output().items() if m)
    assert last == pytest.approx(entropy, rel=1e-5)
