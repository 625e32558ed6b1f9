"""What several backwards bring to one tensor is read as their sum, as autograd adds it up.

The reference adds up, in float64, what hooks see of a plain copy, as ``y.retain_grad()`` does for
``y.grad``. That itself would follow changes in place, and give the gradient after them.
"""

from __future__ import annotations

import copy
import gc
import math
import warnings
import weakref
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import taiyi_fx
from taiyi_fx.passes.probes.retained import Retained
from tests.passes.probes.test_gradient_hook import DoublesGradient

NORMS = ["OutputGradSndNorm", "OutputGradRMS"]  # read of many small tensors at once
QUANTITIES = ["OutputGradSndNorm", "OutputGradAbsMax", "OutputGradCovMaxEig", "BackwardOutput"]
LAYERS = (nn.Linear, nn.LayerNorm, nn.Flatten, nn.Identity)


def is_layer(name: str, module: nn.Module) -> bool:
    return isinstance(module, LAYERS)


class Net(nn.Module):
    """A body and two heads; the second one's loss does not reach the last tensor made."""

    def __init__(self, width: int = 6):
        super().__init__()
        self.first, self.act = nn.Linear(width, 8), nn.ReLU(inplace=True)
        self.middle, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)
        self.side, self.last = nn.Linear(8, 3), nn.Linear(8, 3)

    def body(self, x: Tensor) -> Tensor:
        return self.norm(self.middle(self.act(self.first(x))))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.body(x)
        side = self.side(x)
        return self.last(torch.tanh(x)), side


class Python(Net):
    """Stays Python."""

    def forward(self, x):
        if x.sum() > 1e30:
            x = x / 2
        return super().forward(x)


class Shared(Net):
    """Calls a module twice."""

    def body(self, x):
        return super().body(x) + self.middle(self.middle(x[:, :1].expand(-1, 8)))


class Views(Net):
    """Modules return views and their very input; followers change in place."""

    def __init__(self):
        super().__init__()
        self.flat, self.same = nn.Flatten(), nn.Identity()

    def body(self, x):
        return self.same(self.flat(super().body(x).relu_().unsqueeze(2)))


class Checkpointed(Net):
    def forward(self, x):
        x = checkpoint(self.body, x, use_reentrant=False)
        return self.last(torch.tanh(x)), self.side(x)


KINDS = [Net, Python, Shared, Views, Checkpointed]


def main(y: tuple[Tensor, Tensor], **options: Any) -> None:
    y[0].square().mean().backward(**options)


def side(y: tuple[Tensor, Tensor], **options: Any) -> None:
    (y[1] * 3).sin().mean().backward(**options)


def both_heads(model: Any, x: Tensor) -> None:
    y = model(x)
    main(y, retain_graph=True)
    side(y)


def side_first(model: Any, x: Tensor) -> None:
    y = model(x)
    side(y, retain_graph=True)
    main(y)


def three_times(model: Any, x: Tensor) -> None:
    y = model(x)
    side(y, retain_graph=True)
    main(y, retain_graph=True)
    side(y)


def only_retained(model: Any, x: Tensor) -> None:
    y = model(x)
    main(y, retain_graph=True)
    side(y, retain_graph=True)


def once(model: Any, x: Tensor) -> None:
    y = model(x)
    (y[0].square().mean() + y[1].sum()).backward()


def penalty(model: Any, x: Tensor) -> None:
    x = x.clone().requires_grad_()
    y = model(x)
    (g,) = torch.autograd.grad(y[0].square().sum() + y[1].sin().sum(), x, create_graph=True)
    (g.square().sum() + y[0].sin().sum() + y[1].sum()).backward()


def two_forwards(model: Any, x: Tensor) -> None:
    """The second backward goes through both, the first through one of them."""
    y, z = model(x), model(x + 1)
    main(y, retain_graph=True)
    (y[0] * z[0] + y[1] * z[1]).square().mean().backward()


def forward_between(model: Any, x: Tensor) -> None:
    y = model(x)
    main(y, retain_graph=True)
    z = model(x + 1)
    main(z)
    side(y)


