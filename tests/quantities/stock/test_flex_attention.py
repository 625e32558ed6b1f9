"""Flex attention, eager and compiled, in forwards that stay Python."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.torch_version import TorchVersion

import taiyi_fx
from tests.quantities.references import attention as reference
from tests.quantities.stock.test_attention import ALL, WEIGHTS, assert_weights, drawn

SDPA = F.scaled_dot_product_attention


class Flex(nn.Module):
    """Flex attention, in a forward that stays Python."""

    def __init__(self, attend=flex_attention, score_mod=None, mask_mod=None, **options):
        super().__init__()
        self.attend, self.options = attend, options
        self.score_mod, self.mask_mod = score_mod, mask_mod

    def forward(self, q, k):
        mask = None
        if self.mask_mod is not None:
            shape = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
            mask = create_block_mask(self.mask_mod, *shape, device="cpu")
        return self.attend(q, k, k, self.score_mod, mask, **self.options)


STARTS, BIAS = torch.tensor([2, 0]), torch.linspace(-2, 2, 4 * 9).reshape(4, 9)


def causal(b, h, i, j):
    return i >= j


def padded(b, h, i, j):
    return (i >= j) & (j >= STARTS[b])


def biased(score, b, h, i, j):
    return score * 3 + BIAS[h, i] * (i - j)


def windowed(score, b, h, i, j):
    return torch.where(i - j < 4, score, -torch.inf)


# What torch says of itself, and of its own operations as it traces them.
backends = pytest.mark.parametrize(
    "backend", ["eager", pytest.param("aot_eager", marks=pytest.mark.slow)]
)
of_torch = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
needs_flex = pytest.mark.skipif(
    TorchVersion(torch.__version__) < "2.13", reason="flex attention is not read there"
)


def flex_records(model, *batches, cfg):
    """What is recorded of a step; flex attention has no gradients on a CPU."""
    watched = taiyi_fx.instrument(model, cfg, strict=True)
    for batch in batches:
        assert torch.equal(watched(*batch), model(*batch))
    watched.monitor.track(0)
    output = watched.monitor.get_output()
    return {m: {q: v[0] for q, v in found.items()} for m, found in output.items()}


@needs_flex
@of_torch
@pytest.mark.parametrize("backend", [None, "eager", "aot_eager"])
@pytest.mark.parametrize(
    ("score_mod", "mask_mod", "options"),
    [
        (None, None, {}),
        (biased, None, {"scale": 0.3}),
        (None, causal, {}),
        (biased, padded, {}),
        (windowed, padded, {}),
    ],
)
def test_flex_attention_is_read_as_its_functions_have_it(backend, score_mod, mask_mod, options):
    torch.compiler.reset()
    attend = flex_attention if backend is None else torch.compile(flex_attention, backend=backend)
    model = Flex(attend, score_mod, mask_mod, enable_gqa=True, **options)
    q, k = drawn(2, 4, 9, 6).detach(), drawn(2, 2, 9, 6, seed=1).detach()
    found = flex_records(model, (q, k), cfg={"": ALL})["attention()"]
    assert_weights(found, reference.of_flex(q, k, score_mod, mask_mod, **options))
    assert found["HeadNorm"] == pytest.approx(model(q, k).double().square().mean().sqrt().item())


@needs_flex
@of_torch
@backends
def test_compiled_attention_of_many_layers_is_compiled_once_more_at_most(backend):
    torch.compiler.reset()
    counter = CompileCounterWithBackend(backend)
    attend = torch.compile(flex_attention, backend=counter, fullgraph=True)
    model = Flexes(attend, 12)
    q = drawn(1, 2, 9, 6).detach()
    expected = model(q)
    assert counter.frame_count == 1
    watched = taiyi_fx.instrument(model, {"*": WEIGHTS}, strict=True)
    for step in range(2):
        assert torch.equal(watched(q), expected)
        watched.monitor.track(step)
    assert counter.frame_count == 2
    output = watched.monitor.get_output()
    assert list(output) == [f"layers.{i}.attention()" for i in range(12)]
    for i in range(12):
        found = {name: v[1] for name, v in output[f"layers.{i}.attention()"].items()}
        assert_weights(found, reference.of_flex(q, q, biased))
        q = model.layers[i](q, q)


class Flexes(nn.Module):
    def __init__(self, attend, depth):
        super().__init__()
        self.layers = nn.ModuleList(Flex(attend, biased) for _ in range(depth))

    def forward(self, q):
        for layer in self.layers:
            q = layer(q, q)
        return q


class Differential(nn.Module):
    """Two calls of a compiled function, one right after the other."""

    def forward(self, q, k):
        if q.sum() < -1e9:
            raise ValueError
        first, second = compiled_flex(q, k, k), compiled_flex(k, q, q, biased)
        return first - second


compiled_flex = torch.compile(flex_attention, backend="aot_eager", fullgraph=True)


@needs_flex
@of_torch
def test_calls_of_compiled_flex_attention_are_series_of_their_own():
    torch.compiler.reset()
    q, k = drawn(2, 4, 9, 6).detach(), drawn(2, 4, 9, 6, seed=1).detach()
    found = flex_records(Differential(), (q, k), (q + 1, k), cfg={"": ["AttentionLogitMax"]})
    assert list(found) == ["attention()", "attention()@1"]
    of_first = [reference.of_flex(x, k) for x in (q, q + 1)]
    of_second = [reference.of_flex(k, x, biased) for x in (q, q + 1)]
    for site, of in (("attention()", of_first), ("attention()@1", of_second)):
        right = max(reference.logit_max(each).item() for each in of)
        assert found[site]["AttentionLogitMax"] == pytest.approx(right, rel=1e-5)


def chain(q, calls=None):
    """Three calls of flex attention, noted in a list where there is one."""
    y = flex_attention(q, q, q)
    z = flex_attention(y, q, y.sin(), biased)
    if calls is not None:
        calls += [(q, q), (y, q, biased), (q.cos(), z, None, None, 0.3)]
    return flex_attention(q.cos(), z, z, scale=0.3)


class Chains(nn.Module):
    """Many calls in direct succession, of compiled functions of one call and of several."""

    def __init__(self, **options):
        super().__init__()
        self.chain = torch.compile(chain, fullgraph=True, **options)
        self.attend = torch.compile(flex_attention, fullgraph=True, **options)

    def forward(self, q):
        for i in range(6):
            q = self.chain(q)
            q = self.attend(q, q, q, biased) if i % 2 else q
        return q


@pytest.mark.slow
@needs_flex
@of_torch
@pytest.mark.parametrize("dynamic", [None, pytest.param(True, marks=pytest.mark.exhaustive)])
@backends
def test_all_calls_within_compiled_functions_are_series_of_their_own(backend, dynamic):
    torch.compiler.reset()
    counter = CompileCounterWithBackend(backend)
    model, calls = Chains(backend=counter, dynamic=dynamic), []
    q = drawn(1, 4, 9, 6).detach()
    watched = taiyi_fx.instrument(model, {"": WEIGHTS}, strict=True)
    for step in range(2):
        assert torch.equal(watched(q), model(q))
        watched.monitor.track(step)
    assert counter.frame_count == 4
    for i in range(6):
        q = chain(q, calls)
        if i % 2:
            calls.append((q, q, biased))
            q = flex_attention(q, q, q, biased)
    output = watched.monitor.get_output()
    assert list(output) == ["attention()", *(f"attention()@{i}" for i in range(1, 21))]
    for found, call in zip(output.values(), calls, strict=True):
        assert_weights({name: v[1] for name, v in found.items()}, reference.of_flex(*call))


SLOPES = torch.linspace(0.1, 1, 4)
NO_MASK = create_block_mask(causal, None, None, 9, 9, device="cpu").as_tuple()
OPTIONS = {
    "BACKEND": "AUTO", "PRESCALE_QK": False, "ROWS_GUARANTEED_SAFE": False,
    "BLOCKS_ARE_CONTIGUOUS": False, "WRITE_DQ": True, "OUTPUT_LOGSUMEXP": True, "OUTPUT_MAX": False,
}  # fmt: skip


@torch.compile(backend="aot_eager", fullgraph=True)
def trained_flex(x):
    """Flex attention as on a GPU, where it has gradients: by the operator below the function."""
    q, slopes = x * 2, SLOPES.exp()
    operator = torch.ops.higher_order.flex_attention
    mod = lambda score, b, h, i, j: score + slopes[h] * (i - j)  # noqa: E731
    return operator(q, q.sin(), q, mod, NO_MASK, 0.5, OPTIONS)[0]


class Trained(nn.Module):
    def forward(self, x):
        if x.sum() < -1e9:
            raise ValueError
        return trained_flex(x)


@needs_flex
@of_torch
def test_gradients_of_compiled_flex_attention_stay_as_they_are():
    torch.compiler.reset()
    x, model = drawn(2, 4, 9, 6), Trained()
    plain = model(x)
    (expected,) = torch.autograd.grad(plain.square().sum(), x)
    watched = taiyi_fx.instrument(model, {"": WEIGHTS}, strict=True)
    y = watched(x)
    assert torch.equal(y, plain)
    assert torch.equal(torch.autograd.grad(y.square().sum(), x)[0], expected)
    watched.monitor.track(0)
    found = {q: v[0] for q, v in watched.monitor.get_output()["attention()"].items()}
    q = x.detach() * 2
    mod = lambda score, b, h, i, j: score + SLOPES.exp()[h] * (i - j)  # noqa: E731
    assert_weights(found, reference.of_flex(q, q.sin(), mod, causal, 0.5))


class Outer(nn.Module):
    """A forward that attends, around a part that does."""

    def __init__(self):
        super().__init__()
        self.inner = Differential()

    def forward(self, q, k):
        if q.sum() < -1e9:
            raise ValueError
        return compiled_flex(self.inner(q, k), k, k)


@needs_flex
@of_torch
def test_compiled_flex_attention_whose_caller_is_not_sure_is_said_not_to_be_read():
    torch.compiler.reset()
    model, q = Outer(), drawn(2, 4, 9, 6).detach()
    watched = taiyi_fx.instrument(model, {"": ["AttentionSink"]})
    assert torch.equal(watched(q, q), model(q, q))
    watched.monitor.track(0)
    assert not list(watched.monitor.records)
    assert "was compiled" in watched.monitor.explain("attention()", "AttentionSink")


@of_torch
def test_a_compiled_function_that_many_modules_call_ends_no_training():
    torch.compiler.reset()
    counter = CompileCounterWithBackend("aot_eager")
    attend = torch.compile(lambda q: SDPA(q, q, q), backend=counter, fullgraph=True)

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.attend = attend

        def forward(self, x):
            if x.sum() < -1e9:
                raise ValueError
            return self.attend(x) + SDPA(x, x, x)

    model, x = nn.Sequential(*(Both() for _ in range(12))), drawn(2, 2, 5, 4)
    expected = model(x)
    watched = taiyi_fx.instrument(model, {"*": ["AttentionSink"]}, strict=True)
    assert torch.equal(watched(x), expected)
    assert counter.frame_count == 2
    watched.monitor.track(0)
    assert len(watched.monitor.records) == 12


class FlexAndAnother(nn.Module):
    def forward(self, q):
        if q.sum() < -1e9:
            raise ValueError
        return flex_attention(q, q, q) + F.scaled_dot_product_attention(q, q, q * 2)


@needs_flex
@of_torch
def test_flex_attention_beside_another_has_a_series_of_its_own():
    torch.compiler.reset()
    q = torch.randn(2, 2, 16, 4)
    found = flex_records(FlexAndAnother(), (q,), cfg={"": ["HeadNorm"]})
    expected = flex_attention(q, q, q), SDPA(q, q, q * 2)
    for site, y in zip(("attention()", "attention()@1"), expected, strict=True):
        assert found[site]["HeadNorm"] == pytest.approx(y.square().mean().sqrt().item(), rel=1e-6)
