"""Attention that a user's own module writes out: in graphs, in Python and in compiled code."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import taiyi_fx
from tests.quantities.references import attention as reference
from tests.quantities.references.hand_written import (
    KINDS,
    LENGTH,
    WIDTH,
    Grouped,
    Head,
    Heads,
    TwoLayers,
    in_python,
)

WEIGHTS = ["AttentionLogitMax", "AttentionEntropy", "AttentionSink", "AttentionDistance"]
ALL = [*WEIGHTS, "HeadNorm"]
BY_HEAD = [[name, "every(1)", {"reduce": "head"}] for name in ("HeadNorm", "AttentionEntropy")]
FORMS = [*KINDS, *map(in_python, KINDS)]
named = pytest.mark.parametrize("kind", FORMS, ids=lambda kind: kind.__name__)


def drawn(seed=0):
    return torch.randn(2, LENGTH, WIDTH, generator=torch.Generator().manual_seed(seed))


def built(kind, dropout=0.0):
    torch.manual_seed(0)
    return TwoLayers(lambda: kind(dropout))


def read(model, x, cfg, run=None):
    watched = taiyi_fx.instrument(model, cfg, strict=True)
    torch.manual_seed(1)
    (run or (lambda m: m))(watched)(x).sum().backward()
    watched.monitor.track(0)
    output = watched.monitor.get_output()
    return {m: {q: v[0] for q, v in found.items()} for m, found in output.items()}


def norms(outputs, reduce="all"):
    axes = (0, 2, 3) if reduce == "head" else (0, 1, 2, 3)
    return outputs.detach().double().square().mean(axes).sqrt()


@named
def test_all_five_are_those_of_the_whole_matrix(kind):
    model, x = built(kind), drawn()
    found = read(model, x, {"*": ALL})
    assert list(found) == ["first.attention()", "second.attention()"]
    given = x
    for part, name in ((model.first, "first"), (model.second, "second")):
        series = found[f"{name}.attention()"]
        assert series["HeadNorm"] == pytest.approx(norms(part.outputs(given)).item(), rel=1e-6)
        if not issubclass(kind, Grouped):  # its softmax has a key more than its logits
            logits = part.logits(given).unsqueeze(1) if issubclass(kind, Head) else None
            expected = reference.of_logits(part.logits(given) if logits is None else logits)
            for quantity, of in zip(
                WEIGHTS[:3], (reference.logit_max, reference.entropy, reference.sink), strict=True
            ):
                assert series[quantity] == pytest.approx(of(expected).item(), rel=1e-5, abs=1e-6)
        given = given + part(given)


@named
def test_each_head_has_its_own(kind):
    model, x = built(kind), drawn()
    found = read(model, x, {"first": BY_HEAD})["first.attention()"]
    expected = norms(model.first.outputs(x), reduce="head")
    assert found["HeadNorm"].shape == found["AttentionEntropy"].shape == (kind.heads_in_all,)
    assert torch.allclose(found["HeadNorm"], expected, rtol=1e-6)


@named
def test_dropout_of_weights_is_part_of_the_output(kind):
    model, x = built(kind, dropout=0.5), drawn()
    torch.manual_seed(1)
    expected = norms(model.first.outputs(x)).item()
    found = read(model, x, {"first": ["HeadNorm"]})["first.attention()"]
    assert found["HeadNorm"] == pytest.approx(expected, rel=1e-6)


@named
def test_training_keeps_all_its_bits(kind):
    def trained(model, run):
        optimizer, kept = torch.optim.SGD(model.parameters(), lr=0.1), []
        torch.manual_seed(3)
        for step in range(3):
            loss = run(drawn(step)).square().mean()
            loss.backward()
            kept.append(loss.detach())
            if run is not model:
                run.monitor.track(step)
            kept += [p.grad.clone() for p in model.parameters()]
            optimizer.step()
            optimizer.zero_grad()
        return [*kept, *(p.detach() for p in model.parameters()), torch.get_rng_state()]

    model = built(kind, dropout=0.3)
    plain = copy.deepcopy(model)
    others = ["OutputRMS", "OutputGradRMS"]
    cfg = {"*": ALL, "Linear": others}
    if any(isinstance(part, nn.Dropout) for part in model.modules()):
        cfg["Dropout"] = others  # between the weights and their product
    watched = taiyi_fx.instrument(model, cfg, strict=True)
    made, expected = trained(model, watched), trained(plain, plain)
    assert all(map(torch.equal, made, expected))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compiled_graphs_show_the_same(kind):
    x = drawn()
    expected = read(built(kind), x, {"*": ALL})
    found = read(
        built(kind), x, {"*": ALL}, lambda m: torch.compile(m, backend="aot_eager", fullgraph=True)
    )
    torch.compiler.reset()
    for site, series in expected.items():
        assert found[site] == pytest.approx(series, rel=1e-6)


def test_the_preset_of_transformers_asks_for_it():
    torch.manual_seed(0)
    model = nn.Sequential(nn.LayerNorm(WIDTH), built(in_python(Head)), built(Heads))
    found = read(model, drawn(), taiyi_fx.preset("transformer"))
    sites = [f"{i}.{name}.attention()" for i in (1, 2) for name in ("first", "second")]
    assert sorted(site for site in found if site.endswith("attention()")) == sites
    for site in sites:
        assert {"AttentionLogitMax", "AttentionEntropy"} <= set(found[site])


def test_micro_batches_are_one_step():
    cfg = {"first": ["HeadNorm", "AttentionEntropy"]}
    for kind in (Heads, in_python(Heads)):
        watched = taiyi_fx.instrument(built(kind), cfg, strict=True)
        for x in drawn().split(1):
            watched(x).sum().backward()
        watched.monitor.track(0)
        output = watched.monitor.get_output()["first.attention()"]
        whole = read(built(kind), drawn(), cfg)["first.attention()"]
        assert {name: values[0] for name, values in output.items()} == pytest.approx(whole)


class Router(nn.Module):
    """A softmax of a linear layer, whose weights mix experts by a product."""

    def __init__(self):
        super().__init__()
        self.gate, self.experts = nn.Linear(WIDTH, 4), nn.Parameter(torch.randn(4, WIDTH, WIDTH))
        self.table = nn.Parameter(torch.randn(WIDTH, 4))

    def forward(self, x):
        weights = F.softmax(self.gate(x), dim=-1)
        mixed = torch.einsum("bte,edf,btd->btf", weights, self.experts, x)
        return mixed @ self.table @ F.softmax(x @ self.table, -1).mT


@pytest.mark.parametrize("kind", [Router, in_python(Router)])
def test_a_softmax_of_a_linear_layer_is_no_attention(kind):
    model = nn.Sequential(built(Heads), kind())
    watched = taiyi_fx.instrument(model, {"*": WEIGHTS})
    watched(drawn()).sum().backward()
    if kind is not Router:
        with pytest.warns(taiyi_fx.MonitorWarning, match="this call was not seen"):
            watched.monitor.track(0)
    else:
        watched.monitor.track(0)
    sites = ["0.first.attention()", "0.second.attention()"]
    assert [site for site in watched.monitor.get_output() if "attention" in site] == sites


class Mixed(Heads):
    """Talking heads: weights of several heads are mixed before the product."""

    def __init__(self, dropout=0.0):
        super().__init__(dropout)
        self.mix = nn.Linear(3, 3, bias=False)

    def outputs(self, x):
        weights = self.logits(x).softmax(-1)
        return self.mix(weights.transpose(1, 3)).transpose(1, 3) @ self.parts(x)[2]


@pytest.mark.parametrize("kind", [Mixed, in_python(Mixed)])
def test_what_a_softmax_hides_is_said_by_name(kind):
    watched = taiyi_fx.instrument(built(kind), {"first": ["HeadNorm", "AttentionEntropy"]})
    watched(drawn()).sum().backward()
    why = "HeadNorm of 'first.attention\\(\\)'.*do not lead to one product"
    with pytest.warns(taiyi_fx.MonitorWarning, match=why):
        watched.monitor.track(0)
    assert list(watched.monitor.get_output()["first.attention()"]) == ["AttentionEntropy"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forward_that_stayed_python_and_was_compiled_says_so_and_is_read_again_in_eager_code():
    watched = taiyi_fx.instrument(built(in_python_but_compiled(Heads)), {"first": ALL})
    run = torch.compile(watched, backend="aot_eager", fullgraph=True)
    for step in range(2):  # the second runs what the first has compiled
        run(drawn()).sum().backward()
        if step == 0:
            with pytest.warns(taiyi_fx.MonitorWarning, match="stayed Python and was compiled"):
                watched.monitor.track(step)
        else:
            watched.monitor.track(step)
    why = watched.monitor.missing["first.attention()", "HeadNorm"]
    assert "leave it out of what is compiled" in why
    torch.compiler.reset()
    watched(drawn()).sum().backward()
    watched.monitor.track(2)
    assert 2 in watched.monitor.get_output()["first.attention()"]["HeadNorm"]


def in_python_but_compiled(kind):
    """A forward that only the compiler follows."""

    def forward(self, x):
        try:
            return kind.forward(self, x)
        except ValueError:
            raise

    return type(f"{kind.__name__}InTry", (kind,), {"forward": forward})