def failed_between(model: Any, x: Tensor) -> None:
    """A forward that fails takes nothing of the gradients before it."""
    y = model(x)
    main(y, retain_graph=True)
    with pytest.raises(RuntimeError):
        model(x[:, :2])
    side(y)


def failed_backward(model: Any, x: Tensor) -> None:
    """What came before a backward failed is added up by autograd, too."""

    def refuse(g: Tensor) -> None:
        raise ArithmeticError("enough")

    y = model(x)
    handle = model.first.weight.register_hook(refuse)
    with pytest.raises(ArithmeticError):
        (y[0].square().mean() + y[1].sum()).backward(retain_graph=True)
    handle.remove()
    (y[0].square().mean() + y[1].sum()).backward()


WAYS = [
    both_heads, side_first, three_times, only_retained, once, penalty, two_forwards,
    forward_between, failed_between, failed_backward,
]  # fmt: skip
Way = Callable[[Any, Tensor], None]


class Reference:
    """A plain model in float64, and the sums of gradients of its modules' outputs."""

    def __init__(self, model: nn.Module) -> None:
        self.model = copy.deepcopy(model).double()
        self.sums: dict[str, list[list[Tensor]]] = defaultdict(list)
        for name, module in self.model.named_modules():
            if isinstance(module, LAYERS):
                module.register_forward_hook(self.keep(name))

    def keep(self, name: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple[Tensor], y: Tensor) -> None:
            if torch._C._current_graph_task_id() == -1 and y.requires_grad:
                came: list[Tensor] = []
                y.register_hook(lambda g: came.append(g.detach()))
                self.sums[name].append(came)

        return hook

    def values(self, calls: int) -> dict[tuple[str, str], Any]:
        """The quantities of one step."""
        found: dict[tuple[str, str], Any] = {}
        for name, sums in self.sums.items():
            times = len(sums) // calls
            for k in range(times):
                gradients = [torch.stack(came).sum(0) for came in sums[k::times] if came]
                if gradients:
                    g = torch.cat(gradients)
                    key = f"{name}@{k}" if k else name
                    found[key, "OutputGradSndNorm"] = math.sqrt(g.square().sum())
                    found[key, "OutputGradRMS"] = math.sqrt(g.square().mean())
                    found[key, "OutputGradAbsMax"] = g.abs().max().item()
                    variances = torch.linalg.svdvals(g - g.mean(0)).square() / (len(g) - 1)
                    found[key, "OutputGradCovMaxEig"] = variances[0].item()
                    found[key, "BackwardOutput"] = g
        self.sums.clear()
        return found


def assert_sums(
    kind: Callable[[], nn.Module],
    go: Way,
    rows: int,
    warm: int,
    quantities: list[str],
    micro: int = 1,
) -> None:
    torch.manual_seed(0)
    model = kind()
    plain = copy.deepcopy(model)
    probed = taiyi_fx.instrument(model, {is_layer: quantities})
    for step in range(warm):
        x = torch.randn(rows, 6)
        once(plain, x)
        once(probed, x)
        probed.monitor.track(step)
    reference = Reference(model)
    for step in range(warm, warm + 2):
        for x in torch.randn(micro, rows, 6):
            go(plain, x)
            go(probed, x)
            go(reference.model, x.double())
        with warnings.catch_warnings():
            if step == warm:
                warnings.filterwarnings("ignore", "(?s).*changed in place before it was read")
            probed.monitor.track(step)
        every = reference.values(CALLS.get(go, 1) * micro)
        expected = {key: value for key, value in every.items() if key[1] in quantities}
        found = {(r.module, r.quantity): r.value for r in probed.monitor.records if r.step == step}
        if warm and step == warm:  # backward of one head brings these in another version
            expected = {key: v for key, v in expected.items() if key not in probed.monitor.missing}
        assert found.keys() == expected.keys()
        for key, value in found.items():
            assert_same(value, expected[key], key)
    for a, b in zip(plain.parameters(), probed.parameters(), strict=True):
        assert (a.grad is None and b.grad is None) or torch.equal(a.grad, b.grad)


def assert_same(value: Any, expected: Any, key: tuple[str, str]) -> None:
    if key[1] != "BackwardOutput":
        assert value == pytest.approx(expected, rel=1e-4, abs=1e-9), key
    else:  # its rows in any order: that of backward may be another
        rows, of_reference = value.sort(0).values, expected.float().sort(0).values
        torch.testing.assert_close(rows, of_reference, rtol=1e-4, atol=1e-5)


CALLS = {two_forwards: 2, forward_between: 2}


@pytest.mark.parametrize("quantities", [NORMS, QUANTITIES], ids=["norms", "all"])
@pytest.mark.parametrize("warm", [0, 2], ids=["first steps", "later steps"])
@pytest.mark.parametrize("rows", [5, 1000], ids=["small", "large"])
@pytest.mark.parametrize("go", WAYS, ids=lambda go: go.__name__)
@pytest.mark.parametrize(
    "kind",
    [Net, *(pytest.param(kind, marks=pytest.mark.exhaustive) for kind in KINDS[1:])],
    ids=lambda kind: kind.__name__,
)
def test_gradients_of_several_backwards_are_added_up(kind, go, rows, warm, quantities):
    assert_sums(kind, go, rows, warm, quantities)


@pytest.mark.parametrize("quantities", [NORMS, QUANTITIES], ids=["norms", "all"])
@pytest.mark.parametrize("warm", [0, 2], ids=["first steps", "later steps"])
@pytest.mark.parametrize("go", [both_heads, side_first, only_retained, penalty, once])
def test_micro_batches_have_sums_of_their_own(go, warm, quantities):
    assert_sums(Net, go, 5, warm, quantities, micro=3)
    assert_sums(Views, go, 5, warm, quantities, micro=20)


@pytest.mark.parametrize("go", [both_heads, penalty, two_forwards], ids=lambda go: go.__name__)
@pytest.mark.parametrize("kind", KINDS[1:], ids=lambda kind: kind.__name__)
def test_so_it_is_of_other_kinds_of_modules(kind, go):
    assert_sums(kind, go, 5, 2, QUANTITIES)


def test_a_sum_is_what_retain_grad_accumulates():
    model = Net()
    probed = taiyi_fx.instrument(model, {"last": ["BackwardOutput"]})
    x = torch.randn(4, 6, requires_grad=True)
    y = probed(x)
    y[0].retain_grad()
    torch.autograd.grad(y[0].square().sum(), x, create_graph=True)
    y[0].sum().backward(retain_graph=True)
    y[0].sin().sum().backward()
    probed.monitor.track(0)
    (record,) = probed.monitor.records
    torch.testing.assert_close(torch.as_tensor(record.value), y[0].grad)


@pytest.mark.parametrize(
    "quantity", ["BackwardInput", "OutputGradCorrelation", "PerSampleGradNorm"]
)
def test_other_readings_of_a_gradient_are_of_the_sum(quantity):
    """Those of this use of the input, of two steps, and of pairs of input and gradient."""
    torch.manual_seed(0)
    values, x = {}, torch.randn(2, 5, 6)
    for is_parted in (False, True):
        torch.manual_seed(1)
        probed = taiyi_fx.instrument(Net(), {"middle": [quantity], "last": [quantity]})
        for step in range(2):
            y = probed(x[step])
            if is_parted:
                main(y, retain_graph=True)
                side(y)
            else:
                (y[0].square().mean() + (y[1] * 3).sin().mean()).backward()
            probed.monitor.track(step)
        values[is_parted] = {
            (r.step, r.module): torch.as_tensor(r.value) for r in probed.monitor.records
        }
    assert values[True].keys() == values[False].keys()
    assert len(values[True]) >= 2
    for key, value in values[True].items():
        torch.testing.assert_close(value, values[False][key], rtol=1e-5, atol=1e-6)


class HandsOn(nn.Module):
    """A module that returns its very input is called twice with one tensor."""

    def __init__(self):
        super().__init__()
        self.first, self.same = nn.Linear(6, 3), nn.Identity()

    def forward(self, x):
        x = self.first(x)
        return self.same(x) * 2 + self.same(x).sin()


def test_calls_that_return_one_tensor_have_its_gradient_each():
    probed = taiyi_fx.instrument(HandsOn(), {"same": ["BackwardOutput"]})
    x = torch.randn(4, 6)
    y, z = probed.first(x).detach().requires_grad_(), probed(x)
    z.square().sum().backward(retain_graph=True)
    z.sum().backward()
    probed.monitor.track(0)
    w = y * 2 + y.sin()
    (w.square().sum() + w.sum()).backward()
    found = {r.module: torch.as_tensor(r.value) for r in probed.monitor.records}
    assert found.keys() == {"same", "same@1"}
    for value in found.values():
        torch.testing.assert_close(value, y.grad)


class Outside(nn.Module):
    def __init__(self):
        super().__init__()
        self.same = nn.Identity()

    def forward(self, x):
        return self.same(x)


def test_forwards_that_return_one_tensor_have_its_gradient_each():
    probed = taiyi_fx.instrument(Outside(), {"same": ["OutputGradSndNorm"]})
    y = torch.ones(4, 6, requires_grad=True) * 2
    z = probed(y) + probed(y)
    z.sum().backward(retain_graph=True)
    z.sum().backward()
    probed.monitor.track(0)
    (record,) = probed.monitor.records
    assert record.value == pytest.approx(math.sqrt(2 * 24) * 4)


def test_gradients_that_are_changed_afterwards_are_read_as_they_came():
    model = nn.Sequential(nn.Linear(6, 8), DoublesGradient(), nn.Tanh())
    probed = taiyi_fx.instrument(model, {"DoublesGradient": ["OutputGradSndNorm"]})
    norms, x = [], torch.randn(4, 6)
    for parts in (1, 2):
        y = probed(x).square().sum()
        for part in range(parts):
            y.backward(retain_graph=part + 1 < parts)
        probed.monitor.track(parts)
        norms += [r.value for r in probed.monitor.records if r.step == parts]
    assert norms[1] == pytest.approx(2 * norms[0])


@pytest.mark.parametrize("rows", [5, 1000], ids=["small", "large"])
def test_nothing_is_kept_longer_than_a_gradient_may_come(rows):
    probed = taiyi_fx.instrument(Net(), {"Linear": ["OutputGradSndNorm"]})
    retained = probed.monitor._tracker._table.board.held.retained
    once(probed, torch.randn(rows, 6))
    assert not retained.sums
    probed.monitor.track(0)
    y = probed(torch.randn(rows, 6))
    main(y, retain_graph=True)
    kept = [weakref.ref(g) for _, g in retained.sums.values()]
    assert len(kept) == 3
    (y[0].sum() + y[1].sum()).backward()
    assert not retained.sums
    del y
    gc.collect()
    assert all(ref() is None for ref in kept)
    x = torch.randn(rows, 6)
    saved = weakref.ref(x)
    only_retained(probed, x)
    del x
    assert retained.sums
    probed.monitor.track(1)
    gc.collect()
    assert not retained.sums
    assert saved() is None


def test_a_monitor_that_pauses_forgets_sums():
    probed = taiyi_fx.instrument(Net(), {"last": ["OutputGradSndNorm"]})
    only_retained(probed, torch.randn(4, 6))
    probed.monitor.pause()
    probed.monitor.resume()
    probed(torch.randn(4, 6))[0].sum().backward()
    probed.monitor.track(0)
    (record,) = probed.monitor.records
    assert record.value == pytest.approx(math.sqrt(12))


def test_what_cannot_be_added_is_told_by_name():
    retained, x = Retained(), torch.ones(3, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: retained.total((), g if g[0] == 1 else g[:2]))
    y.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="size of tensor"):
        (2 * y).sum().backward(retain_graph=True)


class Parted(nn.Module):
    """The loss of the last tensor does not go back into the body."""

    def __init__(self):
        super().__init__()
        self.first, self.side = nn.Linear(6, 8), nn.Linear(8, 3)
        self.last = nn.Sequential(nn.Linear(8, 3), nn.Tanh(), nn.Linear(3, 3))

    def forward(self, x):
        x = torch.tanh(self.first(x))
        side = self.side(x)
        return self.last(x.detach()), side


def parted(cfg: Any) -> Any:
    """An instrumented model after steps, the last of which goes back through its body twice.

    The first of its backwards ends with no function of ours.
    """
    probed = taiyi_fx.instrument(Parted(), cfg)
    for step in range(2):
        once(probed, torch.randn(4, 6))
        probed.monitor.track(step)
    y = probed(torch.zeros(4, 6))
    (y[1] * 2).sum().backward(retain_graph=True)
    main(y)
    y[1].sum().backward()
    return probed


def gradient_of_first(model: Parted) -> float:
    y = model.first.bias.detach().expand(4, 8).requires_grad_()
    (g,) = torch.autograd.grad(model.side(torch.tanh(y)).sum(), y)
    return g.norm().item()


def test_a_backward_that_goes_elsewhere_in_between_ends_no_sum():
    probed = parted({"Linear": ["OutputGradSndNorm"]})
    probed.monitor.track(2)
    found = {r.module: r.value for r in probed.monitor.records if r.step == 2}
    assert len(found) == 4
    assert found["side"] == pytest.approx(3 * math.sqrt(12))
    assert found["first"] == pytest.approx(3 * gradient_of_first(probed))


def test_a_gradient_that_comes_after_the_sum_was_read_is_told():
    """No function was called that the first backward could have told that it keeps the graph."""
    probed = parted({name: ["OutputGradSndNorm"] for name in ("first", "last.0")})
    with pytest.warns(taiyi_fx.MonitorWarning, match="'first': .* one more backward came"):
        probed.monitor.track(2)
    assert {r.module for r in probed.monitor.records if r.step == 2} == {"last.0"}
    for step in (3, 4):
        once(probed, torch.randn(4, 6))
        probed.monitor.track(step)
        assert len([r for r in probed.monitor.records if r.step == step]) == 2


@pytest.fixture
def backwards_may_be_several():
    """Otherwise the compiler lets backward write into what it keeps, and refuses a second one."""
    import torch._functorch.config

    with torch._functorch.config.patch(donated_buffer=False):
        yield


@pytest.mark.usefixtures("backwards_may_be_several")
@pytest.mark.parametrize("is_within", [False, True], ids=["the model", "the code around it"])
@pytest.mark.parametrize("go", [both_heads, only_retained, once])
def test_compiled_code_says_that_it_has_no_sums(go, is_within):
    probed = taiyi_fx.instrument(Net(), {"middle": ["OutputGradSndNorm", "OutputRMS"]})
    if is_within:
        compiled = torch.compile(probed, backend="aot_eager")
    else:
        probed.compile(backend="aot_eager")
        compiled = probed
    once(compiled, torch.randn(4, 6))
    probed.monitor.track(0)
    go(compiled, torch.randn(4, 6))
    if go is once:
        probed.monitor.track(1)
    else:
        with pytest.warns(taiyi_fx.MonitorWarning, match="several backwards ran through one"):
            probed.monitor.track(1)
    once(compiled, torch.randn(4, 6))
    probed.monitor.track(2)
    found = {(r.step, r.quantity) for r in probed.monitor.records}
    every = {(step, q) for step in range(3) for q in ("OutputGradSndNorm", "OutputRMS")}
    assert found == every - ({(1, "OutputGradSndNorm")} if go is not once else set())


@pytest.mark.usefixtures("backwards_may_be_several")
def test_compiled_micro_batches_that_retain_their_graph_are_read():
    probed = taiyi_fx.instrument(Net(), {"last": ["OutputGradSndNorm"]})
    probed.compile(backend="aot_eager")
    for step in range(2):
        for _ in range(3):
            probed(torch.randn(4, 6))[0].sum().backward(retain_graph=True)
        probed.monitor.track(step)
    assert [r.value for r in probed.monitor.records] == pytest.approx([6.0, 6.0])
